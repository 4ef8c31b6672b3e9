"""What a kernel's block holds of each row in shared memory, for its lanes to read.

Each word of it is an expression over the words of the row, computed once for all lanes.
"""

from collections.abc import Iterator

from quantdsl.ir.ops import (
    BINARY,
    F64_T,
    I64_T,
    UNARY,
    Assign,
    Binary,
    BufferType,
    Const,
    Elem,
    Expr,
    Fma,
    ScalarType,
    Select,
    Stmt,
    Unary,
    Var,
    as_value,
    as_word,
    i64,
)
from quantdsl.ir.walk import nodes_in, operands, roots
from quantdsl.passes.rows import BASE, OUT, ROWS

TILE, SPOT = "tile", "spot@"
STEP_WORDS = 2
"""A row of a tile takes a multiple of so many words, so that neighbours are loaded at once."""
TILE_TYPE = BufferType(I64_T, STEP_WORDS)

Block = tuple[Stmt, ...]


class Tile:
    """What a tile holds of a row: expressions over the row's words, each in a word of its own."""

    def __init__(self) -> None:
        self.held: dict[Expr, int] = {}

    def words(self) -> int:
        """Words of a row in the tile."""
        return max(-(-len(self.held) // STEP_WORDS) * STEP_WORDS, STEP_WORDS)

    def read(self, expr: Expr) -> Expr:
        """How a lane reads an expression."""
        at = self.held.setdefault(expr, len(self.held))
        value = as_value(tile_word(Var(SPOT), at), type_of(expr))
        single = isinstance(expr, Unary) and expr.op == "f32"
        return Unary("f32", value) if single else value

    def writes(self) -> Iterator[Stmt]:
        """What fills the tile with a row."""
        for expr, at in self.held.items():
            raw = isinstance(expr, Unary) and expr.op == "from_bits"
            word = expr.x if isinstance(expr, Unary) and raw else as_word(expr, type_of(expr))
            yield Assign(Elem(Var(OUT), Binary("iadd", Var(SPOT), i64(at))), word)


def tile_word(spot: Expr, at: int) -> Expr:
    """A word of the row at a place in the tile."""
    return Elem(Var(TILE), Binary("iadd", spot, i64(at)))


def word_of_tile(expr: Expr) -> int | None:
    """Which word of its row an expression is."""
    match expr:
        case Elem(Var(name), Binary("iadd", Var(spot), Const(_, at))) if name == TILE:
            return at if spot == SPOT else None
    return None


def always_read(body: Block) -> list[int]:
    """The words of its row that a turn reads outside of branches."""
    read = (word_of_tile(node) for stmt in body for root in roots(stmt) for node in nodes_in(root))
    return sorted({at for at in read if at is not None})


def type_of(expr: Expr) -> ScalarType:
    """The type of an expression over a row's words."""
    match expr:
        case Const():
            return expr.type
        case Unary():
            return UNARY[expr.op].result
        case Binary():
            return BINARY[expr.op].result
        case Select():
            return type_of(expr.x)
        case Fma():
            return F64_T
    return I64_T


HALF = 32


def bounded(expr: Expr) -> Expr:
    """The nearest number of half a word."""
    least, most = -(1 << HALF - 1), (1 << HALF - 1) - 1
    return Binary("imin", Binary("imax", expr, i64(least)), i64(most))


def half(expr: Expr) -> Expr:
    """The lower half of a word as a number."""
    return Binary("ashr", Binary("shl", expr, i64(HALF)), i64(HALF))


def half_of(expr: Expr) -> Expr | None:
    """The expression itself where it is the lower half of a word."""
    match expr:
        case Binary("ashr", Binary("shl", x, Const(_, a)), Const(_, b)) if a == b == HALF:
            return half(x)
    return None


def is_word(expr: Expr) -> bool:
    """Whether an expression is a word of the turn's row: rows[base@] or rows[iadd(base@, k)]."""
    match expr:
        case Elem(Var(name), Var(base)):
            return name == ROWS and base == BASE
        case Elem(Var(name), Binary("iadd", Var(base), Const())):
            return name == ROWS and base == BASE
    return False


def place_in_row(word: Elem) -> int:
    """Which word of the row such an expression is."""
    match word.index:
        case Binary("iadd", _, Const(_, at)):
            return at
    return 0


def of_row(expr: Expr) -> bool:
    """Whether the words of the turn's row decide a value."""
    return is_word(expr) or (
        isinstance(expr, Const | Unary | Binary | Select | Fma)
        and all(map(of_row, operands(expr)))
    )
