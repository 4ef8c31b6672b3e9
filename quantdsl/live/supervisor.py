"""The parent of a session: starts it, hears its heart, carries commands, says when it is lost.

The session is a process of its own, so that what goes wrong in it leaves somebody to say so, and
that a page in the browser cannot slow an engine down.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from quantdsl.errors import JournalError, QuantDSLError
from quantdsl.live.channel import BEAT, Receiver, Sender
from quantdsl.live.view import Command, Level, Snapshot, WorkingOrder
from quantdsl.report.words import plural

BEAT_S = 0.25
SILENT_S = 0.5
"""Without a snapshot for so long an engine is lost or hangs."""
STARTING_S = 120.0
"""Until its first snapshot a session compiles and recovers."""
END_S = 3.0
LOG = "session.log"
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(256 << 10)}
"""For glibc: a larger block goes back to the system when it is freed. Without a word it keeps the
room of blocks of megabytes between what lives longer, and a session's memory grows with every few
chunks of its market and segments of its journal."""


class Supervisor:
    """Runs one session in a child process.

    `take` is given every snapshot, the last one it makes up itself when the engine is lost: state
    lost, and of a live market nothing working where its process has ended, for what worked is
    cancelled when the session goes on; a `simulated` market stands still until then, and its orders
    with it. `say` is told what happens in words. Both are called by the supervisor's thread. Its
    signals are computed by `device`, where one is given.
    """

    def __init__(
        self,
        folder: Path,
        take: Callable[[Snapshot], None],
        say: Callable[[Level, str, str], None],
        *,
        simulated: bool = False,
        device: str = "",
    ) -> None:
        self.folder, self.take, self.say, self.simulated = folder, take, say, simulated
        self.latest: Snapshot | None = None
        self.lost = ""
        """Why the engine is lost; empty while it is not."""
        self.stopping = False
        down, commands = os.pipe()
        snapshots, up = os.pipe()
        words = [str(folder), device] if device else [str(folder)]
        with (folder / LOG).open("ab") as log:
            self._log_from = log.tell()
            self.process = subprocess.Popen(  # noqa: S603 (our own program, no shell)
                [sys.executable, "-m", "quantdsl.live.session", *words],
                stdin=down,
                stdout=up,
                stderr=log,
                env={**GIVES_BACK, **os.environ},
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )
        os.close(down)
        os.close(up)
        self._commands, self._snapshots = commands, snapshots
        self.sender, self.receiver = Sender(commands), Receiver(snapshots)
        self._threads = [
            threading.Thread(target=body, name=f"supervisor {name}", daemon=True)
            for name, body in (("beat", self._beat), ("listen", self._listen))
        ]
        self.ended = threading.Event()
        for thread in self._threads:
            thread.start()

    def told(self) -> str:
        """What its process, and no earlier one, has written into the session's log."""
        with (self.folder / LOG).open("rb") as log:
            log.seek(self._log_from)
            text = log.read().decode(errors="replace").strip()
        if not text and not shutil.disk_usage(self.folder).free:
            return f"error: the disk of {self.folder} is full"
        return text

    def send(self, command: Command) -> None:
        """Pass a command on to the session; QuantDSLError where nobody is there to take it."""
        if not self.sender.send(command):
            raise QuantDSLError("it is not there any more")

    def wait(self, seconds: float | None = None) -> bool:
        """Until the session has ended; False where it has not in this time."""
        return self.ended.wait(seconds)

    def close(self, by: str = "its supervisor") -> int:
        """End the session in order, at the latest by force; its exit code. Its log says by whom."""
        if self.process.poll() is None:
            self.stopping = True
            self.sender.send(Command("stop", by=by))
            try:
                self.process.wait(self._patience())
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(END_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
        code = self.process.wait()
        self.ended.wait(END_S)
        for descriptor in (self._commands, self._snapshots):
            os.close(descriptor)
        return code

    def _patience(self) -> float:
        """A session that has not begun may be compiling."""
        return STARTING_S if self.latest is None else 4 * END_S

    def _beat(self) -> None:
        while not self.ended.wait(BEAT_S):
            self.sender.send(None)

    def _listen(self) -> None:
        try:
            while not self.receiver.ended:
                for frame in self.receiver.receive(SILENT_S / 5):
                    if self.lost and self.process.poll() is None:
                        self.say("warning", "supervisor", "the session is heard again")
                        self.lost = ""
                    if frame == BEAT:
                        continue
                    self.latest = msgspec.msgpack.decode(frame, type=Snapshot)
                    self.take(self.latest)
                self._watch()
        except (msgspec.MsgspecError, JournalError) as garbled:
            self._lose(f"what it says is garbled: {garbled}")
        code = self.process.wait()
        clean = self.latest is not None and self.latest.state == "stopped" and code >= 0
        if not clean:
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            self.lost = ""  # one that was silent before has ended now
            self._lose(f"its process has ended: {how}")
        self.ended.set()

    def _watch(self) -> None:
        silent = self.receiver.silent_s
        patience = STARTING_S if self.latest is None else SILENT_S
        if silent > patience and not self.lost and not self.receiver.ended and not self.stopping:
            self._lose(f"it has been silent for {silent:.1f} s")

    def _lose(self, why: str) -> None:
        if self.lost:
            return
        self.lost = why
        self.say("error", "supervisor", f"the engine is lost: {why}")
        if self.latest is None:
            return
        gone = self.process.poll() is not None and not self.simulated
        if count := len(self.latest.working):
            text = f"{plural(count, 'working order')} {self._become(count, gone=gone)}"
            self.say("warning", "supervisor", f"{text}: {_shown(self.latest.working)}")
        self.latest = msgspec.structs.replace(
            self.latest, seq=self.latest.seq + 1, state="lost", reason=why, fills=(), bars=(),
            log=(), working=() if gone else self.latest.working,
        )  # fmt: skip
        self.take(self.latest)

    def _become(self, count: int, *, gone: bool) -> str:
        """What so many orders of a lost engine do."""
        if self.simulated:
            return f"stand{'s' if count == 1 else ''} still with the market"
        return "cancelled" if gone else "may work on and be filled"


def _shown(orders: tuple[WorkingOrder, ...]) -> str:
    first = ", ".join(f"{one.type} to {one.side} {one.symbol}" for one in orders[:3])
    return first + (", ..." if len(orders) > 3 else "")
