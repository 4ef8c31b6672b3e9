"""Where everything lies in memory: types as runs of 8-byte words.

Fields lie in declared order without padding, array elements one after the other; a bool, an i64
and an f64 take one word each. Host code, interpreter and machine code read the same words.
"""

from collections.abc import Iterable, Iterator

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir.ops import ArrayType, BufferType, Module, ScalarType, StructDecl, StructType, Type


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A place inside an aggregate: `words` words that start `offset_words` after its first."""

    offset_words: int
    type: Type
    words: int


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A run of `words` equal scalars: a scalar field, or an array of scalars."""

    path: str
    offset_words: int
    type: ScalarType
    words: int


class Layout:
    """Sizes and offsets for the structs of a linked module; every size must be an int."""

    def __init__(self, structs: Iterable[StructDecl]) -> None:
        self._structs = {struct.name: struct for struct in structs}
        self._slots: dict[str, dict[str, Slot]] = {}
        self._words: dict[str, int] = {}

    def words(self, type_: Type) -> int:
        """Size in words."""
        if isinstance(type_, str):
            return 1
        if isinstance(type_, StructType):
            self.slots(type_.name)
            return self._words[type_.name]
        if isinstance(type_, ArrayType):
            return array_size(type_) * self.words(type_.elem)
        raise InternalError(f"QD9101 layout: a buffer has no size of its own: {type_}")

    def slots(self, struct: str) -> dict[str, Slot]:
        """Field name -> slot, in declared order."""
        known = self._slots.get(struct)
        if known is not None:
            return known
        if struct not in self._structs:
            raise InternalError(f"QD9102 layout: no struct {struct!r} in this module")
        slots: dict[str, Slot] = {}
        offset = 0
        for field in self._structs[struct].fields:
            words = self.words(field.type)
            slots[field.name] = Slot(offset, field.type, words)
            offset += words
        self._slots[struct] = slots
        self._words[struct] = offset
        return slots

    def same(self, other: "Layout", type_: Type) -> bool:
        """Whether a type of this name lies in memory alike in both modules."""
        if isinstance(type_, ArrayType):
            return self.same(other, type_.elem)
        if not isinstance(type_, StructType):
            return True
        mine = self._structs[type_.name]
        return mine == other._structs.get(type_.name) and all(
            self.same(other, field.type) for field in mine.fields
        )

    def locate(self, type_: Type, path: str) -> Slot:
        """The slot at a path such as `e.config.cash`, `orders[3].lots` or `` (the whole)."""
        offset, rest = 0, path
        while rest:
            if isinstance(type_, StructType):
                name, rest = self.leading_field(type_, rest, path)
                slot = self.slots(type_.name)[name]
                offset, type_ = offset + slot.offset_words, slot.type
            elif isinstance(type_, ArrayType):
                index, rest = _leading_index(rest, path)
                if not 0 <= index < array_size(type_):
                    raise InternalError(f"QD9103 layout: {path!r}: index {index} of {type_.size}")
                type_ = type_.elem
                offset += index * self.words(type_)
            else:
                raise InternalError(f"QD9104 layout: {path!r}: a scalar before {rest!r}")
        return Slot(offset, type_, self.words(type_))

    def leaves(self, type_: Type, path: str = "", offset: int = 0) -> Iterator[Leaf]:
        """Every run of scalars, in memory order; arrays of structs give each element's own."""
        if isinstance(type_, str):
            yield Leaf(path, offset, type_, 1)
        elif isinstance(type_, StructType):
            for name, slot in self.slots(type_.name).items():
                inner = f"{path}.{name}" if path else name
                yield from self.leaves(slot.type, inner, offset + slot.offset_words)
        elif isinstance(type_, ArrayType) and isinstance(type_.elem, str):
            yield Leaf(path, offset, type_.elem, array_size(type_))
        elif isinstance(type_, ArrayType):
            step = self.words(type_.elem)
            for index in range(array_size(type_)):
                yield from self.leaves(type_.elem, f"{path}[{index}]", offset + index * step)
        else:
            raise InternalError(f"QD9101 layout: a buffer has no leaves: {type_}")

    def leading_field(self, type_: StructType, rest: str, path: str) -> tuple[str, str]:
        """The field that the rest of a path begins with, and what is behind it.

        Compiler-made names hold dots, so the longest match counts.
        """
        rest = rest.removeprefix(".")
        slots = self.slots(type_.name)
        ends = [i for i, char in enumerate(rest) if char in ".["] + [len(rest)]
        for end in reversed(ends):
            if rest[:end] in slots:
                return rest[:end], rest[end:]
        raise InternalError(f"QD9105 layout: {path!r}: struct {type_.name} has no field {rest!r}")


def field(module: Module, struct: str, path: str) -> Slot:
    """The slot of `path` in a struct of a linked module."""
    return Layout(module.structs).locate(StructType(struct), path)


def array_size(type_: ArrayType) -> int:
    """The number of elements of a linked array type."""
    if not isinstance(type_.size, int):
        raise InternalError(f"QD9106 layout: size {type_.size} is not linked")
    return type_.size


def of_scalars(type_: Type) -> bool:
    """Whether a type is a scalar, or an array of them."""
    return isinstance(type_, str) or (isinstance(type_, ArrayType) and isinstance(type_.elem, str))


def element(type_: Type) -> Type:
    """The element type of an array or buffer."""
    if isinstance(type_, ArrayType | BufferType):
        return type_.elem
    raise InternalError(f"QD9107 layout: {type_} has no elements")


def _leading_index(rest: str, path: str) -> tuple[int, str]:
    text, closed, tail = rest.removeprefix("[").partition("]")
    if not rest.startswith("[") or not closed or not text.isdecimal():
        raise InternalError(f"QD9108 layout: {path!r}: expected [index] at {rest!r}")
    return int(text), tail
