"""LLVM IR text of a function that works on W lanes at once: vector types, constants, intrinsics.

A lane's own value is one element of `<W x double>`, `<W x i64>` or `<W x i1>`; the active lanes
are a mask `<W x i1>`, and None stands for all of them.
"""

from typing import NamedTuple

from quantdsl.codegen.target import PREFETCH, TRAILING_ZEROS, Target, gather, scatter, vector_form
from quantdsl.codegen.text import LLVM_TYPE, Text
from quantdsl.errors import InternalError
from quantdsl.ir.ops import ScalarType

RARE = "!1000000"
"""Metadata on a branch whose first way is hardly ever gone; its number is beyond all others."""
METADATA = f'{RARE} = !{{!"branch_weights", i32 1, i32 4000}}'


LINE_WORDS = 8
"""Words of a cache line."""
LINE_BYTES = 8 * LINE_WORDS


class Value(NamedTuple):
    """A scalar of each lane: a vector if it varies, else an LLVM scalar or literal."""

    text: str
    type: ScalarType
    varies: bool


class VectorText(Text):
    """Instructions on `lanes` lanes beside those on scalars."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.intrinsics)
        self.lanes = target.lanes
        self.masks = self.vector("i1")
        self.words = self.vector("i64")
        self.allowed = target.intrinsics
        self.converts = target.converts
        self.few = target.few

    def alloca(self, type_: str, align: int = 8) -> str:
        """Stack memory; a vector of words begins where a register's worth of memory does.

        One such and LLVM puts all that it spills there too: else each lies across two cache lines.
        """
        if type_.startswith("<") and type_ != self.masks:
            align = min(8 * self.lanes, LINE_BYTES)
        return super().alloca(type_, align)

    def vector(self, type_: str) -> str:
        """The vector type of an LLVM scalar type."""
        return f"<{self.lanes} x {type_}>"

    def type_of(self, type_: ScalarType) -> str:
        """The vector type of an IR scalar type."""
        return self.vector(LLVM_TYPE[type_])

    def per_lane(self, first: int, step: int) -> str:
        """The constant vector first, first + step, ..."""
        values = ", ".join(f"i64 {first + step * lane}" for lane in range(self.lanes))
        return f"<{values}>"

    def spread(self, type_: str, scalar: str) -> str:
        """A scalar in every lane."""
        if not scalar.startswith("%"):
            return f"splat ({type_} {scalar})"
        vector = self.vector(type_)
        one = self.pure(f"insertelement {vector} poison, {type_} {scalar}, i64 0")
        zeros = f"{self.vector('i32')} zeroinitializer"
        return self.pure(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def varying(self, value: Value) -> str:
        """A scalar of each lane as a vector."""
        return value.text if value.varies else self.spread(LLVM_TYPE[value.type], value.text)

    def vector_float(self, name: str, *operands: str) -> str:
        """Call the vector form of a float intrinsic that the target is known to lower."""
        type_ = self.vector("float" if name.endswith("f32") else "double")
        full = vector_form(name, self.lanes)
        self.allow(full)
        return self.pure(f"call {type_} @{full}({', '.join(f'{type_} {x}' for x in operands)})")

    def allow(self, intrinsic: str) -> None:
        """Note a call of an intrinsic; one off the target's list is an error of ours."""
        if intrinsic not in self.allowed:
            raise InternalError(f"QD9501 codegen: {intrinsic} is not on the target's list")
        self.called.add(intrinsic)

    def gather(self, addresses: str, mask: str | None, tag: str) -> str:
        """Load a word from each active lane's address."""
        name = gather(self.lanes)
        self.allow(name)
        where = f"{self.vector('ptr')} align 8 {addresses}"
        return self.value(
            f"call {self.words} @{name}({where}, {self.masks} {whole(mask)}, "
            f"{self.words} zeroinitializer){tag}"
        )

    def scatter(self, words: str, addresses: str, mask: str | None, tag: str) -> None:
        """Store a word to each active lane's address."""
        name = scatter(self.lanes)
        self.allow(name)
        where = f"{self.vector('ptr')} align 8 {addresses}"
        masked = f"{self.masks} {whole(mask)}"
        self.do(f"call void @{name}({self.words} {words}, {where}, {masked}){tag}")

    def prefetch(self, address: str) -> None:
        """Have a cache line near by the time it is read; no address is wrong."""
        self.allow(PREFETCH)
        self.do(f"call void @{PREFETCH}(ptr {address}, i32 0, i32 3, i32 1)")

    def rarely(self, condition: str, then: str, otherwise: str) -> None:
        """End the block with a choice that hardly ever falls on `then`: LLVM keeps registers for
        the other way."""
        self.end(f"br i1 {condition}, label %{then}, label %{otherwise}, !prof {RARE}")

    # ---- masks --------------------------------------------------------------------------

    def both(self, mask: str | None, condition: str) -> str:
        """The lanes of a mask for which a condition holds."""
        return condition if mask is None else self.pure(f"and {self.masks} {mask}, {condition}")

    def negated(self, mask: str) -> str:
        """The lanes that are not in a mask."""
        return self.pure(f"xor {self.masks} {mask}, splat (i1 true)")

    def bits(self, mask: str | None) -> str:
        """The mask as an integer, lane 0 lowest."""
        if mask is None:
            return str((1 << self.lanes) - 1)
        number = f"i{self.lanes}"
        bits = self.pure(f"bitcast {self.masks} {mask} to {number}")
        return self.pure(f"zext {number} {bits} to i64")

    def first_lane(self, mask: str) -> str:
        """The number of the lowest active lane; there must be one."""
        self.allow(TRAILING_ZEROS)
        return self.pure(f"call i64 @{TRAILING_ZEROS}(i64 {self.bits(mask)}, i1 true)")

    def any(self, mask: str) -> str:
        """Whether any lane is active."""
        number = f"i{self.lanes}"
        bits = self.pure(f"bitcast {self.masks} {mask} to {number}")
        return self.pure(f"icmp ne {number} {bits}, 0")

    def several(self, mask: str) -> str:
        """Whether more than few lanes are active."""
        bits = self.bits(mask)
        for _ in range(self.few):
            bits = self.pure(f"and i64 {bits}, {self.pure(f'add i64 {bits}, -1')}")
        return self.pure(f"icmp ne i64 {bits}, 0")

    def blend(self, mask: str | None, type_: str, new: str, old: str) -> str:
        """`new` in the active lanes, `old` in the others."""
        if mask is None:
            return new
        return self.pure(f"select {self.masks} {mask}, {type_} {new}, {type_} {old}")


def whole(mask: str | None) -> str:
    """A mask as a vector."""
    return "splat (i1 true)" if mask is None else mask


def declaration(intrinsic: str) -> str:
    """How LLVM is told of an intrinsic on the list of a target with lanes."""
    name, _, last = intrinsic.rpartition(".")
    if intrinsic == TRAILING_ZEROS:
        return f"declare i64 @{intrinsic}(i64, i1)"
    if intrinsic == PREFETCH:
        return f"declare void @{intrinsic}(ptr, i32, i32, i32)"
    if intrinsic.startswith("llvm.masked.load."):
        lanes = name.rpartition(".v")[2].removesuffix("i64")
        return f"declare <{lanes} x i64> @{intrinsic}(ptr, <{lanes} x i1>, <{lanes} x i64>)"
    if "masked" in intrinsic:
        lanes = last.removeprefix("v").removesuffix("p0")
        words, where, mask = (f"<{lanes} x {kind}>" for kind in ("i64", "ptr", "i1"))
        if "gather" in name:
            return f"declare {words} @{intrinsic}({where}, {mask}, {words})"
        return f"declare void @{intrinsic}({words}, {where}, {mask})"
    type_ = "float" if last.endswith("f32") else "double"
    if last.startswith("v"):
        type_ = f"<{last[1:-3]} x {type_}>"
    count = 3 if ".fma." in intrinsic else 1
    return f"declare {type_} @{intrinsic}({', '.join([type_] * count)})"
