"""The IR of a panel's stages: lanes that are instruments, the universe as a whole, or instants.

Every kernel is `lane(state, own, n, made)`. A lane along time goes through n bars of one
instrument, or n instants of the universe; a lane across looks at the instruments of one instant.
`own` is the table of columns between kernels, `made` that of the shown ones, each column `span` or
`made_span` words from the next; a lane sees them from its own words on (ir/own.py). A column
between kernels holds the words of eight instruments side by side, instant by instant, then those of
the next eight: so lanes along time read memory as it comes, and lanes across find eight words of
theirs in a line. A shown column is one of the table that people get: the words of all instruments
side by side, then those of the next instant. What there is one of at an instant is where the first
instrument's word would be. On a GPU all columns are flat like that, in rows of whole warps,
cross-sections read what is shown, too, and what there is one of stands there for each instrument.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from quantdsl.check.panel_across import AcrossBuilder
from quantdsl.check.panel_along import AlongBuilder, WholeBuilder
from quantdsl.check.panel_builder import Builder, Form, Kernel
from quantdsl.check.panel_stages import Stage

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals


class Kernels(NamedTuple):
    """The kernels of a panel in order, and the numbers of the columns between them."""

    all: tuple[Kernel, ...]
    columns: Mapping[str, int]
    warm: int
    """After so many bars all that an instrument's equations need is there."""


def kernels(
    turn: "Signals",
    stages: Iterable[Stage],
    form: Form,
    columns: Mapping[str, int] | None = None,
) -> Kernels:
    """The kernels of the stages, the `usual` ones for after `warm` bars of each instrument.

    `columns` are those that are numbered already.
    """
    table = dict(columns or {})
    wanted: set[str] = set()
    found: list[Kernel] = []
    for stage in reversed(tuple(stages)):
        builder = _builder_of(stage)(turn, stage, table, form)
        mine = wanted if stage.only is None else wanted & stage.only
        found.append(builder.kernel(frozenset(mine)))
        wanted |= set(found[-1].reads)
    needs = [*(one.needs for one in turn.strategy.equations.all), *(one.warm for one in turn.table)]
    most = [need.most for one in needs for _, need in one]
    known = [one for one in most if isinstance(one, int)]
    assert len(known) == len(most)  # what a strategy waits for is a number, other than in std
    warm = max(known, default=0)
    return Kernels(tuple(reversed(found)), table, warm)


def _builder_of(stage: Stage) -> type[Builder]:
    if stage.across:
        return AcrossBuilder
    return WholeBuilder if stage.whole else AlongBuilder
