"""Two looks at memory in compiled code, without the GIL: at a word that a device writes, and at
the heads of events."""

import numpy as np
import numpy.typing as npt

from quantdsl.codegen.emit import entry_symbol
from quantdsl.codegen.jit import Program, assemble, object_code
from quantdsl.codegen.target import native
from quantdsl.events.codes import MORE, Kind
from quantdsl.events.layout import WORDS
from quantdsl.ir import ops
from quantdsl.ir.ops import BOOL_T, I64_T, BufferType, Func, Module, ParamDecl

HEAD = 2
"""The word of an event that holds its instrument, kind, side and flags."""
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


def _plain() -> Func:
    """Whether `n` events are one instant of bars of one clock, sorted by their instruments."""
    words, at, odd = ops.Var("words"), ops.Var("k"), ops.Var("odd")

    def head(number: ops.Expr) -> ops.Expr:
        first = ops.Binary("imul", number, ops.i64(WORDS))
        return ops.Elem(words, ops.Binary("iadd", first, ops.i64(HEAD)))

    def what(number: ops.Expr) -> ops.Expr:
        return ops.Binary("lshr", head(number), ops.i64(32))

    def instrument(number: ops.Expr) -> ops.Expr:
        return ops.Binary("iand", head(number), ops.i64(0xFFFFFFFF))

    before = ops.Binary("isub", at, ops.i64(1))
    back = ops.Unary("bool_to_i64", ops.Binary("ile", instrument(at), instrument(before)))
    # All but the last say that more follow: they differ from the first in nothing but that.
    last = ops.Binary("ieq", at, ops.Binary("isub", ops.Var("n"), ops.i64(1)))
    more = ops.Select(last, ops.i64(0), ops.i64(MORE << 16))
    wanted = ops.Binary("ior", ops.Var("what"), more)
    differs = ops.Binary("ixor", what(at), wanted)
    told = ops.Binary("ior", odd, ops.Binary("ior", back, differs))
    bar = ops.Binary("iand", what(ops.i64(0)), ops.i64(0xFFFF))
    kind = ops.Binary("iand", bar, ops.i64(0xFF))
    begins = ops.Select(
        ops.Binary("ieq", ops.Var("n"), ops.i64(1)), ops.i64(0), ops.i64(MORE << 16)
    )
    first = ops.Binary(
        "ior",
        ops.Binary("ixor", kind, ops.i64(Kind.BAR)),
        ops.Binary("ixor", what(ops.i64(0)), ops.Binary("ior", bar, begins)),
    )
    body = (
        ops.Let("what", I64_T, bar),
        ops.Let(odd.name, I64_T, first),
        ops.For(at.name, ops.i64(1), ops.Var("n"), (ops.Assign(odd, told),)),
        ops.Return(ops.Binary("ieq", odd, ops.i64(0))),
    )
    return Func(
        "plain", (ParamDecl("words", BufferType(I64_T)), ParamDecl("n", I64_T)), BOOL_T, body
    )


class Plain:
    """Tells whether events are one instant of bars of one clock, sorted by instrument."""

    def __init__(self) -> None:
        func = _plain()
        module = Module((), (), (func,), (func.name,))
        self._program = Program(object_code(module, native()), module, native())

    def __call__(self, words: npt.NDArray[np.int64]) -> bool:
        """For events as words, a row each; there is one at least."""
        return bool(self._program.call("plain", words, len(words)))
