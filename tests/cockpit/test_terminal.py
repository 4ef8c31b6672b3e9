"""The session in the terminal: one screen, everything in it, no markup from names."""

import io
import threading

import pytest
from msgspec.structs import replace
from rich.console import Console

from quantdsl.cockpit.history import SILENT_S, History
from quantdsl.cockpit.terminal import show, view
from quantdsl.live.view import Position, Snapshot
from tests.cockpit.script import Script
from tests.waiting import WAIT_S


def printed(history, width=120):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(view(history))
    return console.file.getvalue()


def test_one_screen_tells_it_all():
    history, script = History(), Script(6)
    for _ in range(900):
        history.take(script.next())
    text = printed(history)
    for word in (
        "paper-demo", "ACTIVE", "CryptoMaker", "BTCUSDT", "Positions", "Working orders",
        "Last fills", "daily loss", "forecast", "2,698", "binance", "36,900", "on disk",
        "no order leaves this machine",
    ):  # fmt: skip
        assert word in text, word
    assert len(text.splitlines()) < 50
    assert max(map(len, printed(history, 80).splitlines())) <= 80


def test_a_position_that_was_closed_is_none():
    history, held = History(), Position("s", "KO", 2.0, 60.0, 61.0, 122.0, 2.0)
    snapshot = Snapshot(1, 1, "s", "active", 1, positions=(held,))
    history.take(snapshot)
    assert "Positions" in printed(history)
    closed = replace(held, quantity=0.0, price=0.0, value=0.0, unrealised=0.0, realised=2.0)
    history.take(replace(snapshot, seq=2, positions=(closed,)))
    assert "Positions" not in printed(history)


@pytest.mark.parametrize("state", ["halted", "lost"])
def test_a_halt_and_its_reason_stand_first(state):
    history = History()
    history.take(Snapshot(1, 1, "s", state, 1, "daily loss"))
    first = printed(history).splitlines()[0]
    assert state.upper() in first
    assert "daily loss" in first


def test_a_silent_session_is_said_to_be_silent(clock):
    history = History()
    assert "waiting for the session" in printed(history)
    history.take(Snapshot(1, 1, "s", "active", 1))
    assert "ACTIVE" in printed(history)
    clock[0] += SILENT_S + 0.1
    assert "SILENT" in printed(history)
    assert "ACTIVE" not in printed(history)


def test_names_are_no_markup():
    history, script = History(), Script(6)
    snapshot = script.next()
    name = "[red]x[/nothing]"
    history.take(
        replace(
            snapshot, session=name, reason=name,
            strategies=(replace(snapshot.strategies[0], name=name, reason=name),),
            feeds=(replace(snapshot.feeds[0], name=name, why=name),),
        )
    )  # fmt: skip
    history.say("error", name, name)
    assert printed(history).count(name) >= 6


@pytest.mark.parametrize("terminal", [False, True])
def test_it_follows_until_it_is_told_to_stop(terminal):
    history, script, stop = History(), Script(6), threading.Event()
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
    thread = threading.Thread(target=show, args=(history, stop, console))
    thread.start()
    history.take(script.next())
    history.say("warning", "feed", "last words")
    stop.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    text = console.file.getvalue()
    assert text.count("feed: last words") == 1 or terminal
    assert "last words" in text
    assert ("CryptoMaker" in text) == terminal  # without a terminal only the log
