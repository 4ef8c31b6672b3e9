"""The loop over rows of vector code where most rows go by in strides.

Strides come one after the other until one lane is stopped (passes/row_strides.py). Then all lanes
make the turns of that stride as the loop has them, and go on in strides.
"""

from quantdsl.codegen.simd_forms import Wanted
from quantdsl.codegen.simd_function import VectorEmitter
from quantdsl.codegen.simd_text import Value, VectorText
from quantdsl.codegen.simd_values import Local
from quantdsl.codegen.simd_vary import Loop
from quantdsl.ir.ops import Expr, Func, Var
from quantdsl.passes.row_strides import Strides
from quantdsl.passes.row_turn import Row
from quantdsl.passes.rows import BASE
from quantdsl.passes.scopes import assigned_names
from quantdsl.passes.stride import GROUP, STOPS, STRIDE, STRIDE_BITS
from quantdsl.passes.uniform import Uniform
from quantdsl.passes.usual import FIRST

STRIDES_AHEAD = 2
"""How far in front: some hundred nanoseconds."""


class StrideEmitter(VectorEmitter):
    """Emits an entry whose loop over rows has strides."""

    def __init__(
        self, wanted: Wanted, decl: Func, text: VectorText, same: Uniform, strides: Strides
    ) -> None:
        super().__init__(wanted, decl, text, same, None)
        self.strides = strides
        self.number = text.alloca("i64")
        """Address of the number of the next stride."""
        for block in (strides.enter, strides.turns, strides.keep, strides.leave):
            self.assigned |= assigned_names(block)

    def loop(self, stmt: Loop, lo: Value, hi: Value) -> None:
        """Emit any loop; in strides the one over rows."""
        if self.turn is None:
            super().loop(stmt, lo, hi)
        else:
            self.in_strides(stmt, hi.text, self.turn.row)

    def in_strides(self, stmt: Loop, count: str, row: Row) -> None:
        """All of `count` rows."""
        text, turn = self.text, self.turn
        self.turn = None  # loops inside a stride are none over rows
        text.do(f"store i64 0, ptr {self.number}, align 8")
        behind = text.pure(f"mul i64 {text.pure(f'add i64 {count}, 1')}, {row.words}")
        enter, able, left, leave, more, slow, done = (text.label() for _ in range(7))
        text.jump(enter)
        text.start(enter)
        began = self.loaded_number()
        text.branch(self.before(began, count), able, done)
        text.start(able)
        with text.scope():
            self.block(self.strides.enter)
            text.branch(self.any_lane(self.strides.unable), slow, head := text.label())
            text.start(head)
            self.one_stride(count, behind, row, head, left)
            text.start(left)
            reached = self.loaded_number()
            text.branch(text.pure(f"icmp sgt i64 {reached}, {began}"), leave, more)
            text.start(leave)
            with text.scope():
                last = text.pure(f"sub i64 {self.first_row(reached)}, 1")
                self.bind(BASE, Value(text.pure(f"mul i64 {last}, {row.words}"), "i64", False))
                self.block(self.strides.leave)
            text.jump(more)
            text.start(more)
            text.branch(self.before(reached, count), slow, done)
        text.start(slow)
        self.turn = turn
        with text.scope():
            self.one_by_one(stmt, count, row)
        text.jump(enter)
        text.start(done)

    def one_stride(self, count: str, behind: str, row: Row, head: str, left: str) -> None:
        """The next stride, and back to `head`; to `left` where it is not whole, or stopped."""
        text, (tested, made, kept) = self.text, (self.text.label() for _ in range(3))
        with text.scope():
            number = self.loaded_number()
            first = self.first_row(number)
            whole = text.pure(f"icmp sle i64 {text.pure(f'add i64 {first}, {STRIDE}')}, {count}")
            text.branch(whole, tested, left)
            text.start(tested)
            self.ask_where_it_may_stop(number, row)
            before = text.pure(f"mul i64 {number}, {self.strides.words}")
            begin = text.pure(f"add i64 {behind}, {before}")
            group = text.pure(f"add i64 {begin}, {self.strides.own}")
            self.locals[FIRST] = Local(first, "i64", False)
            self.locals[GROUP] = Local(group, "i64", False)
            text.branch(self.any_lane(self.strides.stops), left, made)
            text.start(made)
            self.block(self.strides.turns)
            text.branch(self.any_lane(Var(STOPS)), left, kept)
            text.start(kept)
            self.block(self.strides.keep)
            self.next_number(number)
            text.jump(head)

    def ask_where_it_may_stop(self, number: str, row: Row) -> None:
        """Ask for what is read first where the strides soon end: the rows before and behind."""
        behind = self.first_row(self.text.pure(f"add i64 {number}, {STRIDES_AHEAD}"))
        self.prefetch(row, self.text.pure(f"sub i64 {behind}, 1"), 1)
        self.prefetch(row, behind, row.read)

    def one_by_one(self, stmt: Loop, count: str, row: Row) -> None:
        """The rows of the next stride, or what there is of them."""
        text, number = self.text, self.loaded_number()
        first = self.first_row(number)
        for k in range(1, STRIDE):
            self.prefetch(row, text.pure(f"add i64 {first}, {k}"), row.read)
        end = text.pure(f"add i64 {first}, {STRIDE}")
        inside = text.pure(f"icmp slt i64 {end}, {count}")
        end = text.pure(f"select i1 {inside}, i64 {end}, i64 {count}")
        super().loop(stmt, Value(first, "i64", False), Value(end, "i64", False))
        self.next_number(number)

    def any_lane(self, cond: Expr) -> str:
        """Whether a condition holds in a lane."""
        value = self.value(cond)
        return self.text.any(value.text) if value.varies else value.text

    def loaded_number(self) -> str:
        """The number of the next stride."""
        return self.text.value(f"load i64, ptr {self.number}, align 8")

    def next_number(self, number: str) -> None:
        """Go on with the stride after this one."""
        following = self.text.pure(f"add i64 {number}, 1")
        self.text.do(f"store i64 {following}, ptr {self.number}, align 8")

    def first_row(self, number: str) -> str:
        """The row that a stride begins with."""
        return self.text.pure(f"shl i64 {number}, {STRIDE_BITS}")

    def before(self, number: str, count: str) -> str:
        """Whether a stride begins before the end of the rows."""
        return self.text.pure(f"icmp slt i64 {self.first_row(number)}, {count}")
