"""Signals on the simulated device: the words that a core leaves, and what a lost device costs."""

import functools
from collections.abc import Callable

import numpy as np
import pytest

from bench.live_signals import INSTRUMENTS, prepared_on, rows
from quantdsl.backtest.prepare import Prepared, arrange, prepare
from quantdsl.backtest.program import Memory
from quantdsl.check.checked import WORKER
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.instants import instants
from quantdsl.codegen.target import native
from quantdsl.devices.failure import refused
from quantdsl.devices.instants import SimulatedInstants
from quantdsl.errors import ConfigError, UnavailableError
from quantdsl.events.layout import EVENT, MORE, Kind
from quantdsl.events.merge import keep
from quantdsl.events.ring import Ring
from quantdsl.live import looks, signal_device
from quantdsl.live.clockwork import BarClock
from quantdsl.live.sequencer import Lane
from quantdsl.live.worker import Worker
from quantdsl.passes.instants import cut_instant
from tests.backtest.test_awaited import TICKS, text
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.tick_runs import checked_strategy
from tests.backtest.tick_runs import quote as tick_quote

LIVE = frozenset({WORKER})
KERNEL = """
@kernel(reduce)
@workgroup(32)
kernel alike(r: window[f32, 24], pat: const int, wide: f32) -> f32?:
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
"""
UNIVERSE = """language 1
{head}
strategy Crowd:
    bars {bars}
    universe "{names}"
    session "XNYS"

    param n = 5 in 3..9 step 1
{equations}
    on ready(a):
        if flat and a > close:
            buy(10 shares)

    risk:
        max_gross = 100% of equity
"""
OWN = """
    let ret = log(close / close[1])

    @async(deadline = 2ms)
    let a = ta.ema(close, n)

    @async(deadline = 2ms)
    let b = ta.stdev(ret, 20) + ta.rsi(close, n) + ts.zscore(ret, n) * ts.mean(ret, n)
"""
ACROSS = """
    let move = close / close[3] - 1

    @async(deadline = 2ms)
    let a = ta.sma(xs.rank(move), 3)

    @async(deadline = 2ms)
    let whole = xs.mean(move)
"""
HEAVY = """
    let ret = log(close / close[1])

    @async(deadline = 2ms)
    let a = ta.sma(ts.std(ret, 20) + (alike(ret, pat = 3, wide = 0.001) ?? 0.0), 2)

    @async(deadline = 2ms)
    let b = (alike(ta.roc(close, 2), pat = 2, wide = 0.01) ?? 0.0) + ts.zscore(ret, 20)
"""
CLOCKS = """
    let ret = close / close[1] - 1
    let slow_ret = hourly.close / hourly.close[1] - 1

    @async(deadline = 2ms)
    let a = ta.ema(hourly.close, n) - ta.sma(close, 3)

    @async(deadline = 2ms)
    let b = ts.zscore(ret, 5) + ts.std(ret, 5) + ts.zscore(slow_ret, 5) + ts.std(slow_ret, 5)
"""
STRATEGIES = {
    "one instrument": text("1ms"),
    "of each instrument": UNIVERSE.format(head="", names="NASDAQ100", bars="30m", equations=OWN),
    "of the whole": UNIVERSE.format(head="", names="NASDAQ100", bars="30m", equations=ACROSS),
    "several clocks": UNIVERSE.format(
        head="", names="NASDAQ100", bars="30m\n    bars 1h as hourly", equations=CLOCKS
    ),
    "kernels": UNIVERSE.format(head=KERNEL, names='AAPL", "MSFT', bars="30m", equations=HEAVY),
}
EVENTS = {"kernels": 180}


@functools.cache
def ready(name: str) -> tuple[Prepared, np.ndarray]:
    """A live strategy before its first event, and whole instants of the built-in market."""
    checked = checked_text(STRATEGIES[name])
    prepared = prepare(checked, live=LIVE)
    events = next(iter(arrange(checked).data.chunks()))[: EVENTS.get(name, 2_000)]
    last = np.flatnonzero(events["flags"] & MORE == 0)[-1]
    kinds = (Kind.SIGNAL, Kind.TIMER)
    whole = events[: last + 1]
    return prepared, keep(whole, ~np.isin(whole["kind"], kinds))


def on_device(prepared: Prepared) -> Worker:
    """A worker on the simulated device."""
    worker = Worker(prepared)
    worker.move("simulated")
    assert worker.where == "simulated"
    return worker


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_simulated_device_answers_what_a_core_answers(
    monkeypatch: pytest.MonkeyPatch, name: str, parts: int
) -> None:
    monkeypatch.setattr(signal_device, "PARTS_SMALL", parts)
    prepared, events = ready(name)
    core, worker = Worker(prepared), on_device(prepared)
    wanted = rows(core.compute(events))
    assert len(wanted) > 100
    np.testing.assert_array_equal(rows(worker.compute(events)), wanted)
    assert worker.device is not None
    worker.device.copy()
    np.testing.assert_array_equal(worker.memory.words, core.memory.words)


def test_twenty_signals_of_each_of_5000_instruments_fit() -> None:
    """In the memory that a strategy may take; `bench.live_signals` runs them on a GPU."""
    prepared, instants = prepared_on(INSTRUMENTS, 2)
    worker = Worker(prepared)
    answers = [len(rows(worker.compute(events))) for events in instants]
    assert answers[0] >= INSTRUMENTS


def test_a_session_on_a_device_has_the_journal_of_one_on_a_core() -> None:
    prepared, events = ready("of each instrument")
    journals = []
    for worker in (Worker(prepared), on_device(prepared)):
        journal, lane = Journal(), LaneWithoutBars()
        lane.journal = journal
        for part in signal_device.parted(events):
            lane.send(part)
            for said in worker.compute(part):
                lane.answer(said._replace(took_ns=1_000), int(part["ts_event"][-1]))
        journals.append(np.concatenate(journal.events))
    core, device = journals
    assert (core["kind"] == Kind.SIGNAL).sum() > 1_000
    assert core.tobytes() == device.tobytes()
    runs = [prepare(prepared.checked, live=LIVE) for _ in journals]
    for run, journal in zip(runs, journals, strict=True):
        run.run.feed(journal)
    first, second = (run.run.all_records().tobytes() for run in runs)
    assert len(first) > 2_000
    assert first == second


@pytest.mark.parametrize(("fails_at", "copied"), [(0, False), (37, True)])
def test_where_a_device_is_lost_a_core_goes_on_with_the_same_answers(
    fails_at: int, copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, events = ready("of each instrument")
    core, worker = Worker(prepared), on_device(prepared)
    device = worker.device
    assert device is not None
    start, parts = device.runner.start, [events[k : k + 160] for k in range(0, 1_600, 160)]

    def started(number: int) -> None:
        if number > fails_at:
            device.runner.control[:] = -1
            raise refused("cuda:0", "launch", "an illegal address was read")
        start(number)

    monkeypatch.setattr(device.runner, "start", started)
    for part in map(whole, parts):
        np.testing.assert_array_equal(rows(worker.compute(part)), rows(core.compute(part)))
        if copied and worker.device is not None:
            device.copy()
    np.testing.assert_array_equal(worker.memory.words, core.memory.words)
    assert worker.where == "cpu"
    (notice,) = worker.notices
    assert "an illegal address was read" in notice
    assert "from now on a core computes the signals" in notice


def test_large_instants_are_followed_by_copies_while_nothing_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the next one would wait for a copy, which takes longer than all that it does."""
    prepared, events = ready("of each instrument")
    parts = list(signal_device.parted(events))
    monkeypatch.setattr(signal_device, "KEPT_EVENTS_MAX", 5 * max(map(len, parts)))
    device = on_device(prepared).device
    assert device is not None
    fetch, resting, copies = device.runner.fetch, False, list[bool]()

    def fetched(words: np.ndarray) -> None:
        copies.append(resting)
        fetch(words)

    monkeypatch.setattr(device.runner, "fetch", fetched)
    for part in parts:
        resting = False
        device.compute(part)
        resting = True
        device.rest()
    assert len(copies) > 2
    assert all(copies)


def test_an_instant_that_never_ends_is_a_lost_device(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, events = ready("of each instrument")
    worker = on_device(prepared)
    assert worker.device is not None
    monkeypatch.setattr(worker.device.runner, "start", lambda _: None)
    monkeypatch.setattr(signal_device, "HANGS_S", 0.05)
    answers = rows(worker.compute(events))
    np.testing.assert_array_equal(answers, rows(Worker(prepared).compute(events)))
    assert "no answer for 0.05 s" in worker.notices[0]


def test_an_instant_too_large_for_the_room_is_for_a_core() -> None:
    prepared, events = ready("of each instrument")
    worker = on_device(prepared)
    assert worker.device is not None
    worker.device.room = worker.device.room[:10]
    wanted = rows(Worker(prepared).compute(events))
    np.testing.assert_array_equal(rows(worker.compute(events)), wanted)
    assert "there is room for 10" in worker.notices[0]


def test_events_in_any_order_of_instruments_give_the_same_answers() -> None:
    prepared, events = ready("of each instrument")
    core, worker = Worker(prepared), on_device(prepared)
    for part in signal_device.parted(events.copy()):
        bars = np.flatnonzero(part["kind"] == Kind.BAR)
        part[bars] = part[bars[::-1]]
        part["flags"] |= MORE
        part["flags"][-1] &= ~np.uint16(MORE)
        np.testing.assert_array_equal(rows(worker.compute(part)), rows(core.compute(part)))


def test_an_instrument_may_have_many_events_at_once() -> None:
    """More than the block at hand brings in, and all together more than there are threads."""
    prepared, events = ready("of each instrument")
    core, worker = Worker(prepared), on_device(prepared)
    chance = np.random.default_rng(3)
    for part in list(signal_device.parted(events))[:12]:
        times = np.where(part["kind"] == Kind.BAR, chance.integers(1, 90, len(part)), 1)
        many = np.repeat(part, times)
        many["payload"][:, 3] += chance.integers(-3, 4, len(many))  # the close
        many["flags"] |= MORE
        found, wanted = (rows(one.compute(whole(many))) for one in (worker, core))
        np.testing.assert_array_equal(found, wanted)
    assert worker.device is not None
    worker.device.copy()
    np.testing.assert_array_equal(worker.memory.words, core.memory.words)


def test_events_that_lie_where_the_device_reads_are_taken_from_there() -> None:
    prepared, events = ready("of each instrument")
    core, worker = Worker(prepared), on_device(prepared)
    device, plain = worker.device, 0
    assert device is not None
    device.arena.rows = device.arena.rows[:50]  # three instants and a half
    for part in signal_device.parted(events):
        lent = device.arena.copy(part)
        assert lent is not None
        assert lent.tobytes() == part.tobytes()
        plain += device.takes(lent)
        assert not device.takes(part)
        np.testing.assert_array_equal(rows(worker.compute(lent)), rows(core.compute(part)))
        device.arena.free()
    assert plain > 100


def test_the_arena_lends_no_row_twice() -> None:
    arena, lent = signal_device.Arena(np.zeros((10, 8), np.int64)), list[np.ndarray]()
    chance = np.random.default_rng(1)
    refused_at_least = 0
    for number in range(1, 2_000):
        events = np.full(chance.integers(1, 6), number, np.int64).repeat(8).view(EVENT)
        room = arena.copy(events)
        if room is None:
            refused_at_least += 1
            assert lent
        else:
            lent.append(room)
        for one in lent:
            assert len(np.unique(one.view(np.int64))) == 1
        if lent and (room is None or chance.random() < 0.5):
            arena.free()
            lent.pop(0)
    assert refused_at_least > 50


@pytest.mark.parametrize(
    ("change", "plain"),
    [
        (lambda _: None, True),
        (lambda events: events["flags"].__setitem__(2, 0), False),
        (lambda events: events["flags"].__setitem__(-1, MORE), False),
        (lambda events: events["side"].__setitem__(1, 1), False),
        (lambda events: events["kind"].__setitem__(0, Kind.TRAIT), False),
        (lambda events: events["kind"].__setitem__(slice(None), Kind.TRAIT), False),
        (lambda events: events["instrument"].__setitem__(3, 2), False),
    ],
)
@pytest.mark.parametrize("count", [1, 5])
def test_an_instant_of_bars_is_known(
    change: Callable[[np.ndarray], None], plain: bool, count: int
) -> None:
    events = np.zeros(count, EVENT)
    events["kind"], events["instrument"] = Kind.BAR, 10 + np.arange(count)
    events["flags"][:-1] = MORE
    try:
        change(events)
    except IndexError:
        return
    words = signal_device.words_of(events).reshape(-1)
    room = np.zeros_like(words)
    assert looks.copied(words, room) == plain
    np.testing.assert_array_equal(room, words)


def test_a_word_is_looked_at_so_many_times_at_most() -> None:
    words = np.array([4, 7], np.int64)
    assert looks.seen(words, 1, 7, 1)
    assert not looks.seen(words, 1, 8, 1_000)
    assert not looks.seen(words, 0, 4, 0)


def test_a_word_that_names_no_device_is_refused() -> None:
    prepared, _ = ready("one instrument")
    with pytest.raises(ConfigError, match="device gpu: there is no such device; give auto, cpu"):
        Worker(prepared).move("gpu")


def test_a_gpu_that_is_not_there_is_said_and_auto_takes_a_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: int) -> None:
        raise UnavailableError("no NVIDIA driver on this machine")

    monkeypatch.setattr("quantdsl.devices.cuda.device.open_device", missing)
    prepared, _ = ready("one instrument")
    worker = Worker(prepared)
    worker.move("auto")
    assert worker.where == "cpu"
    with pytest.raises(UnavailableError, match="no NVIDIA driver"):
        worker.move("cuda:0")


@pytest.mark.parametrize(
    ("name", "steps", "pays"),
    [
        ("one instrument", ["begin", "tell"], False),
        ("of each instrument", ["begin", "each", "tell"], False),
        ("kernels", ["begin", "each", "alike[3,32]", "each", "alike[2,32]", "each",
                     "tell"], True),
    ],
)  # fmt: skip
def test_an_instant_is_cut_into_few_kernels(name: str, steps: list[str], pays: bool) -> None:
    prepared, _ = ready(name)
    plan = signal_device.planned(prepared.checked, prepared.uses)
    assert [step.name for step in plan.made.steps] == steps
    assert plan.pays == pays


def whole(part: np.ndarray) -> np.ndarray:
    """Events of which the last ends an instant."""
    part = part.copy()
    part["flags"][-1] &= ~np.uint16(MORE)
    return part


class Journal:
    failed: str | None = None

    def __init__(self) -> None:
        self.events: list[np.ndarray] = []

    def inputs(self, events: np.ndarray) -> None:
        self.events.append(events.copy())


class LaneWithoutBars(Lane):
    """A lane whose ring nobody reads."""

    def __init__(self) -> None:
        super().__init__("s", Clock(), [0], frozenset(), Journal(), Ring.create(None, 1 << 16))


class Clock(BarClock):
    """Of a session whose present is far ahead."""

    def __init__(self) -> None:
        self.floor = np.iinfo(np.int64).max

    def until(self, _: int) -> np.ndarray:
        return np.empty(0, EVENT)


def test_on_ticks_one_thread_takes_all_events() -> None:
    checked = checked_strategy(TICKS)
    quotes = [tick_quote(n * 5 - n % 4, 1000 - n % 7, 1004 - n % 3) for n in range(300)]
    module = checked.instant_module(frozenset())
    cut = cut_instant(module, {}, checked.instruments, apart=False, parts=2)
    made = instants(cut, {}, checked.instruments, 1)
    core, device = (Memory(module) for _ in range(2))
    runner = SimulatedInstants(made, len(device.words), 400)
    work = checked.worker_module(frozenset())
    program = load(work, native(), Cache())
    events = np.concatenate(quotes)
    for memory in (core, device):
        program.call("init", memory.words)
    answers = np.empty((300, 4), np.int64)
    words = signal_device.words_of(events)
    count = program.call("work", core.words, words.reshape(-1), 300, answers.reshape(-1))
    plan = signal_device.Plan(cut, made)
    signals = signal_device.DeviceSignals(runner, plan, [False], device.words)
    found = rows(signals.compute(events))
    assert count == len(found) > 250
    np.testing.assert_array_equal(found, answers[:count])
    signals.copy()
    np.testing.assert_array_equal(device.words, core.words)
