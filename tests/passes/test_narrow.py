"""Equations in single precision: each operation rounded once, all else as it was."""

import math

import numpy as np
import pytest

from quantdsl.backtest.lane_code import lowered
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, draw, results
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.events.codes import Kind
from quantdsl.events.layout import EVENT
from quantdsl.ir import ops
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import expressions
from quantdsl.passes.narrow import GREATEST, LEAST, nearest
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_text

EVENTS = 60
BARS = """language 1
strategy S:
    bars 5m
{equations}
    on bar:
        if {used}:
            buy(1 shares)
"""
F32 = np.float32


def evaluated(equations: str, precision: str) -> tuple[list[float], np.ndarray]:
    """The last value of each `let` of a strategy, and the closes of its bars in ticks."""
    lets = [line.strip() for line in equations.strip().splitlines()]
    names = [line.split()[1] for line in lets]
    used = " and ".join(f"{name} > -1e30" for name in names)
    checked = checked_text(
        BARS.format(equations="\n".join(f"    {line}" for line in lets), used=used)
    )
    arranged = arrange(checked)
    points = draw(checked, arranged, 1, np.random.default_rng(1))
    events = materialised(arranged.data)[:EVENTS]
    lanes = Lanes(checked, arranged, points, events, precision)
    work = lanes.work(NO_COLUMNS, ("",))
    words = results(work, Target("interpreter", InterpretedRunner()))[:, 0]
    whole = np.zeros(len(work.template), np.int64)
    whole[work.results] = words
    found = {}
    for equation in checked.strategy.equations.all:
        struct = next(one for one in work.module.structs if one.name == "State")
        names_of = [field.name for field in struct.fields]
        assert equation.place.name in names_of
        at = lanes_offset(work.module, equation.place.name)
        found[equation.line] = whole[at : at + 1].view(np.float64)[0]
    bars = events.view(EVENT).reshape(-1)
    closes = bars[bars["kind"] == Kind.BAR]["payload"][:, 3]
    return [float(value) for _, value in sorted(found.items())], closes


def lanes_offset(module: ops.Module, name: str) -> int:
    from quantdsl.backtest.program import Memory

    return Memory(module).layout.locate(ops.StructType("State"), name).offset_words


def test_each_operation_of_an_average_is_rounded_to_single_precision() -> None:
    (mean,), ticks = evaluated("let mean = ta.ema(close, 10)", "f32")
    close = (ticks / 100.0).astype(F32)
    expected = F32(close[:10].astype(np.float64).sum()) / F32(10)
    weight = F32(2.0 / 11)
    for price in close[10:]:
        step = F32(price - expected)
        expected = F32(float(weight) * float(step) + float(expected))  # exact in a double
    assert mean == float(expected)
    (exact,), _ = evaluated("let mean = ta.ema(close, 10)", "f64")
    assert mean != exact
    assert math.isclose(mean, exact, rel_tol=1e-6)


def test_functions_of_std_compute_in_double_and_round_once() -> None:
    (value,), ticks = evaluated("let value = exp(close / 100)", "f32")
    argument = F32(F32(ticks[-1] / 100.0) / F32(100))
    assert value == float(F32(math.exp(float(argument))))


def test_integers_stay_exact() -> None:
    """A sum of ticks beyond 2^24, which single precision cannot count."""
    (ours,), ticks = evaluated("let mean = ta.sma(close, 50)", "f32")
    assert ticks[-50:].sum() < 1 << 53
    assert ours == float(F32(F32(ticks[-50:].sum()) / F32(F32(50) * F32(100))))


@pytest.mark.parametrize(
    ("value", "near"),
    [
        (0.1, float(F32(0.1))),
        (1e100, GREATEST),
        (-1e100, -GREATEST),
        (1e-300, LEAST),
        (math.inf, math.inf),
        (-0.0, -0.0),
    ],
)
def test_a_constant_is_the_nearest_that_still_bounds_something(value: float, near: float) -> None:
    assert nearest(ops.f64(value)) == ops.f64(near)


def test_na_stays_na() -> None:
    assert nearest(ops.f64(math.nan)).bits == ops.CANONICAL_NAN_BITS


@pytest.mark.parametrize("seed", range(8))
def test_what_is_made_is_ir(seed: int) -> None:
    checked = checked_text(strategy(seed))
    module = lowered(checked, checked.lane_module(), "f32")
    verify(module)
    assert lowered(checked, module, "f64") is module


def test_money_and_orders_are_not_touched() -> None:
    """The functions of the core are the very same."""
    checked = checked_text(strategy(3))
    module = checked.lane_module()
    before = {func.name: func for func in module.funcs}
    core = ("engine.", "orders.", "matching.", "risk.", "account.", "metrics.")
    funcs = lowered(checked, module, "f32").funcs
    kept = [func for func in funcs if func.name.startswith(core)]
    assert len(kept) > 20
    for func in kept:
        assert before[func.name] is func


def test_no_operation_of_an_equation_is_left_in_double() -> None:
    checked = checked_text(
        BARS.format(equations="    let m = ta.ema(close, 10) * 1.1", used="m > close")
    )
    module = lowered(checked, checked.lane_module(), "f32")
    (single,) = [func for func in module.funcs if func.name.startswith("ta.smooth")]
    assert single.name.endswith(".f32")
    whole = list(expressions(single.body))
    rounded = [one.x for one in whole if isinstance(one, ops.Unary) and one.op == "f32"]
    arithmetic = [
        one for one in whole
        if isinstance(one, ops.Binary) and one.op in ("fadd", "fsub", "fmul", "fdiv")
    ]  # fmt: skip
    assert arithmetic
    assert all(any(one is inner for inner in rounded) for one in arithmetic)
    assert all(one.single for one in whole if isinstance(one, ops.Fma))
