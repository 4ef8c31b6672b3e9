"""Words of the State that a GPU's turns change, in registers from turn to turn.

A turn with an order loads and stores some forty words of a lane's State, and what it stores the
next one loads. Memory of a thread is what its indices are not known of; all else may be in
registers, if nothing takes its address. So what turns change by a path without unknown indices is
taken out of the State before the first turn, and put back behind the last one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Assign,
    Binary,
    BufferType,
    Elem,
    Expr,
    Func,
    Module,
    ParamDecl,
    ScalarType,
    Stmt,
    Unary,
    Var,
    i64,
)
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt, roots, statements
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import Path, PathSet, known, path_of, place_at, type_at

HOT, REAL = "hot@", "hot.real@"
"""The params that hold them: words, and floats, which would be made canonical as words."""
HOT_TYPES = {HOT: BufferType(I64_T), REAL: BufferType(F64_T)}
HOT_SIZES = {HOT: "HOT_WORDS", REAL: "HOT_REALS"}
"""The module's sizes that say how many there are."""
MOST = 60
"""What is named most often: each takes two registers of the 255 that a thread has."""
TAKE, GIVE = "take", "give"
"""The functions take(s, inout hot, inout real) and give(inout s, hot, real): before all turns, and
behind them."""

Words = dict[Path, ScalarType]
Kept = dict[Path, tuple[Elem, ScalarType]]
"""Where each of them is in a param."""


def with_hot(module: Module, names: Sequence[str]) -> Module:
    """The module whose turns, functions that call nothing, have such words in two last params."""
    funcs = {func.name: func for func in module.funcs}
    chosen = [funcs[name] for name in names]
    kept = _kept(_words(module, chosen))
    moved = {func.name: _Mover(kept).func(func) for func in chosen}
    state = chosen[0].params[0]
    new = (_take(state, kept), _give(state, kept))
    made = [moved.get(name, func) for name, func in funcs.items()]
    counts = {
        size: sum(place.base == Var(param) for place, _ in kept.values())
        for param, size in HOT_SIZES.items()
    }
    return msgspec.structs.replace(
        module,
        funcs=(*made, *new),
        entries=(*module.entries, *(func.name for func in new)),
        sizes=tuple(sorted((dict(module.sizes) | counts).items())),
    )


def _words(module: Module, turns: Sequence[Func]) -> Words:
    """What turns assign by a path without unknown indices, and reach by no other one."""
    layout, analysis, state = Layout(module.structs), Analysis(module), turns[0].params[0]
    assigned: Words = {}
    named = Counter[Path]()
    wide = PathSet()
    for func in turns:
        for path, writes in _named(analysis, func):
            if path[0] != state.name:
                continue
            named[path] += 1
            type_ = type_at(layout, state.type, path[1:])
            if not known(path) or not isinstance(type_, str):
                wide.add(path)
            elif writes:
                assigned[path] = type_
    own = [path for path in assigned if not wide.meets(path)]
    return {path: assigned[path] for path in sorted(own, key=lambda path: -named[path])[:MOST]}


def _named(analysis: Analysis, func: Func) -> Iterator[tuple[Path, bool]]:
    """The paths that a function names, and whether it assigns to them."""
    for stmt in statements(func.body):
        if isinstance(stmt, Assign):
            yield path_of(stmt.place) or ("",), True
        for root in roots(stmt):
            for path in sorted(analysis.own_reads(root), key=str):  # a set has no order
                yield path, False


def _kept(words: Words) -> Kept:
    counts = Counter[str]()
    kept: Kept = {}
    for path, type_ in words.items():
        param = REAL if type_ == F64_T else HOT
        kept[path] = Elem(Var(param), i64(counts[param])), type_
        counts[param] += 1
    return kept


class _Mover:
    """Rewrites a function of turns."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def func(self, func: Func) -> Func:
        params = (*func.params, *_params(inout=True))
        return msgspec.structs.replace(func, params=params, body=tuple(map(self.stmt, func.body)))

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Assign) and (path := path_of(stmt.place)) in self.kept:
            place, type_ = self.kept[path]
            return Assign(place, _held(type_, self.expr(stmt.value)), stmt.line)
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        path = path_of(expr)
        if path is not None and path in self.kept:
            return _value(*self.kept[path])
        return rebuild_expr(expr, self.expr)


def _take(state: ParamDecl, kept: Kept) -> Func:
    body = (Assign(at, _held(type_, place_at(path))) for path, (at, type_) in kept.items())
    read = ParamDecl(state.name, state.type)
    return Func(TAKE, (read, *_params(inout=True)), None, tuple(body))


def _give(state: ParamDecl, kept: Kept) -> Func:
    body = (Assign(place_at(path), _value(at, type_)) for path, (at, type_) in kept.items())
    return Func(GIVE, (state, *_params(inout=False)), None, tuple(body))


def _params(*, inout: bool) -> tuple[ParamDecl, ...]:
    return tuple(ParamDecl(name, type_, inout=inout) for name, type_ in HOT_TYPES.items())


def _held(type_: ScalarType, value: Expr) -> Expr:
    """A value as its place holds it."""
    return Unary("bool_to_i64", value) if type_ == BOOL_T else value


def _value(place: Elem, type_: ScalarType) -> Expr:
    return Binary("ine", place, i64(0)) if type_ == BOOL_T else place
