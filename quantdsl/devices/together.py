"""Several devices on one sweep: each takes lanes in the measure of its speed.

A device asks for the next lanes when it is done with its last; it gets half of its share of what
is left, by the speed that it has shown, so that all end at nearly the same time. Until each has
shown one, a device gets no more than a chunk. A GPU takes some time for a single lane, so smaller
and smaller shares would end late: what a device runs in a few times its least time it gets at once,
and never less than what it runs in that.
"""

import queue
import threading
import time
from collections.abc import Sequence

from quantdsl.devices.work import Finished, LaneWork, Plan, Runner, Words

FEW_TIMES = 4
"""A share that takes so many times a device's least time is not worth being halved."""


class Together:
    """Runners as one; they need not be alike."""

    def __init__(self, runners: Sequence[Runner]) -> None:
        self.runners = tuple(runners)
        self.name = " + ".join(runner.name for runner in runners)

    def compile(self, work: LaneWork) -> None:
        """As Runner promises."""
        for runner in self.runners:
            runner.compile(work)

    def plan(self, work: LaneWork) -> Plan:
        """The largest chunk and state among the devices."""
        plans = [runner.plan(work) for runner in self.runners]
        device = " + ".join(plan.device for plan in plans)
        return Plan(device, max(p.bytes_a_lane for p in plans), max(p.lanes_a_chunk for p in plans))

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises. A device that fails ends the run of all."""
        shares = _Shares(lo, hi, [runner.plan(work).lanes_a_chunk for runner in self.runners])
        done: queue.SimpleQueue[tuple[int, int, Words] | BaseException] = queue.SimpleQueue()

        def report(start: int, end: int, words: Words) -> None:
            if shares.stopped:
                raise _StopError
            # The next results of a runner may lie in the same place.
            done.put((start, end, words.copy()))

        def labour(number: int) -> None:
            try:
                while (lanes := shares.take(number)) is not None:
                    began = time.perf_counter()
                    self.runners[number].run(work, *lanes, report)
                    shares.took(number, lanes[1] - lanes[0], time.perf_counter() - began)
            except _StopError:
                pass
            except BaseException as error:  # handed to the caller, who raises it
                done.put(error)

        crew: list[threading.Thread] = []
        try:
            for number in range(len(self.runners)):
                thread = threading.Thread(target=labour, args=(number,), daemon=True)
                thread.start()
                crew.append(thread)
            left = hi - lo
            while left:
                part = done.get()
                if isinstance(part, BaseException):
                    raise part
                finished(*part)
                left -= part[1] - part[0]
        finally:
            shares.stopped = True
            for thread in crew:
                thread.join()

    def close(self) -> None:
        """Close every one."""
        for runner in self.runners:
            runner.close()


class _StopError(Exception):
    """The run was stopped; ends a runner from within."""


class _Shares:
    """What lanes are left, and how fast each device has been."""

    def __init__(self, lo: int, hi: int, chunks: list[int]) -> None:
        self._next, self._end = lo, hi
        self._chunks = chunks
        self._speeds: list[float] = [0.0] * len(chunks)  # lanes a second; 0 until measured
        self._best_speeds = list(self._speeds)
        self._least_s = [float("inf")] * len(chunks)
        self._lock = threading.Lock()
        self.stopped = False

    def take(self, number: int) -> tuple[int, int] | None:
        """The next lanes of a device, or None when there are none left."""
        with self._lock:
            left = self._end - self._next
            if left <= 0 or self.stopped:
                return None
            lo = self._next
            self._next += min(left, self._share(number, left))
            return lo, self._next

    def took(self, number: int, lanes: int, seconds: float) -> None:
        """Note how long a device took for its last lanes."""
        with self._lock:
            speed = lanes / max(seconds, 1e-9)
            self._speeds[number] = speed
            self._best_speeds[number] = max(self._best_speeds[number], speed)
            self._least_s[number] = min(self._least_s[number], seconds)

    def _share(self, number: int, left: int) -> int:
        if not all(self._speeds):  # the first to be done is not the fastest
            return min(self._chunks[number], max(left // (2 * len(self._chunks)), 1))
        speed, least_s = self._speeds[number], self._least_s[number]
        own = left * speed / sum(self._speeds)
        least = max(int(self._best_speeds[number] * least_s), 1)
        share = max(int(own if own <= FEW_TIMES * least_s * speed else own / 2), least)
        return share if left - share >= least else left
