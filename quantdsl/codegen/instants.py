"""The kernels of an instant of a worker of signals: launched in a row, they are one instant.

    begin    one thread: events that concern all instruments, and each clock that ticks; in blocks
             beside it those of one instrument: their words come over from the host, neighbours by
             neighbours, then there is a thread for each; the first of each instrument makes all of
             its events in turn
    pieces   of passes/instants.py: one thread, one for each instrument, a block for each
    tell     one thread: a fence that the host sees across, then the number of the instant

All take the same buffers, so that a graph of launches is made once and never changes; what
differs between instants lies in the words of `control`.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from quantdsl.codegen.blocks import BATCH, Batch, linked_batch
from quantdsl.ir import ops
from quantdsl.ir.layout import Layout
from quantdsl.ir.threads import FENCES, WAIT
from quantdsl.ir.walk import rebuild_body, rebuild_stmt
from quantdsl.passes.blocks import BLOCK_NUMBER, PRIMITIVES, SHARED, THREAD_NUMBER, blocked
from quantdsl.passes.instants import KEPT, VALUES, WHICH, Body, Cut, Piece, named
from quantdsl.passes.threads import of_threads, threaded

STATE, EVENTS, CONTROL = ops.Var("s"), ops.Var("events"), ops.Var("control")
NOW = ops.Field(ops.Field(STATE, "e"), "now")
EVENT_WORDS = ops.Var("events.words")
"""The words of `events`."""
BUFFERS = (STATE.name, EVENTS.name, CONTROL.name, VALUES, KEPT, EVENT_WORDS.name)
"""The arguments of every kernel."""
SHARED_FIRST, SHARED_END, OWN_FIRST, OWN_EVENTS, NUMBER = range(5)
"""Words of `control`: from where to where in `events` those for `begin` stand, where those of
instruments begin, how many they are, and the number of the instant."""
CONTROL_WORDS = 5
EVENT_T = ops.StructType("engine.Event")
PARAMS = (
    ops.ParamDecl(STATE.name, ops.StructType("State"), inout=True),
    ops.ParamDecl(EVENTS.name, ops.BufferType(EVENT_T)),
    ops.ParamDecl(CONTROL.name, ops.BufferType(ops.I64_T)),
    ops.ParamDecl(VALUES, ops.BufferType(ops.I64_T), inout=True),
    ops.ParamDecl(KEPT, ops.BufferType(ops.I64_T), inout=True),
    ops.ParamDecl(EVENT_WORDS.name, ops.BufferType(ops.I64_T)),
    ops.ParamDecl(SHARED.name, ops.BufferType(ops.I64_T), inout=True),
)
THREADS = 32
"""Of a block in which each thread has an instrument, or an event, of its own; a power of two."""


class Step(NamedTuple):
    """A kernel of an instant, and how many blocks of it are launched."""

    name: str
    code: Batch
    blocks: int


class Instants(NamedTuple):
    """The kernels of an instant, in order."""

    steps: tuple[Step, ...]
    instruments: int
    signals: int
    kept_words: int
    apart: bool
    """Whether events of instruments are taken by threads of their own."""

    @property
    def value_words(self) -> int:
        """Of `values`: those of check/worker.py, the time of the instant, its number."""
        return (self.signals + 1) * self.instruments + 3

    @property
    def event_words(self) -> int:
        """Of an event."""
        module = next(one.code.module for one in self.steps if one.name == "begin")
        return Layout(module.structs).words(EVENT_T)

    @property
    def number_at(self) -> int:
        """The word of `values` that says which instant they are of; its time stands before it."""
        return self.value_words - 1


def instants(
    cut: Cut, kernels: Mapping[str, int], instruments: int, signals: int, threads: int = THREADS
) -> Instants:
    """The kernels of an instant that was cut; `kernels` as cut_instant has them."""
    maker = _Maker(cut, kernels, instruments, threads)
    steps = [maker.begin()]
    last = cut.pieces[-1]
    ending = last.body if last.how == "one" else ()
    steps += map(maker.piece, cut.pieces[:-1] if ending else cut.pieces)
    kept = max(cut.kept * instruments, 1)
    made = Instants(tuple(steps), instruments, signals, kept, cut.ingest.each is not None)
    return made._replace(steps=(*made.steps, maker.tell(ending, made.number_at)))


class _Maker:
    def __init__(
        self, cut: Cut, kernels: Mapping[str, int], instruments: int, threads: int
    ) -> None:
        self.cut, self.kernels = cut, kernels
        self.instruments, self.threads = instruments, threads
        self.blocks = -(-instruments // threads)

    def begin(self) -> Step:
        """What of events is one for all, and in blocks of its own what is an instrument's own."""
        number = ops.Var("number")
        turn = named(self.cut.ingest.one, {"ev": ops.Elem(EVENTS, number)})
        loop = ops.For(number.name, _control(SHARED_FIRST), _control(SHARED_END), turn)
        if self.cut.ingest.each is None:
            return Step("begin", self._code((loop,), 1), 1)
        leads = ops.Binary("ieq", ops.Call(THREAD_NUMBER, ()), ops.i64(0))
        alone = ops.Binary("ieq", ops.Call(BLOCK_NUMBER, ()), ops.i64(0))
        own = _Own(self.cut, self.threads, self.blocks)
        body = ops.If(alone, (ops.If(leads, (loop,)),), own.body(self.cut.ingest.each))
        return Step("begin", self._code((body,), own.words, own.words), self.blocks + 1)

    def piece(self, piece: Piece) -> Step:
        """A piece of the instant."""
        if piece.how == "one":
            return Step("one", self._code(piece.body, 1), 1)
        if piece.how == "each":
            return self._each(piece)
        return Step(piece.kernel.removeprefix("user."), self._block(piece), self.instruments)

    def _each(self, piece: Piece) -> Step:
        """A thread for each instrument, or one for each of its parts: a block then has as many
        times the threads, and waits before the parts and behind them."""
        inside = ops.Binary("ilt", WHICH, ops.i64(self.instruments))
        if piece.beside is None:
            which = ops.Let(WHICH.name, ops.I64_T, _thread_of_all(self.threads))
            code = self._code((which, ops.If(inside, piece.body)), self.threads)
            return Step("each", code, self.blocks)
        thread, part = ops.Call(THREAD_NUMBER, ()), ops.Var("part")
        size, warp = ops.i64(self.threads), ops.i64(self.threads.bit_length() - 1)
        ahead = ops.Binary("imul", ops.Call(BLOCK_NUMBER, ()), size)
        own = ops.Binary("iadd", ahead, ops.Binary("iand", thread, ops.i64(self.threads - 1)))

        def of(number: int, body: Body) -> ops.If:
            mine = ops.Binary("ieq", part, ops.i64(number))
            return ops.If(ops.Binary("and", inside, mine), body)

        first, parts, last = piece.beside
        body: Body = (
            ops.Let(WHICH.name, ops.I64_T, own),
            ops.Let(part.name, ops.I64_T, ops.Binary("lshr", thread, warp)),
            of(0, first),
            WAIT,
            *(of(number, one) for number, one in enumerate(parts)),
            WAIT,
            of(0, last),
        )
        return Step("each", self._code(body, self.threads * len(parts)), self.blocks)

    def tell(self, ending: Body, number_at: int) -> Step:
        """The instant is done: what was written is seen before its number is."""
        values = ops.Var(VALUES)
        now = ops.Assign(ops.Elem(values, ops.i64(number_at - 1)), NOW)
        told = ops.Assign(ops.Elem(values, ops.i64(number_at)), _control(NUMBER))
        fence = ops.Do(ops.Call(FENCES["system"], ()))
        return Step("tell", self._code((*ending, now, fence, told), 1), 1)

    def _block(self, piece: Piece) -> Batch:
        """A kernel as a block of threads for each instrument: all of them make the call, and the
        first keeps the result."""
        own = next(func for func in self.cut.module.funcs if func.name == piece.kernel)
        own = msgspec.structs.replace(own, cold=False)
        threads = self.kernels[piece.kernel]
        form = threaded(own, threads) if of_threads(own) else blocked(own, threads)
        first = ops.Binary("ieq", ops.Call(THREAD_NUMBER, ()), ops.i64(0))

        def each(stmt: ops.Stmt) -> ops.Stmt:
            if isinstance(stmt, ops.Let) and isinstance(stmt.value, ops.Call):
                call = ops.Call(stmt.value.func, (*stmt.value.args, SHARED))
                return msgspec.structs.replace(stmt, value=call)
            if isinstance(stmt, ops.Assign):
                return ops.If(first, (stmt,))
            return rebuild_stmt(stmt, lambda expr: expr, each)

        which = ops.Let(WHICH.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ()))
        body = (which, *rebuild_body(piece.body, each))
        return self._code(body, threads, form.words, (form.kernel,))

    def _code(
        self, body: Body, threads: int, shared_words: int = 0, more: tuple[ops.Func, ...] = ()
    ) -> Batch:
        """A kernel of these statements; `more` functions stand for those of their names."""
        entry = ops.Func(BATCH, PARAMS, None, body)
        known = [*self.cut.module.funcs, *PRIMITIVES, *more, entry]
        linked = linked_batch(self.cut.module, [], known)
        return Batch(linked, threads, shared_words, BUFFERS)


AHEAD = ops.Var("ahead")
"""How many stand in front of them in `events`."""


class _Own:
    """Events of one instrument, sorted by it, in blocks behind the first one.

    A block brings some at a time into shared memory, with the one before and the one behind them,
    a thread a word: who is first of its instrument, and who the last, is seen there. In each round,
    of `end` events the block's are those from `first` on:

        if the word `first - 1` events and `thread` words on is one of theirs: shared[thread] = it
        wait
        if event `first + thread` is among them, and not of the instrument of the one before:
            for each event from there on, until one is of another instrument:
                event = its words, in shared memory where they are there, else the host's
                ...                                                       what is done of it
        wait
    """

    def __init__(self, cut: Cut, events: int, blocks: int) -> None:
        layout = Layout(cut.module.structs)
        self.slots = layout.slots(EVENT_T.name)
        self.size = layout.words(EVENT_T)
        self.events, self.blocks = events, blocks
        self.words = (events + 2) * self.size
        """Of shared memory, and threads of a block."""

    def body(self, each: Body) -> Body:
        """What a block does, all its rounds; `each` is done of an event."""
        end, turn, first, thread, word = map(ops.Var, ("end", "round", "first", "thread", "word"))
        stride = self.events * self.blocks
        block = ops.Binary("isub", ops.Call(BLOCK_NUMBER, ()), ops.i64(1))
        here = ops.Binary("iadd", block, ops.Binary("imul", turn, ops.i64(self.blocks)))
        before = ops.Binary("imul", ops.Binary("isub", first, ops.i64(1)), ops.i64(self.size))
        behind = ops.Binary("imul", end, ops.i64(self.size))
        there = (ops.Binary("ige", word, ops.i64(0)), ops.Binary("ilt", word, behind))
        ahead = ops.Binary("imul", AHEAD, ops.i64(self.size))
        source = ops.Elem(EVENT_WORDS, ops.Binary("iadd", ahead, word))
        number = ops.Binary("iadd", first, thread)
        mine = ops.Binary("ilt", thread, ops.i64(self.events)), ops.Binary("ilt", number, end)
        rounds = ops.Binary("iadd", end, ops.i64(stride - 1))
        turns: Body = (
            ops.Let(first.name, ops.I64_T, ops.Binary("imul", here, ops.i64(self.events))),
            ops.Let(word.name, ops.I64_T, ops.Binary("iadd", before, thread)),
            ops.If(ops.Binary("and", *there), (ops.Assign(ops.Elem(SHARED, thread), source),)),
            WAIT,
            ops.If(ops.Binary("and", *mine), self.of_thread(first, number, end, each)),
            WAIT,
        )
        return (
            ops.Let(thread.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())),
            ops.Let(AHEAD.name, ops.I64_T, _control(OWN_FIRST)),
            ops.Let(end.name, ops.I64_T, _control(OWN_EVENTS)),
            ops.For(turn.name, ops.i64(0), ops.Binary("idiv", rounds, ops.i64(stride)), turns),
        )

    def of_thread(self, first: ops.Expr, number: ops.Expr, end: ops.Expr, each: Body) -> Body:
        """The events of the instrument of event `number`, if that is its first."""
        mine, at, event, place = map(ops.Var, ("mine", "at", "event", "place"))
        before = ops.Binary("isub", first, ops.i64(1))  # in the first place
        own, last = (self.instrument(ops.Binary("isub", mine, one)) for one in (before, first))
        is_first = ops.Binary("ieq", mine, ops.i64(0))
        begins = ops.Binary("or", is_first, ops.Binary("ine", last, own))
        there = ops.Elem(EVENTS, ops.Binary("iadd", AHEAD, at))
        near, far = (
            tuple(ops.Assign(ops.Field(event, name), source(name)) for name in self.slots)
            for source in (partial(self.word, place), partial(ops.Field, there))
        )
        other = ops.Binary("ine", _instrument(ops.Field(event, "head")), own)
        turn: Body = (
            ops.Let(place.name, ops.I64_T, ops.Binary("isub", at, before)),
            ops.Let(event.name, EVENT_T, None),
            ops.If(ops.Binary("ilt", place, ops.i64(self.events + 2)), near, far),
            ops.If(other, (ops.Break(),)),
            *named(each, {"ev": event}),
        )
        return (
            ops.Let(mine.name, ops.I64_T, number),
            ops.If(begins, (ops.For(at.name, mine, end, turn),)),
        )

    def word(self, place: ops.Expr, name: str) -> ops.Expr:
        """A word of an event in shared memory."""
        begin = ops.Binary("imul", place, ops.i64(self.size))
        return ops.Elem(SHARED, ops.Binary("iadd", begin, ops.i64(self.slots[name].offset_words)))

    def instrument(self, place: ops.Expr) -> ops.Expr:
        """That of an event there."""
        return _instrument(self.word(place, "head"))


def _instrument(head: ops.Expr) -> ops.Expr:
    return ops.Binary("iand", head, ops.i64(0xFFFFFFFF))


def _thread_of_all(threads: int) -> ops.Expr:
    """The number of this thread, of all blocks of so many."""
    first = ops.Binary("imul", ops.Call(BLOCK_NUMBER, ()), ops.i64(threads))
    return ops.Binary("iadd", first, ops.Call(THREAD_NUMBER, ()))


def _control(word: int) -> ops.Expr:
    return ops.Elem(CONTROL, ops.i64(word))
