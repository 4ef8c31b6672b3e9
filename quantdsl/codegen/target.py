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

FLOAT_INTRINSICS = frozenset(
    {
        "llvm.ceil.f64",
        "llvm.fabs.f64",
        "llvm.floor.f64",
        "llvm.fma.f32",
        "llvm.fma.f64",
        "llvm.roundeven.f64",
        "llvm.sqrt.f64",
        "llvm.trunc.f64",
    }
)
"""Each is one instruction on every target below. LLVM ends the process over an intrinsic that a
target cannot lower, so the emitter uses no other, and a test compiles each by itself."""

X86_64_V4 = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")


def lane_intrinsics(lanes: int) -> frozenset[str]:
    """What code for so many lanes may use besides: each is inline code on every target below."""
    vectors = (vector_form(name, lanes) for name in FLOAT_INTRINSICS)
    return frozenset({*vectors, gather(lanes), scatter(lanes), TRAILING_ZEROS, PREFETCH})


def vector_form(name: str, lanes: int) -> str:
    """The intrinsic that does to `lanes` floats what this one does to one."""
    base, _, kind = name.rpartition(".")
    return f"{base}.v{lanes}{kind}"


def gather(lanes: int) -> str:
    """The intrinsic that loads a word from each of `lanes` addresses."""
    return f"llvm.masked.gather.v{lanes}i64.v{lanes}p0"


def scatter(lanes: int) -> str:
    """The intrinsic that stores a word to each of `lanes` addresses."""
    return f"llvm.masked.scatter.v{lanes}i64.v{lanes}p0"


def masked_load(lanes: int) -> str:
    """The intrinsic that loads `lanes` neighbouring words, those of a mask."""
    return f"llvm.masked.load.v{lanes}i64.p0"


WIDE = 4
"""Words of a wide register of one lane's code: those that x86-64-v3 has."""
TRAILING_ZEROS = "llvm.cttz.i64"
PREFETCH = "llvm.prefetch.p0"
ONE_LANE = FLOAT_INTRINSICS | {TRAILING_ZEROS}
"""What code for one lane of a CPU may use."""
ONE_WIDE = ONE_LANE | {masked_load(WIDE)} | {
    vector_form(name, WIDE) for name in FLOAT_INTRINSICS
}
"""The same where it has wide registers."""


class Target(msgspec.Struct, frozen=True):
    """A machine to compile for; equal values make equal code."""

    triple: str
    cpu: str
    features: str
    """As LLVM takes them: `+avx2,-avx512f`, sorted."""
    lanes: int = 1
    """Parameter points that one instruction carries."""
    intrinsics: frozenset[str] = FLOAT_INTRINSICS
    stack: int | None = None
    """The address space of stack memory where it is not that of all memory."""
    constants: int | None = None
    """The address space of memory for constants, where there is one."""
    converts: bool = True
    """Whether one instruction converts a vector of i64 to f64 or back."""

    few: int = 0
    """So many active lanes are still called one by one; `lanes`: they always are. Without registers
    for masks blends cost as much as a lane or two: then only all lanes are called at once."""

    def machine(self, level: int = 1) -> llvm.TargetMachine:
        """A new target machine; no two threads may use one at a time.

        At `level` 0 it makes code as it comes, from 1 on as good as it can in a short time.
        """
        _initialize()
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=2 if level else 0,
            reloc="default",
            codemodel="jitdefault",
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
        return Target(triple, "x86-64-v3", "", intrinsics=ONE_WIDE, converts=False)
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return Target(triple, llvm.get_host_cpu_name(), text, intrinsics=ONE_LANE)


def avx512() -> Target:
    """Eight lanes in the 512-bit registers of x86-64-v4."""
    return _x86("x86-64-v4", 8, few=1, converts=True)


def avx2() -> Target:
    """Four lanes in the 256-bit registers of x86-64-v3."""
    return _x86("x86-64-v3", 4, few=3, converts=False)


REGISTERS = 4
"""Of a value in a broad group of lanes."""


def broad(target: Target) -> Target:
    """So many lanes as REGISTERS registers of a target hold: they share what is the same."""
    lanes = REGISTERS * target.lanes
    intrinsics = FLOAT_INTRINSICS | lane_intrinsics(lanes)
    return msgspec.structs.replace(target, lanes=lanes, intrinsics=intrinsics)


def neon(triple: str = "aarch64-unknown-linux-gnu", cpu: str = "generic") -> Target:
    """Two lanes in the 128-bit registers of aarch64."""
    intrinsics = FLOAT_INTRINSICS | lane_intrinsics(2)
    return Target(triple, cpu, "+neon", lanes=2, intrinsics=intrinsics, few=1)


def _x86(cpu: str, lanes: int, *, few: int, converts: bool) -> Target:
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64"):
        triple = "x86_64-unknown-linux-gnu"
    intrinsics = FLOAT_INTRINSICS | lane_intrinsics(lanes)
    return Target(triple, cpu, "", lanes, intrinsics, converts=converts, few=few)


@functools.cache
def native_lanes() -> Target:
    """The machine at hand with the widest vectors it has, a lane in each element of one."""
    one, features = native(), llvm.get_host_cpu_features()
    if not one.triple.startswith("x86_64"):
        return neon(one.triple, one.cpu)
    return avx512() if all(features.get(name) for name in X86_64_V4) else avx2()


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
    # It is for GPUs alone, which add in no order that costs more than another.
    llvm.set_option("", "-opt-disable=nary-reassociate")
