"""A panel on a device of many threads has the rows of the lanes of cores, to the bit."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import quantdsl
from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.values import chosen
from quantdsl.check import Checked, compile_file
from quantdsl.check.panel_builder import Form
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_parts import PARTS_MAX, parts
from quantdsl.check.signal_turn import Signals
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.ptx import ptx_text, target_of
from quantdsl.devices import panels
from quantdsl.devices.cuda import panels as cuda_panels
from quantdsl.devices.cuda.panels import (
    BOUNDS,
    across_code,
    along_code,
    block_of,
    block_ptx,
    start_order,
)
from quantdsl.devices.panels import (
    CACHE_BYTES,
    ENOUGH_LANES,
    LANES,
    SHARED_BYTES,
    PanelWork,
    Piece,
    SimulatedPanel,
    piece_rows,
    pieces,
)
from quantdsl.devices.work import Words
from quantdsl.errors import UnavailableError
from quantdsl.ir import ops
from quantdsl.ir.own import Window
from quantdsl.ir.verify import verify
from quantdsl.passes import along_passes, short, tried
from tests.backtest.test_panels import (
    ACROSS,
    ALONG,
    GROUPED,
    LOOKING,
    MEMBERS,
    MONEY,
    files,
    whole,
)
from tests.std.universe import compiled, table, walks

ROOT = Path(__file__).parents[2]
TWENTY = ROOT / "bench" / "signals.qdsl"
REVERSAL = ROOT / "strategies" / "xs_reversal.qdsl"
ARCHITECTURE = "sm_90"
ROOM_WORDS = (228 * 1024 // 6 - 1024) // (8 * LANES)
"""Of a lane, where six warps share a multiprocessor, each with what the system takes of a block."""


class Both:
    """One strategy on one market: on cores, and on the simulated device."""

    def __init__(
        self,
        checked: Checked,
        *,
        instants: int,
        shared_bytes: int = SHARED_BYTES,
        closes: bool = False,
        **options: Any,
    ) -> None:
        arranged = arrange(checked, **options)
        checked = arranged.sized(checked)
        signals = Signals(checked.assembly, closes=closes)
        given = checked, signals, arranged.data, chosen(checked.strategy.params, arranged.given)
        self.names = ["time", "instrument", *(one.name for one in signals.table)]
        self.data = arranged.data
        self.cores = PanelTurn(*given)
        self.device = DeviceTurn(
            *given, lambda work: SimulatedPanel(work, shared_bytes), instants=instants
        )

    def hold(self) -> np.ndarray:
        """Both have the same rows, which it gives; what a GPU gets is sound."""
        for step in self.device.complete.steps:
            for kernel in step:
                if not kernel.across:
                    verify(along_passes(kernel.module))
        chunks = list(self.data.chunks())
        one, other = (np.concatenate(list(t.pieces(chunks)), 1) for t in (self.cores, self.device))
        assert one.shape == other.shape
        for name, ours, theirs in zip(self.names, one, other, strict=True):
            missing = np.isnan(ours.view(np.float64)) & np.isnan(theirs.view(np.float64))
            assert np.array_equal(np.where(missing, 0, ours), np.where(missing, 0, theirs)), name
        return other


class Recorded(SimulatedPanel):
    """A device that keeps what it was given."""

    def __init__(self, work: PanelWork, seen: list[np.ndarray]) -> None:
        super().__init__(work)
        self.seen = seen

    def start(
        self, slot: int, work: PanelWork, n: int, before: int, fill: Words | None = None
    ) -> None:
        self.seen.append(self.given(slot)[:, :n].copy())
        super().start(slot, work, n, before, fill)


@pytest.mark.parametrize("count", [3, 40])
def test_along_time_with_every_bar(count: int) -> None:
    """Over several chunks, the last one of another length, and more instruments than a warp."""
    Both(compiled(ALONG), instants=40, data=table(whole(count, 90))).hold()


def test_along_time_with_gaps() -> None:
    both = Both(compiled(ALONG), instants=40, data=table(walks(21, 90)))
    assert len(np.unique(np.bincount(both.hold()[1]))) > 3


@pytest.mark.parametrize("shared_bytes", [SHARED_BYTES, 700], ids=["near", "far"])
def test_every_function_across(shared_bytes: int, tmp_path: Path) -> None:
    """What a block works on lies in shared memory, or where there is no room on the device."""
    closes = whole(11, 26)
    options = {"data": table(closes), "more": files(tmp_path, list(closes))}
    for text in (ACROSS, GROUPED):
        Both(compiled(text), instants=20, shared_bytes=shared_bytes, **options).hold()


def test_members_and_gaps(tmp_path: Path) -> None:
    closes = walks(9, 30)
    options = {"data": table(closes), "more": files(tmp_path, list(closes))}
    for text in (MEMBERS, GROUPED):
        Both(compiled(text), instants=20, **options).hold()


def test_money_of_each_instrument() -> None:
    bars = table(walks(6, 90))
    assert np.isfinite(Both(compiled(MONEY), instants=64, data=bars).hold()[2].view(float)).all()


def test_twenty_equations() -> None:
    """Those that bench/ measures, long enough for all of them to be warm."""
    Both(compile_file(TWENTY), instants=64, data=table(whole(5, 66)), bars="1d").hold()


SHOWN_AGAIN = """language 1
strategy Again:
    "Cross-sections of what is shown, of what is shown otherwise, and of what is not."
    bars 1d
    universe "ALL"
    let level = float(close) * 1e307
    let slow  = ta.ema(level / 1e200, 7)
    let gap   = ta.ema(close, 3) / ta.ema(close, 9) - 1
    let up    = close > close[1]
    let rank  = xs.rank(level)
    let far   = xs.rank(slow) - xs.zscore(gap)
    let drawn = xs.winsorize(gap, 5%)
    let other = xs.zscore(close / close[4] - 1)
    let mean  = xs.mean(close)
    let sides = xs.long_short(mean, scale = 1 / close, top = 34%, bottom = 34%)
    let again = xs.rank(rank - 0.5)
    let twice = xs.zscore(rank)
"""


@pytest.mark.parametrize("closes", [whole(11, 60), walks(21, 60)], ids=["whole", "gaps"])
def test_what_is_shown_is_not_written_twice(closes: dict[str, list[float | None]]) -> None:
    """A level is infinite for some, who count as missing; prices below 18 are not."""
    steep = {
        name: [one and max(round(one * (0.1 + n % 3), 2), 0.01) for one in row]
        for n, (name, row) in enumerate(closes.items())
    }
    both = Both(compiled(SHOWN_AGAIN), instants=25, data=table(steep))
    found = dict(zip(both.names, both.hold(), strict=True))
    infinite = np.isinf(found["level"].view(np.float64))
    ranked = np.isfinite(found["rank"].view(np.float64))
    assert infinite.any()
    assert ranked.any()
    assert not (infinite & ranked).any()
    every = [one for step in both.device.stages for one in step]
    made = kernels(both.device.signals, every, Form(flat=True)).all
    assert all(len(one.reads) == len(set(one.reads)) for one in made)
    written = {name for one in made for name in one.writes}
    first, second = (set(one.reads) for one in made if one.stage.across)
    assert len(first - written) == 3  # level, slow and gap are shown by lanes along time
    assert not second - written  # cross-sections tell nothing of who has no bar


KEPT = """language 1
indicator last_jump(src: series[float]) -> float:
    "The last return above 20 %, na before one."
    state jump: float = na
    jump = src if src > 0.2 else jump
    return jump

indicator growth(src: series[float]) -> float:
    "Soon infinite, then missing."
    state size = 3.0
    size = size * size - size + 0.0 * src
    return size

strategy Kept:
    "What lanes keep: averages, some of which grow beyond all bounds, and what is long missing."
    bars 1d
    universe "ALL"
    let ret   = close / close[1] - 1
    let fast  = ta.ema(close, 5)
    let slow  = ta.ema(close, 9)
    let ratio = fast / slow
    let far   = ta.ema(float(close) * 1e98, 7) / slow
    let none  = ta.ema(ret / (ret - ret), 4) / slow
    let most  = growth(ret) / ta.ema(close, 3)
    let jump  = last_jump(ret) - ratio
    let rsi   = ta.rsi(close, 3)
    let range = ta.atr(4) / close
"""


@pytest.mark.parametrize("closes", [whole(5, 90), walks(9, 90)], ids=["whole", "gaps"])
def test_what_is_not_asked_is_not_missing(
    closes: dict[str, list[float | None]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The word of a number that is missing after all would be 77."""
    x = short.X
    word = ops.Select(ops.Unary("isnan", x), ops.i64(77), ops.Unary("bits", x))
    strict = tuple(
        replace(one, body=(ops.Return(word),)) if one.name == short.WORD else one
        for one in short.SHORT
    )
    assert strict != short.SHORT
    monkeypatch.setattr(tried, "SHORT", strict)
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path))  # which knows nothing of that
    for text in (KEPT, SHOWN_AGAIN):
        Both(compiled(text), instants=40, data=table(closes)).hold()


WINDOWED = """language 1
strategy Windowed:
    "Windows that chunks are cut by, and what is not cut."
    bars 1d
    universe "ALL"
    let ret    = close / close[1] - 1
    let wide   = ts.std(ret, 6)
    let before = wide[3] - close[9] / close
    let twice  = ts.std(wide, 5)
    let both   = ts.corr(ret, float(volume), 7)
    let mean   = ts.mean(ret, 11)
    let added  = ts.sum(wide, 4) / mean[2]
    let ratio  = wide / ts.zscore(float(close), 4)
    let slow   = ta.ema(ret, 5)
    let rank   = xs.rank(before)
    let later  = ts.std(rank, 5)

    plot(xs.mean(later))
"""


@pytest.mark.parametrize("lacks", [range(0), range(130, 133)], ids=["whole", "gaps"])
def test_chunks_cut_in_time(lacks: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of several lengths, behind each other, behind histories and cross-sections; once
    somebody lacks a bar, instruments stand at other places of their blocks. Pieces are shorter
    than on a GPU."""
    monkeypatch.setattr(panels, "PIECE_LEADS", 2)
    closes = whole(5, 320)
    for day in lacks:
        closes["A002"][day] = None
    both = Both(compiled(WINDOWED), instants=150, data=table(closes))
    cut = [kernel for step in both.device.complete.steps for kernel in step if kernel.window]
    assert all(sum(p.times for p in one.pieces(150, 150)) > 3 for one in cut)
    both.hold()


@pytest.mark.parametrize("lacks", [range(0), range(130, 133)], ids=["whole", "gaps"])
def test_kernels_are_cut_in_time(lacks: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into pieces shorter than what they look at, but for one that somebody looks back at."""
    monkeypatch.setattr(panels, "HEAVY_ROWS", 5)
    closes = whole(5, 320)
    for day in lacks:
        closes["A002"][day] = None
    both = Both(compiled(LOOKING), instants=150, data=table(closes))
    made = [kernel for step in both.device.complete.steps for kernel in step]
    cut = [kernel for kernel in made if kernel.window is not None]
    assert [one.window for one in cut] == [Window(12, 1, heavy=True), Window(13, 1, heavy=True)]
    assert len(made) == 3
    assert all(sum(p.times for p in one.pieces(150, 150)) > 20 for one in cut)
    both.hold()


WITHIN = """language 1

@warmup(2 * len)
indicator wide(src: series[float], len: const int) -> float:
    "Of a window twice as long."
    let m = sums.moments(src, 2 * len)
    return m.squares / len

@warmup(2 * len)
indicator level(src: series[float], len: const int) -> float:
    "Another answer of the same sums."
    let m = sums.moments(src, 2 * len)
    return m.mean / len

@warmup(len)
indicator early(src: series[float], len: const int) -> float:
    "A window of windows that says something before they are whole."
    let wide = ts.std(src, len)
    let both = ts.std(wide ?? 0.0, len)
    let mean = ts.mean(wide ?? 1.0, len)
    return both + mean

strategy Within:
    "Indicators that ask others with windows of their own."
    bars 1d
    universe "ALL"
    let ret   = close / close[1] - 1
    let one   = wide(ret, 3)
    let same  = level(ret, 3)
    let other = wide(ret, 4)
    let soon  = early(ret, 5)
"""


def test_units_are_floats_and_idle_lanes_are_like_the_last() -> None:
    """Else ticks are divided as numbers that have hardly any bits, 1 / 100 as 5e-324 / 4.94e-322,
    and prices of 0 where a warp has more lanes than there are instruments: the slow way, both."""
    both = Both(compiled(ALONG), instants=64, data=table(whole(5, 40)))
    tick = both.data.instruments[0].tick
    units = {"tick_num": float(tick.numerator), "tick_den": float(tick.denominator)}
    assert tick.denominator > 1
    for one in both.cores.any:
        rows = one.points.reshape(-1, both.cores.lanes).view(np.float64)
        told = zip([path.rpartition(".")[2] for path in one.kernel.points], rows, strict=True)
        assert all((row == units[name]).all() for name, row in told if name in units)
    along = [one for step in both.device.complete.steps for one in step if len(one.points)]
    assert along
    both_units = np.array([[units["tick_num"]], [units["tick_den"]]])
    assert all((kernel.points[:2].view(np.float64) == both_units).all() for kernel in along)
    seen: list[np.ndarray] = []
    both.device.opened = lambda work: Recorded(work, seen)
    both.hold()
    assert all((cells[:, :, 5:] == cells[:, :, 4:5]).all() for cells in seen)


def test_windows_within_indicators() -> None:
    """What an indicator asks another one for may be longer than what it was asked for itself."""
    both = Both(compiled(WITHIN), instants=150, data=table(whole(5, 320)))
    windows = {kernel.window for step in both.device.complete.steps for kernel in step}
    assert {one.period for one in windows if one is not None} == {5, 6, 8}
    both.hold()


FACTORS = """language 1

fn factor(k: int) -> float:
    "Of a counter that has a name here, too."
    let c = k
    return 2.0 if c > 5 else 1.0

indicator weighed(src: series[float]) -> float:
    "More once it has seen some."
    state n = 0
    n += 1
    return src * factor(n)

strategy Factors:
    "A counter that a function is asked about."
    bars 1d
    universe "ALL"
    let ret   = close / close[1] - 1
    let twice = weighed(ret)
"""


def test_a_function_is_asked_about_a_counter() -> None:
    Both(compiled(FACTORS), instants=70, data=table(whole(5, 160))).hold()


RECORDS = """language 1
strategy Records:
    "What an indicator of several lines told some bars ago, as a whole."
    bars 1d
    universe "ALL"
    let m    = ta.macd(close)
    let past = m[3]
    let gap  = past.hist - m.hist[3]
    let up   = m.macd / past.signal
"""


def test_histories_of_several_lines() -> None:
    rows = Both(compiled(RECORDS), instants=70, data=table(whole(5, 160))).hold()
    gap = rows[8].view(np.float64)
    assert np.isfinite(gap).any()
    assert set(gap[np.isfinite(gap)]) == {0.0}


OVERFLOWS = """language 1
strategy Overflows:
    "Prices that become infinite on the way, and missing."
    bars 1d
    universe "ALL"
    let c     = float(close)
    let x     = c * 1e300 * 1e300 * 1e-300 * 1e-300
    let near  = ta.ema(c / open + (0.5 if abs(x) < 1e200 else 1.0), 3)
    let apart = (c * 1e300 * 1e300 - c * 1e300 * 1e300 ?? 5.0) / close
"""


def test_numbers_that_overflow_on_the_way() -> None:
    """Prices are never missing, but what is formed of them may be."""
    Both(compiled(OVERFLOWS), instants=64, data=table(whole(5, 90))).hold()


def test_closes_behind_the_columns() -> None:
    """As --describe asks for them: a column of no equation, cut as windows are."""
    Both(compiled(WINDOWED), instants=150, closes=True, data=table(whole(5, 160))).hold()


def test_only_windows_are_cut() -> None:
    """A recurrence goes on from the first bar, as do windows of windows."""
    turn = Signals(compiled(WINDOWED).assembly)
    found = {
        turn.table[n].name: part.window for step in parts(turn) for part in step for n in part.shown
    }
    assert found["twice"] is None
    assert found["slow"] is None
    assert found["both"] == Window(lead=9, period=7)


PAIRS = """language 1
strategy Pairs:
    "Windows of one length, of the same things and of others."
    bars 1d
    universe "ALL"
    let ret    = close / close[1] - 1
    let traded = float(volume) / 100
    let near   = ts.corr(ret, traded, 30)
    let slope  = ts.beta(traded, ret, 30)
    let price  = ts.zscore(float(close), 20)
    let volume_ = ts.zscore(float(volume), 20)
    let total  = ts.sum(float(close), 20)
    let moving = ts.sum(ret, 32)
    let spread = ts.std(ret, 32)
    let wide   = ts.sum(ret, 33)
    let wider  = ts.std(ret, 33)
"""


def test_two_parts_are_one_where_they_read_the_same_and_have_room() -> None:
    """What corr and beta keep has none together, nor have windows of 33."""
    turn = Signals(compiled(PAIRS).assembly)
    together = [
        {turn.table[n].name for n in part.shown} for step in parts(turn) for part in step
    ]
    assert [one for one in together if len(one) > 1] == [
        {"near", "ret"}, {"slope", "traded"}, {"price", "total"}, {"moving", "spread"},
    ]  # fmt: skip
    Both(compiled(PAIRS), instants=150, data=table(whole(5, 160))).hold()


def test_pieces_are_whole_and_begin_with_blocks() -> None:
    window = Window(lead=9, period=7)
    state_bytes = 8 * 200 * 5024
    assert 2 * state_bytes < CACHE_BYTES < 3 * state_bytes  # so there are two pieces
    assert piece_rows(window, (320, 5024), 200) == 161
    assert 13 * 5024 < ENOUGH_LANES < 14 * 5024  # that is for States in shared memory
    assert piece_rows(window, (2520, 5024), 100) == 196
    assert piece_rows(window, (320, 32), 100) == piece_rows(window, (320, 32), 200) == 56
    assert piece_rows(window._replace(lead=200, heavy=True), (2520, 32), 200) == 56
    rows = 21
    for lead, n, before in ((9, 320, 0), (9, 315, 100), (9, 40, 7), (9, 1, 3), (50, 320, 100)):
        cut = pieces(window._replace(lead=lead), rows, n, before)
        begins = [(one, one.first + k * rows) for one in cut for k in range(one.times)]
        told = [row for one, b in begins for row in range(b + lead * one.amid, b + one.n)]
        assert told == list(range(n))
        assert all((before + begin) % 7 == 0 for _, begin in begins[1:])
    assert pieces(None, 320, 320, 0) == [Piece(0, 320, amid=False)]


def test_lanes_keep_of_a_bar_what_they_read() -> None:
    """The same for chunks with gaps; six warps with windows of 60 fit on a multiprocessor."""
    closes = whole(5, 30)
    turn = Both(compile_file(TWENTY), instants=30, data=table(closes)).device
    kept = []
    for work in (turn.complete, turn.gaps):
        structs = [[one.module.structs for one in step] for step in work.steps]
        kept.append(structs)
        assert max(len(one.template) for one in work.steps[0]) <= ROOM_WORDS
    assert kept[0] == kept[1]
    bars = [
        {part.name for decl in structs if decl.name == "Bar" for part in decl.fields}
        for structs in kept[0][0]
    ]
    units = {"tick_num", "tick_den"}
    assert [one for one in bars if "high" in one] == [{"high", "low", "close", *units}]  # of ATR
    assert bars.count({"close"}) == 3  # returns of prices need no unit
    assert bars.count({"close", *units}) == 3


def test_the_longest_lanes_are_the_most_urgent_and_short_pieces_start_first() -> None:
    turn = Both(compile_file(TWENTY), instants=2520, data=table(whole(5, 30))).device
    told = [[turn.signals.table[n].name for n in part.shown] for part in turn.stages[0]]
    for work, short_first in ((turn.complete, True), (turn.uneven, False)):
        step = work.steps[0]
        order = list(start_order(step, 2520, 0))
        bars = [step[part].longest(2520, 0) for part, _ in order]
        assert bars[:3] == [2520] * 3
        # After one with gaps only what has no blocks is cut, and starts behind what is not.
        assert bars[3:] == (sorted(bars[3:]) if short_first else [2520, 2520, 2520, 154])
        urgent = [one for _, one in sorted(order, key=lambda one: -step[one[0]].longest(2520, 0))]
        assert urgent == sorted(urgent, reverse=True)
        assert len({part for part, _ in order}) == len(told) == 7


def test_the_shipped_strategy(tmp_path: Path) -> None:
    """With its files of sectors and members."""
    closes = whole(6, 40)
    options = {"data": table(closes), "more": files(tmp_path, list(closes))}
    Both(compile_file(REVERSAL), instants=32, **options).hold()


def test_chunks_go_on_where_others_ended(tmp_path: Path) -> None:
    """Chunks with every bar and without take turns; rows begin at a time."""
    closes = whole(5, 96)
    closes["A002"][20:28] = [None] * 8
    both = Both(compiled(ALONG), instants=16, data=table(closes))
    rows = both.hold()
    first = int(rows[0, 5 * 40])
    for turn in (both.cores, both.device):
        turn.since(first)
    assert both.hold().shape[1] < rows.shape[1]


def test_parts_share_no_indicator_and_lose_no_column() -> None:
    turn = Signals(compile_file(TWENTY).assembly)
    along, across = parts(turn)
    assert 5 < len(along) <= PARTS_MAX
    assert [stage.across for stage in across] == [True]
    shown = sorted(n for stage in (*along, *across) for n in stage.shown)
    assert shown == list(range(len(turn.table)))
    together = [{turn.table[n].name for n in stage.shown} for stage in along]
    assert {"mean20", "std20", "z20"} in together  # who ask for the same moments
    assert {"ret", "mean60", "std60"} in together  # what they are of is told beside them
    assert {"ret5", "ret21"} in together  # which nobody else computes
    assert {"z60"} in together  # two of 60 would have no room
    assert not any(stage.only for stage in along)  # what cross-sections are of is shown


def test_the_kernels_are_machine_code_of_a_gpu() -> None:
    """NVIDIA's assembler takes every kernel; a block across has its memory beside each other."""
    both = Both(compile_file(TWENTY), instants=64, data=table(whole(9, 3)), bars="1d")
    target = target_of(ARCHITECTURE)
    for step in both.device.gaps.steps:
        for kernel in step:
            if kernel.across:
                block = block_of(kernel, SHARED_BYTES)
                text = block_ptx(block, target)
                assert "bar.sync" in text
                code = assembled(text, ARCHITECTURE)
            else:
                code = along_code(kernel, target, ARCHITECTURE)
            assert code.startswith(b"\x7fELF")


def test_code_of_another_linker_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    linker, keys = importlib.import_module("cuda.bindings.nvjitlink"), []

    def kept(_: object, key: str, __: object) -> bytes:
        keys.append(key)
        return b""

    monkeypatch.setattr(cuda_panels, "through_cache", kept)
    both = Both(compile_file(TWENTY), instants=64, data=table(whole(9, 3)), bars="1d")
    made = [kernel for step in both.device.complete.steps for kernel in step]
    assert {kernel.across for kernel in made} == {False, True}
    target = target_of(ARCHITECTURE)
    for version in ((13, 0), (13, 5)):
        monkeypatch.setattr(linker, "version", lambda version=version: version)
        for kernel in made:
            if kernel.across:
                across_code(kernel, block_of(kernel, SHARED_BYTES), target, ARCHITECTURE)
            else:
                along_code(kernel, target, ARCHITECTURE)
    assert len(set(keys)) == len(keys) == 2 * len(made)


def test_loads_stand_where_a_tile_begins() -> None:
    """What is loaded is used a tile later; each load asks for a later row, and waits for nobody."""
    both = Both(compile_file(TWENTY), instants=64, data=table(whole(9, 3)), bars="1d")
    along, _ = both.device.complete.steps
    for kernel in along:
        text = ptx_text(along_passes(kernel.module), target_of(ARCHITECTURE), BOUNDS)
        lines = text.splitlines()
        asks = [n for n, line in enumerate(lines) if "prefetch.global.L2" in line]
        rows = [n for n in asks if any("ld.global" in line for line in lines[n - 6 : n])]
        assert asks
        assert rows == asks


def test_the_api_computes_there(tmp_path: Path) -> None:
    path = tmp_path / "two.qdsl"
    path.write_text(
        'language 1\n\nstrategy Two:\n    "Two."\n\n    bars 1d\n    universe "ALL"\n\n'
        "    let ret  = close / close[1] - 1\n    let rank = xs.rank(ret)\n\n"
        "    plot(xs.mean(ret))\n"
    )
    bars = table(whole(4, 12))
    assert quantdsl.signals(path, bars, device="simulated").equals(quantdsl.signals(path, bars))
    with pytest.raises(UnavailableError, match="one device"):
        quantdsl.signals(path, bars, device="all")
