"""How low an int param may be set, and from which value on its indices are proven.

A test may set a param below its range, for its feed is short, and a param without a range may be
lowered: so indices and windows are proven, and memory is sized, from the least of these values on.
"""

from fractions import Fraction

from msgspec import Struct, field
from msgspec.structs import replace

from quantdsl.lang import ast
from quantdsl.lang.ast import Span
from quantdsl.lang.diagnostics import ERROR, Diagnostic, Label

LEAST = Fraction(1)
"""Nothing is set lower than this, unless its declaration is: windows and counts begin here."""


class Lowered(Struct, frozen=True):
    """`tests` has the least value that tests set of a param below its declaration, and its place;
    where `free` a param without a range may be as low as `LEAST`, or else the line `held_line`
    is why not."""

    free: bool = False
    tests: dict[str, tuple[Fraction, Span]] = field(default_factory=dict)
    held_line: int = 0

    def least(self, name: str, declared: Fraction, *, ranged: bool) -> Fraction:
        """The least value of a param whose range, or default, begins at `declared`."""
        known = [declared]
        if self.free and not ranged:
            known.append(LEAST)
        if name in self.tests:
            known.append(max(LEAST, self.tests[name][0]))
        return min(known)

    def held(self, line: int) -> "Lowered":
        """Without a range no param is lowered but by tests: something in this line forbids it."""
        return replace(self, free=False, held_line=line)

    def labelled(self, told: list[Diagnostic], without: list[Diagnostic]) -> list[Diagnostic]:
        """The errors of a check; those that are not there `without` what tests set say where."""
        own = {(d.code, d.span) for d in without}
        labels = tuple(
            Label(span, f"{name} is lower here than declared")
            for name, (_, span) in self.tests.items()
        )
        return [
            replace(d, labels=(*d.labels, *labels))
            if d.severity == ERROR and (d.code, d.span) not in own
            else d
            for d in told
        ]


def lowered(file: ast.File) -> Lowered:
    """What the tests of a file set, and params without a range as low as may be."""
    items = [
        item
        for top in file.items
        for item in (top.items if isinstance(top, ast.Strategy) else (top,))
    ]
    lows = {item.name.id: _low(item) for item in items if isinstance(item, ast.ParamDecl)}
    found: dict[str, tuple[Fraction, Span]] = {}
    for binding in (one for item in items if isinstance(item, ast.Test) for one in _sets(item)):
        name, value = binding.name.id, binding.value
        if not isinstance(value, ast.Num):
            continue
        low = found[name][0] if name in found else lows.get(name)
        if low is None or Fraction(value.text) < low:
            found[name] = (Fraction(value.text), value.span)
    return Lowered(free=True, tests=found)


def without_range(file: ast.File) -> bool:
    """Whether any param has neither a range nor choices."""
    return any(
        isinstance(item, ast.ParamDecl) and item.domain is None
        for top in file.items
        if isinstance(top, ast.Strategy)
        for item in top.items
    )


def _sets(test: ast.Test) -> list[ast.Binding]:
    return [binding for step in test.steps if step.kind == "set" for binding in step.bindings]


def _low(param: ast.ParamDecl) -> Fraction | None:
    """Where its range, or its default, begins, if that is written as a number."""
    low = param.domain.low if isinstance(param.domain, ast.Range) else param.default
    return Fraction(low.text) if isinstance(low, ast.Num) else None
