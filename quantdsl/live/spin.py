"""Looking at a word of memory that another device writes, without the GIL and without a call."""

import numpy as np
import numpy.typing as npt

from quantdsl.codegen.emit import entry_symbol
from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.target import native
from quantdsl.ir.ops import BOOL_T, I64_T, BufferType, Func, Module, ParamDecl

SPIN = Func(
    "spin",
    (
        ParamDecl("words", BufferType(I64_T)),
        ParamDecl("at", I64_T),
        ParamDecl("wanted", I64_T),
        ParamDecl("turns", I64_T),
    ),
    BOOL_T,
    (),
)
TEXT = f"""\
define i64 @{entry_symbol(SPIN.name)}(ptr %words, i64 %at, i64 %wanted, i64 %turns) {{
entry:
  %word = getelementptr i64, ptr %words, i64 %at
  br label %look
look:
  %turn = phi i64 [ 0, %entry ], [ %next, %again ]
  %seen = load atomic i64, ptr %word acquire, align 8
  %there = icmp eq i64 %seen, %wanted
  br i1 %there, label %yes, label %again
again:
  %next = add i64 %turn, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %look, label %no
yes:
  ret i64 1
no:
  ret i64 0
}}
"""


class Spin:
    """Looks at a word so many times; True as soon as it is what is wanted."""

    def __init__(self) -> None:
        target = native()
        module = Module((), (), (SPIN,), (SPIN.name,))
        self._program = Program(assemble(TEXT, target), module, target)

    def __call__(self, words: npt.NDArray[np.int64], at: int, wanted: int, turns: int) -> bool:
        """What another device wrote before that word is seen after a True."""
        return bool(self._program.call(SPIN.name, words, at, wanted, turns))
