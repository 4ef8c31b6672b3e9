"""One IR function as an LLVM function that works on W lanes at once.

Lanes run one code together. Where they part, it runs for those in the mask: a value assigned
meanwhile is blended, a store is masked, and a block that no lane enters is jumped over. So some
lane is active wherever code runs, and what is the same in all lanes is computed once.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from quantdsl.codegen.function import ZEROS
from quantdsl.codegen.simd_forms import Wanted
from quantdsl.codegen.simd_memory import Spot
from quantdsl.codegen.simd_ops import instructions
from quantdsl.codegen.simd_runs import RunEmitter
from quantdsl.codegen.simd_squares import square_of, transposed
from quantdsl.codegen.simd_text import LINE_WORDS, Value, VectorText, whole
from quantdsl.codegen.simd_values import SINGLE_WORDS, Local
from quantdsl.codegen.simd_vary import Loop, parts
from quantdsl.codegen.text import LLVM_TYPE
from quantdsl.errors import InternalError
from quantdsl.ir.ops import (
    Assign,
    Break,
    BufferType,
    Call,
    Continue,
    Do,
    Elem,
    Expr,
    For,
    Func,
    If,
    Let,
    Return,
    Stmt,
    StructOf,
    StructType,
    Var,
    While,
)
from quantdsl.ir.own import MADE, OWN, Steps
from quantdsl.ir.walk import operands, roots, statements
from quantdsl.passes.common import COMMON
from quantdsl.passes.row_turn import Row, Turn, row_word
from quantdsl.passes.uniform import Uniform

FLAT_COST = 6
"""An if on so few instructions on locals costs less to blend than to jump over."""
ROWS_AHEAD = 32
"""How far in front rows are asked for: some hundreds of nanoseconds."""
JUMP_COST = 2
"""Instructions that jump over a block that no lane enters."""


class Turns(NamedTuple):
    """An open loop."""

    after: str
    again: str
    live: str
    """Address of the mask of lanes with turns left; empty where all lanes leave together."""
    skipped: str
    """Address of the mask of lanes that are done with this turn; empty without a Continue."""
    level: int


class VectorEmitter(RunEmitter):
    """Emits one function, as its definition's lines."""

    def __init__(
        self, wanted: Wanted, decl: Func, text: VectorText, same: Uniform, mask: str | None
    ) -> None:
        super().__init__(wanted, decl, text, same, mask)
        self.level = 0
        """How often lanes have parted on the way here."""
        self.escapes = 0
        """How many ways out have been emitted that only some lanes take."""
        self.stopped = False
        """Whether no lane reaches what follows in this block."""
        self.copying = False
        """Whether this is the second copy of a block, which makes no further ones."""
        self.loops: list[Turns] = []
        self.exit = text.label()
        self.alive = ""
        """Address of the mask of lanes that have not returned; empty where all return at once."""
        self.result: Local | None = None
        self.apart: set[str] = set()
        """Columns of which each lane sees its own, and lanes do not lie beside each other."""
        self.large: dict[str, Spot] = {}
        """Where large aggregates lie; no function has two of one name."""
        self.turn: Turn | None = None
        """The turn of the loop to come, if that is one over rows."""

    def lane_function(
        self, symbol: str, lane_step: int, turn: Turn | None, own: Steps | None = None
    ) -> Iterator[str]:
        """The definition for all lanes, called once: own aggregates stand `lane_step` apart.

        `turn` is the turn of its loop over rows, if it has one; columns of which each lane sees
        its own stand apart by `own`.
        """
        params = []
        for index, param in enumerate(self.decl.params):
            name = f"%p{index}"
            if isinstance(param.type, str):
                params.append(f"{LLVM_TYPE[param.type]} {name}")
                self.bind(param.name, Value(name, param.type, False))
                continue
            shared = isinstance(param.type, BufferType) or param.name == COMMON
            if param.name == COMMON and not self.same.expr(Var(COMMON)):
                raise InternalError("QD9511 codegen: lanes part over what they share")
            params.append(f"ptr {'noalias ' if shared else ''}{name}")
            tag = self.elements_tag(param.type)
            step = 0 if shared else lane_step
            if own is not None and param.name in (OWN, MADE):
                step = own.lane if param.name == OWN else own.made
                self.apart |= {param.name} if step > 1 else set()
            word_step = 1 if shared else self.wanted.shared.word_step
            self.spots[param.name] = Spot(name, 0, param.type, tag, step, word_step)
        self.turn = turn
        yield from self.definition(f"define internal void @{symbol}({', '.join(params)}) #3")

    def definition(self, head: str) -> Iterator[str]:
        text, body = self.text, self.decl.body
        if isinstance(self.decl.result, str):
            self.result = self.blank(self.decl.result)
        if any(isinstance(inner, Return) for stmt in body for inner in statements((stmt,))):
            self.alive = self.new_mask(self.mask)
        self.block(body)
        text.jump(self.exit)
        text.start(self.exit)
        if self.result is None:
            text.end("ret void")
        else:
            text.end(f"ret {self.type_of(self.result)} {self.loaded(self.result)}")
        yield f"{head} {{"
        yield "entry:"
        yield from text.head
        yield from text.lines
        yield "}"

    # ---- masks --------------------------------------------------------------------------

    def new_mask(self, mask: str | None) -> str:
        """Memory for a mask; its address."""
        address = self.text.alloca(self.text.masks)
        self.set_mask(address, mask)
        return address

    def set_mask(self, address: str, mask: str | None) -> None:
        self.text.do(f"store {self.text.masks} {whole(mask)}, ptr {address}, align 8")

    def get_mask(self, address: str) -> str:
        return self.text.value(f"load {self.text.masks}, ptr {address}, align 8")

    def leave_mask(self, address: str) -> None:
        """Take the active lanes out of a mask."""
        rest = self.text.negated(whole(self.mask))
        self.set_mask(address, self.text.both(rest, self.get_mask(address)))

    def refresh(self) -> None:
        """Take those lanes out of the active ones that have left since."""
        text = self.text
        turns = self.loops[-1] if self.loops else None
        if self.alive:
            self.mask = text.both(self.mask, self.get_mask(self.alive))
        if turns and turns.live:
            self.mask = text.both(self.mask, self.get_mask(turns.live))
        if turns and turns.skipped:
            self.mask = text.both(self.mask, text.negated(self.get_mask(turns.skipped)))

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> None:
        """Emit statements; after some lanes have left, the rest runs if any is still here."""
        text, level, end = self.text, self.level, ""
        with ExitStack() as scopes:
            for run in self.runs(body):
                if text.ended or self.stopped:
                    break
                before = self.escapes
                self.lane_run(run) if len(run) > 1 else self.statement(run[0])
                if self.escapes == before or text.ended or self.stopped:
                    continue
                self.refresh()
                self.level += 1
                end, rest = end or text.label(), text.label()
                text.branch(text.any(whole(self.mask)), rest, end)
                text.start(rest)
                scopes.enter_context(text.scope())
        if end:
            text.jump(end)
            text.start(end)
        self.level, self.stopped = level, False

    def statement(self, stmt: Stmt) -> None:
        STATEMENTS[type(stmt)](self, stmt)

    def region(self, mask: str, body: tuple[Stmt, ...]) -> None:
        """Emit a block for the lanes of a mask; jumped over where there are none."""
        text = self.text
        some, after = text.label(), text.label()
        self.enter(body, text.any(mask), some, after)
        text.start(some)
        with text.scope():
            self.inside(mask, body)
        text.jump(after)
        text.start(after)

    def inside(self, mask: str | None, body: tuple[Stmt, ...]) -> None:
        """Emit a block for the lanes of a mask."""
        outer, self.mask = self.mask, mask
        self.level += 1
        self.block(body)
        self.level -= 1
        self.mask = outer

    def let(self, stmt: Let) -> None:
        if isinstance(stmt.type, str):
            zero = Value(ZEROS[stmt.type], stmt.type, False)
            self.bind(stmt.name, zero if stmt.value is None else self.value(stmt.value))
            return
        spot = self.declared(stmt)
        if stmt.value is None or isinstance(stmt.value, Call):
            self.zero(spot)
        if stmt.value is not None:
            self.store_struct(spot, stmt.value)
        self.spots[stmt.name] = spot

    def declared(self, stmt: Let) -> Spot:
        """Memory for a local aggregate: where a block stands in the code twice, a large one of
        both lies in one place."""
        spot = self.large.get(stmt.name) or self.aggregate(stmt.type, stmt.name in self.passed)
        if self.layout.words(stmt.type) > SINGLE_WORDS:
            self.large[stmt.name] = spot
        return spot._replace(born=self.mask)

    def assign(self, stmt: Assign) -> None:
        if isinstance(stmt.place, Var) and stmt.place.name in self.locals:
            self.assign_local(self.locals[stmt.place.name], self.value(stmt.value))
        elif isinstance(type_ := self.place_type(stmt.place), str):
            value = self.value(stmt.value)
            self.memory.store(self.spot(stmt.place), value, self.mask)
        elif isinstance(stmt.value, Call):
            # A result is made aside first: the call may still read what it will replace.
            aside = self.aggregate(type_, True)
            self.zero(aside)
            self.store_struct(aside, stmt.value)
            self.copy(self.spot(stmt.place), aside)
        elif isinstance(stmt.value, StructOf):
            values = [self.value(value) for value in stmt.value.values]
            self.store_fields(self.spot(stmt.place), values)
        else:
            source = self.spot(stmt.value)
            self.copy(self.spot(stmt.place), source)

    def assign_local(self, local: Local, value: Value) -> None:
        """Assign to a scalar local, in the active lanes."""
        new = self.vector(value) if local.varies else self.agreed(value)
        if local.varies and self.mask != local.born:
            new = self.text.blend(self.mask, self.type_of(local), new, self.loaded(local))
        self.text.do(f"store {self.type_of(local)} {new}, ptr {local.text}, align 8")

    def store_struct(self, target: Spot, value: Expr) -> None:
        """Fill fresh memory, which nothing in `value` can name."""
        if isinstance(value, Call) and self.vectorises(value):
            self.text.do(self.form_call(value, target))
        elif isinstance(value, Call):
            self.each_lane([self.lane_call(value, target)])
        elif isinstance(value, StructOf):
            self.store_fields(target, [self.value(field) for field in value.values])
        else:
            self.copy(target, self.spot(value))

    def store_fields(self, target: Spot, values: list[Value]) -> None:
        assert isinstance(target.type, StructType)
        for name, value in zip(self.layout.slots(target.type.name), values, strict=True):
            spot = self.memory.field(target, name)
            self.memory.store(spot, value, self.mask)

    def do(self, stmt: Do) -> None:
        if self.made_once(stmt.call):
            self.once(stmt.call)
        elif self.on_scalars(stmt.call):
            pass  # it has no effect
        elif self.vectorises(stmt.call):
            self.in_vectors(stmt.call)
        else:
            self.lane_run((stmt,))

    def in_vectors(self, call: Call) -> None:
        """Call for what it does to the lanes' memory."""
        result = self.signatures[call.func].decl.result
        if isinstance(result, str):
            self.value(call)
        else:
            aside = None if result is None else self.aggregate(result, False)
            self.text.do(self.form_call(call, aside))

    def branch(self, stmt: If) -> None:
        condition = self.value(stmt.cond)
        if not condition.varies:
            self.branch_together(condition.text, stmt)
            return
        text, outer = self.text, self.mask
        then = text.both(outer, condition.text)
        otherwise = text.both(outer, text.negated(condition.text))
        blocks = [(then, stmt.then), (otherwise, stmt.otherwise)]
        if all(body and self.cost(body) > FLAT_COST for _, body in blocks) and not self.copying:
            self.branch_apart(then, otherwise, stmt)
            return
        for mask, body in blocks:
            if self.cost(body) > FLAT_COST:
                self.region(mask, body)
            elif body:
                copying, self.copying = self.copying, True  # here, there may be no active lane
                self.inside(mask, body)
                self.copying = copying

    def branch_apart(self, then: str, otherwise: str, stmt: If) -> None:
        """Emit the second way twice: most often no lane goes the first, so none is masked off."""
        text, outer = self.text, self.mask
        some, none, after = (text.label() for _ in range(3))
        self.enter(stmt.then, text.any(then), some, none)
        text.start(some)
        with text.scope():
            self.inside(then, stmt.then)
            self.copying = True
            self.region(otherwise, stmt.otherwise)
            self.copying = False
        text.jump(after)
        text.start(none)
        with text.scope():
            self.inside(outer, stmt.otherwise)
        text.jump(after)
        text.start(after)

    def enter(self, body: tuple[Stmt, ...], condition: str, then: str, otherwise: str) -> None:
        """Branch to a block or not. Passes see to it that one with scalar calls is rare."""
        calls = (expr for stmt in body for expr in roots(stmt) if isinstance(expr, Call))
        rare = any(not self.vectorises(call) for call in calls)
        (self.text.rarely if rare else self.text.branch)(condition, then, otherwise)

    def cost(self, body: tuple[Stmt, ...]) -> float:
        """Instructions of a block that runs blended; no number where some lane must be active."""
        total = 0.0
        for stmt in body:
            match stmt:
                case Let() | Assign(Var()):
                    total += isinstance(stmt, Assign)
                case If(cond) if not self.same.expr(cond):
                    for block in filter(None, (stmt.then, stmt.otherwise)):
                        inner = self.cost(block)
                        total += inner if inner <= FLAT_COST else JUMP_COST
                case _:
                    return math.inf
            total += sum(map(self.instructions, roots(stmt)))
        return total

    def instructions(self, expr: Expr) -> float:
        """About how many instructions an expression takes; inf where some lane must be active."""
        if isinstance(expr, Elem) and row_word(expr):
            return 1
        return instructions(self.text, expr) + sum(map(self.instructions, operands(expr)))

    def branch_together(self, condition: str, stmt: If) -> None:
        """All active lanes go one way."""
        text, outer = self.text, self.mask
        then, after = text.label(), text.label()
        otherwise = text.label() if stmt.otherwise else after
        self.enter(stmt.then, condition, then, otherwise)
        for label, body in ((then, stmt.then), (otherwise, stmt.otherwise)):
            if label == after:
                break
            text.start(label)
            with text.scope():
                self.block(body)
            self.mask = outer
            text.jump(after)
        text.start(after)

    # ---- loops --------------------------------------------------------------------------

    def for_loop(self, stmt: For) -> None:
        lo, hi = self.value(stmt.lo), self.value(stmt.hi)
        place = None if self.mask else square_of(stmt, self.apart)
        if place is not None:
            lo = Value(str(int(hi.text) // self.text.lanes * self.text.lanes), "i64", False)
            self.squares(stmt, place, lo)
        self.loop(stmt, lo, hi)

    def squares(self, stmt: For, place: Elem, hi: Value) -> None:
        """The turns below `hi` of a loop that reads or writes `place` alone of the columns: as many
        at once as there are lanes."""
        text, (copy,) = self.text, stmt.body
        assert isinstance(copy, Assign)
        head, body, again, after = (text.label() for _ in range(4))
        start, counter, following = text.block, f"%i{head[1:]}", f"%n{head[1:]}"
        text.jump(head)
        text.start(head)
        text.do(f"{counter} = phi i64 [ 0, %{start} ], [ {following}, %{again} ]")
        with text.scope():
            first = Value(counter, "i64", False)
            text.branch(self.below(first, hi).text, body, after)
            text.start(body)
            self.bind(stmt.name, first)
            line = self.spot(place)
            address = self.memory.address(line)
            lines = [self.memory.word(address, n * line.lane_step) for n in range(text.lanes)]
            turns = [text.pure(f"add i64 {counter}, {n}") for n in range(text.lanes)]
            if copy.place == place:
                words = [self.words_at(turn, stmt.name, copy.value) for turn in turns]
                for at, row in zip(lines, transposed(text, words), strict=True):
                    text.do(f"store {text.words} {row}, ptr {at}, align 8{line.tag}")
            else:
                load = f"load {text.words}, ptr {{at}}, align 8{line.tag}"
                rows = [text.value(load.format(at=at)) for at in lines]
                for turn, held in zip(turns, transposed(text, rows), strict=True):
                    self.bind(stmt.name, Value(turn, "i64", False))
                    self.held = {place: Value(held, "i64", True)}
                    self.assign(copy)
                self.held = {}
        text.jump(again)
        text.start(again)
        text.do(f"{following} = add i64 {counter}, {text.lanes}")
        text.jump(head)
        text.start(after)

    def words_at(self, turn: str, name: str, value: Expr) -> str:
        """The words that a value has in all lanes at a loop's turn."""
        self.bind(name, Value(turn, "i64", False))
        made = self.value(value)
        return self.memory.to_words(self.vector(made), made.type)

    def while_loop(self, stmt: While) -> None:
        self.loop(stmt, Value("0", "i64", False), self.value(stmt.max))

    def loop(self, stmt: Loop, lo: Value, hi: Value) -> None:
        """A loop that runs while any lane has turns left; its counter is the same in all."""
        text, outer, level, before = self.text, self.mask, self.level, self.escapes
        apart = parts(self.same, stmt)
        head, body, again, after = (text.label() for _ in range(4))
        leaves = apart or any(isinstance(inner, Break | Return) for inner in _own(stmt.body))
        live = self.new_mask(outer) if leaves else ""
        skips = any(isinstance(inner, Continue) for inner in _own(stmt.body))
        skipped = self.new_mask("zeroinitializer") if skips else ""
        turns = Turns(after, again, live, skipped, level + apart)
        start, counter, following = text.block, f"%i{head[1:]}", f"%n{head[1:]}"
        first = "0" if lo.varies else lo.text
        text.jump(head)
        text.start(head)
        text.do(f"{counter} = phi i64 [ {first}, %{start} ], [ {following}, %{again} ]")
        if live:
            self.mask = self.get_mask(live)
            if self.alive:
                self.mask = text.both(self.mask, self.get_mask(self.alive))
        index = Value(counter, "i64", False)
        with text.scope():
            if lo.varies:
                at = f"add {text.words} {lo.text}, {text.spread('i64', counter)}"
                index = Value(text.pure(at), "i64", True)
            self.test(self.below(index, hi), turns, body)
            if isinstance(stmt, While):
                self.test(self.value(stmt.cond), turns, body := text.label())
            else:
                self.bind(stmt.name, index)
            if skipped:
                self.set_mask(skipped, "zeroinitializer")
            self.loops.append(turns)
            self.level = turns.level
            self.block(stmt.body) if self.turn is None else self.row(self.turn)
            self.loops.pop()
        text.jump(again)
        text.start(again)
        text.do(f"{following} = add i64 {counter}, 1")
        text.jump(head)
        text.start(after)
        self.mask, self.level = outer, level
        returns = any(isinstance(inner, Return) for inner in statements(stmt.body))
        self.escapes = before + (self.escapes != before and returns)

    def row(self, turn: Turn) -> None:
        """A turn in which all lanes are: as a usual one if it is that in all of them."""
        text = self.text
        self.turn = None  # loops inside a turn are none over rows
        self.ask_ahead(turn.row)
        self.block(turn.head)
        usual, other, after = (text.label() for _ in range(3))
        condition = self.value(turn.usual)
        assert not condition.varies
        if turn.apart is not None:
            text.branch(condition.text, tested := text.label(), other)
            text.start(tested)
            with text.scope():
                some = text.any(text.both(self.mask, self.vector(self.value(turn.apart))))
            text.rarely(some, other, usual)
        else:
            text.branch(condition.text, usual, other)
        for label, body in ((usual, turn.known), (other, turn.any)):
            text.start(label)
            with text.scope():
                self.block(body)
            text.jump(after)
        text.start(after)

    def ask_ahead(self, row: Row) -> None:
        """Ask for the lines of a row to come: the CPU stops looking ahead at each page's end."""
        ahead = self.text.pure(f"add i64 {self.value(row.number).text}, {ROWS_AHEAD}")
        self.prefetch(row, ahead, row.read)

    def prefetch(self, row: Row, number: str, words: int) -> None:
        """Ask for the lines of the first words of the row of a number."""
        base = self.spot(row.buffer).base
        address = self.text.pure(f"getelementptr [{row.words} x i64], ptr {base}, i64 {number}")
        for word in range(0, words, LINE_WORDS):
            self.text.prefetch(self.memory.word(address, word))

    def below(self, index: Value, hi: Value) -> Value:
        """Whether a loop's index is below its bound."""
        if not index.varies and not hi.varies:
            return Value(self.text.pure(f"icmp slt i64 {index.text}, {hi.text}"), "bool", False)
        left, right = self.vector(index), self.vector(hi)
        return Value(self.text.pure(f"icmp slt {self.text.words} {left}, {right}"), "bool", True)

    def test(self, condition: Value, turns: Turns, body: str) -> None:
        """Go on with a loop's turn in the lanes for which a condition holds, or leave it."""
        text = self.text
        if condition.varies and not turns.live:
            condition = Value(self.agreed(condition), "bool", False)
        if condition.varies:
            self.mask = text.both(self.mask, condition.text)
        if turns.live:
            assert self.mask is not None
            self.set_mask(turns.live, self.mask)
            some = text.any(self.mask)
            if not condition.varies:
                some = text.pure(f"and i1 {some}, {condition.text}")
            text.branch(some, body, turns.after)
        else:
            text.branch(condition.text, body, turns.after)
        text.start(body)

    def leave(self, _: Break) -> None:
        turns = self.loops[-1]
        if self.level == turns.level:
            self.text.jump(turns.after)
        else:
            self.escape(turns.live)

    def next_turn(self, _: Continue) -> None:
        turns = self.loops[-1]
        if self.level == turns.level:
            self.text.jump(turns.again)
            return
        both = f"or {self.text.masks} {self.get_mask(turns.skipped)}, {whole(self.mask)}"
        self.set_mask(turns.skipped, self.text.value(both))
        self.escapes += 1
        self.stopped = True

    def escape(self, mask: str) -> None:
        """The active lanes leave a loop or the function; others stay."""
        self.leave_mask(mask)
        self.escapes += 1
        self.stopped = True

    def give(self, value: Expr) -> None:
        """Note what the function returns, in the active lanes."""
        assert self.result is not None
        self.assign_local(self.result, self.value(value))

    def ret(self, stmt: Return) -> None:
        if stmt.value is not None:
            self.give(stmt.value)
        if self.level == 0:
            self.text.jump(self.exit)
        else:
            self.escape(self.alive)


def _own(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements of a loop's body; of loops inside it only the Returns."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, If):
            yield from _own(stmt.then)
            yield from _own(stmt.otherwise)
        elif isinstance(stmt, For | While):
            yield from (inner for inner in statements(stmt.body) if isinstance(inner, Return))


STATEMENTS: dict[type, Callable[..., None]] = {
    Let: VectorEmitter.let,
    Assign: VectorEmitter.assign,
    Do: VectorEmitter.do,
    If: VectorEmitter.branch,
    For: VectorEmitter.for_loop,
    While: VectorEmitter.while_loop,
    Break: VectorEmitter.leave,
    Continue: VectorEmitter.next_turn,
    Return: VectorEmitter.ret,
}
