"""Sizes that are known when a sweep starts: written once, evaluated and checked before a launch."""

import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from quantdsl.errors import LimitError

WORD_MAX = 2**63 - 1


class Symbol(NamedTuple):
    """A size by name, with the bounds that it is declared with."""

    name: str
    lo: int = 0
    hi: int = WORD_MAX

    def __str__(self) -> str:
        return self.name


class Operation(NamedTuple):
    """Two sizes made one."""

    sign: str
    left: "int | Symbol | Operation"
    right: "int | Symbol | Operation"

    def __str__(self) -> str:
        return f"({self.left} {self.sign} {self.right})"


Size = int | Symbol | Operation

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//^": lambda a, b: -(-a // b),
}
"""`//^` divides and rounds up: as many blocks as cover all lanes."""


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that a size is; every part of it is checked.

    Raises LimitError for a symbol outside of its bounds, a division by zero or less, and anything
    that is negative or leaves 64 bits.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, Symbol):
        value = values[size.name]
        if not size.lo <= value <= size.hi:
            raise LimitError(f"{size.name} = {value:,} is not within {size.lo:,}..{size.hi:,}")
        return value
    left, right = evaluate(size.left, values), evaluate(size.right, values)
    if size.sign == "//^" and right <= 0:
        raise LimitError(f"{size}: division by {right}")
    result = _OPERATIONS[size.sign](left, right)
    if not 0 <= result <= WORD_MAX:
        raise LimitError(f"{size} = {result:,} is negative or does not fit 64 bits")
    return result
