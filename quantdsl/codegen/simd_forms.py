"""How vector code calls functions: their vector forms, one for each kind of arguments.

A function that works on memory of each lane takes the addresses of its aggregates and the mask of
the active lanes, and does for all of them at once what its scalar form does for one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.codegen.function import Shared
from quantdsl.codegen.simd_memory import Spot
from quantdsl.codegen.simd_text import VectorText
from quantdsl.codegen.text import LLVM_TYPE
from quantdsl.ir.ops import Func


class Shape(NamedTuple):
    """How an aggregate that a function is given lies in memory."""

    lane_step: int
    word_step: int
    indexed: bool
    """Whether each lane has its own element of an array."""

    def __str__(self) -> str:
        return f"{self.lane_step}.{self.word_step}{'i' if self.indexed else ''}"


class VectorForm(NamedTuple):
    """A function as vector code calls it."""

    func: str
    masked: bool
    given: tuple[Shape | bool, ...]
    """Of each parameter its shape, or whether a scalar varies."""
    result: Shape | None = None
    """Of an aggregate that it makes."""

    def __str__(self) -> str:
        parts = [*self.given, self.masked, *([] if self.result is None else [self.result])]
        return "_".join(str(int(one)) if isinstance(one, bool) else str(one) for one in parts)


class Wanted(NamedTuple):
    """What vector code asks of the rest of its module."""

    shared: Shared
    scalars: set[str]
    """Functions that are called for one lane at a time."""
    vectors: dict[VectorForm, str]
    """Symbols of functions that work on all lanes at once."""

    def vector(self, form: VectorForm) -> str:
        """The symbol of a function's vector form; that of a shared function tells all of it."""
        signature = self.shared.signatures[form.func]
        symbol = f"v{len(self.vectors)}"
        if signature.external:
            symbol = f"{signature.symbol}.{form}"
        return self.vectors.setdefault(form, symbol)


def shape_of(spot: Spot) -> Shape:
    """How a place lies in memory."""
    return Shape(spot.lane_step, spot.word_step, bool(spot.at))


def parameters(text: VectorText, decl: Func, form: VectorForm) -> Iterator[tuple[str, str]]:
    """The LLVM parameters of a vector form: type and name."""
    if form.masked:
        yield text.masks, "%mask"
    if form.result is not None:
        yield from _aggregate(text, "%result", form.result)
    for index, (param, given) in enumerate(zip(decl.params, form.given, strict=True)):
        if isinstance(given, Shape):
            yield from _aggregate(text, f"%p{index}", given)
        else:
            assert isinstance(param.type, str)
            yield text.type_of(param.type) if given else LLVM_TYPE[param.type], f"%p{index}"


def varying_params(decl: Func, form: VectorForm) -> frozenset[str]:
    """The parameters in which lanes differ."""
    given = zip(decl.params, form.given, strict=True)
    return frozenset(
        param.name for param, one in given if (one.lane_step > 0 if isinstance(one, Shape) else one)
    )


def _aggregate(text: VectorText, name: str, shape: Shape) -> Iterator[tuple[str, str]]:
    yield "ptr", name
    if shape.indexed:
        yield text.words, f"{name}.at"


def result_type(text: VectorText, decl: Func) -> str:
    """The LLVM type of what a vector form returns."""
    return text.type_of(decl.result) if isinstance(decl.result, str) else "void"


def import_form(text: VectorText, decl: Func, form: VectorForm, symbol: str) -> str:
    """The declaration of a vector form of the other part of a program."""
    types = ", ".join(type_ for type_, _ in parameters(text, decl, form))
    return f"declare {result_type(text, decl)} @{symbol}({types})"
