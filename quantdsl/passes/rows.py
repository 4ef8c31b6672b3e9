"""Compute once for all lanes what is the same in each of them.

The entry's loop over events is taken apart. `rows` runs it once, on any lane's state, as far as
lanes share it: clocks, sessions, prices, the conditions on them. For each turn it writes a row of
words. The entry loops over rows instead of events and reads from a row what it would compute: what
is left of it is each lane's own affair. What rare code alone reads stands at the end of a row.
"""

import itertools
from collections.abc import Set
from typing import NamedTuple

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    F64_T,
    I64_T,
    UNARY,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    ScalarType,
    Select,
    Stmt,
    Table,
    Type,
    Unary,
    Var,
    While,
    as_value,
    as_word,
    i64,
)
from quantdsl.ir.walk import (
    nodes_in,
    rebuild_blocks,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)
from quantdsl.passes.common import COMMON, takes_common
from quantdsl.passes.effects import Analysis
from quantdsl.passes.flags import ends_early
from quantdsl.passes.parts import Parts, parts_of
from quantdsl.passes.past import COUNT, past_name, with_changes, with_past
from quantdsl.passes.places import (
    PathSet,
    as_place,
    indices,
    is_table,
    path_of,
    spelled_path,
    type_at,
)
from quantdsl.passes.scopes import assigned_names, local_types, promoted, reads_of_names
from quantdsl.passes.uniform import Uniform, uniform

ROWS = "rows"
"""The entry that writes rows, and what the other one calls them."""
ROW_WORDS = "ROW_WORDS"
"""The module's size that says how many words a row has."""
STEP_WORDS = 4
"""A row takes a multiple of so many words, so that neighbours can be loaded at once."""
FLAGS = 62
"""Truth values in one word."""
MEANT_NODES = 24
"""Larger values are told apart by the local that holds them."""
OUT, ROW, BASE = "out@", "row@", "base@"

Block = tuple[Stmt, ...]


def split_rows(
    module: Module, entry: str, results: Set[str], varying: Set[str], *, past: bool = False
) -> Module:
    """The module with an entry `rows` more, and an entry that loops over rows.

    Lanes differ in the words `varying` of the state when they start. What they have in common is
    at hand only where they take the events themselves, or, where `past` is asked for, as it was at
    any moment (past.py). The module comes as it is where the entry is not one loop, or hands whole
    events on.

        rows(inout s: State, events, n, inout out: buffer[i64]) -> i64
        entry(inout s: State, rows: buffer[i64], n, ...)

    The result of `rows` is the number of rows, n of the entry; one more follows, for its end.
    """
    func = next(func for func in module.funcs if func.name == entry)
    parts = parts_of(func)
    if parts is None or (takes_common(func) and not past):
        return module
    plain = module
    module = with_changes(module) if takes_common(func) else module
    shared = uniform(module, entry, varying)
    if not shared.expr(Var(COMMON)):
        return plain
    plan, does = _Plan(frozenset(), frozenset(), 0, 0, 0, 0), Analysis(module)
    while True:
        splitter = _Splitter(module, func, parts, shared, does, plan)
        rows, lane = splitter.funcs(results)
        if splitter.events in reads_of_names(lane.body):
            return plain  # a call is given a whole event
        others = {param.name for param in func.params[3:]} - {COMMON}
        if others & set(reads_of_names(rows.body)):
            return plain  # a column that all lanes read alike stays theirs
        if splitter.plan() == plan:
            break
        plan = splitter.plan()
    sizes = tuple(sorted((dict(module.sizes) | {ROW_WORDS: plan.words()}).items()))
    if takes_common(func):
        both = with_past(module, rows, lane)
        return plain if both is None else msgspec.structs.replace(both, sizes=sizes)
    funcs = []
    for each in module.funcs:
        funcs += [rows, lane] if each.name == entry else [each]
    entries = (*(name for name in module.entries if name != entry), ROWS, entry)
    return msgspec.structs.replace(module, funcs=tuple(funcs), entries=entries, sizes=sizes)


class _Plan(NamedTuple):
    """What must be known before a split can be written down: it is tried until it is right."""

    both: frozenset[str]
    """Locals that lanes share but compute themselves too, since an inner loop changes them."""
    warm: frozenset[Expr]
    """What rare code reads first, but other code reads too."""
    flags: int
    hot: int
    cold: int
    last: int
    """Words that are stored at the end."""

    def flag_words(self) -> int:
        return -(-self.flags // FLAGS)

    def words(self) -> int:
        words = max(self.flag_words() + self.hot + self.cold, self.last, 1)
        return -(-words // STEP_WORDS) * STEP_WORDS


class _Splitter:
    """Writes the two functions; `made` takes the statements of `rows` at hand."""

    def __init__(
        self, module: Module, func: Func, parts: Parts, shared: Uniform, does: Analysis, plan: _Plan
    ) -> None:
        self.layout, self.analysis = Layout(module.structs), does
        self.tables: dict[str, ScalarType] = {table.name: table.type for table in module.tables}
        self.func, self.parts, self.shared, self.given = func, parts, shared, plan
        self.types = local_types(func)
        self.held = promoted(func)
        self.state, self.events, self.count = (param.name for param in func.params[:3])
        self.changing = assigned_names((parts.loop,))
        self.fixed = {name for name in self.held if name in shared.locals - self.changing}
        """Words that never change: lanes hold them too."""
        self.owned = {name for name in self.held if name in shared.locals}
        self.owned |= {self.count, parts.loop.name}
        """Shared locals that `rows` knows at this point."""
        self.frozen: frozenset[str] = frozenset()
        """Those of them that an inner loop changes, and the state, if it is in one."""
        self.memory = {self.state, COMMON} if takes_common(func) else {self.state}
        """What calls and inner loops may change besides locals."""
        self.both, self.warm = set(plan.both), set(plan.warm)
        self.open: list[list[Stmt]] = [[]]
        """What `rows` does in each block that is open, the innermost last."""
        self.told: list[tuple[list[Stmt], Stmt]] = []
        """What `rows` writes, and where, in order."""
        self.set_at: dict[str, int] = {}
        """How deep the block is in which a local was given its value."""
        self.named: dict[Expr, frozenset[str]] = {}
        self.rare: set[Expr] = set()
        self.values: dict[Expr, tuple[Expr, int]] = {}
        """Shared expressions of this turn that a row holds: how a lane reads each, and how deep
        the block is in which it may."""
        self.meaning: dict[str, Expr] = {}
        """What a shared local was made of, as long as that is still the same."""
        self.flags = self.hot = self.cold = self.last = 0

    def plan(self) -> _Plan:
        return _Plan(
            frozenset(self.both), frozenset(self.warm), self.flags, self.hot, self.cold, self.last
        )

    # ---- the two functions --------------------------------------------------------------

    def funcs(self, results: Set[str]) -> tuple[Func, Func]:
        head, loop, _ = self.parts
        rows, lane = self.shared_block(loop.body, outermost=True)
        row_tail, lane_tail = self.tails(results)
        width = i64(self.given.words())
        zeros = [Let(_flag(k), I64_T, i64(0)) for k in range(self.given.flag_words())]
        turn = [Let(BASE, I64_T, Binary("imul", Var(ROW), width)), *zeros, *rows, *self.row_ends()]
        state, events, count = self.func.params[:3]
        words = BufferType(I64_T)
        rows_func = Func(
            ROWS,
            (
                *(state, events, count, ParamDecl(OUT, words, inout=True)),
                *(param for param in self.func.params if param.name == COMMON),
            ),
            I64_T,
            (
                *(stmt for stmt in head if stmt.name in self.owned),
                Let(ROW, I64_T, i64(0)),
                For(loop.name, loop.lo, loop.hi, tuple(turn), loop.line),
                Let(f"last.{BASE}", I64_T, Binary("imul", Var(ROW), width)),
                *row_tail,
                Return(Var(ROW)),
            ),
        )
        turn = [Let(BASE, I64_T, Binary("imul", Var(ROW), width)), *self.reading(lane)]
        kept = self.both | self.fixed
        lane_func = msgspec.structs.replace(
            self.func,
            params=(state, ParamDecl(ROWS, words), count, *self.func.params[3:]),
            body=(
                *(stmt for stmt in head if stmt.name in kept or stmt.name not in self.owned),
                For(ROW, i64(0), Var(count.name), tuple(turn), loop.line),
                *lane_tail,
            ),
        )
        return rows_func, lane_func

    def reading(self, lane: Block) -> Block:
        """A lane's turn with the words of its row that most turns read.

        They are loaded first and together, so that no branch waits for memory, but for those that
        a turn which may end early needs only if it goes on: nine in ten of a book's do not.
        """
        ends = next((k for k, stmt in enumerate(lane, 1) if ends_early((stmt,))), 0)
        flags = self.given.flag_words()
        names = [_flag(at) if at < flags else _hot(at) for at in range(flags + self.given.hot)]
        first = reads_of_names(lane[:ends] or lane)
        read = [Let(name, I64_T, self.word(Var(BASE), at)) for at, name in enumerate(names)]
        early = [let for let in read if let.name in first or not ends]
        late = [let for let in read if let not in early]
        return (*early, *lane[:ends], *late, *lane[ends:])

    def tails(self, results: Set[str]) -> tuple[Block, Block]:
        """What is stored at the end: lanes store of shared words only those that are results."""
        state = self.func.params[0]
        wanted = PathSet(
            (state.name, *spelled_path(self.layout, state.type, result)) for result in results
        )
        rows: list[Stmt] = []
        lane: list[Stmt] = []
        base = Binary("imul", Var(self.count), i64(self.given.words()))
        for name, stmt in self.parts.tail:
            if name not in self.owned or name in self.both:
                lane.append(stmt)
            if name not in self.owned:
                continue
            rows.append(stmt)
            if name not in self.both and wanted.meets(self.held[name]):
                type_ = self.types[name]
                assert isinstance(type_, str)
                rows.append(self.written(f"last.{BASE}", self.last, stmt.value, type_))
                value = as_value(self.word(base, self.last), type_)
                lane.append(msgspec.structs.replace(stmt, value=value))
                self.last += 1
        return tuple(rows), tuple(lane)

    def row_ends(self) -> Block:
        flags = [
            self.written(BASE, k, Var(_flag(k)), I64_T) for k in range(self.given.flag_words())
        ]
        return (*flags, Assign(Var(ROW), Binary("iadd", Var(ROW), i64(1))))

    def written(self, base: str, at: int, value: Expr, type_: ScalarType) -> Stmt:
        """`rows` writes a word."""
        return Assign(Elem(Var(OUT), Binary("iadd", Var(base), i64(at))), as_word(value, type_))

    def word(self, base: Expr, at: int) -> Expr:
        """A lane reads a word."""
        return Elem(Var(ROWS), Binary("iadd", base, i64(at)))

    # ---- statements that all lanes come by ----------------------------------------------

    def shared_block(self, body: Block, *, outermost: bool = False) -> tuple[Block, Block]:
        """What `rows` and what a lane does in a block that all lanes are in."""
        self.open.append([])
        lane: list[Stmt] = []
        for stmt in body:
            if outermost and not lane and self.skips(stmt):
                self.made.append(stmt)  # a turn that no lane does anything in has no row
            else:
                lane += self.stmt(stmt)
        made = self.open.pop()
        self.set_at = {name: min(depth, self.depth) for name, depth in self.set_at.items()}
        self.values = {e: read for e, read in self.values.items() if read[1] <= self.depth}
        return tuple(made), tuple(lane)

    @property
    def made(self) -> list[Stmt]:
        return self.open[-1]

    @property
    def depth(self) -> int:
        return len(self.open) - 1

    def skips(self, stmt: Stmt) -> bool:
        return isinstance(stmt, If) and stmt.then == (Continue(),) and self.exportable(stmt.cond)

    def stmt(self, stmt: Stmt) -> Block:
        """What a lane does; `rows` does its part."""
        match stmt:
            case Let():
                return self.let(stmt)
            case Assign():
                return self.assign(stmt)
            case Do():
                return self.called(stmt, stmt.call, same=False)
            case If() if self.shared.expr(stmt.cond):
                return self.branch(stmt)
            case For() | While():
                return self.inner_loop(stmt)
            case Break() | Continue():
                self.made.extend([*self.row_ends(), stmt])
                return (stmt,)
        return self.apart((stmt,))

    def let(self, stmt: Let) -> Block:
        same = stmt.name in self.shared.locals and isinstance(stmt.type, str)
        if isinstance(stmt.value, Call):
            lane = self.called(stmt, stmt.value, same=same)
        else:
            lane = self.apart((stmt,)) if not same or stmt.name in self.both else ()
            self.made.extend([stmt] if same else [])
            if same and stmt.value is not None and stmt.name not in self.changing:
                meant = self.meant(stmt.value)
                if len(list(itertools.islice(nodes_in(meant), MEANT_NODES))) < MEANT_NODES:
                    self.meaning[stmt.name] = meant
        self.owned |= {stmt.name} if same else set()
        self.set_at[stmt.name] = self.depth
        return lane

    def assign(self, stmt: Assign) -> Block:
        name = str((path_of(stmt.place) or ())[0])
        lane: Block = ()
        if name == COMMON:
            self.made.append(stmt)
        elif isinstance(stmt.value, Call):
            lane = self.called(stmt, stmt.value, same=name in self.owned)
        elif isinstance(stmt.place, Var) and name in self.owned:
            lane = self.apart((stmt,)) if name in self.both else ()
            self.made.append(stmt)
        else:
            lane = self.apart((stmt,))
            if name == self.state and self.shared.alike(stmt):
                self.made.append(stmt)
        self.forget(name)
        return lane

    def called(self, stmt: Let | Assign | Do, call: Call, *, same: bool) -> Block:
        """A call at a statement's root: it may change what is shared and what is not."""
        lane = () if self.of_common(stmt) else self.apart((stmt,))
        self.made.extend(self.shared_call(stmt, call, same=same))
        for name in self.memory:
            self.forget(name)
        return lane

    def branch(self, stmt: If) -> Block:
        """A condition that all lanes agree on."""
        start, told = (self.flags, self.hot, self.cold), len(self.told)
        before = set(self.values)
        cond = self.own(stmt.cond)
        made, lane = self.shared_block(stmt.then)
        made_else, lane_else = self.shared_block(stmt.otherwise)
        for name in self.changed(stmt.then):
            self.forget(name)  # the other side, which came later, may have read what was before
        if not lane and not lane_else:  # then nobody asks for the condition
            self.flags, self.hot, self.cold = start
            self.values = {e: read for e, read in self.values.items() if e in before}
            for place, write in self.told[told:]:
                place.remove(write)
            del self.told[told:]
        if made or made_else:
            self.made.append(If(stmt.cond, made, made_else, stmt.line))
        return (If(cond, lane, lane_else, stmt.line),) if lane or lane_else else ()

    def inner_loop(self, stmt: For | While) -> Block:
        """No row has room for what a turn of an inner loop computes: lanes do that themselves."""
        changed = assigned_names(stmt.body) | self.memory
        lane: Block = ()
        if self.of_common(stmt):
            self.made.append(stmt)
        else:
            outer, self.frozen = self.frozen, self.frozen | changed
            lane = self.apart((stmt,))
            self.frozen = outer
            self.made.extend(self.sliced((stmt,)))
        for name in changed:
            self.forget(name)
        return lane

    def of_common(self, stmt: Stmt) -> bool:
        """Whether a statement is about what lanes have in common, and nothing else."""
        if COMMON not in self.memory:
            return False
        found = self.analysis.body((stmt,))
        read, written = ({path[0] for path in paths} for paths in found)
        inner = {one.name for one in statements((stmt,)) if isinstance(one, Let | For)}
        if COMMON not in read | written or self.both & (inner | written):
            return False
        outer = written - self.owned - inner
        return outer <= {COMMON} and all(map(self.joint, statements((stmt,))))

    def joint(self, stmt: Stmt) -> bool:
        """Whether all lanes do the very same in a statement."""
        if isinstance(stmt, For | While) and not self.shared.together(stmt):
            return False
        found = ((root.args if isinstance(root, Call) else (root,)) for root in roots(stmt))
        return all(map(self.shared.expr, itertools.chain.from_iterable(found)))

    def sliced(self, body: Block) -> Block:
        """What `rows` does of a block, without a word about it."""
        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, If) and self.shared.expr(stmt.cond):
                sides = self.sliced(stmt.then), self.sliced(stmt.otherwise)
                made += [If(stmt.cond, *sides, stmt.line)] if any(sides) else []
            elif isinstance(stmt, For | While):
                if self.shared.together(stmt):
                    made.append(msgspec.structs.replace(stmt, body=self.sliced(stmt.body)))
            elif isinstance(stmt, Let | Assign | Do):
                made += self.sliced_step(stmt)
            elif isinstance(stmt, Break | Continue):
                made.append(stmt)
        return tuple(made)

    def sliced_step(self, stmt: Let | Assign | Do) -> list[Stmt]:
        same = False
        if isinstance(stmt, Let):
            same = stmt.name in self.shared.locals
        elif isinstance(stmt, Assign):
            own = isinstance(stmt.place, Var) or (path_of(stmt.place) or ())[0] in self.memory
            same = own and (self.shared.expr(stmt.place) or self.shared.alike(stmt))
        root = stmt.call if isinstance(stmt, Do) else stmt.value
        if not isinstance(root, Call):
            return [stmt] if same else []
        return self.shared_call(stmt, root, same=same)

    def shared_call(self, stmt: Let | Assign | Do, call: Call, *, same: bool) -> list[Stmt]:
        """A call as `rows` makes it: what lanes do not share cannot matter to what they do.

        Nothing is left of one that writes nothing, or only where lanes differ.
        """
        args: list[Expr] = []
        places: list[Expr] = []
        for param, arg in zip(self.analysis.funcs[call.func].params, call.args, strict=True):
            if not isinstance(param.type, str):
                places.append(arg)
            elif not self.shared.expr(arg):
                arg = Const(param.type, 0)
            args.append(arg)
        found = all(self.shared.expr(index) for place in places for index in indices(place))
        if not same and not (found and self.analysis.func(call.func).writes):
            return []
        made = Call(call.func, tuple(args))
        if isinstance(stmt, Do) or not same:
            return [Do(made, stmt.line)]
        return [msgspec.structs.replace(stmt, value=made)]

    # ---- statements of one lane ---------------------------------------------------------

    def apart(self, body: Block) -> Block:
        """What a lane does, reading from its row what is shared."""
        lane: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
                name = stmt.place.name
                if name not in self.owned - self.both:
                    lane.append(msgspec.structs.replace(stmt, value=self.own(stmt.value)))
                elif isinstance(stmt.value, Call):
                    lane.append(self.apart_stmt(Do(stmt.value, stmt.line)))
            elif self.spills(stmt):
                assert isinstance(stmt, Assign)
                lane.append(msgspec.structs.replace(stmt, value=self.own(stmt.value, cold=True)))
            else:
                lane.append(self.apart_stmt(stmt))
        return tuple(lane)

    def apart_stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Assign):
            place, value = self.own_place(stmt.place), self.own(stmt.value)
            return Assign(as_place(place), value, stmt.line)
        return rebuild_stmt(rebuild_blocks(stmt, self.apart), self.own, lambda inner: inner)

    def spills(self, stmt: Stmt) -> bool:
        """Whether a promoted word is stored for a call."""
        return (
            isinstance(stmt, Assign)
            and isinstance(stmt.value, Var)
            and self.held.get(stmt.value.name) == path_of(stmt.place)
        )

    # ---- expressions --------------------------------------------------------------------

    def own(self, expr: Expr, *, cold: bool = False) -> Expr:
        """An expression as a lane computes it."""
        if isinstance(expr, Var) and expr.name in self.both:
            return expr
        if self.exportable(expr):
            return self.exported(expr, cold=cold)
        if isinstance(expr, Var) and expr.name in self.owned & self.frozen - self.fixed:
            self.both.add(expr.name)
        if isinstance(expr, Call):
            call = rebuild_expr(expr, lambda arg: self.own(arg, cold=True))
            if any(COMMON in (path_of(arg) or ()) for arg in expr.args):
                assert isinstance(call, Call)
                return Call(past_name(call.func), (*call.args, self.own(COUNT, cold=True)))
            return call
        return rebuild_expr(expr, self.own)

    def own_place(self, place: Expr) -> Expr:
        """A place that is written to: its indices as a lane computes them."""
        if isinstance(place, Elem):
            return Elem(as_place(self.own_place(place.base)), self.own(place.index))
        return rebuild_expr(place, self.own_place)

    def exportable(self, expr: Expr) -> bool:
        """Whether `rows` can compute it, and a lane cannot just as well."""
        if not self.shared.expr(expr) or not isinstance(self.type_of(expr), str):
            return False
        found = list(nodes_in(expr))
        if not all(map(self.available, found)):
            return False
        return any(
            isinstance(node, Var) and node.name not in (*self.fixed, self.state) for node in found
        ) or any(isinstance(node, Field) for node in found)

    def available(self, node: Expr) -> bool:
        if isinstance(node, Var):
            known = node.name in self.owned | self.memory or node.name == self.events
            return known and node.name not in self.frozen
        return not isinstance(node, Call)

    def exported(self, expr: Expr, *, cold: bool) -> Expr:
        """How a lane reads what `rows` computes here."""
        meant = self.meant(expr)
        if meant in self.values:
            if not cold and meant in self.rare:
                self.warm.add(meant)
            return self.values[meant][0]
        cold = cold and meant not in self.warm
        type_ = self.type_of(expr)
        assert isinstance(type_, str)
        read: Expr
        if type_ == BOOL_T:
            word, bit = divmod(self.flags, FLAGS)
            self.flags += 1
            value = Binary("shl", Unary("bool_to_i64", expr), i64(bit))
            write: Stmt = Assign(Var(_flag(word)), Binary("ior", Var(_flag(word)), value))
            asked = Binary("iand", Var(_flag(word)), i64(1 << bit))
            read = Binary("ine", asked, i64(0))
        else:
            at = self.given.flag_words() + (self.given.hot + self.cold if cold else self.hot)
            self.hot, self.cold = self.hot + (not cold), self.cold + cold
            self.rare |= {meant} if cold else set()
            write = self.written(BASE, at, expr, type_)
            read = as_value(self.word(Var(BASE), at) if cold else Var(_hot(at)), type_)
            if isinstance(meant, Unary) and meant.op == "f32":
                read = Unary("f32", read)  # which it is: so targets know that it is one
        # As far out as it has its value: what rare code reads first, all that follows may read.
        depth = max((self.set_at.get(name, 1) for name in self.names(expr)), default=1)
        self.open[depth].append(write)
        self.told.append((self.open[depth], write))
        self.values[meant] = read, depth
        return read

    def forget(self, name: str) -> None:
        """A local has another value from here on."""
        self.set_at[name] = self.depth
        self.values = {e: read for e, read in self.values.items() if name not in self.names(e)}
        self.meaning = {n: e for n, e in self.meaning.items() if name not in self.names(e)}

    def changed(self, body: Block) -> set[str]:
        """The locals and parameters that a block gives another value, as a whole or in part."""
        names = set()
        for stmt in statements(body):
            if isinstance(stmt, Assign):
                names.add(str((path_of(stmt.place) or ())[0]))
            if isinstance(stmt, Do) or isinstance(getattr(stmt, "value", None), Call):
                names |= self.memory
        return names

    def names(self, expr: Expr) -> frozenset[str]:
        """The locals and parameters that an expression reads."""
        if expr not in self.named:
            self.named[expr] = frozenset(n.name for n in nodes_in(expr) if isinstance(n, Var))
        return self.named[expr]

    def meant(self, expr: Expr) -> Expr:
        """An expression with what its locals were made of, so that equal ones are seen."""
        if isinstance(expr, Var):
            return self.meaning.get(expr.name, expr)
        return rebuild_expr(expr, self.meant)

    def type_of(self, expr: Expr) -> Type | None:
        match expr:
            case Const():
                return expr.type
            case Unary():
                return UNARY[expr.op].result
            case Binary():
                return BINARY[expr.op].result
            case Select():
                return self.type_of(expr.x)
            case Call():
                return self.analysis.funcs[expr.func].result
            case Var() | Field() | Elem() if not is_table(expr):
                path = path_of(expr) or ()
                return type_at(self.layout, self.types[str(path[0])], path[1:])
            case Elem(base=Table(name)):
                return self.tables[name]
        return F64_T  # Fma


def _hot(at: int) -> str:
    return f"row.{at}@"


def _flag(word: int) -> str:
    return f"flags.{word}@"
