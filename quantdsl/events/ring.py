"""A ring of 64-byte records in shared memory between one producer and one consumer.

    words   0..   magic, capacity
           16..   published: records ever published; written by the producer alone
           17     ahead: records that are there already, their instant not over; the same
           32..   consumed: records ever released; written by the consumer alone
           48..   the producer: its process, its heartbeat
           64..   the consumer: its process, its heartbeat
          128..   the records

Each cursor has two cache lines of its own, since CPUs fetch lines in pairs. Native code, users'
`numba.njit` code (ring_numba.py) and this module read the same layout. Cursors count modulo 2^64
and are compared by their difference, so they may pass 2^63.

What is published is visible as a whole or not at all: records are written first, then the cursor
that covers them. Native code and numba use an acquiring load and a releasing store. Python has
neither: on x86-64 the machine keeps loads and stores in that order by itself, elsewhere a lock
taken twice does.

An engine shows an order as soon as its risk gate has let it pass: `ahead` covers it while the rest
of the instant is still computed. What lies between `published` and `ahead` comes again, unchanged,
with its whole instant, or it does not come at all: then the engine has died, and who takes over
writes the same records in the same places, since an engine's instants follow from its events. So
who sends orders early remembers their numbers; a journal takes whole instants alone. Where `ahead`
is not before `published` by at most the capacity, nothing is ahead.

A heartbeat is a count that its owner raises; who watches it needs no common clock.
"""

import fcntl
import mmap
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.errors import RingError
from quantdsl.events.layout import EVENT, WORDS

MAGIC = 0x31474E49525F4451
CAPACITY_WORD = 1
PUBLISHED, CONSUMED = 16, 32
AHEAD = PUBLISHED + 1
"""In the producer's line, so that a reader of both waits for one."""
PRODUCER, CONSUMER = 48, 64
BEAT = 1
"""After the word of an owner: its heartbeat."""
HEAD_WORDS = 128
WORD_BYTES = 8
CAPACITY_MAX = 1 << 24
"""Records: 1 GiB. A ring that fills this far is a consumer that does not work."""
SILENT_NS_MAX = 400_000_000
"""A heart that has not beaten for so long has stopped; a watcher that looks every 100 ms knows
within half a second."""

Records = npt.NDArray[np.void]


class Ring:
    """The memory of a ring; `producer` and `consumer` give its two ends.

    Keep it as long as native code may use `address`.
    """

    def __init__(self, memory: mmap.mmap, path: Path | None) -> None:
        self.path = path
        self.words: npt.NDArray[np.int64] = np.frombuffer(memory, np.int64)
        self.cells = memoryview(memory).cast("B").cast("q")
        """The same words, one of which is read or written faster here."""
        self.capacity = self.cells[CAPACITY_WORD]
        self.records: Records = self.words[HEAD_WORDS:].view(EVENT)

    @classmethod
    def create(cls, path: Path | None, capacity: int, *, first: int = 0) -> "Ring":
        """A new ring of `capacity` records, a power of two, in a new file that is the user's alone.

        Without a path it lies in memory that only this process and its forks share. Cursors begin
        at `first`.
        """
        if not 2 <= capacity <= CAPACITY_MAX or capacity & (capacity - 1):
            raise RingError(
                f"a ring cannot have {capacity} records\n"
                f"help: a power of two from 2 to {CAPACITY_MAX:,}"
            )
        size = (HEAD_WORDS + capacity * WORDS) * WORD_BYTES
        if path is None:
            memory = mmap.mmap(-1, size)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, size)
                memory = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        cells = memoryview(memory).cast("q")
        cells[CAPACITY_WORD] = capacity
        cells[PUBLISHED] = cells[AHEAD] = cells[CONSUMED] = first
        cells[0] = MAGIC
        return cls(memory, path)

    @classmethod
    def open(cls, path: Path) -> "Ring":
        """The ring in this file; raises RingError where there is none."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as refused:
            raise RingError(f"{path}: there is no ring to open: {refused.strerror}") from None
        try:
            size = os.fstat(descriptor).st_size
            memory = mmap.mmap(descriptor, size) if size > HEAD_WORDS * WORD_BYTES else None
        finally:
            os.close(descriptor)
        if memory is None or int.from_bytes(memory[:8], "little") != MAGIC:
            raise RingError(f"{path}: this file is no ring")
        capacity = int.from_bytes(memory[8:16], "little")
        if size != (HEAD_WORDS + capacity * WORDS) * WORD_BYTES:
            raise RingError(f"{path}: the ring is cut off, or was made by another program")
        return cls(memory, path)

    @property
    def address(self) -> int:
        """Where the ring begins in this process, for native code."""
        return int(self.words.ctypes.data)

    @property
    def waiting(self) -> int:
        """Records that are published and not released."""
        return _distance(self.cells[PUBLISHED], self.cells[CONSUMED])

    def producer(self) -> "Producer":
        """The writing end; RingError where another living process or thread has it."""
        return Producer(self)

    def consumer(self) -> "Consumer":
        """The reading end; RingError where another living process or thread has it."""
        return Consumer(self)

    def take_role(self, role: int) -> None:
        """Become the owner of PRODUCER or CONSUMER; what is left of a dead owner is taken over."""
        with _locked(self.path):
            owner = self.cells[role]
            if owner and _lives(owner):
                name = "producer" if role == PRODUCER else "consumer"
                raise RingError(
                    f"{self.path or 'the ring'} has a {name} already: process {owner}\n"
                    "help: a ring joins one producer and one consumer; make another ring"
                )
            self.cells[role] = os.getpid()

    def leave_role(self, role: int) -> None:
        """Let another become the owner."""
        self.cells[role] = 0

    def unlink(self) -> None:
        """Remove the file; who has the ring open keeps its memory."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class Producer:
    """Claims room, lets the caller write records into it, publishes them.

    Not safe for use from more than one thread. `try_claim` and `publish` come in pairs.
    """

    def __init__(self, ring: Ring) -> None:
        ring.take_role(PRODUCER)
        self.ring, self.cells = ring, ring.cells
        self.published = ring.cells[PUBLISHED]
        ring.cells[AHEAD] = self.published  # what a dead producer began is begun anew
        self.claimed = 0

    def try_claim(self, n: int) -> Records:
        """Room for up to `n` records, to be written and published; empty when the ring is full.

        It may hold fewer than n: those to the end of the memory. Claiming again gives the same.
        """
        if n < 1:
            raise RingError(f"{n} records cannot be claimed\nhelp: at least 1")
        ring = self.ring
        free = ring.capacity - _distance(self.published, self.cells[CONSUMED])
        assert 0 <= free <= ring.capacity, "somebody else moves this ring's cursors"
        at = self.published & (ring.capacity - 1)
        self.claimed = min(n, free, ring.capacity - at)
        _ordered()  # what the consumer has read, it has read before we write
        return ring.records[at : at + self.claimed]

    def publish(self, n: int) -> None:
        """Show the first `n` claimed records to the consumer."""
        if not 0 <= n <= self.claimed:
            raise RingError(f"{n} records are published, but {self.claimed} were claimed")
        if self.cells[PUBLISHED] != self.published:
            raise RingError("another producer published in this ring: it must have one only")
        self.claimed -= n
        self.published = _signed(self.published + n)
        _ordered()
        self.cells[PUBLISHED] = self.published
        self.beat()

    def moved(self, n: int) -> None:
        """Compiled code has published `n` records at this end."""
        self.published = _signed(self.published + n)
        if self.cells[PUBLISHED] != self.published:
            raise RingError("another producer published in this ring: it must have one only")

    def push(self, records: Records) -> int:
        """Copy in as many records as there is room for, in order; how many they were."""
        done = 0
        while done < len(records):
            room = self.try_claim(len(records) - done)
            if not len(room):
                break
            room[:] = records[done : done + len(room)]
            done += len(room)
            self.publish(len(room))
        return done

    def beat(self) -> None:
        """Show that this end lives; due at least every 100 ms, where nothing is published too."""
        self.cells[PRODUCER + BEAT] = _signed(self.cells[PRODUCER + BEAT] + 1)

    def close(self) -> None:
        """Leave the ring to another producer."""
        self.ring.leave_role(PRODUCER)


class Consumer:
    """Reads records where they lie, in order, and releases them.

    Not safe for use from more than one thread. What is released may be written over at once.
    """

    def __init__(self, ring: Ring) -> None:
        ring.take_role(CONSUMER)
        self.ring, self.cells = ring, ring.cells
        self.consumed = ring.cells[CONSUMED]
        self.taken = 0

    def take(self, n: int) -> Records:
        """Up to `n` records in the ring's own memory, fewer or none as there are; then `release`.

        It may hold fewer than wait: those to the end of the memory. Taking again gives the same.
        """
        ring = self.ring
        waiting = _distance(self.cells[PUBLISHED], self.consumed)
        assert 0 <= waiting <= ring.capacity, "somebody else moves this ring's cursors"
        at = self.consumed & (ring.capacity - 1)
        self.taken = min(n, waiting, ring.capacity - at)
        _ordered()
        return ring.records[at : at + self.taken]

    def ahead(self) -> Records:
        """The records of an instant that is not over, where they lie; `take` has them once it is.

        Fewer are seen where they pass the end of the memory. An order among them has passed the
        risk gate; it comes a second time with its instant, so who acts on it keeps its number.
        """
        ring = self.ring
        ahead = self.cells[AHEAD]
        _ordered()  # an instant that ends meanwhile has published them: then none is ahead
        published = self.cells[PUBLISHED]
        count = _distance(ahead, published)
        at = published & (ring.capacity - 1)
        count = min(count, ring.capacity - at) if count <= ring.capacity else 0
        return ring.records[at : at + count]

    def release(self, n: int) -> None:
        """Give the first `n` taken records back to the producer."""
        if not 0 <= n <= self.taken:
            raise RingError(f"{n} records are released, but {self.taken} were taken")
        if self.cells[CONSUMED] != self.consumed:
            raise RingError("another consumer reads this ring: it must have one only")
        self.taken -= n
        self.consumed = _signed(self.consumed + n)
        _ordered()
        self.cells[CONSUMED] = self.consumed
        self.beat()

    def pop(self, n: int) -> Records:
        """Copies of up to `n` records that wait, in order; they are released."""
        taken = self.take(n).copy()
        self.release(len(taken))
        return taken

    def beat(self) -> None:
        """Show that this end lives."""
        self.cells[CONSUMER + BEAT] = _signed(self.cells[CONSUMER + BEAT] + 1)

    def close(self) -> None:
        """Leave the ring to another consumer."""
        self.ring.leave_role(CONSUMER)


class Watch:
    """Tells whether the owner of an end (PRODUCER or CONSUMER) still lives."""

    def __init__(
        self, ring: Ring, role: int, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.ring, self.role, self.clock_ns = ring, role, clock_ns
        self.beat, self.since_ns = ring.cells[role + BEAT], clock_ns()

    def alive(self) -> bool:
        """False once its process has ended, or its heart has not beaten for SILENT_NS_MAX."""
        beat, now_ns = self.ring.cells[self.role + BEAT], self.clock_ns()
        if beat != self.beat:
            self.beat, self.since_ns = beat, now_ns
        owner = self.ring.cells[self.role]
        return bool(owner) and _lives(owner) and now_ns - self.since_ns <= SILENT_NS_MAX


def shared_folder() -> Path:
    """Where files are memory, if the system has such a place."""
    memory = Path("/dev/shm")  # noqa: S108 (a ring is created exclusively and for its owner alone)
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _distance(ahead: int, behind: int) -> int:
    """How far a cursor is ahead of another, modulo 2^64."""
    return (ahead - behind) & 0xFFFF_FFFF_FFFF_FFFF


def _signed(count: int) -> int:
    """A count as the i64 that holds it modulo 2^64."""
    return (count + (1 << 63)) % (1 << 64) - (1 << 63)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(process)


def _is_zombie(process: int) -> bool:
    """Whether a process has ended and only its exit code is left."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b")")[2].split()[0] == b"Z"


@contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Keeps two threads or processes from becoming the owner of one role at once."""
    with _ROLES:
        if path is None or not path.exists():
            yield
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # unlocks


_ROLES, _FENCE = threading.Lock(), threading.Lock()
_KEEPS_ORDER = platform.machine().lower() in ("x86_64", "amd64", "i686")


def _ordered() -> None:
    """What was read and written before stays before what comes after, as other cores see it."""
    if not _KEEPS_ORDER:
        # Each lock holds back what comes after it, each unlock what came before: twice is both.
        for _ in range(2):
            with _FENCE:
                pass
