"""The page of conventions is what pandas, polars, scipy and numpy do: each of its rows is run."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from quantdsl.backtest.signals import prepare_signals
from tests.std.universe import compiled, table, write

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "quantdsl" / "docs" / "conventions.md").read_text(encoding="utf-8")
STOCKS, DAYS = 24, 160
WITHIN = {"exact": 0.0, "1e-9": 1e-9}


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without the marks of code."""
    own = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ") for line in own.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in re.split(r" ?\| ?", line)] for line in lines]


ALONG, ACROSS, GROUPS, INSTANT = map(
    rows_of,
    ("Along time", "Across instruments", "Within groups", "One instant in scipy and numpy"),
)
EQUATIONS = list(dict.fromkeys(row[0] for row in (*ALONG, *ACROSS, *GROUPS, *INSTANT)))
NAMES = {text: f"v{number}" for number, text in enumerate(EQUATIONS)}


def group_of(stock: str) -> str | None:
    """A group of one, one of many, some between; who ends in 5 is in none."""
    number = int(stock[1:])
    return None if number % 10 == 5 else "first" if number == 0 else "BAC"[number % 7 % 3]


def closes() -> dict[str, list[float | None]]:
    """Walks of few different prices, with gaps, late listings and early ends."""
    random = np.random.default_rng(11)
    found: dict[str, list[float | None]] = {}
    for number in range(STOCKS):
        walk = 40 + np.cumsum(random.integers(-2, 3, DAYS) * 0.25)
        column: list[float | None] = walk.round(2).tolist()
        for day in random.integers(0, DAYS, 12 if number % 3 == 0 else 0).tolist():
            column[day] = None
        if number % 5 == 1:
            column[:30] = [None] * 30
        if number % 5 == 2:
            column[-40:] = [None] * 40
        found[f"A{number:02}"] = column
    return found


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """A row of each stock's bar: x, y and each equation of the page."""
    lets = "\n".join(f"    let {name} = {text}" for text, name in NAMES.items())
    text = f"""language 1
strategy All:
    bars 1d
    universe "ALL"
    let x = float(close)
    let y = ts.delta(close, 3) * 1.0
{lets}
"""
    prices = closes()
    rows = [f"{stock},{group_of(stock) or ''}" for stock in prices]
    groups = write(tmp_path_factory.mktemp("groups"), "groups.csv", "symbol,sector", rows)
    more = {"universe.groups": groups}
    made = prepare_signals(compiled(text), data=table(prices), more=more).table()
    columns: dict[str, Any] = {"time": made["time"].cast(pa.int64()).to_numpy()}
    columns["stock"] = made["instrument"].cast(pa.string()).to_pylist()
    columns |= {name: made[name].to_numpy() for name in ("x", "y", *NAMES.values())}
    return pd.DataFrame(columns)


def worth(text: str, **names: Any) -> Any:
    """What a cell of the page is worth."""
    known = {"np": np, "pd": pd, "stats": stats, "few": few}
    return eval(text, known | names)  # noqa: S307 (the page is ours)


def few(x: pd.DataFrame) -> pd.Series:
    """As the page defines it."""
    text = re.search(r"`few\(x\)` is `(.*?)`", PAGE)
    assert text is not None
    return worth(text[1], x=x)


def same(found: Any, wanted: Any, equal: str) -> None:
    """Equal as far as the page says, with the same ones missing."""
    ours: npt.NDArray[np.float64] = np.asarray(found, float)
    theirs: npt.NDArray[np.float64] = np.asarray(wanted, float)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert (~np.isnan(ours)).sum() > 0
    away = np.nanmax(np.abs(ours - theirs))
    assert away <= WITHIN[equal] * max(float(np.nanmax(np.abs(theirs))), 1e-300)


def wide(signals: pd.DataFrame, name: str) -> pd.DataFrame:
    """A column as [time, stock]."""
    return signals.pivot(index="time", columns="stock", values=name).astype(float)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [(r[0], r[1], r[3]) for r in ALONG])
def test_pandas_along_time(signals, ours, theirs, equal):
    for _, own in signals.groupby("stock"):
        x, y = own["x"].reset_index(drop=True), own["y"].reset_index(drop=True)
        same(own[NAMES[ours]], worth(theirs, x=x, y=y), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [(r[0], r[1], r[3]) for r in ACROSS])
def test_pandas_across_instruments(signals, ours, theirs, equal):
    found = wide(signals, NAMES[ours])
    x, y = wide(signals, "x"), wide(signals, "y")
    wanted = worth(theirs, x=x, y=y)
    if isinstance(wanted, pd.Series):
        same(found.max(axis=1)[3:], wanted[3:], equal)
    else:
        here = x.notna()
        same(found.where(here), wanted.astype(float).where(here), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [(r[0], r[1], r[3]) for r in GROUPS])
def test_pandas_within_groups(signals, ours, theirs, equal):
    x = wide(signals, "x")
    g = pd.Series({stock: group_of(stock) for stock in x.columns})
    same(wide(signals, NAMES[ours]), worth(theirs, x=x, g=g), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [(r[0], r[2], r[3]) for r in GROUPS])
def test_polars_within_groups(signals, ours, theirs, equal):
    pl = pytest.importorskip("polars")
    for _, now in list(signals.groupby("time"))[3::7]:
        own = now[now["stock"].map(group_of).notna()]
        columns = {"x": own["x"].to_numpy(), "g": own["stock"].map(group_of).to_list()}
        found = pl.DataFrame(columns).select(worth(theirs, pl=pl, x=pl.col("x")).alias("found"))
        same(own[NAMES[ours]], found["found"].fill_null(np.nan).to_numpy(), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), INSTANT)
def test_scipy_at_one_instant(signals, ours, theirs, equal):
    for _, now in list(signals.groupby("time"))[3::7]:
        both = now[now["y"].notna()] if "y" in theirs.replace("np", "") else now
        wanted = worth(theirs, x=both["x"].to_numpy(), y=both["y"].to_numpy())
        same(both[NAMES[ours]], np.broadcast_to(wanted, len(both)), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [r[::2] + r[3:] for r in ALONG if r[2]])
def test_polars_along_time(signals, ours, theirs, equal):
    pl = pytest.importorskip("polars")
    for _, own in signals.groupby("stock"):
        frame = pl.DataFrame({name: own[name].to_numpy() for name in ("x", "y")}).fill_nan(None)
        wanted = frame.select(worth(theirs, pl=pl, x=pl.col("x"), y=pl.col("y"))).to_series()
        same(own[NAMES[ours]], wanted.cast(pl.Float64).fill_null(np.nan).to_numpy(), equal)


@pytest.mark.parametrize(("ours", "theirs", "equal"), [r[::2] + r[3:] for r in ACROSS if r[2]])
def test_polars_across_instruments(signals, ours, theirs, equal):
    pl = pytest.importorskip("polars")
    for _, now in list(signals.groupby("time"))[3::7]:
        both = now[now["y"].notna()] if "y" in theirs else now
        count = np.full(len(both), float(len(both)))  # a number alone would be a reciprocal
        frame = pl.DataFrame({"x": both["x"].to_numpy(), "y": both["y"].to_numpy(), "n": count})
        wanted = frame.with_columns(found=worth(theirs, pl=pl, x=pl.col("x"), y=pl.col("y")))
        same(both[NAMES[ours]], wanted["found"].to_numpy(), equal)
