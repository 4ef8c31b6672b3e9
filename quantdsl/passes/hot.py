"""Words of the State that a GPU's turns change, in registers from turn to turn.

A turn with an order loads and stores some forty words of a lane's State, and what it stores the
next one loads. Memory of a thread is what its indices are not known of; all else may be in
registers, if nothing takes its address. So what turns change by a path without unknown indices is
taken out of the State before the first turn, and put back behind the last one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

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
from quantdsl.passes.inline import with_callees
from quantdsl.passes.places import Path, PathSet, known, path_of, place_at, type_at

HOT, HOT_TYPE = "hot@", BufferType(I64_T)
"""The param that holds them."""
HOT_WORDS = "HOT_WORDS"
"""The module's size that says how many there are."""
MOST = 48
"""What is named most often: each takes two registers of the 255 that a thread has."""
TAKE, GIVE = "take", "give"
"""The functions take(s, inout hot) and give(inout s, hot): before all turns, and behind them."""

Words = dict[Path, ScalarType]


def with_hot(module: Module, slow: str, others: Sequence[str]) -> Module:
    """The module whose turns have such words in a last param.

    `slow` are the turns that may call, `others` those that do not. The module comes as it is where
    what turns call does not find room in them.
    """
    turns = with_callees(module, slow)
    if turns is None:
        return module
    funcs = {func.name: turns if func.name == slow else func for func in module.funcs}
    chosen = [funcs[name] for name in (slow, *others)]
    words = _words(module, chosen)
    moved = {func.name: _Mover(words).func(func) for func in chosen}
    state = turns.params[0]
    new = (_take(state, words), _give(state, words))
    made = [moved.get(name, func) for name, func in funcs.items()]
    return msgspec.structs.replace(
        module,
        funcs=(*made, *new),
        entries=(*module.entries, *(func.name for func in new)),
        sizes=tuple(sorted((dict(module.sizes) | {HOT_WORDS: len(words)}).items())),
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


class _Mover:
    """Rewrites a function of turns."""

    def __init__(self, words: Words) -> None:
        self.words = {path: (at, type_) for at, (path, type_) in enumerate(words.items())}

    def func(self, func: Func) -> Func:
        params = (*func.params, ParamDecl(HOT, HOT_TYPE, inout=True))
        return msgspec.structs.replace(func, params=params, body=tuple(map(self.stmt, func.body)))

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Assign) and (path := path_of(stmt.place)) in self.words:
            at, type_ = self.words[path]
            return Assign(_word(at), _BITS[type_](self.expr(stmt.value)), stmt.line)
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        path = path_of(expr)
        if path is not None and path in self.words:
            at, type_ = self.words[path]
            return _VALUE[type_](_word(at))
        return rebuild_expr(expr, self.expr)


def _take(state: ParamDecl, words: Words) -> Func:
    body = (
        Assign(_word(at), _BITS[type_](place_at(path)))
        for at, (path, type_) in enumerate(words.items())
    )
    read = ParamDecl(state.name, state.type)
    return Func(TAKE, (read, ParamDecl(HOT, HOT_TYPE, inout=True)), None, tuple(body))


def _give(state: ParamDecl, words: Words) -> Func:
    body = (
        Assign(place_at(path), _VALUE[type_](_word(at)))
        for at, (path, type_) in enumerate(words.items())
    )
    return Func(GIVE, (state, ParamDecl(HOT, HOT_TYPE)), None, tuple(body))


def _word(at: int) -> Elem:
    return Elem(Var(HOT), i64(at))


def _same(value: Expr) -> Expr:
    return value


_BITS: dict[str, Callable[[Expr], Expr]] = {
    I64_T: _same,
    F64_T: lambda value: Unary("bits", value),
    BOOL_T: lambda value: Unary("bool_to_i64", value),
}
_VALUE: dict[str, Callable[[Expr], Expr]] = {
    I64_T: _same,
    F64_T: lambda word: Unary("from_bits", word),
    BOOL_T: lambda word: Binary("ine", word, i64(0)),
}
"""How a value of a type is a word, and the other way."""
