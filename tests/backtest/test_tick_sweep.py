"""Sweeps on ticks: one book for all lanes, own orders in each, the bits of a single run."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import conduct
from quantdsl.backtest.lane_code import lane_code
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import Memory
from quantdsl.backtest.stream import market_times, materialised
from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, compared, draw, targets
from quantdsl.backtest.warm import tick_start
from quantdsl.check import Checked, compile_file
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.cubin import link_ptx
from quantdsl.codegen.ptx import Bounds, Ptx, gpu_part, ptx_text, target_of
from quantdsl.codegen.simd import simd_program
from quantdsl.codegen.target import avx2, avx512, broad, native_lanes
from quantdsl.devices import cpu
from quantdsl.devices.cpu import Compiled, CpuRunner, rows_of, tiled_rows_of
from quantdsl.devices.work import LaneWork
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, Kind
from quantdsl.report.metrics import evaluate
from quantdsl.report.sweep_result import SweepResult
from quantdsl.shipped import shipped
from tests.backtest.test_lane_entry import checked_of, checked_text
from tests.backtest.tick_runs import START, delta, event, flat_book, message, quote, snapshot, trade
from tests.std.book.recordings import path as recording
from tests.strategies.headers import ON_TICKS

END = "2023-01-03T14:45"
RANGES = {"imbalance_taker": {"entry": "0.2, 0.25", "leave": "0, 0.1", "pressure": "0, 0.1"}}
"""Within which something happens in so short a time."""
RECORDED = "ws/binance_hftbacktest/usdm_btcusdt_20240808.gz"
RECORDED_LINES = 12_000
MAKER = """language 1

strategy Touch:
    "Quotes a few ticks behind the touch, and leans with the top of the book."

    book depth = 10
    trades

    param away = 2 in 0..6 step 1
    param lots = 2 in 1..3 step 1
    param top  = 3 in 1..5 step 2
    param unit = 1.0   # of a lot
    param tick = 0.01

    let lean = ts.ewm_mean(book.imbalance(levels = top), halflife = 200ms)
    let clip = floor_qty(lots * unit)

    state deep = 0.0

    on book:
        deep = book.vwap_to_fill(clip)
        if abs(position) >= 3 * clip:
            close_position()
        elif lean > 0.2 or away < 3 or deep > ask:
            quote(bid = bid - away * tick, bid_qty = clip, ask = ask + away * tick, ask_qty = clip,
                  post_only = true, requote_if = 1 tick)

    backtest:
        cash    = 1_000_000 USD
        latency = 20ms
"""


WINDOWED = """language 1

strategy Windowed:
    "Buys when the middle is above its average."
    quotes
    param n = 20 in 10..40 step 10
    let slow = ts.mean(mid, n)
    on quote:
        if flat and mid > slow:
            buy(1 share)
"""

LOOKING_BACK = """language 1

strategy Back:
    "Looks back at prices and trades themselves, not at an equation."

    book depth = 10
    trades

    param n = 2 in 1..4 step 1

    on book:
        if flat and bid > bid[n]:
            buy(1 share)
        elif not flat and bid < bid[3]:
            close_position()

    on trade:
        if trade.price > trade.price[2]:
            cancel_all()
"""


def finished(sweep: Sweep) -> SweepResult:
    return result_of(sweep, run(sweep, CpuRunner()), "cpu")


def assert_rows_are_single_backtests(sweep: Sweep, result: SweepResult) -> None:
    for row in range(len(result)):
        single = evaluate(sweep.single(row))
        for column in result.table.column_names:
            if column in single:
                mine = result.metric(column)[row]
                assert mine.tobytes() == np.float64(single[column]).tobytes(), (row, column)


@pytest.mark.parametrize("path", ON_TICKS, ids=lambda path: path.stem)
def test_a_shipped_strategy_sweeps_to_the_bit(path: Path) -> None:
    ranges = RANGES.get(path.stem)
    options = {"end": END, "ranges": ranges, "sweep": {"points": "random:2"}}
    sweep = prepare_sweep(compile_file(path), path, **options)
    result = finished(sweep)
    assert sum(result.metric("orders")) > 0
    assert_rows_are_single_backtests(sweep, result)


def lanes_of(checked: Checked, n_points: int, n_events: int) -> Lanes:
    arranged = arrange(checked)
    points = draw(checked, arranged, n_points, np.random.default_rng(1))
    every = materialised(arranged.data)
    return Lanes(checked, arranged, points, np.concatenate([every[:n_events], every[-1:]]))


@pytest.mark.parametrize("path", ON_TICKS, ids=lambda path: path.stem)
def test_every_target_leaves_one_hash(path: Path) -> None:
    machine = targets(NO_COLUMNS, lambda _: None)
    few = compared(
        lanes_of(checked_of(path), 2, 250), [Target("interpreter", InterpretedRunner()), *machine]
    )
    many = compared(lanes_of(checked_of(path), 11, 10_000), machine)
    for outcomes in (few, many):
        assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
        assert len({outcome.hash for outcome in outcomes}) == 1
    assert len(few) >= 4


def test_a_sweep_looks_back_at_ticks(tmp_path: Path) -> None:
    path = tmp_path / "back.qdsl"
    path.write_text(LOOKING_BACK, encoding="utf-8")
    checked = compile_file(path)
    sweep = prepare_sweep(checked, path, end=END)
    result = finished(sweep)
    assert len(set(result.metric("orders"))) == 4
    assert_rows_are_single_backtests(sweep, result)
    machine = targets(NO_COLUMNS, lambda _: None)
    every = [Target("interpreter", InterpretedRunner()), *machine]
    assert len({one.hash for one in compared(lanes_of(checked, 2, 250), every)}) == 1


@pytest.mark.parametrize(
    ("text", "device", "lanes_a_core", "asked"),
    [
        (MAKER, "auto", conduct.BOOK_LANES_A_CORE, "cpu"),
        (MAKER, "auto", 1, "auto"),
        (MAKER, "cuda:0", conduct.BOOK_LANES_A_CORE, "cuda:0"),
        (WINDOWED, "auto", conduct.BOOK_LANES_A_CORE, "auto"),
    ],
    ids=["few lanes", "many lanes", "told", "no book"],
)
def test_few_lanes_on_a_book_are_placed_on_cores(
    text: str, device: str, lanes_a_core: int, asked: str, tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / "placed.qdsl"
    path.write_text(text, encoding="utf-8")
    sweep = prepare_sweep(compile_file(path), path, end=END, sweep={"device": device})
    monkeypatch.setattr(conduct, "BOOK_LANES_A_CORE", lanes_a_core)
    monkeypatch.setattr(conduct, "cores", lambda: [0, 1])
    assert conduct.placed_on(sweep) == asked


def single_orders() -> np.ndarray:
    """A venue that tells of single orders: they come, shrink, trade and go around ours."""
    rng = np.random.default_rng(7)
    resting: dict[int, tuple[int, int, int]] = {}

    def told(ms: float, number: int, side: int, price: int, lots: int) -> np.ndarray:
        made = event(Kind.BOOK_DELTA, ms, price, 0, number, number, lots, side=side)
        resting[number] = (side, price, lots)
        return made

    start = [snapshot(0)]
    start += [told(0, 1 + n, n % 2, 9_999 - n // 2 if n % 2 == 0 else 10_001 + n // 2, 5)
              for n in range(20)]  # fmt: skip
    made = [message(*start)]
    for step in range(1, 400):
        ms = 5.0 * step
        number = int(rng.choice(list(resting)))
        side, price, lots = resting[number]
        choice = rng.random()
        if choice < 0.3 and lots > 0:
            made.append(trade(ms, price, int(rng.integers(1, lots + 1))))
        elif choice < 0.6 and lots > 1:
            made.append(told(ms, number, side, price, lots - 1))
        elif choice < 0.7 and len(resting) > 8:
            made.append(told(ms, number, side, price, 0))
            del resting[number]
        else:
            away = int(rng.integers(0, 4))
            price = 9_999 - away if side == 0 else 10_001 + away
            made.append(told(ms, 100 + step, side, price, int(rng.integers(1, 8))))
    return np.concatenate(made)


def levels() -> np.ndarray:
    """Levels that come and go, far prices, snapshots and trades through our quotes."""
    rng = np.random.default_rng(8)
    base = 9_999
    made = [flat_book(0, base, base + 2, lots=4)]
    for step in range(1, 300):
        ms = 10.0 * step
        if step % 90 == 0:
            base = 9_999 + int(rng.integers(-300, 300))
            made.append(flat_book(ms, base, base + 2, lots=6, levels=8))
            continue
        side = int(rng.integers(0, 2))
        far = int(rng.choice([0, 1, 2, 6_000]))
        price = base - far if side == 0 else base + 2 + far
        made.append(delta(ms, side, price, int(rng.integers(1, 9))))
        if step % 3 == 0:
            made.append(trade(ms + 1, base - 1 if step % 2 else base + 3, 5))
    return np.concatenate(made)


def hand_made(checked: Checked, events: np.ndarray) -> Lanes:
    """Lanes of a strategy over events of a test, with the instrument of the built-in market."""
    lanes = lanes_of(checked, 9, 1)
    words = np.concatenate([events, lanes.events[-1:].view(EVENT).reshape(-1)])
    words[-1]["ts_event"] = words[-1]["ts_recv"] = int(events["ts_recv"][-1]) + 1
    return Lanes(checked, lanes.arranged, lanes.points, words.view(np.int64).reshape(-1, 8))


BY_ROWS = (
    MAKER.replace("levels = top", "levels = 3")
    .replace(" or deep > ask", "")
    .replace("deep = book.vwap_to_fill(clip)", "deep = mid")
)
"""The same where no lane walks the book by itself: a GPU gets rows, with the book's past."""


@pytest.mark.parametrize("events", [levels, single_orders])
@pytest.mark.parametrize("text", [MAKER, BY_ROWS], ids=["by events", "by rows"])
def test_books_of_levels_and_of_orders_on_every_target(text: str, events) -> None:
    lanes = hand_made(checked_text(text), events())
    rows = tiled_rows_of(lanes.work(NO_COLUMNS), Bounds().tiling)
    assert (rows is None) == (text == MAKER)
    oracle = Target("interpreter", InterpretedRunner())
    outcomes = compared(lanes, [oracle, *targets(NO_COLUMNS, lambda _: None)])
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
    assert len({outcome.hash for outcome in outcomes}) == 1


def on_target(target) -> CpuRunner:
    def load(work: LaneWork) -> Compiled:
        program = simd_program(work.module, work.kept, target, Cache(), work.varying)
        return Compiled(program, rows_of(work))

    return CpuRunner(load=load)


def widths() -> list:
    found = [t for t in (avx512(), avx2()) if t.lanes <= native_lanes().lanes]
    return [*found, *map(broad, found[:1])]


def test_every_width_and_events_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = lanes_of(checked_of(next(p for p in ON_TICKS if p.stem == "skewed_maker")), 19, 6_000)
    scalar = Target("scalar", CpuRunner(load=cpu.scalar))
    wide = [Target(str(target.lanes), on_target(target)) for target in widths()]
    whole = compared(lanes, [scalar, *wide])
    monkeypatch.setattr(cpu, "PIECE_BYTES", 64 * 2_100)
    assert {one.hash for one in compared(lanes, [scalar, *wide])} == {whole[0].hash}
    assert len({one.hash for one in whole}) == 1


@pytest.mark.parametrize("kind", ["skewed_maker", "sma_cross"])
def test_many_lanes_on_a_book_go_in_broad_groups(kind: str, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "native_lanes", avx512)
    work = lanes_of(checked_of(shipped(f"strategies/{kind}.qdsl")), 2, 10).work(NO_COLUMNS)
    many = work._replace(points=np.zeros((len(work.points), cpu.BROAD_FROM), np.int64))
    assert not cpu.is_broad(work)
    assert cpu.is_broad(many) == (kind == "skewed_maker")
    step = CpuRunner(threads=2).plan(many).lanes_a_chunk
    assert step % (32 if kind == "skewed_maker" else cpu.BLOCK_LANES) == 0
    monkeypatch.setattr(cpu, "native_lanes", avx2)
    assert not cpu.is_broad(many)


def test_a_lane_has_no_book_of_its_own() -> None:
    path = next(p for p in ON_TICKS if p.stem == "skewed_maker")
    work = lanes_of(checked_of(path), 2, 10).work(NO_COLUMNS)
    assert 8 * work.own < 100_000 < 8 * work.common


# ---- where trading starts -----------------------------------------------------------------------

def test_all_points_start_after_the_tick_at_which_they_are_warm() -> None:
    checked = checked_text(WINDOWED)
    lanes = lanes_of(checked, 1, 1)
    ticks = [quote(5.0 * k, None if k % 4 == 0 else 9_999, 10_001) for k in range(200)]
    events = np.concatenate(ticks).view(np.int64).reshape(-1, 8)
    memory = Memory(checked.lane_module(lanes.arranged.uses))
    lanes.arranged.fill(memory)
    start = tick_start(checked, lanes.arranged.uses, memory, np.array([40]), events)
    fortieth = [k for k in range(200) if k % 4][39]
    assert start == START + 5_000_000 * fortieth + 1
    assert len(market_times(events)) == 200
    with pytest.raises(DataError, match="need 999 ticks of its quotes before the first trade"):
        tick_start(checked, lanes.arranged.uses, memory, np.array([999]), events)


# ---- a recording --------------------------------------------------------------------------------


def test_a_recording_sweeps_to_the_bit(tmp_path: Path) -> None:
    cut = tmp_path / "binance.txt"
    with gzip.open(recording(RECORDED), "rt") as lines:
        cut.write_text("".join(next(lines) for _ in range(RECORDED_LINES)))
    path = tmp_path / "maker.qdsl"
    path.write_text(MAKER)
    units = {"unit": "0.001", "tick": "0.1"}
    options = {"data": str(cut), "params": units, "sweep": {"points": "random:5"}}
    sweep = prepare_sweep(compile_file(path), path, **options)
    result = finished(sweep)
    assert sum(result.metric("trades")) > 0
    assert_rows_are_single_backtests(sweep, result)


@pytest.mark.parametrize("on", ["book", "quotes"])
def test_the_lanes_of_a_gpu_assemble(on):
    """One book for all lanes in global memory, or rows of quotes: PTX without a call left open."""
    text = MAKER if on == "book" else QUOTER
    lanes = lane_code(checked_text(text), frozenset(), 1)
    target, bounds = target_of("sm_90"), Bounds()
    part = gpu_part(lanes.module, lanes.words.kept, frozenset({"p0", "p1"}))
    cubin = link_ptx(Ptx(ptx_text(part, target, bounds), ""), "sm_90", None, bounds)
    assert cubin.code.startswith(b"\x7fELF")


QUOTER = """language 1

strategy Quoter:
    "Quotes behind the touch of a stream of quotes."

    quotes

    param away = 2 in 0..6 step 1
    param lots = 2 in 1..3 step 1
    param tick = 0.01

    on quote:
        quote(bid = bid - away * tick, bid_qty = lots * 1 shares, ask = ask + away * tick,
              ask_qty = lots * 1 shares, post_only = true, requote_if = 1 tick)

    backtest:
        cash    = 1_000_000 USD
        latency = 20ms
"""
