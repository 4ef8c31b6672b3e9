"""The kernel for GPUs that we do not run on: AMD's machine code, and SPIR-V.

Both are made by LLVM to the end and checked, so that the same IR is known to fit them; neither is
run by this product.
"""

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from quantdsl.codegen.decompose import decompose
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.lanes import thread_text
from quantdsl.codegen.target import Target
from quantdsl.errors import UnavailableError
from quantdsl.ir.ops import Module

AMD_ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
AMD_STACK = 5
AMD_FRAME_BYTES, AMD_SPILL_BYTES = 131_056, 16_384
"""What LLVM lets a function have on its stack, and how much of it registers may need."""
AMD_NOTE = b"AMDGPU\0\0"
AMD_USED = "vgpr_count", "private_segment_fixed_size", "group_segment_fixed_size"
THREADS = 128
"""Of a block; fixed, since an AMD kernel is not told."""

AMD_NUMBER = f"""\
  %thread.32 = call i32 @llvm.amdgcn.workitem.id.x()
  %block.32 = call i32 @llvm.amdgcn.workgroup.id.x()
  %thread = zext i32 %thread.32 to i64
  %block = zext i32 %block.32 to i64
  %first = mul i64 %block, {THREADS}
  %number = add i64 %first, %thread\
"""
AMD_OUTSIDE = f"""\
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
attributes #2 = {{ nounwind "no-builtins" "amdgpu-flat-work-group-size"="{THREADS},{THREADS}" }}\
"""

SPIRV_ARCHITECTURE = "spirv64"
SPIRV_STACK, GLOBAL, GENERIC = 0, 1, 4
SPIRV_LACKS = frozenset({"umulh"})
SPIRV_INTEGERS = frozenset({"1", "8", "16", "32", "64"})
SPIRV_TRIES = 8
"""What LLVM has made before in this process may still upset the names of blocks, now and then;
what passes the check is equal to the byte."""
SPIRV_MAGIC, HEADER_WORDS, CAPABILITY, LABEL = 0x07230203, 5, 17, 248
SPIRV_CAPABILITIES = {
    4: "Addresses", 5: "Linkage", 6: "Kernel", 9: "Float16", 10: "Float64", 11: "Int64",
    12: "Int64Atomics", 22: "Int16", 38: "GenericPointer", 39: "Int8",
}  # fmt: skip
"""The names of SPIR-V's numbers, of those that LLVM may ask for."""

SPIRV_NUMBER = "  %number = call spir_func i64 @_Z13get_global_idj(i32 0)"
SPIRV_OUTSIDE = """\
declare spir_func i64 @_Z13get_global_idj(i32)
attributes #2 = { nounwind "no-builtins" }\
"""


def amd_code(module: Module, architecture: str, level: int) -> bytes:
    """A module after all passes as an object file for an AMD GPU.

    Raises UnavailableError where a function keeps more than a thread of one has room for.
    """
    target = Target("amdgcn-amd-amdhsa", architecture, "", stack=AMD_STACK)
    parsed, machine = optimised(emit(module, target, _amd), target, level)
    most = max(_kept_bytes(str(function)) for function in parsed.functions)
    if most > AMD_FRAME_BYTES - AMD_SPILL_BYTES:  # LLVM would end the process
        raise UnavailableError(
            f"amdgcn: not supported, because a lane of this kernel keeps {most:,} bytes, and a "
            f"thread of an AMD GPU has {AMD_FRAME_BYTES:,}, spilled registers among them\n"
            "help: shorter windows, or another backend: llvm, object, asm, ptx, cubin, spirv"
        )
    code: bytes = machine.emit_object(parsed)
    return code


def amd_used(code: bytes) -> list[int]:
    """Vector registers, bytes of stack and bytes shared of the kernel in an object file, as LLVM
    notes them there for who loads it."""
    at = code.index(AMD_NOTE)
    size = int.from_bytes(code[at - 8 : at - 4], "little")
    at += len(AMD_NOTE)
    (kernel,) = msgspec.msgpack.decode(code[at : at + size])["amdhsa.kernels"]
    return [kernel[f".{name}"] for name in AMD_USED]


def _kept_bytes(function: str) -> int:
    """What a function in LLVM's text has on its stack: words, and arrays of them."""
    return sum(8 * int(words or 1) for words in re.findall(r" alloca (?:\[(\d+) x )?", function))


def spirv_code(module: Module, level: int) -> bytes:
    """A module after all passes as a SPIR-V binary for OpenCL.

    Raises UnavailableError where LLVM does not make a valid one of this module.
    """
    target = Target("spirv64-unknown-unknown", "", "", stack=SPIRV_STACK)
    text = emit(decompose(_one_function(module), SPIRV_LACKS), target, _spirv)
    tried = []  # kept, so that the blocks of the next try lie elsewhere
    for _ in range(SPIRV_TRIES):
        parsed, machine = optimised(_generic(text), target, level)
        tried.append(parsed)
        widths = set(re.findall(r"(?<![%\w.])i(\d+)\b", str(parsed)))
        if wide := widths - SPIRV_INTEGERS:  # LLVM would end the process over one
            raise UnavailableError(
                f"not supported, because LLVM makes {max(wide, key=int)}-bit integers at this "
                "level, which SPIR-V lacks\nhelp: --opt 1"
            )
        code: bytes = machine.emit_object(parsed)
        flaw = spirv_flaw(code)
        if flaw is None:
            return code
    raise UnavailableError(f"not supported, because LLVM's SPIR-V of this file {flaw}")


def _one_function(module: Module) -> Module:
    """All in the kernel: of several functions LLVM 22 now and then gives two blocks one name, as it
    knows blocks by their address, which a block of an earlier function may have had.
    """
    funcs = (msgspec.structs.replace(func, inline=True) for func in module.funcs)
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def spirv_flaw(code: bytes) -> str | None:
    """What is wrong with a binary: its frame, or a block whose name another has."""
    words = _words(code)
    if len(code) % 4 or len(words) < HEADER_WORDS or words[0] != SPIRV_MAGIC:
        return "is no SPIR-V"
    at, bound, labels = HEADER_WORDS, words[3], set[int]()
    while at < len(words):
        length, operation = words[at] >> 16, words[at] & 0xFFFF
        if not 0 < length <= len(words) - at:
            return "breaks off"
        if operation == LABEL:
            if words[at + 1] in labels or words[at + 1] >= bound:
                return f"names two blocks {words[at + 1]}"
            labels.add(words[at + 1])
        at += length
    return None


def spirv_capabilities(code: bytes) -> tuple[str, ...]:
    """What a machine must be capable of, as a binary without a flaw declares first of all."""
    words, at, found = _words(code), HEADER_WORDS, list[int]()
    while at < len(words) and words[at] & 0xFFFF == CAPABILITY:
        found.append(words[at + 1])
        at += words[at] >> 16
    return tuple(SPIRV_CAPABILITIES.get(one, f"capability {one}") for one in sorted(found))


def _words(code: bytes) -> list[int]:
    words: list[int] = np.frombuffer(code[: len(code) // 4 * 4], "<u4").tolist()
    return words


def _amd(_: Module, shared: Shared) -> Iterator[str]:
    yield thread_text("amdgpu_kernel", AMD_NUMBER, shared, AMD_STACK)
    yield AMD_OUTSIDE


def _spirv(_: Module, shared: Shared) -> Iterator[str]:
    """A kernel's buffers lie in global memory; all else sees them through plain pointers."""
    kernel = thread_text("spir_kernel", SPIRV_NUMBER, shared, SPIRV_STACK)
    head, body = kernel.split("\nentry:\n", 1)
    buffers = re.findall(r"ptr noalias (?:readonly )?%(\w+)", head)
    head = re.sub(r"ptr (noalias [^%]*)%(\w+)", rf"ptr addrspace({GLOBAL}) \1%\2.own", head)
    yield f"{head}\nentry:"
    yield from (
        f"  %{name} = addrspacecast ptr addrspace({GLOBAL}) %{name}.own to ptr" for name in buffers
    )
    yield body
    yield SPIRV_OUTSIDE


def _generic(text: str) -> str:
    """SPIR-V gives each kind of memory an address space; a plain pointer is the generic one."""
    text = re.sub(r"\bptr\b(?! addrspace)", f"ptr addrspace({GENERIC})", text)
    constant = "= internal unnamed_addr"
    text = text.replace(f"{constant} constant", f"{constant} addrspace({GLOBAL}) constant")
    cast = f"addrspacecast (ptr addrspace({GLOBAL}) \\1 to ptr addrspace({GENERIC}))"
    return re.sub(rf"(?<=ptr addrspace\({GENERIC}\) )(@c\d+)", cast, text)
