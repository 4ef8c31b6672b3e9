"""One error for everything that a device refuses, and the history of them.

A failure names the call, what it was called for, the driver's own words and a way out. Its kind
says who can mend it; `counts` and `history` say what happened in this process.
"""

from collections import Counter, deque
from typing import NamedTuple

from quantdsl.errors import DeviceError

HISTORY_MAX = 100
"""Failures kept; a run that meets more has one cause, and the first ones name it."""

WAYS_OUT = {
    "initialisation": "see `quantdsl devices`; --device cpu needs no GPU",
    "device": "see `quantdsl devices`; another process may hold it, or it needs a restart",
    "memory": "free memory on the device, or give fewer points or bars; --device cpu needs none",
    "launch": "the device's context is lost: start anew; --device cpu runs the same work",
    "transfer": "the copy is not done; start anew",
    "compilation": "update the driver, or run with --device cpu; please report the log above",
    "unsupported": "this device or driver cannot do that; --device cpu can",
}
"""Kind -> what its reader can do."""

_KINDS = {
    "initialisation": "NOT_INITIALIZED DEINITIALIZED NO_DEVICE STUB_LIBRARY SYSTEM_NOT_READY "
    "SYSTEM_DRIVER_MISMATCH COMPAT_NOT_SUPPORTED_ON_DEVICE",
    "device": "INVALID_DEVICE DEVICE_UNAVAILABLE DEVICE_NOT_LICENSED INVALID_CONTEXT "
    "CONTEXT_IS_DESTROYED ECC_UNCORRECTABLE HARDWARE_STACK_ERROR NVLINK_UNCORRECTABLE "
    "EXTERNAL_DEVICE PRIMARY_CONTEXT_ACTIVE UNKNOWN",
    "memory": "OUT_OF_MEMORY",
    "launch": "LAUNCH_FAILED LAUNCH_OUT_OF_RESOURCES LAUNCH_TIMEOUT ILLEGAL_ADDRESS "
    "ILLEGAL_INSTRUCTION MISALIGNED_ADDRESS INVALID_ADDRESS_SPACE INVALID_PC ASSERT "
    "COOPERATIVE_LAUNCH_TOO_LARGE LAUNCH_INCOMPATIBLE_TEXTURING",
    "compilation": "INVALID_PTX INVALID_IMAGE UNSUPPORTED_PTX_VERSION JIT_COMPILER_NOT_FOUND "
    "NO_BINARY_FOR_GPU INVALID_SOURCE JIT_COMPILATION_DISABLED",
    "unsupported": "NOT_SUPPORTED NOT_PERMITTED CALL_REQUIRES_NEWER_DRIVER "
    "PEER_ACCESS_UNSUPPORTED UNSUPPORTED_LIMIT",
}
_KIND_OF_STATUS = {
    f"CUDA_ERROR_{name}": kind for kind, names in _KINDS.items() for name in names.split()
}
_KIND_OF_CALL = {
    "cuMemcpy": "transfer",
    "cuMemset": "transfer",
    "cuMemHostRegister": "transfer",
    "cuLaunch": "launch",
    "cuGraph": "launch",
    "cuLibrary": "compilation",
    "cuModule": "compilation",
    "cuMem": "memory",
}
"""How a call begins -> its kind where the driver's status does not say."""

counts: Counter[str] = Counter()
"""Failures of this process by kind."""
history: deque[DeviceError] = deque(maxlen=HISTORY_MAX)
"""The last failures of this process, oldest first."""


class Bytes(NamedTuple):
    """What was asked of a memory and what it had."""

    requested: int
    available: int


def failure(
    device: str,
    call: str,
    status: str,
    words: str,
    *,
    about: str = "",
    log: str = "",
    memory: Bytes | None = None,
) -> DeviceError:
    """The error for a refused call, counted; `about` names kernel and sizes."""
    return refused(device, kind_of(call, status), _told(call, status, words, about, log), memory)


def refused(device: str, kind: str, told: str, memory: Bytes | None = None) -> DeviceError:
    """The error for something refused before any call was made, counted."""
    lines = [f"{device}: {told}"]
    if memory is not None:
        lines.append(f"  asked for {memory.requested:,} bytes, {memory.available:,} are available")
    lines.append(f"  {kind}: {WAYS_OUT[kind]}")
    error = DeviceError("\n".join(lines), kind)
    counts[kind] += 1
    history.append(error)
    return error


def kind_of(call: str, status: str) -> str:
    """The kind of a failure, by the driver's status, else by the call."""
    if kind := _KIND_OF_STATUS.get(status):
        return kind
    return next((kind for head, kind in _KIND_OF_CALL.items() if call.startswith(head)), "device")


def _told(call: str, status: str, words: str, about: str, log: str) -> str:
    of = f" of {about}" if about else ""
    text = f"{call}{of} failed: {words} ({status})"
    return f"{text}\n{log.strip()}" if log.strip() else text
