"""The worker of asynchronous signals: its answers, journalled, make the run that a backtest is."""

import threading

import numpy as np
import pytest

from bench.live_signals import rows
from quantdsl.backtest import awaited
from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.check import Checked
from quantdsl.check.checked import WORKER
from quantdsl.events.layout import EVENT, Kind
from quantdsl.events.ring import Ring
from quantdsl.live import worker as module
from quantdsl.live.clockwork import BarClock
from quantdsl.live.sequencer import Answer, Lane
from quantdsl.live.worker import Worker
from tests.backtest.test_awaited import text
from tests.backtest.test_lane_entry import checked_text
from tests.waiting import WAIT_S, until

LIVE = frozenset({WORKER})
ALL = -1


def stream(checked: Checked) -> tuple[Prepared, np.ndarray]:
    """A backtest before its first event, and some of its events with the answers due to it."""
    prepared = prepare(checked)
    return prepared, next(iter(prepared.data.chunks()))[:4_000]


def with_values(worker: Worker, events: np.ndarray) -> np.ndarray:
    """The events as a session has them: each answer brings its value, as the worker gives it."""
    found = rows(worker.compute(events))
    values = {(number, of_ts): bits for number, of_ts, bits, _ in found.tolist()}
    parts = []
    for event in events:
        if event["kind"] != Kind.SIGNAL:
            parts.append(event.copy())
            continue
        for number in range(worker.signals):
            one, of_ts = event.copy(), int(event["payload"][1])
            if (number, of_ts) in values:
                one["payload"][:3] = number, of_ts, values[number, of_ts]
                parts.append(one)
    return np.array(parts, EVENT)


@pytest.mark.parametrize(
    ("delay", "deadline"), [("0us", "2ms"), ("250us", "2ms"), ("420s", "10m"), ("4000s", "3h")]
)
def test_a_session_decides_what_a_backtest_with_its_delays_decides(
    delay: str, deadline: str
) -> None:
    checked = checked_text(text(delay, deadline))
    computed, events = stream(checked)
    computed.run.feed(events)
    session = prepare(checked, live=LIVE)
    told = with_values(Worker(session), events)
    session.run.feed(told)
    records = session.run.all_records()
    assert len(records) > 100
    assert records.tobytes() == computed.run.all_records().tobytes()
    counts = [awaited.answers(checked, one.run.memory) for one in (computed, session)]
    assert counts[0] == counts[1]
    assert counts[0][0].ready > 100
    again = prepare(checked)  # the values of the journal are those that its events give
    again.run.feed(told)
    assert again.run.all_records().tobytes() == records.tobytes()


def test_the_engine_computes_nothing_that_only_signals_read() -> None:
    checked = checked_text(text("1ms"))
    names = {func.name for func in checked.module(LIVE).funcs}
    assert any("linreg" in func.name for func in checked.module().funcs)
    assert not any("linreg" in name for name in names)


def test_without_answers_all_goes_on_and_every_request_is_stale() -> None:
    checked = checked_text(text("1ms"))
    _, events = stream(checked)
    session = prepare(checked, live=LIVE)
    bars = events[events["kind"] != Kind.SIGNAL]
    session.run.feed(bars)
    (found,) = awaited.answers(checked, session.run.memory)
    assert found.ready == found.dropped == 0
    assert found.stale == found.asked - 1
    assert found.waiting == 1
    state = checked.strategy.scope.names["late"].value.ir.name
    assert session.run.memory.get(state) == found.stale
    assert session.run.memory.get("e.metrics.orders") > 0  # `on bar` sees that fc.age is too long


def test_a_thread_answers_what_it_takes_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOIN_S", WAIT_S)
    checked = checked_text(text("1ms"))
    _, events = stream(checked)
    worker, answers = Worker(prepare(checked, live=LIVE)), list[Answer]()
    expected = rows(Worker(prepare(checked, live=LIVE)).compute(events))
    worker.start(answers.append)
    for part in np.split(events[:1_000], 10):
        worker.take(part)
    worker.stop()
    found = [[one.signal, one.of_ts, *one.bits.tolist(), *one.instruments] for one in answers]
    assert found == expected[: len(found)].tolist()
    assert len(found) > 400
    assert worker.waiting == 0
    assert all(one.took_ns > 0 for one in answers)


def test_a_worker_that_stalls_is_given_up_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = checked_text(text("1ms"))
    _, events = stream(checked)
    monkeypatch.setattr(module, "WAITING_MAX", 100)
    worker, free = Worker(prepare(checked, live=LIVE)), threading.Event()
    worker.start(lambda _: free.wait(WAIT_S))
    for part in np.split(events[:1_000], 100):
        worker.take(part)
    assert "110 events behind" in worker.failure
    free.set()
    worker.stop()


def test_a_worker_that_fails_says_why() -> None:
    checked = checked_text(text("1ms"))
    _, events = stream(checked)

    def refuse(_: Answer) -> None:
        raise ValueError("no")

    worker = Worker(prepare(checked, live=LIVE))
    worker.start(refuse)
    worker.take(events[:100])
    assert until(lambda: worker.failure) == "ValueError: no"
    worker.take(events[100:200])
    worker.stop()


def test_an_answer_lies_behind_what_was_sent_and_not_in_the_future() -> None:
    sent: list[np.ndarray] = []
    lane = Lane(
        "s", Clock(floor=1_000), [0], frozenset({Kind.BAR}), Journal(), Ring.create(None, 64)
    )
    lane.seen = lambda events: sent.append(events.copy())
    lane.last_ts = 500
    for of_ts, took, when in ((400, 50, 500), (400, 300, 700), (400, 5_000, 1_000)):
        lane.answer(Answer(2, of_ts, np.array([0]), np.array([7]), took), 1_000)
        event = sent[-1][0]
        assert (event["kind"], event["ts_event"], event["ts_recv"]) == (Kind.SIGNAL, when, when)
        assert event["payload"][:3].tolist() == [2, 400, 7]


class Journal:
    failed: str | None = None

    def inputs(self, events: np.ndarray) -> None:
        pass


class Clock(BarClock):
    """Of a session that has come to a moment."""

    def __init__(self, floor: int) -> None:
        self.floor = floor

    def until(self, _: int) -> np.ndarray:
        return np.empty(0, EVENT)
