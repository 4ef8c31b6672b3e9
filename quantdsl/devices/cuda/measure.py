"""The figures of a GPU for `quantdsl bench device`, from small kernels of rates.py."""

import functools
import statistics
import time
from collections.abc import Callable

from quantdsl.codegen.jit import optimised
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Kernel, Launch, Library
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.measure import PROMISES, Figure, no_work, seconds
from quantdsl.devices.primitives import for_gpu
from quantdsl.devices.profile import Ceilings
from quantdsl.devices.rates import CHAINS, KERNELS, SHARED_BYTES, SHARED_LOADS, STEPS
from quantdsl.errors import DeviceError

LAUNCHES = 500
"""In one round: fewer than a stream queues, so that none waits for another."""
COPY_BYTES = 1 << 28
DEVICE_BYTES = 1 << 31
"""Several times any cache."""
TURNS = 20_000
BLOCK = 256
DEVICE_ROUNDS = 7


def kernel_for(device: CudaDevice, entry: str) -> Kernel:
    """A kernel of rates.py, compiled by the device's driver."""
    parsed, machine = optimised(for_gpu(KERNELS[entry]), device.target)
    ptx = str(machine.emit_assembly(parsed))
    return Library(device.driver, ptx.encode(), entry).kernel(device, entry)


class Bench:
    """Measures one GPU."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.stream = device.streams.take()
        self.multiprocessors = device.attribute("MULTIPROCESSOR_COUNT")

    def figures(self) -> list[Figure]:
        """Every figure; one that the device refuses says so and the others go on."""
        measured: dict[str, Callable[[], tuple[float, str]]] = {
            "cached load": self.cached_load,
            "launch": self.launch,
            "empty round trip": self.round_trip,
            "grid synchronisation": self.grid_synchronisation,
            "pinned copy up": lambda: self.pinned_copy(up=True),
            "pinned copy down": lambda: self.pinned_copy(up=False),
            "device bandwidth": self.device_bandwidth,
            "shared bandwidth": self.shared_bandwidth,
            "f32 rate": lambda: self.rate("f32"),
            "f64 rate": lambda: self.rate("f64"),
        }
        found = []
        for name in PROMISES:
            try:
                found.append(Figure(name, *measured[name]()))
            except DeviceError as error:
                found.append(Figure(name, None, str(error).splitlines()[0]))
        return found

    def cached_load(self) -> tuple[float, str]:
        """us to get a kernel that this process has loaded."""
        kernel = kernel_for(self.device, "empty")
        loaded: Loaded[Kernel] = Loaded(lambda _: kernel)
        work = no_work()
        taken = seconds(lambda: [loaded(work) for _ in range(1000)], 1000)
        return taken * 1e6, "in-process"

    def launch(self) -> tuple[float, str]:
        """us of the host for one start of a prepared launch."""
        start = self._empty().on(self.stream)

        times = []
        for _ in range(DEVICE_ROUNDS):
            began = time.perf_counter()
            for _ in range(LAUNCHES):
                start()
            times.append((time.perf_counter() - began) / LAUNCHES)
            self.stream.synchronize()  # what is queued is of no later round
        return statistics.median(times) * 1e6, "prepared arguments"

    def round_trip(self) -> tuple[float, str]:
        """us from a start to the end of its wait."""
        empty, stream = self._empty(), self.stream
        graph, start = stream.record(empty), empty.on(stream)

        def launched() -> None:
            for _ in range(LAUNCHES):
                start()
                stream.synchronize()

        def replayed() -> None:
            for _ in range(LAUNCHES):
                graph(stream)
                stream.synchronize()

        plain, recorded = seconds(launched, LAUNCHES) * 1e6, seconds(replayed, LAUNCHES) * 1e6
        graph.close()
        return plain, f"a graph {recorded:.1f} us"

    def grid_synchronisation(self) -> tuple[float, str]:
        """us for all blocks of the device to wait for one another."""
        turns = 100
        kernel = kernel_for(self.device, "grid_wait")
        arrived = self.device.pool.allocate(8, self.stream)

        def waited() -> None:
            self.device.call("cuMemsetD8Async", arrived.address, 0, 8, self.stream.handle)
            kernel.prepare([arrived.address, turns], self.multiprocessors, BLOCK).together(
                self.stream
            )
            self.stream.synchronize()

        taken = seconds(waited, turns)
        arrived.free(self.stream)
        return taken * 1e6, f"{self.multiprocessors} blocks"

    def pinned_copy(self, *, up: bool) -> tuple[float, str]:
        """GB/s between pinned memory and the device."""
        pinned = self.device.pinned.take(COPY_BYTES)
        words = pinned.words(COPY_BYTES // 8)
        there = self.device.pool.allocate(COPY_BYTES, self.stream)

        def copied() -> None:
            if up:
                self.stream.upload(there, words)
            else:
                self.stream.download(words, there)

        taken = self._on_device(copied)
        there.free(self.stream)
        self.device.pinned.give(pinned)
        return COPY_BYTES / taken / 1e9, f"{COPY_BYTES >> 20} MiB"

    def device_bandwidth(self) -> tuple[float, str]:
        """GB/s of a copy on the device, counting bytes read and written."""
        source = self.device.pool.allocate(DEVICE_BYTES, self.stream)
        target = self.device.pool.allocate(DEVICE_BYTES, self.stream)
        kernel, n = kernel_for(self.device, "copy"), DEVICE_BYTES // 16
        launch = kernel.prepare([source.address, target.address, n], n // BLOCK, BLOCK)
        taken = self._on_device(lambda: launch(self.stream))
        for buffer in (source, target):
            buffer.free(self.stream)
        return 2 * DEVICE_BYTES / taken / 1e9, "read and written"

    def shared_bandwidth(self) -> tuple[float, str]:
        """GB/s read from shared memory by all multiprocessors."""
        kernel = kernel_for(self.device, "shared")
        taken, threads = self._full(kernel, 16, SHARED_BYTES)
        return 16 * SHARED_LOADS * TURNS * threads / taken / 1e9, "16-byte loads"

    def rate(self, kind: str) -> tuple[float, str]:
        """GFLOPS of fused multiply-adds, two operations each."""
        taken, threads = self._full(kernel_for(self.device, f"rate_{kind}"), 8, 0)
        return 2 * CHAINS * STEPS * TURNS * threads / taken / 1e9, "fused multiply-adds"

    def _full(self, kernel: Kernel, bytes_a_thread: int, shared_bytes: int) -> tuple[float, int]:
        """Seconds of TURNS turns with all multiprocessors full, and the threads."""
        blocks = kernel.blocks_at_once(BLOCK, shared_bytes) * self.multiprocessors
        out = self.device.pool.allocate(bytes_a_thread * blocks * BLOCK, self.stream)
        launch = kernel.prepare([out.address, TURNS], blocks, BLOCK, shared_bytes)
        taken = self._on_device(lambda: launch(self.stream))
        out.free(self.stream)
        return taken, blocks * BLOCK

    def _empty(self) -> Launch:
        self.device.use()
        return kernel_for(self.device, "empty").prepare([0], 1, 1)

    def _on_device(self, work: Callable[[], None]) -> float:
        """The median seconds of what `work` starts on the stream, by the device's clock."""
        work()
        stream, times = self.stream, []
        began, ended = stream.mark(), stream.mark()
        for _ in range(DEVICE_ROUNDS):
            stream.mark(began)
            work()
            stream.mark(ended)
            stream.synchronize()
            times.append(ended.seconds_since(began))
        for event in (began, ended):
            event.close()
        return statistics.median(times)


@functools.cache
def ceilings(device: CudaDevice) -> Ceilings | None:
    """What a device copies and computes at best; None where it refuses to be measured."""
    bench = Bench(device)
    try:
        copied, f64 = bench.device_bandwidth()[0], bench.rate("f64")[0]
    except DeviceError:
        return None
    finally:
        device.streams.give(bench.stream)
    return Ceilings(copied * 1e9, f64 * 1e9)
