"""Driver, memory, streams, graphs and launches against a fake driver: bookkeeping and errors."""

import ctypes
import threading

import numpy as np
import pytest

from quantdsl.devices import failure
from quantdsl.devices.cuda import driver as driver_module
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.driver import Driver, initialised, shown
from quantdsl.devices.cuda.kernel import Library
from quantdsl.devices.cuda.memory import CLASSES_AN_OCTAVE, Managed, Registered, size_class
from quantdsl.errors import DeviceError, UnavailableError
from tests.devices.fake_driver import CUresult, FakeDriver, filled, word


@pytest.fixture
def fake():
    return FakeDriver(n_devices=2)


@pytest.fixture
def device(fake):
    return CudaDevice(Driver(fake), 0)


@pytest.fixture
def stream(device):
    return device.streams.take()


def adding(fake, name="add_one"):
    """A kernel that adds its second argument to the word at its first."""

    def add(grid, block, arguments):
        address, amount = arguments
        word(address, word(address) + grid * block * amount)

    add.count = 2
    fake.kernels[name] = add
    return name


# ---- the driver -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 11_080}, r"serves CUDA 11\.8; CUDA 12\.0 is wanted \(driver 525\.60"),
        ({"n_devices": 0}, "finds no GPU"),
    ],
)
def test_a_driver_of_no_use_is_named_in_one_line(options, message):
    with pytest.raises(UnavailableError, match=message) as caught:
        initialised(FakeDriver(**options)).device_count()
    assert "\n" not in str(caught.value)


def test_no_gpu_at_initialisation(fake):
    fake.refuse["cuInit"] = CUresult.CUDA_ERROR_NO_DEVICE
    with pytest.raises(UnavailableError, match="finds no GPU"):
        initialised(fake)
    fake.refuse["cuInit"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(DeviceError, match="cuInit failed: words for 719"):
        initialised(fake)


def test_bindings_that_are_not_installed_name_the_extra(monkeypatch):
    def missing(_):
        raise ImportError

    monkeypatch.setattr(driver_module.importlib, "import_module", missing)
    with pytest.raises(UnavailableError, match="gpu13"):
        driver_module.driver.__wrapped__()


def test_a_call_that_bindings_or_driver_lack_is_unsupported(device):
    with pytest.raises(DeviceError, match="know no cuNothing") as caught:
        device.call("cuNothing")
    assert caught.value.kind == "unsupported"


def test_versions_are_shown_as_people_write_them():
    assert (shown(13_000), shown(12_080)) == ("13.0", "12.8")


# ---- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("cuInit", "CUDA_ERROR_NOT_INITIALIZED", "initialisation"),
        ("cuDeviceGet", "CUDA_ERROR_INVALID_DEVICE", "device"),
        ("cuMemAllocFromPoolAsync", "CUDA_ERROR_OUT_OF_MEMORY", "memory"),
        ("cuMemHostAlloc", "CUDA_ERROR_INVALID_VALUE", "memory"),
        ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", "launch"),
        ("cuEventQuery", "CUDA_ERROR_ILLEGAL_ADDRESS", "launch"),
        ("cuMemcpyHtoDAsync", "CUDA_ERROR_INVALID_VALUE", "transfer"),
        ("cuLibraryLoadData", "CUDA_ERROR_INVALID_PTX", "compilation"),
        ("cuMemAllocManaged", "CUDA_ERROR_NOT_SUPPORTED", "unsupported"),
    ],
)
def test_every_failure_has_a_kind_and_a_way_out(call, status, kind):
    before = failure.counts[kind]
    error = failure.failure("cuda:1", call, status, "the driver's words", about="kernel k")
    assert error.kind == kind
    assert failure.counts[kind] == before + 1
    assert failure.history[-1] is error
    first, last = str(error).splitlines()
    assert first == f"cuda:1: {call} of kernel k failed: the driver's words ({status})"
    assert last == f"  {kind}: {failure.WAYS_OUT[kind]}"


def test_the_compilers_log_is_told(device, fake):
    fake.log = b"ptxas error: line 4"
    fake.refuse["cuLibraryGetKernel"] = CUresult.CUDA_ERROR_INVALID_PTX
    with pytest.raises(DeviceError, match="ptxas error: line 4") as caught:
        Library(device.driver, b"text", "k").kernel(device, "k")
    assert caught.value.kind == "compilation"


# ---- memory ---------------------------------------------------------------------------------


def test_size_classes_hold_the_request_and_waste_little():
    for size in [0, 1, 511, 512, 513, 1025, 4097, 1 << 20, (1 << 20) + 1, 10**9 + 7]:
        reserved = size_class(size)
        assert size <= reserved
        assert size_class(reserved) == reserved
        assert reserved - size <= max(size / CLASSES_AN_OCTAVE, 512)


def test_the_pool_counts_and_keeps_a_high_water_mark(device, stream):
    pool = device.pool
    first, second = pool.allocate(1000, stream), pool.allocate(2000, stream)
    assert pool.used_bytes == first.reserved + second.reserved == pool.high_bytes
    first.free(stream)
    first.free(stream)
    assert pool.used_bytes == second.reserved < pool.high_bytes
    pool.reset_high()
    assert pool.high_bytes == pool.used_bytes
    second.free(stream)
    pool.trim()
    assert device.driver.api.used_bytes() == pool.used_bytes == 0


def test_a_limit_refuses_before_the_driver_does(device, stream, fake):
    device.pool.limit_bytes = 10_000
    kept = device.pool.allocate(8_000, stream)
    with pytest.raises(DeviceError, match="asked for 4,096 bytes, 1,808 are available") as caught:
        device.pool.allocate(4_000, stream, "points of 7 lanes")
    assert "points of 7 lanes is beyond the limit" in str(caught.value)
    assert fake.calls["cuMemAllocFromPoolAsync"] == 1
    kept.free(stream)


def test_ten_thousand_failures_leave_memory_flat(device, stream, fake):
    fake.refuse["cuMemAllocFromPoolAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    for _ in range(10_000):
        with pytest.raises(DeviceError):
            device.pool.allocate(1 << 30, stream)
    assert device.pool.used_bytes == 0
    assert len(failure.history) == failure.HISTORY_MAX


def test_pinned_memory_is_used_again(device, fake):
    first = device.pinned.take(1000)
    first.words(4)[:] = 7
    device.pinned.give(first)
    assert device.pinned.take(1010) is first
    device.pinned.give(first)
    device.pinned.trim()
    assert not fake.host_memory
    assert fake.calls["cuMemHostAlloc"] == 1


class Contended(list):
    """What is free, of which another thread takes the last one once somebody has seen it."""

    def __bool__(self):
        seen = len(self) > 0
        self.clear()
        return seen


def test_threads_may_take_at_the_same_time(device):
    pinned, stream = device.pinned.take(1000), device.streams.take()
    device.pinned._free[pinned.size] = Contended([pinned])
    device.streams._free[0] = Contended([stream])
    assert device.pinned.take(1000) is pinned
    assert device.streams.take() is stream
    assert device.pinned.take(1000) is not pinned
    assert device.streams.take() is not stream


def test_memory_may_be_given_back_while_some_is_counted(device, stream):
    """As Python's collector may, wherever it comes by: a thread waited for itself."""
    buffer, done = device.pool.allocate(1000, stream), threading.Event()

    def collected():
        with device.pool._lock:
            buffer.free(stream)
        done.set()

    threading.Thread(target=collected, daemon=True).start()
    assert done.wait(10)
    assert device.pool.used_bytes == 0


def test_arrays_are_registered_while_the_with_lasts(device, fake):
    with Registered(device, filled(10)):
        assert fake.live["registered"] == 1
    assert fake.live["registered"] == 0


def test_managed_memory_is_one_address_for_both(device):
    managed = Managed(device, 80)
    managed.words(2, 5)[:] = filled(2, 5)
    assert word(int(managed.pointer) + 72) == 9
    managed.free()


# ---- streams --------------------------------------------------------------------------------


def test_copies_go_there_between_and_back(device, stream, fake):
    other = CudaDevice(device.driver, 1)
    here = device.pool.allocate(800, stream)
    there = other.pool.allocate(800, stream)
    words, back = filled(100), np.zeros(100, np.int64)
    stream.upload(here, words)
    stream.copy(there, here, 800)
    stream.download(back, there)
    stream.mark().wait()
    assert np.array_equal(back, words)
    assert fake.calls["cuMemcpyPeerAsync"] == 1
    assert device.can_reach(other)


def test_events_measure_and_order(device, stream):
    other, began = device.streams.take(), stream.mark()
    ended = stream.mark()
    other.wait_for(ended)
    assert ended.done()
    assert ended.seconds_since(began) == pytest.approx(2e-3)
    for event in (began, ended):
        event.close()


def test_streams_are_used_again(device):
    stream = device.streams.take()
    device.streams.give(stream)
    assert device.streams.take(2).urgent == 2
    assert device.streams.take() is stream


def test_a_graph_runs_what_was_recorded_each_time(device, stream, fake):
    kernel = Library(device.driver, b"\x7fELF", "k").kernel(device, adding(fake))
    total = (ctypes.c_int64 * 1)()
    launch = kernel.prepare([ctypes.addressof(total), 5], 2, 3)
    graph = stream.record(lambda here: [launch(here) for _ in range(2)])
    assert total[0] == 0
    graph(stream)
    graph(stream)
    assert total[0] == 4 * 2 * 3 * 5
    graph.close()
    assert fake.live["graph"] == 0


def test_an_error_while_recording_ends_the_recording(device, stream, fake):
    def broken(_):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        stream.record(broken)
    assert fake.captured is None


# ---- launches -------------------------------------------------------------------------------


def test_a_prepared_launch_takes_changed_arguments(device, stream, fake):
    kernel = Library(device.driver, b"\x7fELF", "k").kernel(device, adding(fake))
    total = (ctypes.c_int64 * 1)()
    launch = kernel.prepare([ctypes.addressof(total), 5], 1, 1)
    start = launch.on(stream)
    start()
    launch.set(1, 7)
    start()
    assert total[0] == 12


def test_a_program_is_started_from_several_threads(device, fake):
    kernel = Library(device.driver, b"\x7fELF", "k").kernel(device, adding(fake))
    totals = [(ctypes.c_int64 * 1)() for _ in range(4)]

    def work(total):
        launch, stream = kernel.prepare([ctypes.addressof(total), 1], 1, 1), device.streams.take()
        for _ in range(50):
            launch(stream)

    crew = [threading.Thread(target=work, args=(total,)) for total in totals]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert [total[0] for total in totals] == [50] * 4


@pytest.mark.parametrize(
    ("grid", "block", "shared"), [(0, 32, 0), (1, 0, 0), (1, 129, 0), (2**31, 1, 0), (1, 1, 10**6)]
)
def test_sizes_beyond_the_device_are_refused_before_the_start(device, fake, grid, block, shared):
    kernel = Library(device.driver, b"\x7fELF", "k").kernel(device, adding(fake))
    with pytest.raises(DeviceError, match="kernel add_one") as caught:
        kernel.prepare([0, 0], grid, block, shared)
    assert caught.value.kind == "launch"
    assert not fake.calls["cuLaunchKernel"]


def test_a_refused_start_names_kernel_and_sizes(device, stream, fake):
    kernel = Library(device.driver, b"\x7fELF", "k").kernel(device, adding(fake))
    fake.refuse["cuLaunchKernel"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DeviceError, match="kernel add_one, 2 blocks of 64 threads, 32 registers"):
        kernel.prepare([0, 0], 2, 64)(stream)
