"""Which points a sweep runs: ranges, what require admits, subsets that a seed decides."""

import math
from fractions import Fraction

import numpy as np
import pytest

from quantdsl.backtest import points as pointing
from quantdsl.backtest.lane_code import lane_code
from quantdsl.backtest.points import Grid, chosen, grid
from quantdsl.backtest.program import Memory
from quantdsl.backtest.sobol import Sobol
from quantdsl.check import Checked, check_source
from quantdsl.errors import ConfigError, LimitError
from quantdsl.lang.source import Source

PARAMS = """language 1

strategy P:
    bars 1m
    param fast = 10    in 5..50     step 5
    param slow = 40    in 20..200   step 10
    param rate = 0.1%  in 0.1%..1%  step 0.1%
    param wait = 5m    in 5m..30m   step 5m
    param mode = "a"   in {"a", "b"}
    param both = true
    param part = 0.5   in 0.01..0.5 log 5
    param held = 2.0   in 1.0..3.0
    param fixed = 7
    require fast < slow
    on bar:
        if fast + slow + fixed > 1 and rate + part + held > 0 and mode == "a" and both:
            every_minute(wait)
"""
TWO = """language 1

strategy P:
    bars 1m
    param fast = 10 in 5..50   step 5
    param slow = 40 in 20..200 step 10
    require fast < slow
    on bar:
        if close > fast + slow:
            buy(1 shares)
    backtest:
        fees = 1bps
"""


def checked(text: str) -> Checked:
    found, diagnostics = check_source(Source(text))
    assert found is not None, diagnostics
    return found


@pytest.fixture(scope="module")
def two() -> Checked:
    return checked(TWO)


def judge_of(strategy: Checked, made: Grid) -> object:
    code = lane_code(strategy, frozenset(), 1)
    return code.judge(Memory(code.module).words, made.axes)


def numbers(strategy: Checked, points: str = "grid", seed: int = 1, **ranges: str) -> np.ndarray:
    made, _ = grid(strategy.strategy.params, {}, ranges)
    return chosen(made, judge_of(strategy, made), points, seed)


def test_points_are_numbered_with_the_last_axis_fastest(two: Checked) -> None:
    made, _ = grid(two.strategy.params, {}, {})
    assert made.size == 10 * 19
    levels = made.levels(np.array([0, 1, 19, 189]))
    assert levels.T.tolist() == [[0, 0], [0, 1], [1, 0], [9, 18]]
    assert made.words(levels).T.tolist() == [[5, 20], [5, 30], [10, 20], [50, 200]]


def test_require_leaves_points_out(two: Checked) -> None:
    admitted = [
        a * 19 + b
        for a, fast in enumerate(range(5, 51, 5))
        for b, slow in enumerate(range(20, 201, 10))
        if fast < slow
    ]
    assert numbers(two).tolist() == admitted


def test_a_million_points_are_judged_at_once() -> None:
    wide = checked(TWO.replace("5..50   step 5", "1..1000 step 1").replace("step 10", "step 0.18"))
    made, _ = grid(wide.strategy.params, {}, {})
    assert made.size == 1000 * 1001
    assert 0 < len(chosen(made, judge_of(wide, made), "grid", 1)) < made.size


def test_subsets_are_decided_by_their_seed_and_lie_in_the_grid(two: Checked) -> None:
    every = set(numbers(two).tolist())
    for points in ("random:40", "sobol:40"):
        one, again, other = (numbers(two, points, seed).tolist() for seed in (1, 1, 2))
        assert one == again != other
        assert len(one) == 40
        assert set(one) <= every
        assert one == sorted(set(one))
    assert set(numbers(two, "random:1000").tolist()) == every


def test_a_subset_as_large_as_the_grid_is_all_of_it(
    two: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a draw: sobol:10000000 of this grid took minutes."""
    monkeypatch.setattr(Sobol, "draw", None)
    every = numbers(two).tolist()
    for points in ("sobol:190", "sobol:10000000", "random:190"):
        assert numbers(two, points).tolist() == every


def test_a_subset_has_the_few_points_that_are_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven points of 9,000 are: a draw misses some, then all of the grid is looked at."""
    rare = TWO.replace("50   step 5", "94 step 1").replace("200 step 10", "119 step 1")
    rare = checked(rare.replace("require fast < slow", "require fast == 10 and slow < 27"))
    every = numbers(rare).tolist()
    assert len(every) == 7
    for points in ("random:5", "sobol:5"):
        found = numbers(rare, points).tolist()
        assert len(found) == 5
        assert set(found) < set(every)
    assert numbers(rare, "sobol:8").tolist() == every
    for points in ("grid", "random:1", "sobol:5", "sobol:200"):
        with pytest.raises(ConfigError, match=r"none of the 200 points of .*\nhelp: .*condition$"):
            numbers(rare, points, fast="11..12")
    monkeypatch.setattr("quantdsl.limits.SWEEP_POINTS", 1_000)
    assert len(numbers(rare, "random:5")) == 5  # drawn from more than a grid may have
    with pytest.raises(ConfigError, match=r"no point drawn from .*\n.* or draw more points"):
        numbers(rare, "sobol:1", fast="11..94")


def test_a_subset_of_a_grid_that_nobody_could_run() -> None:
    vast = checked(TWO.replace("50   step 5", "999999 step 1").replace("200 step 10", "999999"))
    made, _ = grid(vast.strategy.params, {}, {})
    assert made.size > 9e11
    with pytest.raises(LimitError, match="999,975,000,100 points: more than SWEEP_POINTS"):
        chosen(made, judge_of(vast, made), "grid", 1)
    for points in ("random:100", "sobol:100"):
        found = chosen(made, judge_of(vast, made), points, 1)
        assert len(found) == 100
        fast, slow = made.words(made.levels(found))
        assert (fast < slow).all()


def test_ranges_of_every_kind() -> None:
    text = PARAMS.replace("            every_minute(wait)\n", "            buy(1 shares)\n")
    params = {p.name: p for p in checked(text).strategy.params}
    for name, shown, expected in [
        ("fast", "5..20:5", [5, 10, 15, 20]),
        ("fast", "5..7", [5, 6, 7]),
        ("fast", "50, 5, 20", [5, 20, 50]),
        ("mode", "b, a", [1, 0]),
        ("rate", "0.1%..0.4%:0.1%", [Fraction(n, 10) for n in (1, 2, 3, 4)]),
        ("rate", "0.1..0.3:0.1", [Fraction(n, 10) for n in (1, 2, 3)]),
        ("wait", "5m..15m:5m", [5, 10, 15]),
        ("mode", "b", [1]),
        ("both", "true,false", [1, 0]),
        ("held", "1..2:0.5", [1, Fraction(3, 2), 2]),
    ]:
        assert list(pointing.ranged(params[name], shown)) == expected, (name, shown)
    made, notes = grid(list(params.values()), {}, {})
    assert [axis.param.name for axis in made.axes] == [
        "fast", "slow", "rate", "wait", "mode", "both", "part",
    ]  # fmt: skip
    assert len(notes) == 1
    assert "held has a range without a step" in notes[0]
    part = next(axis for axis in made.axes if axis.param.name == "part")
    assert (part.values[0], part.values[-1]) == (Fraction(1, 100), Fraction(1, 2))
    ratios = [float(b / a) for a, b in zip(part.values, part.values[1:], strict=False)]
    assert ratios == pytest.approx([50**0.25] * 4, rel=1e-10)


def test_what_counts_ticks_or_lots_has_whole_steps() -> None:
    """Points between two ticks ran as the one below, by a command that a backtest refused."""
    declared = "    param far = 5 ticks in 1 tick..9 ticks step 2 ticks\n    require"
    text = TWO.replace("    require", declared)
    text = text.replace("buy(1 shares)", "buy(1 shares, stop_loss = close - far)")
    params = checked(text).strategy.params
    with pytest.raises(ConfigError, match=r"far=1..9:0.5: 0.5 is no step to count with"):
        grid(params, {}, {"far": "1..9:0.5"})
    made, _ = grid(params, {}, {"far": "1 tick..9 ticks:4 ticks"})
    (far,) = (axis for axis in made.axes if axis.param.name == "far")
    assert [*far.values] == [1, 5, 9]


def test_a_duration_has_whole_nanoseconds() -> None:
    """1.5 ns ran as 1 ns."""
    text = PARAMS.replace("wait = 5m    in 5m..30m   step 5m", "wait = 5ns in 1ns..9ns step 2ns")
    params = checked(text.replace("every_minute(wait)", "buy(1 shares)")).strategy.params
    with pytest.raises(ConfigError, match=r"wait = 1.5: a whole number of nanoseconds is needed"):
        grid(params, {"wait": "1.5"}, {})
    with pytest.raises(ConfigError, match=r"wait=1..9:0.5: 0.5 is no step to count with"):
        grid(params, {}, {"wait": "1..9:0.5"})


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ({"fats": "1..2:1"}, "no param 'fats'; did you mean fast?"),
        ({"fast": "5bps..50bps:5"}, "a number is needed"),
        ({"fast": "50..5:5"}, "the range is empty"),
        ({"fast": "5..50:0"}, "is no step"),
        ({"fast": "5..50:2.5"}, "is no step"),
        ({"fast": "5..500:5"}, "lies outside its range 5..50"),
        ({"fast": "5,5"}, "stands there twice"),
        ({"fast": ""}, "range fast=: a value is missing"),
        ({"fast": "5.."}, "range fast=5..: a value is missing\nhelp: write LOW..HIGH:STEP"),
        ({"fast": "5..50:"}, "a value is missing"),
        ({"fast": "5,,10"}, "a value is missing"),
        ({"fast": "5..50 step 5"}, "'step' is a word of the strategy's file\nhelp: write LOW..HI"),
        ({"fast": "5..50 log 5"}, "'log' is a word of the strategy's file\nhelp: write LOW..HIGH"),
        ({"fast": "\uff11\uff12"}, "a number is needed"),
        ({"fast": "1e999999999"}, "fast = 1e999999999: a number is needed"),
        ({"fast": "50", "slow": "20"}, "none of the 1 points of fast=50 x slow=20 satisfies"),
    ],
)
def test_bad_ranges_are_one_clear_message(two: Checked, ranges: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        numbers(two, **ranges)
    assert said in str(caught.value)


def test_a_number_of_many_digits_is_refused_by_its_limit(two: Checked) -> None:
    with pytest.raises(LimitError, match=r"fast: this number has more than .*NUMBER_CHARS"):
        numbers(two, fast="9" * 50)


def test_a_step_that_gives_too_many_values_is_refused_by_the_limit_however_small_it_is() -> None:
    text = PARAMS.replace("            every_minute(wait)\n", "            buy(1 shares)\n")
    param = next(p for p in checked(text).strategy.params if p.name == "held")
    assert len(pointing.ranged(param, "1..2:0.000002")) == 500_001
    for step in ("0.000001", "1e-300"):
        with pytest.raises(LimitError, match="has more values than POINTS"):
            pointing.ranged(param, f"1..2:{step}")


@pytest.mark.parametrize(
    "points",
    ["all", "random", "random:0", "sobol:-1", "sobol:x", "grid:5", "sobol:" + "9" * 5000],
)
def test_bad_subsets_are_one_clear_message(two: Checked, points: str) -> None:
    with pytest.raises(ConfigError, match="write grid, random:N or sobol:N"):
        numbers(two, points)


def test_a_subset_of_too_many_points_is_refused_by_the_limit(two: Checked) -> None:
    with pytest.raises(LimitError, match="more than SWEEP_POINTS"):
        numbers(two, "sobol:10000001")


def test_sobol_fills_every_dimension_evenly() -> None:
    """Of the first 2^k points each of 2^k equal pieces of every axis holds one."""
    drawn = Sobol(64, 3)
    found = np.concatenate([drawn.draw(100), drawn.draw(156)], axis=1)
    pieces = np.sort((found * 256).astype(int), axis=1)
    assert (pieces == np.arange(256)).all()
    assert math.isclose(found.mean(), 0.5, abs_tol=0.01)


def test_sobol_is_that_of_scipy() -> None:
    qmc = pytest.importorskip("scipy.stats.qmc", reason="scipy is not needed otherwise")
    mine = Sobol(64, 0)
    mine._shift[:] = 0
    theirs = qmc.Sobol(64, scramble=False, bits=32).random(512)
    assert np.array_equal(mine.draw(512).T, theirs)
