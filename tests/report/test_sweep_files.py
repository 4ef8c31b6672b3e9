"""What a sweep says in words, in the terminal and in files."""

import io
import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from quantdsl.report.sweep_page import page
from quantdsl.report.sweep_store import save
from quantdsl.report.sweep_study import study
from quantdsl.report.sweep_summary import show
from quantdsl.report.sweep_walk import stitched
from quantdsl.report.sweep_words import (
    apart_text,
    chance,
    of_100,
    sentences,
    verdict,
    walk_sentences,
    years,
)
from quantdsl.report.terminal import Terminal
from tests.report.synthetic_sweep import (
    block_sums,
    numbers,
    run_of,
    synthetic_sweep,
    synthetic_walk,
)

NOISE = synthetic_sweep(edge=0.0)
GOOD = synthetic_sweep(edge=0.003)


def printed(sweep, width=120, top=5, **options) -> str:
    out = io.StringIO()
    show(sweep, study(sweep, **options), Terminal(out, width), top)
    return out.getvalue()


# ---- words -----------------------------------------------------------------------------------


def test_noise_is_luck_and_an_edge_is_not():
    assert verdict(NOISE, study(NOISE))[0] == "bad"
    assert verdict(GOOD, study(GOOD)) == ("good", "The best point is hard to explain by luck.")


def test_the_sentences_say_the_figures_behind_them():
    found = study(NOISE, n_resamples=200, seed=3)
    luck, alone, splits, around, trades = sentences(NOISE, found)
    assert luck.startswith("With 100 points tried, luck alone is expected to show a Sharpe ratio")
    assert f"{found.luck.expected_best:.2f} at best" in luck
    assert f"{100 * (1 - found.luck.deflated):.0f} of 100 such sweeps" in luck
    assert chance(found.luck.probabilistic) in alone
    assert f"{100 * found.splits.overfit_probability:.0f} of 100 splits" in splits
    assert "drawn from" not in splits
    assert f"{found.neighbourhood.median[found.best]:.2f} in the middle" in around
    assert "drawn again 200 times" in trades


@pytest.mark.parametrize(
    ("name", "apart", "said"),
    [
        ("net_profit", 1_371.4, "1,371 USD"),
        ("net_profit", 99.6, "100 USD"),
        ("total_return", 1.5, "150 %"),
        ("sharpe", 0.000123, "0.00012"),
        ("fees", 0.0, "0"),
    ],
)
def test_how_far_values_are_apart_is_two_digits_or_a_whole_number(name, apart, said):
    assert apart_text(NOISE, name, apart) == said


def test_a_single_day_is_one():
    short = replace(GOOD, periods_per_year=365.0 * study(GOOD).luck.samples)
    assert sentences(short, study(short))[1].endswith(" and there is 1 day.")


def test_points_that_are_all_good_and_alike_are_no_luck():
    returns = np.random.default_rng(4).normal(0.003, 0.01, (320, 1))
    alike = returns + np.random.default_rng(5).normal(0.0, 1e-5, (320, 10))
    sweep = synthetic_sweep([numbers("a", range(10))])
    table = sweep.table.set_column(0, "sharpe", [alike.mean(0) / alike.std(0, ddof=1) * 252**0.5])
    sweep = replace(sweep, table=table, blocks=block_sums(alike), best=run_of(alike[:, 0]))
    found = study(sweep)
    assert found.luck.deflated > 0.99
    assert found.splits.loss_probability < 0.01
    assert verdict(sweep, found)[0] == "good"


def test_a_best_point_that_loses_is_not_judged_by_luck():
    returns = np.random.default_rng(1).normal(-0.004, 0.01, (320, 10))
    sweep = synthetic_sweep([numbers("a", range(10))])
    values = returns.mean(0) / returns.std(0, ddof=1) * 252**0.5
    table, best = sweep.table.set_column(0, "sharpe", [values]), run_of(returns[:, values.argmax()])
    sweep = replace(sweep, table=table, blocks=block_sums(returns), best=best)
    assert verdict(sweep, study(sweep)) == (
        "bad",
        "Even the best point did not earn more than it risked.",
    )


def test_a_best_point_that_does_not_do_what_it_should_is_named():
    sums = {**NOISE.best.accumulators, "orders": 10, "orders_rejected": 8}
    refused = replace(NOISE, best=replace(NOISE.best, accumulators=sums))
    assert "Of the best point alone: Most orders were rejected: 8 of 10" in "\n".join(
        sentences(refused, study(refused))
    )
    idle = replace(NOISE.best, accumulators={**sums, "fills": 0, "orders": 0, "orders_rejected": 0})
    table = NOISE.table.set_column(0, "sharpe", [np.full(100, math.nan)])
    silent = replace(NOISE, table=table, best=replace(idle, no_trade_reasons=("no bar is warm",)))
    assert study(silent).splits is None
    assert verdict(silent, study(silent))[1] == (
        "Sharpe ratio is not defined for any point. Nothing was traded: no bar is warm."
    )


def test_one_point_was_not_chosen():
    one = synthetic_sweep([numbers("a", [1.0])])
    texts = sentences(one, study(one))
    assert texts[0].startswith("Only one point was tried, so its Sharpe ratio of ")
    assert "surroundings are unknown" in texts[-1]


def test_luck_among_points_that_did_not_trade_is_not_known():
    """One Sharpe ratio has no variance, so luck was expected to show one of 0.00 at best."""
    sweep = synthetic_sweep([numbers("a", range(5))])
    scores = np.where(np.arange(5) == np.argmax(sweep.metric("sharpe")), 2.0, math.nan)
    at = sweep.table.column_names.index("sharpe")
    alone = replace(sweep, table=sweep.table.set_column(at, "sharpe", [scores]))
    found = study(alone)
    assert "how far the best point's 2.00 is luck cannot be said" in sentences(alone, found)[0]
    assert chance(found.luck.deflated) == "na"  # it was "above 0.99"
    assert ">nan<" not in page(alone, found)


@pytest.mark.parametrize(
    ("scores", "word"),
    [([1.0, 2.7, 3.0, 2.9, 1.0], "plateau"), ([0.1, 0.2, 3.0, 0.2, 0.1], "spike")],
)
def test_a_plateau_and_a_spike_are_told_apart(scores, word):
    sweep = synthetic_sweep([numbers("a", range(5))])
    shaped = replace(sweep, table=sweep.table.set_column(0, "sharpe", [np.array(scores)]))
    assert word in sentences(shaped, study(shaped))[-1]


def test_nothing_is_ever_certain():
    assert of_100(0.0) == "fewer than 1 of 100"
    assert of_100(1.0) == "more than 99 of 100"
    assert of_100(0.234) == "23 of 100"
    assert of_100(0.005) == "fewer than 1 of 100"  # it was 0 of 100, of 1 draw in 200
    assert of_100(0.995) == "more than 99 of 100"
    assert [chance(share) for share in (0.0, 0.5, 0.9951)] == ["below 0.01", "0.50", "above 0.99"]
    assert [years(n) for n in (6 / 365, 10 / 365, 0.5, 1.6, 9_000.0)] == [
        "6 days",  # both were 1 month: 95 % certainty took as much as there was
        "10 days",
        "6 months",
        "1.6 years",
        "9,000 years",
    ]


def test_walk_forward_says_what_was_made_in_training_and_after():
    walk = synthetic_walk()
    made, gains, changes = walk_sentences(walk)
    assert made.startswith("In 4 windows the best point over 1 year made ")
    assert f"{walk.metrics['annual_return'] * 100:.1f} % a year in the 6 months after" in made
    assert f"efficiency of {walk.efficiency * 100:.0f} %" in made
    assert gains.startswith(f"{walk.gains} of 4 tests made money")
    assert changes.startswith("Another point was chosen 3 of 3 times")
    steady = walk_sentences(replace(walk, steady=True))[0]
    assert "the point with the best surroundings over 1 year" in steady


def test_a_walk_forward_of_one_window_and_of_lengths_of_one_reads_well():
    """It was 'in the 1 year after', and another point was chosen '0 of 0 times'."""
    walk = synthetic_walk()
    made, gains, begins = walk_sentences(replace(walk, test="1 year", steps=walk.steps[:1]))
    assert " % a year in the year after" in made
    assert " of 1 test made money" in gains
    assert begins.startswith("Each test begins flat")


def test_walk_forward_has_no_efficiency_without_a_gain_in_training():
    walk = synthetic_walk()
    lost = replace(
        walk,
        steps=tuple(replace(s, inside={**s.inside, "annual_return": -0.1}) for s in walk.steps),
    )
    assert math.isnan(lost.efficiency)
    assert "efficiency" not in walk_sentences(lost)[0]


def test_a_walk_forward_says_which_of_its_windows_lost_all():
    """It said that the best point made nan % a year."""
    walk = synthetic_walk()
    first, *others = walk.steps
    bust = {**first.inside, "total_return": -1.004, "annual_return": math.nan}
    said = walk_sentences(replace(walk, steps=(replace(first, inside=bust), *others)))
    assert " made na a year there" in said[0]
    assert said[2].startswith("All that an account had was lost in 1 training and in 0 tests")


def test_a_walk_forward_says_where_nothing_could_be_ranked():
    """The first point of the grid passed for the best one."""
    walk = synthetic_walk()
    steps = [replace(s, inside={**s.inside, "sharpe": math.nan}) for s in walk.steps[:2]]
    said = walk_sentences(replace(walk, steps=(*steps, *walk.steps[2:])))
    assert said[2] == (
        "In 2 trainings Sharpe ratio is not defined for any point: the first of the grid stands "
        "for the best there."
    )


def test_a_debt_does_not_grow_in_the_tests_after_it():
    """Two accounts below zero multiplied to a fortune."""
    walk = synthetic_walk()
    growth = np.linspace(1.0, -0.5, len(walk.steps[0].growth))
    steps = [replace(s, growth=growth) if n in (1, 2) else s for n, s in enumerate(walk.steps)]
    metrics, _, level = stitched(steps, NOISE.best)
    at_ruin = 2 * len(growth) - 1
    assert level[at_ruin] < 0.0
    assert (level[at_ruin:] == level[at_ruin]).all()
    assert metrics["total_return"] == level[at_ruin] - 1.0
    assert math.isnan(metrics["annual_return"])


# ---- terminal --------------------------------------------------------------------------------


def test_the_terminal_shows_verdict_best_points_and_their_commands():
    text = printed(NOISE)
    assert text.startswith("The best point is probably luck.")
    assert "SmaCross on TEST · 100 points" in text
    assert "fast = 5 .. 50 (10 values)" in text
    for row in NOISE.ranked(5):
        assert NOISE.command(row) in text
        assert f"{NOISE.metric('sharpe')[row]:.2f}" in text


@pytest.mark.parametrize("width", [40, 70, 200])
def test_a_command_is_never_broken(width):
    assert NOISE.command(int(NOISE.ranked(1)[0])) in printed(NOISE, width)


def test_a_sweep_that_was_stopped_at_once_prints():
    empty = replace(
        NOISE, levels=NOISE.levels[:, :0], table=NOISE.table.slice(0, 0), blocks=None, best=None
    )
    assert "0 of 100 points were run" in printed(empty)


# ---- files -----------------------------------------------------------------------------------


def test_equal_sweeps_leave_equal_files(tmp_path):
    for name in ("one", "two"):
        sweep = synthetic_sweep(edge=0.001)
        save(sweep, study(sweep, n_resamples=50), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_files_hold_what_was_found(tmp_path):
    found = study(NOISE, n_resamples=50)
    assert save(NOISE, found, tmp_path, top=3) == tmp_path / "report.html"
    table = pq.read_table(tmp_path / "points.parquet")
    assert table.equals(NOISE.table)
    said = json.loads((tmp_path / "result.json").read_text())
    assert said["sentences"] == list(sentences(NOISE, found))
    assert said["statistics"]["luck"]["deflated"] == found.luck.deflated
    assert len(said["best"]) == 3
    best = said["best"][0]
    assert best["metrics"]["sharpe"] == NOISE.metric("sharpe").max()
    assert best["params"] == NOISE.params(int(NOISE.ranked(1)[0]))


def test_walk_forward_is_in_the_files_and_in_the_terminal(tmp_path):
    walk = synthetic_walk()
    save(NOISE, study(NOISE), tmp_path, walk=walk)
    said = json.loads((tmp_path / "result.json").read_text())["walk_forward"]
    assert said["sentences"] == list(walk_sentences(walk))
    assert [step["params"]["fast"] for step in said["steps"]] == ["0", "1", "2", "3"]
    assert said["steps"][0]["test"]["sharpe"] == walk.steps[0].outside["sharpe"]
    out = io.StringIO()
    show(NOISE, study(NOISE), Terminal(out, 300), walk=walk)
    text = out.getvalue()
    assert all(sentence in text for sentence in walk_sentences(walk))


def test_what_is_not_defined_is_null(tmp_path):
    values = np.full(100, math.nan)
    table = NOISE.table.set_column(0, "sharpe", [values])
    lost = replace(NOISE, table=table, best=None)
    save(lost, study(lost), tmp_path)
    said = json.loads((tmp_path / "result.json").read_text())
    assert said["best"][0]["metrics"]["sharpe"] is None
    assert said["verdict"] == "Sharpe ratio is not defined for any point."


# ---- result ----------------------------------------------------------------------------------


def test_the_best_few_are_those_of_a_full_sort():
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 20, 100).astype(float)
    scores[::9] = math.nan
    tied = replace(NOISE, table=NOISE.table.set_column(0, "sharpe", [scores]))
    full = np.argsort(-tied.score, kind="stable")
    for top in (0, 1, 7, 99, 100, 1_000):
        assert tied.ranked(top).tolist() == full[:top].tolist()
