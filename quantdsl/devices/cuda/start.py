"""A start of a kernel as a native call of one argument.

The bindings make the driver's eleven arguments of Python's anew each time, which is a tenth of what
a start takes. Here they are words that lie ready, and some machine code hands them on.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence

from quantdsl.codegen.jit import Native

_TEXT = """\
define i32 @start(ptr %words) {
  %at.kernel = getelementptr i64, ptr %words, i64 1
  %at.grid = getelementptr i64, ptr %words, i64 2
  %at.block = getelementptr i64, ptr %words, i64 3
  %at.shared_bytes = getelementptr i64, ptr %words, i64 4
  %at.stream = getelementptr i64, ptr %words, i64 5
  %at.arguments = getelementptr i64, ptr %words, i64 6
  %call = load ptr, ptr %words
  %kernel = load ptr, ptr %at.kernel
  %grid = load i32, ptr %at.grid
  %block = load i32, ptr %at.block
  %shared_bytes = load i32, ptr %at.shared_bytes
  %stream = load ptr, ptr %at.stream
  %arguments = load ptr, ptr %at.arguments
  %status = call i32 %call(ptr %kernel, i32 %grid, i32 1, i32 1, i32 %block, i32 1, i32 1,
    i32 %shared_bytes, ptr %stream, ptr %arguments, ptr null)
  ret i32 %status
}
"""


def start_of(words: Sequence[int]) -> Callable[[], int]:
    """What starts a kernel once and returns the driver's status; Python's lock is free meanwhile.

    `words` are the address of cuLaunchKernel and what it is told, in the order of _TEXT: all else
    is one, or nothing. What they point to must stay where it is.
    """
    kept = (ctypes.c_int64 * len(words))(*words)
    return functools.partial(_function(), kept)


@functools.cache
def _function() -> Callable[[object], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_code().address("start"))


@functools.cache
def _code() -> Native:
    return Native(_TEXT)
