"""The usual turn of lanes: its flags and counts are known, and it means what any turn means."""

import operator
from pathlib import Path

import pytest

from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.check import compile_file
from quantdsl.codegen.rows import split_lanes
from quantdsl.ir.ops import Binary, For, If
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import expressions, statements
from quantdsl.passes.flags import flag_of, weight
from quantdsl.passes.row_turn import FOLLOWS, MIRRORED, NEGATED, row_turn, usual_beside_any
from quantdsl.passes.rows import ROW_WORDS
from tests.truth.test_oracle import market

STRATEGIES = Path(__file__).resolve().parents[2] / "bench" / "strategies"
RANGES = {
    "ema_cross": {"fast": "9..81:72", "slow": "514..586:72"},
    "bracket": {"fast": "2..11:9", "dip": "0.1..0.7:0.6"},
}
OPERATORS = {
    "ilt": operator.lt,
    "ile": operator.le,
    "igt": operator.gt,
    "ige": operator.ge,
    "ieq": operator.eq,
    "ine": operator.ne,
}
PAIRS = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]


@pytest.mark.parametrize("op", OPERATORS)
def test_what_follows_from_a_comparison_is_all_that_does(op):
    """Every answer holds for all numbers, and where none is given both occur."""
    for other, asked in OPERATORS.items():
        answers = {asked(x, y) for x, y in PAIRS if OPERATORS[op](x, y)}
        expected = answers.pop() if len(answers) == 1 else None
        assert FOLLOWS[op].get(other) is expected
    for x, y in PAIRS:
        assert OPERATORS[NEGATED[op]](x, y) != OPERATORS[op](x, y)
        assert OPERATORS[MIRRORED[op]](y, x) == OPERATORS[op](x, y)


@pytest.mark.parametrize("name", RANGES)
def test_a_usual_turn_asks_no_flag_and_warms_nothing_up(name):
    path = STRATEGIES / f"{name}.qdsl"
    sweep = prepare_sweep(compile_file(path), path, data=market(1_000), ranges=RANGES[name])
    work = sweep.work
    module = split_lanes(work.module, work.kept, work.varying, None, False)
    lane = next(func for func in module.funcs if func.name == "lane")
    turn = row_turn(lane, dict(module.sizes)[ROW_WORDS])
    assert turn is not None
    conditions = [stmt.cond for stmt in statements(turn.known) if isinstance(stmt, If)]
    assert conditions
    assert not any(map(flag_of, conditions))
    # Averages divide only as long as they warm up; what is left divides by a length alone.
    divisors = [e.y for e in expressions(turn.known) if isinstance(e, Binary) and e.op == "fdiv"]
    assert len(divisors) == 2
    assert turn.apart is not None
    assert turn.row.read <= turn.row.words


def test_a_loop_over_events_has_no_usual_turn():
    path = STRATEGIES / "ema_cross.qdsl"
    sweep = prepare_sweep(compile_file(path), path, data=market(1_000), ranges=RANGES["ema_cross"])
    module = split_lanes(sweep.work.module, sweep.work.kept, None, None, False)
    lane = next(func for func in module.funcs if func.name == "lane")
    assert row_turn(lane, 1) is None


@pytest.mark.parametrize("name", RANGES)
def test_a_lane_by_itself_has_the_usual_turn_beside_any(name):
    path = STRATEGIES / f"{name}.qdsl"
    sweep = prepare_sweep(compile_file(path), path, data=market(1_000), ranges=RANGES[name])
    module = split_lanes(sweep.work.module, sweep.work.kept, sweep.work.varying, None, False)
    twice = usual_beside_any(module, "lane")
    verify(twice)
    plain, doubled = (
        next(func for func in each.funcs if func.name == "lane") for each in (module, twice)
    )
    (loop,) = (stmt for stmt in doubled.body if isinstance(stmt, For))
    choice = loop.body[-1]
    assert isinstance(choice, If)
    whole = next(stmt for stmt in plain.body if isinstance(stmt, For)).body
    assert (*loop.body[:-1], *choice.otherwise) == whole
    assert 0 < weight(choice.then) < weight(choice.otherwise)
    assert usual_beside_any(module, "rows") is module
