"""What the turns of a stride read, side by side: words of each of its rows, then its own.

    | row 0 | row 1 | ... | last row | words of the stride |      one group
                                     ^ GROUP

A host core writes the groups of all whole strides once, for all lanes.
"""

from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Binary,
    Const,
    Elem,
    Expr,
    For,
    Let,
    Stmt,
    Unary,
    Var,
    i64,
)
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt
from quantdsl.passes.rows import BASE, OUT, ROW
from quantdsl.passes.stride import GROUP, Stride
from quantdsl.passes.tile import SPOT, STEP_WORDS, Tile, of_row

COUNT, NUMBER = "n", "number@"
"""How many rows there are; which stride it is."""
OF_NONE = {"imin": 2**63 - 1, "imax": -(2**63)}
"""What the least and the greatest of some values begin with."""

Block = tuple[Stmt, ...]


class Group:
    """The groups of some strides."""

    def __init__(self, stride: Stride) -> None:
        self.stride, self._tile = stride, Tile()
        self.turn = tuple(map(self._tiled, stride.turn))
        """The turn of one row, on the words at SPOT."""
        self._width = len(self._tile.held)
        self.own = stride.rows * self._width
        """Where the words of the stride stand in a group."""
        # A row ahead of the last one, which is read where a stride is made row by row.
        behind = max(len(stride.held), self._width)
        self.words = -(-(self.own + behind) // STEP_WORDS) * STEP_WORDS

    def spot(self, row: int | Expr) -> Expr:
        """Where the words of a row of the stride begin."""
        if isinstance(row, int):
            return Binary("iadd", Var(GROUP), i64(row * self._width - self.own))
        words = Binary("imul", row, i64(self._width))
        return Binary("iadd", Binary("isub", Var(GROUP), i64(self.own)), words)

    def fill(self, width: int, first: Expr, at: Expr) -> Block:
        """Writes the groups of COUNT rows of so many words from `first` on, at `at` in OUT."""
        most = {key: f"most.{k}@" for key, k in self.stride.held.items()}
        row = Binary("iadd", Binary("shl", Var(NUMBER), i64(self.stride.bits)), Var(ROW))
        of_row: Block = (
            Let(BASE, I64_T, Binary("imul", Binary("iadd", first, row), i64(width))),
            Let(SPOT, I64_T, self.spot(Var(ROW))),
            *(Assign(Var(name), Binary(key.op, Var(name), key.expr)) for key, name in most.items()),
            *self._tile.writes(),
        )
        begin = Binary("imul", Var(NUMBER), i64(self.words))
        of_stride: Block = (
            Let(GROUP, I64_T, Binary("iadd", at, Binary("iadd", begin, i64(self.own)))),
            *(Let(name, I64_T, i64(OF_NONE[key.op])) for key, name in most.items()),
            For(ROW, i64(0), i64(self.stride.rows), of_row),
            *(
                Assign(
                    Elem(Var(OUT), Binary("iadd", Var(GROUP), i64(k))),
                    _bits_of(Var(name)) if key.real else Var(name),
                )
                for k, (key, name) in enumerate(most.items())
            ),
        )
        strides = Binary("lshr", Var(COUNT), i64(self.stride.bits))
        return (For(NUMBER, i64(0), strides, of_stride),)

    def _tiled(self, stmt: Stmt) -> Stmt:
        """A statement that takes from the group what is the same for all lanes."""
        return rebuild_stmt(stmt, self._owned, self._tiled)

    def _owned(self, expr: Expr) -> Expr:
        alike = of_row(expr) and not isinstance(expr, Const)
        return self._tile.read(expr) if alike else rebuild_expr(expr, self._owned)


def _bits_of(value: Expr) -> Expr:
    return Unary("bits", Unary("i64_to_f64", value))
