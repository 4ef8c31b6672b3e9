"""Kernels over many instruments: one core, the simulated device and a GPU leave the same words."""

from pathlib import Path

import numpy as np
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.backtest import kernel_bench
from quantdsl.backtest.drawn import drawn_works
from quantdsl.backtest.tensor_kernel import TensorKernel
from quantdsl.check import compile_file
from quantdsl.codegen.blocks import ENTRY
from quantdsl.devices.batches import on_core, on_gpu, on_simulated, watched
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.cuda.memory import words_at
from quantdsl.devices.grids import OnGpu
from quantdsl.errors import DeviceError
from tests.backtest.kernel_programs import PROGRAMS, THREADED
from tests.backtest.tensor_programs import FAST, LINE, SUMS
from tests.backtest.test_lane_entry import checked_text
from tests.devices.fake_driver import CUresult, FakeDriver

INSTRUMENTS = 5
PLACE_OF_Y = 2


def work_of(text):
    ((facts, work),) = drawn_works(checked_text(text), INSTRUMENTS)
    assert facts.threads == work.threads
    return work


@pytest.mark.parametrize("name", {**PROGRAMS, **THREADED})
def test_one_core_and_the_simulated_device_agree(name):
    work = work_of({**PROGRAMS, **THREADED}[name])
    words = on_core(work)
    assert words.tolist() == on_simulated(work).tolist()
    assert len(set(words.tolist())) > 1


@pytest.mark.parametrize("name", {**PROGRAMS, **THREADED})
def test_no_two_threads_of_a_block_race(name):
    """Neither where a kernel says what threads do, nor in what is made of a parallel loop."""
    ((_, work),) = drawn_works(checked_text({**PROGRAMS, **THREADED}[name]), 1)
    assert watched(work) == []


class Launched:
    """A launch of a batch: its results are computed by one core and left where a GPU would."""

    def __init__(self, work):
        self.work, self.launches = work, []
        self.count = len(work.batch().params)

    def __call__(self, grid, block, arguments):
        self.launches.append((grid, block))
        out = arguments[self.work.batch().params.index("out")]
        words_at(out, grid)[:] = on_core(self.work)


def test_a_gpu_gets_a_block_an_instrument_and_gives_its_memory_back():
    work = work_of(THREADED["warps"])
    fake = FakeDriver()
    fake.kernels[ENTRY] = launched = Launched(work)
    device = CudaDevice(Driver(fake), 0)
    words, seconds = on_gpu(work, device)
    assert words.tolist() == on_core(work).tolist()
    assert launched.launches == [(INSTRUMENTS, 128)]
    assert seconds == 0.002  # what the fake driver's clock says
    assert fake.used_bytes() == 0
    assert fake.live["event"] == 0


class Newer(FakeDriver):
    """A GPU whose compute capability is not in the table, of a family that is."""

    ATTRIBUTES = FakeDriver.ATTRIBUTES | {
        "COMPUTE_CAPABILITY_MAJOR": 12, "COMPUTE_CAPABILITY_MINOR": 3
    }  # fmt: skip


def test_a_gpu_that_is_newer_runs_code_of_its_family():
    """As it did in sweeps: of a kernel it was told that there is no architecture sm_123."""
    work, fake = work_of(THREADED["warps"]), Newer()
    fake.kernels[ENTRY] = Launched(work)
    device = CudaDevice(Driver(fake), 0)
    assert device.architecture == "sm_121"
    assert on_gpu(work, device)[0].tolist() == on_core(work).tolist()


class Second:
    """Refuses the second memory that is asked for."""

    def __init__(self):
        self.asked = 0

    def __call__(self, *_):
        self.asked += 1
        return CUresult.CUDA_ERROR_OUT_OF_MEMORY if self.asked == 2 else None


def test_a_gpu_that_refuses_says_so():
    """What it gave before goes back, and the stream."""
    fake = FakeDriver()
    fake.refuse["cuMemAllocFromPoolAsync"] = Second()
    device = CudaDevice(Driver(fake), 0)
    with pytest.raises(DeviceError, match="memory"):
        on_gpu(work_of(THREADED["warps"]), device)
    assert (fake.used_bytes(), device.pool.used_bytes) == (0, 0)
    device.streams.take()
    assert fake.calls["cuStreamCreateWithPriority"] == 1


def test_the_command_compares_a_file_on_a_device_with_one_core(tmp_path, capsys, monkeypatch):
    path = tmp_path / "warps.qdsl"
    path.write_text(THREADED["warps"])
    assert cli.run(["bench", "kernels", str(path), "--instruments", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("warps: 3 instruments, one core ")
    assert said.endswith(" ms, simulated, the same bits\n")
    monkeypatch.setattr(kernel_bench, "on_simulated", lambda work: on_core(work) + 1)
    assert cli.run(["bench", "kernels", str(path), "--instruments", "3"]) == 1
    assert "OTHER BITS" in capsys.readouterr().out


def test_the_command_runs_kernels_of_tensors_of_given_sizes(tmp_path, capsys):
    path = tmp_path / "tensors.qdsl"
    path.write_text(LINE.format(type="f32"))
    assert cli.run(["bench", "kernels", str(path), "--size", "n=70"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("line: n = 70, one core ")
    assert said.endswith(" ms, simulated, the same bits\n")
    numbers = ("0", "2_0", "²", str(2**31 + 1), "9" * 5_000)
    wrong = {f"n={number}": "from 1 to 2,147,483,648" for number in numbers}
    wrong |= {"q=70": "no tensor has such a size; there is n", "n": "such as n=4096"}
    for size, told in wrong.items():
        assert cli.run(["bench", "kernels", str(path), "--size", size]) == 2
        assert told in capsys.readouterr().err
    assert cli.run(["bench", "kernels", str(path), "--size", "n=5", "--size", "n=6"]) == 2
    assert "--size gives n twice" in capsys.readouterr().err


def test_the_command_goes_on_behind_a_kernel_that_a_core_alone_runs(tmp_path, capsys):
    path = tmp_path / "tensors.qdsl"
    path.write_text(
        "language 1\n\nkernel first(inout x: tensor[float, n]):\n    x[0] = 1.0\n\n"
        + LINE.format(type="f32").removeprefix("language 1\n")
    )
    assert cli.run(["bench", "kernels", str(path)]) == 0
    first, line = capsys.readouterr().out.splitlines()
    assert first.startswith("first: n = 64, one core ")
    assert "no device runs it: kernel first, line 4: on a device a kernel" in first
    assert line.endswith(" ms, simulated, the same bits")


@pytest.mark.parametrize(
    ("apart", "told", "holds"),
    [(0.0, "the same bits", True), (0.004, "at most 0.4% of the largest value off", True),
     (0.5, "at most 50% of the largest value off, which is TOO FAR", False)],
)  # fmt: skip
def test_how_far_off_rounded_factors_are_is_told(apart, told, holds, tmp_path, monkeypatch):
    """Where there are no tensor cores a product that may be fast is as exact as any."""
    path = tmp_path / "product.qdsl"
    path.write_text(FAST.format(rounded="bf16"))
    run = TensorKernel.run

    def rounded(kernel, bound, device, rounds=1):
        left = run(kernel, bound, device, rounds)
        c = bound.arrays["p.c"].host
        c[0, 0] += apart * np.abs(c).max() * (device == "simulated")
        return left

    monkeypatch.setattr(TensorKernel, "run", rounded)
    checked = compile_file(path, library_too=True)
    (found,) = kernel_bench.compared(checked, "simulated", 1, {"n": 40})
    assert (str(found).endswith(told), found.holds) == (True, holds)


def test_flags_beside_a_sum_in_any_order_are_compared(tmp_path):
    path = tmp_path / "flagged.qdsl"
    flagged = SUMS.replace("first:", "inout high: tensor[bool, n], first:")
    path.write_text(flagged.replace("y[i] = s", "y[i] = s\n        high[i] = s > first"))
    checked = compile_file(path, library_too=True)
    (found,) = kernel_bench.compared(checked, "simulated", 1, {"n": 5_000})
    assert (found.fast, found.same, found.holds) == ("order", False, True)


def test_a_gpu_takes_copies_of_tensors_and_gives_its_memory_back(tmp_path):
    path = tmp_path / "tensors.qdsl"
    path.write_text(LINE.format(type="float"))
    kernel = quantdsl.kernel(path)
    fake = FakeDriver()
    fake.threads_max = 256
    fake.kernels[ENTRY] = launched = Doubled()
    on_gpu = OnGpu(kernel.work({"n": 9}), CudaDevice(Driver(fake), 0))
    arrays = {"p.x": np.arange(9.0), "p.y": np.ones(9)}
    left, seconds = on_gpu.on_copies(arrays, {"p.slope": 0}, rounds=2)
    assert (left, seconds) == (0, [0.002, 0.002])  # what the fake driver's clock says
    assert arrays["p.y"].tolist() == np.full(9, 4.0).tolist()
    assert arrays["p.x"].tolist() == np.arange(9.0).tolist()
    assert launched.launches == [(1, 256)] * 2
    assert fake.used_bytes() == 0
    assert fake.live["event"] == 0


@pytest.mark.parametrize("arrays", [{"p.x": 9, "p.y": 9}, {"p.x": 9}])
def test_a_gpu_that_refuses_memory_of_tensors_gives_back_what_there_is(arrays, tmp_path):
    path = tmp_path / "tensors.qdsl"
    path.write_text(LINE.format(type="float"))
    fake = FakeDriver()
    fake.threads_max = 256
    fake.kernels[ENTRY] = Doubled()
    device = CudaDevice(Driver(fake), 0)
    on_gpu = OnGpu(quantdsl.kernel(path).work({"n": 9}), device)
    fake.refuse["cuMemAllocFromPoolAsync"] = Second()  # of the arrays, or scratch behind one
    with pytest.raises(DeviceError, match="memory"):
        on_gpu.on_copies({name: np.ones(n) for name, n in arrays.items()}, {"p.slope": 0})
    assert (fake.used_bytes(), device.pool.used_bytes) == (0, 0)
    made = fake.calls["cuStreamCreateWithPriority"]
    for _ in range(made):
        device.streams.take()
    assert fake.calls["cuStreamCreateWithPriority"] == made


class Doubled:
    """Plays a kernel: what it writes is doubled."""

    def __init__(self):
        self.launches, self.count = [], 4

    def __call__(self, grid, block, arguments):
        self.launches.append((grid, block))
        words_at(arguments[PLACE_OF_Y], 9).view(np.float64)[:] *= 2.0


def test_the_kernels_that_the_documents_time_leave_the_bits_of_a_core(capsys):
    """No command made the figures of docs/kernels.md again."""
    path = Path(__file__).parents[2] / "bench" / "kernels.qdsl"
    assert cli.run(["bench", "kernels", str(path), "--size", "n=4100"]) == 0  # two tiles of a sort
    assert capsys.readouterr().out.count(", simulated, the same bits\n") == 10


def test_the_command_refuses_what_it_cannot_do(tmp_path, capsys):
    path = tmp_path / "none.qdsl"
    path.write_text("strategy S:\n    bars 5m\n    on bar:\n        buy(1 shares)\n")
    assert cli.run(["bench", "kernels", str(path)]) == 2
    assert "calls no kernel" in capsys.readouterr().err
    assert cli.run(["bench", "kernels", str(path), "--device", "cpu"]) == 2
    assert "kernels run on simulated or cuda:N" in capsys.readouterr().err
    assert cli.run(["bench", "kernels", str(path), "--device", "cuda:99"]) == 2
    assert "device cuda:99: " in capsys.readouterr().err
