"""A kernel of threads as loops over its threads, from one place where they wait to the next.

The body was elaborated as one thread runs it. What differs between threads is found first: what is
made of a thread's number, of shared memory, or assigned where only some threads come. All else is
the same in all of them and is computed once. Then the body is cut where threads wait for each
other, and each piece becomes a loop over the threads (ir/threads.py). A local that a later piece
reads becomes an array, an element a thread.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct, field

from quantdsl.check import sizes
from quantdsl.check.context import Context
from quantdsl.check.waits import ID, WAITS, WIDE, Body, Mark, mark_of, wait_of
from quantdsl.check.warp_groups import (
    Group,
    Grouping,
    Meetings,
    Side,
    lanes_of,
    left_over,
    member,
    waits_alone,
)
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import called
from quantdsl.ir.walk import (
    base_name,
    nested,
    operands,
    rebuild_blocks,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
    with_expr,
)
from quantdsl.lang.ast import Span


def phased(
    cx: Context, body: Body, threads: int, marks: list[Mark], returns: Mapping[int, Span]
) -> Body:
    """The body of one thread as that of a block; reports where only some threads would wait.

    `returns` has the places of its returns, by the identity of the statement.
    """
    differs = _Differing(body, Grouping(body, threads))
    for call in differs.stuck:
        mark = marks[mark_of(call)]
        cx.error(
            "QD0909",
            f"not every thread comes to this '{mark.word}'",
            mark.span,
            reason="those that come would wait for the others for ever",
            help="put it behind the branch, and let the condition choose the value alone",
        )
    for stmt in differs.leaves[:1]:
        cx.error(
            "QD0909",
            "a thread returns while others go on",
            returns[id(stmt)],
            reason="all threads come to the end, and a result is that of thread 0",
            help="return at the end, or write a branch around what only some threads do",
        )
    if differs.stuck or differs.leaves:
        return ()
    meetings = Meetings(cx, marks)
    cut = _Cut(cx, differs, threads, meetings, differs.groups.all).body(body)
    for call in () if meetings.refused else left_over(cut):
        meetings.stuck(call)
    return () if meetings.refused else _Kept(cx, threads, cut).placed()


class _Differing:
    """What is not the same in all threads: locals, loops that end at different turns."""

    def __init__(self, body: Body, groups: Grouping) -> None:
        self.groups = groups
        self.names: set[str] = set()
        self._parted: set[int] = set()  # loops that only some threads leave early
        self.stuck: list[ops.Call] = []
        self.leaves: list[ops.Return] = []
        known = (-1, -1)
        while known != (len(self.names), len(self._parted)):
            known = len(self.names), len(self._parted)
            self.stuck.clear()
            self.leaves.clear()
            self._walk(body, apart=False, loop=None, group=groups.all)

    def expr(self, expr: ops.Expr | None) -> bool:
        """Whether a value differs."""
        if expr is None:
            return False
        if isinstance(expr, ops.Var):
            return expr == ID or expr.name in self.names or called(expr.name, form.SHARED)
        return any(map(self.expr, operands(expr)))

    def parts(self, stmt: ops.If, group: Group | None) -> tuple[Group | None, Group | None]:
        """Who takes each side of a branch, of a group; None where that is not known."""
        return self.groups.parted(stmt.cond, group) if self.expr(stmt.cond) else (group, group)

    def _walk(
        self, body: Body, *, apart: bool, loop: ops.Stmt | None, group: Group | None
    ) -> None:
        """`group` are the threads that come here; None: that is not known."""
        for stmt in body:
            call = wait_of(stmt)
            met = group is not None and call is not None and waits_alone(group, _kind(call))
            if call is not None and apart and not met:
                self.stuck.append(call)
            match stmt:
                case ops.Let():
                    one = called(stmt.name, form.SHARED) or called(stmt.name, form.RESULT)
                    if (apart or call is not None or self.expr(stmt.value)) and not one:
                        self.names.add(stmt.name)
                case ops.Assign():
                    root = base_name(stmt.place)
                    differs = apart or self.expr(stmt.value) or self.expr(stmt.place)
                    if differs and not called(root, form.SHARED):
                        self.names.add(root)
                case ops.If():
                    parted = apart or self.expr(stmt.cond)
                    then, otherwise = self.parts(stmt, group)
                    self._walk(stmt.then, apart=parted, loop=loop, group=then)
                    self._walk(stmt.otherwise, apart=parted, loop=loop, group=otherwise)
                case ops.For() | ops.While():
                    own = any(map(self.expr, roots(stmt))) or id(stmt) in self._parted
                    if (apart or own) and isinstance(stmt, ops.For):
                        self.names.add(stmt.name)
                    come = None if own else group
                    self._walk(stmt.body, apart=apart or own, loop=stmt, group=come)
                case ops.Break() | ops.Continue():
                    if apart and loop is not None:
                        self._parted.add(id(loop))
                case ops.Return() if apart:
                    self.leaves.append(stmt)


class _Cut(Struct):
    """Cuts a body where its threads wait."""

    cx: Context
    differs: _Differing
    threads: int
    meetings: Meetings
    group: Group
    """Those that come here."""
    out: list[ops.Stmt] = field(default_factory=list)
    now: list[ops.Stmt] = field(default_factory=list)

    def body(self, body: Body) -> Body:
        """The statements, those of each thread in loops over the threads."""
        outer = self.out, self.now
        self.out, self.now = [], []
        for stmt in body:
            self._stmt(stmt)
        self._close()
        made = tuple(self.out)
        self.out, self.now = outer
        return made

    def _close(self, stem: str = form.THREAD) -> None:
        """End the piece that is open."""
        if self.now:
            self.out.append(self._piece(self.group, tuple(self.now), stem))
        self.now = []

    def _piece(self, group: Group, body: Body, stem: str = form.THREAD) -> ops.For:
        """What each thread of a group does, as a loop over the threads."""
        if group != self.differs.groups.all:
            body = (ops.If(member(group), body),)
        name = self.cx.fresh(stem)
        own = tuple(with_expr(stmt, ID, ops.Var(name)) for stmt in body)
        return ops.For(name, ops.i64(0), ops.i64(self.threads), own)

    def _stmt(self, stmt: ops.Stmt) -> None:
        call = wait_of(stmt)
        if call is not None:
            self._wait(stmt, call)
        elif isinstance(stmt, ops.Let) and called(stmt.name, form.RESULT):
            self._close()
            self.out.append(with_expr(stmt, ID, ops.i64(0)))
        elif not self._of_threads(stmt):
            self._close()
            self.out.append(stmt)
        elif self._whole(stmt):
            self.now.append(stmt)
        elif isinstance(stmt, ops.If) and self.differs.expr(stmt.cond):
            self._close()
            sides = [Side(who, list(self._side(who, body))) for who, body in self._sides(stmt)]
            self.out += self.meetings.woven(sides, self._met)
        else:
            self._close()
            self.out.append(rebuild_blocks(stmt, self.body))

    def _sides(self, stmt: ops.If) -> Iterator[tuple[Group, Body]]:
        """The sides of a branch that groups take, those of its `elif`s too."""
        then, other = self.differs.groups.parted(stmt.cond, self.group)
        assert then is not None
        assert other is not None
        yield then, stmt.then
        self.group, outer = other, self.group
        inner = stmt.otherwise[0] if len(stmt.otherwise) == 1 else None
        apart = isinstance(inner, ops.If) and self.differs.expr(inner.cond)
        if isinstance(inner, ops.If) and apart and self.differs.parts(inner, other)[0] is not None:
            yield from self._sides(inner)
        else:
            yield other, stmt.otherwise
        self.group = outer

    def _side(self, group: Group, body: Body) -> Body:
        """One side of a branch, for its group."""
        self.group, outer = group, self.group
        made = self.body(body) if group else ()
        self.group = outer
        return made

    def _met(self, group: Group, call: ops.Call) -> ops.Stmt:
        """The meeting of a group."""
        if _kind(call) == form.NAMED_BARRIER:
            return self._piece(group, (ops.Do(ops.Call(form.NAMED_BARRIER, call.args[1:])),))
        if lanes_of(group) == form.LANES:
            return ops.Do(ops.Call(form.WARP_BARRIER, ()))
        return self._piece(group, (ops.Do(ops.Call(form.LANES_BARRIER, call.args[1:])),))

    def _of_threads(self, stmt: ops.Stmt) -> bool:
        """Whether anything in a statement differs between threads, or waits."""
        return self.group != self.differs.groups.all or any(
            wait_of(part) is not None
            or _counts(part)
            or any(map(self.differs.expr, roots(part)))
            or (isinstance(part, ops.Let) and part.name in self.differs.names)
            for part in statements((stmt,))
        )

    def _whole(self, stmt: ops.Stmt) -> bool:
        """Whether each thread can make it for itself: it waits nowhere, and leaves no loop."""
        parts = list(statements((stmt,)))
        own = {part.name for part in parts if isinstance(part, ops.Let | ops.For)}
        kept = own | self.differs.names
        for part in parts:
            if wait_of(part) is not None or isinstance(part, ops.Return):
                return False
            if isinstance(part, ops.Assign):
                root = base_name(part.place)
                if root not in kept and not called(root, form.SHARED):
                    return False
        return not any(_leaves(stmt))

    def _wait(self, stmt: ops.Stmt, call: ops.Call) -> None:
        kind, args = _kind(call), call.args[1:]
        if kind in (form.BARRIER, form.GRID_BARRIER):
            self._close()
            self.out.append(ops.Do(ops.Call(kind, ())))
            return
        if kind in (form.NAMED_BARRIER, form.WARP_BARRIER):
            self._close()
            own = self.group.bit_count() if kind == form.NAMED_BARRIER else lanes_of(self.group)
            alone = args[-1] == ops.i64(own or 0)
            if not alone and self.group != self.differs.groups.all:
                self.out.append(stmt)  # others come to it: `woven` says when
            elif self.meetings.admit(call, self.group):
                self.out.append(self._met(self.group, call))
            return
        assert isinstance(stmt, ops.Let)
        if kind in (form.SHUFFLE, form.BALLOT, form.MATCH):
            given = self.cx.fresh(form.GIVE)
            self.out.append(ops.Let(given, ops.ArrayType(ops.I64_T, self.threads), None))
            self.now.append(ops.Assign(ops.Elem(ops.Var(given), ID), args[0], stmt.line))
            self._close()
            taken = ops.Call(kind, (ops.Var(given), ID, *args[1:]), (self.threads,))
            self.now.append(ops.Let(stmt.name, ops.I64_T, taken, stmt.line))
            return
        # In order: one thread after the other reads what is there and puts the new value.
        place, value = args
        assert isinstance(place, ops.Elem)
        self._close()
        self.out += [form.TURN, form.WAIT] if kind.startswith(WIDE) else [form.WAIT]
        self.now += (
            ops.Let(stmt.name, stmt.type, place, stmt.line),
            ops.Assign(place, value, stmt.line),
        )
        self._close(form.ORDERED)
        self.out.append(form.WAIT)


def _kind(call: ops.Call) -> str:
    """As what threads wait there."""
    return call.func.removeprefix(WAITS)


def _counts(stmt: ops.Stmt) -> bool:
    """Whether a statement is an atomic or a copy, which every thread does for itself."""
    own = (*form.ATOMIC_CALLS, *form.COPIES.values(), form.COPIED)
    return isinstance(stmt, ops.Do) and stmt.call.func in own


def _leaves(stmt: ops.Stmt) -> Iterator[bool]:
    """Each `break` and `continue` in a statement that is one of a loop around it."""
    if isinstance(stmt, ops.Break | ops.Continue):
        yield True
    elif isinstance(stmt, ops.If):
        for inner in (*stmt.then, *stmt.otherwise):
            yield from _leaves(inner)


def _names(body: Iterable[ops.Stmt]) -> set[str]:
    """The variables that statements read or write."""
    return names_in(expr for stmt in statements(tuple(body)) for expr in roots(stmt))


def names_in(parts: Iterable[ops.Expr]) -> set[str]:
    """The variables that expressions name."""
    todo = list(parts)
    found = set()
    while todo:
        expr = todo.pop()
        if isinstance(expr, ops.Var):
            found.add(expr.name)
        todo += operands(expr)
    return found


class _Kept:
    """Gives what lives longer than its piece a place that lasts: an element for each thread."""

    def __init__(self, cx: Context, threads: int, body: Body) -> None:
        self.cx, self.threads, self.body = cx, threads, body
        self.kept: dict[str, tuple[str, ops.Type]] = {}
        pieces = [stmt for stmt in _pieces(body) if isinstance(stmt, ops.For)]
        used = [_names(piece.body) for piece in pieces]
        outside = _names(_without(body))
        for at, piece in enumerate(pieces):
            for stmt in _own(piece):
                if not isinstance(stmt, ops.Let):
                    continue
                others = (names for other, names in enumerate(used) if other != at)
                if stmt.name in outside or any(stmt.name in names for names in others):
                    whole = isinstance(stmt.type, ops.ArrayType)
                    name = cx.fresh(form.MINES if whole else form.MINE)
                    self.kept[stmt.name] = name, stmt.type

    def placed(self) -> Body:
        """The body with those places."""
        return self._body(self.body)

    def _body(self, body: Body) -> Body:
        made: list[ops.Stmt] = []
        for stmt in body:
            if _piece(stmt):
                assert isinstance(stmt, ops.For)
                number = ops.Var(stmt.name)
                made += [
                    self._declared(part.name)
                    for part in _own(stmt)
                    if isinstance(part, ops.Let) and part.name in self.kept
                ]
                own = tuple(new for part in _own(stmt) for new in self._moved(part, number))
                if _own(stmt) != stmt.body:
                    (branch,) = stmt.body
                    assert isinstance(branch, ops.If)
                    cond = self._in(number)(branch.cond)
                    own = (msgspec.structs.replace(branch, cond=cond, then=own),)
                made.append(msgspec.structs.replace(stmt, body=own))
                continue
            inner = rebuild_blocks(stmt, self._body)
            made.append(rebuild_stmt(inner, self._in(ops.i64(0)), lambda other: other))
        return tuple(made)

    def _declared(self, name: str) -> ops.Let:
        mine, type_ = self.kept[name]
        if isinstance(type_, ops.ArrayType):
            total = sizes.product(type_.size, self.threads)
            return ops.Let(mine, ops.ArrayType(type_.elem, total), None)
        return ops.Let(mine, ops.ArrayType(type_, self.threads), None)

    def _moved(self, stmt: ops.Stmt, number: ops.Expr) -> list[ops.Stmt]:
        """A statement of one thread, on the places that last."""
        expr = self._in(number)

        def each(inner: ops.Stmt) -> ops.Stmt:
            return rebuild_stmt(inner, expr, each)

        if not isinstance(stmt, ops.Let) or stmt.name not in self.kept:
            return [each(stmt)]
        mine, type_ = self.kept[stmt.name]
        if isinstance(type_, ops.ArrayType):
            assert isinstance(type_.elem, str)
            at = self.cx.fresh("i")
            place = ops.Elem(ops.Var(mine), self._slot(type_, number, ops.Var(at)))
            zero = ops.Assign(place, ops.Const(type_.elem, 0), stmt.line)
            return [ops.For(at, ops.i64(0), ops.SizeOf(type_.size), (zero,))]
        assert isinstance(type_, str)
        value = ops.Const(type_, 0) if stmt.value is None else expr(stmt.value)
        return [ops.Assign(ops.Elem(ops.Var(mine), number), value, stmt.line)]

    def _slot(self, type_: ops.ArrayType, number: ops.Expr, index: ops.Expr) -> ops.Expr:
        row = ops.Binary("imul", number, ops.SizeOf(type_.size))
        return ops.Binary("iadd", row, index)

    def _in(self, number: ops.Expr) -> "_Map":
        return _Map(self, number)


class _Map(Struct, frozen=True):
    """Expressions of the thread `number` on the places that last."""

    kept: _Kept
    number: ops.Expr

    def __call__(self, node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Elem) and isinstance(node.base, ops.Var):
            mine, type_ = self.kept.kept.get(node.base.name, ("", ops.I64_T))
            if isinstance(type_, ops.ArrayType):
                slot = self.kept._slot(type_, self.number, self(node.index))
                return ops.Elem(ops.Var(mine), slot)
        if isinstance(node, ops.Var) and node.name in self.kept.kept:
            return ops.Elem(ops.Var(self.kept.kept[node.name][0]), self.number)
        return rebuild_expr(node, self)


def _piece(stmt: ops.Stmt) -> bool:
    """Whether a statement is a loop over the threads."""
    if not isinstance(stmt, ops.For):
        return False
    return called(stmt.name, form.THREAD) or called(stmt.name, form.ORDERED)


def _own(piece: ops.For) -> Body:
    """What the threads of a piece do; that of a group stands in a branch."""
    only = piece.body[0] if len(piece.body) == 1 else None
    return only.then if isinstance(only, ops.If) and not only.otherwise else piece.body


def _pieces(body: Body) -> Iterator[ops.Stmt]:
    for stmt in body:
        if _piece(stmt):
            yield stmt
        else:
            for block in nested(stmt):
                yield from _pieces(block)


def _without(body: Body) -> Body:
    """The body without what its threads do."""
    return tuple(
        rebuild_stmt(stmt, lambda expr: expr, lambda inner: _hollow(inner))
        for stmt in body
        if not _piece(stmt)
    )


def _hollow(stmt: ops.Stmt) -> ops.Stmt:
    if _piece(stmt):
        return ops.Do(ops.Call(form.BARRIER, ()))
    return rebuild_stmt(stmt, lambda expr: expr, _hollow)
