"""An instant of a worker of signals, cut into pieces that a GPU runs one after the other.

The worker's `ingest` takes events in, its `instant` evaluates what is asked. A loop over the
instruments of a universe whose turns do not need each other becomes a piece of its own, with a
thread for each instrument; where it calls a kernel, threads stop, and a block for each instrument
runs that. What is not of an instrument is a piece of one thread. So are all pieces of a strategy
where this cannot be proven; the words that they leave are the same.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.walk import (
    expressions,
    nested,
    operands,
    rebuild_body,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)
from quantdsl.passes.beside import Beside, beside
from quantdsl.passes.effects import Analysis
from quantdsl.passes.inline import inline_hot
from quantdsl.passes.places import Path, is_table, overlap, path_of
from quantdsl.passes.scopes import assigned_names, declared_names

INGEST, INSTANT = "ingest", "instant"
VALUES, KEPT = "values", "kept"
WHICH = ops.Var("which")
"""The number of the instrument, in pieces of each."""

Body = tuple[ops.Stmt, ...]
How = Literal["one", "each", "block"]


class Piece(NamedTuple):
    """What one thread does, or a thread for each instrument, or a block for each."""

    how: How
    body: Body
    kernel: str = ""
    """What a block runs; `body` then holds its one call."""
    beside: Beside | None = None
    """The body of a thread for each instrument as parts, where it has some: a thread for each."""


class Ingest(NamedTuple):
    """Events into the state: what `one` thread does of each, and what the events of `each`
    instrument do to what is that instrument's own, without a look at others."""

    one: Body
    each: Body | None
    """None where one thread does all of it."""


class Cut(NamedTuple):
    """The pieces of an instant in their order, and how many words an instrument keeps for them."""

    module: ops.Module
    ingest: Ingest
    pieces: tuple[Piece, ...]
    kept: int


def cut_instant(
    module: ops.Module, kernels: Mapping[str, int], instruments: int, *, apart: bool, parts: int
) -> Cut:
    """The pieces of a linked module with the entries INGEST and INSTANT.

    `kernels` are the functions that blocks of so many threads can run. With `apart` what a bar
    does to words of many alike is its instrument's own; on ticks it is not. What is done of an
    instrument may fall into so many `parts`.
    """
    calls = [msgspec.structs.replace(func, cold=func.name in kernels) for func in module.funcs]
    whole = msgspec.structs.replace(module, funcs=tuple(calls))
    flat = inline_hot(inline_hot(whole, INGEST), INSTANT)
    bodies, look = {func.name: func.body for func in flat.funcs}, _Look(flat)
    ingest, slots = bodies[INGEST], _Slots(instruments)
    pieces = _joined(_pieces(bodies[INSTANT], instruments, look), look)
    if not _closed(pieces):
        return Cut(flat, Ingest(ingest, None), (Piece("one", bodies[INSTANT]),), 0)
    made = [part for piece in pieces for part in _at_kernels(piece, kernels, slots, look)]
    analysis = Analysis(flat)
    made = [
        piece._replace(beside=beside(piece.body, analysis, parts, {VALUES}))
        if piece.how == "each"
        else piece
        for piece in made
    ]
    taken = _sliced(ingest, look) if apart else Ingest(ingest, None)
    return Cut(flat, taken, tuple(made), len(slots.all))


class _Look:
    """What statements write to, calls of functions that were not inlined included."""

    def __init__(self, module: ops.Module) -> None:
        self.inout = {func.name: [p.inout for p in func.params] for func in module.funcs}
        self.results = {f.name: f.result for f in module.funcs if isinstance(f.result, str)}

    def written(self, body: Body) -> list[ops.Expr]:
        """The places that statements write to, and those that they hand to calls to do so."""
        found: list[ops.Expr] = []
        for stmt in statements(body):
            if isinstance(stmt, ops.Assign):
                found.append(stmt.place)
            for expr in roots(stmt):
                if isinstance(expr, ops.Call):
                    pairs = zip(expr.args, self.inout[expr.func], strict=True)
                    found += [arg for arg, inout in pairs if inout]
        return found

    def own(self, body: Body, which: str) -> bool:
        """Whether statements write at the index `which` alone, and read there what they write."""
        declared = declared_names(body)
        written = [place for place in self.written(body) if _root(place) not in declared]
        if not all(_at(place, which) for place in written):
            return False
        if any(isinstance(stmt, ops.Return) for stmt in statements(body)):
            return False
        paths = [path_of(place) or () for place in written if _root(place) != VALUES]
        read = (place for stmt in statements(body) for place in _places(roots(stmt)))
        return all(
            _at(place, which) or not any(overlap(path_of(place) or (), path) for path in paths)
            for place in read
        )


# ---- loops over the instruments -----------------------------------------------------------------


def _pieces(body: Body, instruments: int, look: _Look) -> Iterator[Piece]:
    """Statements as pieces, in order; those of each instrument name WHICH."""
    for stmt in body:
        if (
            isinstance(stmt, ops.For)
            and _over_all(stmt, instruments)
            and look.own(stmt.body, stmt.name)
        ):
            yield Piece("each", named(stmt.body, {stmt.name: WHICH}))
            continue
        inner = list(_pieces(stmt.then, instruments, look)) if isinstance(stmt, ops.If) else []
        parts = any(piece.how == "each" for piece in inner)
        if parts and _settled(stmt, look) and _closed(_joined(inner, look)):
            assert isinstance(stmt, ops.If)
            for piece in inner:
                yield Piece(piece.how, (ops.If(stmt.cond, piece.body, (), stmt.line),))
            continue
        yield Piece("one", (stmt,))


def _over_all(loop: ops.For, instruments: int) -> bool:
    return loop.lo == ops.i64(0) and loop.hi == ops.i64(instruments)


def _settled(stmt: ops.Stmt, look: _Look) -> bool:
    """Whether a branch can be asked again by each piece of it: nothing in it changes the answer."""
    assert isinstance(stmt, ops.If)
    if stmt.otherwise:
        return False
    asked = [path_of(place) or () for place in _places((stmt.cond,))]
    written = [path_of(place) or () for place in look.written(stmt.then)]
    return not any(overlap(one, other) for one in asked for other in written)


def _at(place: ops.Expr, which: str) -> bool:
    """Whether a place lies at the index `which`, or in what answers are written to."""
    while isinstance(place, ops.Field | ops.Elem):
        if isinstance(place, ops.Elem) and place.index == ops.Var(which):
            return True
        place = place.base
    return place == ops.Var(VALUES)


def _places(exprs: Iterable[ops.Expr]) -> Iterator[ops.Expr]:
    """The places in expressions, each as a whole, and those in their indices."""
    todo = list(exprs)
    while todo:
        expr = todo.pop()
        if isinstance(expr, ops.Var | ops.Field | ops.Elem) and not is_table(expr):
            yield expr
            while isinstance(expr, ops.Field | ops.Elem):
                if isinstance(expr, ops.Elem):
                    todo.append(expr.index)
                expr = expr.base
        else:
            todo += operands(expr)


def _root(place: ops.Expr) -> str:
    return str((path_of(place) or ("",))[0])


def named(body: Body, names: Mapping[str, ops.Expr]) -> Body:
    """Statements with other expressions for some names."""

    def expr(node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Var):
            return names.get(node.name, node)
        return rebuild_expr(node, expr)

    def each(stmt: ops.Stmt) -> ops.Stmt:
        return rebuild_stmt(stmt, expr, each)

    return rebuild_body(body, each)


def _joined(pieces: Iterable[Piece], look: _Look) -> list[Piece]:
    """Neighbours of one kind as one, where they still are apart."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.how == piece.how:
            both = (*last.body, *piece.body)
            if piece.how == "one" or look.own(both, WHICH.name):
                joined[-1] = Piece(piece.how, both)
                continue
        joined.append(piece)
    return joined


def _closed(pieces: Iterable[Piece]) -> bool:
    """Whether no piece uses a local of another."""
    for piece in pieces:
        seen = declared_names(piece.body) | {"s", VALUES, WHICH.name}
        if any(isinstance(n, ops.Var) and n.name not in seen for n in expressions(piece.body)):
            return False
    return True


# ---- events -------------------------------------------------------------------------------------


def _sliced(body: Body, look: _Look) -> Ingest:
    """What an event does, in two: to words that are one for all, and to those of its instrument."""
    shared, own = _slice(body, look, own=False), _slice(body, look, own=True)
    declared = declared_names(body)

    def touched(part: Body) -> tuple[list[Path], list[Path]]:
        written = [path_of(p) or () for p in look.written(part) if _root(p) not in declared]
        read = [path_of(place) or () for stmt in statements(part) for place in _places(roots(stmt))]
        return written, read

    (one_writes, one_reads), (own_writes, own_reads) = touched(shared), touched(own)
    meets = [
        (x, y)
        for writes, reads in ((one_writes, own_reads), (own_writes, one_reads))
        for x in writes
        for y in reads
        if x[0] == y[0] and overlap(x, y)
    ]
    mixed = any(isinstance(expr, ops.Call) for stmt in statements(shared) for expr in roots(stmt))
    return Ingest(body, None) if meets or mixed else Ingest(shared, own)


def _slice(body: Body, look: _Look, *, own: bool) -> Body:
    """The statements that write to words of instruments, or those that write to others; what
    they are made of stays."""
    made: list[ops.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ops.Assign):
            if _root(stmt.place) != "s" or _indexed(stmt.place) == own:
                made.append(stmt)
        elif isinstance(stmt, ops.Do):
            if _wants(stmt, look, own=own):
                made.append(stmt)
        elif nested(stmt):
            if _wants(stmt, look, own=own):
                made.append(_inner(stmt, lambda inner: _slice(inner, look, own=own)))
        else:
            made.append(stmt)
    return tuple(made)


def _inner(stmt: ops.Stmt, f: Callable[[Body], Body]) -> ops.Stmt:
    if isinstance(stmt, ops.If):
        return ops.If(stmt.cond, f(stmt.then), f(stmt.otherwise), stmt.line)
    assert isinstance(stmt, ops.For | ops.While)
    return msgspec.structs.replace(stmt, body=f(stmt.body))


def _wants(stmt: ops.Stmt, look: _Look, *, own: bool) -> bool:
    """Whether a statement writes to such words."""
    places = (place for place in look.written((stmt,)) if _root(place) == "s")
    return any(_indexed(place) == own for place in places)


def _indexed(place: ops.Expr) -> bool:
    """Whether a place is one of many alike."""
    while isinstance(place, ops.Field | ops.Elem):
        if isinstance(place, ops.Elem):
            return True
        place = place.base
    return False


# ---- kernels ------------------------------------------------------------------------------------


class _Slots:
    """Words that an instrument keeps from one piece to the next."""

    def __init__(self, instruments: int) -> None:
        self.instruments = instruments
        self.all: list[str] = []
        self.fresh = itertools.count()

    def place(self, name: str) -> ops.Elem:
        """The word of a name, new or known."""
        if name not in self.all:
            self.all.append(name)
        first = ops.i64(self.all.index(name) * self.instruments)
        return ops.Elem(ops.Var(KEPT), ops.Binary("iadd", first, WHICH))


def _at_kernels(
    piece: Piece, kernels: Mapping[str, int], slots: _Slots, look: _Look
) -> Iterator[Piece]:
    """A piece of each instrument in parts, with the kernels that it calls as blocks between."""
    while piece.how == "each":
        found = _Split(kernels, slots, look)
        before, after = found.at_first(piece.body)
        if found.block is None:
            break
        clear = [ops.Assign(slots.place(name), ops.i64(0)) for name in found.flags]
        carried = found.carried(before, after)
        if carried is None:
            break
        before, after = carried
        yield Piece("each", (*clear, *before))
        yield found.block
        piece = Piece("each", after)
    yield piece


class _Split:
    """One call of a kernel taken out of the statements around it."""

    def __init__(self, kernels: Mapping[str, int], slots: _Slots, look: _Look) -> None:
        self.kernels, self.slots, self.look = kernels, slots, look
        self.block: Piece | None = None
        self.flags: list[str] = []

    def at_first(self, body: Body) -> tuple[Body, Body]:
        """What stands before the first call that can be taken out, and what follows it."""
        for k, stmt in enumerate(body):
            if isinstance(stmt, ops.Let | ops.Assign) and self._takes(stmt.value):
                return body[:k], (*self._call(stmt), *body[k + 1 :])
            if not isinstance(stmt, ops.If):
                continue
            flag = f"flag.{next(self.slots.fresh)}"
            self.flags.append(flag)
            before, after = self.at_first(stmt.then)
            if self.block is None:
                self.flags.pop()
                continue
            place = self.slots.place(flag)
            mark = ops.Assign(place, ops.i64(1))
            first = ops.If(stmt.cond, (mark, *before), stmt.otherwise, stmt.line)
            return (*body[:k], first), (ops.If(_set(place), after), *body[k + 1 :])
        return body, ()

    def _takes(self, call: ops.Expr | None) -> bool:
        """Whether a value is a kernel's of the instrument's own windows."""
        return (
            isinstance(call, ops.Call)
            and call.func in self.kernels
            and all(_at(arg, WHICH.name) for arg in call.args if _indexed(arg))
        )

    def _call(self, stmt: ops.Let | ops.Assign) -> Body:
        """A call as a block of its own, which keeps its result; what is left of the statement."""
        call = stmt.value
        assert isinstance(call, ops.Call)
        type_ = self.look.results[call.func]
        told = self.slots.place(f"result.{next(self.slots.fresh)}")
        name = "result"
        leave = ops.Assign(told, ops.as_word(ops.Var(name), type_))
        body: Body = (ops.Let(name, type_, call, stmt.line), leave)
        for flag in self.flags[-1:]:
            body = (ops.If(_set(self.slots.place(flag)), body),)
        self.block = Piece("block", body, call.func)
        return (msgspec.structs.replace(stmt, value=ops.as_value(told, type_)),)

    def carried(self, before: Body, after: Body) -> tuple[Body, Body] | None:
        """Locals that live on in the block or behind it, kept as words where they are declared;
        None where one of them is no word, or changes."""
        assert self.block is not None
        declared = {stmt.name: stmt for stmt in statements(before) if isinstance(stmt, ops.Let)}
        later = {
            node.name
            for part in (after, self.block.body)
            for node in expressions(part)
            if isinstance(node, ops.Var)
        }
        own = {s.name for s in statements((*after, *self.block.body)) if isinstance(s, ops.Let)}
        names = [name for name in declared if name in later - own]
        changing = assigned_names((*before, *after))
        load: list[ops.Stmt] = []
        for name in names:
            type_ = declared[name].type
            if not isinstance(type_, str) or name in changing:
                return None
            place = self.slots.place(f"local.{name}")
            load.append(ops.Let(name, type_, ops.as_value(place, type_)))

        def keep(body: Body) -> Body:
            made: list[ops.Stmt] = []
            for stmt in body:
                made.append(_inner(stmt, keep) if nested(stmt) else stmt)
                if isinstance(stmt, ops.Let) and stmt.name in names:
                    assert isinstance(stmt.type, str)
                    word = ops.as_word(ops.Var(stmt.name), stmt.type)
                    made.append(ops.Assign(self.slots.place(f"local.{stmt.name}"), word))
            return tuple(made)

        self.block = self.block._replace(body=(*load, *self.block.body))
        return keep(before), (*load, *after)


def _set(flag: ops.Elem) -> ops.Expr:
    return ops.Binary("ine", flag, ops.i64(0))
