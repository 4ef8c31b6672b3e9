"""Columns of which each lane sees its own: where lanes are no points of a sweep, but parts of data.

Of the parameters `own` and `made` each lane sees what begins at its own words. Lanes come in groups
of `WIDTH`: of `own` the lanes of a group begin `STEP` words apart, and groups `GROUP` words a lane;
of `made` all lanes begin `MADE_STEP` words apart. A word at an index that is the same in all lanes
is another one in each.
"""

from typing import NamedTuple

from quantdsl.ir.ops import Module

OWN, MADE = "own", "made"
WIDTH = 8
"""Lanes of a group: those of the widest vector."""
STEP, GROUP, MADE_STEP = "OWN_STEP", "OWN_GROUP", "MADE_STEP"
"""Sizes of a module that has such columns."""
ROW = "OWN_ROW"
"""Another: words of a column from an instant to the next."""


SPARE = 24
"""Rows behind the last one of flat columns, which lanes load or ask for and nobody reads."""
EARLY = 8
"""How many rows before they load one lanes ask for it."""


class Steps(NamedTuple):
    """Words from lane to lane of a group, for each lane of the groups before, and in `made`."""

    lane: int
    group: int
    made: int


class Window(NamedTuple):
    """How far back equations along time look: `lead` bars before the first one that is wanted.

    Who begins there finds the same to the bit, if so many bars were before as are a multiple of
    `period`: values are summed up in blocks.
    """

    lead: int
    period: int
    heavy: bool = False
    """Whether a bar that is wanted takes far longer than one before."""

    @property
    def anywhere(self) -> bool:
        """Whether a lane may begin at any bar, so that lanes beside it may stand at others."""
        return self.period == 1


def own_steps(module: Module) -> Steps | None:
    """How the lanes' columns lie; None where all lanes see the same."""
    sizes = dict(module.sizes)
    return Steps(sizes[STEP], sizes[GROUP], sizes[MADE_STEP]) if STEP in sizes else None
