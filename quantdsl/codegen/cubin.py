"""PTX assembled to machine code of one GPU architecture, by NVIDIA's linker nvJitLink.

It comes with the extras gpu12 and gpu13 and needs neither a GPU nor a driver. What it says of
registers and memory is read from its log.
"""

import hashlib
import importlib
import re
from typing import Any, NamedTuple

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import cache_key, through_cache
from quantdsl.codegen.ptx import ENTRY, GPU_DEPTH, Bounds, Ptx, load_ptx, target_of
from quantdsl.codegen.rows import kernel_form
from quantdsl.errors import InternalError, UnavailableError
from quantdsl.ir.ops import Module

RELOCATABLE_SINCE = (13, 0)
"""The version of nvJitLink that first makes linkable code of a part alone."""

PROPERTIES = (
    r"ptxas info    : Function properties for {entry}\n"
    r"ptxas .* (\d+) bytes spill stores, (\d+) bytes spill loads"
)
USED = r"{entry}'?:?\n.*used (\d+) registers.* (\d+) stack, (\d+) bytes smem"


class Cubin(NamedTuple):
    """Machine code for one architecture, and what a thread of its kernel takes."""

    code: bytes
    architecture: str
    bounds: Bounds
    registers: int
    stack_bytes: int
    spill_bytes: int
    """Stored and loaded by the kernel itself because registers ran out; 0 is good."""
    shared_bytes: int


def load_cubin(
    module: Module,
    kept: frozenset[str],
    architecture: str,
    cache: Cache | None,
    bounds: Bounds = Bounds(),  # noqa: B008 (a tuple)
    varying: frozenset[str] | None = None,
) -> Cubin:
    """The machine code of a linked module with entries init and lane, its kernel named ENTRY.

    `kept` and `varying` as load_lanes takes them. Raises UnavailableError where
    nvJitLink is not installed or does not know the architecture.
    """
    target = target_of(architecture)

    def compiled() -> bytes:
        ptx = load_ptx(module, kept, target, cache, bounds, varying=varying)
        return msgspec.msgpack.encode(link_ptx(ptx, architecture, cache, bounds))

    form = f"cubin {linker_version()} {bounds} {kernel_form(kept, varying, GPU_DEPTH)}"
    stored = through_cache(cache, cache_key(module, target, form), compiled)
    return msgspec.msgpack.decode(stored, type=Cubin)


def link_ptx(
    ptx: Ptx, architecture: str, cache: Cache | None, bounds: Bounds, entry: str = ENTRY
) -> Cubin:
    """Assemble a kernel and what it shares with others, which the cache may have assembled."""
    linker = _linker()
    options = [f"-arch={architecture}", f"-maxrregcount={bounds.registers}", "-verbose"]
    parts = [(linker.InputType.PTX, ptx.own.encode())]
    if ptx.shared and linker.version() < RELOCATABLE_SINCE:
        parts.append((linker.InputType.PTX, ptx.shared.encode()))
    elif ptx.shared:
        parts.append((linker.InputType.CUBIN, _relocatable(ptx.shared, options, cache)))
    code, log = _link(options, parts)
    used, properties = (re.search(one.format(entry=entry), log) for one in (USED, PROPERTIES))
    if used is None:
        raise InternalError(f"QD9507 codegen: nvJitLink's log has another form:\n{log}")
    registers, stack_bytes, shared_bytes = map(int, used.groups())
    # Versions before 13.5 say nothing of spills where a kernel is linked to nothing else.
    spill_bytes = 0 if properties is None else sum(map(int, properties.groups()))
    return Cubin(code, architecture, bounds, registers, stack_bytes, spill_bytes, shared_bytes)


def assembled(ptx: str, architecture: str) -> bytes:
    """The machine code of a text that is whole by itself."""
    linker = _linker()
    return _link([f"-arch={architecture}"], [(linker.InputType.PTX, ptx.encode())])[0]


def linker_version() -> tuple[int, int]:
    """Of nvJitLink, part of the key of whatever it has made. Raises UnavailableError."""
    major, minor = _linker().version()
    return major, minor


def _relocatable(text: str, options: list[str], cache: Cache | None) -> bytes:
    """The shared part assembled by itself, for others to link."""
    linker = _linker()
    known = f"{linker_version()} {options} {hashlib.sha256(text.encode()).hexdigest()}"
    key = hashlib.sha256(f"relocatable {known}".encode()).hexdigest()
    part = (linker.InputType.PTX, text.encode())
    return through_cache(cache, key, lambda: _link([*options, "-r"], [part])[0])


def _link(options: list[str], parts: list[tuple[Any, bytes]]) -> tuple[bytes, str]:
    """What nvJitLink makes of the parts, and its log."""
    linker = _linker()
    options = [*options, "-no-cache"]  # of what it has in its own cache the log says nothing
    try:
        handle = linker.create(len(options), options)
    except linker.nvJitLinkError as error:
        raise UnavailableError(f"nvJitLink does not take {' '.join(options)}: {error}") from error
    try:
        for kind, data in parts:
            ended = data + b"\0"  # it reads PTX as a C string
            linker.add_data(handle, kind, ended, len(ended), "part")
        linker.complete(handle)
        code = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, code)
        log = bytearray(linker.get_info_log_size(handle))
        linker.get_info_log(handle, log)
    except linker.nvJitLinkError as error:
        log = bytearray(linker.get_error_log_size(handle))
        linker.get_error_log(handle, log)
        raise InternalError(f"QD9508 codegen: nvJitLink: {error}: {_text(log)}") from error
    finally:
        linker.destroy(handle)
    return bytes(code), _text(log)


def _text(log: bytearray) -> str:
    return log.rstrip(b"\0").decode(errors="replace")


def _linker() -> Any:
    """The bindings of nvJitLink."""
    try:
        linker = importlib.import_module("cuda.bindings.nvjitlink")
        linker.version()
    except (ImportError, RuntimeError) as error:
        raise UnavailableError(
            f"code for a GPU is assembled by nvJitLink, which is not here: {error}\n"
            "help: pip install 'quantdsl-engine[gpu13]' (or gpu12 for a driver of CUDA 12)"
        ) from error
    return linker
