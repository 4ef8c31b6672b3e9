"""`SweepResult`: everything that one sweep leaves behind; the driver fills it, the report reads it.

A row is one point of the grid that was run. It holds no wall clock, so equal inputs give equal
files; a partial sweep is a valid one with fewer rows than `planned`.
"""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from quantdsl.report.columns import values_of
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import Float64s, RunResult, Setting

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

LOWER_IS_BETTER = frozenset(
    """volatility max_drawdown_duration fees slippage financing turnover exposure liquidations
    orders rejected_orders cancelled_orders nan_orders cut_orders longest_losing_run""".split()
)
"""Metrics of which less is wanted; losses and drawdowns are negative, so more of them is better."""

COUNT, TOTAL, SQUARES = range(3)
"""What `blocks` holds of the returns of each block of days."""


class Axis(Struct, frozen=True, kw_only=True):
    """A swept param: its values in the order of the grid."""

    name: str
    levels: tuple[str, ...]  # as a reader writes them and `--set` takes them
    numbers: Float64s  # [n_levels] in the written unit; the place of a word or a truth value
    is_number: bool = True


class Apart(Struct, frozen=True):
    """How far a metric is from what it is in double precision, over the points of a sample.

    In the metric's own unit; infinite where it is defined in one precision alone.
    """

    largest: float
    median: float


class Difference(Struct, frozen=True):
    """What single precision changed of a sample of points that ran in double precision too."""

    points: int
    changed: int  # points whose trades differ
    metrics: Mapping[str, Apart]


class SweepResult(Struct, frozen=True, kw_only=True, dict=True):
    """One sweep. Times are ns since 1970 in UTC; all arrays have one entry a row of `table`."""

    strategy: str
    source_path: str
    source_text: str
    version: str
    data_name: str
    data_sha256: str
    instruments: tuple[str, ...]
    currency: str
    periods_per_year: float

    axes: tuple[Axis, ...]
    fixed: Mapping[str, str]  # the params that were not swept
    levels: Int32s  # [n_axes, n_points] which of an axis's levels
    table: pa.Table  # point, params, metrics; NaN where one is not defined
    blocks: Float64s | None  # [3, n_blocks, n_points] return sums of blocks of days
    trials: int  # points that were tried to find the best one
    planned: int  # points asked for; more than rows when the sweep was stopped
    objective: str  # the metric by which points are ranked

    start_ns: int  # all points start to trade at this bar
    end_ns: int  # the close of the last bar
    bars: int  # from then on
    moment: str  # what `bars` counts: bars, or moments at which ticks came in
    device: str
    rerun: str  # "quantdsl backtest FILE --data PATH --from TIME"
    precision: str = "f64"
    difference: Difference | None = None  # of another precision than f64
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    best: RunResult | None = None  # the single backtest of the first point of `ranked`

    def __post_init__(self) -> None:
        n_points = self.table.num_rows
        assert self.levels.shape == (len(self.axes), n_points)
        assert self.blocks is None or self.blocks.shape[::2] == (3, n_points)
        assert n_points <= self.planned

    @property
    def source_sha256(self) -> str:
        """SHA-256 of the strategy's text, in hex."""
        return hashlib.sha256(self.source_text.encode()).hexdigest()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def metric(self, name: str) -> Float64s:
        """A metric of every point, NaN where it is not defined."""
        values: Float64s = values_of(self.table.column(name)).astype(np.float64, copy=False)
        return values

    @property
    def metric_names(self) -> list[str]:
        """Columns of the table that are metrics, not params."""
        return [name for name in self.table.column_names if name in BY_NAME]

    def shown(self, names: Sequence[str]) -> list[str]:
        """The objective, then those of `names` that the points have."""
        there = self.metric_names
        return [self.objective, *(n for n in names if n != self.objective and n in there)]

    @property
    def sign(self) -> float:
        """The objective over the score: -1 where less is better."""
        return -1.0 if self.objective in LOWER_IS_BETTER else 1.0

    @cached_property
    def score(self) -> Float64s:
        """The objective, turned so that more is better; -inf where it is not defined."""
        turned = self.sign * self.metric(self.objective)
        return np.where(np.isnan(turned), -np.inf, turned)

    def ranked(self, top: int) -> Int64s:
        """Rows of the best `top` points, best first; of equal ones the first in the grid."""
        n = len(self)
        if not 0 < top < n:
            return np.argsort(-self.score, kind="stable")[: max(top, 0)]
        # A million scores need no full sort: all that reach the last place, then those in order.
        least = np.partition(self.score, n - top)[n - top]
        reach = np.flatnonzero(self.score >= least)
        return reach[np.argsort(-self.score[reach], kind="stable")][:top]

    def number(self, row: int) -> int:
        """The place of a point in the grid, as `--trades` takes it."""
        return int(self.table["point"][row].as_py())

    def params(self, row: int) -> dict[str, str]:
        """The swept params of a point, as `--set` takes them."""
        chosen = zip(self.axes, self.levels[:, row].tolist(), strict=True)
        return {axis.name: axis.levels[place] for axis, place in chosen}

    def command(self, row: int) -> str:
        """The shell command that runs this point alone."""
        sets = (
            f"--set {shlex.quote(f'{name}={value}')}" for name, value in self.params(row).items()
        )
        return " ".join([self.rerun, *sets])

    @property
    def objective_title(self) -> str:
        """The objective in words, as inside a sentence."""
        return BY_NAME[self.objective].title
