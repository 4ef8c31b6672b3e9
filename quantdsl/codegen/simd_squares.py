"""Loops that copy columns for lanes that see their own, a square of words at a time.

Where lanes lie beside each other in time and the words of one lane beside each other in a line, a
word of each lane is a gather of as many lines as there are lanes. As many turns of such a loop as
there are lanes take the same lines: each is loaded or stored once, and words change places between
registers.
"""

from collections.abc import Collection

from quantdsl.codegen.simd_text import VectorText
from quantdsl.ir.ops import Assign, Binary, Const, Elem, Expr, For, Var, i64
from quantdsl.ir.own import WIDTH
from quantdsl.ir.walk import expressions, operands


def square_of(loop: For, columns: Collection[str]) -> Elem | None:
    """The place in one of the `columns` that a loop does nothing but read, or write, in line."""
    match loop:
        case For(lo=Const(bits=0), hi=Const(), body=(Assign() as copy,)):
            apart = {Var(name) for name in columns}
            nodes = [copy.place, *expressions(loop.body)]
            places = {node for node in nodes if isinstance(node, Elem) and node.base in apart}
            if len(places) == 1 and _in_line((place := places.pop()).index, Var(loop.name)):
                return place
    return None


def _in_line(index: Expr, turn: Var) -> bool:
    """Whether the turns of a group of WIDTH have words beside each other."""
    if index in (turn, Binary("iand", turn, i64(WIDTH - 1))):
        return True
    match index:
        case Binary("iadd", x, y):
            return (_in_line(x, turn) and _steady(y, turn)) or (
                _in_line(y, turn) and _steady(x, turn)
            )
    return False


def _steady(expr: Expr, turn: Var) -> bool:
    """Whether an expression is the same for all turns of a group."""
    if expr == Binary("iand", turn, i64(-WIDTH)):
        return True
    return expr != turn and all(_steady(part, turn) for part in operands(expr))


def transposed(text: VectorText, rows: list[str]) -> list[str]:
    """Vectors of words, as many as lanes: word k of the result j is word j of `rows[k]`."""
    lanes, apart = len(rows), 1
    while apart < lanes:
        made = list(rows)
        for at in range(lanes):
            if at & apart:
                continue
            # Blocks of so many words change places across the diagonal of each square of two.
            for to, ahead in ((at, 0), (at + apart, apart)):
                which = ", ".join(
                    f"i32 {k + ahead if not k & apart else lanes + k - apart + ahead}"
                    for k in range(lanes)
                )
                made[to] = text.pure(
                    f"shufflevector {text.words} {rows[at]}, {text.words} {rows[at + apart]}, "
                    f"<{lanes} x i32> <{which}>"
                )
        rows, apart = made, 2 * apart
    return rows
