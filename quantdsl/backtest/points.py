"""The points of a sweep: the grid of the params' values, without what `require` refuses.

A grid has an axis a swept param; its points are numbered with the last axis turning fastest, and
a point keeps its number whatever else is run, so that results of any two sweeps of one grid can be
laid side by side. Values are exact decimals, as if each had been given with `--set`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain, repeat
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl import limits
from quantdsl.backtest import sobol, values
from quantdsl.check.grid import Steps
from quantdsl.check.grid import points as declared_points
from quantdsl.check.params import Param
from quantdsl.errors import ConfigError, LimitError

Int64s = npt.NDArray[np.int64]
BLOCK_POINTS = 1 << 18
"""Points that are judged at once, so that a large grid needs little memory beside its result."""
COUNT = re.compile(r"[1-9][0-9]{0,39}")
"""Of points in a subset: none is too long for Python to read."""
DRAWS_LEAST = 1 << 20
"""Points drawn of a grid too large to look at all of it, before a subset is left with fewer."""
UNORDERED = ("bool", "word")
"""Kinds of params whose values have no order."""
DRAWS_MAX = 64
"""Points drawn for each one wanted, before it is looked whether `require` admits so few."""


class Axis(Struct, frozen=True, dict=True):
    """A swept param and its values, in order."""

    param: Param
    values: Sequence[Fraction]

    def words(self, levels: npt.NDArray[np.int32]) -> Int64s:
        """What the state's word holds for each of these values, by their place."""
        if len(levels) < len(self.values):  # few of a long axis
            places, which = np.unique(levels, return_inverse=True)
            return self._made(places.tolist())[which]
        return self._all[levels]

    @cached_property
    def _all(self) -> Int64s:
        return self._made(range(len(self.values)))

    def _made(self, places: Iterable[int]) -> Int64s:
        kind = np.int64 if self.param.whole else np.float64
        words = [self.param.word(self.values[place]) for place in places]
        return np.array(words, kind).view(np.int64)


class Grid(Struct, frozen=True):
    """Every combination of the axes' values; the other params keep one value each."""

    axes: tuple[Axis, ...]
    fixed: Mapping[str, Fraction]

    @property
    def size(self) -> int:
        """Points of the whole grid."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def seen_whole(self) -> bool:
        """Whether it is small enough to look at all of its points."""
        return self.size <= limits.SWEEP_POINTS

    def levels(self, numbers: Int64s) -> npt.NDArray[np.int32]:
        """[axis, point]: which value of each axis the points have."""
        found = np.empty((len(self.axes), len(numbers)), np.int32)
        rest = numbers
        for row, axis in reversed(list(enumerate(self.axes))):
            rest, found[row] = np.divmod(rest, len(axis.values))
        return found

    def words(self, levels: npt.NDArray[np.int32]) -> Int64s:
        """[axis, point]: the words of the state that these values become."""
        found = np.empty(levels.shape, np.int64)
        for row, axis in enumerate(self.axes):
            found[row] = axis.words(levels[row])
        return found

    def describe(self) -> str:
        """The axes as `--range` takes them."""
        return " x ".join(f"{axis.param.name}={_shown(axis)}" for axis in self.axes)


def _shown(axis: Axis) -> str:
    count = len(axis.values)
    shown = [
        values.show(axis.param, axis.values[i]) for i in ((0, -1) if count > 3 else range(count))
    ]
    return ",".join(shown) if count <= 3 else f"{shown[0]}..{shown[1]} ({count:,} values)"


def grid(
    params: Sequence[Param], sets: Mapping[str, object], ranges: Mapping[str, str]
) -> tuple[Grid, list[str]]:
    """The grid of a strategy's ranges, and notes on what is not swept.

    `ranges` replace a declared range (`5..50:5`, `1%, 2%, 5%`), and what `sets` sets is not swept.
    Raises ConfigError where a name or a value does not fit.
    """
    fixed = values.chosen(params, sets)
    for name in ranges:
        values.named(params, name)
        if name in sets:
            raise ConfigError(f"{name} is given a value and a range; take one of them")
    axes, notes = [], []
    for param in params:
        if param.name in ranges:
            axes.append(Axis(param, ranged(param, ranges[param.name])))
        elif param.name not in sets and param.low is not None and param.high is not None:
            if param.step is None and not param.log_count and not param.whole:
                example = f"{_number(param.low)}..{_number(param.high)}:STEP"
                notes.append(
                    f"{param.name} has a range without a step and stays at "
                    f"{values.show(param, param.default)}; the range {example} sweeps it "
                    f"(--range {param.name}={example}, in Python ranges=)"
                )
                continue
            axes.append(Axis(param, declared_points(param)))
    if not axes:
        ranged_ones = [param.name for param in params if param.low is not None]
        why = "no param of the strategy has a range"
        help_ = (
            "declare one, as param n = 10 in 5..50 step 5, or give it the range 5..50:5 "
            "(--range n=5..50:5, in Python ranges=)"
        )
        if ranged_ones:
            why = f"{', '.join(ranged_ones)}: each is given one value, or has no step"
            help_ = (
                "give no value to one (--set, [params], an argument of Python), or give it a range "
                f"(--range {ranged_ones[0]}=..., in Python ranges=)"
            )
        raise ConfigError(f"there is nothing to sweep: {why}\nhelp: {help_}")
    swept = {axis.param.name for axis in axes}
    return Grid(tuple(axes), {n: v for n, v in fixed.items() if n not in swept}), notes


def _number(value: Fraction) -> str:
    return f"{float(value):g}"


def ranged(param: Param, text: str) -> Sequence[Fraction]:
    """The values that `LOW..HIGH:STEP`, `LOW..HIGH` of whole numbers or `A, B, C` names.

    Numbers ascend however they were listed, so that those next to each other are neighbours.
    """
    form = "help: write LOW..HIGH:STEP, such as 5..50:5, or values with commas, such as 5,10"
    if not all(part.strip() for part in re.split(r"\.\.|:|,", text)):
        raise ConfigError(f"range {param.name}={text}: a value is missing\n{form}")
    low, dots, rest = text.partition("..")
    if not dots:
        listed = [values.value(param, part.strip()) for part in text.split(",")]
        if len(set(listed)) < len(listed):
            raise ConfigError(f"range {param.name}={text}: a value stands there twice")
        return listed if param.kind in UNORDERED else sorted(listed)
    if param.kind in UNORDERED:
        raise ConfigError(f"range {param.name}={text}: give its values, separated by commas")
    if word := re.search(r"\b(step|log)\b", rest):
        raise ConfigError(
            f"range {param.name}={text}: {word[0]!r} is a word of the strategy's file\n{form}"
        )
    high, colon, by = rest.partition(":")
    first, last = values.value(param, low), values.value(param, high)
    if not colon and param.kind != "int":
        raise ConfigError(f"range {param.name}={text}: a step is missing, as {text}:STEP")
    step = values.number(param, by) if colon else Fraction(1)
    if step <= 0 or not values.counts(param, step):
        raise ConfigError(f"range {param.name}={text}: {by} is no step to count with")
    if first > last:
        raise ConfigError(
            f"range {param.name}={text}: the range is empty\nhelp: put its low end first"
        )
    if last - first >= limits.POINTS * step:  # before Steps, whose length is no more than 64 bits
        raise LimitError(
            f"range {param.name}={text} has more values than {limits.POINTS}\n"
            "help: take wider steps"
        )
    return Steps(first, step, last)


# ---- which points are run ----------------------------------------------------------------------


class Judge(Protocol):
    """Says which points `require` admits."""

    def admits(self, words: Int64s) -> npt.NDArray[np.bool_]:
        """For each point of words[axis, point]."""


def chosen(grid: Grid, judge: Judge, points: str, seed: int, said: str = "") -> Int64s:
    """The numbers of the points to run, ascending: `grid`, `random:N` or `sobol:N`, which was
    `said` so.

    Raises ConfigError where none is admitted, LimitError where there are more than a sweep takes.
    """
    kind, wanted = parsed(points, said or f"points {points}")
    no_draw = kind != "sobol" or wanted >= grid.size  # which may be all of the grid
    if no_draw and grid.seen_whole:
        found = np.concatenate(list(_admitted(grid, judge)))
        if kind == "random" and wanted < len(found):
            rng = np.random.default_rng(seed)
            found = np.sort(rng.choice(found, wanted, replace=False))
    elif kind == "grid":
        raise LimitError(
            f"the grid {grid.describe()} has {grid.size:,} points: more than "
            f"{limits.SWEEP_POINTS}\nhelp: {FEWER}"
        )
    else:
        found = _drawn(grid, judge, kind, wanted, seed)
    if not len(found):
        which, more = "no point drawn from", ", or draw more points (--points, in Python points=)"
        if grid.seen_whole:
            which, more = f"none of the {grid.size:,} points of", ""
        raise ConfigError(
            f"{which} {grid.describe()} satisfies what the strategy requires\n"
            f"help: mend a range (--range, in Python ranges=), or the condition{more}"
        )
    return found


FEWER = (
    "take wider steps in a range (--range, in Python ranges=), or a subset (--points random:N or "
    "--points sobol:N, in Python points=)"
)


def parsed(points: str, said: str) -> tuple[str, int]:
    """Which points as their kind and number; `said` is how a message names them."""
    kind, _, count = points.partition(":")
    if points == "grid":
        return kind, 0
    if kind not in ("random", "sobol") or not COUNT.fullmatch(count):
        raise ConfigError(f"{said}: write grid, random:N or sobol:N, as sobol:1000")
    if int(count) > limits.SWEEP_POINTS:
        raise LimitError(f"{said}: more than {limits.SWEEP_POINTS}")
    return kind, int(count)


def _admitted(grid: Grid, judge: Judge) -> Iterator[Int64s]:
    """The numbers of all points that are admitted, in blocks."""
    for start in range(0, grid.size, BLOCK_POINTS):
        numbers = np.arange(start, min(start + BLOCK_POINTS, grid.size))
        yield _kept(grid, judge, numbers)


def _kept(grid: Grid, judge: Judge, numbers: Int64s) -> Int64s:
    kept: Int64s = numbers[judge.admits(grid.words(grid.levels(numbers)))]
    return kept


def _drawn(grid: Grid, judge: Judge, kind: str, wanted: int, seed: int) -> Int64s:
    """`wanted` different admitted points of the grid, as the draw finds them; fewer where there
    are no more, or in a grid that is too large to look at all of it.
    """
    if grid.size >= 2**62:
        raise LimitError(f"the grid {grid.describe()} has more points than can be numbered")
    sizes = np.array([len(axis.values) for axis in grid.axes], np.int64)
    strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
    source = sobol.Sobol(len(sizes), seed) if kind == "sobol" else None
    rng = np.random.default_rng(seed)
    found = np.empty(0, np.int64)
    more = 0 if grid.seen_whole else DRAWS_LEAST // BLOCK_POINTS
    for count in chain(repeat(wanted, DRAWS_MAX), repeat(BLOCK_POINTS, more)):
        unit = rng.random((len(sizes), count)) if source is None else source.draw(count)
        levels = np.minimum((unit * sizes[:, None]).astype(np.int64), sizes[:, None] - 1)
        found = np.concatenate([found, _kept(grid, judge, strides @ levels)])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)][:wanted]
        if len(found) in (wanted, grid.size):
            break
    if grid.seen_whole and len(found) < wanted:  # all of it is looked at as fast as more is drawn
        rest = np.setdiff1d(np.concatenate(list(_admitted(grid, judge))), found)
        lacking = min(wanted - len(found), len(rest))
        found = np.append(found, rng.choice(rest, lacking, replace=False))
    return np.sort(found)
