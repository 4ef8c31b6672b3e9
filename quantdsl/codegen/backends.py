"""What `quantdsl compile` can make of the lanes of a strategy; no device is needed for any of it.

A backend makes one artifact an architecture. What a back end of LLVM cannot give strictly (f64,
no contraction) is refused with the reason, never approximated.
"""

from collections.abc import Callable
from typing import NamedTuple

from quantdsl.codegen.cubin import link_ptx
from quantdsl.codegen.emit import emit
from quantdsl.codegen.foreign import (
    AMD_ARCHITECTURES,
    SPIRV_ARCHITECTURE,
    amd_code,
    amd_used,
    spirv_capabilities,
    spirv_code,
)
from quantdsl.codegen.foreign import THREADS as AMD_THREADS
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.lanes import on_a_cpu
from quantdsl.codegen.ptx import PTX_OF_ARCHITECTURE, Bounds, Ptx, ptx_text, target_of
from quantdsl.codegen.target import Target, native
from quantdsl.errors import UnavailableError
from quantdsl.ir.ops import Module

REFUSED = {
    "metal": "Metal has no f64, and results must be equal to the bit on every target",
    "webgpu": "WebGPU has no f64, and results must be equal to the bit on every target",
}
"""Backends that people ask for, and why there is none."""

AARCH64 = Target("aarch64-unknown-linux-gnu", "generic", "+neon")
X86_64 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "")


class Artifact(NamedTuple):
    """The output for one architecture, and what is known of it."""

    code: bytes
    features: tuple[str, ...]
    """What a machine must have to run it."""
    threads: int | None = None
    """Of a block at most, on a GPU."""
    threads_min: int = 1
    """And at least."""
    registers: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


class Backend(NamedTuple):
    """`make` takes a module after the passes over lanes, an architecture and a level 0..3."""

    suffix: str
    architectures: tuple[str, ...]
    """The first is the default."""
    make: Callable[[Module, str, int], Artifact]


def backend_of(name: str) -> Backend:
    """The backend of this name; raises UnavailableError with the reason where there is none."""
    if name in REFUSED:
        raise UnavailableError(f"{name}: not supported, because {REFUSED[name]}")
    if name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise UnavailableError(f"there is no backend '{name}'\nhelp: one of {known}")
    return BACKENDS[name]


def _cpu(architecture: str) -> Target:
    return {"native": native(), "x86-64-v3": X86_64, "aarch64": AARCH64}[architecture]


def _llvm(module: Module, architecture: str, level: int) -> Artifact:
    target = _cpu(architecture)
    parsed, _ = optimised(emit(module, target, on_a_cpu), target, level)
    return Artifact(str(parsed).encode(), _features(target))


def _object(module: Module, architecture: str, level: int) -> Artifact:
    target = _cpu(architecture)
    parsed, machine = optimised(emit(module, target, on_a_cpu), target, level)
    return Artifact(machine.emit_object(parsed), _features(target))


def _asm(module: Module, architecture: str, level: int) -> Artifact:
    target = _cpu(architecture)
    parsed, machine = optimised(emit(module, target, on_a_cpu), target, level)
    return Artifact(machine.emit_assembly(parsed).encode(), _features(target))


def _features(target: Target) -> tuple[str, ...]:
    return (target.cpu, *(name for name in target.features.split(",") if name.startswith("+")))


def _ptx(module: Module, architecture: str, level: int) -> Artifact:
    """As PTX; it is assembled too, which proves it and tells of registers."""
    text = ptx_text(module, target_of(architecture), Bounds(), level)
    return _gpu(text, architecture)._replace(code=text.encode())


def _cubin(module: Module, architecture: str, level: int) -> Artifact:
    return _gpu(ptx_text(module, target_of(architecture), Bounds(), level), architecture)


def _gpu(text: str, architecture: str) -> Artifact:
    cubin = link_ptx(Ptx(text, ""), architecture, None, Bounds())
    version = target_of(architecture).features.removeprefix("+ptx")
    return Artifact(
        cubin.code,
        (architecture, f"ptx {version[:-1]}.{version[-1]}", "f64"),
        cubin.bounds.threads,
        registers=cubin.registers,
        stack_bytes=cubin.stack_bytes,
        spill_bytes=cubin.spill_bytes,
        shared_bytes=cubin.shared_bytes,
    )


def _amdgcn(module: Module, architecture: str, level: int) -> Artifact:
    code = amd_code(module, architecture, level)
    registers, stack_bytes, shared_bytes = amd_used(code)
    return Artifact(
        code,
        (architecture, "f64"),
        AMD_THREADS,
        AMD_THREADS,
        registers=registers,
        stack_bytes=stack_bytes,
        shared_bytes=shared_bytes,
    )


def _spirv(module: Module, _: str, level: int) -> Artifact:
    code = spirv_code(module, level)
    return Artifact(code, ("SPIR-V 1.4", *spirv_capabilities(code)))


CPUS = ("native", "x86-64-v3", "aarch64")
NVIDIA = ("sm_90", *(name for name in PTX_OF_ARCHITECTURE if name != "sm_90"))
BACKENDS = {
    "llvm": Backend(".ll", CPUS, _llvm),
    "object": Backend(".o", CPUS, _object),
    "asm": Backend(".s", CPUS, _asm),
    "ptx": Backend(".ptx", NVIDIA, _ptx),
    "cubin": Backend(".cubin", NVIDIA, _cubin),
    "amdgcn": Backend(".hsaco.o", AMD_ARCHITECTURES, _amdgcn),
    "spirv": Backend(".spv", (SPIRV_ARCHITECTURE,), _spirv),
}
