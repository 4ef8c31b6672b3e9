"""`RunResult`: everything that one run leaves behind, as exact as the core wrote it.

The run fills it and the rest of report/ only reads it: tables.py makes arrow tables of it,
metrics.py figures, summary.py text, tearsheet.py a page and store.py a folder. It holds no wall
clock and no random number, so equal inputs give equal bytes everywhere downstream.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from quantdsl.data.instrument import Instrument
from quantdsl.events import layout
from quantdsl.events.layout import Kind
from quantdsl.events.messages import Message
from quantdsl.report.execution import Execution

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Structs = npt.NDArray[np.void]


DEFAULT = "default"
"""The source of a setting that nobody chose."""


class Setting(Struct, frozen=True, kw_only=True):
    """One effective value of the run and where it was said."""

    name: str
    value: str  # as a reader would write it: "100_000 USD", "0.5 bps"
    source: str  # "command line", "Python", "config FILE", "strategy" or DEFAULT


class Plot(Struct, frozen=True, kw_only=True):
    """One `plot(...)` line of the strategy: a value per row of the curve, NaN where it is na."""

    name: str
    values: Float64s
    color: str = ""  # a colour name of the language, "" for the next of the palette


class Benchmark(Struct, frozen=True, kw_only=True):
    """What the run is compared with: its level at the start and at each day sample."""

    name: str
    levels: Float64s  # [n_days + 1], NaN where it did not trade


class RunResult(Struct, frozen=True, kw_only=True):
    """One finished run. Times are ns since 1970 in UTC, money is in units of 10**-money_digits."""

    strategy: str
    source_path: str  # as given on the command line
    source_text: str
    version: str  # of quantdsl
    data_name: str
    data_sha256: str
    params: Mapping[str, str]
    instruments: tuple[Instrument, ...]
    currency: str
    money_digits: int
    periods_per_year: float  # day samples in a year

    records: Structs  # layout.RECORD, in the order in which the core wrote them
    curve_ts: Int64s  # [n] close times of the bars of the finest clock
    curve_equity: Int64s  # [n] money units
    bars: Structs  # [n] layout.BAR of the first instrument, for the chart
    accumulators: Mapping[str, float]  # fields of std/metrics.qdsl; ints stay ints
    plots: tuple[Plot, ...] = ()
    benchmark: Benchmark | None = None
    execution: Execution | None = None  # of a run on ticks

    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()  # what was inferred or assumed, one line each
    warnings: tuple[str, ...] = ()
    no_trade_reasons: tuple[str, ...] = ()  # why nothing was traded, most likely first
    reasons: Mapping[int, str] = field(default_factory=dict)  # reject and cancel code -> words
    messages: Mapping[int, Message] = field(default_factory=dict)  # by the id of a LOG record

    def __post_init__(self) -> None:
        assert self.records.dtype == layout.RECORD
        assert self.bars.dtype == layout.BAR
        assert len(self.curve_ts) == len(self.curve_equity)
        assert all(len(plot.values) == len(self.curve_ts) for plot in self.plots)
        if self.benchmark is not None:
            assert len(self.benchmark.levels) == len(self.of_kind(Kind.DAY)) + 1

    def _repr_html_(self) -> str:
        """The page of the run where a notebook shows it."""
        from quantdsl.report.html import framed
        from quantdsl.report.metrics import evaluate
        from quantdsl.report.tearsheet import page

        return framed(page(self, evaluate(self)))

    @property
    def row_name(self) -> str:
        """What a row of the curve stands for."""
        return "bar" if self.execution is None else "point"

    @property
    def source_sha256(self) -> str:
        """SHA-256 of the strategy's text, in hex."""
        return hashlib.sha256(self.source_text.encode()).hexdigest()

    def of_kind(self, kind: Kind) -> Structs:
        """The records of one kind, in order."""
        chosen: Structs = self.records[self.records["kind"] == kind]
        return chosen

    def money(self, units: npt.ArrayLike) -> Float64s:
        """Money units as currency: one division by a power of ten, so the decimals are right."""
        return np.asarray(units, np.float64) / 10.0**self.money_digits

    def reasons_of(self, *kinds: Kind) -> dict[str, int]:
        """REJECT or CANCEL records by reason in words, most frequent first."""
        ended = self.records[np.isin(self.records["kind"], kinds)]
        codes = Counter(ended["flags"].tolist())
        ranked = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
        return {self.reasons.get(code, f"reason {code}"): count for code, count in ranked}
