"""What a device does in a second, as those count on it who choose between devices.

`quantdsl bench device` keeps what it has measured in the cache, of the cores and of the last GPU;
until then figures are assumed that suit most machines, and whoever shows them says so.
"""

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.target import native, native_lanes
from quantdsl.devices.cpu import cores

FIGURES = {
    "device bandwidth": "bandwidth",
    "f64 rate": "f64",
    "launch": "launch",
    "pinned copy up": "up",
    "pinned copy down": "down",
}
"""Figure of `bench device` -> field of Rates."""


class Rates(Struct, frozen=True):
    """GB/s of its memory, read and written, and of copies from and to the host; GFLOPS of f64, of a
    core without vectors or of a whole GPU; us to start a kernel."""

    name: str
    bandwidth: float
    f64: float
    launch: float
    up: float = 0.0
    down: float = 0.0
    measured: bool = False


CPU = Rates("cores", bandwidth=8.0, f64=8.0, launch=5.0)
"""Assumed of a core of most machines."""
GPU = Rates("a GPU", bandwidth=900.0, f64=9_700.0, launch=5.0, up=12.0, down=12.0)
"""Assumed of a GPU for computing: what the promises of `bench device` ask."""


def keep(name: str, figures: Mapping[str, float | None], *, gpu: bool) -> None:
    """Keep what was measured of a device; what could not be is assumed as before."""
    known = {FIGURES[one]: value for one, value in figures.items() if one in FIGURES and value}
    rates = msgspec.structs.replace(GPU if gpu else CPU, name=name, measured=True, **known)
    Cache().put(_key(gpu=gpu), msgspec.json.encode(rates))


def rates(*, gpu: bool) -> Rates:
    """What was measured of the last GPU, or of this machine's cores; else what is assumed."""
    found = Cache().get(_key(gpu=gpu))
    if found is not None:
        try:
            return msgspec.json.decode(found, type=Rates)
        except msgspec.DecodeError:  # of another version
            pass
    return GPU if gpu else CPU


def lanes_at_once() -> int:
    """Lanes that the cores of this process compute side by side."""
    return native_lanes().lanes * len(cores())


def _key(*, gpu: bool) -> str:
    what = "rates of a GPU" if gpu else f"rates of cores {native()}"
    return hashlib.sha256(what.encode()).hexdigest()
