"""The kernel for NVIDIA GPUs as PTX, made by LLVM; no GPU, driver or toolkit is needed.

One thread runs one lane, with its State in the thread's own memory, which the hardware keeps
interleaved, or in shared memory where lanes go along columns of their own. What all lanes read
alike (events, columns, template) goes through the read-only cache or through shared memory. Nothing
is contracted, so the bits are those of every other target.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import cache_key, through_cache
from quantdsl.codegen.emit import COMMON, emit
from quantdsl.codegen.function import Shared, Signature
from quantdsl.codegen.jit import SPEED_LEVEL, numbered, optimised, plain, straight_assembly
from quantdsl.codegen.lanes import KERNEL
from quantdsl.codegen.primitives import (
    COPIES_AT_ONCE,
    COPIES_BESIDE,
    COPIES_IN_BULK,
    on_ptx,
)
from quantdsl.codegen.rows import SPLITS_MAX, kernel_form, kernel_part, split_lanes
from quantdsl.codegen.short import SHORT_BODIES
from quantdsl.codegen.target import Target
from quantdsl.codegen.text import entry_symbol
from quantdsl.codegen.units import split
from quantdsl.codegen.warps import Tiling, shared_words, warp_text
from quantdsl.errors import UnavailableError
from quantdsl.ir.link import reached
from quantdsl.ir.ops import Module
from quantdsl.ir.threads import WARP
from quantdsl.passes.at_once import SECTOR_WORDS, read_at_once
from quantdsl.passes.divide_counts import divide_counts
from quantdsl.passes.early import SOON
from quantdsl.passes.held import hold_quotients
from quantdsl.passes.hot import with_hot
from quantdsl.passes.inline import with_callees
from quantdsl.passes.meet import MEET, meet_to_write
from quantdsl.passes.messages import pass_messages
from quantdsl.passes.once import unroll_once
from quantdsl.passes.outline import ROOMY_NODES, inline_cold
from quantdsl.passes.usual import HOLD, IDLE, SLOW, USUAL, run_usual

ENTRY = entry_symbol(KERNEL.name)

PTX_OF_ARCHITECTURE = {
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_89": 78,
    "sm_90": 78,
    "sm_100": 86,
    "sm_103": 88,
    "sm_110": 90,
    "sm_120": 87,
    "sm_121": 88,
}
"""The PTX version, times ten, that first knows an architecture."""

WITHOUT_COPIES = "sm_75"
"""The one whose copies to shared memory go through registers."""

IN_BULK = 90
"""The number of the first that copies whole spans there by itself."""

PTX_LEAST = 80
"""Versions below are of no use: a driver that is older runs none of our launches either."""

PTX_OF_CUDA = {
    (12, 0): 80,
    (12, 1): 81,
    (12, 2): 82,
    (12, 3): 83,
    (12, 4): 84,
    (12, 5): 85,
    (12, 7): 86,
    (12, 8): 87,
    (12, 9): 88,
    (13, 0): 90,
}
"""The PTX version that the driver of a CUDA version reads, from that version on."""

OUTSIDE = """\
attributes #2 = {{ nounwind "no-builtins" "nvvm.maxntid"="{threads}" "nvvm.minctasm"="{blocks}" }}\
"""


GPU_DEPTH: int | None = None
"""Words used only so deep in branches stay in memory; None: all are held in registers."""


class Bounds(NamedTuple):
    """What a launch keeps to, so that the compiler knows how many registers a thread may use."""

    threads: int = 128
    """Of a block, at most: its warps share one tile, which leaves more of the cache for States."""
    blocks: int = 4
    """On a multiprocessor at a time, at least."""
    rows: int = 32
    laps: int = 1
    whole: bool = False
    """As Tiling has them."""

    @property
    def tiling(self) -> Tiling:
        """How rows pass through shared memory."""
        return Tiling(self.rows, self.laps, self.whole)

    @property
    def registers(self) -> int:
        """The most that a thread may use; they are handed out eight at a time."""
        return min(REGISTERS_OF_A_THREAD, REGISTERS // (self.threads * self.blocks) // 8 * 8)


REGISTERS = 65_536
"""Of a multiprocessor, on every architecture in the table."""
REGISTERS_OF_A_THREAD = 255


class Ptx(NamedTuple):
    """A kernel as PTX; `shared` is the text of the cold functions that it imports, or empty."""

    own: str
    shared: str


CONSTANT_SPACE = 4
"""Where NVPTX has its constant memory."""


def target_of(architecture: str, cuda: tuple[int, int] | None = None) -> Target:
    """The target for an architecture such as `sm_90` with the lowest PTX version that serves.

    `cuda` is the version that the driver says it has. Raises UnavailableError for an unknown
    architecture or a driver that cannot read its PTX.
    """
    if architecture not in PTX_OF_ARCHITECTURE:
        raise UnavailableError(
            f"there is no architecture '{architecture}'\n"
            f"help: one of {', '.join(PTX_OF_ARCHITECTURE)}"
        )
    needed = max(PTX_LEAST, PTX_OF_ARCHITECTURE[architecture])
    if cuda is not None and needed > ptx_of_driver(cuda):
        wanted = next(version for version, ptx in PTX_OF_CUDA.items() if ptx >= needed)
        raise UnavailableError(
            f"this driver has CUDA {cuda[0]}.{cuda[1]}, but {architecture} needs "
            f"{wanted[0]}.{wanted[1]}\nhelp: install a newer driver"
        )
    features = f"+ptx{needed}"
    return Target("nvptx64-nvidia-cuda", architecture, features, constants=CONSTANT_SPACE)


def ptx_of_driver(cuda: tuple[int, int]) -> int:
    """The newest PTX version, times ten, that a driver reads; 0 below CUDA 12."""
    return max((ptx for version, ptx in PTX_OF_CUDA.items() if version <= cuda), default=0)


def architecture_of(capability: tuple[int, int]) -> str:
    """The newest known architecture whose code runs on a GPU of this compute capability."""
    major, minor = capability
    known = {name: divmod(int(name[3:]), 10) for name in PTX_OF_ARCHITECTURE}
    fits = [name for name, (own, lower) in known.items() if own == major and lower <= minor]
    if not fits:
        raise UnavailableError(
            f"a GPU of compute capability {major}.{minor} is not supported\n"
            f"help: it takes {', '.join(PTX_OF_ARCHITECTURE)}"
        )
    return fits[-1]


def ptx_text(module: Module, target: Target, bounds: Bounds, level: int = SPEED_LEVEL) -> str:
    """The PTX of a module after all passes: its kernel if it has entries, else its exports."""
    outside = functools.partial(thread_kernel, bounds, target) if module.entries else _primitives
    text = emit(module, target, outside, bodies={MEET: _meet, SOON: _soon, **SHORT_BODIES})
    if any(func.name == MEET for func in module.funcs):
        # No function may be called by some lanes of a warp first and by others later.
        text = text.replace(COMMON, COMMON.replace("nosync", "convergent"))
    if any(func.name == SLOW for func in module.funcs):
        # Turns are loops as they should be: what LLVM moves out of them only takes registers.
        # The assembler finds what is computed twice as well, but for a lane that has whole rows.
        simplify = numbered if bounds.whole else plain
        return straight_assembly(*optimised(text, target, level, simplify))
    parsed, machine = optimised(text, target, level)
    return str(machine.emit_assembly(parsed))


def _meet(_: Shared, signature: Signature) -> str:
    """The lanes of a warp wait for each other."""
    head = f"define internal void @{signature.symbol}() alwaysinline convergent"
    return f"{head} {{\n  call void @quantdsl.warp_barrier()\n  ret void\n}}"


def _soon(_: Shared, signature: Signature) -> str:
    """A word of memory goes to the cache that all multiprocessors share.

    It claims to change memory: so the load before it stays there, a tile ahead of its use, where
    LLVM would move it to the end of the tile.
    """
    head = f"define internal void @{signature.symbol}(ptr %words, i64 %at) alwaysinline"
    return f"""\
{head} {{
  %word = getelementptr i64, ptr %words, i64 %at
  %there = addrspacecast ptr %word to ptr addrspace(1)
  call void asm sideeffect "prefetch.global.L2 [$0];", "l,~{{memory}}"(ptr addrspace(1) %there)
  ret void
}}"""


def gpu_part(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str] | None,
    bounds: Bounds = Bounds(),  # noqa: B008 (a tuple)
) -> Module:
    """What a GPU runs of a linked module: lanes with a loop of usual turns that makes no call.

    Those whose turns end early look at the events of a message in groups. Where a thread has all
    registers that there are, other turns make fewer calls and wait for memory less often.
    """
    return _gpu_part(module, kept, varying, bounds.registers == REGISTERS_OF_A_THREAD)


@functools.lru_cache(SPLITS_MAX)
def _gpu_part(
    module: Module, kept: frozenset[str], varying: frozenset[str] | None, roomy: bool, /
) -> Module:
    """Made once for a kernel and for the tiles that it reads; all bounds but registers share it."""
    lanes = kernel_part(split_lanes(module, kept, varying, GPU_DEPTH, varying is not None))
    if varying is not None:
        lanes = meet_to_write(lanes, "lane", varying)
    usual = run_usual(lanes, "lane", kept)
    if usual is not lanes:
        alone = reached(usual, tuple(name for name in usual.entries if name != "lane"))
        turns = _turns(alone, roomy=roomy)
        return divide_counts(unroll_once(turns))
    apart = pass_messages(lanes, "lane")
    return divide_counts(lanes if apart is lanes else inline_cold(apart))


def _turns(module: Module, *, roomy: bool) -> Module:
    """A module of turns with the calls that they keep; `roomy`: with all registers there are."""
    every = 1 if roomy else SECTOR_WORDS
    funcs = (read_at_once(func, every) if func.name == SLOW else func for func in module.funcs)
    module = msgspec.structs.replace(module, funcs=tuple(funcs))
    if not roomy:
        return inline_cold(module, called={IDLE})
    turns = with_callees(module, SLOW)
    if turns is not None:
        whole = tuple(turns if func.name == SLOW else func for func in module.funcs)
        module = msgspec.structs.replace(module, funcs=whole)
        names = (SLOW, USUAL, IDLE)
        module = with_hot(hold_quotients(module, names, HOLD), names)
    return inline_cold(module, ROOMY_NODES)


def load_ptx(
    module: Module,
    kept: frozenset[str],
    target: Target,
    cache: Cache | None,
    bounds: Bounds,
    level: int = SPEED_LEVEL,
    varying: frozenset[str] | None = None,
) -> Ptx:
    """The PTX of a linked module with entries init and lane, from the cache if it is there.

    `kept` and `varying` as load_lanes takes them.
    """

    def compiled() -> bytes:
        own, shared = split(gpu_part(module, kept, varying, bounds))
        cold = "" if shared is None else _shared_text(shared, target, cache, level)
        return msgspec.msgpack.encode(Ptx(ptx_text(own, target, bounds, level), cold))

    form = f"ptx {bounds} {level} {kernel_form(kept, varying, GPU_DEPTH)}"
    stored = through_cache(cache, cache_key(module, target, form), compiled)
    return msgspec.msgpack.decode(stored, type=Ptx)


def _shared_text(module: Module, target: Target, cache: Cache | None, level: int) -> str:
    """The text of a shared part: most strategies find that another has made it."""
    key = cache_key(module, target, f"ptx {level}")
    make = functools.partial(ptx_text, module, target, Bounds(), level)
    return through_cache(cache, key, lambda: make().encode()).decode()


def _primitives(module: Module, _: Shared) -> Iterator[str]:
    if any(func.name == MEET for func in module.funcs):
        yield on_ptx(0)


def _copies(bounds: Bounds, target: Target) -> str:
    if target.cpu == WITHOUT_COPIES:
        return COPIES_AT_ONCE
    return COPIES_IN_BULK if bounds.whole and in_bulk(target.cpu) else COPIES_BESIDE


def in_bulk(architecture: str) -> bool:
    """Whether a GPU copies whole spans to shared memory by itself."""
    return int(architecture.removeprefix("sm_")) >= IN_BULK


def thread_kernel(bounds: Bounds, target: Target, module: Module, shared: Shared) -> Iterator[str]:
    """The kernel as each thread of a GPU runs it, on one lane."""
    yield warp_text("ptx_kernel ", module, shared, bounds.tiling, WARP)
    yield on_ptx(shared_words(module, bounds.tiling))
    yield _copies(bounds, target)
    yield OUTSIDE.format(threads=bounds.threads, blocks=bounds.blocks)
