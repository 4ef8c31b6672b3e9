"""CUDA's driver as quantdsl calls it, on plain memory: it runs kernels that a test gives it.

Everything happens at once, so streams and events keep no order; what is checked is bookkeeping:
nothing is freed twice or used after, nothing is left, and every refusal can be provoked.
"""

import ctypes
from collections import Counter
from enum import IntEnum
from types import SimpleNamespace

import numpy as np

MEMORY_BYTES = 1 << 26


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_NOT_SUPPORTED = 801


class Names:
    """An enum of the driver whose members are their own names."""

    def __getattr__(self, name):
        return name


class Handle(str):
    """What the driver calls something by; for native code an address."""

    def __int__(self):
        HANDLES[id(self)] = self
        return id(self)


HANDLES = {}
"""Those that native code was told, by their address."""
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *7 * [ctypes.c_uint], *3 * [ctypes.c_void_p]
)


class FakeDriver:
    """The functions of cuda.bindings.driver that are used, for `n_devices` small GPUs."""

    ATTRIBUTES = {
        "COMPUTE_CAPABILITY_MAJOR": 9,
        "COMPUTE_CAPABILITY_MINOR": 0,
        "MULTIPROCESSOR_COUNT": 2,
        "MAX_THREADS_PER_MULTIPROCESSOR": 64,
        "MAX_GRID_DIM_X": 2**31 - 1,
        "MAX_THREADS_PER_BLOCK": 1024,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    }

    def __init__(self, n_devices=1, version=13000, memory_bytes=MEMORY_BYTES):
        self.CUresult = CUresult
        self.n_devices, self.version, self.memory_bytes = n_devices, version, memory_bytes
        self.calls = Counter()
        self.refuse = {}
        """Call -> status, or a function of the arguments that may return one."""
        self.kernels = {}
        """Entry -> what a launch of it does with (grid, block, arguments)."""
        self.device_memory, self.host_memory = {}, {}
        self.live = Counter()
        self.log = b""
        self.threads_max = 128
        self.local_bytes = self.shared_bytes = 0
        self.chosen = {}
        """What a kernel's attributes were set to."""
        self._handles = 0
        for name in (
            "CUdevice_attribute CUfunction_attribute CUevent_flags CUstream_flags CUjit_option "
            "CUmemAllocationType CUmemLocationType CUmemPool_attribute CUstreamCaptureMode"
        ).split():
            setattr(self, name, Names())
        self.captured = None

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if not name.startswith("cu") or name.startswith("cuGetError") or not callable(found):
            return found

        def call(*args):
            self.calls[name] += 1
            status = self.refuse.get(name)
            if callable(status):
                status = status(*args)
            if status:
                return (status,) + (None,) * 2
            values = found(*args)
            return (CUresult.CUDA_SUCCESS, *(values if isinstance(values, tuple) else ()))

        return call

    def _made(self, kind):
        self._handles += 1
        self.live[kind] += 1
        return (Handle(f"{kind} {self._handles}"),)

    def cuGetErrorName(self, status):
        return CUresult.CUDA_SUCCESS, status.name.encode()

    def cuGetErrorString(self, status):
        return CUresult.CUDA_SUCCESS, f"words for {int(status)}".encode()

    def cuInit(self, flags):
        pass

    def cuDriverGetVersion(self):
        return (self.version,)

    def cuGetProcAddress(self, name, version, flags):
        call = getattr(self, name.decode())

        def native(function, *rest):
            *sizes, stream, params, extra = rest
            try:
                return int(call(HANDLES[function], *sizes, HANDLES[stream], params, extra)[0])
            except Exception:  # it is started once more, from Python, where it can be told
                return CUresult.CUDA_ERROR_LAUNCH_FAILED

        self._native = LAUNCH(native)
        return ctypes.cast(self._native, ctypes.c_void_p).value, 0

    def cuDeviceGetCount(self):
        return (self.n_devices,)

    def cuDeviceGet(self, number):
        return (number,)

    def cuDeviceGetName(self, length, device):
        return (b"Fake GPU\0junk",)

    def cuDeviceGetUuid(self, device):
        return (SimpleNamespace(bytes=bytes(range(16))),)

    def cuDeviceTotalMem(self, device):
        return (self.memory_bytes,)

    def cuDeviceGetAttribute(self, which, device):
        return (self.ATTRIBUTES.get(which.removeprefix("CU_DEVICE_ATTRIBUTE_"), 1),)

    def cuDevicePrimaryCtxRetain(self, device):
        return (f"context {device}",)

    def cuCtxSetCurrent(self, context):
        pass

    def cuCtxSynchronize(self):
        pass

    def cuDeviceCanAccessPeer(self, device, other):
        return (int(device != other),)

    def used_bytes(self):
        return sum(len(memory) for memory in self.device_memory.values())

    def cuMemGetInfo(self):
        return self.memory_bytes - self.used_bytes(), self.memory_bytes

    def CUmemPoolProps(self):
        return SimpleNamespace(location=SimpleNamespace())

    def cuuint64_t(self, value):
        return value

    def cuMemPoolCreate(self, wanted):
        return ("pool",)

    def cuMemPoolSetAttribute(self, pool, attribute, value):
        pass

    def cuMemPoolTrimTo(self, pool, keep):
        pass

    def _memory(self, where, size):
        memory = ctypes.create_string_buffer(b"\xa5" * size, size)
        address = ctypes.addressof(memory)
        where[address] = memory
        return (address,)

    def cuMemAllocFromPoolAsync(self, size, pool, stream):
        return self._memory(self.device_memory, size)

    def cuMemFreeAsync(self, pointer, stream):
        del self.device_memory[pointer]

    def cuMemAllocManaged(self, size, flags):
        return self._memory(self.device_memory, size)

    def cuMemFree(self, pointer):
        del self.device_memory[pointer]

    def cuMemHostAlloc(self, size, flags):
        return self._memory(self.host_memory, size)

    def cuMemFreeHost(self, pointer):
        del self.host_memory[pointer]

    def cuMemHostRegister(self, pointer, size, flags):
        self.live["registered"] += 1

    def cuMemHostUnregister(self, pointer):
        self.live["registered"] -= 1

    def _inside(self, address, size):
        assert any(
            start <= address and address + size <= start + len(memory)
            for start, memory in self.device_memory.items()
        ), "outside of device memory"

    def cuMemcpyHtoDAsync(self, target, source, size, stream):
        self._inside(target, size)
        ctypes.memmove(target, source, size)

    def cuMemcpyDtoHAsync(self, target, source, size, stream):
        self._inside(source, size)
        ctypes.memmove(target, source, size)

    def cuMemcpyDtoDAsync(self, target, source, size, stream):
        self._inside(target, size)
        self._inside(source, size)
        ctypes.memmove(target, source, size)

    def cuMemcpyPeerAsync(self, target, target_context, source, source_context, size, stream):
        assert target_context != source_context
        self.cuMemcpyDtoDAsync(target, source, size, stream)

    def cuMemsetD8Async(self, target, value, size, stream):
        self._inside(target, size)
        ctypes.memset(target, value, size)

    def cuStreamCreateWithPriority(self, flags, priority):
        return self._made("stream")

    def cuStreamDestroy(self, stream):
        self.live["stream"] -= 1

    def cuStreamSynchronize(self, stream):
        pass

    def cuStreamWaitEvent(self, stream, event, flags):
        pass

    def cuStreamBeginCapture(self, stream, mode):
        self.captured = []

    def cuStreamEndCapture(self, stream):
        work, self.captured = self.captured, None
        return (work,)

    def cuGraphInstantiate(self, graph, flags):
        self.live["graph"] += 1
        return (graph,)

    def cuGraphDestroy(self, graph):
        pass

    def cuGraphExecDestroy(self, graph):
        self.live["graph"] -= 1

    def cuGraphLaunch(self, graph, stream):
        for launch in graph:
            launch()

    def cuEventCreate(self, flags):
        return self._made("event")

    def cuEventRecord(self, event, stream):
        pass

    def cuEventQuery(self, event):
        pass

    def cuEventSynchronize(self, event):
        pass

    def cuEventElapsedTime(self, first, last):
        return (2.0,)

    def cuEventDestroy(self, event):
        self.live["event"] -= 1

    def cuLibraryLoadData(self, code, options, values, n, *rest):
        if self.log:
            values[0][: len(self.log)] = self.log
            return ()
        return (code,)

    def cuLibraryGetKernel(self, library, name):
        return (name.decode(),)

    def cuKernelGetFunction(self, kernel):
        return (Handle(kernel),)

    def cuFuncGetAttribute(self, which, function):
        known = {
            "NUM_REGS": 32,
            "LOCAL_SIZE_BYTES": self.local_bytes,
            "SHARED_SIZE_BYTES": self.shared_bytes,
            "MAX_THREADS_PER_BLOCK": self.threads_max,
        }
        return (known.get(which.removeprefix("CU_FUNC_ATTRIBUTE_"), 0),)

    def cuFuncSetAttribute(self, function, which, value):
        self.chosen[which.removeprefix("CU_FUNC_ATTRIBUTE_")] = value
        return ()

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, block, shared):
        return (64 // block,)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        def launch():
            pointers = ctypes.cast(params, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
            count = self.kernels[function].count
            self.kernels[function](gx, bx, [pointers[k][0] for k in range(count)])

        if self.captured is None:
            launch()
        else:
            self.captured.append(launch)

    def cuLaunchCooperativeKernel(self, *args):
        self.cuLaunchKernel(*args, 0)


class LaneKernel:
    """A launch of the lanes kernel, run by a Program of the CPU over the threads' lanes."""

    count = 15

    def __init__(self, program):
        self.program, self.launches = program, []

    def __call__(self, grid, block, arguments):
        *head, lane_lo, lane_hi, mode = arguments
        lanes = lane_hi - lane_lo
        assert lanes <= grid * block < lanes + block
        self.launches.append((grid, block, mode))
        self.program.call("lanes", *head, lane_lo, lane_hi, mode)


def word(address, value=None):
    """The int64 at an address, set to `value` if there is one."""
    at = ctypes.c_int64.from_address(address)
    if value is not None:
        at.value = value
    return at.value


def filled(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
