"""A real GPU: copies, pools, graphs, shared memory, errors in the driver's words, launch times."""

import numpy as np
import pytest

from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import architecture_of, target_of
from quantdsl.devices import rates
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.cuda.kernel import Library
from quantdsl.devices.cuda.lanes import CudaRunner
from quantdsl.devices.cuda.measure import Bench, kernel_for
from quantdsl.devices.cuda.memory import Managed, Registered
from quantdsl.devices.measure import PROMISES
from quantdsl.devices.primitives import for_gpu
from quantdsl.devices.simulated import kernel_of
from quantdsl.devices.together import Together
from quantdsl.errors import DeviceError, UnavailableError
from tests.devices.lane_work import expected, random_work, run
from tests.devices.test_simulated import REVERSE, WARP_SUM

BAD = b".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n"

pytestmark = pytest.mark.gpu


@pytest.fixture
def device():
    try:
        return open_device(0)
    except UnavailableError as error:
        pytest.skip(str(error))


def compiled(device, text, entry):
    parsed, machine = optimised(for_gpu(text), target_of(architecture_of(device.capability)))
    ptx = str(machine.emit_assembly(parsed)).encode()
    return Library(device.driver, ptx, entry).kernel(device, entry)


def test_words_go_there_and_back_in_every_kind_of_memory(device):
    stream = device.streams.take()
    words = np.arange(100_000, dtype=np.int64)
    here, there = (device.pool.allocate(words.nbytes, stream) for _ in range(2))
    stream.upload(here, words)
    stream.copy(there, here, words.nbytes)
    back = np.zeros_like(words)
    with Registered(device, back):
        stream.download(back, there)
        stream.mark().wait()
    assert np.array_equal(back, words)
    managed = Managed(device, 800)
    managed.words(100)[:] = words[:100]
    device.call("cuMemcpyDtoDAsync", there.address, managed.pointer, 800, stream.handle)
    pinned = device.pinned.take(800)
    stream.download(pinned.words(100), there)
    stream.synchronize()
    assert np.array_equal(pinned.words(100), words[:100])
    managed.free()
    for buffer in (here, there):
        buffer.free(stream)
    device.pool.trim()


def test_a_graph_replays_and_a_stream_waits_for_another(device):
    first, second = device.streams.take(), device.streams.take()
    words = np.arange(64, dtype=np.int64)
    buffer = device.pool.allocate(words.nbytes, first)
    first.upload(buffer, words)
    kernel = compiled(device, REVERSE, "reverse")
    launch = kernel.prepare([buffer.address], 2, 32, 8 * 32)
    graph = first.record(lambda stream: [launch(stream) for _ in range(3)])
    graph(first)
    second.wait_for(first.mark())
    second.download(words, buffer)
    second.synchronize()
    assert np.array_equal(words.reshape(2, 32), np.arange(64).reshape(2, 32)[:, ::-1])
    graph.close()


@pytest.mark.parametrize("text", [WARP_SUM])
def test_the_simulated_device_agrees_with_the_real_one(device, text):
    stream = device.streams.take()
    simulated, real = np.zeros((128, 2), np.int32), np.zeros((128, 2), np.int32)
    kernel_of(text, "warp_sum", 1).launch(2, 64, [simulated.ctypes.data])
    buffer = device.pool.allocate(real.nbytes, stream)
    compiled(device, text, "warp_sum").prepare([buffer.address], 2, 64)(stream)
    stream.download(real, buffer)
    stream.synchronize()
    assert np.array_equal(simulated, real)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_rates_are_of_the_same_bits_everywhere(device, kind):
    name, stream = f"rate_{kind}", device.streams.take()
    out = np.zeros(64, np.int64)
    here = np.zeros(64, np.int64)
    buffer = device.pool.allocate(out.nbytes, stream)
    stream.upload(buffer, out)
    kernel_for(device, name).prepare([buffer.address, 100], 2, 32)(stream)
    stream.download(out, buffer)
    stream.synchronize()
    kernel_of(rates.KERNELS[name], name, 2).launch(2, 32, (here.ctypes.data, 100))
    assert np.array_equal(out, here)


def test_bad_ptx_and_too_much_memory_are_told_in_the_drivers_words(device):
    with pytest.raises(DeviceError, match="ptxas") as caught:
        Library(device.driver, BAD, "bad").kernel(device, "bad")
    assert caught.value.kind == "compilation"
    with pytest.raises(DeviceError, match="asked for") as caught:
        device.pool.allocate(1 << 45, device.streams.take())
    assert caught.value.kind == "memory"


@pytest.mark.parametrize("seed", range(3))
def test_lanes_have_the_interpreters_bits(device, seed):
    work = random_work(seed, lanes=300)
    runner = CudaRunner(device)
    assert np.array_equal(run(runner, work), expected(work))
    runner.close()


def test_two_gpus_copy_to_each_other_and_share_a_sweep(device):
    if device.driver.device_count() < 2:
        pytest.skip("one GPU")
    other, words = open_device(1), np.arange(1000, dtype=np.int64)
    stream = device.streams.take()
    here = device.pool.allocate(8000, stream)
    there = other.pool.allocate(8000, other.streams.take())
    stream.upload(here, words)
    stream.synchronize()
    stream.copy(there, here, 8000)
    stream.synchronize()
    back = np.zeros_like(words)
    second = other.streams.take()
    second.download(back, there)
    second.synchronize()
    assert np.array_equal(back, words)
    work = random_work(1, lanes=5000)
    runner = Together([CudaRunner(device), CudaRunner(other), CpuRunner()])
    assert np.array_equal(run(runner, work), expected(work))
    runner.close()


def test_every_figure_is_measured(device):
    """Whether one keeps its promise it says itself: a busy host is no fault of the code."""
    figures = Bench(device).figures()
    assert [figure.name for figure in figures] == list(PROMISES)
    assert all(figure.value is not None and figure.value > 0 for figure in figures)
    assert all(figure.kept is not None for figure in figures)
