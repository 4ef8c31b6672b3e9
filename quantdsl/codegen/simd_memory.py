"""Memory of W lanes: where a place lies for each lane, and moves of one word a lane.

A lane's own memory is `base + lane * lane_step`; its words lie `word_step` words apart. States and
locals are interleaved (lane_step 1): a word of all lanes is one vector, and scalar code that works
on one lane finds its words that far apart. Where lanes have memory in common, which scalar code
takes as it is, what it sees of a lane lies side by side (word_step 1). Memory that all lanes share
has lane_step 0.
"""

from typing import NamedTuple

from quantdsl.codegen.simd_text import Value, VectorText
from quantdsl.codegen.tbaa import AliasTags
from quantdsl.codegen.text import LLVM_TYPE
from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import BOOL_T, F64_T, ScalarType, StructType, Type


class Spot(NamedTuple):
    """A place: `offset` words (and `at`, a vector of words, if there is one) from `base`."""

    base: str
    offset: int
    type: Type
    tag: str
    lane_step: int
    word_step: int = 1
    at: str = ""
    born: str | None = None
    """The lanes that may ever read it: where they are the active ones, a store needs no mask."""

    @property
    def shared(self) -> bool:
        """Whether all lanes see the same word."""
        return self.lane_step == 0 and not self.at


FROM_WORDS = {
    BOOL_T: "icmp ne {words} {x}, zeroinitializer",
    F64_T: "bitcast {words} {x} to {doubles}",
}
TO_WORDS = {BOOL_T: "zext {masks} {x} to {words}", F64_T: "bitcast {doubles} {x} to {words}"}


class Memory:
    """Emits loads and stores of one word a lane."""

    def __init__(self, text: VectorText, layout: Layout, tags: AliasTags) -> None:
        self.text, self.layout, self.tags = text, layout, tags

    def field(self, base: Spot, name: str) -> Spot:
        """The place of a field."""
        assert isinstance(base.type, StructType)
        slot = self.layout.slots(base.type.name)[name]
        tag = self.tags.field(base.type.name, name, slot.type)
        return base._replace(offset=base.offset + slot.offset_words, type=slot.type, tag=tag)

    def load(self, spot: Spot, mask: str | None) -> Value:
        """The scalar at a place, for each active lane."""
        assert isinstance(spot.type, str)
        text = self.text
        if spot.shared:
            return self.load_scalar(self.address(spot), spot.type, spot.tag)
        if spot.lane_step == 1 and not spot.at:
            words = text.value(f"load {text.words}, ptr {self.address(spot)}, align 8{spot.tag}")
        else:
            # The index of an inactive lane is unproven, so its word is not read.
            masked = mask if spot.at else None
            words = text.gather(self.addresses(spot), masked, spot.tag)
        return Value(self.from_words(words, spot.type), spot.type, True)

    def store(self, spot: Spot, value: Value, mask: str | None) -> None:
        """Store a scalar of each lane to its place, in the active lanes."""
        text = self.text
        if spot.shared:
            if value.varies:
                raise InternalError("QD9511 codegen: lanes store different words to one place")
            self.store_scalar(self.address(spot), value.text, value.type, spot.tag)
            return
        masked = mask if spot.at or mask != spot.born else None
        if spot.lane_step > 1 and masked is None and not spot.at and not value.varies:
            for lane in range(text.lanes):  # a scatter would take longer
                address = self.lane_address(spot, str(lane))
                self.store_scalar(address, value.text, value.type, spot.tag)
            return
        words = self.to_words(text.varying(value), value.type)
        if spot.lane_step == 1 and not spot.at:
            address = self.address(spot)
            if masked is not None:
                old = text.value(f"load {text.words}, ptr {address}, align 8{spot.tag}")
                # Else LLVM makes a masked store of it, which no load behind it can be served from.
                old = text.pure(f"freeze {text.words} {old}")
                words = text.blend(masked, text.words, words, old)
            text.do(f"store {text.words} {words}, ptr {address}, align 8{spot.tag}")
        else:
            text.scatter(words, self.addresses(spot), masked, spot.tag)

    def load_scalar(self, address: str, type_: ScalarType, tag: str) -> Value:
        """The scalar at an address."""
        if type_ == BOOL_T:
            word = self.text.value(f"load i64, ptr {address}, align 8{tag}")
            return Value(self.text.pure(f"icmp ne i64 {word}, 0"), type_, False)
        loaded = self.text.value(f"load {LLVM_TYPE[type_]}, ptr {address}, align 8{tag}")
        return Value(loaded, type_, False)

    def store_scalar(self, address: str, value: str, type_: ScalarType, tag: str) -> None:
        """Store a scalar to an address."""
        word, stored = value, LLVM_TYPE[type_]
        if type_ == BOOL_T:
            word, stored = self.text.pure(f"zext i1 {word} to i64"), "i64"
        self.text.do(f"store {stored} {word}, ptr {address}, align 8{tag}")

    def from_words(self, words: str, type_: ScalarType) -> str:
        """Words of memory as a vector of scalars."""
        return self.cast(FROM_WORDS.get(type_), words)

    def to_words(self, value: str, type_: ScalarType) -> str:
        """A vector of scalars as words of memory."""
        return self.cast(TO_WORDS.get(type_), value)

    def cast(self, template: str | None, x: str) -> str:
        """What an instruction makes of a vector; itself without one."""
        if template is None:
            return x
        text = self.text
        types = {"masks": text.masks, "words": text.words, "doubles": text.vector("double")}
        return text.pure(template.format(x=x, **types))

    # ---- addresses ----------------------------------------------------------------------

    def address(self, spot: Spot) -> str:
        """The address of a shared place, or of lane 0 of one without an index."""
        return self.word(spot.base, spot.offset * spot.word_step)

    def addresses(self, spot: Spot) -> str:
        """Each lane's address."""
        text = self.text
        constant = text.per_lane(spot.offset * spot.word_step, spot.lane_step)
        if spot.at:
            index = spot.at
            if spot.word_step > 1:
                index = text.pure(f"mul {text.words} {index}, splat (i64 {spot.word_step})")
            constant = text.pure(f"add {text.words} {index}, {constant}")
        return text.pure(f"getelementptr i64, ptr {spot.base}, {text.words} {constant}")

    def lane_address(self, spot: Spot, lane: str) -> str:
        """The address of one lane's word or aggregate."""
        text, base = self.text, spot.base
        if spot.lane_step:
            step = "i64" if spot.lane_step == 1 else f"[{spot.lane_step} x i64]"
            base = text.pure(f"getelementptr {step}, ptr {base}, i64 {lane}")
        if spot.at:
            index = text.pure(f"extractelement {text.words} {spot.at}, i64 {lane}")
            base = text.pure(f"getelementptr [{spot.word_step} x i64], ptr {base}, i64 {index}")
        return self.word(base, spot.offset * spot.word_step)

    def word(self, address: str, index: int | str) -> str:
        """The address of a word."""
        if index == 0:
            return address
        return self.text.pure(f"getelementptr i64, ptr {address}, i64 {index}")
