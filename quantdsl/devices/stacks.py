"""Stacks of their own for the threads of a simulated kernel: each is left where it waits.

A thread of the process that stood for each would cost a switch of the operating system wherever it
waits, and most of the time of a kernel. Here a call of a primitive (codegen/primitives.py) writes
down what it asks for and changes over to the stack of whoever resumed it; so Python runs on its own
stack always, and one of these threads at a time. The state of a thread lies at the begin of its
stack's memory, whose size is a power of two: what runs there finds it by its own place.
"""

import ctypes
import functools
import mmap
import platform
from collections.abc import Sequence
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np

from quantdsl.codegen.jit import Native
from quantdsl.errors import UnavailableError

STACK_BYTES = 2 << 20
"""Memory of a thread; one of a GPU has half a megabyte for what is its own."""
GUARD_BYTES = 64 << 10
"""Between the state and the stack nothing can be touched; whole pages of any machine."""
WORDS = STACK_BYTES // 8
SELF, HOST, ASKED, ANSWER, FUNCTION, ARGUMENTS, OWN = range(7)
"""Words of the state: where this stack stands and that of who resumed it, the number of the
primitive that is asked for, its answer, what is run and the address of its words; from OWN on those
that primitives read without asking."""
GIVEN = 16
"""From here on, the arguments of the primitive."""
DONE = 0
"""Asked for by a thread that has come to its end."""


class Primitive(NamedTuple):
    """What a kernel may call: its types in LLVM's words."""

    name: str
    result: str
    params: tuple[str, ...]
    own: int | None = None
    """The number of a word of the state that is its answer, without a wait."""


class _Machine(NamedTuple):
    """How a processor leaves one stack and goes on with another, by the rules of its calls."""

    switch: str
    """Keeps what a callee must keep, the place of the stack at the first address; then the second
    is the place of the stack, and all is as it was there."""
    begin: str
    """Calls the function of the second register kept, with what the first one holds."""
    frame_words: int
    """Of a stack that was left, and those that stay free above, so that calls are aligned."""
    first: int
    second: int
    after: int
    """Words of such a frame: two registers kept, and where to go on."""


_MACHINES = {
    "x86_64": _Machine(
        "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15; "
        "movq %rsp, (%rdi); movq %rsi, %rsp; "
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; retq",
        "movq %rbx, %rdi; callq *%r12; ud2",
        9, 4, 3, 6,
    ),
    "aarch64": _Machine(
        "sub sp, sp, #160; stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; "
        "stp x25, x26, [sp, #48]; stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; "
        "stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; "
        "stp d14, d15, [sp, #144]; mov x9, sp; str x9, [x0]; mov sp, x1; "
        "ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; "
        "ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]; "
        "ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; "
        "ldp d14, d15, [sp, #144]; add sp, sp, #160; ret",
        "mov x0, x19; blr x20; brk #0",
        20, 0, 1, 11,
    ),
}  # fmt: skip
_WORD = """\
define internal ptr @word(ptr %state, i64 %number) alwaysinline {
  %at = getelementptr i64, ptr %state, i64 %number
  ret ptr %at
}
"""
_ASK = "quantdsl.ask"
_LINE = "\\0A"
"""Between instructions: what else parts them differs between assemblers."""
_NAMES = {"arm64": "aarch64", "amd64": "x86_64"}


def machine() -> str:
    """The processor, by the name that it has here."""
    name = platform.machine().lower()
    return _NAMES.get(name, name)


def text_of(processor: str, primitives: Sequence[Primitive]) -> str:
    """The primitives as LLVM IR, number 1 the first, and what changes between stacks."""
    switch, begin = (
        f'call void asm sideeffect "{text.replace("; ", _LINE)}", "~{{memory}}"()\n  unreachable'
        for text in (_MACHINES[processor].switch, _MACHINES[processor].begin)
    )
    parts = [
        f"""\
define void @switch(ptr %from, ptr %to) naked noinline nounwind {{
  {switch}
}}
define void @begin() naked noinline nounwind {{
  {begin}
}}
define internal ptr @state() {{
  %here = alloca i8
  %at = ptrtoint ptr %here to i64
  %first = and i64 %at, -{STACK_BYTES}
  %state = inttoptr i64 %first to ptr
  ret ptr %state
}}
define void @ask(ptr %state, i64 %what) {{
  %asked = call ptr @word(ptr %state, i64 {ASKED})
  store i64 %what, ptr %asked
  %at = call ptr @word(ptr %state, i64 {HOST})
  %host = load ptr, ptr %at
  call void @switch(ptr %state, ptr %host)
  ret void
}}
define i64 @resume(ptr %state) {{
  %host = call ptr @word(ptr %state, i64 {HOST})
  %to = load ptr, ptr %state
  call void @switch(ptr %host, ptr %to)
  %asked = call ptr @word(ptr %state, i64 {ASKED})
  %what = load i64, ptr %asked
  ret i64 %what
}}
"""
    ]
    parts += [_primitive(number, one) for number, one in enumerate(primitives, 1)]
    return _WORD + "".join(parts)


def _primitive(number: int, one: Primitive) -> str:
    """It asks and waits for the answer, or has it."""
    params = ", ".join(f"{type_} %a{n}" for n, type_ in enumerate(one.params))
    lines = [f'define {one.result} @"quantdsl.{one.name}"({params}) {{']
    lines.append("  %state = call ptr @state()")
    for n, type_ in enumerate(one.params):
        word = f"%a{n}"
        if type_ != "i64":
            lines.append(f"  %w{n} = sext {type_} %a{n} to i64")
            word = f"%w{n}"
        lines.append(f"  %p{n} = call ptr @word(ptr %state, i64 {GIVEN + n})")
        lines.append(f"  store i64 {word}, ptr %p{n}")
    if one.own is None:
        lines.append(f"  call void @ask(ptr %state, i64 {number})")
    if one.result == "void":
        lines.append("  ret void")
    else:
        answer = ANSWER if one.own is None else OWN + one.own
        lines.append(f"  %at = call ptr @word(ptr %state, i64 {answer})")
        lines.append(f"  %answer = load {one.result}, ptr %at")
        lines.append(f"  ret {one.result} %answer")
    return "\n".join([*lines, "}\n"])


def _entry(count: int) -> str:
    """Where a stack begins: a function with so many words, and then the end."""
    lines = [f'declare void @"{_ASK}"(ptr, i64)', "define void @entry(ptr %state) {"]
    for name, number in (("function", FUNCTION), ("words", ARGUMENTS)):
        lines.append(f"  %{name}.at = call ptr @word(ptr %state, i64 {number})")
        lines.append(f"  %{name} = load ptr, ptr %{name}.at")
    for n in range(count):
        lines.append(f"  %p{n} = call ptr @word(ptr %words, i64 {n})")
        lines.append(f"  %a{n} = load i64, ptr %p{n}")
    given = ", ".join(f"i64 %a{n}" for n in range(count))
    lines.append(f"  call void %function({given})")
    lines.append(f'  call void @"{_ASK}"(ptr %state, i64 {DONE})')
    return _WORD + "\n".join([*lines, "  unreachable", "}\n"])


@functools.cache
def installed(primitives: tuple[Primitive, ...]) -> Native:
    """The primitives, known to compiled code. UnavailableError on another processor."""
    if machine() not in _MACHINES:
        raise UnavailableError(
            f"the simulated device runs on {' and '.join(_MACHINES)}, and this is {machine()}"
        )
    llvm.initialize_native_asmparser()
    code = Native(text_of(machine(), primitives))
    for one in primitives:
        llvm.add_symbol(f"quantdsl.{one.name}", code.address(f"quantdsl.{one.name}"))
    llvm.add_symbol(_ASK, code.address("ask"))
    return code


@functools.cache
def entry(count: int) -> Native:
    """Where the stacks of functions with so many words begin."""
    return Native(_entry(count))


class Stacks:
    """Memory of so many threads, for one function with these words after another."""

    def __init__(self, code: Native, many: int, function: int, arguments: Sequence[int]) -> None:
        self._given = np.array(arguments, np.int64)
        self._start = function, self._given.ctypes.data
        self._entry, self._begin = entry(len(arguments)).address("entry"), code.address("begin")
        self._resume = _RESUME(code.address("resume"))
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        memory = mmap.mmap(-1, (many + 1) * STACK_BYTES, flags=flags)
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._first = -(-at // STACK_BYTES) * STACK_BYTES
        self.words = memoryview(memory).cast("q")[(self._first - at) // 8 :]
        """Of all threads: the state of each begins at WORDS times its number."""
        for number in range(many):
            guard = self._first + number * STACK_BYTES + GUARD_BYTES
            _PROTECT(guard, GUARD_BYTES, NO_ACCESS)

    def begin(self, number: int, own: Sequence[int]) -> None:
        """Put a thread at the begin of the function; `own` are the words from OWN on."""
        words, state, machine_ = self.words, number * WORDS, _MACHINES[machine()]
        frame = state + WORDS - machine_.frame_words
        words[frame + machine_.first] = self._first + 8 * state
        words[frame + machine_.second] = self._entry
        words[frame + machine_.after] = self._begin
        words[state + SELF] = self._first + 8 * frame
        words[state + FUNCTION], words[state + ARGUMENTS] = self._start
        for at, word in enumerate(own, state + OWN):
            words[at] = word

    def resume(self, number: int) -> int:
        """Let a thread go on until it asks for a primitive, whose number this is, or DONE."""
        asked: int = self._resume(self._first + number * STACK_BYTES)
        return asked


_RESUME = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_PROTECT = ctypes.CDLL(None).mprotect
_PROTECT.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
NO_ACCESS = 0
