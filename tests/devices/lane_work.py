"""Work for devices over random modules, and what the interpreter makes of it."""

import random

import numpy as np

from quantdsl.codegen.lanes import FINISH, START, InterpretedLanes
from quantdsl.devices.work import LaneWork
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T
from tests.codegen.lane_programs import random_lanes
from tests.codegen.programs import random_float_bits, random_int, random_words

PARAMS = 3


def random_work(seed: int, lanes: int = 50, events: int = 12) -> LaneWork:
    """A sweep over a random module; every word of its State is a result."""
    rng = random.Random(seed)
    module = random_lanes(seed)
    kinds = kinds_of(module)
    params = np.array(rng.sample(range(len(kinds)), PARAMS), np.int64)
    rows = [[random_float_bits(rng), random_int(rng)] for _ in range(events)]
    return LaneWork(
        module=module,
        kept=frozenset(leaf.path for leaf in leaves_of(module)),
        template=random_words(rng, kinds),
        params=params,
        results=np.arange(len(kinds)),
        points=np.stack([random_words(rng, [kinds[at]] * lanes) for at in params]),
        events=np.array(rows, np.int64),
        columns=np.array([[random_int(rng)] for _ in range(events)], np.int64),
    )


def leaves_of(module):
    return Layout(module.structs).leaves(module.funcs[-1].params[0].type)


def kinds_of(module):
    return [leaf.type for leaf in leaves_of(module) for _ in range(leaf.words)]


def expected(work: LaneWork) -> np.ndarray:
    """The results by the interpreter."""
    n = work.n_lanes
    results = np.full((len(work.results), n), -1, np.int64)
    InterpretedLanes(work.module).call(
        "lanes", work.template, work.points.reshape(-1), work.params, len(work.params),
        results.reshape(-1), work.results, len(work.results), work.events.reshape(-1),
        len(work.events), work.columns.reshape(-1), np.empty(0, np.int64), n, 0, n, START | FINISH,
    )  # fmt: skip
    return same_nan(work, results)


def run(runner, work: LaneWork, lo: int = 0, hi: int | None = None) -> np.ndarray:
    """The results by a runner; -1 where it reported nothing. A lane reported twice fails."""
    results = np.full((len(work.results), work.n_lanes), -1, np.int64)
    seen = np.zeros(work.n_lanes, bool)

    def finished(start, end, words):
        assert not seen[start:end].any()
        seen[start:end] = True
        results[:, start:end] = words

    hi = work.n_lanes if hi is None else hi
    runner.run(work, lo, hi, finished)
    assert seen[lo:hi].all()
    assert seen.sum() == hi - lo
    return same_nan(work, results)


def same_nan(work: LaneWork, results: np.ndarray) -> np.ndarray:
    floats = np.array([kind == F64_T for kind in kinds_of(work.module)])[:, None]
    return np.where(floats & np.isnan(results.view(np.float64)), CANONICAL_NAN_BITS, results)
