"""Which values are the same in all lanes of a sweep.

All lanes see the same events in the same order. A word of the state is the same in every lane as
long as nothing writes to it what differs, or writes to it where only some lanes come by; then what
is computed from such words, and the branches on it, are the same too. Functions are followed into
what they call, since the clock of the core is set in them.
"""

from collections.abc import Callable, Set

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    Assign,
    Break,
    Call,
    Const,
    Continue,
    Do,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    Return,
    Stmt,
    Var,
    While,
)
from quantdsl.ir.own import MADE, OWN, own_steps
from quantdsl.ir.walk import operands, statements
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import (
    PLACES,
    Path,
    PathSet,
    indices,
    is_table,
    known,
    path_of,
    spelled_path,
)
from quantdsl.passes.scopes import promoted

Block = tuple[Stmt, ...]
STATE = "state"
"""The root of all paths of the state, whatever a function calls it."""
START = "init"
"""The entry that prepares a lane from its params."""


class Uniform:
    """What is the same in all lanes of one entry; `locals` are names of the entry.

    A local is the same in all lanes that are active where it is read; a branch or loop on
    expressions that are the same is taken by all lanes or by none.
    """

    def __init__(self, differing: "_Differing", frame: "_Frame", names: frozenset[str]) -> None:
        self._differing, self._frame = differing, frame
        self.locals = names

    def expr(self, expr: Expr) -> bool:
        """Whether an expression of the entry is the same in all active lanes."""
        return not self._differing.expr(expr, self._frame)

    def called(self, name: str, varying: Set[str]) -> "Uniform":
        """What they share of a function whose arguments differ in the parameters `varying`."""
        return uniform_called(self._differing.module, name, varying, self._differing.analysis)

    def place(self, place: Expr) -> bool:
        """Whether a scalar or a whole aggregate is, its indices included."""
        return self.expr(place)

    def alike(self, stmt: Assign) -> bool:
        """Whether all lanes write the same to the same place.

        One of several places may be written, some of which differ otherwise and some do not.
        """
        same = all(map(self.expr, (stmt.value, *indices(stmt.place))))
        return same and (self.expr(stmt.place) or not known(path_of(stmt.place) or ()))

    def together(self, loop: For | While) -> bool:
        """Whether all lanes that enter a loop of the entry make the same turns."""
        return not self._differing.parts(loop, self._frame)


def uniform(module: Module, entry: str, varying: Set[str]) -> Uniform:
    """What the lanes of an entry share, if they differ in the words `varying` at the start.

    `varying` are paths of the state as the layout spells them; `init` runs before the entry.
    """
    differing = _Differing(module)
    funcs = differing.analysis.funcs
    func = funcs[entry]
    state = func.params[0].type
    for spelling in varying:
        differing.paths.add((STATE, *spelled_path(differing.layout, state, spelling)))

    def follow() -> _Frame:
        frame = differing.entry(func)
        if START in funcs:
            differing.entry(funcs[START])
        return frame

    return _found(differing, func, differing.settled(follow))


def uniform_called(
    module: Module, name: str, varying: Set[str], analysis: Analysis | None = None
) -> Uniform:
    """What the lanes share of a function whose arguments differ in the parameters `varying`."""
    differing = _Differing(module, analysis)
    func = differing.analysis.funcs[name]

    def follow() -> _Frame:
        frame = _Frame({}, varying)
        differing.run(func, frame)
        return frame

    return _found(differing, func, differing.settled(follow))


def _found(differing: "_Differing", func: Func, frame: "_Frame") -> Uniform:
    names = frozenset(
        stmt.name for stmt in statements(func.body) if isinstance(stmt, Let | For)
    ) | {param.name for param in func.params if isinstance(param.type, str)}
    same = frozenset(name for name in names if not differing.expr(Var(name), frame))
    return Uniform(differing, frame, same)


class _Frame:
    """One function as it is called: what its parameters name, and which locals differ."""

    def __init__(self, given: dict[str, Path], varying: Set[str]) -> None:
        self.given = given
        self.varying = set(varying)
        self.born: dict[str, int] = {}
        """How many differing branches and loops each local was declared in."""
        self.result = False
        self.parted = False
        """Whether some lanes may have returned already."""


class _Differing:
    """The words of the state that differ between lanes; it only ever grows."""

    def __init__(self, module: Module, analysis: Analysis | None = None) -> None:
        self.module = module
        self.analysis = analysis or Analysis(module)
        self.layout = Layout(module.structs)
        self.own = (OWN, MADE) if own_steps(module) is not None else ()
        self.paths = PathSet()
        self.called: dict[tuple[object, ...], bool] = {}

    def settled(self, follow: Callable[[], _Frame]) -> _Frame:
        """What `follow` finds once no more words differ: one may be read before it comes to."""
        count = -1
        while count != len(self.paths):
            count, self.called = len(self.paths), {}
            frame = follow()
        return frame

    def entry(self, func: Func) -> _Frame:
        """Follow an entry, whose first parameter is the state."""
        state = func.params[0].name
        # A promoted word and its local are one: before either is read they are made equal.
        given = {name: (STATE, *path[1:]) for name, path in promoted(func).items()}
        frame = _Frame({state: (STATE,), **given}, frozenset(self.own))
        self.run(func, frame)
        return frame

    def run(self, func: Func, frame: _Frame) -> None:
        found = (-1, False)
        while found != (found := (len(frame.varying), frame.parted)):
            self.block(func.body, frame, int(frame.parted))

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: Block, frame: _Frame, depth: int) -> None:
        """Follow a block; `depth` counts the differing branches and loops around it."""
        for stmt in body:
            self.stmt(stmt, frame, depth + frame.parted)

    def stmt(self, stmt: Stmt, frame: _Frame, depth: int) -> None:
        match stmt:
            case Let():
                frame.born[stmt.name] = depth
                if stmt.name in frame.given:
                    return
                if stmt.value is not None and self.value(stmt.value, frame, depth):
                    frame.varying.add(stmt.name)
            case Assign():
                self.assign(stmt, frame, depth)
            case Do():
                self.value(stmt.call, frame, depth)
            case Return():
                differs = stmt.value is not None and self.value(stmt.value, frame, depth)
                frame.result = frame.result or differs or depth > 0
                frame.parted = frame.parted or depth > 0
            case If():
                inner = depth + self.expr(stmt.cond, frame)
                self.block(stmt.then, frame, inner)
                self.block(stmt.otherwise, frame, inner)
            case For() | While():
                self.loop(stmt, frame, depth)

    def loop(self, stmt: For | While, frame: _Frame, depth: int) -> None:
        if isinstance(stmt, For):
            frame.born[stmt.name] = depth
            if self.expr(stmt.lo, frame):
                frame.varying.add(stmt.name)
        self.block(stmt.body, frame, depth + self.parts(stmt, frame))

    def parts(self, loop: For | While, frame: _Frame) -> bool:
        """Whether lanes make different turns, or different ways through one."""
        bounds = (loop.lo, loop.hi) if isinstance(loop, For) else (loop.cond, loop.max)
        if any(self.expr(bound, frame) for bound in bounds):
            return True
        return self.leaves(loop.body, frame, apart=False)

    def leaves(self, body: Block, frame: _Frame, *, apart: bool) -> bool:
        """Whether only some lanes may take a break or continue of this loop."""
        for stmt in body:
            if isinstance(stmt, Break | Continue) and apart:
                return True
            if isinstance(stmt, If):
                inner = apart or self.expr(stmt.cond, frame)
                if any(
                    self.leaves(side, frame, apart=inner) for side in (stmt.then, stmt.otherwise)
                ):
                    return True
        return False

    def assign(self, stmt: Assign, frame: _Frame, depth: int) -> None:
        to = self.absolute(stmt.place, frame)
        if known(to) and path_of(stmt.value) and self.absolute(stmt.value, frame) == to:
            return  # between a promoted word and its local
        differs = self.value(stmt.value, frame, depth)
        differs = differs or any(self.expr(index, frame) for index in indices(stmt.place))
        name = str((path_of(stmt.place) or ())[0])
        if name in frame.given:
            if differs or depth:
                self.paths.add(to)
        elif differs or depth > frame.born.get(name, 0):
            frame.varying.add(name)

    # ---- expressions --------------------------------------------------------------------

    def value(self, expr: Expr, frame: _Frame, depth: int) -> bool:
        """Follow the value at a statement's root; whether it differs."""
        return self.call(expr, frame, depth) if isinstance(expr, Call) else self.expr(expr, frame)

    def expr(self, expr: Expr, frame: _Frame) -> bool:
        """Whether lanes that compute an expression may get different values."""
        if type(expr) is Const:
            return False
        if type(expr) is Call:
            return self.call(expr, frame, 0)
        if type(expr) not in PLACES or is_table(expr):
            return any(self.expr(operand, frame) for operand in operands(expr))
        return (
            str((path_of(expr) or ())[0]) in frame.varying
            or self.paths.meets(self.absolute(expr, frame))
            or any(self.expr(index, frame) for index in indices(expr))
        )

    def absolute(self, place: Expr, frame: _Frame) -> Path:
        """The path of a place from the state on, or from the local that holds it."""
        path = path_of(place) or ()
        return (*frame.given.get(str(path[0]), path[:1]), *path[1:])

    def call(self, call: Call, frame: _Frame, depth: int) -> bool:
        """Follow a call; whether its result differs."""
        func = self.analysis.funcs[call.func]
        given: dict[str, Path] = {}
        varying: set[str] = set()
        apart = depth > 0
        for param, arg in zip(func.params, call.args, strict=True):
            if isinstance(param.type, str):
                if self.expr(arg, frame):
                    varying.add(param.name)
                continue
            given[param.name] = path = self.absolute(arg, frame)
            apart = apart or any(self.expr(index, frame) for index in indices(arg))
            if path[0] in frame.varying:
                self.paths.add(path)
        writes = self.analysis.func(call.func).writes
        if apart and writes:
            for path in writes:
                self.paths.add((*given[str(path[0])], *path[1:]))
            return True
        key = (call.func, tuple(given.values()), frozenset(varying))
        if key not in self.called:
            inner = _Frame(given, varying)
            self.run(func, inner)
            self.called[key] = inner.result
        return apart or self.called[key]
