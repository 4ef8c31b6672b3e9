"""What a sweep hands to a device, and what runs it.

Memory is int64 words everywhere, floats by their bit patterns, as in a single run.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quantdsl.ir.ops import Module
from quantdsl.passes.common import common_words, own_leaves

Words = NDArray[np.int64]

Finished = Callable[[int, int, Words], None]
"""Takes the results of lanes lo to hi as words[result, lane - lo]; raises to stop the run."""


class LaneWork(NamedTuple):
    """Lanes of one strategy over one stream of events; every array is contiguous."""

    module: Module
    """Linked, with the entries `init` and `lane`, before the passes for lanes."""
    kept: frozenset[str]
    """Paths in the State of what results are read from; nothing else need be up to date."""
    template: Words
    """A State as every lane starts from it."""
    params: Words
    """The word in the State of each row of `points`."""
    results: Words
    """The word in the State of each row of the results."""
    points: Words
    """[param, lane]."""
    events: Words
    """[event, word]; the last one is RUN_END."""
    columns: Words
    """[event, column], what was hoisted; of width 0 if nothing was."""

    @property
    def n_lanes(self) -> int:
        """Points of the sweep."""
        return int(self.points.shape[1])

    @property
    def varying(self) -> frozenset[str]:
        """Paths in the State of what the host writes for each lane by itself."""
        (lane,) = (func for func in self.module.funcs if func.name == "lane")
        params = np.sort(self.params)
        return frozenset(
            leaf.path
            for leaf in own_leaves(self.module, lane.params[0].type)
            if np.searchsorted(params, leaf.offset_words)
            < np.searchsorted(params, leaf.offset_words + leaf.words)
        )

    @property
    def common(self) -> int:
        """Words at the end of a State that all lanes have in common, however many they are."""
        (lane,) = (func for func in self.module.funcs if func.name == "lane")
        return common_words(self.module, lane.params[0].type)

    @property
    def own(self) -> int:
        """Words of a State that each lane has for itself."""
        return len(self.template) - self.common

    @property
    def inputs(self) -> int:
        """Words that all lanes read alike."""
        return int(self.events.size + self.columns.size)

    @property
    def lane_steps(self) -> int:
        """Events that one lane takes."""
        return len(self.events)


class Plan(NamedTuple):
    """How a device will run some work, told before it does."""

    device: str
    bytes_a_lane: int
    lanes_a_chunk: int

    def __str__(self) -> str:
        return (
            f"{self.device}: {self.bytes_a_lane:,} bytes a lane, "
            f"{self.lanes_a_chunk:,} lanes a chunk"
        )


class Runner(Protocol):
    """Runs lanes; one run at a time."""

    @property
    def name(self) -> str:
        """What reports call the device."""

    def compile(self, work: LaneWork) -> None:
        """Make, or find in the cache, the machine code of the work; `run` does it if need be."""

    def plan(self, work: LaneWork) -> Plan:
        """What `run` would do."""

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """Run the lanes from lo up to hi.

        `finished` is called in the caller's thread, once a chunk in any order, so that each lane
        is reported once. If it raises, or Ctrl-C comes, nothing more is launched, what runs is
        waited for, and the exception goes on. Raises DeviceError when the device fails; then what
        was not reported is not done.
        """

    def close(self) -> None:
        """Give back threads and memory."""
