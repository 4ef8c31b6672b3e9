"""Alerts reach a program and a webhook in time, once, and never hold anything up."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from msgspec.structs import replace

from quantdsl.cockpit.alerts import LOOK_S, Alert, Alerts, Limiter, causes, command_sender
from quantdsl.cockpit.history import Cursor, History
from quantdsl.config import AlertsConfig
from quantdsl.live.view import FeedHealth, Gauge, Snapshot, StrategyView
from tests.waiting import until

FINE = Snapshot(1, 1, "s", "active", 1)
HALTED = replace(FINE, seq=2, state="halted", reason="daily loss")


class Looked(History):
    """Counts how often somebody looked for news."""

    looks = 0

    def told(self, number):
        found = super().told(number)
        self.looks += 1
        return found

    def looked_at(self):
        """Waits until the alerts have seen what there is now."""
        enough = self.looks + 2  # the first may have begun before
        until(lambda: self.looks >= enough)


@pytest.fixture
def hook():
    """A webhook's address, what it was sent, and the status that it answers with."""
    got, status = [], [200]

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/secret", got, status
    server.shutdown()
    thread.join()
    server.server_close()


def running(settings):
    history = Looked()
    alerts = Alerts(history, settings)
    alerts.start()
    history.take(FINE)
    return history, alerts


def test_a_program_is_started_with_the_alert_as_its_input(tmp_path):
    file = tmp_path / "alert $(touch x); é"
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    history, alerts = running(AlertsConfig(command=(sys.executable, "-c", code, str(file))))
    history.take(HALTED)
    until(lambda: file.exists() and file.stat().st_size)
    alerts.close()
    assert json.loads(file.read_bytes()) == {
        "session": "s", "level": "error", "cause": "session.halted",
        "text": "the session is halted: daily loss", "ts": 1,
    }  # fmt: skip
    assert not (tmp_path / "x").exists()


def test_a_webhook_is_told_at_the_next_look_and_once(hook):
    """There are ten looks a second, so that it is told within a second."""
    assert LOOK_S <= 0.1
    url, got, _ = hook
    history, alerts = running(AlertsConfig(webhook=url))
    history.take(HALTED)
    history.looked_at()
    until(lambda: alerts.limiter.told_s)
    until(lambda: got)
    for number in range(3, 30):
        history.take(replace(HALTED, seq=number))
        if number % 9 == 0:
            history.looked_at()
    alerts.close()
    assert [one["cause"] for one in got] == ["session.halted"]


def test_a_channel_that_fails_costs_a_line_and_names_no_secret(hook):
    url, got, status = hook
    status[0] = 500
    history, alerts = running(AlertsConfig(webhook=url, command=("/nowhere/at/all",)))
    history.take(HALTED)
    until(lambda: len(history.news(Cursor()).log) == 2)
    text = " ".join(line.text for line in history.news(Cursor()).log)
    assert "the webhook failed: OSError: status 500" in text
    assert "the command failed: FileNotFoundError" in text
    assert "secret" not in text
    assert {line.level for line in history.news(Cursor()).log} == {"warning"}
    alerts.close()
    assert len(got) == 1  # its own failure is no cause for another


def test_a_program_that_hangs_holds_up_neither_session_nor_webhook(hook):
    url, got, _ = hook
    hanging, ended = threading.Event(), threading.Event()
    history, alerts = running(AlertsConfig(command=("never", "started"), webhook=url))

    def hang(_):
        hanging.set()
        ended.wait()

    alerts.channels[0].send = hang
    history.take(HALTED)
    until(lambda: len(got) == 1)
    until(hanging.is_set)
    history.say("error", "risk", "limit")
    until(lambda: len(got) == 2)
    assert got[1]["cause"] == "log.risk"
    alerts.close()
    assert alerts.channels[0].thread.is_alive(), "it was not waited for"
    ended.set()
    alerts.channels[0].thread.join()


def test_a_program_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("quantdsl.cockpit.alerts.CHANNEL_S_MAX", 0.2)
    send = command_sender((sys.executable, "-c", "import time; time.sleep(3600)"))
    with pytest.raises(subprocess.TimeoutExpired):
        send(Alert("s", "error", "session.halted", "", 1))


def test_the_limiter_is_exact():
    limiter = Limiter(10.0, 3)
    assert [limiter.lets("a", at) for at in (0.0, 9.9, 10.0)] == [True, False, True]
    assert limiter.lets("b", 11.0)
    assert not limiter.lets("c", 12.0)  # three in this minute
    assert not limiter.lets("c", 59.9)
    assert limiter.lets("c", 60.0)  # the first is a minute old


def test_a_flapping_feed_is_told_of_once(hook):
    url, got, _ = hook
    history, alerts = running(AlertsConfig(webhook=url))
    for number in range(2, 12):
        state = "down" if number % 2 else "live"
        feed = FeedHealth("binance", state=state, why="closed")
        history.take(replace(FINE, seq=number, feeds=(feed,)))
        history.looked_at()
    alerts.close()
    until(lambda: got)
    assert [one["text"] for one in got] == ["feed binance is down: closed"]
    assert alerts.held_back == 4


def test_what_is_held_back_is_told_when_there_is_room_if_it_is_wrong_still(hook):
    """Halted, armed, halted for good within `repeat_s`: the second halt is told of behind it."""
    url, got, _ = hook
    history, alerts = running(AlertsConfig(webhook=url))
    alerts.limiter.repeat_s = 3600.0
    for number, snapshot in enumerate((HALTED, FINE, HALTED), 2):
        history.take(replace(snapshot, seq=number))
        history.looked_at()
    until(lambda: got)
    assert (len(got), alerts.held_back) == (1, 1)
    history.looked_at()
    assert alerts.held_back == 1, "it is counted once, however often it is looked at"
    alerts.limiter.repeat_s = 0.0
    until(lambda: len(got) == 2)
    alerts.close()
    assert [one["cause"] for one in got] == ["session.halted"] * 2


def test_of_lines_that_are_held_back_the_newest_is_told_when_there_is_room(hook):
    url, got, _ = hook
    history, alerts = running(AlertsConfig(webhook=url))
    alerts.limiter.repeat_s = 3600.0
    texts = ("max notional", "max daily loss", "max position")
    for text in texts:
        history.say("error", "A", text)
    until(lambda: got and alerts.held_back == 2)
    assert len(got) == 1
    alerts.limiter.repeat_s = 0.0
    until(lambda: len(got) == 2)
    alerts.close()
    assert [one["text"] for one in got] == [texts[0], texts[2]]


@pytest.mark.parametrize(
    ("snapshot", "age_s", "expected"),
    [
        (None, 9.0, []),
        (FINE, 0.1, []),
        (FINE, 1.5, ["session.silent"]),
        (replace(FINE, state="stopped"), 60.0, []),
        (replace(FINE, state="lost"), 60.0, ["session.lost"]),
        (
            replace(FINE, strategies=(StrategyView("A", "halted"), StrategyView("B", "active"))),
            0.1,
            ["strategy.A.halted"],
        ),
        (replace(FINE, feeds=(FeedHealth("f", state="stale"),)), 0.1, ["feed.f.stale"]),
        (replace(FINE, gauges=(Gauge("loss", 89.0, 100.0),)), 0.1, []),
        (replace(FINE, gauges=(Gauge("loss", 90.0, 100.0),)), 0.1, ["limit..loss.near"]),
        (
            replace(FINE, gauges=(Gauge("loss", 1.0, 100.0, tripped=True),)),
            0.1,
            ["limit..loss.tripped"],
        ),
    ],
)
def test_what_is_a_cause(snapshot, age_s, expected):
    found = list(causes(snapshot, age_s))
    assert [alert.cause for alert in found] == expected
    assert all(isinstance(alert, Alert) and alert.session == "s" for alert in found)


def test_without_a_channel_nothing_runs():
    alerts = Alerts(History(), AlertsConfig())
    before = threading.active_count()
    alerts.start()
    assert threading.active_count() == before
    alerts.close()
