"""What this machine has and lacks for quantdsl, each lack with the command that mends it."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from quantdsl.codegen.cache import default_directory
from quantdsl.codegen.target import native
from quantdsl.errors import UnavailableError
from quantdsl.events.ring import shared_folder
from quantdsl.live.machine import Machine, read_machine

SHARED_BYTES = 256 << 20
"""Two rings of a million records, twice."""
LOCKED_BYTES = 1 << 30
PRIORITY = 50


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    needed: bool = False
    """Whether nothing works without it; the rest makes latency steady or is for some uses only."""
    mend: str = ""
    """The command that mends it, where there is one."""


def checkup(
    root: Path = Path("/"),
    machine: Machine | None = None,
    gpu: Callable[[], tuple[str, str]] = lambda: _gpu(),
) -> list[Finding]:
    """Everything looked at, in order; `gpu` names the GPUs, or says why there is none."""
    here = machine or read_machine(root)
    return [
        _cpu(),
        *_packages(),
        _cache(default_directory()),
        _shared_memory(),
        _graphics(gpu),
        *_engine_core(here, root),
        *_time(here),
        *_rights(here, root),
    ]


def _cpu() -> Finding:
    try:
        target = native()
    except UnavailableError as lacks:
        return Finding("processor", False, str(lacks).splitlines()[0], needed=True)
    return Finding("processor", True, f"{target.cpu} on {platform.machine()}", needed=True)


def _packages() -> Iterator[Finding]:
    """Packages that some commands import when they are used."""
    for name, why in (
        ("capstone", "reads back the machine code of hot paths"),
        ("hdrh", "keeps latencies"),
        ("numba", "reads ticks"),
    ):
        there = importlib.util.find_spec(name) is not None
        package = "hdrhistogram" if name == "hdrh" else name
        mend = "" if there else f"pip install {package}"
        yield Finding(package, there, why if there else f"missing: it {why}", True, mend)


def _cache(folder: Path) -> Finding:
    """The folder of compiled code: ours alone, writable, or not there yet."""
    if not folder.exists():
        parent = next(one for one in folder.parents if one.exists())
        if os.access(parent, os.W_OK):
            return Finding("cache folder", True, f"{folder}, made when it is needed")
        return Finding(
            "cache folder", False, f"{folder}: {parent} may not be written",
            mend=f"export QUANTDSL_CACHE_DIR={Path.home() / 'quantdsl-cache'}",
        )  # fmt: skip
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        mend = f"chmod 700 {folder}" if status.st_uid == os.geteuid() else f"sudo rm -r {folder}"
        return Finding("cache folder", False, f"{folder} is open to others: not used", mend=mend)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(
            "cache folder", False, f"{folder} cannot be written", mend=f"chmod 700 {folder}"
        )
    return Finding("cache folder", True, str(folder))


def _shared_memory() -> Finding:
    folder = shared_folder()
    free = shutil.disk_usage(folder).free
    size = f"{free >> 20:,} MiB free in {folder}"
    if free >= SHARED_BYTES:
        return Finding("shared memory", True, size)
    return Finding(
        "shared memory", False, f"only {size}: rings between processes may not fit",
        mend="sudo mount -o remount,size=1G /dev/shm",
    )  # fmt: skip


def _graphics(gpu: Callable[[], tuple[str, str]]) -> Finding:
    names, why = gpu()
    if names:
        return Finding("GPU", True, names)
    binding = importlib.util.find_spec("cuda") is not None
    mend = "" if binding else 'pip install "quantdsl-engine[gpu13]"'
    return Finding("GPU", False, f"none, so sweeps run on the cores: {why}", mend=mend)


def _gpu() -> tuple[str, str]:
    """The names of the GPUs, or why there is none."""
    from quantdsl.devices.cuda.device import open_device
    from quantdsl.devices.cuda.driver import driver

    try:
        return ", ".join(open_device(k).model for k in range(driver().device_count())), ""
    except UnavailableError as missing:
        return "", str(missing).splitlines()[0]


def _boots_with(flags: str, root: Path) -> str:
    """The command that gives the kernel these flags, by the system's own tool."""
    if not (root / "etc/debian_version").exists():
        return f'sudo grubby --update-kernel=ALL --args="{flags}" && sudo reboot'
    name = "GRUB_CMDLINE_LINUX_DEFAULT"
    return (
        f"echo '{name}=\"${name} {flags}\"' | sudo tee /etc/default/grub.d/engine.cfg && "
        "sudo update-grub && sudo reboot"
    )


def _engine_core(machine: Machine, root: Path) -> Iterator[Finding]:
    """What makes a core the engine's own."""
    numbers = [core.number for core in machine.cores]
    shown = ", ".join(map(str, numbers))
    enough = len(numbers) > 1
    yield Finding(
        "cores", enough, f"this process may use {shown}" + ("" if enough else ": an engine and "
        "its feeds need two"),
    )  # fmt: skip
    last = numbers[-1]
    isolated = [core.number for core in machine.cores if core.isolated]
    if isolated:
        yield Finding("isolated core", True, ", ".join(map(str, isolated)))
    else:
        flags = f"isolcpus={last} nohz_full={last} rcu_nocbs={last}"
        yield Finding(
            "isolated core", False, "none: the kernel runs other threads on the engine's core",
            mend=_boots_with(flags, root),
        )  # fmt: skip
    shares = any(len(core.siblings) > 1 for core in machine.cores)
    yield Finding(
        "hyperthreads", not shares,
        "two CPUs share a core: one slows the other" if shares else "none, or not shown",
        mend="echo off | sudo tee /sys/devices/system/cpu/smt/control" if shares else "",
    )  # fmt: skip
    governors = {core.governor for core in machine.cores if core.governor}
    slow = governors - {"performance"}
    yield Finding(
        "governor", not slow,
        f"{', '.join(sorted(slow))}: the core slows down while it waits" if slow
        else ", ".join(governors) or "none: the hypervisor or the firmware decides",
        mend="sudo cpupower frequency-set -g performance" if slow else "",
    )  # fmt: skip


def _time(machine: Machine) -> Iterator[Finding]:
    tsc = machine.timer in ("", "tsc")
    place = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    yield Finding(
        "timer source", tsc, machine.timer or "not shown",
        mend="" if tsc else f"echo tsc | sudo tee {place}",
    )  # fmt: skip
    said = "runs at one rate" if machine.tsc_steady else "is not known to run at one rate"
    yield Finding("cycle counter", machine.tsc_steady, said)


def _rights(machine: Machine, root: Path) -> Iterator[Finding]:
    """What the engine may ask of the system."""
    user = os.environ.get("USER", "root")
    limits = "/etc/security/limits.d/quantdsl.conf"
    locked = machine.locked_bytes
    enough = locked is None or locked >= LOCKED_BYTES
    yield Finding(
        "locked memory", enough,
        "no limit" if locked is None else f"{locked >> 20:,} MiB may be locked",
        mend="" if enough else f'echo "{user} - memlock unlimited" | sudo tee -a {limits}',
    )  # fmt: skip
    may = machine.priority_max >= PRIORITY
    yield Finding(
        "priority", may,
        f"SCHED_FIFO up to {machine.priority_max}" if may else "SCHED_FIFO is refused",
        mend="" if may else f'echo "{user} - rtprio 99" | sudo tee -a {limits}',
    )  # fmt: skip
    path = root / "proc/sys/kernel/sched_rt_runtime_us"
    try:
        runtime = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return
    throttled = runtime >= 0
    yield Finding(
        "throttling", not throttled,
        f"a real-time thread that spins is stopped after {runtime / 1e6:g} s of each second"
        if throttled else "off",
        mend="sudo sysctl kernel.sched_rt_runtime_us=-1" if throttled else "",
    )  # fmt: skip
