"""A sweep over a Ray cluster of two nodes on this machine: the same words, also if one is lost."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl import cli
from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.check import compile_file
from quantdsl.devices import cluster
from quantdsl.devices.cluster import ClusterRunner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import UnavailableError
from tests.truth.test_oracle import market

ray = pytest.importorskip("ray", reason="Ray has no wheel for this Python or machine")
STRATEGY = Path(__file__).parents[2] / "tests/truth/oracle_sma.qdsl"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    ranges = {"fast": "2..41:1", "slow": "50..59:1"}
    return prepare_sweep(compile_file(STRATEGY), STRATEGY, data=market(2_000), ranges=ranges)


@pytest.fixture(scope="module")
def expected(sweep: Sweep) -> np.ndarray:
    return run(sweep, CpuRunner()).words


def test_two_nodes_give_the_same_words(
    two_nodes: object, sweep: Sweep, expected: np.ndarray
) -> None:
    device = ClusterRunner("cpu")
    assert device.name == "ray, 2 workers"
    lanes = run(sweep, device)
    assert lanes.complete
    assert np.array_equal(lanes.words, expected)


class Slow(cluster.Worker):
    """Takes its time; the first to be asked for lane 100 is killed instead, as by the system."""

    killer: Path

    def run(self, lo: int, hi: int) -> np.ndarray:
        time.sleep(0.2)
        if lo <= 100 < hi and self.killer.exists():
            self.killer.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(lo, hi)


def slow(killer: Path) -> type[Slow]:
    return type("Slow", (Slow,), {"killer": killer})


def test_the_part_of_a_killed_worker_is_run_again(
    two_nodes: object,
    sweep: Sweep,
    expected: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    killer = tmp_path / "kill"
    killer.touch()
    monkeypatch.setattr(cluster, "Worker", slow(killer))
    lanes = run(sweep, ClusterRunner("cpu"))
    assert not killer.exists()
    assert lanes.complete
    assert np.array_equal(lanes.words, expected)


def test_the_parts_of_a_lost_node_go_to_the_other(
    two_nodes: object, sweep: Sweep, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "Worker", slow(Path("nowhere")))
    third = two_nodes.add_node(num_cpus=1)
    lost = []

    def progress(done: int, _: int) -> None:
        if done > 60 and not lost:
            lost.append(third)
            two_nodes.remove_node(third, allow_graceful=False)

    device = ClusterRunner("cpu")
    assert device.name == "ray, 3 workers"
    lanes = run(sweep, device, progress=progress)
    assert lost
    assert np.array_equal(lanes.words, expected)
    two_nodes.wait_for_nodes()  # the cluster counts a lost node for seconds, and others' workers


def test_a_device_that_no_node_has(two_nodes: object) -> None:
    with pytest.raises(UnavailableError, match="no node for --device cuda\n"):
        ClusterRunner("cuda")


def test_the_command_on_ray_leaves_the_files_of_this_machine(
    two_nodes: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sweep", str(STRATEGY), "--range", "fast=2..20:3", "--range", "slow=30..90:20"]
    arguments += ["--session", "none", "--device", "cpu"]
    for on in ("here", "ray"):
        assert cli.run([*arguments, "--on", on, "--out", str(tmp_path / on)]) == 0
    assert "ray, 2 workers" in capfd.readouterr().out
    tables = [pq.read_table(tmp_path / on / "points.parquet") for on in ("here", "ray")]
    assert tables[0].equals(tables[1])


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match="needs the package ray\nhelp: pip install"):
        ClusterRunner("cpu")
