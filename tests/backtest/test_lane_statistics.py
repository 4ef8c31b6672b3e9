"""The statistics of a sweep as lanes: on every device the bits of the arrays in report/."""

import numpy as np
import pytest

from quantdsl.backtest import lane_study
from quantdsl.backtest.lane_splits import follow_on, splits_module
from quantdsl.backtest.lane_study import study_on
from quantdsl.backtest.lane_trades import redraw_on, trades_module
from quantdsl.codegen.cubin import load_cubin
from quantdsl.devices.cluster import ClusterRunner, Place
from quantdsl.devices.cpu import CpuRunner, scalar
from quantdsl.devices.simulated import SimulatedRunner
from quantdsl.devices.work import Finished, LaneWork, Runner
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.verify import verify
from quantdsl.report import sweep_study
from quantdsl.report.statistics_splits import cross_validate, followed_here
from quantdsl.report.statistics_trades import redrawn_here
from tests.report.synthetic_sweep import synthetic_sweep

RUNNERS: dict[str, Runner] = {
    "vectors": CpuRunner(threads=2),
    "scalar": CpuRunner(threads=1, load=scalar),
    "simulated": SimulatedRunner(),
}
MODULES = {"splits": splits_module(16, 32), "trades": trades_module()}


class Interpreted(CpuRunner):
    """Runs each lane in the interpreter."""

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        entries = Interpreter(work.module)
        for lane in range(lo, hi):
            words = work.template.copy()
            words[work.params] = work.points[:, lane]
            entries.call("init", words)
            events, columns = work.events.reshape(-1), work.columns.reshape(-1)
            entries.call("lane", words, events, len(work.events), columns)
            finished(lane, lane + 1, words[work.results][:, None])


def sums(n_points: int, n_blocks: int = 16, seed: int = 1) -> np.ndarray:
    """Block sums with what is special in them: equal points, an idle one, a ruined one."""
    returns = np.random.default_rng(seed).normal(0.0002, 0.01, (n_blocks, 9, n_points))
    returns[:, :, 1] = returns[:, :, 0]
    returns[:, :, 2] = 0.0
    blocks = np.stack(
        [np.full((n_blocks, n_points), 9.0), returns.sum(axis=1), (returns**2).sum(axis=1)]
    )
    blocks[:, n_blocks // 2 :, 3] = 0.0
    return blocks


@pytest.mark.parametrize("name", MODULES)
def test_the_programs_are_valid_and_become_machine_code_of_a_gpu(name: str) -> None:
    verify(MODULES[name])
    found = frozenset({"best.here"} if name == "splits" else {"level"})
    cubin = load_cubin(MODULES[name], found, "sm_90", None)
    assert cubin.code


@pytest.mark.parametrize("name", RUNNERS)
@pytest.mark.parametrize(
    ("n_points", "n_blocks", "shares"), [(5, 16, 1), (150, 16, 1), (7, 4, 1), (43, 8, 4), (5, 8, 9)]
)
def test_splits_are_those_of_arrays(name: str, n_points: int, n_blocks: int, shares: int) -> None:
    blocks = sums(n_points, n_blocks)
    assert np.array_equal(follow_on(RUNNERS[name], shares)(blocks), followed_here(blocks))


def test_the_interpreter_says_the_same_of_splits() -> None:
    blocks = sums(6, 6)
    assert np.array_equal(follow_on(Interpreted())(blocks), followed_here(blocks))


@pytest.mark.parametrize("name", RUNNERS)
@pytest.mark.parametrize(("n_trades", "count"), [(2, 1), (31, 500), (400, 37)])
def test_resamples_are_those_of_arrays(name: str, n_trades: int, count: int) -> None:
    growth = 1.0 + np.random.default_rng(n_trades).normal(0.0, 0.02, n_trades)
    growth[1] = 0.0 if n_trades == 31 else growth[1]
    for seed in (0, 2**32 - 1):
        found = redraw_on(RUNNERS[name])(growth, count, seed)
        assert np.array_equal(found, redrawn_here(growth, count, seed))


def test_the_interpreter_says_the_same_of_resamples() -> None:
    growth = np.array([1.1, 0.95, 0.7, 1.3])
    assert np.array_equal(redraw_on(Interpreted())(growth, 9, 5), redrawn_here(growth, 9, 5))


def test_a_study_on_a_device_is_that_of_arrays() -> None:
    sweep = synthetic_sweep(edge=0.001)
    here = sweep_study.study(sweep, n_resamples=300, seed=4)
    there = study_on(RUNNERS["vectors"], sweep, n_resamples=300, seed=4)
    assert (here.luck, here.best) == (there.luck, there.best)
    assert here.splits is not None
    assert there.splits is not None
    assert here.resamples is not None
    assert there.resamples is not None
    assert here.splits.overfit_probability == there.splits.overfit_probability
    assert here.splits.rank_correlation == there.splits.rank_correlation
    assert np.array_equal(here.splits.out_of_sample, there.splits.out_of_sample)
    assert np.array_equal(here.resamples.drawdown, there.resamples.drawdown)


def test_a_gpu_takes_all_points_and_cores_a_sample() -> None:
    blocks = sums(120)
    sampled = cross_validate(blocks, 1, follow_on(RUNNERS["vectors"]), points_max=50)
    whole = cross_validate(blocks, 1, follow_on(RUNNERS["vectors"]), points_max=120)
    assert sampled is not None
    assert whole is not None
    assert (sampled.n_points, whole.n_points) == (50, 120)
    assert np.array_equal(whole.rank, followed_here(blocks)[2])


class Nodes(ClusterRunner):
    """A node with so many GPUs, played by the cores of this machine."""

    def __init__(self, gpus: int) -> None:
        self._places, self.name = [Place(0, "node", 2, gpus)], "ray, 1 worker"

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        RUNNERS["vectors"].run(work, lo, hi, finished)


def test_the_cores_of_a_cluster_take_the_sample_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_study, "POINTS_MAX", 50)
    sweep = synthetic_sweep(edge=0.001)
    here, cores, gpu = (
        study_on(runner, sweep, n_resamples=0, seed=4).splits
        for runner in (RUNNERS["vectors"], Nodes(gpus=0), Nodes(gpus=1))
    )
    assert here is not None
    assert cores is not None
    assert gpu is not None
    assert (here.n_points, cores.n_points, gpu.n_points) == (50, 50, len(sweep))
    assert np.array_equal(cores.rank, here.rank)
