"""Measured latencies in a file, and what has changed since."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from quantdsl.errors import ConfigError
from quantdsl.live.latency import NOISE, Report
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

    @property
    def judged(self) -> bool:
        """Whether its medians tell of more than chance."""
        return self.samples >= SAMPLES_MIN

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
    medians = [(one.percentiles_ns[0], two.percentiles_ns[0]) for one, two in both]
    floors = (
        two / one for (row, _), (one, two) in zip(both, medians, strict=True) if row.name == NOISE
    )
    pace = max(next(floors, 1.0), 1.0)
    return [
        Change(row.name, *pair, pace, min(row.count, again.count))
        for (row, again), pair in zip(both, medians, strict=True)
    ]


def grown(found: list[Change], most: float) -> list[Change]:
    """The changes that fail a comparison: a median grew by more than the share `most`.

    A core that is slower by itself fails nothing, nor does a median of few samples, nor do single
    stages: they are differences of spans, and `step` is all of them.
    """
    firm = (change for change in found if change.name not in (NOISE, *STAGES))
    return [change for change in firm if change.judged and change.own > most]
