"""What the code generator must know of a machine, as one value.

A target below x86-64-v3 or NEON is refused: without a fused multiply-add instruction LLVM calls
into the C library, whose bits are not ours to promise.
"""

import functools
from collections.abc import Mapping

import llvmlite.binding as llvm
import msgspec

from quantdsl.errors import UnavailableError

X86_64_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

FLOAT_INTRINSICS = frozenset({
    "llvm.ceil.f64",
    "llvm.fabs.f64",
    "llvm.floor.f64",
    "llvm.fma.f64",
    "llvm.roundeven.f64",
    "llvm.sqrt.f64",
    "llvm.trunc.f64",
})
"""Each is one instruction on every target below. LLVM ends the process over an intrinsic that a
target cannot lower, so the emitter uses no other, and a test compiles each by itself."""


class Target(msgspec.Struct, frozen=True):
    """A machine to compile for; equal values make equal code."""

    triple: str
    cpu: str
    features: str
    """As LLVM takes them: `+avx2,-avx512f`, sorted."""
    lanes: int = 1
    """Parameter points that one instruction carries."""
    intrinsics: frozenset[str] = FLOAT_INTRINSICS

    def machine(self) -> llvm.TargetMachine:
        """A new target machine; no two threads may use one at a time."""
        _initialize()
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="default", codemodel="jitdefault",
            jit=True,
        )


@functools.cache
def native() -> Target:
    """The machine at hand, for one lane. Raises UnavailableError below x86-64-v3 or NEON.

    On x86-64 it is x86-64-v3 whatever the CPU has beyond: with AVX-512 LLVM keeps truth values in
    mask registers, which made whole strategies run a third slower (Zen 5) and helps one lane
    nowhere. So every x86-64 machine runs the same code.
    """
    _initialize()
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
    require(triple, features)
    if triple.startswith("x86_64"):
        return Target(triple, "x86-64-v3", "")
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return Target(triple, llvm.get_host_cpu_name(), text)


def require(triple: str, features: Mapping[str, bool]) -> None:
    """Raise UnavailableError where a CPU lacks what compiled strategies need."""
    architecture = triple.partition("-")[0]
    if architecture in {"aarch64", "arm64"}:
        needed: tuple[str, ...] = ("neon",)
    elif architecture == "x86_64":
        needed = X86_64_V3
    else:
        raise UnavailableError(
            f"this machine is a {architecture}; compiled strategies run on x86-64 and aarch64 "
            "(the interpreter runs anywhere: --target oracle)"
        )
    missing = [name for name in needed if not features.get(name)]
    if missing:
        raise UnavailableError(
            f"this CPU lacks {', '.join(missing)}; compiled strategies need x86-64-v3 "
            "(Intel Haswell, AMD Excavator or newer) or an aarch64 CPU with NEON "
            "(the interpreter runs anywhere: --target oracle)"
        )


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
