"""A kernel as a block of threads runs it: the threads share the strands of its parallel loops.

All else each thread computes for itself, from the same arguments, so all of them come to the same
places and wait for each other there. A strand's result goes to shared memory. In the tree a thread
combines what it finds there, after a barrier, as long as more than a warp's worth is left; then
every warp combines the rest by shuffles, and thread 0 puts the root back. An array that parallel
loops alone write, each turn its own elements, lies in shared memory too, and the threads share its
turns. Any other array is each thread's own, and a loop that writes to one stays whole: each thread
makes all of its turns.
"""

from collections.abc import Container, Iterator
from itertools import zip_longest
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from quantdsl import limits
from quantdsl.ir import ops
from quantdsl.ir.strands import KEPT, LEVEL, STRAND, STRANDS, STRANDS_LOG2, called
from quantdsl.ir.threads import (
    ATOMIC_CALLS,
    ATOMICS,
    BARRIER,
    COPIED,
    COPIES,
    FENCES,
    LANES_BARRIER,
    NAMED_BARRIER,
    WAIT,
    WARP_BARRIER,
)
from quantdsl.ir.walk import (
    ExprMap,
    base_name,
    nested,
    operands,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)

WARP_LOG2 = 5
WARP = 1 << WARP_LOG2
SHARED = ops.Var("block.shared")
THREAD = "block.thread"
"""The number of the thread, a local of every kernel."""
OTHER = "block.other"

THREAD_NUMBER, BLOCK_NUMBER = "device.thread", "device.block"
SHUFFLE, SHUFFLE_FROM = "device.shuffle", "device.shuffle_from"
BALLOT, MATCH = "device.ballot", "device.match"
MATCH_DIGIT, ONES = "device.match_digit", "device.ones"
TOUCH, TOUCH_TENSOR = "device.touch", "device.touch_tensor"
COPY = "device.copy"


def counted(name: str) -> str:
    """The primitive that does an atomic to a word of shared memory."""
    return f"device.atomic.{name}"


def _asked(name: str, *params: str) -> ops.Func:
    """A primitive that has a result, of words."""
    decls = tuple(ops.ParamDecl(param, ops.I64_T) for param in params)
    return ops.Func(name, decls, ops.I64_T, (ops.Return(ops.i64(0)),))


def _told(name: str, *params: str) -> ops.Func:
    """A primitive that has none."""
    return ops.Func(name, tuple(ops.ParamDecl(param, ops.I64_T) for param in params), None, ())


PRIMITIVES = (
    _asked(THREAD_NUMBER),
    _asked(BLOCK_NUMBER),
    _asked(SHUFFLE, "value", "bits"),
    _asked(SHUFFLE_FROM, "value", "lane"),
    _asked(BALLOT, "value"),
    _asked(MATCH, "value"),
    _asked(MATCH_DIGIT, "value"),
    _asked(ONES, "value"),
    *(ops.Func(name, (), None, ()) for name in (BARRIER, WARP_BARRIER, *FENCES.values())),
    _told(NAMED_BARRIER, "number", "threads"),
    _told(LANES_BARRIER, "lanes"),
    *(_told(counted(name), "index", "value") for name in ATOMICS),
    ops.Func(
        COPY,
        (
            ops.ParamDecl("index", ops.I64_T),
            ops.ParamDecl("tensor", ops.BufferType(ops.I64_T)),
            ops.ParamDecl("at", ops.I64_T),
        ),
        None,
        (),
    ),
    ops.Func(COPIED, (), None, ()),
    _told(TOUCH, "index", "how", "line"),
    _told(TOUCH_TENSOR, "tensor", "words", "index", "how", "line"),
)
"""What a block asks of its device, as functions whose bodies the target has (codegen/blocks.py).

MATCH_DIGIT is MATCH of values up to 256, and ONES how many of 32 bits are set."""

ME = ops.Var(THREAD)


class Blocked(Struct):
    """A kernel for blocks of `threads`: what lies in shared memory, and where."""

    threads: int
    kept: dict[str, ops.ArrayType] = field(default_factory=dict)  # in order of their place

    def place(self, name: str, index: ops.Expr) -> ops.Elem:
        """The word of an element."""
        at = 0
        for other, type_ in self.kept.items():
            if other == name:
                break
            at += size_of(type_)
        return ops.Elem(SHARED, ops.Binary("iadd", ops.i64(at), index))

    def type(self, name: str) -> ops.ScalarType:
        """What the elements are."""
        return scalar_of(self.kept[name])

    @property
    def words(self) -> int:
        """Of shared memory."""
        return sum(map(size_of, self.kept.values()))


class BlockForm(NamedTuple):
    """A kernel with a last parameter, shared memory; and what lies there, in order."""

    kernel: ops.Func
    shared: dict[str, ops.ArrayType]

    @property
    def words(self) -> int:
        """Of shared memory."""
        return sum(map(size_of, self.shared.values()))


def blocked(kernel: ops.Func, threads: int) -> BlockForm:
    """The kernel as a block of so many threads runs it."""
    form = Blocked(threads)
    declared = {
        stmt.name: stmt.type
        for stmt in statements(kernel.body)
        if isinstance(stmt, ops.Let) and isinstance(stmt.type, ops.ArrayType)
    }
    arrays = _arrays(kernel.body)
    for stmt in statements(kernel.body):
        if isinstance(stmt, ops.For) and called(stmt.name, STRAND) and _alone(stmt, arrays):
            form.kept |= {name: declared[name] for name in (*_results(stmt),)}
    form.kept |= {name: declared[name] for name in arrays}
    me = ops.Let(THREAD, ops.I64_T, ops.Call(THREAD_NUMBER, ()))
    body = (me, *_body(form, kernel.body))
    made = with_shared(msgspec.structs.replace(kernel, body=body))
    return BlockForm(made, form.kept)


def with_shared(func: ops.Func) -> ops.Func:
    """The function with shared memory as its last parameter."""
    shared = ops.ParamDecl(SHARED.name, ops.BufferType(ops.I64_T), inout=True)
    return msgspec.structs.replace(func, params=(*func.params, shared))


def size_of(type_: ops.ArrayType) -> int:
    assert isinstance(type_.size, int)
    return type_.size


def scalar_of(type_: ops.ArrayType) -> ops.ScalarType:
    assert isinstance(type_.elem, str)
    return type_.elem


def _outside(body: tuple[ops.Stmt, ...]) -> Iterator[ops.Stmt]:
    """The statements that stand in no turn of a parallel loop."""
    for stmt in body:
        yield stmt
        if not (isinstance(stmt, ops.For) and called(stmt.name, STRAND)):
            for block in nested(stmt):
                yield from _outside(block)


def _arrays(body: tuple[ops.Stmt, ...]) -> dict[str, None]:
    """The arrays that may lie in shared memory: only parallel loops write them, or fill them."""
    outside = list(_outside(body))
    loops = [s for s in outside if isinstance(s, ops.For) and called(s.name, STRAND)]
    found = {
        stmt.name: size_of(stmt.type)
        for stmt in outside
        if isinstance(stmt, ops.Let)
        and isinstance(stmt.type, ops.ArrayType)
        and isinstance(stmt.type.elem, str)
        and not called(stmt.name, KEPT)
    }
    fills = {id(stmt.body[0]) for stmt in outside if isinstance(stmt, ops.For) and _filled(stmt)}
    serial = {
        base_name(stmt.place)
        for stmt in outside
        if isinstance(stmt, ops.Assign) and id(stmt) not in fills
    }
    turns = {id(part) for loop in loops for part in statements(loop.body)}
    whole = {
        expr.name
        for stmt in statements(body)
        if id(stmt) not in turns or not added(stmt)
        for expr in _wholes(stmt)
    }
    written = set().union(*map(_written, loops))
    found = {n: size for n, size in found.items() if n in written - serial - whole}
    while bad := {
        name for loop in loops if not _alone(loop, found) for name in _written(loop) & set(found)
    }:
        found = {name: size for name, size in found.items() if name not in bad}
    reduced = sum(STRANDS for loop in loops for _ in _results(loop))
    fit = 8 * (reduced + sum(found.values())) <= limits.SHARED_BYTES
    return dict.fromkeys(found) if fit else {}


def added(stmt: ops.Stmt) -> str:
    """The array that a statement adds to by an atomic, or the like; or an empty string."""
    call = stmt.call if isinstance(stmt, ops.Do) else None
    if call is None or call.func.partition("[")[0] not in ATOMIC_CALLS:
        return ""
    return base_name(call.args[0])


def copied(stmt: ops.Stmt) -> bool:
    """Whether a statement copies from a tensor to shared memory beside what follows."""
    return isinstance(stmt, ops.Do) and stmt.call.func.partition("[")[0] in COPIES.values()


def _wholes(stmt: ops.Stmt) -> Iterator[ops.Var]:
    """The variables that stand as whole objects: arguments of calls."""
    todo = list(roots(stmt))
    while todo:
        expr = todo.pop()
        if isinstance(expr, ops.Call):
            yield from (arg for arg in expr.args if isinstance(arg, ops.Var))
        todo += operands(expr)


def _filled(loop: ops.For) -> str:
    """The array that a loop fills with one value, or an empty string."""
    if len(loop.body) != 1 or called(loop.name, STRAND):
        return ""
    (only,) = loop.body
    place = only.place if isinstance(only, ops.Assign) else None
    fills = (
        isinstance(only, ops.Assign)
        and isinstance(place, ops.Elem)
        and isinstance(place.base, ops.Var)
        and place.index == ops.Var(loop.name)
        and isinstance(only.value, ops.Const)
    )
    return base_name(place) if fills and place is not None else ""


def _results(loop: ops.For) -> list[str]:
    """The arrays that the strands of a loop leave their results in."""
    return [
        base.name
        for stmt in loop.body
        if isinstance(stmt, ops.Assign)
        and isinstance(stmt.place, ops.Elem)
        and isinstance(base := stmt.place.base, ops.Var)
        and called(base.name, KEPT)
    ]


def _written(loop: ops.For) -> set[str]:
    """What the turns of a loop write to and have not declared."""
    own = {stmt.name for stmt in statements(loop.body) if isinstance(stmt, ops.Let)}
    places = {base_name(s.place) for s in statements(loop.body) if isinstance(s, ops.Assign)}
    places |= {name for name in map(added, statements(loop.body)) if name}
    return {name for name in places - own if not called(name, KEPT)}


def _alone(loop: ops.For, arrays: Container[str]) -> bool:
    """Whether a loop leaves nothing but results of its strands and elements of shared arrays."""
    return all(name in arrays for name in _written(loop))


def _body(form: Blocked, body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
    made: list[ops.Stmt] = []
    for stmt, after in zip_longest(body, body[1:]):
        filled = isinstance(after, ops.For) and _filled(after)
        if isinstance(stmt, ops.Let) and stmt.name in form.kept and filled == stmt.name:
            continue  # what it begins with is written over at once
        for one in _stmt(form, stmt):
            if one != WAIT or not made or made[-1] != WAIT:
                made.append(one)
    return tuple(made)


def _stmt(form: Blocked, stmt: ops.Stmt) -> list[ops.Stmt]:
    """A statement of the kernel as the threads of a block run it."""
    if isinstance(stmt, ops.Let) and stmt.name in form.kept:
        return [] if called(stmt.name, KEPT) else _fill(form, stmt.name, ops.i64(0))
    if isinstance(stmt, ops.For):
        if called(stmt.name, STRAND) and _alone(stmt, form.kept):
            return _strands(form, stmt)
        if called(stmt.name, LEVEL):
            (across,) = stmt.body
            assert isinstance(across, ops.For)
            if form.kept.keys() & set(_results(across)):
                return _tree(form, stmt, across)
        if (name := _filled(stmt)) in form.kept:
            (only,) = stmt.body
            assert isinstance(only, ops.Assign)
            return _fill(form, name, ops.as_word(only.value, form.type(name)))
    expr = in_shared(form)
    return [_each(form, stmt, expr)]


def in_shared(form: Blocked) -> ExprMap:
    """Expressions with what lies in shared memory read from there."""

    def expr(node: ops.Expr) -> ops.Expr:
        new = rebuild_expr(node, expr)
        if isinstance(new, ops.Elem) and base_name(new) in form.kept:
            return ops.as_value(form.place(base_name(new), new.index), form.type(base_name(new)))
        return new

    return expr


def _each(form: Blocked, stmt: ops.Stmt, expr: ExprMap) -> ops.Stmt:
    """A statement that each thread makes for itself, with those inside it."""
    if isinstance(stmt, ops.Assign) and base_name(stmt.place) in form.kept:
        return _shared(form, stmt)
    made = stmt
    if isinstance(stmt, ops.If):
        then, otherwise = _body(form, stmt.then), _body(form, stmt.otherwise)
        made = msgspec.structs.replace(stmt, then=then, otherwise=otherwise)
    elif isinstance(stmt, ops.For | ops.While):
        made = msgspec.structs.replace(stmt, body=_body(form, stmt.body))
    return rebuild_stmt(made, expr, lambda inner: inner)


def _shared(form: Blocked, stmt: ops.Stmt) -> ops.Stmt:
    """A statement of one turn, which waits for nobody."""
    expr = in_shared(form)

    def each(inner: ops.Stmt) -> ops.Stmt:
        if isinstance(inner, ops.Assign) and base_name(inner.place) in form.kept:
            assert isinstance(inner.place, ops.Elem)
            name = base_name(inner.place)
            to = form.place(name, expr(inner.place.index))
            return ops.Assign(to, ops.as_word(expr(inner.value), form.type(name)), inner.line)
        if added(inner) in form.kept:
            assert isinstance(inner, ops.Do)
            return adding(form, inner, expr)
        return rebuild_stmt(inner, expr, each)

    return each(stmt)


def adding(form: Blocked, stmt: ops.Do, expr: ExprMap) -> ops.Do:
    """An atomic on an array, on the words of shared memory."""
    _, index, value = stmt.call.args
    name, _ = ATOMIC_CALLS[stmt.call.func.partition("[")[0]]
    at = form.place(added(stmt), expr(index)).index
    return ops.Do(ops.Call(counted(name), (at, expr(value))), stmt.line)


def _fill(form: Blocked, name: str, word: ops.Expr) -> list[ops.Stmt]:
    """Every element the same, each thread its own: who has read an older one, may write."""
    number, at = f"of.{name}", f"at.{name}"
    count = _count(form, size_of(form.kept[name]))
    fill = ops.Assign(form.place(name, ops.Var(at)), word)
    return [WAIT, ops.For(number, ops.i64(0), count, (_mine(form, number, at), fill)), WAIT]


def _count(form: Blocked, total: int) -> ops.Expr:
    """How many of 0, 1, ... total - 1 are this thread's."""
    rest = ops.Binary("isub", ops.i64(total - 1 + form.threads), ME)
    return ops.Binary("idiv", rest, ops.i64(form.threads))


def _mine(form: Blocked, number: str, name: str) -> ops.Let:
    """What this thread has of the elements 0, 1, 2, ...: each `threads`-th one."""
    ahead = ops.Binary("imul", ops.Var(number), ops.i64(form.threads))
    return ops.Let(name, ops.I64_T, ops.Binary("iadd", ME, ahead))


def _strands(form: Blocked, loop: ops.For) -> list[ops.Stmt]:
    """The strands of this thread, between two barriers: who has read the last root, may write."""
    count = _count(form, STRANDS)
    body = tuple(_shared(form, stmt) for stmt in loop.body)
    number = f"of.{loop.name}"
    own = (_mine(form, number, loop.name), *body)
    return [WAIT, ops.For(number, ops.i64(0), count, own, loop.line), WAIT]


def _tree(form: Blocked, levels: ops.For, across: ops.For) -> list[ops.Stmt]:
    """The tree: through shared memory down to a warp, then by shuffles."""
    steps = [stmt for stmt in across.body if isinstance(stmt, ops.Assign)]
    below = STRANDS_LOG2 - WARP_LOG2
    number = f"of.{across.name}"
    combine = tuple(_shared(form, stmt) for stmt in steps)
    here = ops.If(ops.Binary("ilt", ops.Var(across.name), across.hi), combine)
    most = -(-(STRANDS // 2) // form.threads)
    part = ops.For(number, ops.i64(0), ops.i64(most), (_mine(form, number, across.name), here))
    stmts: list[ops.Stmt] = [
        ops.For(levels.name, ops.i64(0), ops.i64(below), (part, WAIT), levels.line)
    ]
    shuffled: list[ops.Stmt] = []
    for step in steps:
        name, own = base_name(step.place), f"block.{base_name(step.place)}.{levels.name}"
        type_ = form.type(name)
        # Other warps combine what nobody asks for, but never read what thread 0 puts back.
        first = ops.as_value(form.place(name, ME), type_)
        stmts.append(ops.Let(own, type_, first, step.line))
        shuffled += _exchanged(step, name, own, type_, across.hi)
    stmts.append(ops.For(levels.name, ops.i64(below), ops.i64(STRANDS_LOG2), tuple(shuffled)))
    names = [base_name(step.place) for step in steps]
    roots = tuple(
        ops.Assign(
            form.place(name, ops.i64(0)),
            ops.as_word(ops.Var(f"block.{name}.{levels.name}"), form.type(name)),
        )
        for name in names
    )
    return [*stmts, ops.If(ops.Binary("ieq", ME, ops.i64(0)), roots), WAIT]


def _exchanged(
    step: ops.Assign, name: str, own: str, type_: ops.ScalarType, half: ops.Expr
) -> list[ops.Stmt]:
    """One level of the tree in a warp: the value of the lane `half` further on into one's own.

    Only the lanes below `half` have a meaning from then on, and lane 0 at last.
    """
    other = f"{OTHER}.{own}"
    word = ops.Call(SHUFFLE, (ops.as_word(ops.Var(own), type_), half))
    first = step.place

    def expr(node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Elem) and base_name(node) == name:
            return ops.Var(own if node == first else other)
        return rebuild_expr(node, expr)

    return [
        ops.Let(f"word.{other}", ops.I64_T, word),
        ops.Let(other, type_, ops.as_value(ops.Var(f"word.{other}"), type_)),
        ops.Assign(ops.Var(own), expr(step.value), step.line),
    ]

