"""A session that stands still is said to be lost and heard again; another build's is refused."""

import os
import platform
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from quantdsl.errors import QuantDSLError
from quantdsl.events.layout import Kind
from quantdsl.live.channel import BEAT, Beating, Receiver, Sender
from quantdsl.live.manifest import FILE, read
from quantdsl.live.supervisor import GIVES_BACK, LOG, Supervisor
from quantdsl.live.view import Command, Snapshot, WorkingOrder
from tests.live.test_session import STRATEGY as TEXT
from tests.live.test_session import (
    bars_file,
    child_of,
    count_of,
    ended_when,
    finished,
    outputs_of,
    paper,
)
from tests.waiting import WAIT_S, until


def test_an_engine_that_is_stopped_is_lost_until_it_is_heard_again(tmp_path):
    """SIGSTOP: nothing of it runs; the supervisor says so within its half second, and SIGCONT ends
    it: the session goes on, neither its feed nor its engine took the time for a fault."""
    strategy, folder = tmp_path / "crosser.qdsl", tmp_path / "session"
    strategy.write_text(TEXT, encoding="utf-8")
    data = bars_file(tmp_path)
    process = paper(
        folder, strategy, "--config", "paper_replay", "--data", data, "--speed", "6000"
    )  # fmt: skip
    child = child_of(folder)
    assert next(iter(GIVES_BACK)).encode() in Path(f"/proc/{child}/environ").read_bytes()
    until(lambda: process.poll() is not None or count_of(outputs_of(folder), Kind.FILL) > 2)
    assert process.poll() is None, process.communicate()[0]
    assert process.stdout is not None
    os.kill(child, signal.SIGSTOP)
    try:
        lines = iter(process.stdout.readline, "")
        lost = next(line for line in lines if "the engine is lost" in line)
    finally:
        os.kill(child, signal.SIGCONT)
    assert "silent for" in lost
    heard = [lost, next(line for line in lines if "heard again" in line)]
    before = count_of(outputs_of(folder), Kind.FILL)
    said = ended_when(process, lambda: count_of(outputs_of(folder), Kind.FILL) > before + 2)
    assert "halted" not in said, (heard, said)
    assert "report" in said


@pytest.mark.parametrize(
    ("ended", "simulated", "works", "said"),
    [
        (None, False, 1, "1 working order may work on and be filled: stop to sell KO"),
        (-9, False, 0, "1 working order cancelled: stop to sell KO"),
        (-9, True, 1, "1 working order stands still with the market: stop to sell KO"),
    ],
)
def test_orders_of_an_engine_that_is_merely_silent_are_not_called_cancelled(
    ended, simulated, works, said
):
    order = WorkingOrder(7, "Held", "KO", "sell", "stop", 100.0, 0.0, 60.0, 1)
    shown: list[Snapshot] = []
    lines: list[tuple[str, ...]] = []
    one = SimpleNamespace(
        lost="", simulated=simulated, process=SimpleNamespace(poll=lambda: ended),
        latest=Snapshot(1, 1, "s", "active", 1, working=(order,)),
        take=shown.append, say=lambda *words: lines.append(words),
    )  # fmt: skip
    one._become = partial(Supervisor._become, one)
    Supervisor._lose(one, "why")
    assert [line[2] for line in lines] == ["the engine is lost: why", said]
    assert (shown[0].state, len(shown[0].working)) == ("lost", works)


def test_what_an_earlier_process_said_is_not_told_of_this_one(tmp_path):
    (tmp_path / LOG).write_text("error: of another day\n", encoding="utf-8")
    supervisor = Supervisor(tmp_path, lambda _: None, lambda *_: None)
    assert supervisor.close() == 2
    said = supervisor.told()
    assert "another day" not in said
    assert "is no session" in said, said


def test_a_command_that_nobody_takes_is_not_said_to_be_sent(tmp_path):
    supervisor = Supervisor(tmp_path, lambda _: None, lambda *_: None)
    supervisor.wait(WAIT_S)
    with pytest.raises(QuantDSLError, match="it is not there any more"):
        supervisor.send(Command("halt", by="cockpit"))
    supervisor.close()


CHUNKS = """
import os
from pathlib import Path
from threading import Thread

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def chunks():
    kept, before = [], resident()
    for _ in range(40):
        blocks = [bytearray(b"x") * (count << 20) for count in (4, 4, 2, 3)]
        kept.append(bytes(200_000))
        del blocks[::2]
        kept.append(bytes(100_000))
    del blocks
    print(resident() - before)

thread = Thread(target=chunks)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others have settings of their own")
def test_a_session_keeps_no_room_of_chunks_that_are_over():
    """Blocks of megabytes come and go, and between them some that stay, which take no memory."""
    done = subprocess.run(
        [sys.executable, "-c", CHUNKS], env={**os.environ, **GIVES_BACK},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 4 << 20


def test_a_session_that_takes_its_time_to_end_is_heard():
    """A heart alone: no snapshot, no fault, and no longer silent."""
    reading, writing = os.pipe()
    receiver, heard = Receiver(reading), []
    receiver.silent_s = 60.0
    with Beating(Sender(writing), 0.001):
        until(lambda: heard.extend(receiver.receive(0.01)) or len(heard) > 3)
    os.close(writing)
    assert set(heard) == {BEAT}
    assert receiver.silent_s < 60.0
    listening, said = object.__new__(Supervisor), []
    listening.receiver, listening.process = receiver, Ended()
    listening.latest, listening.lost, listening.stopping = None, "", True
    listening.say, listening.ended = lambda *words: said.append(words), threading.Event()
    listening._listen()
    os.close(reading)
    assert listening.ended.is_set()
    assert [words[-1] for words in said] == [
        "the engine is lost: its process has ended: exit code 0"
    ]


class Ended:
    """A process that is over."""

    def poll(self) -> int:
        return 0

    def wait(self) -> int:
        return 0


def test_a_session_of_another_build_is_refused(tmp_path):
    strategy, folder = tmp_path / "crosser.qdsl", tmp_path / "session"
    strategy.write_text(TEXT, encoding="utf-8")
    finished(paper(folder, strategy, "--for", "0.2", "--speed", "3000"))
    other = msgspec.structs.replace(read(folder), build="0" * 64)
    (folder / FILE).write_bytes(msgspec.json.encode(other))
    process = paper(folder)
    said = finished(process)
    assert process.returncode == 2, said
    assert "begun by another build" in said
    assert "begin a new session" in said
