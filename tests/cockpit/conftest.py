"""A cockpit over a played session."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from quantdsl.cockpit.history import History
from quantdsl.cockpit.server import Cockpit
from quantdsl.config import CockpitConfig
from tests.cockpit.script import Script


class Played:
    """A script whose snapshots reach a cockpit ten times a second, if `runs`."""

    def __init__(self, folder: Path, script: Script, *, warm: int, runs: bool) -> None:
        self.script, self.history, self.folder = script, History(), folder
        for _ in range(warm):
            self.history.take(script.next())
        self.cockpit = Cockpit(self.history, script.send, folder, CockpitConfig(port=0))
        self.cockpit.start()
        self.token = self.cockpit.link.rpartition("#")[2]
        self.port = self.cockpit.address.port
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        if runs:
            self.thread.start()

    def _run(self) -> None:
        while not self.stop.wait(0.1):
            self.history.take(self.script.next())

    def close(self) -> None:
        self.stop.set()
        if self.thread.ident is not None:
            self.thread.join()
        self.cockpit.close()


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The seconds that a history reads: they stand still until a test moves them."""
    now = [1_000.0]
    own = SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns)
    monkeypatch.setattr("quantdsl.cockpit.history.time", own)
    return now


@pytest.fixture
def play(tmp_path) -> Iterator[Callable[..., Played]]:
    """Starts a played session with its cockpit; all are ended with the test."""
    started: list[Played] = []

    def start(script: Script | None = None, *, warm: int = 50, runs: bool = False) -> Played:
        folder = tmp_path / f"session{len(started)}"
        folder.mkdir()
        started.append(Played(folder, script or Script(), warm=warm, runs=runs))
        return started[-1]

    yield start
    for played in started:
        played.close()
