"""The parts of a strategy's step, each cut out of the IR that runs, to be measured by itself.

A probe is `run` with less in it: up to a stage, so that the difference of two probes is the stage
between them; or one routine of the core on recorded inputs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quantdsl.check.step import STATE_PARAM, TICKED, TIMERS, TRADING
from quantdsl.codegen.gauges import PROBE
from quantdsl.errors import InternalError
from quantdsl.events.layout import NO_PRICE
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Assign,
    Binary,
    Call,
    Const,
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
    Select,
    Stmt,
    Unary,
    Var,
    boolean,
    i64,
)

STATE = Var(STATE_PARAM.name)
ENGINE = Field(STATE, "e")
STAGES = ("decode", "market", "equations", "handlers", "risk and orders", "metrics")
"""In the order in which an event passes them."""
INPUT = Elem(Var("events"), Var("k"))
LOTS, LIMIT = Field(INPUT, "b"), Field(INPUT, "c")
CLOSE = Field(Elem(Field(ENGINE, "market"), i64(0)), "close")
GATE: dict[str, Expr] = {
    "lots": LOTS,
    "position": Binary("iadd", Field(Elem(Field(ENGINE, "positions"), i64(0)), "lots"), LOTS),
    # An order without a price of its own is judged by the last one.
    "ticks": Select(Binary("ieq", LIMIT, i64(NO_PRICE)), CLOSE, LIMIT),
    "priced": boolean(True),
}
"""Params of the risk gate, from an ORDER record; the rest of them are 0 or false."""
BOOK: dict[str, Expr] = {
    "lots": LOTS,
    "ticks": Field(INPUT, "c"),
    "fee": Field(INPUT, "d"),
}
"""Params of what books a fill, from a FILL record."""


class Probe(NamedTuple):
    """A module whose function PROBE is to be measured."""

    name: str
    module: Module
    routine: str = ""
    """What it calls once for each record."""


def stage_probes(module: Module) -> list[Probe]:
    """`run` up to each of STAGES."""
    step = _func(module, "step")
    parts = _parts(step)
    probes, body = [], list[Stmt]()
    for name in STAGES:
        body += parts[name]
        ends = (*body, *_forgotten(name, dict(module.sizes)["N_INSTRUMENTS"]))
        short = Func(PROBE_STEP, step.params, None, ends)
        probes.append(Probe(name, _with(module, short, _probe_of_run(module))))
    return probes


def gate_probe(module: Module) -> Probe:
    """The risk gate alone, on ORDER records."""
    return _repeated(module, "risk gate", "risk.gate", GATE)


def hold_probe(module: Module) -> Probe:
    """A fill into position, cash and equity alone, on FILL records."""
    return _repeated(module, "position update", "account.hold", BOOK)


def book_probe(module: Module) -> Probe:
    """The same with the round trips that it closes and their records."""
    return _repeated(module, "fill booked", "account.book", BOOK)


PROBE_STEP = "probe_step"


def _parts(step: Func) -> dict[str, list[Stmt]]:
    """The statements of each stage."""
    parts: dict[str, list[Stmt]] = {name: [] for name in STAGES}
    stage = "market"
    for stmt in step.body:
        called = stmt.call.func if isinstance(stmt, Do) else ""
        if isinstance(stmt, If) and stmt.cond == TRADING:
            stage = "handlers"
        elif called == "engine.submit":
            stage = "risk and orders"
        elif called == "engine.finish":
            stage = "metrics"
        parts[stage].append(stmt)
        if called == "engine.market":
            stage = "equations"
    if not parts["risk and orders"] or not parts["metrics"]:
        raise InternalError("QD9510 live: the step has not the parts that it is measured by")
    return parts


def _forgotten(name: str, instruments: int) -> Iterator[Stmt]:
    """What the rest of the step would have done away with."""
    if name != STAGES[-1]:
        yield Assign(TICKED, i64(0))
        yield Assign(TIMERS, i64(0))
        fresh = Field(Elem(Field(ENGINE, "market"), Var("seen")), "fresh")
        yield For("seen", i64(0), i64(instruments), (Assign(fresh, i64(0)),))
    if STAGES.index(name) < STAGES.index("risk and orders"):
        yield Assign(Field(ENGINE, "intent_count"), i64(0))


def _probe_of_run(module: Module) -> Func:
    """`run`, with PROBE_STEP in the place of `step`."""
    run = _func(module, "run")

    def changed(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, Do) and stmt.call.func == "step":
                new.append(Do(Call(PROBE_STEP, stmt.call.args)))
            elif isinstance(stmt, For):
                new.append(msgspec.structs.replace(stmt, body=changed(stmt.body)))
            else:
                new.append(stmt)
        return tuple(new)

    return msgspec.structs.replace(run, name=PROBE, body=changed(run.body))


def _repeated(module: Module, title: str, name: str, given: dict[str, Expr]) -> Probe:
    """A loop that calls a routine of the core once for each record."""
    routine, run = _func(module, name), _func(module, "run")
    if not given.keys() <= {param.name.removeprefix("p.") for param in routine.params}:
        raise InternalError(f"QD9510 live: {name} does not take what it is measured with")
    args = [_argument(param, given) for param in routine.params]
    call = Call(name, tuple(args))
    total: Expr = Var("total")
    stmts: tuple[Stmt, ...] = (Do(call),)
    if routine.result == I64_T:  # a result that nobody reads would not be computed
        stmts = (Assign(Var("total"), Binary("iadd", total, call)),)
    elif routine.result == BOOL_T:
        stmts = (Assign(Var("total"), Binary("iadd", total, Unary("bool_to_i64", call))),)
    body: tuple[Stmt, ...] = (
        Let("total", I64_T, i64(0)),
        For("k", i64(0), Var("n"), stmts),
        Return(total),
    )
    return Probe(title, _with(module, Func(PROBE, run.params, I64_T, body)), name)


def _argument(param: ParamDecl, given: dict[str, Expr]) -> Expr:
    """The engine, what is given for a param of this name, else 0 or false."""
    if not isinstance(param.type, str):
        return ENGINE
    name = param.name.removeprefix("p.")
    if name in given:
        return given[name]
    if param.type == BOOL_T:
        return boolean(False)
    return Const(F64_T, 0) if param.type == F64_T else i64(0)


def _func(module: Module, name: str) -> Func:
    for func in module.funcs:
        if func.name == name:
            return func
    raise InternalError(f"QD9510 live: there is no {name} to measure")


def _with(module: Module, *funcs: Func) -> Module:
    """The module with PROBE as its one entry."""
    return msgspec.structs.replace(module, funcs=(*module.funcs, *funcs), entries=(PROBE,))
