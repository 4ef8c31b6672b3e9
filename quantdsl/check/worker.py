"""A live strategy with asynchronous signals: what its engine leaves out, and what a worker does.

The engine asks and goes on; the equations that only signals read are evaluated by a worker, from
the same events and by the same equations, and come back as SIGNAL events with their values.
"""

from typing import TYPE_CHECKING

from quantdsl.check.columns import live, roots
from quantdsl.check.equations import THIS
from quantdsl.check.graph import Graph, Use, used, used_in
from quantdsl.check.signals import NOW
from quantdsl.check.step import (
    EVENTS_IN,
    STATE_PARAM,
    TICKED,
    TIMERS,
    Assembly,
    instant,
)
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.ir.link import Decl

ANSWER_WORDS = 4
"""Number of the signal, instant of the request, bits of the value, number of the instrument."""
OUT, COUNT, VALUES = ops.Var("answers"), ops.Var("m"), ops.Var("values")


def engine(assembly: Assembly) -> "list[Decl]":
    """The step of an engine whose signals a worker computes."""
    plots = [plot.value.ir for plot in assembly.strategy.plots]
    chosen = _needed(assembly, roots(assembly, worker=True) | used(*plots))
    known = len(assembly.strategy.loops)
    equations = assembly.equations_of(chosen, worker=True)
    step = ops.Func("step", (STATE_PARAM,), None, assembly.step(equations))
    return [step, *assembly.strategy.taken(known)]


def work(assembly: Assembly) -> "list[Decl]":
    """`work(state, events, n, answers)`: whole instants in, ANSWER_WORDS words of each answer out;
    gives how many there are."""
    asked = assembly.signal_step.ask()
    chosen = _needed(assembly, used_in([stmt for _, stmts in asked for stmt in stmts]))
    known = len(assembly.strategy.loops)
    loop = (
        *instant(assembly.counters()),
        *assembly.equations_of(chosen, asked=_answers(assembly)),
        ops.Assign(TICKED, ops.i64(0)),
        ops.Assign(TIMERS, ops.i64(0)),
        *assembly.tick_step.clear(),
        *assembly.signal_step.clear(),
        *([] if assembly.panel is None else [assembly.panel.done()]),
    )
    out = ops.ParamDecl(OUT.name, ops.BufferType(ops.I64_T), inout=True)
    body = (
        ops.Let(COUNT.name, ops.I64_T, ops.i64(0)),
        ops.For("k", ops.i64(0), ops.Var("n"), loop),
        ops.Return(COUNT),
    )
    work = ops.Func("work", (*EVENTS_IN, out), ops.I64_T, body)
    return [work, *assembly.strategy.taken(known)]


def instant_of(assembly: Assembly) -> "list[Decl]":
    """`instant(state, values)`: what `work` does once the events of an instant are in.

    `values` gets the bits of each answer at `number * width + instrument`, and behind all signals,
    for each instrument, a bit of each signal that has an answer; a signal of the whole universe
    has the instrument 0, and its bits stand in one word more.
    """
    signals = assembly.strategy.signals
    asked = assembly.signal_step.ask()
    chosen = _needed(assembly, used_in([stmt for _, stmts in asked for stmt in stmts]))
    known = len(assembly.strategy.loops)
    body: list[ops.Stmt] = [
        *assembly.counters(),
        *assembly.equations_of(chosen, asked=[]),
    ]
    if any(not signal.panel for signal in signals.all):
        body += _values(assembly, panel=False)
    if assembly.panel is not None:
        count = ops.SizeOf(ops.SizeName("N_INSTRUMENTS"))
        body.append(ops.For(THIS.name, ops.i64(0), count, tuple(_values(assembly, panel=True))))
    body += assembly.signal_step.clear()
    if assembly.panel is not None:
        body.append(assembly.panel.done())
    body += assembly.tick_step.clear()
    body += [ops.Assign(TICKED, ops.i64(0)), ops.Assign(TIMERS, ops.i64(0))]
    out = ops.ParamDecl(VALUES.name, ops.BufferType(ops.I64_T), inout=True)
    instant = ops.Func("instant", (STATE_PARAM, out), None, tuple(body))
    events = assembly.ingest(assembly.used, answers=False)
    return [events, instant, *assembly.strategy.taken(known)]


def _values(assembly: Assembly, *, panel: bool) -> list[ops.Stmt]:
    """Answers of the signals of instruments, or of those of the whole, to where they belong."""
    width = ops.SizeOf(ops.SizeName("N_INSTRUMENTS"))
    whose = THIS if panel else ops.i64(0)
    marks: ops.Expr = ops.i64(0)
    stmts: list[ops.Stmt] = []
    signals = assembly.strategy.signals.all
    for signal in signals:
        if signal.panel != panel:
            continue
        due = assembly.signal_step.due(signal)
        first = ops.Binary("imul", ops.i64(signal.number), width)
        place = ops.Elem(VALUES, ops.Binary("iadd", first, whose))
        told = ops.Assign(place, ops.Unary("bits", signal.equation.ir))
        stmts.append(ops.If(due, (told,)))
        marks = ops.Binary("ior", marks, ops.Select(due, signal.bit, ops.i64(0)))
    behind = ops.Binary("imul", ops.i64(len(signals)), width)
    at = ops.Binary("iadd", behind, whose if panel else width)
    return [*stmts, ops.Assign(ops.Elem(VALUES, at), marks)]


def _needed(assembly: Assembly, uses: set[Use]) -> set[int]:
    """The equations that these uses need, by number."""
    return set(live(Graph(assembly.strategy), uses, lambda *_: None).evaluated)


def _answers(assembly: Assembly) -> list[tuple[ops.Expr, list[ops.Stmt]]]:
    """Each signal's value into the answers, where its clock ticks and it is warm."""
    parts = []
    for signal in assembly.strategy.signals.all:
        first = ops.Binary("imul", COUNT, ops.i64(ANSWER_WORDS))
        bits = ops.Unary("bits", signal.equation.ir)
        whose = THIS if signal.panel else ops.i64(0)
        words: tuple[ops.Expr, ...] = (ops.i64(signal.number), NOW, bits, whose)
        stmts: list[ops.Stmt] = [
            ops.Assign(ops.Elem(OUT, ops.Binary("iadd", first, ops.i64(n))), word)
            for n, word in enumerate(words)
        ]
        stmts.append(ops.Assign(COUNT, ops.Binary("iadd", COUNT, ops.i64(1))))
        due = assembly.signal_step.due(signal)
        if signal.panel:  # in place: a function of an instrument does not see the answers
            count = ops.SizeOf(ops.SizeName("N_INSTRUMENTS"))
            each: ops.Stmt = ops.For(THIS.name, ops.i64(0), count, (ops.If(due, tuple(stmts)),))
            due, stmts = ops.boolean(True), [each]
        parts.append((due, stmts))
    return parts
