"""`--profile`: what each kernel took, against what the device can do, and a trace for a browser.

Times are the device's own. NVTX ranges are told to NVIDIA's tools where the package is there.
"""

import importlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from quantdsl.devices.work import LaneWork


class Interval(NamedTuple):
    """One kernel or one part of the host's work."""

    name: str
    begin_s: float
    seconds: float
    lane_steps: int
    bytes_moved: int
    row: str
    """`host`, or the device."""


class Row(NamedTuple):
    """The intervals of one name on one device."""

    name: str
    device: str
    times: int
    min_s: float
    mean_s: float
    max_s: float
    lane_steps_per_s: float
    bytes_moved: int
    bytes_per_s: float


class Ceilings(NamedTuple):
    """What a device was measured to do at best."""

    bytes_per_s: float
    """Of a copy, read and written."""
    f64_per_s: float
    """Fused multiply-adds count as two."""


class Profile:
    """Intervals of one command, in the order in which they ended."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.facts: dict[str, str] = {}
        """What is known of the kernels: registers, local memory, occupancy."""
        self.ceilings: dict[str, Ceilings | None] = {}
        """What each device was measured to do at best."""
        self._start_s = time.perf_counter()
        self._nvtx = _nvtx()

    def kernel(
        self,
        name: str,
        seconds: float,
        lane_steps: int,
        bytes_moved: int,
        row: str = "device",
        began_s: float | None = None,
    ) -> None:
        """Note a kernel that began at `began_s` of time.perf_counter; None: it has just ended."""
        began = time.perf_counter() - seconds if began_s is None else began_s
        begin = began - self._start_s
        self.intervals.append(Interval(name, begin, seconds, lane_steps, bytes_moved, row))

    def lanes(
        self, work: LaneWork, n_lanes: int, seconds: float, device: str, began_s: float
    ) -> None:
        """Note lanes that ran over all events, from `began_s` of time.perf_counter."""
        moved = 8 * (n_lanes * (len(work.params) + len(work.results)) + work.inputs)
        self.kernel("lanes", seconds, n_lanes * work.lane_steps, moved, device, began_s)

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Note a part of the host's work."""
        if self._nvtx is not None:
            self._nvtx.push_range(name)
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            if self._nvtx is not None:
                self._nvtx.pop_range()
            self.intervals.append(Interval(name, begin - self._start_s, seconds, 0, 0, "host"))

    def rows(self) -> list[Row]:
        """One row a name and device, in order of first appearance."""
        groups: dict[tuple[str, str], list[Interval]] = {}
        for interval in self.intervals:
            groups.setdefault((interval.name, interval.row), []).append(interval)
        return [_row(*of, group) for of, group in groups.items()]

    def trace(self) -> str:
        """The intervals as a Chrome trace: load it in chrome://tracing or ui.perfetto.dev."""
        rows = _side_by_side(self.intervals)
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": tid, "args": {"name": name}}
            for tid, (name, _) in enumerate(rows)
        ]
        events += [
            {
                "name": interval.name, "ph": "X", "pid": 0, "tid": tid,
                "ts": interval.begin_s * 1e6, "dur": interval.seconds * 1e6,
                "args": {"lane_steps": interval.lane_steps, "bytes": interval.bytes_moved},
            }
            for tid, (_, row) in enumerate(rows) for interval in row
        ]  # fmt: skip
        known = {**self.facts, **self.shares()}
        return json.dumps({"traceEvents": events, "otherData": known}, indent=1)

    def shares(self) -> dict[str, str]:
        """How far the kernels are from what the device can do."""
        found = {}
        for row in self.rows():
            ceilings = self.ceilings.get(row.device)
            if ceilings is None or not row.lane_steps_per_s:
                continue
            copied, f64 = ceilings
            found[f"{row.name} on {row.device}"] = (
                f"{row.bytes_per_s / copied:.2%} of {copied / 1e9:,.0f} GB/s, the measured copy; "
                f"{f64 / row.lane_steps_per_s:,.0f} operations of the {f64 / 1e12:.1f} measured "
                "TFLOPS (f64) would fit in the time of a lane-step"
            )
        return found

    def table(self) -> str:
        """Rows and facts for a terminal."""
        rows = self.rows()
        if not rows:
            return "nothing ran on this machine, so nothing was measured"
        wide = max([7, *(len(row.device) for row in rows)]) + 2  # a GPU has a long name
        lines = [
            f"{'part':<16}{'on':<{wide}}{'times':>7}{'min ms':>10}{'mean ms':>10}{'max ms':>10}"
            f"{'lane-steps/s':>14}{'GB':>8}{'GB/s':>8}"
        ]
        lines += [
            f"{row.name:<16}{row.device:<{wide}}{row.times:>7}{row.min_s * 1e3:>10.3f}"
            f"{row.mean_s * 1e3:>10.3f}{row.max_s * 1e3:>10.3f}{row.lane_steps_per_s:>14.3g}"
            f"{row.bytes_moved / 1e9:>8.2f}{row.bytes_per_s / 1e9:>8.1f}"
            for row in rows
        ]
        known = {**self.facts, **self.shares()}
        lines += [f"{name}: {fact}" for name, fact in known.items()]
        return "\n".join(lines)


def _side_by_side(intervals: list[Interval]) -> list[tuple[str, list[Interval]]]:
    """The rows of a trace by name; spans of one row may lie in each other, but not part overlap.

    The host's are of one thread. What overlaps on a device, as the threads of a CPU and the streams
    of a GPU do, gets rows of its own.
    """
    rows: list[tuple[str, list[Interval]]] = []
    free_s: list[float] = []
    for one in sorted(intervals, key=lambda one: one.begin_s):
        at = next(
            (
                at
                for at, (name, _) in enumerate(rows)
                if name == one.row and (name == "host" or free_s[at] <= one.begin_s)
            ),
            len(rows),
        )
        if at == len(rows):
            rows.append((one.row, []))
            free_s.append(0.0)
        rows[at][1].append(one)
        free_s[at] = one.begin_s + one.seconds
    return rows


def _row(name: str, device: str, group: list[Interval]) -> Row:
    times = [interval.seconds for interval in group]
    total = max(sum(times), 1e-12)
    moved = sum(interval.bytes_moved for interval in group)
    steps = sum(interval.lane_steps for interval in group)
    return Row(
        name, device, len(group), min(times), total / len(times), max(times), steps / total, moved,
        moved / total,
    )  # fmt: skip


def _nvtx() -> Any:
    """The package nvtx, or None."""
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None
