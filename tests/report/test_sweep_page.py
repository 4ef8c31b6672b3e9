"""The page of a sweep: complete in itself, safe with hostile texts, small, alive in a browser."""

import base64
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from quantdsl.report.result import Setting
from quantdsl.report.sweep_charts import LINES_MAX, shown, sweep_data
from quantdsl.report.sweep_page import page
from quantdsl.report.sweep_study import study
from tests.report.browser import assert_closed, drawn, needs_browser
from tests.report.synthetic_sweep import grid, numbers, synthetic_sweep, synthetic_walk, words

SWEEP = synthetic_sweep(edge=0.001)
HOSTILE = "</script><script>alert(1)</script>\"'&<!--"
FOUR = [
    numbers("fast", range(3)),
    words("average", "sma", "ema"),
    numbers("slow", range(5)),
    numbers("stop", [0.5, 1.0]),
]


def page_of(sweep, walk=None, **options):
    return page(sweep, study(sweep, **options), walk=walk)


def floats(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), "<f4")


def test_nothing_is_loaded_from_anywhere():
    assert_closed(page_of(SWEEP))


def test_texts_of_strategy_and_data_are_escaped():
    hostile = replace(
        SWEEP,
        strategy=HOSTILE,
        source_text=HOSTILE,
        data_name=HOSTILE,
        device=HOSTILE,
        rerun=HOSTILE,
        instruments=(HOSTILE,),
        fixed={HOSTILE: HOSTILE},
        notes=(HOSTILE,),
        warnings=(HOSTILE,),
        settings=(Setting(name=HOSTILE, value=HOSTILE, source=HOSTILE),),
        axes=tuple(replace(a, name=HOSTILE, levels=(HOSTILE,) * 10) for a in SWEEP.axes),
    )
    text = page_of(hostile)
    assert "<script>alert" not in text
    assert text.count("</script>") == page_of(SWEEP).count("</script>") == 3
    data = re.search(r'id="run">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["axes"][0]["name"] == HOSTILE


def test_equal_sweeps_make_equal_pages():
    assert page_of(SWEEP) == page_of(synthetic_sweep(edge=0.001))


def test_the_best_points_carry_their_command():
    text = page_of(SWEEP)
    first = re.search(r'data-command="([^"]*)"', text)[1]
    best = int(SWEEP.score.argmax())
    sets = " ".join(f"--set {name}={value}" for name, value in SWEEP.params(best).items())
    shell = SWEEP.rerun.replace("'", "&#x27;")
    assert first == f"{shell} {sets}"
    assert f"{SWEEP.metric('sharpe')[best]:.2f}" in text


def test_cells_with_others_at_best_are_a_slice_and_medians_are_medians():
    sweep = synthetic_sweep(FOUR)
    found = study(sweep)
    heat = sweep_data(sweep, found)["heat"]
    assert len(heat["pairs"]) == 6
    score = sweep.score.reshape(3, 2, 5, 2)
    at = sweep.levels[:, found.best]
    pair = next(pair for pair in heat["pairs"] if (pair["x"], pair["y"]) == (0, 2))
    assert (pair["nx"], pair["ny"]) == (3, 5)
    best, median = (floats(pair[name]).reshape(5, 3) for name in ("best", "median"))
    assert np.allclose(best, score[:, at[1], :, at[3]].T)
    assert np.allclose(median, np.median(score, axis=(1, 3)).T)


def test_points_that_were_not_run_leave_their_cells_empty():
    levels = grid(FOUR)
    kept = np.arange(levels.shape[1]) % 7 != 3
    whole = synthetic_sweep(FOUR)
    part = replace(
        whole, levels=levels[:, kept], table=whole.table.filter(kept), blocks=None, best=None
    )
    heat = sweep_data(part, study(part))["heat"]["pairs"]
    for pair in heat:
        known = np.isfinite(floats(pair["median"])).sum()
        seen = {(x, y) for x, y in part.levels[[pair["x"], pair["y"]]].T.tolist()}
        assert known == len(seen)


def test_a_small_subset_of_a_large_grid_has_larger_cells():
    axes = [numbers("a", range(100)), numbers("b", range(100)), numbers("c", range(100))]
    rng = np.random.default_rng(2)
    levels = rng.integers(0, 100, (3, 400)).astype(np.int32)
    columns = dict.fromkeys(SWEEP.table.column_names, rng.normal(size=400))
    few = replace(
        SWEEP, axes=tuple(axes), levels=levels, table=pa.table(columns), blocks=None, planned=400
    )
    for pair in sweep_data(few, study(few))["heat"]["pairs"]:
        cells = floats(pair["median"])
        assert len(cells) == pair["nx"] * pair["ny"] <= 200
        assert np.isfinite(cells).mean() > 0.7


def test_points_that_rounding_alone_tells_apart_are_drawn():
    """So are the ratios of any two days of which one did not trade."""
    first, *others = SWEEP.metric("sharpe")
    values = [np.nextafter(first, 9.0), *(first for _ in others)]
    near = replace(SWEEP, table=SWEEP.table.drop("sharpe").append_column("sharpe", [values]))
    (bars,) = sweep_data(near, study(near))["bars"]
    assert bars["low"] < first < bars["high"]
    assert sum(bars["counts"]) == len(values)


def test_less_of_some_metrics_is_better():
    calm = replace(SWEEP, objective="volatility")
    found = study(calm)
    values = calm.metric("volatility")
    assert values[found.best] == values.min()
    heat = sweep_data(calm, found)["heat"]["pairs"][0]
    assert floats(heat["best"]).min() == np.float32(values.min())
    assert floats(heat["median"]).min() > 0


def test_the_best_are_drawn_and_others_by_rank():
    axes = [numbers("a", range(90)), numbers("b", range(60))]
    levels = grid(axes)
    score = np.random.default_rng(1).normal(size=levels.shape[1])
    score[5] = np.nan
    columns = dict.fromkeys(SWEEP.table.column_names, score)
    many = replace(
        SWEEP,
        axes=tuple(axes),
        levels=levels,
        table=pa.table(columns),
        blocks=None,
        planned=len(score),
    )
    rows = shown(many, LINES_MAX)
    assert len(set(rows.tolist())) == len(rows) == LINES_MAX
    assert rows[-1] == np.nanargmax(score)
    assert np.nanargmin(score) in rows
    assert 5 not in rows


@pytest.mark.parametrize("n", [1, 3])
def test_an_axis_of_a_million_levels_stays_small(n):
    n_points = 300_000
    axes = [numbers("a", np.arange(n_points)), *(numbers(f"b{k}", [1.0]) for k in range(n - 1))]
    levels = np.zeros((n, n_points), np.int32)
    levels[0] = np.arange(n_points)
    columns = {name: np.sin(levels[0] / 1e4) for name in SWEEP.table.column_names}
    sweep = replace(
        SWEEP,
        axes=tuple(axes),
        levels=levels,
        table=pa.table(columns),
        blocks=None,
        planned=n_points,
    )
    assert len(page_of(sweep).encode()) < 1_000_000


def test_walk_forward_has_a_section_with_every_window():
    walk = synthetic_walk()
    text = page_of(SWEEP, walk)
    assert "Walk-forward: train 1 year, test 6 months" in text
    assert text.count(" to 2024-03-02</td>") == 4
    data = json.loads(re.search(r'id="run">(.*?)</script>', text, re.DOTALL)[1])
    money = np.frombuffer(base64.b64decode(data["walk"]["equity"]), "<f8")
    assert np.allclose(money, 100_000.0 * walk.level)
    assert "Walk-forward" not in page_of(SWEEP)


def test_a_sweep_that_was_stopped_at_once_says_so():
    empty = replace(
        SWEEP,
        levels=SWEEP.levels[:, :0],
        table=SWEEP.table.slice(0, 0),
        blocks=None,
        best=None,
        trials=0,
    )
    text = page_of(empty)
    assert "No point was finished." in text
    assert "0 of 100 points were run" in text


CASES = {
    "two": SWEEP,
    "one": synthetic_sweep([numbers("length", range(20))]),
    "words": synthetic_sweep([words("average", "sma", "ema")]),
    "four": synthetic_sweep(FOUR),
    "subset": synthetic_sweep([numbers("a", range(40)), numbers("b", range(3)), numbers("c", [1])]),
    "single": synthetic_sweep([numbers("length", [20.0])]),
    "bare": replace(SWEEP, blocks=None, best=None, objective="max_drawdown"),
}


@needs_browser
@pytest.mark.parametrize("case", CASES)
def test_a_browser_draws_it_without_a_complaint(case, tmp_path):
    sweep = CASES[case]
    walk = synthetic_walk() if case == "four" else None
    found = drawn(page_of(sweep, walk, n_resamples=100), tmp_path)
    assert re.search(r'<pre id="command">quantdsl backtest', found)
    for chart in ("heat", "lines"):
        assert re.search(rf'id="{chart}" class="chart"><canvas', found)
    assert ('id="walk" class="chart tall"><div' in found) == (case == "four")
    assert ('id="splits" class="chart"><canvas' in found) == (case not in ("bare", "single"))
