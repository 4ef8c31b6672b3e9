"""A start of a kernel as a native call of one argument.

The bindings make the driver's eleven arguments of Python's anew each time, which is a tenth of what
a start takes. Here they are words that lie ready, and some machine code hands them on.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence

from quantdsl.codegen.jit import Native

WORDS = ("call", "kernel", "grid", "block", "shared_bytes", "stream", "arguments")
"""Of a start: the address of cuLaunchKernel, and what it is told; all else is one, or nothing."""
_TEXT = "\n".join([
    "define i32 @start(ptr %words) {",
    *(
        f"%at.{name} = getelementptr i64, ptr %words, i64 {number}\n"
        f"%{name} = load {'i64' if name in ('grid', 'block', 'shared_bytes') else 'ptr'}, "
        f"ptr %at.{name}"
        for number, name in enumerate(WORDS)
    ),
    *(f"%i.{name} = trunc i64 %{name} to i32" for name in ("grid", "block", "shared_bytes")),
    "%status = call i32 %call(ptr %kernel, i32 %i.grid, i32 1, i32 1, i32 %i.block, i32 1, i32 1,",
    "  i32 %i.shared_bytes, ptr %stream, ptr %arguments, ptr null)",
    "ret i32 %status",
    "}",
])  # fmt: skip


def start_of(words: Sequence[int]) -> Callable[[], int]:
    """What starts a kernel once and returns the driver's status; Python's lock is free meanwhile.

    `words` are WORDS, and what they point to must stay where it is.
    """
    kept = (ctypes.c_int64 * len(WORDS))(*words)
    return functools.partial(_function(), kept)


@functools.cache
def _function() -> Callable[[object], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_code().address("start"))


@functools.cache
def _code() -> Native:
    return Native(_TEXT)
