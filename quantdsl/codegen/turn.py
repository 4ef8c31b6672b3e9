"""The hot path as one function: poll a ring, run the strategy, write its records to a ring.

    turn(state, inbound, outbound, control, curve, polls) -> DRY, STOPPED or FULL

It is `run` of the strategy, the very IR that a backtest calls, with a loop around it and inlined as
far as there is room: no call leaves the object. Each event is given to `run` by itself, and the
records of an instant are in the outbound ring before the next event is read. What cannot be done
here is the host's: the function returns DRY after `polls` empty looks at the ring, so that the host
may yield; STOPPED once control[STOP] is set; FULL when the outbound ring has no room for the
records of the last instant, which stay where they are and go first when it is called again. Nothing
is ever dropped, and an event is released once its records are visible.

An order does not wait for its instant to end: once the gate has let it pass and its record is
written, all records so far are in the ring and its second cursor, AHEAD, covers them. A leg of an
atomic block waits, since a later leg may take it back.
"""

import functools
from collections.abc import Iterator, Mapping

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, object_files
from quantdsl.codegen.emit import COMMON, Body, Outside, emit, entry_functions
from quantdsl.codegen.function import MOSTLY, RARELY, Shared, Signature
from quantdsl.codegen.jit import Program
from quantdsl.codegen.proof import Proof, prove, require
from quantdsl.codegen.target import Target
from quantdsl.codegen.text import entry_symbol
from quantdsl.events.codes import WORDS
from quantdsl.events.ring import (
    AHEAD,
    BEAT,
    CAPACITY_WORD,
    CONSUMED,
    CONSUMER,
    HEAD_WORDS,
    PRODUCER,
    PUBLISHED,
)
from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Binary,
    BufferType,
    Call,
    Do,
    Field,
    Func,
    If,
    Module,
    ParamDecl,
    Return,
    Stmt,
    StructType,
    Var,
    i64,
)
from quantdsl.passes import run_passes
from quantdsl.passes.outline import inlined_up_to
from quantdsl.passes.unused import drop_unused

DRY, STOPPED, FULL = 0, 1, 2
STOP = 0
"""The word of `control` that the host sets to end the function."""
CONTROL_WORDS = 16

JUDGE = "orders.judge"
"""The function of std that every order passes: it is copied, however large it is."""
ANNOUNCE, SHOW = "orders.announce", "show"
"""The function of std that records an order, and what is called after it."""
SHARED = "outbound"
"""The param that SHOW reaches too, by an address in the state."""
RING_WORDS = {
    "PUBLISHED": PUBLISHED,
    "AHEAD": AHEAD,
    "CONSUMED": CONSUMED,
    "CAPACITY_WORD": CAPACITY_WORD,
    "HEAD_WORDS": HEAD_WORDS,
    "WORDS": WORDS,
}
STATE = StructType("State")
BUFFER = BufferType(I64_T)
TURN = Func(
    "turn",
    (
        ParamDecl("state", BUFFER, inout=True),
        ParamDecl("inbound", BUFFER, inout=True),  # a ring of events; this is its consumer
        ParamDecl("outbound", BUFFER, inout=True),  # a ring of records; this is its producer
        ParamDecl("control", BUFFER, inout=True),
        ParamDecl("curve", BUFFER, inout=True),  # room for one row
        ParamDecl("polls", I64_T),
    ),
    I64_T,
    (),
)
TEXT = """\
define i64 @{symbol}({params}) #1 {{
entry:
  %next.at = alloca i64, align 8
  %empty.at = alloca i64, align 8
  %turns.at = alloca i64, align 8
  %started.at = alloca i64, align 8
  %in.published = getelementptr i64, ptr %inbound, i64 {PUBLISHED}
  %in.consumed = getelementptr i64, ptr %inbound, i64 {CONSUMED}
  %in.beat = getelementptr i64, ptr %inbound, i64 {IN_BEAT}
  %in.capacity = getelementptr i64, ptr %inbound, i64 {CAPACITY_WORD}
  %in.size = load i64, ptr %in.capacity, align 8
  %in.mask = sub i64 %in.size, 1
  %in.records = getelementptr i64, ptr %inbound, i64 {HEAD_WORDS}
  %out.published = getelementptr i64, ptr %outbound, i64 {PUBLISHED}
  %out.consumed = getelementptr i64, ptr %outbound, i64 {CONSUMED}
  %out.beat = getelementptr i64, ptr %outbound, i64 {OUT_BEAT}
  %out.capacity = getelementptr i64, ptr %outbound, i64 {CAPACITY_WORD}
  %out.size = load i64, ptr %out.capacity, align 8
  %out.mask = sub i64 %out.size, 1
  %out.records = getelementptr i64, ptr %outbound, i64 {HEAD_WORDS}
  %stop = getelementptr i64, ptr %control, i64 {STOP}
  %ring.at = getelementptr i64, ptr %state, i64 {outbound}
  %ring.address = ptrtoint ptr %outbound to i64
  store i64 %ring.address, ptr %ring.at, align 8
  %outbox = getelementptr i64, ptr %state, i64 {outbox}
  %count.at = getelementptr i64, ptr %state, i64 {outbox_count}
  %first = load i64, ptr %in.consumed, align 8
  %beaten = load i64, ptr %in.beat, align 8
  store i64 %first, ptr %next.at, align 8
  store i64 %beaten, ptr %turns.at, align 8
  store i64 0, ptr %empty.at, align 8
  %left = load i64, ptr %count.at, align 8
  %some.left = icmp ne i64 %left, 0
  br i1 %some.left, label %flush, label %poll, !prof {RARE}
poll:
  %turns = load i64, ptr %turns.at, align 8
  %turns.more = add i64 %turns, 1
  store i64 %turns.more, ptr %turns.at, align 8
  store i64 %turns.more, ptr %in.beat, align 8
  store i64 %turns.more, ptr %out.beat, align 8
  %stopping = load atomic i64, ptr %stop acquire, align 8
  %stopped = icmp ne i64 %stopping, 0
  br i1 %stopped, label %stopped.here, label %look, !prof {RARE}
look:
  %next = load i64, ptr %next.at, align 8
  %published = load atomic i64, ptr %in.published acquire, align 8
  %none = icmp eq i64 %published, %next
  br i1 %none, label %dry, label %wait
dry:
  %empty = load i64, ptr %empty.at, align 8
  %empty.more = add i64 %empty, 1
  store i64 %empty.more, ptr %empty.at, align 8
  %enough = icmp sge i64 %empty.more, %polls
  br i1 %enough, label %dry.here, label %poll, !prof {RARE}
wait:
{wait}take:
  %slot = and i64 %next, %in.mask
  %event = getelementptr [{WORDS} x i64], ptr %in.records, i64 %slot
  %ahead = getelementptr [{WORDS} x i64], ptr %event, i64 1
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  %one = call i64 @{run}(ptr %state, ptr %event, i64 1, ptr %curve)
  %after = add i64 %next, 1
  store i64 %after, ptr %next.at, align 8
  store i64 0, ptr %empty.at, align 8
  %written = load i64, ptr %count.at, align 8
  %silent = icmp eq i64 %written, 0
  br i1 %silent, label %done, label %flush
flush:
  %count = load i64, ptr %count.at, align 8
  %out.next = load i64, ptr %out.published, align 8
  %out.read = load atomic i64, ptr %out.consumed acquire, align 8
  %used = sub i64 %out.next, %out.read
  %room = sub i64 %out.size, %used
  %full = icmp slt i64 %room, %count
  %shown.at = getelementptr i64, ptr %outbound, i64 {AHEAD}
  %shown = load i64, ptr %shown.at, align 8
  %there = sub i64 %shown, %out.next
  %some.there = icmp ult i64 %there, %count
  %first.left = select i1 %some.there, i64 %there, i64 0
  br i1 %full, label %full.here, label %begin, !prof {RARE}
begin:
  %all.there = icmp eq i64 %there, %count
  br i1 %all.there, label %show, label %copy
copy:
  %k = phi i64 [ %first.left, %begin ], [ %k.more, %copy ]
  %source = getelementptr [{WORDS} x i64], ptr %outbox, i64 %k
  %to.at = add i64 %out.next, %k
  %to.slot = and i64 %to.at, %out.mask
  %to = getelementptr [{WORDS} x i64], ptr %out.records, i64 %to.slot
{words}  %k.more = add i64 %k, 1
  %more = icmp slt i64 %k.more, %count
  br i1 %more, label %copy, label %show
show:
  %out.after = add i64 %out.next, %count
  store atomic i64 %out.after, ptr %out.published release, align 8
  store i64 0, ptr %count.at, align 8
  br label %done
done:
  %records = phi i64 [ 0, %take ], [ %count, %show ]
  %so.far = load i64, ptr %next.at, align 8
  store atomic i64 %so.far, ptr %in.consumed release, align 8
{note}  br label %poll
dry.here:
  br label %out
stopped.here:
  br label %out
full.here:
  %until.here = load i64, ptr %next.at, align 8
  store atomic i64 %until.here, ptr %in.consumed release, align 8
  br label %out
out:
  %status = phi i64 [ {DRY}, %dry.here ], [ {STOPPED}, %stopped.here ], [ {FULL}, %full.here ]
  store i64 0, ptr %ring.at, align 8
  ret i64 %status
}}
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
{RARE} = !{{!"branch_weights", i32 1, i32 1000000}}
"""
SHOW_TEXT = """\
define internal void @{symbol}(ptr %e) #0 {{
entry:
  %ring.at = getelementptr i64, ptr %e, i64 {outbound}
  %address = load i64, ptr %ring.at, align 8
  %nowhere = icmp eq i64 %address, 0
  br i1 %nowhere, label %done, label %look
look:
  %ring = inttoptr i64 %address to ptr
  %published.at = getelementptr i64, ptr %ring, i64 {PUBLISHED}
  %ahead.at = getelementptr i64, ptr %ring, i64 {AHEAD}
  %consumed.at = getelementptr i64, ptr %ring, i64 {CONSUMED}
  %size.at = getelementptr i64, ptr %ring, i64 {CAPACITY_WORD}
  %records = getelementptr i64, ptr %ring, i64 {HEAD_WORDS}
  %count.at = getelementptr i64, ptr %e, i64 {outbox_count}
  %outbox = getelementptr i64, ptr %e, i64 {outbox}
  %published = load i64, ptr %published.at, align 8
  %ahead = load i64, ptr %ahead.at, align 8
  %read = load atomic i64, ptr %consumed.at acquire, align 8
  %size = load i64, ptr %size.at, align 8
  %count = load i64, ptr %count.at, align 8
  %mask = sub i64 %size, 1
  %there = sub i64 %ahead, %published
  %some.there = icmp ult i64 %there, %count
  %from = select i1 %some.there, i64 %there, i64 0
  %used = sub i64 %published, %read
  %room = sub i64 %size, %used
  %full = icmp slt i64 %room, %count
  br i1 %full, label %done, label %copy
copy:
  %k = phi i64 [ %from, %look ], [ %k.more, %copy ]
  %source = getelementptr [{WORDS} x i64], ptr %outbox, i64 %k
  %to.at = add i64 %published, %k
  %to.slot = and i64 %to.at, %mask
  %to = getelementptr [{WORDS} x i64], ptr %records, i64 %to.slot
{words}  %k.more = add i64 %k, 1
  %more = icmp slt i64 %k.more, %count
  br i1 %more, label %copy, label %show
show:
  %until = add i64 %published, %count
  store atomic i64 %until, ptr %ahead.at release, align 8
{noted}  br label %done
done:
  ret void
}}
"""
WEIGHTS = f"""\
{RARELY} = !{{!"branch_weights", i32 1, i32 12}}
{MOSTLY} = !{{!"branch_weights", i32 12, i32 1}}
"""
"""Of branches to cold code: an order is rare among ticks, and still what all of this is for."""
RECORD = "".join(
    f"""\
  %from.{word} = getelementptr i64, ptr %source, i64 {word}
  %to.{word} = getelementptr i64, ptr %to, i64 {word}
  %word.{word} = load atomic i64, ptr %from.{word} unordered, align 8
  store atomic i64 %word.{word}, ptr %to.{word} unordered, align 8
"""
    for word in range(WORDS)
)
"""A record on its way from the outbox to a ring, word by word as it was just written there.

A vector would have to wait until each of those stores is in the cache: no processor hands several
of them on to one load. `unordered` keeps LLVM from making vectors of it.
"""
RARE = "!999999999"
"""Weights of a branch that ends the function; a number that no other metadata has."""


WHOLE_NODES = 40_000
"""Expressions of a turn with all its copies: LLVM takes a minute for more than about this."""
COPIED_NODES = (1 << 62, 3000, 2000, 1000, 300, 100)
"""A function of more expressions than this, its inlined callees included, is copied only once."""


def whole(module: Module, entry: str = "run") -> Module:
    """What `entry` reaches, in one function: inlined to the last, so that no call is left.

    Where that would be too much code (a venue is simulated in it: fills and ends of orders stand at
    hundreds of places), what is large and used at several places stays a function of the same
    object, beginning with the largest.
    """
    module = drop_unused(msgspec.structs.replace(run_passes(module), entries=(entry,)))
    for limit in COPIED_NODES:
        inlined, size = inlined_up_to(module, limit)
        if size <= WHOLE_NODES:
            break
    funcs = (
        msgspec.structs.replace(func, inline=copied, cold=func.cold and copied)
        for func in module.funcs
        for copied in (inlined[func.name] or func.name == JUDGE,)
    )
    return _showing(msgspec.structs.replace(module, funcs=tuple(funcs)))


def _showing(module: Module) -> Module:
    """The module with what shows an order as soon as it stands."""
    found = {func.name: func for func in module.funcs}
    announce = found.get(ANNOUNCE)
    if announce is None:
        return module
    engine, order = (Var(announce.params[at].name) for at in (0, 1))
    show = Func(SHOW, announce.params[:1], None, (), inline=True)
    alone = Binary("ieq", Field(order, "block"), i64(0))
    told = (*announce.body, If(alone, (Do(Call(SHOW, (engine,))),)))
    found[ANNOUNCE] = msgspec.structs.replace(announce, body=told)
    return msgspec.structs.replace(module, funcs=(show, *found.values()))


def show_text(shared: Shared, signature: Signature, noted: str = "") -> str:
    """LLVM IR of SHOW: all records so far are in the ring, and its second cursor covers them."""
    return SHOW_TEXT.format(
        symbol=signature.symbol,
        noted=noted,
        words=RECORD,
        **places(shared),
        **RING_WORDS,
    )


def hot_text(
    module: Module,
    target: Target,
    outside: Outside = entry_functions,
    bodies: Mapping[str, Body] | None = None,
) -> str:
    """LLVM IR of code whose jumps are all to be seen in its machine code: no tables."""
    text = emit(module, target, outside, weighed=True, bodies={SHOW: show_text, **(bodies or {})})
    return text.replace(COMMON, f'{COMMON} "no-jump-tables"="true"') + WEIGHTS


def turn_text(module: Module, target: Target) -> str:
    """LLVM IR of the turn of a module that `whole` made."""
    return hot_text(module, target, _turn)


def _turn(_: Module, shared: Shared) -> Iterator[str]:
    yield loop_text(TURN, shared, wait="  br label %take\n", note="")


def loop_text(decl: Func, shared: Shared, *, wait: str, note: str) -> str:
    """LLVM IR of the loop; `wait` stands before an event is taken, `note` after it is done."""
    return TEXT.format(
        symbol=entry_symbol(decl.name),
        params=", ".join(map(param_text, decl.params)),
        run=shared.signatures["run"].symbol,
        **places(shared),
        **RING_WORDS,
        IN_BEAT=CONSUMER + BEAT,
        OUT_BEAT=PRODUCER + BEAT,
        wait=wait,
        note=note,
        words=RECORD,
        STOP=STOP,
        RARE=RARE,
        DRY=DRY,
        STOPPED=STOPPED,
        FULL=FULL,
    )


def param_text(param: ParamDecl) -> str:
    """A param of a function that the host calls; memory that nothing else reaches is said to be."""
    if not isinstance(param.type, BufferType):
        return f"i64 %{param.name}"
    return f"ptr %{param.name}" if param.name == SHARED else f"ptr noalias %{param.name}"


def places(shared: Shared) -> dict[str, int]:
    """Words of the state, which begins with its engine, that the texts name."""
    paths = {"outbox": "e.outbox", "outbox_count": "e.outbox_count", "outbound": "outbound"}
    return {name: shared.layout.locate(STATE, path).offset_words for name, path in paths.items()}


def interface_of(decl: Func) -> Module:
    """What the host calls a text of LLVM IR by."""
    return Module((), (), (decl,), (decl.name,))


TURNS = Form(TURN.name, whole, turn_text, interface_of(TURN))


def load_turn(module: Module, target: Target, cache: Cache | None) -> Program:
    """The turn of a strategy's module, from the cache where it is there, and proven.

    Raises InternalError where its machine code has what no hot path may have.
    """
    own, shared = object_files(module, target, cache, TURNS)
    if target.triple.startswith("x86_64"):
        require(prove(own, TURN.name))
    return Program(own, TURNS.interface or module, target, shared)


def turn_proof(module: Module, target: Target, cache: Cache | None) -> Proof:
    """What the machine code of a strategy's turn does and does not."""
    own, _ = object_files(module, target, cache, TURNS)
    return prove(own, TURN.name)


def function_proof(module: Module, name: str, target: Target, cache: Cache | None) -> Proof:
    """As `turn_proof`, of one function by itself, such as a handler."""
    form = Form(ALONE, functools.partial(whole, entry=ALONE), hot_text)
    own, _ = object_files(alone(module, name), target, cache, form)
    return prove(own, ALONE)


ALONE = "alone"
"""The entry that stands for one function by itself."""


def alone(module: Module, name: str) -> Module:
    """The module with an entry that does what one of its functions does, its result kept."""
    func = next(one for one in module.funcs if one.name == name)
    call = Call(name, tuple(Var(param.name) for param in func.params))
    params, result = func.params, None
    body: tuple[Stmt, ...] = (Do(call),)
    if isinstance(func.result, str):
        body, result = (Return(call),), func.result
    elif func.result is not None:
        params = (*params, ParamDecl("told", func.result, inout=True))
        body = (Assign(Var("told"), call),)
    entry = Func(ALONE, params, result, body)
    entries = (*module.entries, ALONE)
    return msgspec.structs.replace(module, funcs=(*module.funcs, entry), entries=entries)
