"""What names, values and places are in a function in the making."""

from typing import NamedTuple

from quantdsl.ir.ops import ScalarType, Type


class Value(NamedTuple):
    """A scalar: an LLVM value or literal."""

    text: str
    type: ScalarType


class Spot(NamedTuple):
    """A place: `offset` words after the address `base`; `tag` where it is a scalar or array."""

    base: str
    offset: int
    type: Type
    tag: str
    word_step: int
    """Words of memory from one word of it to the next."""


class Local(NamedTuple):
    """A name in scope; `text` is its value, or its address where it is `in_memory`."""

    text: str
    type: Type
    in_memory: bool
