"""A panel in lanes has the rows of the turn that takes events one by one, to the bit."""

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.turns import loaded
from quantdsl.backtest.values import chosen
from quantdsl.check.panel_stages import stages, unstaged
from quantdsl.check.panel_words import INSTANTS_MAX
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.codegen.target import Target, avx2, avx512, native_lanes
from tests.std.universe import FIRST, compiled, table, walks, write

Words = npt.NDArray[np.int64]

ALONG = """language 1
strategy Along:
    "Equations of each instrument alone."
    bars 1d
    universe "ALL"
    param n = 5 in 2..9 step 1
    let ret   = close / close[n] - 1
    let mean  = ts.mean(ret, 20)
    let wide  = ts.std(ret, 20)
    let z     = ts.zscore(float(close), 30)
    let fast  = ta.ema(close, 12)
    let m     = ta.macd(close)
    let rsi   = ta.rsi(close, 14)
    let atr   = ta.atr(14)
    let up    = close > close[1]
    let ago   = ta.barssince(up)
    let high_ = ts.max(ret, 10)
    let past  = fast[3] - m.hist[2]
    let level = snap(fast, up)
"""
ACROSS = """language 1
strategy Across:
    "Every function of xs, some of what another one gives."
    bars 1d
    universe "ALL"
    let x        = close / close[5] - 1
    let y        = ts.mean(log(volume + 1) + x, 7)
    let rank     = xs.rank(x)
    let z        = xs.zscore(x)
    let drawn    = xs.winsorize(x, 5%)
    let left     = xs.neutralize(x, y)
    let high_    = xs.top(x, 10%)
    let low_     = xs.bottom(x, 10%)
    let scaled   = xs.scale(x, gross = 150%)
    let weighed  = xs.weights(x, gross = 200%, net = 20%)
    let tails    = xs.long_short(x, top = 10%, bottom = 20%, scale = 1 / close, gross = 200%)
    let in_group = xs.demean(x, by = sector)
    let z_group  = xs.zscore(x, by = sector)
    let neutral  = xs.neutralize(x, by = sector)
    let middle   = xs.mean(x)
    let present  = xs.count(x)
    let decile   = xs.quantile(x, 10%)
    let gap      = xs.spread(x, 10%)
    let both     = xs.corr(x, y)
    let again    = xs.rank(ts.mean(rank, 10) - middle)
    let late     = ts.std(again, 15) + rank[3]
    let firm     = xs.zscore(late[1] if high_ else late)
    let where    = sector
"""
GROUPED = """language 1
strategy Grouped:
    "What is ranked, cut and counted within groups."
    bars 1d
    universe "ALL"
    let x     = close / close[5] - 1
    let rank  = xs.rank(x, by = sector)
    let tied  = xs.rank(round(x * 40), by = sector)
    let drawn = xs.winsorize(x, 20%, by = sector)
    let half  = xs.winsorize(-tied, 50%, by = sector)
    let count = xs.count(x, by = sector)
    let again = ts.mean(rank, 10) + count[3]
    let place = xs.rank(again, by = sector)
"""
MEMBERS = ACROSS.replace('"ALL"', '"ALL", point_in_time = true, filter = close > 30 USD')
LOOKING = """language 1

@kernel(reduce)
kernel alike(r: window[f32, 11], pat: const int, wide: f32) -> f32?:
    "What followed stretches like the last one."
    var num: f32 = 0
    var den: f32 = 0
    parallel for i in 2..<(r.len - pat) reduce(num: +, den: +):
        var apart: f32 = 0
        for k in 0..<pat:
            apart += (r[k] - r[i + k]) ^ 2
        let weight = exp(-apart / wide)
        num += weight * r[i - 1]
        den += weight
    return num / den if den > 1e-6 else na

strategy Looking:
    bars 1d
    universe "ALL"
    param n = 3 in 2..5 step 1
    let ret    = log(close / close[1])
    let one    = alike(ret, pat = n, wide = 0.001)
    let two    = alike(close / close[2] - 1, pat = 2, wide = 0.01)
    let past   = alike(ret, pat = 4, wide = 0.002)
    let later  = (past[2] ?? 0.0) + ts.std(ret, 6)
"""


class Both:
    """One strategy on one market: the turn, and the lanes."""

    def __init__(self, text: str, target: Target | None = None, **options: Any) -> None:
        checked = compiled(text)
        arranged = arrange(checked, **options)
        checked = arranged.sized(checked)
        assert unstaged(checked.strategy) == ""
        signals = Signals(checked.assembly)
        params = chosen(checked.strategy.params, arranged.given)
        self.names = ["time", "instrument", *(one.name for one in signals.shown)]
        self.data = arranged.data
        self.turn = loaded(checked, signals, arranged.uses, arranged.data, params)
        self.lanes = PanelTurn(checked, signals, arranged.data, params, target)

    def hold(self, chunks: list[npt.NDArray[np.void]] | None = None) -> Words:
        """Both have the same rows, which it gives."""
        chunks = list(self.data.chunks()) if chunks is None else chunks
        one, other = (np.concatenate(list(t.pieces(chunks)), 1) for t in (self.turn, self.lanes))
        assert one.shape == other.shape
        for name, ours, theirs in zip(self.names, one, other, strict=True):
            missing = np.isnan(ours.view(np.float64)) & np.isnan(theirs.view(np.float64))
            assert np.array_equal(np.where(missing, 0, ours), np.where(missing, 0, theirs)), name
        return other


def whole(count: int, days: int) -> dict[str, list[float | None]]:
    """Random walks without gaps."""
    random = np.random.default_rng(7)
    steps = np.cumsum(random.normal(0.0, 0.02, (count, days)), 1)
    prices = (50.0 * np.exp(steps)).round(2).tolist()
    return {f"A{number:03}": row for number, row in enumerate(prices)}


def files(folder: Path, symbols: list[str]) -> dict[str, Any]:
    """Sectors, which some lack but never the last one, and members that come and go."""
    none = range(0, len(symbols) - 1, 6)
    sectors = [f"{name},{'' if n in none else 'ABCD'[n % 4]}" for n, name in enumerate(symbols)]
    begin = [f"2020-0{1 + n % 4}-{10 + n % 9}" for n in range(len(symbols))]
    end = ["" if n % 3 else f"2020-0{6 + n % 3}-11" for n in range(len(symbols))]
    members = [",".join(row) for row in zip(symbols, begin, end, strict=True)]
    return {
        "universe.groups": write(folder, "sectors.csv", "symbol,sector", sectors),
        "universe.members": write(folder, "members.csv", "symbol,entry,exit", members),
    }


@pytest.fixture
def gaps() -> dict[str, list[float | None]]:
    """Some with gaps, late listings and early ends: over more than two blocks."""
    return walks(21, 2 * INSTANTS_MAX + 44)


def targets() -> Iterator[Target]:
    """The vectors that this machine has."""
    yield avx2()
    if native_lanes() == avx512():
        yield avx512()


@pytest.mark.parametrize(
    ("text", "count"), [(ALONG, 8), (ALONG, 21), (ACROSS, 1), (ACROSS, 21), (GROUPED, 21)]
)
def test_every_bar_is_there(text: str, count: int, tmp_path: Path) -> None:
    closes = whole(count, 2 * INSTANTS_MAX + 44)
    Both(text, data=table(closes), more=files(tmp_path, list(closes))).hold()


def test_values_that_differ_in_their_last_bits_are_in_order() -> None:
    """Lanes sort words that leave those bits out, and whole values where that was too few."""
    text = """language 1
strategy Near:
    "Values around one, minus one and zero, some of them equal."
    bars 1d
    universe "ALL"
    let near  = 1.0 + (close / 50 USD - 1) * 1e-14
    let same  = near if close > 50 USD else 1.0
    let zero  = (0.0 if close > 50 USD else -0.0) if close > 49 USD else na
    let one   = xs.rank(near)
    let two   = xs.rank(-near)
    let three = xs.rank(same)
    let four  = xs.top(zero, 20%)
    let five  = xs.quantile(-same, 30%)
"""
    rows = Both(text, data=table(walks(21, 60))).hold()
    ranks = rows[ROW_WORDS + 3].view(np.float64)
    assert len(np.unique(ranks[np.isfinite(ranks)])) > 21


@pytest.mark.parametrize(
    "text", [ALONG, ACROSS, GROUPED, MEMBERS], ids=["along", "across", "grouped", "members"]
)
def test_some_bars_lack(
    text: str, gaps: dict[str, list[float | None]], tmp_path: Path
) -> None:
    rows = Both(text, data=table(gaps), more=files(tmp_path, list(gaps))).hold()
    assert len(np.unique(np.bincount(rows[1]))) > 3


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: f"{target.lanes} lanes")
def test_every_vector(
    target: Target, gaps: dict[str, list[float | None]], tmp_path: Path
) -> None:
    for text in (MEMBERS, GROUPED):
        Both(text, target, data=table(gaps), more=files(tmp_path, list(gaps))).hold()


def test_bars_lack_for_a_while(tmp_path: Path) -> None:
    """Blocks of both kinds follow each other."""
    closes = whole(9, 6 * INSTANTS_MAX)
    closes["A004"][INSTANTS_MAX + 20 : INSTANTS_MAX + 60] = [None] * 40
    both = Both(ACROSS, data=table(closes), more=files(tmp_path, list(closes)))
    both.hold()


READ_AGAIN = """language 1
strategy Again:
    "One number for all, read along time, then across, then along time once more."
    bars 1d
    universe "ALL"
    let ret  = close / close[1] - 1
    let mean = xs.mean(ret)
    let rest = ret - mean
    let high = xs.top(rest, 20% if mean > 0 else 40%)
    let last = ts.mean(xs.zscore(rest), 3) + mean
"""


def test_one_number_for_all_is_read_again() -> None:
    """By an instrument that lacks bars, the first one too, and by what comes after it."""
    closes = whole(9, 60)
    for name in ("A000", "A004"):
        closes[name][10:20] = [None] * 10
    Both(READ_AGAIN, data=table(closes)).hold()


def test_pieces_of_any_size(tmp_path: Path) -> None:
    """A piece holds whole instants, and ends anywhere in a block, or holds several blocks."""
    closes = whole(3, 3 * INSTANTS_MAX)
    both = Both(ACROSS, data=table(closes), more=files(tmp_path, list(closes)))
    events = np.concatenate(list(both.data.chunks()))
    ends = np.flatnonzero((events["flags"] & 1) == 0) + 1
    cuts = [0, *ends[[0, 6, 7, 140]].tolist(), len(events)]
    pieces = [events[a:b] for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(both.hold(pieces), both.hold([events]))


def test_rows_begin_at_a_time(tmp_path: Path) -> None:
    closes = whole(5, INSTANTS_MAX + 9)
    both = Both(ACROSS, data=table(closes), more=files(tmp_path, list(closes)))
    everything = both.hold()
    first = int(everything[0, 5 * (INSTANTS_MAX + 2)])
    both.turn.since(first)
    both.lanes.since(first)
    assert both.hold().shape[1] == 5 * 7


def test_stages_are_as_many_as_cross_sections_are_nested() -> None:
    found = stages(Signals(compiled(ACROSS).assembly))
    assert [one.across for one in found] == [False, True, False, True, False, True]
    shown = sorted(number for one in found for number in one.shown)
    assert shown == list(range(len(Signals(compiled(ACROSS).assembly).shown)))


def test_a_missing_value_has_a_missing_result(tmp_path: Path) -> None:
    """What is shown of a cross-section as it is counts on it: nobody asks whether it is warm."""
    closes = whole(11, 40)
    both = Both(ACROSS, data=table(closes), more=files(tmp_path, list(closes)))
    rows = both.hold()
    names = ("rank", "z", "drawn", "left", "scaled", "weighed", "tails", "in_group", "z_group")
    cold = rows[0] < rows[0, 11 * 5]
    for name in names:
        assert np.isnan(rows[both.names.index(name)].view(np.float64)[cold]).all(), name


def test_amounts_count_in_the_steps_of_each_instrument() -> None:
    """What is compared with ticks and shares has stages, where ticks differ too."""
    closes = whole(5, INSTANTS_MAX + 30)
    bars = fine(closes, "A003")
    amounts = "let busy = volume > 100 shares\n    let rose = close - close[1] > 3 ticks\n    "
    both = Both(ALONG.replace("let past", amounts + "let past"), data=bars)
    rows = both.hold()
    steps = np.array([1000 if name == "A003" else 100 for name in closes])
    ticks = np.rint(np.array([*closes.values()]).T * steps)
    rose = rows[both.names.index("rose")].reshape(-1, len(closes))
    assert np.array_equal(rose[1:] > 0, np.diff(ticks, axis=0) > 3)
    assert rows[both.names.index("busy")].all()


MONEY = """language 1
strategy Money:
    "Money of a price and a quantity, along time, across and as a filter."
    bars 1d
    universe "ALL", filter = close * volume > 40_000 USD
    param least = 5_000 USD in 1_000 USD..9_000 USD step 1_000 USD
    let worth = close * volume
    let rose  = worth - worth[1] > least
    let mean  = ts.mean(close * volume, 7)
    let whole = xs.sum(close * volume)
    let place = xs.rank(close if rose else open)
"""


def fine(closes: dict[str, list[float | None]], symbol: str) -> pa.Table:
    """A table in which one instrument has ten times as many ticks, and a tenth of the price."""
    closes[symbol] = [round(close / 10, 3) for close in closes[symbol] if close is not None]
    bars = table(closes)
    for number in (3, 4):  # with all prices on the grid of the closes it is the tick
        bars = bars.set_column(number, bars.schema.names[number], bars["close"])
    return bars


def test_money_counts_in_what_a_tick_of_each_instrument_is_worth() -> None:
    closes = whole(5, INSTANTS_MAX + 30)
    both = Both(MONEY, data=fine(closes, "A003"))
    rows = both.hold()
    worth = rows[both.names.index("worth")].view(np.float64).reshape(-1, len(closes))
    assert np.allclose(worth, 1000.0 * np.array([*closes.values()]).T, rtol=1e-12)


def test_money_with_gaps_and_a_size_of_contract(tmp_path: Path) -> None:
    told = tmp_path / "instruments.toml"
    words = '[[instrument]]\nsymbol = "A004"\ntick = 0.0001\nmultiplier = 50\n'
    told.write_text(words, encoding="utf-8")
    more = {"data.instruments": str(told)}
    bars = table(walks(11, 200))
    rows = [Both(MONEY, data=bars, more=given).hold() for given in ({}, more)]
    plain, large = (words[2].view(np.float64)[words[1] == 4] for words in rows)
    assert np.array_equal(large, 50.0 * plain)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("let ret ", "bars 1w as slow\n    let old = slow.close\n    let ret "), "clocks"),
        (('universe "ALL"', ""), "no universe"),
    ],
)
def test_others_have_no_stages(change: tuple[str, str], why: str) -> None:
    text = ALONG.replace(*change)
    assert why in unstaged(compiled(text).strategy)


ADJUSTED = """language 1
strategy Adjusted:
    "Prices adjusted for splits and dividends, along time and across."
    bars 1d, adjust = ADJUST
    universe "ALL", point_in_time = true, filter = adj.close > 20
    let raw   = close / close[1] - 1
    let ret   = adj.close / adj.close[1] - 1
    let reach = adj.high / adj.low[2] - 1
    let wide  = ts.std(ret, 20)
    let score = xs.zscore(ret / wide)
    let calm  = ts.mean(score, 5) * adj.open
    let trend = ta.ema(xs.mean(ret), 5)
    let rest  = adj.close * trend[2] if now.day < 20 else trend
"""


def actions(folder: Path, symbols: list[str]) -> str:
    """Splits and dividends over the first weeks: of some stocks both at one day, or twice."""
    rows = []
    for number, name in enumerate(symbols):
        day = FIRST + dt.timedelta(days=3 + 2 * number)
        rows += [f"{day},{name},dividend,0.205"] if number % 2 else []
        rows += [f"{day},{name},split,{(3, 0.5, 7)[number % 3]}"] if number % 3 else []
        rows += [f"{day + dt.timedelta(days=9)},{name},dividend,1.37"]
    return write(folder, "actions.csv", "time,symbol,action,value", rows)


@pytest.mark.parametrize("adjust", ["all", "splits"])
@pytest.mark.parametrize("gaps_", [False, True], ids=["whole", "gaps"])
def test_adjusted_prices(
    adjust: str, gaps_: bool, gaps: dict[str, list[float | None]], tmp_path: Path
) -> None:
    closes = gaps if gaps_ else whole(21, INSTANTS_MAX + 44)
    more = {**files(tmp_path, list(closes)), "data.actions": actions(tmp_path, list(closes))}
    both = Both(ADJUSTED.replace("ADJUST", adjust), data=table(closes), more=more)
    rows = both.hold()
    raw, ret = (rows[both.names.index(name)].view(np.float64) for name in ("raw", "ret"))
    there = ~np.isnan(raw) & ~np.isnan(ret)
    assert np.count_nonzero(np.abs(raw - ret)[there] > 1e-6) > 10  # actions have been told


AWAITED = """language 1
kernel near(r: window[f32, 64], pat: const int) -> f32?:
    "How near past stretches come to the last one."
    var num: f32 = 0
    parallel for i in 1..<(r.len - pat) reduce(num: +):
        var d2: f32 = 0
        for k in 0..<pat:
            d2 += (r[k] - r[i + k]) ^ 2
        num += exp(-d2 * 400)
    return num if num > 0.5 else na

strategy Awaited:
    "Asynchronous signals of each instrument, one of them a kernel's."
    bars 1d
    universe "ALL"
    param pat = 8 in 4..8 step 4
    let ret = log(close / close[1])
    @async(deadline = 2ms)
    let like = near(ret, pat = pat)
    @async(deadline = 2ms)
    let calm = ts.std(ret, 20)
    let rank = xs.rank(ret)
    on ready(like):
        if flat and like is not na and like > 1:
            buy(1 share)
    on ready(calm):
        if long and calm is not na and calm > 0.02:
            close_position()
"""


@pytest.mark.parametrize("gaps_", [False, True], ids=["whole", "gaps"])
def test_asynchronous_signals_and_kernels(
    gaps_: bool, gaps: dict[str, list[float | None]]
) -> None:
    both = Both(AWAITED, data=table(gaps if gaps_ else whole(11, INSTANTS_MAX + 44)))
    rows = both.hold()
    like = rows[both.names.index("like")].view(np.float64)
    assert np.count_nonzero(like > 0.5) > 100


def test_a_row_holds_every_column() -> None:
    closes = whole(2, 5)
    both = Both(ALONG, data=table(closes))
    assert both.hold().shape[0] == ROW_WORDS + len(both.names) - 2
