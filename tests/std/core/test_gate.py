"""No order comes to be without the risk gate: on the IR, on random orders, in every strategy."""

import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quantdsl.check import compile_file
from quantdsl.check.library import CORE
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events import layout
from quantdsl.ir import ops
from quantdsl.ir.walk import expressions, nested, statements
from quantdsl.passes import run_passes
from quantdsl.shipped import shipped
from tests.std.core.core import HOUR, NONE, Core, module
from tests.std.core.play import Bars, random_bar, random_intent, set_limits

CALLERS = {
    # What enters the table and is announced is an order that was sent, or an exit sent with it.
    "orders.enter": {"orders.send", "orders.send_exit"},
    "orders.announce": {"orders.send", "orders.send_exit", "orders.amend"},
    "orders.price_order": {"orders.send"},
    "orders.send_exit": {"orders.send"},
    # What is sent has passed judge, or is a forced close.
    "orders.send": {"orders.admit", "orders.send_close"},
    "orders.judge": {"orders.admit", "orders.amend"},
    "risk.gate": {"orders.judge"},
    # Forced closes: liquidation, flatten (asked for, or the action of a limit), the run's end.
    "orders.send_close": {"orders.flatten_all", "account.close_out"},
    "orders.flatten_all": {"orders.admit", "risk.act"},
    "account.close_out": {"risk.liquidate", "engine.end_run"},
    # A held order wakes only with the fill of its parent.
    "matching.wake": {"matching.react"},
}
STAGE_WRITERS = {
    "orders.price_order",
    "orders.send",
    "orders.send_exit",
    "orders.drop",
    "matching.consider",
    "matching.wake",
}
TABLE_WRITERS = {"orders.send", "orders.send_exit", "orders.split", "orders.catch_up"}
FORCED = 0  # source line of a close that no handler asked for
CHANGED = 1  # flag of the record of an order that was replaced
INTENTS = int(os.environ.get("QUANTDSL_TEST_INTENTS", "5000"))
PASSED = "watch.refused[0]"  # of Reason.none, which the core itself never counts


def callers(linked: ops.Module, callee: str) -> set[str]:
    return {
        f.name
        for f in linked.funcs
        for e in expressions(f.body)
        if isinstance(e, ops.Call) and e.func == callee
    }


def path(place: ops.Expr) -> list[str]:
    """Names of the fields of a place, from its root."""
    if isinstance(place, ops.Field):
        return [*path(place.base), place.name]
    return path(place.base) if isinstance(place, ops.Elem) else []


def writers(linked: ops.Module, field: str) -> set[str]:
    """Functions that assign to a place through `field`."""
    return {
        f.name
        for f in linked.funcs
        for s in statements(f.body)
        if isinstance(s, ops.Assign) and field in path(s.place)
    }


def _calls(value: ops.Expr | None) -> str:
    """Name of the function whose result a `let` takes."""
    return value.func if isinstance(value, ops.Call) else ""


def functions(linked: ops.Module) -> dict[str, ops.Func]:
    return {f.name: f for f in linked.funcs}


@pytest.mark.parametrize("callee", CALLERS)
def test_only_named_functions_lead_to_an_order(callee: str) -> None:
    assert callers(module(1), callee) == CALLERS[callee]


def test_only_named_functions_write_the_table() -> None:
    assert writers(module(1), "stage") == STAGE_WRITERS
    assert writers(module(1), "orders") - {"orders.reject"} <= TABLE_WRITERS


def test_only_announce_writes_an_order_record() -> None:
    kinds = {
        f.name
        for f in module(1).funcs
        for e in expressions(f.body)
        if isinstance(e, ops.Call)
        and e.func == "engine.emit"
        and e.args[1] == ops.i64(layout.Kind.ORDER)
    }
    assert kinds == {"orders.announce"}
    assert writers(module(1), "outbox") == {"engine.record"}
    assert callers(module(1), "engine.record") == {"engine.emit"}


def guards(body: tuple[ops.Stmt, ...], callee: str) -> Iterator[ops.Expr]:
    """Conditions of the innermost `if` around each call of `callee`."""
    for stmt in statements(body):
        if isinstance(stmt, ops.If):
            inner = [s for s in stmt.then if not nested(s)]
            for e in expressions(tuple(inner)):
                if isinstance(e, ops.Call) and e.func == callee:
                    yield stmt.cond


def test_what_admit_sends_the_gate_has_let_pass() -> None:
    """`send` stands under `why == none`, `why` is judge's, and judge never says none by itself."""
    found = functions(module(1))
    (guard,) = guards(found["orders.admit"].body, "orders.send")
    assert isinstance(guard, ops.Binary)
    assert guard.op == "ieq"
    assert guard.y == ops.i64(0)
    lets = [s for s in statements(found["orders.admit"].body) if isinstance(s, ops.Let)]
    (called,) = (s.name for s in lets if _calls(s.value) == "orders.judge")
    (judged,) = (s.name for s in lets if s.value == ops.Var(called))
    (why,) = (s.value for s in lets if ops.Var(s.name) == guard.x)
    assert isinstance(why, ops.Select)
    assert why.x != ops.i64(0)
    assert why.y == ops.Var(judged)
    body = found["orders.judge"].body
    results = [s.value for s in statements(body) if isinstance(s, ops.Return)]
    assert ops.i64(0) not in results
    at = next(
        n for n, s in enumerate(body) if isinstance(s, ops.Let) and _calls(s.value) == "risk.gate"
    )
    early = [s.value for s in statements(body[:at]) if isinstance(s, ops.Return)]
    assert all(_refuses(value) for value in early)


def _refuses(value: ops.Expr | None) -> bool:
    """Whether a result is one of the reasons other than none."""
    if isinstance(value, ops.Select):
        return _refuses(value.x) and _refuses(value.y)
    return isinstance(value, ops.Const) and value != ops.i64(0)


def test_a_forced_close_asks_for_what_is_held_and_may_open_nothing() -> None:
    body = functions(module(1))["orders.send_close"].body
    (call,) = (e for e in expressions(body) if isinstance(e, ops.Call) and e.func == "orders.send")
    _, _, lots, opens, exits, _ = call.args
    assert isinstance(lots, ops.Unary)
    assert lots.op == "ineg"
    assert path(lots.x) == ["positions", "lots"]
    assert opens == ops.i64(0)
    assert exits == ops.boolean(True)


@pytest.mark.parametrize("name", sorted(p.stem for p in shipped("strategies").glob("*.qdsl")))
def test_a_strategy_reaches_the_table_only_through_intents(name: str) -> None:
    checked = compile_file(Path(shipped(f"strategies/{name}.qdsl")))
    linked = checked.module()
    # On ticks the core is larger: whatever is no function of the strategy's own.
    own = {f.name for f in linked.funcs if f.name.partition(".")[0] in CORE}
    on_ticks = own if checked.strategy.ticks else set()
    core = {f.name for f in module(1).funcs} | on_ticks
    assert writers(linked, "orders") <= core
    assert writers(linked, "stage") <= core
    assert writers(linked, "outbox") <= core
    for callee, allowed in CALLERS.items():
        assert callers(linked, callee) <= allowed | on_ticks


# ---- random orders ---------------------------------------------------------------------------


def _counted(body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
    """`body`, in which each verdict of the gate that lets an order pass is counted in PASSED."""
    out: list[ops.Stmt] = []
    for stmt in body:
        out.append(stmt)
        if isinstance(stmt, ops.Let) and _calls(stmt.value) == "risk.gate":
            watch = ops.Field(ops.Var("p.e"), "watch")
            place = ops.Elem(ops.Field(watch, "refused"), ops.i64(0))
            none = ops.Binary("ieq", ops.Var(stmt.name), ops.i64(0))
            more = ops.Binary("iadd", place, ops.Unary("bool_to_i64", none))
            out.append(ops.Assign(place, more))
    return tuple(out)


@cache
def _counting_program() -> Program:
    linked = module(2)
    funcs = tuple(msgspec.structs.replace(f, body=_counted(f.body)) for f in linked.funcs)
    ready = run_passes(msgspec.structs.replace(linked, funcs=funcs))
    return Program(object_code(ready, native()), ready, native())


def some_intent(rng: random.Random, price: int) -> dict[str, Any]:
    """Any order, now and then one that changes or ends others."""
    allowed = "limit stop touch exits trail tif oco value"
    intent = {**random_intent(rng, price, 2, allowed), "tag": rng.randint(0, 3)}
    if rng.random() < 0.05:
        intent = {"verb": "replace", "tag": 1, "lots": rng.choice([NONE, 9]), "line": 1}
        intent["limit"] = price + rng.randint(-9, 9)
    elif rng.random() < 0.01:
        intent = {"verb": "flatten", "line": FORCED}
    return {**intent, "inst": rng.randrange(2)}


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_that_let_an_order_pass_are_orders_in_the_table(seed: int) -> None:
    """Each order in the table was let pass, is an exit of one that was, or closes what is held."""
    rng, asked = random.Random(seed), 0
    core = Core({"margin_initial": 0.5, "margin_maintenance": 0.1, "cash": 10**10}, 2)
    core.runner = _counting_program()
    prices, held = [1000, 1000], [0, 0]
    sent: dict[int, str] = {}
    passed = 0
    while asked < INTENTS:
        bars: Bars = {i: random_bar(rng, prices[i]) for i in range(2)}
        prices = [bar[3] for bar in bars.values()]
        intents = [some_intent(rng, prices[0]) for _ in range(rng.randint(0, 9))]
        asked += len(intents)
        set_limits(core, {"max_position": 300, "max_entries": 6, "max_daily_loss": 10**9})
        set_limits(core, {"max_daily_loss_does": 3, "price_band": 0.01, "price_band_does": 1})
        ts = (asked + 1) * HOUR
        for kind, flags, inst, a, b, _, _, e in core.step(ts, ts - HOUR, bars, intents):
            if kind == "ORDER" and flags & CHANGED:
                passed += 1
            elif kind == "ORDER":
                forced = e & 0xFFFFFFFF == FORCED
                sent[a] = "forced" if forced else "exit" if b == 0 else "order"
                passed += sent[a] == "order"
            elif kind == "FILL":
                assert a in sent
                if sent[a] != "order":
                    assert abs(e) < abs(held[inst])
                    assert e * held[inst] >= 0
                held[inst] = e
    kinds = list(sent.values())
    assert passed == core.get(PASSED) > INTENTS // 10
    assert min(kinds.count(kind) for kind in ("order", "exit", "forced")) > 10
    assert core.get("watch.tripped") in (0, 1)
    assert core.get("outbox_lost") == 0
