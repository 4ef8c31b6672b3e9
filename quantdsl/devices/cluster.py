"""Lanes on the nodes of a Ray cluster: `--on ray`, with the extra `cluster`.

Each node's cores are one worker, and each GPU that Ray knows of another. A worker gets the work
once and then takes parts of the lanes; a part whose worker is lost goes to another one. Every lane
is computed alone, so where and in which order that happens changes no bit.
"""

import importlib
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from quantdsl.devices.work import Finished, LaneWork, Plan, Words
from quantdsl.errors import QuantDSLError, UnavailableError
from quantdsl.ir.ops import Module

PARTS_A_WORKER = 8
"""At least, where there are lanes enough, so that workers end together."""
PART_STEPS = 4_000_000_000
"""Lane-steps of a part: some seconds of a node, lost with it at most."""
PART_LANES = 16
RESTARTS_MAX = 2
"""How often a lost worker is started anew; where its node is gone, that fails at once."""


class ClusterRunner:
    """Runs lanes on every node of the cluster that this process is connected to."""

    def __init__(self, device: str) -> None:
        self._ray = _connected()
        self._places = list(_places(self._ray.nodes(), device))
        if not self._places:
            raise UnavailableError(
                f"the Ray cluster has no node for --device {device}\n"
                "help: on a cluster, give auto, cpu, cuda (every GPU) or all"
            )
        count = len(self._places)
        self.name = f"ray, {count} worker{'' if count == 1 else 's'}"

    @property
    def on_cores(self) -> bool:
        """Whether no worker is a GPU."""
        return not any(place.gpus for place in self._places)

    def compile(self, work: LaneWork) -> None:
        """Each worker compiles for its own machine when it starts."""

    def plan(self, work: LaneWork) -> Plan:
        """As Runner promises."""
        return Plan(self.name, 8 * len(work.template), self._part_lanes(work, work.n_lanes))

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises."""
        step = self._part_lanes(work, hi - lo)
        todo = deque((start, min(start + step, hi)) for start in range(lo, hi, step))
        content = [msgspec.msgpack.encode(work.module), sorted(work.kept), *work[2:]]
        shared = [self._ray.put(part) for part in content]  # once for all workers
        idle = [(place, self._worker(place, shared)) for place in self._places]
        busy: dict[Any, tuple[Place, Any, tuple[int, int]]] = {}
        losses: Counter[int] = Counter()
        try:
            while todo or busy:
                while todo and idle:
                    place, worker = idle.pop()
                    part = todo.popleft()
                    busy[worker.run.remote(*part)] = place, worker, part
                if not busy:
                    raise UnavailableError("every worker of the Ray cluster is lost")
                (reference,), _ = self._ray.wait(list(busy))
                place, worker, part = busy.pop(reference)
                words = self._words(reference)
                if words is not None:
                    finished(*part, words)
                    idle.append((place, worker))
                    continue
                todo.append(part)
                losses[place.number] += 1
                if losses[place.number] <= RESTARTS_MAX:
                    idle.append((place, self._worker(place, shared)))
        finally:
            for _, worker in (*idle, *(known[:2] for known in busy.values())):
                self._ray.kill(worker)

    def close(self) -> None:
        """The connection is the process's own."""

    def _worker(self, place: "Place", shared: list[Any]) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        made = self._ray.remote(Worker).options(
            num_cpus=place.cores,
            num_gpus=place.gpus,
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(place.node, soft=False),
        )
        return made.remote(place.cores, *shared)

    def _words(self, reference: Any) -> Words | None:
        """What a worker computed; None where it is lost."""
        errors = self._ray.exceptions
        try:
            words: Words = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, QuantDSLError) else error from None
        except errors.RayError:
            return None
        return words

    def _part_lanes(self, work: LaneWork, n_lanes: int) -> int:
        even = -(-n_lanes // (len(self._places) * PARTS_A_WORKER))
        lanes = min(even, PART_STEPS // max(work.lane_steps, 1))
        return max(-(-lanes // PART_LANES) * PART_LANES, PART_LANES)


class Place(NamedTuple):
    """Where a worker runs: some cores of a node, or one of its GPUs."""

    number: int
    node: str
    cores: int
    gpus: int


class Worker:
    """What runs on a node: one runner, and the work that it takes parts of."""

    def __init__(self, cores: int, code: bytes, kept: list[str], *arrays: Words) -> None:
        from quantdsl.devices.choose import runner
        from quantdsl.devices.cpu import CpuRunner

        self._runner = CpuRunner(cores) if cores else runner("cuda:0", print)
        module = msgspec.msgpack.decode(code, type=Module)
        self._work = LaneWork(module, frozenset(kept), *arrays)

    def run(self, lo: int, hi: int) -> Words:
        """The results of lanes lo to hi."""
        found = np.empty((len(self._work.results), hi - lo), np.int64)

        def keep(first: int, last: int, words: Words) -> None:
            found[:, first - lo : last - lo] = words

        self._runner.run(self._work, lo, hi, keep)
        return found


def _connected() -> Any:
    """The package, connected to RAY_ADDRESS or to the cluster of this machine, made if there is
    none."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise UnavailableError(
            "a sweep on Ray needs the package ray\nhelp: pip install 'quantdsl-engine[cluster]'"
        ) from None
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    return ray


def _places(nodes: list[dict[str, Any]], device: str) -> Iterator[Place]:
    """A worker for each node's cores and each GPU that the choice of device allows."""
    alive = [(node["NodeID"], node["Resources"]) for node in nodes if node["Alive"]]
    gpus = sum(int(resources.get("GPU", 0)) for _, resources in alive)
    number = 0
    for node, resources in alive:
        cores, own = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        places = [(0, 1)] * own if device in ("auto", "all", "cuda") else []
        if cores and (device in ("cpu", "all") or (device == "auto" and not gpus)):
            places.append((cores, 0))
        for place in places:
            yield Place(number, node, *place)
            number += 1
