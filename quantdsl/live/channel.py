"""The two pipes between a session and its supervisor: frames of a length and a message.

Down go commands and the supervisor's heartbeat, up go snapshots, each of which is a heartbeat, and
hearts alone while a session ends.
"""

import os
import select
import threading
from collections.abc import Iterator

import msgspec

from quantdsl.errors import JournalError
from quantdsl.live.view import Command, Snapshot

LENGTH_BYTES = 4
FRAME_BYTES_MAX = 16 << 20
READ_BYTES = 1 << 16
LOOK_S = 0.1
"""A sender that waits for room looks this often whether it still should."""
BEAT = b"\0"
"""A frame that says nothing but that its sender lives."""


class Sender:
    """Writes frames to a pipe; any thread may."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._lock = descriptor, threading.Lock()
        self._given_up = False
        os.set_blocking(descriptor, False)

    def give_up(self) -> None:
        """Wait no longer for who reads: what is under way is broken off, and nothing follows."""
        self._given_up = True

    def send(self, message: Command | Snapshot | None) -> bool:
        """One message, None for a heartbeat; False where nobody reads any more."""
        body = BEAT if message is None else msgspec.msgpack.encode(message)
        data = memoryview(len(body).to_bytes(LENGTH_BYTES, "little") + body)
        with self._lock:
            while data and not self._given_up:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:
                    select.select([], [self._descriptor], [], LOOK_S)
                except OSError:
                    return False
        return not data


class Beating:
    """From `with` to its end the other side hears that this one lives, whatever it waits for."""

    def __init__(self, sender: Sender, every_s: float) -> None:
        self._sender, self._every_s, self._over = sender, every_s, threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Beating":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            self._sender.send(None)


class Receiver:
    """Reads frames from a pipe; one thread does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._held = descriptor, bytearray()
        self.ended = False
        """The other side has closed the pipe, or is gone."""
        self.silent_s = 0.0
        """How long was waited since the last frame. Time in which this process itself stood still
        counts for one wait only: a machine that was suspended has not lost its other side."""

    def receive(self, wait_s: float) -> Iterator[bytes]:
        """The frames that have come, after waiting so long for the first; `ended` says it is over.

        JournalError where what comes is no frame.
        """
        ready, _, _ = select.select([self._descriptor], [], [], wait_s)
        if ready:
            data = os.read(self._descriptor, READ_BYTES)
            self.ended = not data
            self._held += data
        else:
            self.silent_s += wait_s
        while len(self._held) >= LENGTH_BYTES:
            size = int.from_bytes(self._held[:LENGTH_BYTES], "little")
            if size > FRAME_BYTES_MAX:
                raise JournalError(f"a pipe to or from a session announces {size:,} bytes")
            if len(self._held) < LENGTH_BYTES + size:
                return
            frame = bytes(self._held[LENGTH_BYTES : LENGTH_BYTES + size])
            del self._held[: LENGTH_BYTES + size]
            self.silent_s = 0.0
            yield frame
