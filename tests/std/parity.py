"""The parity table: std's indicators beside the published outputs of TradingView and TA-Lib.

`python -m tests.std.parity` writes quantdsl/docs/parity.md; a test holds the committed file to it.
"""

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.std.harness import Bars, Ticks, run

REPO = Path(__file__).parents[2]
DATA = REPO.parent / "shared" / "data"
TRADINGVIEW = DATA / "expected" / "tradingview" / "ta"
TALIB = DATA / "expected" / "talib_goog_1d.parquet"
GOOG = DATA / "bars" / "backtesting.py" / "GOOG.csv"
TABLE = REPO / "quantdsl" / "docs" / "parity.md"
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Market:
    """Bars and the columns that the outside program computed from them."""

    bars: Bars
    columns: dict[str, np.ndarray]

    def price(self, name: str) -> Ticks:
        """A price of the bars as an indicator's argument."""
        return Ticks(getattr(self.bars, name), self.bars.tick_num, self.bars.tick_den)

    def mean(self, *names: str) -> np.ndarray:
        """The mean of several prices, such as hl2, rounded once."""
        total = sum(getattr(self.bars, name) for name in names)
        return total / (len(names) * self.bars.tick_den)


@dataclass(frozen=True)
class Row:
    """One comparison: what std gives, what the other program printed, and from which row on.

    `skip` rows at the start are not compared. Differences are relative to the expected value, or
    to `floor` where that is larger. `apart` rows differ on purpose, exactly that many. `rule` says
    why any of these is set.
    """

    function: str
    source: str
    market: str
    column: str
    compute: Callable[[Market], np.ndarray]
    skip: int = 0
    rule: str = ""
    floor: float = 0.0
    apart: int = 0
    expect: Callable[[np.ndarray], np.ndarray] | None = None

    def expected(self, market: Market) -> np.ndarray:
        """What the outside program printed, in std's terms."""
        column = market.columns[self.column]
        return column if self.expect is None else self.expect(column)


@dataclass(frozen=True)
class Outcome:
    """Rows compared, rows where only one side has a value, rows beyond the tolerance, and the
    largest relative difference within it.
    """

    compared: int
    one_sided: int
    apart: int
    worst: float


def available() -> bool:
    """True where the shared data lie beside the checkout."""
    return TALIB.is_file() and TRADINGVIEW.is_dir() and GOOG.is_file()


def _ticks(values: np.ndarray, den: float) -> np.ndarray:
    return np.rint(values * den).astype(np.int64)


def _bars(table: dict[str, np.ndarray], den: float) -> Bars:
    prices = (_ticks(table[name], den) for name in ("open", "high", "low", "close"))
    volume = table["volume"].astype(np.int64)
    return Bars(*prices, volume=volume, tick_den=den)


def _numbers(rows: list[list[str]]) -> dict[str, np.ndarray]:
    head, *body = rows
    cells = zip(*body, strict=True)
    return {name: np.array([float(cell or "nan") for cell in column])
            for name, column in zip(head, cells, strict=True)}


@cache
def market(name: str) -> Market:
    """GOOG with TA-Lib's columns, or one of TradingView's exports on EURUSD."""
    if name == "GOOG 1d":
        with GOOG.open(newline="") as file:
            rows = list(csv.reader(file))
        table = _numbers([[cell.lower() for cell in row[1:]] for row in rows])
        expected = pq.read_table(TALIB)
        columns = {c: expected[c].to_numpy() for c in expected.column_names if c[0] != "_"}
        return Market(_bars(table, 100.0), columns)
    path = TRADINGVIEW / f"{name.removeprefix('EURUSD ')}.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        columns = _numbers(list(csv.reader(file)))
    table = {key: columns[key] for key in ("open", "high", "low", "close")}
    return Market(_bars(table | {"volume": columns["Volume"]}, 100_000.0), columns)


@cache
def routine(name: str, market_name: str, given: tuple[tuple[str, object], ...]) -> object:
    """A run of std on a market, shared by the rows that read its different outputs."""
    bars = market(market_name)
    arguments = {key: _argument(bars, value) for key, value in given}
    float_overload = name in ("ta.sma", "ta.wma")
    return run(name, overload=int(float_overload), **arguments)


def _argument(bars: Market, value: object) -> object:
    """`close` stands for that price, `hlc3` for a mean of prices, `bars` for all of them."""
    means = {"hl2": ("high", "low"), "hlc3": ("high", "low", "close"),
             "hlcc4": ("high", "low", "close", "close"),
             "ohlc4": ("open", "high", "low", "close")}
    if value == "bars":
        return bars.bars
    if isinstance(value, str):
        return bars.mean(*means[value]) if value in means else bars.mean(value)
    return value


def outcome(row: Row) -> Outcome:
    """Compare one row of the table."""
    at = market(row.market)
    got = np.asarray(row.compute(at), dtype=np.float64)[row.skip:]
    expected = row.expected(at)[row.skip:]
    both = ~np.isnan(got) & ~np.isnan(expected)
    one_sided = int(np.sum(np.isnan(got) != np.isnan(expected)))
    error = np.abs(got[both] - expected[both])
    scale = np.maximum(np.abs(expected[both]), max(row.floor, np.finfo(np.float64).tiny))
    relative = np.where(error == 0, 0.0, error / scale)
    within = relative <= TOLERANCE
    worst = float(relative[within].max(initial=0.0))
    return Outcome(int(both.sum()), one_sided, int((~within).sum()), worst)


def rows() -> list[Row]:
    """Every comparison, in the order of the table."""
    from tests.std import parity_talib, parity_tradingview

    return parity_tradingview.rows() + parity_talib.rows()


def lines(rows: list[Row]) -> Iterator[str]:
    """The table as Markdown."""
    yield from HEADER.splitlines()
    for row in rows:
        found = outcome(row)
        worst = "equal" if found.worst == 0 else f"< {_power(found.worst)}"
        if found.apart:
            worst += f", apart on {found.apart}"
        yield (f"| `{row.function}` | {row.source} | {row.market.split()[0]} | {found.compared} "
               f"| {worst} | {row.rule} |")


def _power(error: float) -> str:
    """The power of ten above an error, so that the table does not hang on the last digit."""
    return f"1e{int(np.floor(np.log10(error))) + 1}"


HEADER = """\
# Parity with TradingView and TA-Lib

Generated by `python -m tests.std.parity`; a test keeps it current.

## The rules std follows

| question | answer |
|---|---|
| seed of `ta.ema` | the mean of its first `len` values, as TradingView's exports and TA-Lib show; \
`seed = ta.Seed.first` starts from the first value, and is defined as late |
| seed of `ta.rma`, and so of RSI, ATR, DMI | the mean of its first `len` values |
| MACD | each mean starts from its own first values, as TradingView; TA-Lib starts both at the \
slow one's |
| ATR | the first bar counts with high - low, as TradingView; TA-Lib starts a bar later |
| `ta.stdev`, `ta.variance`, `ta.bb` | of the population; `biased = false` of a sample |
| `ta.bbw`, `ta.kcw` | in percent of the middle; as a fraction of it, as Pine |
| RSI, MFI where nothing fell | 100, as Pine, a flat series included; TA-Lib gives 0 for that |
| `ta.cmo` | plain sums, as Chande and Pine; TA-Lib smooths it like RSI |
| `ta.highestbars`, `ta.lowestbars` | 0 or below, the oldest of equals, as Pine |
| `ta.supertrend(...).direction` | -1 in an up-trend and 1 in a down-trend, as Pine |
| `ta.rising`, `ta.falling` | every step of the last `len`, as TradingView's exports show |
| pivots | not below the values before, above the values after (of lows: the reverse) |
| `ta.vwap()` | restarts with the UTC day; any other period by its anchor |
| `ta.obv`, `ta.pvt`, `ta.wad` | start from 0 at the first bar; `ta.nvi`, `ta.pvi` from 1 |
| na, an infinity, a number beyond 1e100 | left out: a window is na while it holds one, a \
recursion gives na for that step and goes on from where it was |
| sums | exact integers for prices; otherwise compensated, anew for each block of a window's \
length; plain ones of up to 64 distances from a value of the window, of which variances are made |

## Beside other programs

Each line compares an indicator with the output of the other program on the same bars:
TradingView's exports on EURUSD, TA-Lib 0.8.1 on GOOG daily. A row of the file is compared where
both have a value, and a value that only one side has is an error; what is left out stands in the
last column.

| QuantDSL | beside | data | rows compared | largest relative difference | where the rules differ |
|---|---|---|---:|---|---|
"""


def main() -> None:
    """Write the table."""
    TABLE.write_text("\n".join(lines(rows())) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
