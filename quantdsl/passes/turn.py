"""One usual turn of a lane, put in the order that costs least.

What decides that a turn is not usual comes first, as one condition, and what only a usual turn
changes after it. What is computed from a row's words alone is left to whoever fills the tile.
"""

from collections.abc import Set

from quantdsl.ir.ops import (
    Binary,
    Break,
    Const,
    Expr,
    Fma,
    For,
    If,
    Let,
    Select,
    Stmt,
    Type,
    Unary,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.walk import expressions, operands, rebuild_expr, rebuild_stmt
from quantdsl.passes.fold import folded
from quantdsl.passes.rows import BASE, ROW
from quantdsl.passes.scopes import assigned_names, declared_names, reads_of_names
from quantdsl.passes.straight import (
    DENIES,
    alternatives,
    breaks_when,
    chosen,
    denied,
    differ,
    either,
    equal_at_end,
    flat,
    joined,
    merged,
    settled,
)
from quantdsl.passes.stride import Stride
from quantdsl.passes.tile import HALF, Tile, bounded, half, half_of, of_row

Block = tuple[Stmt, ...]


class Turn:
    """A turn whose unusual branches break, taken apart."""

    def __init__(
        self, body: Block, changed: dict[str, Type], passing: Set[str], stride_bits: int
    ) -> None:
        """`changed` are the words of the state that the turn gives another value, and types.

        Those that are `passing` need not last beyond the turn. Strides have 2 ** `stride_bits`
        rows.
        """
        self.tile = Tile()
        self.changed = frozenset(changed)
        self.varying = {*changed, ROW}
        """Names whose value is another in each turn."""
        body = settled(flat(body))
        body = self.resolved(body)
        self.never: list[Expr] = []
        """What holds in no turn if it does not hold before the first: then none is usual."""
        tests, rest = self.tested(body)
        rest = self.ordered(tests, self.supposed(tests, rest))
        self.same = equal_at_end(rest, [name for name in changed if name not in passing])
        """Words that a turn leaves equal to another: which one."""
        for name, other in self.same.items():
            self.never.append(differ(changed[name], Var(name), Var(other)))
        rest = tuple(map(joined, chosen(merged(rest))))
        self.halves: dict[Expr, Expr] = {}
        """How halves of words are read."""
        stride = Stride(rest, of_row, self.steady, stride_bits)
        self.stride = stride if stride.worth() else None
        """Several such turns at once, where that is of use."""
        by_row = () if self.stride is None else tuple(self.stride.by_row)
        self.by_row = tuple(map(self.tiled, by_row))
        """What a stride leaves to its last row or all of them, of one row."""
        made = tuple(map(self.current, rest))
        self.halves = self.packed(made)
        self.body = tuple(map(self.tiled, made))
        mark = None if self.stride is None else self.stride.mark
        self.price = None if mark is None else self.own(mark.price)
        """The price of a row that a value is marked to."""

    # ---- what is known before the turn ----------------------------------------------------

    def resolved(self, body: Block) -> Block:
        """A block with locals that hold only what a row or the state before gives put in."""
        given: dict[str, Expr] = {}
        assigned = assigned_names(body)

        def expr(node: Expr) -> Expr:
            if isinstance(node, Var):
                return given.get(node.name, node)
            return rebuild_expr(node, expr)

        def known(node: Expr) -> Expr:
            return folded(expr(node))

        def inner(stmt: Stmt) -> Stmt:
            return rebuild_stmt(stmt, known, inner)

        def block(stmts: Block) -> Block:
            made: list[Stmt] = []
            for stmt in stmts:
                new = rebuild_stmt(stmt, known, inner if isinstance(stmt, For | While) else _same)
                self.varying |= frozenset() if isinstance(stmt, Let) else declared_names((stmt,))
                if isinstance(new, If):
                    sides = block(new.then), block(new.otherwise)
                    if isinstance(new.cond, Const):
                        made += sides[0 if new.cond.bits else 1]
                        continue
                    new = If(new.cond, *sides, new.line)
                elif isinstance(new, Let):
                    value = None if new.name in assigned else new.value
                    if value is not None and (of_row(value) or self.steady(value)):
                        given[new.name] = value
                        continue
                    self.varying.add(new.name)
                made.append(new)
            return tuple(made)

        return block(body)

    def steady(self, expr: Expr) -> bool:
        """Whether a value is the same in all usual turns."""
        if isinstance(expr, Var):
            return expr.name not in self.varying and expr.name != BASE
        return isinstance(expr, Const | Unary | Binary | Select | Fma) and all(
            map(self.steady, operands(expr))
        )

    # ---- what decides ---------------------------------------------------------------------

    def tested(self, body: Block) -> tuple[set[int], Block]:
        """The places in the new body of the statements that may break, each one condition."""
        made: list[Stmt] = []
        tests: set[int] = set()
        for stmt in body:
            cond = breaks_when(stmt)
            if cond is None:
                made.append(stmt)
                continue
            for part in alternatives(cond):
                if self.steady(part):
                    self.never.append(part)
                    continue
                tests.add(len(made))
                made.append(If(part, (Break(),)))
        return tests, tuple(made)

    def supposed(self, tests: set[int], body: Block) -> Block:
        """A turn that goes on: what the tests exclude is folded, for else it is given up."""
        facts: dict[Expr, bool] = {}
        for k in tests:
            stmt = body[k]
            if isinstance(stmt, If):
                facts |= dict(denied(stmt.cond))

        def expr(node: Expr) -> Expr:
            if node in facts:
                return boolean(facts[node])
            return rebuild_expr(node, expr)

        def known(node: Expr) -> Expr:
            return folded(expr(node))

        def inner(one: Stmt) -> Stmt:
            return rebuild_stmt(one, known, inner)

        return tuple(stmt if k in tests else inner(stmt) for k, stmt in enumerate(body))

    def ordered(self, tests: set[int], body: Block) -> Block:
        """The tests and what they need, as one; then all else, each part in its order."""
        reads = [set(reads_of_names((stmt,))) for stmt in body]
        writes = [set(assigned_names((stmt,)) | declared_names((stmt,))) for stmt in body]
        early = set(tests)
        found = -1
        while found != len(early):
            found = len(early)
            for k in reversed(range(len(body))):
                if k not in early and any(
                    later in early
                    and (
                        writes[k] & reads[later]
                        or writes[k] & writes[later]
                        or reads[k] & writes[later]
                    )
                    for later in range(k + 1, len(body))
                ):
                    early.add(k)
        needed = [body[k] for k in sorted(early - tests)]
        conds = [stmt.cond for k in sorted(tests) if isinstance(stmt := body[k], If)]
        whole = either(self.narrow(cond) for cond in self.marked(conds))
        rest = [stmt for k, stmt in enumerate(body) if k not in early]
        return (*needed, If(whole, (Break(),)), *rest)

    def marked(self, conds: list[Expr]) -> list[Expr]:
        """Alternatives where rows that are unusual by themselves are seen by a comparison."""
        rows = [cond for cond in conds if of_row(cond)]
        others = [cond for cond in conds if not of_row(cond)]
        for k, cond in enumerate(others):
            if rows and self.compares(cond) and isinstance(cond, Binary):
                limit = -(2**63) if cond.op in ("ile", "ilt") else 2**63 - 1
                seen = Select(either(rows), i64(limit), cond.x)
                op = {"ilt": "ile", "igt": "ige"}.get(cond.op, cond.op)
                if op == cond.op:
                    others[k] = Binary(op, seen, cond.y)
                    return others
        return conds

    def compares(self, cond: Expr) -> bool:
        """Whether a condition compares a whole number of a row with one that lasts."""
        return (
            isinstance(cond, Binary)
            and cond.op in DENIES
            and of_row(cond.x)
            and self.steady(cond.y)
        )

    def narrow(self, cond: Expr) -> Expr:
        """A condition that holds where the given one does, on numbers of half a word.

        Of numbers beyond it may hold too: then a usual turn is made as another.
        """
        if isinstance(cond, Binary) and cond.op in ("or", "and"):
            return Binary(cond.op, self.narrow(cond.x), self.narrow(cond.y))
        if self.compares(cond) and isinstance(cond, Binary) and cond.op in ("ile", "ige"):
            lifted = Binary("iadd", cond.y, i64(1 << HALF - 1))
            self.never.append(Binary("ine", Binary("lshr", lifted, i64(HALF)), i64(0)))
            return Binary(cond.op, half(bounded(cond.x)), half(cond.y))
        return cond

    # ---- what is read ---------------------------------------------------------------------

    def current(self, stmt: Stmt) -> Stmt:
        """A statement on the words as the turn makes them."""

        def expr(node: Expr) -> Expr:
            if isinstance(node, Var):
                return Var(now(node.name)) if node.name in self.changed else node
            return rebuild_expr(node, expr)

        def inner(one: Stmt) -> Stmt:
            return rebuild_stmt(one, expr, inner)

        return inner(stmt)

    def packed(self, body: Block) -> dict[Expr, Expr]:
        """The uniform numbers of half a word, two in a word of the tile each."""
        found: dict[Expr, Expr] = {}
        halves = [
            expr
            for expr in dict.fromkeys(expressions(body))
            if of_row(expr) and expr == half_of(expr)
        ]
        for low, high in zip(halves[::2], [*halves[1::2], None][: len(halves[::2])], strict=True):
            word = low.x.x if isinstance(low, Binary) and isinstance(low.x, Binary) else low
            if high is not None and isinstance(high, Binary):
                word = Binary("ior", Binary("iand", word, i64((1 << HALF) - 1)), high.x)
                found[high] = Binary("ashr", self.tile.read(word), i64(HALF))
            found[low] = half(self.tile.read(word))
        return found

    def tiled(self, stmt: Stmt) -> Stmt:
        """A statement that takes from the tile what is the same for all lanes."""
        return rebuild_stmt(stmt, self.own, self.tiled)

    def own(self, expr: Expr) -> Expr:
        """An expression with what is the same for all lanes read from the tile."""
        if isinstance(expr, Const):
            return expr
        if expr in self.halves:
            return self.halves[expr]
        if of_row(expr):
            return self.tile.read(expr)
        return rebuild_expr(expr, self.own)


_NOW = "now."


def now(name: str) -> str:
    """What a word is called while a turn makes it."""
    return _NOW + name


def _same(stmt: Stmt) -> Stmt:
    return stmt
