"""The turn of turn.py that notes what each event takes, by the cycle counter of x86-64.

A span begins before its event is taken. It ends after the event's records are in the ring (WHOLE),
or when the handlers have returned (RETURN), or when the first order is there for others to see
(ORDER); an event that comes to neither is told whole. With an interval it takes event k no earlier
than `due + k * interval`, and counts from then, however late it was: so a stall is charged to every
event that it delayed.
"""

from collections.abc import Iterator

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.function import Shared, Signature
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import Target
from quantdsl.codegen.turn import (
    BUFFER,
    SHOW,
    TURN,
    hot_text,
    interface_of,
    loop_text,
    places,
    show_text,
    whole,
)
from quantdsl.errors import UnavailableError
from quantdsl.events.ring import CONSUMER
from quantdsl.ir.ops import I64_T, Call, Do, Field, Func, If, Module, ParamDecl, Var

WHOLE, RETURN, ORDER = 0, 1, 2
SEEN, UNTIL = CONSUMER + 2, CONSUMER + 3
"""Words of a ring that nobody else has: when a span ended before its event did, by cycles, and what
ends it."""
RETURNED = "returned"
"""What is called behind the handlers of a step."""
STAMPED = Func(
    "stamped",
    (
        *TURN.params,
        ParamDecl("stamps", BUFFER, inout=True),  # i64[1 + events, 2]: cycles, records written
        ParamDecl("due", I64_T),  # of the first event, by the cycle counter
        ParamDecl("interval", I64_T),  # cycles between two events; 0 = as they come
        ParamDecl("until", I64_T),
    ),
    I64_T,
    (),
)

CYCLES = """\
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.lfence()
"""
WAIT = f"""\
  %seen.at = getelementptr i64, ptr %outbound, i64 {SEEN}
  %until.at = getelementptr i64, ptr %outbound, i64 {UNTIL}
  store i64 0, ptr %seen.at, align 8
  store i64 %until, ptr %until.at, align 8
  call void @llvm.x86.sse2.lfence()
  %now = call i64 @llvm.readcyclecounter()
  call void @llvm.x86.sse2.lfence()
  %number = sub i64 %next, %first
  %behind = mul i64 %number, %interval
  %due.now = add i64 %due, %behind
  %as.they.come = icmp eq i64 %interval, 0
  %late = icmp sge i64 %now, %due.now
  %go = or i1 %as.they.come, %late
  %started = select i1 %as.they.come, i64 %now, i64 %due.now
  store i64 %started, ptr %started.at, align 8
  br i1 %go, label %take, label %wait
"""
MARK = f"""\
  %until.at = getelementptr i64, ptr %ring, i64 {UNTIL}
  %asked = load i64, ptr %until.at, align 8
  %is.asked = icmp eq i64 %asked, {{what}}
  br i1 %is.asked, label %mark, label %done
mark:
  call void @llvm.x86.sse2.lfence()
  %now = call i64 @llvm.readcyclecounter()
  call void @llvm.x86.sse2.lfence()
  %seen.at = getelementptr i64, ptr %ring, i64 {SEEN}
  %earlier = load i64, ptr %seen.at, align 8
  %is.first = icmp eq i64 %earlier, 0
  %kept = select i1 %is.first, i64 %now, i64 %earlier
  store i64 %kept, ptr %seen.at, align 8
"""
RETURNED_TEXT = """\
define internal void @{symbol}(ptr %e) #0 {{
entry:
  %ring.at = getelementptr i64, ptr %e, i64 {outbound}
  %address = load i64, ptr %ring.at, align 8
  %ring = inttoptr i64 %address to ptr
{mark}  br label %done
done:
  ret void
}}
"""
NOTE = f"""\
  call void @llvm.x86.sse2.lfence()
  %ended = call i64 @llvm.readcyclecounter()
  %began = load i64, ptr %started.at, align 8
  %marked.at = getelementptr i64, ptr %outbound, i64 {SEEN}
  %marked = load i64, ptr %marked.at, align 8
  %unmarked = icmp eq i64 %marked, 0
  %last = select i1 %unmarked, i64 %ended, i64 %marked
  %took = sub i64 %last, %began
  %which = sub i64 %so.far, %first
  %stamp = getelementptr [2 x i64], ptr %stamps, i64 %which
  store i64 %took, ptr %stamp, align 8
  %stamp.records = getelementptr i64, ptr %stamp, i64 1
  store i64 %records, ptr %stamp.records, align 8
"""


def load_stamped(module: Module, target: Target, cache: Cache | None) -> Program:
    """The turn that notes what each event takes. Raises UnavailableError but on x86-64."""
    need_counter(target)
    return load(module, target, cache, STAMPS)


def need_counter(target: Target) -> None:
    """Raise UnavailableError where user code may not read a cycle counter."""
    if not target.triple.startswith("x86_64"):
        raise UnavailableError("latencies are measured by the cycle counter of x86-64 only")


def _marked(module: Module) -> Module:
    """What `whole` makes of a module, with a call of RETURNED behind the handlers of its step.

    It comes without where there are no handlers, or none sends an order.
    """
    module = whole(module)
    found = {func.name: func for func in module.funcs}
    step, submit = found["step"], found.get("engine.submit")
    engine = Field(Var(step.params[0].name), "e")
    trading = Field(engine, "counting")
    behind = [
        k for k, stmt in enumerate(step.body, 1) if isinstance(stmt, If) and stmt.cond == trading
    ]
    if submit is None or not behind:
        return module
    at = behind[-1]
    body = (*step.body[:at], Do(Call(RETURNED, (engine,))), *step.body[at:])
    found["step"] = msgspec.structs.replace(step, body=body)
    returned = Func(RETURNED, submit.params, None, (), inline=True)
    return msgspec.structs.replace(module, funcs=(returned, *found.values()))


def _text(module: Module, target: Target) -> str:
    return hot_text(module, target, _stamped, {SHOW: _seen_text, RETURNED: _returned_text})


def _stamped(_: Module, shared: Shared) -> Iterator[str]:
    yield loop_text(STAMPED, shared, wait=WAIT, note=NOTE)
    yield CYCLES


def _seen_text(shared: Shared, signature: Signature) -> str:
    return show_text(shared, signature, MARK.format(what=ORDER))


def _returned_text(shared: Shared, signature: Signature) -> str:
    mark = MARK.format(what=RETURN)
    return RETURNED_TEXT.format(symbol=signature.symbol, mark=mark, **places(shared))


STAMPS = Form(STAMPED.name, _marked, _text, interface_of(STAMPED))
