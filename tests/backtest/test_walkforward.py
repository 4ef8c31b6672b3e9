"""Walk-forward: no test sees a bar that chose it, and each is the single backtest of its span."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

import quantdsl
from quantdsl.backtest import walkforward
from quantdsl.backtest.spans import parse, windows, windows_of
from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.backtest.sweep_parts import FOLDER, MANIFEST, Parts
from quantdsl.backtest.sweep_table import result_of
from quantdsl.backtest.walkforward import chosen, walk_forward
from quantdsl.check import compile_file
from quantdsl.data.times import exact_instant
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import ConfigError, LimitError
from quantdsl.report.sweep_walk import WalkForward

DAY_NS = 86_400_000_000_000
SOURCE = """language 1

strategy Cross:
    "Long one unit while the fast average is above the slow one."

    bars 1d

    param fast = 5  in 2..8   step 3
    param slow = 20 in 10..40 step 10

    let f = ta.sma(close, fast)
    let s = ta.sma(close, slow)

    on bar:
        if f crosses above s:
            target(100 shares)
        elif f crosses below s:
            target(0 shares)

    backtest:
        cash = 100_000 USD
        fees = 1bps
"""


def market(n: int = 1_500) -> pa.Table:
    rng = np.random.default_rng(3)
    close = np.round(100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, n))), 2)
    opens = np.concatenate([[100.0], close[:-1]])
    start = np.datetime64("2019-01-01", "ns").astype(np.int64)
    return pa.table(
        {
            "time": pa.array(start + np.arange(n) * DAY_NS, pa.timestamp("ns", "UTC")),
            "open": opens,
            "high": np.maximum(opens, close) + 0.05,
            "low": np.minimum(opens, close) - 0.05,
            "close": close,
            "volume": np.full(n, 1e6),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("walk") / "cross.qdsl"
    file.write_text(SOURCE)
    return file


@pytest.fixture(scope="module")
def sweep(path: Path) -> Sweep:
    return prepare_sweep(compile_file(path), path, data=market())


@pytest.fixture(scope="module")
def walk(sweep: Sweep) -> WalkForward:
    return walk_forward(sweep, parse("train=1y test=6mo"), CpuRunner())


def day(text: str) -> int:
    return int(np.datetime64(text, "ns").astype(np.int64))


# ---- windows ---------------------------------------------------------------------------------


def test_windows_follow_the_calendar() -> None:
    found = windows(parse("train=1y test=6mo"), day("2019-08-31T12:00"), day("2021-12-01"))
    dates = [
        tuple(str(np.datetime64(ns, "ns"))[:10] for ns in (w.train_ns, w.test_ns, w.end_ns))
        for w in found
    ]
    assert dates == [
        ("2019-08-31", "2020-08-31", "2021-02-28"),
        ("2020-02-28", "2021-02-28", "2021-08-31"),
        ("2020-08-31", "2021-08-31", "2021-12-01"),
    ]
    assert found[0].train_ns == day("2019-08-31T12:00")


@pytest.mark.parametrize("said", ["train=1mo test=2w", "train=1mo test=1mo", "train=1y test=45d"])
@pytest.mark.parametrize("first", ["2023-10-05", "2023-01-31", "2024-02-29", "2023-12-30"])
def test_each_test_begins_where_the_one_before_it_ends(said: str, first: str) -> None:
    """A month and two weeks had 2 December in two tests, and 13 January in none."""
    found = windows(parse(said), day(first), day("2027-01-01"))
    assert [w.test_ns for w in found[1:]] == [w.end_ns for w in found[:-1]]
    assert all(w.train_ns < w.test_ns < w.end_ns for w in found)


def test_days_and_weeks_are_of_one_length() -> None:
    first, second, *_ = windows(parse("train = 10d, test=1w"), day("2024-03-01"), day("2024-05-01"))
    assert (first.test_ns - first.train_ns, first.end_ns - first.test_ns) == (
        10 * DAY_NS,
        7 * DAY_NS,
    )
    assert second.train_ns - first.train_ns == 7 * DAY_NS
    assert second.test_ns == first.end_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "train=2y",
        "train=2y test=6m",
        "train=0d test=1d",
        "train=2y test=1y more=1y",
        "train=2y train=3y test=1y",
        "of train=2y test=1y",
        "train=2y test=1y 6mo",
        "train 2y test 1y",
    ],
)
def test_a_plan_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"^walk-forward {text}: "):
        parse(text)
    with pytest.raises(ConfigError, match=r"^walk_forward = x: "):
        parse(text, "walk_forward = x")


def test_data_that_are_too_short_are_refused() -> None:
    with pytest.raises(ConfigError, match="too short to train for 2 years"):
        windows(parse("train=2y test=6mo"), day("2020-01-01"), day("2021-06-01"))
    with pytest.raises(ConfigError, match="too short to train for 9,999 years"):
        windows(parse("train=9999y test=9999y"), day("2020-01-01"), day("2021-06-01"))


def test_windows_are_refused_where_they_are_too_many_to_walk() -> None:
    with pytest.raises(LimitError, match="tests of 1 day make more than 1,000 windows"):
        windows(parse("train=1y test=1d"), day("2010-01-01"), day("2020-01-01"))


def test_days_without_bars_are_not_tested(path: Path) -> None:
    bars = market(100)
    weekday = np.arange(100) % 7 < 5
    sweep = prepare_sweep(compile_file(path), path, data=bars.filter(pa.array(weekday)))
    walk = walk_forward(sweep, parse("train=5d test=1d"), CpuRunner())
    closes = sweep.bar_ns[sweep.bar_ns > walk.steps[0].test_ns]
    assert [step.end_ns for step in walk.steps] == closes.tolist()
    with pytest.raises(ConfigError, match=r"the training of 1 day before .* has no bar"):
        walk_forward(sweep, parse("train=1d test=1d"), CpuRunner())


# ---- walking ---------------------------------------------------------------------------------


def test_each_test_is_the_single_backtest_of_its_span(path: Path, walk: WalkForward) -> None:
    strategy = quantdsl.compile(path)
    for step in walk.steps:
        start, end = exact_instant(step.test_ns), exact_instant(step.end_ns)
        alone = strategy.backtest(market(), start=start, end=end, **step.params)
        for name in ("total_return", "sharpe", "trades", "max_drawdown", "fees"):
            assert str(step.outside[name]) == str(alone.metrics[name]), name


def test_what_is_chosen_is_best_in_its_training_alone(sweep: Sweep, walk: WalkForward) -> None:
    for step in walk.steps:
        train = sweep.window(step.train_ns, step.test_ns)
        assert train.bar_ns[-1] <= step.test_ns
        result = result_of(train, run(train, CpuRunner()), "cpu")
        assert result.params(int(result.ranked(1)[0])) == step.params


def test_bars_after_a_test_change_nothing_before(path: Path, walk: WalkForward) -> None:
    shorter = market(1_200)
    again = walk_forward(
        prepare_sweep(compile_file(path), path, data=shorter),
        parse("train=1y test=6mo"),
        CpuRunner(),
    )
    for old, new in zip(walk.steps, again.steps[:-1], strict=False):
        assert old.params == new.params
        assert str(old.inside) == str(new.inside)  # NaN equals NaN
        assert str(old.outside) == str(new.outside)


def test_the_tests_are_stitched_without_gap_and_compounded(walk: WalkForward) -> None:
    assert np.all(np.diff(walk.curve_ts) == DAY_NS)
    growth = np.prod([1.0 + step.outside["total_return"] for step in walk.steps])
    assert walk.level[-1] == pytest.approx(growth)
    assert walk.metrics["total_return"] == pytest.approx(growth - 1.0)
    returns = np.diff(walk.level, prepend=1.0) / np.concatenate([[1.0], walk.level[:-1]])
    sharpe = returns.mean() / returns.std(ddof=1) * np.sqrt(252.0)
    assert walk.metrics["sharpe"] == pytest.approx(sharpe)
    high = np.maximum(np.maximum.accumulate(walk.level), 1.0)
    assert walk.metrics["max_drawdown"] == pytest.approx((walk.level / high - 1.0).min())
    assert walk.metrics["trades"] == sum(step.outside["trades"] for step in walk.steps)
    years = len(returns) / 252.0
    assert walk.metrics["annual_return"] == pytest.approx(growth ** (1.0 / years) - 1.0)


def test_what_closing_at_the_end_of_a_test_costs_is_in_what_the_tests_leave(path: Path) -> None:
    closing = SOURCE.replace("fees = 1bps", "fees = 50bps\n        close_at_end = true")
    source = path.with_name("closing.qdsl")
    source.write_text(closing)
    walk = quantdsl.sweep(source, market(), walk_forward="train=1y test=3mo").outcome.walk
    assert walk is not None
    left = np.prod([1.0 + step.outside["total_return"] for step in walk.steps])
    assert walk.metrics["total_return"] == pytest.approx(left - 1.0, rel=1e-12)
    assert walk.level[-1] == pytest.approx(left, rel=1e-12)


def test_figures_of_a_window_are_of_its_days_alone(walk: WalkForward) -> None:
    for step in walk.steps:
        days = (step.test_ns - step.train_ns) // DAY_NS + 1  # both borders are bars
        inside = (1.0 + step.inside["total_return"]) ** (252.0 / days) - 1.0
        assert step.inside["annual_return"] == pytest.approx(inside)
        assert step.sums["ret_n"] == len(step.curve_ts)


def test_steady_chooses_by_the_surroundings(sweep: Sweep) -> None:
    result = result_of(sweep, run(sweep, CpuRunner()), "cpu")
    best, steady = (chosen(result, steady=choice) for choice in (False, True))
    assert best == int(result.ranked(1)[0])
    around = np.abs(result.levels - result.levels[:, [steady]]).sum(axis=0) <= 1
    beside = np.abs(result.levels - result.levels[:, [best]]).sum(axis=0) <= 1
    assert result.score[around].mean() >= result.score[beside].mean()


def test_where_no_point_has_a_neighbour_the_best_is_chosen(sweep: Sweep) -> None:
    result = result_of(sweep, run(sweep, CpuRunner()), "cpu")
    axes = tuple(replace(axis, is_number=False) for axis in result.axes)
    assert chosen(replace(result, axes=axes), steady=True) == int(result.ranked(1)[0])


def test_ctrl_c_in_a_training_ends_the_walk(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = walkforward.run

    def halved(*arguments: object, **options: object) -> object:
        lanes = whole(*arguments, **options)  # type: ignore[arg-type]
        lanes.done[1] = False
        return lanes

    monkeypatch.setattr(walkforward, "run", halved)
    with pytest.raises(KeyboardInterrupt):
        walk_forward(sweep, parse("train=1y test=6mo"), CpuRunner())



def test_progress_counts_the_points_of_all_trainings(sweep: Sweep) -> None:
    told: list[tuple[int, int]] = []
    plan = parse("train=2y test=1y")
    walk = walk_forward(
        sweep, plan, CpuRunner(), progress=lambda done, total: told.append((done, total))
    )
    total = len(walk.steps) * sweep.n_points
    assert told == sorted(told)
    assert told[-1] == (total, total)


def test_a_walk_that_was_ended_goes_on_with_the_training_at_hand(
    sweep: Sweep, walk: WalkForward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, whole = parse("train=1y test=6mo"), walkforward.run
    asked: list[int] = []

    def ended(*arguments: object, **options: object) -> object:
        asked.append(1)
        lanes = whole(*arguments, **options)  # type: ignore[arg-type]
        if len(asked) == 3:
            lanes.done[1] = False
        return lanes

    monkeypatch.setattr(walkforward, "run", ended)
    with pytest.raises(KeyboardInterrupt):
        walk_forward(sweep, plan, CpuRunner(), folder=tmp_path)
    monkeypatch.setattr(walkforward, "run", whole)
    counted: list[int] = []
    runner = CpuRunner()
    once = runner.run

    def counting(work: object, lo: int, hi: int, finished: object) -> None:
        counted.append(hi - lo)
        once(work, lo, hi, finished)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "run", counting)
    again = walk_forward(sweep, plan, runner, folder=tmp_path, resume=True)
    assert len(counted) == len(walk.steps) - 3
    assert again.metrics == walk.metrics
    assert np.array_equal(again.level, walk.level)
    parts = Parts(tmp_path, sweep.manifest())
    parts.finish()
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


@pytest.mark.parametrize("ends", ["begin", "finish"])
def test_trainings_of_another_walk_are_not_gone_on_with_and_stay_for_nobody(
    sweep: Sweep, tmp_path: Path, ends: str
) -> None:
    """A resumed sweep with a longer training was refused: 'since then the data changed'."""
    plans = [parse(f"train={train} test=1y") for train in ("1y", "2y")]
    for plan in plans:
        again = walk_forward(sweep, plan, CpuRunner(), folder=tmp_path, resume=True)
    assert again.metrics == walk_forward(sweep, plans[1], CpuRunner()).metrics
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} >= {"window-1", "window-2"}
    own = tmp_path / FOLDER / "window-of-mine"
    own.mkdir()
    getattr(Parts(tmp_path, sweep.manifest()), ends)()
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [own.name]


def test_a_sweep_beside_it_is_left_alone_whatever_its_name(sweep: Sweep, tmp_path: Path) -> None:
    """That in a folder named as those of trainings were lost its resume.json."""
    other = Parts(tmp_path / "window-1", sweep.manifest())
    other.begin()
    other.finish()
    whole = Parts(tmp_path, sweep.manifest())
    whole.begin()
    walk_forward(sweep, parse("train=2y test=1y"), CpuRunner(), folder=tmp_path)
    whole.finish()
    assert other.complete
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, "window-1"}


def test_a_last_tick_at_the_end_of_a_test_makes_no_test_of_its_own() -> None:
    moments = np.array([day(f"2024-01-0{n}") for n in range(1, 6)])
    plan = parse("train=2d test=1d")
    found = windows_of(plan, day("2024-01-01"), moments, ticks=True)
    assert [window.test_ns for window in found] == [day("2024-01-03"), day("2024-01-04")]
    assert found[-1].end_ns > moments[-1]


def test_the_last_tick_is_tested(tmp_path: Path) -> None:
    """The last test left it out; where it was alone there, the sweep failed when all was done."""
    path, data = tmp_path / "maker.qdsl", tmp_path / "quotes.csv"
    path.write_text(
        "language 1\n\nstrategy Buyer:\n    quotes\n\n    param n = 1 in 1..2\n\n"
        "    on quote:\n        if flat and n > 0:\n            buy(1 lot)\n"
    )
    times = [*(f"2024-01-01T23:59:{second}.000000100Z" for second in range(10, 59))]
    rows = [f"{time},{100 + row},{101 + row},5,5" for row, time in enumerate(times)]
    rows.append("2024-01-02T00:00:00.700000300Z,200,201,5,5")
    data.write_text("\n".join(["time,bid,ask,bid_size,ask_size", *rows, ""]))
    sweep = prepare_sweep(compile_file(path), path, data=str(data))
    walk = walk_forward(sweep, parse("train=1d test=1d"), CpuRunner())
    assert [step.outside["orders"] for step in walk.steps] == [1.0]
