"""The usual turn of a lane's loop, beside the turn that can be any.

Of most turns of a loop over rows (rows.py) much is known beforehand: the flags of the row are
those of a bar in the middle of a day, and all averages have warmed up. A turn for which that
holds in every lane needs none of these tests, nor what follows from them. Vectors ask it of all
their lanes and choose where they are emitted; code of one lane at a time gets the choice as IR.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quantdsl.ir.ops import (
    Binary,
    Call,
    Const,
    Elem,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    Stmt,
    Unary,
    Var,
    boolean,
)
from quantdsl.ir.walk import (
    expressions,
    nodes_in,
    rebuild_body,
    rebuild_expr,
    rebuild_stmt,
    statements,
)
from quantdsl.passes.flags import (
    FLAG_WORD,
    conjuncts,
    ends_early,
    flags_hold,
    usual_flags,
    weight,
    with_flags,
)
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.rows import BASE, ROW_WORDS, ROWS
from quantdsl.passes.scopes import assigned_names, declared_names, renamed

DIVISIONS = frozenset({"fdiv", "idiv", "imod"})
MIRRORED = {"ilt": "igt", "ile": "ige", "igt": "ilt", "ige": "ile", "ieq": "ieq", "ine": "ine"}
NEGATED = {"ilt": "ige", "ile": "igt", "igt": "ile", "ige": "ilt", "ieq": "ine", "ine": "ieq"}
FOLLOWS = {
    "ilt": {"ilt": True, "ile": True, "ine": True, "igt": False, "ige": False, "ieq": False},
    "ile": {"ile": True, "igt": False},
    "igt": {"igt": True, "ige": True, "ine": True, "ilt": False, "ile": False, "ieq": False},
    "ige": {"ige": True, "ilt": False},
    "ieq": {"ieq": True, "ile": True, "ige": True, "ine": False, "ilt": False, "igt": False},
    "ine": {"ine": True, "ieq": False},
}
"""Where the first comparison of two numbers holds, what another one of the same two gives."""

Block = tuple[Stmt, ...]


class Row(NamedTuple):
    """Where a turn finds its row, and how much of it is read as a rule."""

    buffer: Expr
    number: Expr
    words: int
    read: int


class Turn(NamedTuple):
    """A turn in two forms that mean the same where `usual` holds and `apart` does in no lane."""

    row: Row
    head: Block
    """What comes first in any case: the flags of the row."""
    usual: Expr
    """Whether the row's flags are the usual ones; the same in all lanes."""
    apart: Expr | None
    """Whether the turn is another in a lane all the same."""
    known: Block
    """The rest of a usual turn; it reads the words of its row where it needs them."""
    any: Block
    """The rest of any turn."""


def row_turn(entry: Func, width: int) -> Turn | None:
    """The turn of an entry that loops over rows of `width` words; None where there are no flags."""
    loop = next((stmt for stmt in entry.body if isinstance(stmt, For)), None)
    if loop is None or not isinstance(loop.body[0], Let) or ends_early(loop.body):
        return None
    head = tuple(_head(loop.body))
    rest = loop.body[len(head) :]
    flags = dict(usual_flags(rest))
    if not flags:
        return None
    words = {
        let.name: let.value
        for let in rest
        if isinstance(let, Let) and let.value is not None and row_word(let.value)
    }
    facts = _Facts(entry, loop, words)
    reading = _Reading(words)
    known = facts.put_in(with_flags(tuple(stmt for stmt in rest if not _reads(stmt, words)), flags))
    known = _folded(rebuild_body(known, reading.stmt))
    some: Expr | None = None
    for op, x, y in facts.taken:
        other = reading.expr(Binary(NEGATED[op], x, y))
        some = other if some is None else Binary("or", some, other)
    read = 1 + max((_offset(value) for value in words.values()), default=0)
    row = Row(Var(ROWS), Var(loop.name), width, read)
    return Turn(row, head, flags_hold(flags), some, known, rest)


def usual_beside_any(module: Module, entry: str) -> Module:
    """The module whose entry, if it loops over rows, makes its usual turns by code of their own."""
    width = dict(module.sizes).get(ROW_WORDS)
    func = next(func for func in module.funcs if func.name == entry)
    turn = None if width is None else row_turn(func, width)
    if turn is None:
        return module
    usual = turn.usual
    if turn.apart is not None:
        usual = Binary("and", usual, Unary("not", turn.apart))
    own_names = {name: f"{name}.usual" for name in declared_names(turn.known)}
    turns = (*turn.head, If(usual, renamed(turn.known, own_names), turn.any))
    body = tuple(
        msgspec.structs.replace(stmt, body=turns) if isinstance(stmt, For) else stmt
        for stmt in func.body
    )
    twice = msgspec.structs.replace(func, body=body)
    funcs = tuple(twice if each is func else each for each in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


# ---- comparisons of a row's count with a lane's own ---------------------------------------------

Comparison = tuple[str, Expr, Expr]


class _Facts:
    """Finds comparisons that go one way as a rule, known as soon as a turn begins.

    One side is a whole number of the row, the other never changes in the loop: a count of bars
    and the length of a lane's average. The way is the one that does not divide, or holds more.
    """

    def __init__(self, entry: Func, loop: For, words: dict[str, Expr]) -> None:
        self.words = words
        self.taken: list[Comparison] = []
        changing = assigned_names((loop,))
        self.values = {
            stmt.name: stmt.value
            for stmt in statements(loop.body)
            if isinstance(stmt, Let) and stmt.value is not None and stmt.name not in changing
        }
        self.fixed = {stmt.name for stmt in entry.body if isinstance(stmt, Let)} - changing

    def put_in(self, body: Block) -> Block:
        """A block with the comparisons put in that its branches suggest."""
        for stmt in statements(body):
            if isinstance(stmt, If):
                self.look(stmt)
        return rebuild_body(body, self.stmt) if self.taken else body

    def look(self, stmt: If) -> None:
        for part, holds in conjuncts(stmt.cond):
            found = self.comparison(part)
            if found is None or self.answer(found) is not None:
                continue
            then, otherwise = map(self.divides, (stmt.then, stmt.otherwise))
            usual = weight(stmt.then) >= weight(stmt.otherwise)
            if then != otherwise:
                usual = otherwise
            op, x, y = found
            self.taken.append((op if usual == holds else NEGATED[op], x, y))

    def comparison(self, expr: Expr) -> Comparison | None:
        """A comparison as (operation, word of the row, what never changes)."""
        if not isinstance(expr, Binary) or expr.op not in MIRRORED:
            return None
        x, y = self.resolved(expr.x), self.resolved(expr.y)
        if self.counts(x) and self.lasts(y):
            return expr.op, x, y
        return (MIRRORED[expr.op], y, x) if self.counts(y) and self.lasts(x) else None

    def resolved(self, expr: Expr) -> Expr:
        """An expression in terms of the row and of what never changes, as far as it can be."""
        if isinstance(expr, Var) and expr.name in self.values and expr.name not in self.words:
            value = self.resolved(self.values[expr.name])
            return value if self.lasts(value) or self.counts(value) else expr
        return rebuild_expr(expr, self.resolved)

    def counts(self, expr: Expr) -> bool:
        return isinstance(expr, Var) and expr.name in self.words

    def lasts(self, expr: Expr) -> bool:
        leaves = [node for node in nodes_in(expr) if isinstance(node, Var | Elem | Call)]
        return bool(leaves) and all(
            isinstance(leaf, Var) and leaf.name in self.fixed for leaf in leaves
        )

    def divides(self, body: Block) -> bool:
        """Whether a block divides by or into what changes from turn to turn."""
        divisions = (
            node for node in expressions(body) if isinstance(node, Binary) and node.op in DIVISIONS
        )
        return not all(self.lasts(self.resolved(division)) for division in divisions)

    def answer(self, asked: Comparison) -> bool | None:
        """What follows for a comparison from those taken."""
        for op, x, y in self.taken:
            if (x, y) == asked[1:] and asked[0] in FOLLOWS[op]:
                return FOLLOWS[op][asked[0]]
        return None

    def stmt(self, stmt: Stmt) -> Stmt:
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        found = self.comparison(expr)
        answer = None if found is None else self.answer(found)
        return rebuild_expr(expr, self.expr) if answer is None else boolean(answer)


# ---- the words of a row -------------------------------------------------------------------------


def _head(body: Block) -> Iterator[Stmt]:
    """Where the row begins, and its flags."""
    for stmt in body:
        if not isinstance(stmt, Let) or (
            row_word(stmt.value) and not FLAG_WORD.fullmatch(stmt.name)
        ):
            return
        yield stmt


def row_word(value: Expr | None) -> bool:
    """Whether an expression is a word of the row at hand."""
    match value:
        case Elem(Var(name), Binary("iadd", Var(base), Const())):
            return name == ROWS and base == BASE
    return False


def _offset(value: Expr) -> int:
    """Which word of its row a value is: rows[base@ + k]."""
    match value:
        case Elem(_, Binary("iadd", _, Const(_, at))):
            return at
    return 0


def _reads(stmt: Stmt, words: dict[str, Expr]) -> bool:
    return isinstance(stmt, Let) and stmt.name in words


class _Reading:
    """Puts the words of a row where they are used: a CPU reads memory as fast as registers."""

    def __init__(self, words: dict[str, Expr]) -> None:
        self.words = words

    def stmt(self, stmt: Stmt) -> Stmt:
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Var) and expr.name in self.words:
            return self.words[expr.name]
        return rebuild_expr(expr, self.expr)


def _folded(body: Block) -> Block:
    """A block with what is known now computed."""
    func = Func("turn", (), None, body)
    return fold_constants(Module((), (), (func,), ())).funcs[0].body
