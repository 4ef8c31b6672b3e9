"""Types as a strategy's author sees them, and how each is stored.

The fixed types (price, qty, money, duration, time, enum) are stored as I64; which instrument,
currency or enum they count is in `of`. `T?` of a float is NaN when missing; of a fixed type it is
the integer MISSING, which lies outside every safe range.
"""

import msgspec

from quantdsl.check import sizes
from quantdsl.ir import ops

MISSING = -(2**63)
"""What a missing value of a fixed type holds; `is na` compares with it."""

INVALID = -(2**53)
"""What a float that is not finite or out of range becomes on its way to a fixed type.

It is orders.FAULT of std: the order gate refuses it with a reason.
"""

SAFE = 2**53
"""Fixed values lie strictly within +-SAFE, so that every target may hold them in a float."""


DIMENSIONED = frozenset({"tensor", "shared", "constant"})
"""Kinds of memory with an index for each dimension."""
SPOKEN = {"clock": "time of day", "str": "text", "void": "nothing"}
"""Kinds that a source never names, as messages call them."""


class Type(msgspec.Struct, frozen=True):
    """`kind` names the family; `of` the instrument, currency, enum, struct or bars it belongs to.

    `elem` and `size` are set for array and ring, and for tensor, shared and constant, whose `dims`
    are the sizes that `size` is the product of.
    """

    kind: str
    of: str = ""
    optional: bool = False
    elem: "Type | None" = None
    size: ops.Size = 0
    dims: tuple[ops.Size, ...] = ()

    def __str__(self) -> str:
        text = SPOKEN.get(self.kind, self.kind)
        if self.kind in ("enum", "struct") or (self.kind == "money" and self.of):
            text = self.of.removeprefix("user.")
        elif self.of == F32.of:
            text = "f32"
        elif self.elem is not None:
            lengths = ", ".join(map(sizes.show, self.dims or (self.size,)))
            text = f"{self.kind}[{self.elem}, {lengths}]"
        return text + ("?" if self.optional else "")

    def plain(self) -> "Type":
        """The same type, not optional."""
        return msgspec.structs.replace(self, optional=False) if self.optional else self

    def missing(self) -> "Type":
        """The same type, optional."""
        return msgspec.structs.replace(self, optional=True)


BOOL = Type("bool")
INT = Type("int")
FLOAT = Type("float")
F32 = Type("float", "<f32>")  # a float that every operation rounds to binary32; of kernels alone
DURATION = Type("duration")
TIME = Type("time")
TICKS = Type("ticks")  # a count of ticks of whichever instrument it meets: `3 ticks`
STR = Type("str")  # compile-time only
NA = Type("na")  # the literal, before it meets a type
VOID = Type("void")
ERROR = Type("error")  # of an expression whose error is already reported

FIXED = frozenset({"price", "qty", "money", "duration", "time", "ticks"})
NUMERIC = FIXED | {"int", "float"}
SCALAR = NUMERIC | {"bool", "enum"}


def price(instrument: str) -> Type:
    """Ticks of an instrument."""
    return Type("price", instrument)


def qty(instrument: str) -> Type:
    """Lots of an instrument."""
    return Type("qty", instrument)


def money(currency: str = "") -> Type:
    """Money units of the account."""
    return Type("money", currency)


def stored(type_: Type) -> ops.ScalarType:
    """How a scalar type is stored."""
    if type_.kind == "bool":
        return ops.BOOL_T
    return ops.F64_T if type_.kind in ("float", "na") else ops.I64_T


def ring_name(type_: Type) -> str:
    """The name of the struct that stores a ring of this type."""
    assert type_.elem is not None
    return f"ring.{stored(type_.elem)}.{type_.size}"


def ir_type(type_: Type) -> ops.Type:
    """The IR type of a value or a place of this type."""
    if type_.kind == "ring":
        return ops.StructType(ring_name(type_))
    if type_.kind in ("array", "tensor"):
        assert type_.elem is not None
        return ops.ArrayType(ir_type(type_.elem), type_.size)
    if type_.kind == "struct":
        return ops.StructType(type_.of)
    return stored(type_)
