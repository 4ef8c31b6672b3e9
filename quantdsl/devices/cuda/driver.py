"""The border to CUDA's driver: each call is made here, and each refusal becomes one error.

Nothing but this module imports CUDA; tests put a driver of their own in its place.
"""

import functools
import importlib
from typing import Any

from quantdsl.devices.failure import Bytes, failure, refused
from quantdsl.errors import UnavailableError

VERSION_MIN = 12_000
"""CUDA 12.0, as the driver counts: it has stream-ordered pools, graphs and context-free loading."""
DRIVER_WANTED = "525.60 or newer"


class Driver:
    """Calls of the driver by name; safe to use from several threads."""

    def __init__(self, api: Any) -> None:
        """`api` has the functions of cuda.bindings.driver, initialised."""
        self.api = api
        self._addresses: dict[str, int] = {}

    def call(
        self,
        call: str,
        *args: Any,
        device: str = "cuda",
        about: str = "",
        log: bytearray | None = None,
        memory: Bytes | None = None,
    ) -> Any:
        """The value of a call, a tuple of several or None; raises DeviceError.

        `about` names what it is for, `log` is where the driver writes what it compiles, and
        `memory` what is asked for and available.
        """
        function = getattr(self.api, call, None)
        if function is None:
            raise refused(device, "unsupported", f"the CUDA bindings installed know no {call}")
        try:
            status, *values = function(*args)
        except RuntimeError as error:  # the driver is older than the bindings
            raise refused(device, "unsupported", f"{call}: {error}") from error
        if int(status):
            told = bytes(log or b"").rstrip(b"\0").decode("utf-8", "replace")
            name, words = self._described(status)
            raise failure(device, call, name, words, about=about, log=told, memory=memory)
        return values[0] if len(values) == 1 else tuple(values) or None

    def address(self, call: str) -> int:
        """Where a function of the driver begins, for native code."""
        if call not in self._addresses:
            found, _ = self.call("cuGetProcAddress", call.encode(), VERSION_MIN, 0)
            self._addresses[call] = int(found)
        return self._addresses[call]

    def enum(self, name: str, member: str) -> Any:
        """A constant of the driver: enum("CUevent_flags", "CU_EVENT_DEFAULT")."""
        return getattr(getattr(self.api, name), member)

    def device_count(self) -> int:
        """GPUs that this process may use. Raises UnavailableError if there is none."""
        count = int(self.call("cuDeviceGetCount"))
        if not count:
            raise UnavailableError("the NVIDIA driver finds no GPU that this process may use")
        return count

    def version(self) -> int:
        """The newest CUDA that the driver serves: 1000 * major + 10 * minor."""
        return int(self.call("cuDriverGetVersion"))

    def _described(self, status: Any) -> tuple[str, str]:
        """The driver's name of a status and its words."""
        _, name = self.api.cuGetErrorName(status)
        _, words = self.api.cuGetErrorString(status)
        return tuple((text or b"unknown").decode() for text in (name, words))  # type: ignore[return-value]


@functools.cache
def driver() -> Driver:
    """The driver of this machine. Raises UnavailableError, saying in one line what is missing."""
    try:
        api = importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise UnavailableError(
            "the CUDA bindings are not installed (pip install 'quantdsl-engine[gpu13]', or [gpu12] "
            "for a driver of CUDA 12)"
        ) from None
    return initialised(api)


def initialised(api: Any) -> Driver:
    """A driver that answers and is new enough."""
    try:
        status = api.cuInit(0)[0]
    except Exception as error:  # the bindings' own loader says so in several classes
        raise UnavailableError("no NVIDIA driver on this machine") from error
    found = Driver(api)
    if status == api.CUresult.CUDA_ERROR_NO_DEVICE:
        raise UnavailableError("the NVIDIA driver finds no GPU that this process may use")
    if int(status):
        raise failure("cuda", "cuInit", *found._described(status))
    version = found.version()
    if version < VERSION_MIN:
        raise UnavailableError(
            f"the NVIDIA driver serves CUDA {shown(version)}; CUDA {shown(VERSION_MIN)} is wanted "
            f"(driver {DRIVER_WANTED})"
        )
    return found


def shown(version: int) -> str:
    """A CUDA version as people write it: 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"
