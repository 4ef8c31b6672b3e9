"""Blocks of a turn rewritten so that fewer branches are left, and what can be told of them."""

from collections.abc import Callable, Iterable, Iterator

from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    Assign,
    Binary,
    Break,
    Const,
    Expr,
    If,
    Let,
    Select,
    Stmt,
    Type,
    Unary,
    Var,
    boolean,
)
from quantdsl.ir.walk import nested, nodes_in, rebuild_expr
from quantdsl.passes.fold import folded
from quantdsl.passes.places import path_of
from quantdsl.passes.scopes import assigned_names, names_in, reads_of_names
from quantdsl.passes.tile import is_word

Block = tuple[Stmt, ...]
OFTEN = frozenset({"imin", "imax"})


def flat(body: Block) -> Block:
    """A block where what follows a branch that always breaks stands behind it."""
    made: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If) and stmt.then == (Break(),) and breaks_when(stmt) is None:
            made += [If(stmt.cond, (Break(),)), *flat(stmt.otherwise)]
        elif isinstance(stmt, If) and stmt.otherwise == (Break(),) and breaks_when(stmt) is None:
            made += [If(Unary("not", stmt.cond), (Break(),)), *flat(stmt.then)]
        else:
            made.append(stmt)
    return tuple(made)


def settled(body: Block) -> Block:
    """A block where a local that is given one value, at its outermost level, begins with it."""
    waiting: dict[str, Let] = {}
    made: list[Stmt | None] = []
    at: dict[str, int] = {}
    for stmt in body:
        own = reads_of_names((stmt,))
        name = stmt.place.name if isinstance(stmt, Assign) and isinstance(stmt.place, Var) else ""
        for read in own:
            waiting.pop(read, None)
        if name in waiting and isinstance(stmt, Assign) and _assigns(body, name) == 1:
            let = waiting.pop(name)
            made[at[name]] = None
            made.append(Let(name, let.type, stmt.value, let.line))
            continue
        for inner in assigned_names((stmt,)):
            waiting.pop(inner, None)
        if isinstance(stmt, Let) and (stmt.value is None or isinstance(stmt.value, Const)):
            waiting[stmt.name], at[stmt.name] = stmt, len(made)
        made.append(stmt)
    return tuple(stmt for stmt in made if stmt is not None)


def plain(body: Block) -> Block:
    """A block where what holds is asked where it decides something, not held in a local before."""
    own = {stmt.name for stmt in body if isinstance(stmt, Let) and stmt.type == BOOL_T}
    known: dict[str, Expr] = {}

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var):
            return known.get(node.name, node)
        return rebuild_expr(node, expr)

    made: list[Stmt] = []
    for stmt in body:
        new, given = _with_value(stmt, lambda node: folded(expr(node)))
        changed = assigned_names((new,)) | {given}
        known = {
            name: value
            for name, value in known.items()
            if name not in changed and not changed & names_in(value)
        }
        if given in own and isinstance(new, Let | Assign) and new.value is not None:
            known |= {given: new.value} if given not in names_in(new.value) else {}
        made.append(new)
    while True:
        read = reads_of_names(tuple(made))
        left = [stmt for stmt in made if not _gives(stmt, {name for name in own if not read[name]})]
        if len(left) == len(made):
            return tuple(made)
        made = left


def _with_value(stmt: Stmt, expr: Callable[[Expr], Expr]) -> tuple[Stmt, str]:
    """A statement with what it decides or gives rebuilt, and the local that it gives a value."""
    match stmt:
        case Let(name, type_, value, line) if value is not None:
            return Let(name, type_, expr(value), line), name
        case Assign(Var(name) as place, value, line):
            return Assign(place, expr(value), line), name
        case If(cond, then, otherwise, line):
            return If(expr(cond), then, otherwise, line), ""
    return stmt, stmt.name if isinstance(stmt, Let) else ""


def _gives(stmt: Stmt, names: Iterable[str]) -> bool:
    """Whether a statement declares one of these locals, or gives it a value."""
    if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
        return stmt.place.name in names
    return isinstance(stmt, Let) and stmt.name in names


def _assigns(body: Block, name: str) -> int:
    count = 0
    for stmt in body:
        count += isinstance(stmt, Assign) and stmt.place == Var(name)
        count += sum(_assigns(block, name) for block in nested(stmt))
    return count


def breaks_when(stmt: Stmt) -> Expr | None:
    """When a statement breaks, if it does nothing else; None if it does, or never breaks."""
    if isinstance(stmt, Break):
        return boolean(True)
    if not isinstance(stmt, If):
        return None
    then, otherwise = _block_breaks(stmt.then), _block_breaks(stmt.otherwise)
    if then is None or otherwise is None:
        return None
    sides = [_both(stmt.cond, then), _both(Unary("not", stmt.cond), otherwise)]
    return either([side for side in sides if side != boolean(False)])


def _block_breaks(body: Block) -> Expr | None:
    """The same of a block; one without statements never breaks."""
    parts: list[Expr] = []
    for stmt in body:
        part = breaks_when(stmt)
        if part is None:
            return None
        parts.append(part)
    return either(parts)


def _both(x: Expr, y: Expr) -> Expr:
    if isinstance(y, Const):
        return x if y.bits else y
    return Binary("and", x, y)


def either(parts: Iterable[Expr]) -> Expr:
    """The condition that one of these holds."""
    whole: Expr = boolean(False)
    for part in parts:
        whole = part if isinstance(whole, Const) else Binary("or", whole, part)
    return whole


def only_breaks(stmt: If) -> bool:
    """Whether a branch does nothing but end the turns."""
    return stmt.then == (Break(),) and not stmt.otherwise


def is_rare(stmt: Stmt) -> bool:
    """Whether a statement is a branch that most turns jump over."""
    return isinstance(stmt, If) and not stmt.otherwise and any(map(nested, stmt.then))


def often(body: Block) -> Block:
    """The statements of a turn that most turns do not jump over."""
    return tuple(stmt for stmt in body if not is_rare(stmt))


def all_of(parts: Iterable[Expr]) -> Expr:
    """The condition that all of these hold."""
    whole: Expr = boolean(True)
    for part in parts:
        whole = part if isinstance(whole, Const) else Binary("and", whole, part)
    return whole


def requirements(cond: Expr) -> Iterator[Expr]:
    """The conditions of which all must hold."""
    return _operands(cond, "and")


def alternatives(cond: Expr) -> Iterator[Expr]:
    """The conditions of which one must hold."""
    return _operands(cond, "or")


def _operands(cond: Expr, op: str) -> Iterator[Expr]:
    """What a chain of one operation joins, from left to right."""
    if isinstance(cond, Binary) and cond.op == op:
        yield from _operands(cond.x, op)
        yield from _operands(cond.y, op)
    else:
        yield cond


def denied(cond: Expr) -> Iterator[tuple[Expr, bool]]:
    """(condition, what it is) of conditions that are decided where a comparison does not hold."""
    if isinstance(cond, Binary) and cond.op in DENIES:
        for op, holds in DENIES[cond.op].items():
            yield Binary(op, cond.x, cond.y), holds


DENIES = {
    "ile": {"ile": False, "igt": True, "ige": True, "ilt": False, "ieq": False, "ine": True},
    "ige": {"ige": False, "ilt": True, "ile": True, "igt": False, "ieq": False, "ine": True},
    "ilt": {"ilt": False, "ige": True},
    "igt": {"igt": False, "ile": True},
}
"""A comparison of whole numbers that does not hold -> what others of the same two are."""


def merged(body: Block) -> Block:
    """A block where a word's bound by two things of a row is one bound by both."""
    made: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If):
            made.append(If(stmt.cond, merged(stmt.then), merged(stmt.otherwise), stmt.line))
            continue
        bound = _bound(stmt)
        for k in reversed(range(len(made))) if bound else ():
            assert bound is not None
            before = _bound(made[k])
            if before is not None and before[:2] == bound[:2]:
                name, op, _ = bound
                both = Binary(op, before[2], bound[2])
                del made[k]
                stmt = Assign(Var(name), Binary(op, Var(name), both))
                break
            if bound[0] in reads_of_names((made[k],)) or bound[0] in assigned_names((made[k],)):
                break
        made.append(stmt)
    return tuple(made)


def _bound(stmt: Stmt) -> tuple[str, str, Expr] | None:
    """(word, imin or imax, of what) of word = imin(word, what), `what` of a row."""
    match stmt:
        case Assign(Var(name), Binary(op, Var(same), what)) if name == same and op in OFTEN:
            plain_kinds = Const | Binary | Unary | Var
            if all(is_word(node) or isinstance(node, plain_kinds) for node in nodes_in(what)):
                return name, op, what
    return None


def equal_at_end(body: Block, names: Iterable[str]) -> dict[str, str]:
    """Names of the same value at the end of a block -> the first of them."""
    held: dict[str, object] = {}
    for stmt in body:
        if isinstance(stmt, Assign | Let):
            target = stmt.name if isinstance(stmt, Let) else str((path_of(stmt.place) or ("",))[0])
            copied = isinstance(stmt.value, Var)
            value = stmt.value.name if isinstance(stmt.value, Var) else ""
            held[target] = held.get(value, value) if copied else object()
        for name in assigned_names(nested_body(stmt)):
            held[name] = object()
    found: dict[str, str] = {}
    first: dict[object, str] = {}
    for name in names:
        if name in held:
            one = first.setdefault(held[name], name)
            if one != name:
                found[name] = one
    return found


def nested_body(stmt: Stmt) -> Block:
    """The statements of all blocks inside a statement."""
    return tuple(inner for block in nested(stmt) for inner in block)


def differ(type_: Type, x: Expr, y: Expr) -> Expr:
    if type_ == F64_T:
        return Binary("ine", Unary("bits", x), Unary("bits", y))
    return Binary("xor", x, y) if type_ == BOOL_T else Binary("ine", x, y)


def chosen(body: Block) -> Iterator[Stmt]:
    """A block whose small branches on what lasts are choices of values: no lane then waits."""
    for stmt in body:
        if (
            isinstance(stmt, If)
            and not stmt.otherwise
            and all(isinstance(one, Let) or _assigns_local(one) for one in stmt.then)
        ):
            for one in stmt.then:
                if isinstance(one, Assign):
                    yield Assign(one.place, _chosen_value(stmt.cond, one), one.line)
                else:
                    yield one
        else:
            yield stmt


def _assigns_local(stmt: Stmt) -> bool:
    return isinstance(stmt, Assign) and isinstance(stmt.place, Var)


def _chosen_value(cond: Expr, stmt: Assign) -> Expr:
    """What a local is after an assignment that is made under a condition."""
    match cond, stmt.value:
        # The sum of x and 0 times something is x.
        case Binary("ine", lots, Const(_, 0)), Binary("iadd", x, Binary("imul", factor, _)):
            if x == stmt.place and factor == lots:
                return stmt.value
        case _, Binary(op, x, y) if x == stmt.place and op in OFTEN:
            beyond = Binary("igt" if op == "imax" else "ilt", y, x)
            return Select(Binary("and", cond, beyond), y, x)
    return Select(cond, stmt.value, stmt.place)


def joined(stmt: Stmt) -> Stmt:
    """A chain of two branches as one that most turns jump over."""
    match stmt:
        case If(cond, then, (If(other, _, ()),), line) if then:
            return If(Binary("or", cond, other), (stmt,), (), line)
    return stmt
