"""Promise: lane-steps a second on one core, with fees and all metrics: EMA-cross 1.2e8 one lane at
a time, 3 times that with AVX2 and 6 times with AVX-512; the bracket 1.2e8, 2 times and 4 times.

Lanes are of the grid that the strategy's file names, 270,336 points: 64 times eight `neighbours`,
as a sweep of the grid has them in its vectors, drawn once for all by a seed. Then `corners`, 64
lanes without a promise: points as far apart as the grid has them, so that the lanes of a vector
trade apart from each other, as in a sweep of a few points a param.
"""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.check import compile_file
from quantdsl.codegen.jit import Program
from quantdsl.codegen.lanes import FINISH, START, load_lanes
from quantdsl.codegen.rows import load_rows
from quantdsl.codegen.simd import simd_program
from quantdsl.codegen.target import Target, avx2, avx512, native, native_lanes
from quantdsl.devices.work import LaneWork, Words
from tests.truth.test_oracle import market

HERE = Path(__file__).resolve().parent
ONE_LANE = 1.2e8
TIMES = {"ema_cross": {1: 1, 4: 3, 8: 6}, "bracket": {1: 1, 4: 2, 8: 4}}
VECTORS, LANES, SEED = 64, 8, 1
CORNERS = {
    "ema_cross": {"fast": "9..513:72", "slow": "514..1018:72"},
    "bracket": {
        "fast": "2..65:9",
        "dip": "0.1..0.7:0.6",
        "above": "0.4..2.4:2",
        "below": "0.1..1.3:1.2",
    },
}
BARS = 100_000


class Prepared:
    """Some lanes of a strategy with their code, ready to run again and again."""

    def __init__(self, name: str, points: str, lanes: int, bars: int) -> None:
        path = HERE / "strategies" / f"{name}.qdsl"
        ranges = CORNERS[name] if points == "corners" else {}
        work = prepare_sweep(compile_file(path), path, data=market(bars), ranges=ranges).work
        self.work = work if ranges else _drawn(work)
        self.kernel = _kernel(self.work, lanes)
        rows = load_rows(self.work.module, self.work.kept, self.work.varying, native(), None)
        assert rows is not None
        maker = rows.start(self.work.template, self.work.params, self.work.points[:, 0])
        self.words, self.turns = maker.rows(self.work.events)

    def run(self) -> Words:
        """All events through all lanes, on this thread; the result words."""
        work = self.work
        results = np.zeros((len(work.results), work.n_lanes), np.int64)
        self.kernel.call(
            "lanes", work.template, work.points.reshape(-1), work.params, len(work.params),
            results.reshape(-1), work.results, len(work.results), self.words.reshape(-1),
            self.turns, work.columns.reshape(-1), work.template, work.n_lanes, 0, work.n_lanes,
            START | FINISH,
        )  # fmt: skip
        return results


def _drawn(work: LaneWork) -> LaneWork:
    """The same on some of its points: neighbours stay together."""
    first = np.random.default_rng(SEED).choice(work.n_lanes // LANES, VECTORS, replace=False)
    lanes = (LANES * first[:, None] + np.arange(LANES)).reshape(-1)
    return work._replace(points=np.ascontiguousarray(work.points[:, lanes]))


def _kernel(work: LaneWork, lanes: int) -> Program:
    parts = work.module, work.kept
    if lanes == 1:
        return load_lanes(*parts, native(), None, work.varying)
    target: Target = {4: avx2, 8: avx512}[lanes]()
    return simd_program(*parts, target, None, work.varying)


@pytest.mark.parametrize("lanes", [1, 4, 8], ids=["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("points", ["neighbours", "corners"])
@pytest.mark.parametrize("name", list(TIMES))
def test_lane_steps(benchmark, full, name, points, lanes):
    """Every width gives the same results."""
    if not native().triple.startswith("x86_64") or lanes > native_lanes().lanes:
        pytest.skip("vectors that this machine has not")
    bars = BARS if full else 2_000
    prepared = Prepared(name, points, lanes, bars)
    results = benchmark(prepared.run)
    assert np.array_equal(results, Prepared(name, points, 1, bars).run())
    steps = prepared.work.n_lanes * len(prepared.work.events)
    benchmark.extra_info["lane_steps"] = steps
    if benchmark.enabled and points == "neighbours":
        assert steps / benchmark.stats["median"] >= ONE_LANE * TIMES[name][lanes]
