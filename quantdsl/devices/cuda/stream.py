"""Streams of a GPU, events on them, copies, and graphs recorded from them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    from quantdsl.devices.cuda.device import CudaDevice
    from quantdsl.devices.cuda.memory import Buffer

NAP_S = 20e-6
"""Between two looks at an event: short beside any kernel, long enough to leave the core."""


class Event:
    """A mark on a stream: to wait for from the host or another stream, and to measure between."""

    def __init__(self, device: "CudaDevice") -> None:
        self.device = device
        default = device.driver.enum("CUevent_flags", "CU_EVENT_DEFAULT")
        self.handle = device.call("cuEventCreate", default)

    def done(self) -> bool:
        """Whether the stream has passed the mark. Raises DeviceError when its work failed."""
        api = self.device.driver.api
        self.device.use()
        status = api.cuEventQuery(self.handle)[0]
        if status == api.CUresult.CUDA_ERROR_NOT_READY:
            return False
        if int(status):
            self.device.call("cuEventSynchronize", self.handle, about="work before an event")
        return True

    def wait(self) -> None:
        """Until the stream has passed the mark; Ctrl-C ends the waiting, not the work."""
        while not self.done():
            time.sleep(NAP_S)

    def seconds_since(self, earlier: "Event") -> float:
        """Time between two marks that have passed, to half a microsecond."""
        call = self.device.call
        return float(call("cuEventElapsedTime", earlier.handle, self.handle)) / 1e3

    def close(self) -> None:
        """Give it back."""
        self.device.call("cuEventDestroy", self.handle)


URGENT = 5
"""As urgent as a stream can be; usual ones are 0."""


class Stream:
    """Work of a GPU in order; streams run beside each other. For one thread at a time.

    Blocks of a more `urgent` one start before those of others that wait.
    """

    def __init__(self, device: "CudaDevice", urgent: int = 0) -> None:
        self.device, self.urgent = device, urgent
        non_blocking = device.driver.enum("CUstream_flags", "CU_STREAM_NON_BLOCKING")
        self.handle = device.call("cuStreamCreateWithPriority", non_blocking, -urgent)
        self._synchronize = device.driver.api.cuStreamSynchronize

    def upload(self, target: "Buffer", source: npt.NDArray[Any], offset: int = 0) -> None:
        """Copy a contiguous array into a buffer from byte `offset` on; it must stay as it is."""
        size = source.nbytes
        assert offset + size <= target.size
        if size:
            to = target.address + offset
            told = {"about": f"{size:,} bytes to the device"}
            self.device.call("cuMemcpyHtoDAsync", to, source.ctypes.data, size, self.handle, **told)

    def download(self, target: npt.NDArray[Any], source: "Buffer", offset: int = 0) -> None:
        """Copy a buffer from byte `offset` on into a contiguous array; wait before reading it."""
        size = target.nbytes
        assert offset + size <= source.size
        if size:
            to, at = target.ctypes.data, source.address + offset
            told = {"about": f"{size:,} bytes from the device"}
            self.device.call("cuMemcpyDtoHAsync", to, at, size, self.handle, **told)

    def copy(
        self, target: "Buffer", source: "Buffer", size: int, to: int = 0, at: int = 0
    ) -> None:
        """Copy between buffers, also of two devices, from byte `at` on to byte `to` on."""
        assert to + size <= target.size
        assert at + size <= source.size
        here, there = target.pool.device, source.pool.device
        told = {"about": f"{size:,} bytes from {there.name} to {here.name}"}
        if here is there:
            addresses: tuple[Any, ...] = target.address + to, source.address + at
            self.device.call("cuMemcpyDtoDAsync", *addresses, size, self.handle, **told)
        else:
            addresses = target.address + to, here.context, source.address + at, there.context
            self.device.call("cuMemcpyPeerAsync", *addresses, size, self.handle, **told)

    def mark(self, event: Event | None = None) -> Event:
        """An event that passes when all before it is done: the handle of a copy or a launch."""
        marked = event or Event(self.device)
        self.device.call("cuEventRecord", marked.handle, self.handle)
        return marked

    def wait_for(self, event: Event) -> None:
        """Start nothing later on this stream before an event of another has passed."""
        self.device.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def follow(self, earlier: "Stream") -> None:
        """Start nothing later on this stream before what is on another one now is done."""
        event = earlier.mark()
        self.wait_for(event)
        event.close()

    def synchronize(self) -> None:
        """Until all of it is done; the fastest way to wait for something short."""
        self.device.use()
        if self._synchronize(self.handle)[0]:  # a status is an int, 0 for success
            self.device.call("cuStreamSynchronize", self.handle)

    def check(self) -> None:
        """Raise DeviceError when its work has failed; waits for nothing."""
        api = self.device.driver.api
        self.device.use()
        status = api.cuStreamQuery(self.handle)[0]
        if int(status) and status != api.CUresult.CUDA_ERROR_NOT_READY:
            self.device.call("cuStreamSynchronize", self.handle)

    def record(self, work: Callable[["Stream"], None]) -> "Graph":
        """What `work` starts on this stream, as a graph; nothing of it runs yet."""
        mode = self.device.driver.enum("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
        self.device.call("cuStreamBeginCapture", self.handle, mode)
        try:
            work(self)
        except BaseException:
            self.device.driver.api.cuStreamEndCapture(self.handle)  # its own refusal tells less
            raise
        return Graph(self.device, self.device.call("cuStreamEndCapture", self.handle))

    def close(self) -> None:
        """Give it back."""
        self.device.call("cuStreamDestroy", self.handle)


class Graph:
    """Launches and copies that start by one call."""

    def __init__(self, device: "CudaDevice", graph: Any) -> None:
        self.device = device
        self._executable = device.call("cuGraphInstantiate", graph, 0)
        device.call("cuGraphDestroy", graph)
        self._start = device.driver.api.cuGraphLaunch

    def __call__(self, stream: Stream) -> None:
        """Start it on a stream; the calling thread must use the device already."""
        if self._start(self._executable, stream.handle)[0]:
            self.device.call("cuGraphLaunch", self._executable, stream.handle)

    def close(self) -> None:
        """Give it back."""
        self.device.call("cuGraphExecDestroy", self._executable)


class StreamPool:
    """Streams for reuse, since making one takes longer than a launch; safe to use from several
    threads.
    """

    def __init__(self, device: "CudaDevice") -> None:
        self.device = device
        self._free: dict[int, list[Stream]] = {}

    def take(self, urgent: int = 0) -> Stream:
        """A stream on which nothing waits."""
        try:
            return self._free[urgent].pop()
        except (KeyError, IndexError):  # asked for first, another thread might take the last one
            return Stream(self.device, urgent)

    def give(self, stream: Stream) -> None:
        """Keep it for the next `take`; its work must be done."""
        self._free.setdefault(stream.urgent, []).append(stream)
