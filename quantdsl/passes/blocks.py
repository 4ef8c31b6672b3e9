"""A kernel as a block of threads runs it: the threads share the strands of its parallel loops.

All else each thread computes for itself, from the same arguments, so all of them come to the same
places and wait for each other there. A strand's result goes to shared memory. In the tree a thread
combines what it finds there, after a barrier, as long as more than a warp's worth is left; then
every warp combines the rest by shuffles, and thread 0 puts the root back. A loop that also writes
to elements of an array stays whole: each thread makes all of its turns, on an array of its own.
"""

from dataclasses import dataclass, field

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.strands import KEPT, LEVEL, STRAND, STRANDS, STRANDS_LOG2, called
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt, statements

WARP_LOG2 = 5
WARP = 1 << WARP_LOG2
SHARED = ops.Var("block.shared")
THREAD = "block.thread"
"""The number of the thread, a local of every kernel."""
OTHER = "block.other"

THREAD_NUMBER, BLOCK_NUMBER = "device.thread", "device.block"
BARRIER, SHUFFLE = "device.barrier", "device.shuffle"
WORD = (ops.ParamDecl("value", ops.I64_T), ops.ParamDecl("bits", ops.I64_T))
PRIMITIVES = (
    ops.Func(THREAD_NUMBER, (), ops.I64_T, (ops.Return(ops.i64(0)),)),
    ops.Func(BLOCK_NUMBER, (), ops.I64_T, (ops.Return(ops.i64(0)),)),
    ops.Func(BARRIER, (), None, ()),
    ops.Func(SHUFFLE, WORD, ops.I64_T, (ops.Return(ops.Var("value")),)),
)
"""What a block asks of its device, as functions whose bodies the target has (codegen/blocks.py)."""

WAIT = ops.Do(ops.Call(BARRIER, ()))
ME = ops.Var(THREAD)


@dataclass
class Blocked:
    """A kernel for blocks of `threads`, and the words of shared memory that one needs."""

    threads: int
    kept: dict[str, ops.ScalarType] = field(default_factory=dict)  # shared, in order of their place

    def place(self, name: str, index: ops.Expr) -> ops.Elem:
        """The word of a strand."""
        at = list(self.kept).index(name) * STRANDS
        return ops.Elem(SHARED, ops.Binary("iadd", ops.i64(at), index))

    @property
    def words(self) -> int:
        """Of shared memory."""
        return len(self.kept) * STRANDS


def blocked(kernel: ops.Func, threads: int) -> tuple[ops.Func, int]:
    """The kernel with a last parameter, shared memory, and how many words of it it needs."""
    form = Blocked(threads)
    for stmt in statements(kernel.body):
        if isinstance(stmt, ops.For) and called(stmt.name, STRAND) and _alone(stmt):
            form.kept |= dict.fromkeys(_results(stmt), ops.F64_T)
    for stmt in statements(kernel.body):
        if isinstance(stmt, ops.Let) and stmt.name in form.kept:
            assert isinstance(stmt.type, ops.ArrayType)
            assert isinstance(stmt.type.elem, str)
            form.kept[stmt.name] = stmt.type.elem
    shared = ops.ParamDecl(SHARED.name, ops.BufferType(ops.I64_T), inout=True)
    me = ops.Let(THREAD, ops.I64_T, ops.Call(THREAD_NUMBER, ()))
    body = (me, *_body(form, kernel.body))
    made = msgspec.structs.replace(kernel, params=(*kernel.params, shared), body=body)
    return made, form.words


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


def _alone(loop: ops.For) -> bool:
    """Whether a loop leaves nothing but the results of its strands."""
    own = {stmt.name for stmt in statements(loop.body) if isinstance(stmt, ops.Let)}
    written = [stmt.place for stmt in statements(loop.body) if isinstance(stmt, ops.Assign)]
    return all(_root(place) in own or called(_root(place), KEPT) for place in written)


def _root(place: ops.Expr) -> str:
    while isinstance(place, ops.Field | ops.Elem):
        place = place.base
    return place.name if isinstance(place, ops.Var) else ""


def _body(form: Blocked, body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
    made: list[ops.Stmt] = []
    for stmt in body:
        made += _stmt(form, stmt)
    return tuple(made)


def _stmt(form: Blocked, stmt: ops.Stmt) -> list[ops.Stmt]:
    """A statement of the kernel as the threads of a block run it."""
    if isinstance(stmt, ops.Let) and stmt.name in form.kept:
        return []
    if isinstance(stmt, ops.For) and form.kept.keys() & set(_results(stmt)):
        return _strands(form, stmt)
    if isinstance(stmt, ops.For) and called(stmt.name, LEVEL):
        (across,) = stmt.body
        assert isinstance(across, ops.For)
        if form.kept.keys() & set(_results(across)):
            return _tree(form, stmt, across)
    if isinstance(stmt, ops.For | ops.While):
        return [msgspec.structs.replace(stmt, body=_body(form, stmt.body))]
    if isinstance(stmt, ops.If):
        then, otherwise = _body(form, stmt.then), _body(form, stmt.otherwise)
        return [msgspec.structs.replace(stmt, then=then, otherwise=otherwise)]
    return [_shared(form, stmt)]


def _shared(form: Blocked, stmt: ops.Stmt) -> ops.Stmt:
    """A statement whose strands' results are in shared memory."""

    def expr(node: ops.Expr) -> ops.Expr:
        new = rebuild_expr(node, expr)
        if isinstance(new, ops.Elem) and _root(new) in form.kept:
            return _as_value(form.place(_root(new), new.index), form.kept[_root(new)])
        return new

    def each(inner: ops.Stmt) -> ops.Stmt:
        if isinstance(inner, ops.Assign) and _root(inner.place) in form.kept:
            assert isinstance(inner.place, ops.Elem)
            to = form.place(_root(inner.place), expr(inner.place.index))
            value = _as_word(expr(inner.value), form.kept[_root(inner.place)])
            return ops.Assign(to, value, inner.line)
        return rebuild_stmt(inner, expr, each)

    return each(stmt)


def _as_word(value: ops.Expr, type_: ops.ScalarType) -> ops.Expr:
    """A value as a word of shared memory."""
    if type_ == ops.I64_T:
        return value
    return ops.Unary("bits" if type_ == ops.F64_T else "bool_to_i64", value)


def _as_value(word: ops.Expr, type_: ops.ScalarType) -> ops.Expr:
    """The value that a word holds."""
    if type_ == ops.F64_T:
        return ops.Unary("from_bits", word)
    return word if type_ == ops.I64_T else ops.Binary("ine", word, ops.i64(0))


def _mine(form: Blocked, number: str, name: str) -> ops.Let:
    """What this thread has of the elements 0, 1, 2, ...: each `threads`-th one."""
    ahead = ops.Binary("imul", ops.Var(number), ops.i64(form.threads))
    return ops.Let(name, ops.I64_T, ops.Binary("iadd", ME, ahead))


def _strands(form: Blocked, loop: ops.For) -> list[ops.Stmt]:
    """The strands of this thread, between two barriers: who has read the last root, may write."""
    rest = ops.Binary("isub", ops.i64(STRANDS - 1), ME)
    count = ops.Binary("iadd", ops.Binary("idiv", rest, ops.i64(form.threads)), ops.i64(1))
    body = rebuild_body(loop.body, lambda stmt: _shared(form, stmt))
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
    lane = ops.Binary("iand", ME, ops.i64(WARP - 1))
    shuffled: list[ops.Stmt] = []
    for step in steps:
        name, own = _root(step.place), f"block.{_root(step.place)}.{levels.name}"
        type_ = form.kept[name]
        first = _as_value(form.place(name, lane), type_)
        stmts.append(ops.Let(own, type_, first, step.line))
        shuffled += _exchanged(step, name, own, type_, across.hi)
    stmts.append(ops.For(levels.name, ops.i64(below), ops.i64(STRANDS_LOG2), tuple(shuffled)))
    roots = tuple(
        ops.Assign(
            form.place(_root(step.place), ops.i64(0)),
            _as_word(
                ops.Var(f"block.{_root(step.place)}.{levels.name}"), form.kept[_root(step.place)]
            ),
        )
        for step in steps
    )
    return [*stmts, ops.If(ops.Binary("ieq", ME, ops.i64(0)), roots), WAIT]


def _exchanged(
    step: ops.Assign, name: str, own: str, type_: ops.ScalarType, half: ops.Expr
) -> list[ops.Stmt]:
    """One level of the tree in a warp: the value of the lane `half` further on into one's own.

    Only the lanes below `half` have a meaning from then on, and lane 0 at last.
    """
    other = f"{OTHER}.{own}"
    word = ops.Call(SHUFFLE, (_as_word(ops.Var(own), type_), half))
    first = step.place

    def expr(node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Elem) and _root(node) == name:
            return ops.Var(own if node == first else other)
        return rebuild_expr(node, expr)

    return [
        ops.Let(f"word.{other}", ops.I64_T, word),
        ops.Let(other, type_, _as_value(ops.Var(f"word.{other}"), type_)),
        ops.Assign(ops.Var(own), expr(step.value), step.line),
    ]

