"""Code on a GPU: libraries loaded once for all devices, launches prepared once, started often."""

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.cuda.start import start_of
from quantdsl.devices.failure import refused
from quantdsl.limits import SHARED_BYTES

if TYPE_CHECKING:
    from quantdsl.devices.cuda.device import CudaDevice
    from quantdsl.devices.cuda.stream import Stream

LOG_BYTES = 16 * 1024
"""What the driver may write when it compiles: the first errors are what matters."""


class Library:
    """Cubin or PTX as the driver holds it, for every device that it fits; stateless."""

    def __init__(self, driver: Driver, code: bytes, name: str) -> None:
        """Raises DeviceError (compilation), here or where a kernel is first asked for."""
        self.driver, self.name = driver, name
        self._log = bytearray(LOG_BYTES)  # the driver writes to it whenever it compiles
        options = [
            driver.enum("CUjit_option", "CU_JIT_ERROR_LOG_BUFFER"),
            driver.enum("CUjit_option", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"),
        ]
        image = code if code.startswith(b"\x7fELF") or code.endswith(b"\0") else code + b"\0"
        self._handle = driver.call(
            "cuLibraryLoadData", image, options, [self._log, LOG_BYTES], len(options), [], [], 0,
            about=f"kernel {name}, {len(code):,} bytes of code", log=self._log,
        )  # fmt: skip

    def kernel(self, device: "CudaDevice", entry: str) -> "Kernel":
        """An entry of it on a device. Raises DeviceError (compilation) with the driver's log."""
        told = {"about": f"kernel {entry}", "log": self._log}
        found = device.call("cuLibraryGetKernel", self._handle, entry.encode(), **told)
        return Kernel(device, self, entry, device.call("cuKernelGetFunction", found, **told))


class Use(NamedTuple):
    """What a kernel takes of a multiprocessor."""

    registers: int
    """Of a thread."""
    local_bytes: int
    """Of a thread: what does not fit in registers, in device memory."""
    shared_bytes: int
    """Of a block, declared in the code."""
    threads_max: int
    """Of a block."""


class Kernel:
    """A function on a device; several threads may prepare and start launches of it."""

    def __init__(self, device: "CudaDevice", library: Library, name: str, handle: Any) -> None:
        self.device, self.library, self.name, self.handle = device, library, name, handle
        self.use = Use(
            self._attribute("NUM_REGS"),
            self._attribute("LOCAL_SIZE_BYTES"),
            self._attribute("SHARED_SIZE_BYTES"),
            self._attribute("MAX_THREADS_PER_BLOCK"),
        )

    def blocks_at_once(self, block: int, shared_bytes: int = 0) -> int:
        """Blocks of this size that one multiprocessor holds at a time."""
        call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(self.device.call(call, self.handle, block, shared_bytes, about=self.name))

    def allow_shared(self, size: int) -> None:
        """Let launches ask for so many bytes of shared memory, where it is more than usual."""
        if size > SHARED_BYTES:
            self._set("MAX_DYNAMIC_SHARED_SIZE_BYTES", size)

    def spare_cache(self, block: int) -> None:
        """Leave to the cache what blocks of this size, as many as run at once, do not share."""
        room = self.device.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
        kept = self.device.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK") + self.use.shared_bytes
        taken = self.blocks_at_once(block) * kept
        self.carve_out(min(-(-100 * taken // room), 100))

    def carve_out(self, percent: int) -> None:
        """So much of what a multiprocessor has for both is shared memory, and the rest is cache.

        Kernels that go beside each other have to agree: it is the same for all on one.
        """
        self._set("PREFERRED_SHARED_MEMORY_CARVEOUT", percent)

    def prepare(
        self, arguments: Sequence[int], grid: int, block: int, shared_bytes: int = 0
    ) -> "Launch":
        """A launch with its arguments, each 8 bytes, as they are now."""
        limits = self.device.limits
        fits = 0 < grid <= limits.grid and 0 < block <= min(limits.block, self.use.threads_max)
        if not fits or not 0 <= shared_bytes <= limits.shared_bytes:
            raise refused(
                self.device.name, "launch",
                f"kernel {self.name}: {grid:,} blocks of {block:,} threads with {shared_bytes:,} "
                f"bytes of shared memory; at most {limits.grid:,} of "
                f"{min(limits.block, self.use.threads_max):,} with {limits.shared_bytes:,}",
            )  # fmt: skip
        return Launch(self, arguments, grid, block, shared_bytes)

    def _set(self, name: str, value: int) -> None:
        which = self.device.driver.enum("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{name}")
        self.device.call("cuFuncSetAttribute", self.handle, which, value, about=self.name)

    def _attribute(self, name: str) -> int:
        which = self.device.driver.enum("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self.device.call("cuFuncGetAttribute", which, self.handle, about=self.name))


class Launch:
    """A kernel with sizes and arguments laid out as the driver takes them: starting it is a call.

    The calling thread must use the device already (CudaDevice.use); for one thread at a time.
    """

    def __init__(
        self, kernel: Kernel, arguments: Sequence[int], grid: int, block: int, shared_bytes: int
    ) -> None:
        self.kernel, self.grid, self.block, self.shared_bytes = kernel, grid, block, shared_bytes
        self._values = (ctypes.c_int64 * len(arguments))(*arguments)
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * len(arguments))(
            *(start + 8 * k for k in range(len(arguments)))
        )
        self._head = (kernel.handle, grid, 1, 1, block, 1, 1, shared_bytes)
        self._arguments = ctypes.addressof(self._pointers)

    def on(self, stream: "Stream") -> Callable[[], None]:
        """What starts it on a stream, with nothing left to prepare. Raises DeviceError (launch)."""
        kernel = self.kernel
        start = start_of([
            kernel.device.driver.address("cuLaunchKernel"), int(kernel.handle), self.grid,
            self.block, self.shared_bytes, int(stream.handle), self._arguments,
        ])  # fmt: skip

        def started() -> None:
            if start():  # a status, 0 for success
                self._again(stream)

        return started

    def __call__(self, stream: "Stream") -> None:
        """Start it once on a stream. Raises DeviceError (launch)."""
        self.on(stream)()

    def together(self, stream: "Stream") -> None:
        """Start it with all blocks resident at once, so that they may wait for one another."""
        args = (*self._head, stream.handle, self._arguments)
        self.kernel.device.call("cuLaunchCooperativeKernel", *args, about=self._about())

    def set(self, position: int, argument: int) -> None:
        """Change an argument of later starts."""
        self._values[position] = argument

    def _again(self, stream: "Stream") -> None:
        """Repeat a refused start, for an error that says everything."""
        args = (*self._head, stream.handle, self._arguments, 0)
        self.kernel.device.call("cuLaunchKernel", *args, about=self._about())

    def _about(self) -> str:
        use = self.kernel.use
        return (
            f"kernel {self.kernel.name}, {self.grid:,} blocks of {self.block} threads, "
            f"{use.registers} registers, {use.local_bytes:,} bytes of local and "
            f"{use.shared_bytes + self.shared_bytes:,} of shared memory"
        )
