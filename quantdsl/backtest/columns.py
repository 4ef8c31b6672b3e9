"""The table of hoisted equations of a sweep: which distinct values it holds, and who reads them.

It has a column for each word of the plan (check/columns.py) and each distinct value of its params;
a lane knows the column of each word it reads. The words of an event lie side by side, so that the
threads of a GPU, which are all at one event, read neighbouring words; or those of a column do, so
that a core, which walks all events with a few lanes, reads a few streams and not a line an event.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.backtest.program import STATE, Memory
from quantdsl.check.columns import Plan
from quantdsl.check.lanes import STEP, column
from quantdsl.devices.work import LaneWork, Runner
from quantdsl.ir.ops import Module

Int64s = npt.NDArray[np.int64]


class Subset(Struct, frozen=True):
    """The distinct values of some params: a lane of `columns_module` for each."""

    params: tuple[str, ...]
    points: Int64s  # for each distinct value, the first point that has it
    numbers: tuple[int, ...]  # of the plan's words that are computed from them
    columns: Int64s  # [word, distinct]: where the columns begin that they are written to


class Table(Struct, frozen=True):
    """The columns of a sweep over so many events."""

    events: int
    width: int
    step: int  # words from one event to the next
    reads: Int64s  # [word, point]: where the column begins that each lane reads
    subsets: tuple[Subset, ...]

    def by_column(self) -> "Table":
        """The same table with the words of each column side by side, not those of an event.

        It cannot be cut into pieces of events.
        """
        subsets = (replace(one, columns=one.columns * self.events) for one in self.subsets)
        return replace(self, step=1, reads=self.reads * self.events, subsets=tuple(subsets))


def table_of(plan: Plan, levels: Mapping[str, npt.NDArray[np.integer]], events: int) -> Table:
    """The columns that points need; `levels` numbers the values of each swept param from 0 on.

    What depends on none of them has one column for all points.
    """
    count = len(next(iter(levels.values())))
    reads = np.empty((len(plan.words), count), np.int64)
    width, subsets = 0, []
    for params in plan.subsets:
        first, which = _distinct([levels[name] for name in params], count)
        numbers = tuple(n for n, (one, _) in enumerate(plan.words) if one.params == params)
        bases = width + np.arange(len(numbers))[:, None] * len(first)
        reads[list(numbers)] = bases + which
        subsets.append(Subset(params, first, numbers, bases + np.arange(len(first))))
        width += len(numbers) * len(first)
    return Table(events, width, width, reads, tuple(subsets))


def filled(
    module_of: Callable[[tuple[str, ...]], Module],
    fields: Mapping[str, str],
    table: Table,
    template: Memory,
    points: Mapping[str, Int64s],
    events: Int64s,
    runner: Runner,
) -> Int64s:
    """The table's words, an array of [event, column] by its size, filled by a runner on the cores.

    `module_of` a subset of params are the lanes that fill its columns, `template` is the state of
    those that will read them; `points` has the words of each swept param at every point, `fields`
    says where in the state they are.
    """
    words = np.zeros((table.events, table.width), np.int64)
    for subset in table.subsets:
        module = module_of(subset.params)
        memory = template.part(module)
        memory.set(STEP, table.step)
        paths = [*(fields[name] for name in subset.params), *map(column, subset.numbers)]
        values = [*(points[name][subset.points] for name in subset.params), *subset.columns]
        work = LaneWork(
            module=module,
            kept=frozenset(),
            template=memory.words,
            params=offsets(memory, paths),
            results=np.empty(0, np.int64),
            points=np.stack(values),
            events=events,
            columns=words,
        )
        runner.run(work, 0, work.n_lanes, lambda *_: None)
    return words


def offsets(memory: Memory, paths: list[str]) -> Int64s:
    """The words of the state at these paths."""
    return np.array([memory.layout.locate(STATE, path).offset_words for path in paths], np.int64)


def _distinct(levels: list[npt.NDArray[np.integer]], count: int) -> tuple[Int64s, Int64s]:
    """The first of `count` points of each distinct combination in order of the levels, and each
    point's."""
    which = np.zeros(count, np.int64)
    first = which[:1]
    for level in levels:
        size = int(level.max()) + 1
        first, which = _ranked(which * size + level, len(first) * size)
    return first, which


def _ranked(codes: Int64s, bound: int) -> tuple[Int64s, Int64s]:
    """As np.unique: where each code stands first, and each one's rank; all are below `bound`."""
    if bound > 8 * len(codes) + 1024:
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return first, which
    seen = np.full(bound, -1, np.int64)
    seen[codes[::-1]] = np.arange(len(codes))[::-1]
    rank = np.cumsum(seen >= 0) - 1
    return seen[seen >= 0], rank[codes]
