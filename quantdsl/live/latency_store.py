"""Measured latencies in a file, and what has changed since."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from quantdsl.errors import ConfigError
from quantdsl.live.latency import NOISE, Report, Row
from quantdsl.live.stages import STAGES

LEAST_NS = 1.0
"""A median below this is not compared: it is as large as what it is measured with."""


SAMPLES_MIN = 100
"""A median of fewer is not judged: by chance alone it moves by more than what is looked for."""


class Change(NamedTuple):
    """The median of one row, before and now; `pace` is how much slower the core itself is now."""

    name: str
    before_ns: float
    now_ns: float
    pace: float
    samples: int
    """Of the run that has fewer."""
    before_most_ns: float
    now_least_ns: float
    """The highest median of a pass before, and the lowest now, the step of the counter off."""

    @property
    def judged(self) -> bool:
        """Whether its medians tell of more than chance."""
        return self.samples >= SAMPLES_MIN

    @property
    def apart(self) -> bool:
        """Whether each pass was slower than all of those before, by more than the counter tells."""
        return self.now_least_ns > self.before_most_ns * self.pace

    @property
    def growth(self) -> float:
        """0.1 is a tenth slower."""
        return self.now_ns / self.before_ns - 1.0

    @property
    def own(self) -> float:
        """The growth that a slower core does not explain."""
        return self.now_ns / (self.before_ns * self.pace) - 1.0


def save(report: Report, path: Path) -> None:
    """Write a report as JSON."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as refused:
        raise ConfigError(f"{path}: cannot be written: {refused.strerror}") from None


def load(path: Path) -> Report:
    """A report that `save` wrote; ConfigError for anything else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except OSError as refused:
        raise ConfigError(f"{path}: cannot be read: {refused.strerror}") from None
    except msgspec.DecodeError as wrong:
        raise ConfigError(
            f"{path}: is no saved run of bench latency: {wrong}\n"
            "help: name the JSON file that an earlier run wrote"
        ) from None


def changes(before: Report, now: Report) -> list[Change]:
    """The rows that both runs have; ConfigError where they measured different things."""
    for what in ("strategy", "data", "rate"):
        old, new = getattr(before, what), getattr(now, what)
        if old != new:
            raise ConfigError(
                f"the saved run cannot be compared: its {what} is {old}, this run's is {new}"
            )
    earlier = {row.name: row for row in before.rows if row.percentiles_ns[0] >= LEAST_NS}
    both = [(earlier[row.name], row) for row in now.rows if row.name in earlier]
    floors = (again.percentiles_ns[0] / row.percentiles_ns[0] for row, again in both
              if row.name == NOISE)  # fmt: skip
    pace = max(next(floors, 1.0), 1.0)
    return [_change(row, again, pace) for row, again in both]


def _change(before: Row, now: Row, pace: float) -> Change:
    medians = before.percentiles_ns[0], now.percentiles_ns[0]
    # Without passes, as in a run of an earlier version, the medians alone decide.
    first, again = (row.passes_ns or row.percentiles_ns[:1] for row in (before, now))
    least = min(again) - max(before.step_ns, now.step_ns)
    return Change(now.name, *medians, pace, min(before.count, now.count), max(first), least)


def grown(found: list[Change], most: float) -> list[Change]:
    """The changes that fail a comparison: a median grew by more than the share `most`, and by more
    than the passes of either run differ by.

    A core that is slower by itself fails nothing, nor does a median of few samples, nor do single
    stages: they are differences of spans, and `step` is all of them.
    """
    return [change for change in wide(found, most) if change.apart]


def wide(found: list[Change], most: float) -> list[Change]:
    """The changes whose median grew by more than the share `most`, be it by chance."""
    firm = (change for change in found if change.name not in (NOISE, *STAGES))
    return [change for change in firm if change.judged and change.own > most]
