"""`@device(cpu)`, `@device(cuda)`: where the signals of a universe are computed, said in the file.

It stands above an equation, or above a kernel that equations call. A stage lies where its equations
do, and the stages of one strategy lie together: a cross-section needs the columns of what is along
time, and they are larger than all that goes in.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check.context import Context
from quantdsl.lang import ast
from quantdsl.lang.ast import Span

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

NOTE = "device"
WORDS = ("auto", "cpu", "cuda")


class Pin(Struct, frozen=True):
    """Where an equation or a kernel is to be computed: cpu or cuda."""

    place: str
    name: str
    span: Span


def word(note: ast.Annotation) -> str:
    """The one name between the parentheses, or an empty string."""
    if len(note.args) != 1 or note.args[0].name is not None:
        return ""
    value = note.args[0].value
    return value.id if isinstance(value, ast.Name) else ""


def fits(note: ast.Annotation) -> bool:
    """Whether it is `@device(auto)`, `@device(cpu)` or `@device(cuda)`."""
    return word(note) in WORDS


def pins(strategy: "Strategy") -> Iterator[Pin]:
    """What is said of equations, and of the kernels of its file that they call."""
    called = {one.name for one in strategy.library.kernels.values()}
    own = (one for one in strategy.module.file.items if isinstance(one, ast.Kernel))
    for item in (*strategy.node.items, *(one for one in own if one.name.id in called)):
        if isinstance(item, ast.Let | ast.Kernel):
            # Of several, which is an error of its own, the first counts.
            note = next((note for note in item.annotations if note.name == NOTE), None)
            if note is not None and word(note) in WORDS[1:]:
                yield Pin(word(note), item.name.id, note.span)


def hold(cx: Context, strategy: "Strategy") -> None:
    """Report what is to be computed elsewhere than what stands before it."""
    first = pinned(strategy)
    for other in pins(strategy):
        if first is not None and other.place != first.place:
            cx.error(
                "QD0906",
                f"{first.name!r} is to be computed on {first.place}, "
                f"{other.name!r} on {other.place}",
                other.span,
                reason="the stages of a strategy's signals lie together: what stands between them "
                "is larger than what goes in",
                help=f"write @device({first.place}), or delete one of the lines",
            )


def pinned(strategy: "Strategy") -> Pin | None:
    """What the file says of where its signals are computed, if anything."""
    return next(pins(strategy), None)
