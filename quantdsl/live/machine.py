"""What Linux tells of cores, nodes and limits, read from a tree of files.

Every question has an answer on every system: where a file is missing the answer is that nothing is
known. `root` is `/` but in tests.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CPU = "sys/devices/system/cpu"


class Core(NamedTuple):
    """One logical CPU."""

    number: int
    node: int
    siblings: frozenset[int]
    """The logical CPUs of the same physical core, itself among them."""
    isolated: bool
    governor: str
    """Empty where the system, or its hypervisor, decides the frequency alone."""


class Machine(NamedTuple):
    """The cores that this process may use, and what slows or hurts a pinned thread."""

    cores: tuple[Core, ...]
    timer: str
    """The kernel's source of time."""
    tsc_steady: bool
    """Whether the cycle counter runs at one rate whatever the core does."""
    locked_bytes: int | None
    """Memory that may be locked, None without a limit."""
    priority_max: int
    """Highest real-time priority that may be asked for."""

    def core(self, number: int) -> Core | None:
        """The core of this number, if this process may use it."""
        return next((core for core in self.cores if core.number == number), None)


def read_machine(root: Path = Path("/"), allowed: set[int] | None = None) -> Machine:
    """The machine as this process sees it; `allowed` are its CPUs (default: its cpuset)."""
    if allowed is None:
        allowed = usable()
    isolated = _list(_text(root / CPU / "isolated"))
    nodes = {
        number: int(folder.name.removeprefix("node"))
        for folder in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        for number in _list(_text(folder / "cpulist"))
    }
    cores = tuple(
        Core(
            number,
            nodes.get(number, 0),
            _list(_text(root / CPU / f"cpu{number}/topology/thread_siblings_list")) | {number},
            number in isolated,
            _text(root / CPU / f"cpu{number}/cpufreq/scaling_governor"),
        )
        for number in sorted(allowed)
    )
    flags = _text(root / "proc/cpuinfo")
    source = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    limits = _limits(root)
    return Machine(
        cores,
        _text(source),
        "constant_tsc" in flags and "nonstop_tsc" in flags,
        None if _may("CAP_IPC_LOCK", root) else limits.get("Max locked memory"),
        99 if _may("CAP_SYS_NICE", root) else limits.get("Max realtime priority") or 0,
    )


def usable() -> set[int]:
    """The CPUs that this process may run on: those of its container, not of the machine."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def on_linux(call: Callable[[], None], what: str) -> str:
    """Do `call`; why it was refused, or nothing."""
    if sys.platform != "linux":
        return f"{what}: this system has no such thing"
    try:
        call()
    except OSError as refused:
        return f"{what}: refused: {refused.strerror or refused}"
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _list(text: str) -> frozenset[int]:
    """The numbers of a list as the kernel writes it: 0-3,8."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _limits(root: Path) -> dict[str, int | None]:
    """The soft limits of this process, None for unlimited."""
    found: dict[str, int | None] = {}
    for line in _text(root / "proc/self/limits").splitlines():
        name, rest = line[:26].strip(), line[26:].split()
        if rest:
            found[name] = int(rest[0]) if rest[0].isdigit() else None
    return found


_CAPABILITIES = {"CAP_IPC_LOCK": 14, "CAP_SYS_NICE": 23}


def _may(capability: str, root: Path) -> bool:
    """Whether this process has a right of the superuser."""
    for line in _text(root / "proc/self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAPABILITIES[capability] & 1)
    return False
