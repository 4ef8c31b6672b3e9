"""Code that measures other code by the cycle counter of x86-64.

`sampled` runs a probe (a part of a strategy's `run`) on events of a recorded stream, on a copy of
the state that the whole run has at that event, between two stamps. The events before them the probe
has run already, on another copy: so neither its code nor its branches are new to the core. `empty`
notes what two stamps
cost with nothing between them, again and again: the noise of the core. `ping` publishes events in a
ring and notes how long it takes until the other end has released each, or has shown an order in the
ring back, whichever is first; `echo` is an other end that
does nothing else. `still` takes the place of a strategy's `run` where the state is not to move.
"""

import functools
from collections.abc import Iterator

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.function import Shared
from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.stamped import CYCLES, need_counter
from quantdsl.codegen.target import Target
from quantdsl.codegen.text import entry_symbol
from quantdsl.codegen.turn import (
    BUFFER,
    STATE,
    STOP,
    hot_text,
    param_text,
    whole,
)
from quantdsl.events.codes import WORDS
from quantdsl.events.ring import AHEAD, CAPACITY_WORD, CONSUMED, HEAD_WORDS, PUBLISHED
from quantdsl.ir.ops import I64_T, Func, Module, ParamDecl

NUMBERS = {"n_starts", "n_stamps", "n_events", "n_parts", "warm", "batch", "full"}


def _func(name: str, *params: str) -> Func:
    """An interface: numbers by their names, every other param is memory."""
    decls = (ParamDecl(p, I64_T) if p in NUMBERS else ParamDecl(p, BUFFER, inout=True)
             for p in params)  # fmt: skip
    return Func(name, tuple(decls), None, ())


SAMPLED = _func(
    "sampled", "state", "copy", "spare", "parts", "n_parts", "events", "starts", "n_starts", "warm",
    "batch", "curve", "stamps", "full",
)  # fmt: skip
EMPTY = _func("empty", "stamps", "n_stamps")
PING = _func("ping", "there", "back", "events", "n_events", "stamps")
ECHO = _func("echo", "there", "control")
STILL = msgspec.structs.replace(
    _func("still", "state", "events", "n_events", "curve"), result=I64_T
)  # fmt: skip

GAUGES = (EMPTY, PING, ECHO, STILL)

STAMP = """\
  call void @llvm.x86.sse2.lfence()
  %{name} = call i64 @llvm.readcyclecounter()
  call void @llvm.x86.sse2.lfence()
"""

# `full` is the address of `run`: the whole strategy moves `state` from event to event. From `warm`
# events before each start the copy goes along, so that its words are in the cache; what the probe
# makes of those is in `spare`, and forgotten. Copied are the `parts` of the state: i64[n, 2], their
# first words and those after their last.
SAMPLED_TEXT = """\
define internal void @moved(ptr %state, ptr %events, i64 %from, i64 %to, ptr %curve, ptr %full) {{
entry:
  %count.at = getelementptr i64, ptr %state, i64 {outbox_count}
  br label %head
head:
  %at = phi i64 [ %from, %entry ], [ %next, %body ]
  %left = sub i64 %to, %at
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %body, label %after
body:
  %event = getelementptr [{WORDS} x i64], ptr %events, i64 %at
  %done = call i64 %full(ptr %state, ptr %event, i64 %left, ptr %curve)
  store i64 0, ptr %count.at, align 8
  %next = add i64 %at, %done
  br label %head
after:
  ret void
}}
define internal void @copied(ptr %from, ptr %to, ptr %parts, i64 %n) {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %after.part ]
  %some = icmp slt i64 %k, %n
  br i1 %some, label %part, label %after
part:
  %lo.at = getelementptr [2 x i64], ptr %parts, i64 %k
  %hi.at = getelementptr i64, ptr %lo.at, i64 1
  %lo = load i64, ptr %lo.at, align 8
  %hi = load i64, ptr %hi.at, align 8
  br label %word.head
word.head:
  %at = phi i64 [ %lo, %part ], [ %next, %body ]
  %more = icmp slt i64 %at, %hi
  br i1 %more, label %body, label %after.part
body:
  %source = getelementptr i64, ptr %from, i64 %at
  %target = getelementptr i64, ptr %to, i64 %at
  %word = load i64, ptr %source, align 8
  store i64 %word, ptr %target, align 8
  %next = add i64 %at, 1
  br label %word.head
after.part:
  %k.next = add i64 %k, 1
  br label %head
after:
  ret void
}}
define void @{symbol}({params}) #1 {{
entry:
  %run = inttoptr i64 %full to ptr
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %reached = phi i64 [ 0, %entry ], [ %from, %body ]
  %more = icmp slt i64 %i, %n_starts
  br i1 %more, label %body, label %after
body:
  %start.at = getelementptr i64, ptr %starts, i64 %i
  %start = load i64, ptr %start.at, align 8
  %warm.start = sub i64 %start, %warm
  %behind = icmp slt i64 %warm.start, %reached
  %from = select i1 %behind, i64 %reached, i64 %warm.start
  call void @moved(ptr %state, ptr %events, i64 %reached, i64 %from, ptr %curve, ptr %run)
  call void @copied(ptr %state, ptr %spare, ptr %parts, i64 %n_parts)
  call void @copied(ptr %state, ptr %copy, ptr %parts, i64 %n_parts)
  call void @moved(ptr %copy, ptr %events, i64 %from, i64 %start, ptr %curve, ptr %run)
  %early.event = getelementptr [{WORDS} x i64], ptr %events, i64 %from
  %before = sub i64 %start, %from
  %idle = call i64 @{probe}(ptr %spare, ptr %early.event, i64 %before, ptr %curve)
  %spare.count.at = getelementptr i64, ptr %spare, i64 {outbox_count}
  store i64 0, ptr %spare.count.at, align 8
  %event = getelementptr [{WORDS} x i64], ptr %events, i64 %start
{begin}  %told = call i64 @{probe}(ptr %copy, ptr %event, i64 %batch, ptr %curve)
  call void asm sideeffect "", "r"(i64 %told)
{end}  %took = sub i64 %ended, %began
  %stamp = getelementptr i64, ptr %stamps, i64 %i
  store i64 %took, ptr %stamp, align 8
  %copy.count.at = getelementptr i64, ptr %copy, i64 {outbox_count}
  store i64 0, ptr %copy.count.at, align 8
  %i.next = add i64 %i, 1
  br label %head
after:
  ret void
}}
"""

RING_TEXT = """\
define i64 @{still}(ptr %state, ptr %events, i64 %n_events, ptr %curve) #1 {{
  ret i64 %n_events
}}
define void @{empty}(ptr noalias %stamps, i64 %n_stamps) #1 {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %n_stamps
  br i1 %more, label %body, label %after
body:
{begin}{end}  %took = sub i64 %ended, %began
  %stamp = getelementptr i64, ptr %stamps, i64 %i
  store i64 %took, ptr %stamp, align 8
  %i.next = add i64 %i, 1
  br label %head
after:
  ret void
}}
define void @{ping}(ptr noalias %there, ptr noalias %back, ptr noalias %events, i64 %n_events,
    ptr noalias %stamps) #1 {{
entry:
  %published.at = getelementptr i64, ptr %there, i64 {PUBLISHED}
  %consumed.at = getelementptr i64, ptr %there, i64 {CONSUMED}
  %size.at = getelementptr i64, ptr %there, i64 {CAPACITY_WORD}
  %size = load i64, ptr %size.at, align 8
  %mask = sub i64 %size, 1
  %records = getelementptr i64, ptr %there, i64 {HEAD_WORDS}
  %orders.at = getelementptr i64, ptr %back, i64 {PUBLISHED}
  %read.at = getelementptr i64, ptr %back, i64 {CONSUMED}
  %shown.at = getelementptr i64, ptr %back, i64 {AHEAD}
  %first = load i64, ptr %published.at, align 8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %whole ]
  %more = icmp slt i64 %i, %n_events
  br i1 %more, label %send, label %after
send:
  %source = getelementptr [{WORDS} x i64], ptr %events, i64 %i
  %place = add i64 %first, %i
  %slot = and i64 %place, %mask
  %target = getelementptr [{WORDS} x i64], ptr %records, i64 %slot
  %record = load <{WORDS} x i64>, ptr %source, align 8
  %until = add i64 %place, 1
  %read = load i64, ptr %read.at, align 8
{begin}  store <{WORDS} x i64> %record, ptr %target, align 8
  store atomic i64 %until, ptr %published.at release, align 8
  br label %wait
wait:
  %consumed = load atomic i64, ptr %consumed.at acquire, align 8
  %shown = load atomic i64, ptr %shown.at acquire, align 8
  %there.yet = icmp eq i64 %consumed, %until
  %beyond = sub i64 %shown, %read
  %ordered = icmp sgt i64 %beyond, 0
  %answered = or i1 %there.yet, %ordered
  br i1 %answered, label %seen, label %wait
seen:
{end}  %took = sub i64 %ended, %began
  %stamp = getelementptr [2 x i64], ptr %stamps, i64 %i
  store i64 %took, ptr %stamp, align 8
  br label %rest
rest:
  %released = load atomic i64, ptr %consumed.at acquire, align 8
  %over = icmp eq i64 %released, %until
  br i1 %over, label %whole, label %rest
whole:
  %orders = load atomic i64, ptr %orders.at acquire, align 8
  %fresh = sub i64 %orders, %read
  %stamp.orders = getelementptr i64, ptr %stamp, i64 1
  store i64 %fresh, ptr %stamp.orders, align 8
  store atomic i64 %orders, ptr %read.at release, align 8
  %i.next = add i64 %i, 1
  br label %head
after:
  ret void
}}
define void @{echo}(ptr noalias %there, ptr noalias %control) #1 {{
entry:
  %published.at = getelementptr i64, ptr %there, i64 {PUBLISHED}
  %consumed.at = getelementptr i64, ptr %there, i64 {CONSUMED}
  %stop = getelementptr i64, ptr %control, i64 {STOP}
  br label %head
head:
  %published = load atomic i64, ptr %published.at acquire, align 8
  store atomic i64 %published, ptr %consumed.at release, align 8
  %stopping = load atomic i64, ptr %stop acquire, align 8
  %stopped = icmp ne i64 %stopping, 0
  br i1 %stopped, label %after, label %head
after:
  ret void
}}
"""

PROBE = "probe"
"""The function of a module that `sampled` runs between its stamps; it has the params of `run`."""


def sampled_form(routine: str = "") -> Form:
    """`sampled` of a module with the function PROBE.

    A `routine` that it repeats stays a call: copied into the loop, what it reads of the state would
    be read once for all records, and several of them decided side by side.
    """
    interface = Module((), (), (SAMPLED,), (SAMPLED.name,))
    return Form(
        f"{SAMPLED.name} {routine}",
        functools.partial(_whole, routine),
        lambda m, t: hot_text(m, t, _sampled),
        interface,
    )


def load_sampled(module: Module, target: Target, cache: Cache | None, routine: str = "") -> Program:
    """`sampled` for the function PROBE of a module."""
    need_counter(target)
    return load(module, target, cache, sampled_form(routine))


def _whole(routine: str, module: Module) -> Module:
    found = whole(module, entry=PROBE)
    apart = (
        msgspec.structs.replace(func, inline=func.inline and func.name != routine)
        for func in found.funcs
    )
    return msgspec.structs.replace(found, funcs=tuple(apart))


def load_gauges(target: Target) -> Program:
    """`empty`, `ping`, `echo` and `still`."""
    need_counter(target)
    names = {func.name: entry_symbol(func.name) for func in GAUGES}
    text = RING_TEXT.format(
        **names,
        PUBLISHED=PUBLISHED,
        AHEAD=AHEAD,
        CONSUMED=CONSUMED,
        CAPACITY_WORD=CAPACITY_WORD,
        HEAD_WORDS=HEAD_WORDS,
        WORDS=WORDS,
        STOP=STOP,
        begin=STAMP.format(name="began"),
        end=STAMP.format(name="ended"),
    )
    interface = Module((), (), GAUGES, tuple(names))
    attributes = 'attributes #1 = { noinline nounwind "no-builtins" }\n'
    return Program(assemble(text + CYCLES + attributes, target), interface, target)


def _sampled(_: Module, shared: Shared) -> Iterator[str]:
    yield SAMPLED_TEXT.format(
        symbol=entry_symbol(SAMPLED.name),
        params=", ".join(map(param_text, SAMPLED.params)),
        probe=shared.signatures[PROBE].symbol,
        outbox_count=shared.layout.locate(STATE, "e.outbox_count").offset_words,
        WORDS=WORDS,
        begin=STAMP.format(name="began"),
        end=STAMP.format(name="ended"),
    )
    yield CYCLES
