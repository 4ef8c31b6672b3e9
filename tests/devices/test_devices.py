"""Choosing devices, running on several, sizes, rates, the commands, and what is never imported."""

import itertools
import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from quantdsl import cli
from quantdsl.codegen.lanes import KERNEL
from quantdsl.devices import cluster, rates
from quantdsl.devices import kernel as lanes_kernel
from quantdsl.devices.choose import panel_on, runner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda import device as cuda_device
from quantdsl.devices.cuda import driver as cuda_driver
from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.kernel import BLOCK, GRID, grid_of
from quantdsl.devices.measure import PROMISES, Figure
from quantdsl.devices.profile import Ceilings, Profile
from quantdsl.devices.simulated import SimulatedRunner, kernel_of
from quantdsl.devices.sizes import Operation, Symbol, evaluate
from quantdsl.devices.together import Together, _Shares
from quantdsl.errors import ConfigError, DeviceError, LimitError, UnavailableError
from tests.devices.fake_driver import FakeDriver
from tests.devices.lane_work import expected, random_work, run
from tests.waiting import WAIT_S


@pytest.fixture
def no_gpu(monkeypatch):
    def missing():
        raise UnavailableError("no NVIDIA driver on this machine")

    monkeypatch.setattr(cuda_driver, "driver", missing)
    monkeypatch.setattr(cuda_device, "driver", missing)


@pytest.fixture
def two_gpus(monkeypatch):
    found = Driver(FakeDriver(n_devices=2))
    monkeypatch.setattr(cuda_driver, "driver", lambda: found)
    monkeypatch.setattr(cuda_device, "driver", lambda: found)
    cuda_device.open_device.cache_clear()
    yield
    cuda_device.open_device.cache_clear()


# ---- --device -------------------------------------------------------------------------------


def test_a_machine_without_a_gpu_says_so_in_one_line(no_gpu):
    said = []
    assert isinstance(runner("auto", said.append), CpuRunner)
    assert said == ["no GPU: no NVIDIA driver on this machine; running on the CPU"]
    assert isinstance(runner("all", said.append), CpuRunner)
    told = "(?s)^device cuda:0: no NVIDIA driver .*help: take device auto, "
    for asked in (lambda: runner("cuda:0", said.append), lambda: panel_on("cuda:0")):
        with pytest.raises(UnavailableError, match=told):
            asked()


def test_each_word_of_device(two_gpus):
    said = []
    assert isinstance(runner("cpu", said.append), CpuRunner)
    assert isinstance(runner("simulated", said.append), SimulatedRunner)
    assert runner("auto", said.append).name == "cuda:0 Fake GPU"
    assert runner("cuda:1", said.append).name == "cuda:1 Fake GPU"
    assert runner("all", said.append).name == "cuda:0 Fake GPU + cuda:1 Fake GPU + cpu"
    assert not said
    with pytest.raises(UnavailableError, match="no cuda:2; this process may use cuda:0 to cuda:1"):
        runner("cuda:2", said.append)


@pytest.mark.parametrize("word", ["gpu", "cuda:x", "cuda:-1", "", "CPU"])
def test_a_word_that_is_no_device(word):
    with pytest.raises(ConfigError, match="give auto, cpu, simulated, cuda:N or all"):
        runner(word, print)


# ---- several devices ------------------------------------------------------------------------


def test_a_device_takes_half_of_its_share_by_speed():
    shares, sizes = _Shares(0, 10_000, [100, 100]), []
    for number in (0, 1):
        lo, hi = shares.take(number)
        assert hi - lo == 100  # to measure it by
        shares.took(number, 100, [0.1, 1.0][number])
    for number in (0, 1, 0):
        lo, hi = shares.take(number)
        sizes.append(hi - lo)
    assert sizes == [9_800 * 10 // 11 // 2, (9_800 - 4_454) // 11 // 2, 2_319]


def test_a_device_gets_chunks_until_all_have_shown_a_speed():
    shares = _Shares(0, 10_000, [100, 100])
    shares.took(0, 100, 0.1)
    assert shares.take(0) == (0, 100)
    shares.took(1, 100, 0.1)
    assert shares.take(0) == (100, 100 + 9_900 // 4)


def test_shares_do_not_shrink_below_what_a_device_runs_in_its_least_time():
    """Two devices that need 10 ms for any lanes at all, and a millionth of a second more for each;
    one that is forty times as slow."""
    needs = [(0.01, 1e-6), (0.01, 1e-6), (0.005, 4e-5)]
    shares, free, ends = _Shares(0, 300_000, [50_000, 50_000, 160]), [0.0] * 3, [0]
    while (lanes := shares.take(number := free.index(min(free)))) is not None:
        assert lanes[0] == ends[-1]  # one after the other
        ends.append(lanes[1])
        fixed_s, lane_s = needs[number]
        seconds = fixed_s + lane_s * (lanes[1] - lanes[0])
        free[number] += seconds
        shares.took(number, lanes[1] - lanes[0], seconds)
    assert ends[-1] == 300_000
    assert max(free) < 1.25 * 300_000e-6 / 2


def test_results_are_taken_before_a_device_uses_their_place_again():
    class InPlace(CpuRunner):
        def run(self, work, lo, hi, finished):
            place = np.empty((len(work.results), hi - lo), np.int64)

            def told(start, end, words):
                here = place[:, : end - start]
                here[:] = words
                finished(start, end, here)
                place[:] = -1

            CpuRunner.run(self, work, lo, hi, told)

    work = random_work(3, lanes=600)
    assert np.array_equal(run(Together([InPlace(1), InPlace(1)]), work), expected(work))


def test_a_single_worker_of_a_cluster_is_one(monkeypatch):
    monkeypatch.setattr(cluster, "_connected", lambda: SimpleNamespace(nodes=list))
    monkeypatch.setattr(cluster, "_places", lambda *_: [cluster.Place(0, "node", 2, 0)])
    assert cluster.ClusterRunner("cpu").name == "ray, 1 worker"


def test_devices_share_and_every_lane_is_run_once():
    """One is held at its first lanes, of which it gets no more than a quarter, until the other has
    run most of the rest."""
    work, counts, most = random_work(1, lanes=1_200), [0, 0], threading.Event()
    runners = [CpuRunner(1), CpuRunner(1)]
    for number, one in enumerate(runners):

        def counted(work, lo, hi, finished, number=number, one=one):
            if number:
                assert most.wait(WAIT_S)
            CpuRunner.run(one, work, lo, hi, finished)
            counts[number] += hi - lo
            if counts[0] >= 850:
                most.set()

        one.run = counted
    assert np.array_equal(run(Together(runners), work), expected(work))
    assert sum(counts) == 1_200
    assert counts[1] <= 350


def test_a_device_that_fails_ends_the_run_of_all():
    class Broken(CpuRunner):
        def run(self, *_):
            raise DeviceError("broken", "launch")

    work, before = random_work(2, lanes=400), threading.active_count()
    with pytest.raises(DeviceError, match="broken"):
        run(Together([CpuRunner(1), Broken(1)]), work)
    assert threading.active_count() == before


# ---- sizes ----------------------------------------------------------------------------------


def test_the_kernels_facts_cover_its_signature():
    facts = lanes_kernel.facts(on_cores=False)
    names = {*facts.inputs, *facts.outputs, *facts.variables}
    assert names == {param.name for param in KERNEL.params} | {"block"}
    on_cores = lanes_kernel.facts(on_cores=True)
    assert {*on_cores.inputs, *on_cores.outputs, *on_cores.variables} == names - {"block"}
    assert on_cores.grid is None
    assert facts.outputs == {
        "results": "(n_results * n_lanes)",
        "states": "((own_words * n_lanes) + (common_words * (n_lanes //^ 32)))",
    }
    assert facts.grid == "((lane_hi - lane_lo) //^ block)"


def test_sizes_are_checked():
    lanes, words = Symbol("lanes", 1, 2**40), Symbol("words")
    size = Operation("*", lanes, words)
    assert evaluate(size, {"lanes": 3, "words": 5}) == 15
    with pytest.raises(LimitError, match=r"lanes = 0 is not within 1\.\."):
        evaluate(size, {"lanes": 0, "words": 5})
    with pytest.raises(LimitError, match="does not fit 64 bits"):
        evaluate(size, {"lanes": 2**39, "words": 2**39})
    with pytest.raises(LimitError, match="negative"):
        evaluate(Operation("-", lanes, words), {"lanes": 3, "words": 5})
    with pytest.raises(LimitError, match="not within"):
        evaluate(GRID, {"lane_lo": 0, "lane_hi": 5, BLOCK.name: 0})


@pytest.mark.parametrize(("lanes", "block"), [(0, 32), (33, 2048), (2**22, 1)])
def test_a_launch_beyond_the_device_is_refused(lanes, block):
    with pytest.raises(DeviceError, match="is not within") as caught:
        grid_of("toy", {"lane_lo": 0, "lane_hi": lanes}, block, (65_535, 1024))
    assert caught.value.kind == "launch"
    assert grid_of("toy", {"lane_lo": 0, "lane_hi": 65}, 32, (65_535, 1024)) == 3


# ---- measuring ------------------------------------------------------------------------------


def test_the_kernels_of_the_bench_compute_what_they_say():
    source, target = np.arange(200, dtype=np.int64), np.zeros(200, np.int64)
    copy = kernel_of(rates.KERNELS["copy"], "copy", 3)
    copy.launch(2, 16, (source.ctypes.data, target.ctypes.data, 100))
    assert np.array_equal(source, target)
    for kind, real in (("f64", np.float64), ("f32", np.float32)):
        out = np.zeros(4, real)
        kernel = kernel_of(rates.KERNELS[f"rate_{kind}"], f"rate_{kind}", 2)
        kernel.launch(2, 2, (out.ctypes.data, 3))
        first = 8 * np.arange(4) + sum(range(8))
        assert np.allclose(out, first * (1 + 1e-7) ** 24 + 8 * 24e-7, rtol=1e-5)
    out = np.zeros((32, 2), np.int64)
    kernel_of(rates.KERNELS["shared"], "shared", 2).launch(
        1, 32, (out.ctypes.data, 1), rates.SHARED_BYTES
    )
    assert np.array_equal(out[0], [0, 1])


def test_one_block_need_not_wait_for_others():
    arrived = np.zeros(1, np.int64)
    kernel_of(rates.KERNELS["grid_wait"], "grid_wait", 2).launch(1, 8, (arrived.ctypes.data, 5))
    assert arrived[0] == 5


def test_a_figure_knows_whether_its_promise_is_kept():
    assert Figure("launch", 4.9).kept
    assert Figure("launch", 5.1).kept is False
    assert Figure("pinned copy up", 11.0).kept is False
    assert Figure("pinned copy up", None).kept is None
    assert Figure("f64 rate", 1.0, promised=False).kept is None


def test_a_profile_is_a_table_and_a_trace():
    profile = Profile()
    with profile.range("prepare"):
        pass
    profile.kernel("lanes", 0.5, 10**9, 10**8)
    profile.kernel("lanes", 1.5, 10**9, 10**8)
    prepare, lanes = profile.rows()
    assert (prepare.name, lanes.name) == ("prepare", "lanes")
    assert (lanes.min_s, lanes.mean_s, lanes.max_s) == (0.5, 1.0, 1.5)
    assert lanes.lane_steps_per_s == 10**9
    assert lanes.bytes_per_s == 10**8
    assert "lanes" in profile.table()
    assert profile.shares() == {}
    profile.ceilings["device"] = Ceilings(4e9, 3.3e13)
    (share,) = profile.shares().values()
    assert share.startswith("2.50% of 4 GB/s, the measured copy; 33,000 operations")
    assert "2.50% of" in profile.table()
    events = json.loads(profile.trace())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert sorted(event["dur"] for event in spans)[1:] == [5e5, 1.5e6]
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {"host", "device"}


def test_a_profile_of_what_ran_elsewhere_says_so():
    assert Profile().table() == "nothing ran on this machine, so nothing was measured"


def test_what_overlaps_has_a_row_of_its_own_in_a_trace():
    """Spans of one row that part overlap are drawn over each other, or not at all."""
    profile = Profile()
    for begin, seconds in ((0.0, 2.0), (1.0, 2.0), (0.5, 1.0), (2.0, 1.0), (2.5, 3.0)):
        profile.kernel("lanes", seconds, 1, 1, row="cpu", began_s=begin)
    rows = {}
    for event in json.loads(profile.trace())["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert sum(map(len, rows.values())) == 5
    assert len(rows) == 3
    for row in rows.values():
        for (begin, end), (after, until) in itertools.combinations(sorted(row), 2):
            assert after >= end or (begin <= after and until <= end)


# ---- commands -------------------------------------------------------------------------------


def invoke(*args):
    result = CliRunner().invoke(cli.cli, args, standalone_mode=False)
    assert result.exception is None, result.output
    return result.output


def test_devices_lists_the_cpu_and_why_there_is_no_gpu(no_gpu):
    text = invoke("devices")
    assert "no GPU: no NVIDIA driver on this machine\n" in text
    assert "cores for this process" in text
    found = json.loads(invoke("devices", "--json"))
    assert found["gpus"] == []
    assert found["cpu"]["cores"] >= 1


def test_devices_lists_every_gpu(two_gpus):
    text = invoke("devices")
    assert "cuda:0\n  name" in text
    assert "cuda:1\n  name" in text
    gpus = json.loads(invoke("devices", "--json"))["gpus"]
    assert [gpu["device"] for gpu in gpus] == ["cuda:0", "cuda:1"]
    assert gpus[0]["compute_capability"] == "9.0"
    assert gpus[0]["ecc"] is True
    wanted = "memory_total_bytes memory_free_bytes multiprocessors threads_a_block grid_x clock_khz"
    wanted += " bus_bits bandwidth_bytes_per_s l2_bytes shared_a_block_bytes registers_a_block warp"
    wanted += " integrated unified_addressing concurrent_kernels copy_engines driver_cuda ptx"
    assert set(wanted.split()) <= set(gpus[0])


def test_the_bench_measures_what_a_cpu_has_and_says_what_not(no_gpu, monkeypatch):
    monkeypatch.setattr("quantdsl.devices.measure.ROUNDS", 1)
    monkeypatch.setattr("quantdsl.devices.measure.COPY_BYTES", 1 << 16)
    found = json.loads(invoke("bench", "device", "--device", "cpu", "--json"))
    figures = found["figures"]
    assert set(figures) == {name.replace(" ", "_") for name in PROMISES}
    assert figures["cached_load"]["value"] > 0
    assert figures["pinned_copy_up"]["value"] is None
    text = invoke("bench", "device", "--device", "cpu")
    assert "not measured: a GPU has it, a CPU has none" in text
    for choice, why in (("all", "figures are of one device"), ("simulated", "is played by the")):
        with pytest.raises(ConfigError, match=f"^--device {choice}: {why}.*\nhelp: give auto"):
            CliRunner().invoke(
                cli.cli, ["bench", "device", "--device", choice], catch_exceptions=False,
                standalone_mode=False,
            )  # fmt: skip


def test_nothing_imports_cuda_that_needs_none():
    code = (
        "import sys, quantdsl, quantdsl.api, quantdsl.devices.choose, quantdsl.devices.cuda.lanes\n"
        "from quantdsl import cli\n"
        "check = ['check', 'strategies/buy_and_hold.qdsl']\n"
        "for args in (['--help'], check, ['devices', '--help']):\n"
        "    assert cli.run(args) == 0\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'cuda'], 'cuda'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
