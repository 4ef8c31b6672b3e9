"""std/xs.qdsl against its definitions, computed directly: math.fsum, two passes, scipy."""

import math
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats

from tests.std.universe import Panels, table, walks, write

Float64s = npt.NDArray[np.float64]

STRATEGY = """language 1
strategy Across:
    "Every function of xs."
    bars 1d
    universe "ALL"
    let x        = close / close[5] - 1
    let y        = log(volume + 1)
    let rank     = xs.rank(x)
    let z        = xs.zscore(x)
    let away     = xs.demean(x)
    let drawn    = xs.winsorize(x, 5%)
    let left     = xs.neutralize(x, y)
    let high     = xs.top(x, 10%)
    let low      = xs.bottom(x, 10%)
    let scaled   = xs.scale(x, gross = 150%)
    let weighed  = xs.weights(x, gross = 200%, net = 20%)
    let tails    = xs.long_short(x, top = 10%, bottom = 20%, scale = 1 / close, gross = 200%)
    let in_group = xs.demean(x, by = sector)
    let z_group  = xs.zscore(x, by = sector)
    let neutral  = xs.neutralize(x, by = sector)
    let r_group  = xs.rank(x, by = sector)
    let w_group  = xs.winsorize(x, 5%, by = sector)
    let n_group  = xs.count(x, by = sector)
    let all      = xs.sum(x)
    let middle   = xs.mean(x)
    let wide     = xs.std(x)
    let present  = xs.count(x)
    let decile   = xs.quantile(x, 10%)
    let gap      = xs.spread(x, 10%)
    let both     = xs.corr(x, y)
    on bar:
        pass_by()
    action pass_by():
        if rank + z + away + drawn + left + scaled + weighed + tails > inf:
            flatten()
        if high or low or in_group + z_group + neutral + r_group + w_group + n_group > inf:
            flatten()
        if all + middle + wide + present + decile + gap + both > inf:
            flatten()
"""
SECTORS = 11


def fsum(values: Float64s) -> float:
    return math.fsum(values.tolist())


def mean(x: Float64s) -> float:
    return fsum(x) / len(x)


def std(x: Float64s) -> float:
    m = mean(x)
    return math.sqrt(math.fsum((v - m) ** 2 for v in x.tolist()) / (len(x) - 1))


def quantile(x: Float64s, p: float) -> float:
    return float(np.quantile(x, p, method="linear"))


def line(x: Float64s, y: Float64s) -> Float64s:
    dx, dy = x - mean(x), y - mean(y)
    return dx - dy * fsum(dx * dy) / fsum(dy * dy)


def tail(x: Float64s, share: float) -> int:
    return min(max(math.floor(len(x) * share + 1e-9), 1), len(x))


def ordered(x: Float64s) -> list[int]:
    return sorted(range(len(x)), key=lambda i: (x[i], i))


def weighed(size: Float64s, gross: float, net: float) -> Float64s:
    up, down = fsum(size[size > 0]), -fsum(size[size < 0])
    long_ = (gross + net) / 2 / up if up else 0.0
    short = (gross - net) / 2 / down if down else 0.0
    return np.where(size > 0, size * long_, size * short)


def by_group(x: Float64s, group: Float64s, of: Callable[[Float64s], Float64s]) -> Float64s:
    found = np.empty(len(x))
    for one in np.unique(group):
        found[group == one] = of(x[group == one])
    return found


def normal(x: Float64s) -> Float64s:
    return (x - mean(x)) / std(x) if len(x) > 1 else np.full(len(x), np.nan)


def expected(x: Float64s, y: Float64s, close: Float64s, group: Float64s) -> dict[str, Float64s]:
    """Each panel of the strategy by its definition, of those present."""
    order, n = ordered(x), len(x)
    high, low = order[n - tail(x, 0.1) :], order[: tail(x, 0.1)]
    size = np.zeros(n)
    size[order[: tail(x, 0.2)]] = -1 / close[order[: tail(x, 0.2)]]
    size[high] = 1 / close[high]
    return {
        "rank": stats.rankdata(x) / n,
        "z": normal(x),
        "away": x - mean(x),
        "drawn": np.clip(x, quantile(x, 0.05), quantile(x, 0.95)),
        "left": line(x, y),
        "high": np.isin(np.arange(n), high).astype(float),
        "low": np.isin(np.arange(n), low).astype(float),
        "scaled": 1.5 * x / fsum(np.abs(x)),
        "weighed": weighed(x, 2.0, 0.2),
        "tails": weighed(size, 2.0, 0.0),
        "in_group": by_group(x, group, lambda v: v - mean(v)),
        "z_group": by_group(x, group, normal),
        "neutral": by_group(x, group, lambda v: v - mean(v)),
        "r_group": by_group(x, group, lambda v: stats.rankdata(v) / len(v)),
        "w_group": by_group(x, group, lambda v: np.clip(v, quantile(v, 0.05), quantile(v, 0.95))),
        "n_group": by_group(x, group, lambda v: np.full(len(v), float(len(v)))),
    }


def figures(x: Float64s, y: Float64s) -> dict[str, float]:
    """Each figure of all by its definition."""
    dx, dy = x - mean(x), y - mean(y)
    order = ordered(x)
    k = tail(x, 0.1)
    return {
        "all": fsum(x),
        "middle": mean(x),
        "wide": std(x),
        "present": len(x),
        "decile": quantile(x, 0.1),
        "gap": mean(x[order[-k:]]) - mean(x[order[:k]]),
        "both": fsum(dx * dy) / math.sqrt(fsum(dx * dx) * fsum(dy * dy)),
    }


def near(found: Float64s, wanted: Float64s, *, within: float = 1e-12) -> None:
    """Equal relative to the largest: a sum of n terms may cancel to nothing."""
    scale = max(float(np.nanmax(np.abs(wanted))), 1e-300)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.nanmax(np.abs(found - wanted), initial=0.0) <= within * scale


@pytest.fixture(scope="module")
def stocks(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 505 stock files, unpacked outside the repository."""
    folder = tmp_path_factory.mktemp("stocks")
    with tarfile.open(shared_data / "universe/cnuge/individual_stocks_5yr.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return next(folder.rglob("*.csv")).parent


def sectors(folder: Path, symbols: list[str], count: int = SECTORS) -> str:
    rows = [f"{name},S{n % count:02}" for n, name in enumerate(sorted(symbols))]
    return write(folder, "sectors.csv", "symbol,sector", rows)


def test_the_real_universe(stocks: Path, tmp_path: Path) -> None:
    """Every tenth of 1,259 days, all stocks that have a bar: 1e-12, ranks and tails exactly."""
    symbols = [path.name.partition("_")[0] for path in stocks.glob("*.csv")]
    more = {"universe.groups": sectors(tmp_path, symbols)}
    run = Panels(STRATEGY, data=str(stocks), bad_rows="drop", more=more)
    assert len(run.symbols) == 505
    seen = np.zeros(505, int)
    days = 0
    for day, bars in enumerate(run.bars()):
        seen[bars["instrument"]] += 1
        here = np.zeros(505, bool)
        here[bars["instrument"]] = True
        here &= seen > 5
        if day % 10 != 9:
            continue
        days += 1
        x, y = run.panel("x")[here], run.panel("y")[here]
        close = np.zeros(505)
        ticks = np.array([float(one.tick) for one in run.data.instruments])
        close[bars["instrument"]] = bars["payload"][:, 3] * ticks[bars["instrument"]]
        group = np.flatnonzero(here) % SECTORS
        for name, wanted in expected(x, y, close[here], group.astype(float)).items():
            found = run.panel(name)
            exact = name in ("rank", "high", "low", "r_group", "n_group")
            near(found[here], wanted, within=0.0 if exact else 1e-12)
            missing = found[~here]
            assert not missing.any() if name in ("high", "low") else np.isnan(missing).all()
        for name, wanted_one in figures(x, y).items():
            assert run.single(name) == pytest.approx(wanted_one, rel=1e-12, abs=1e-13), name
        assert run.panel("z")[here] == pytest.approx(stats.zscore(x, ddof=1), rel=1e-9, abs=1e-9)
        assert run.single("both") == pytest.approx(stats.pearsonr(x, y)[0], rel=1e-9)
    assert days == 125


def test_ties_share_ranks_and_stand_in_order(tmp_path: Path) -> None:
    closes: dict[str, list[float | None]] = {f"A{n}": [10.0] * 6 for n in range(6)}
    for name, last in zip(closes, (11.0, 10.0, 12.0, 10.0, 11.0, 11.0), strict=True):
        closes[name][5] = last
    more = {"universe.groups": sectors(tmp_path, list(closes))}
    text = STRATEGY.replace("10%)\n", "34%)\n")
    run = Panels(text, data=table(closes), more=more)
    for _ in run.bars():
        pass
    assert run.panel("rank").tolist() == [4 / 6, 1.5 / 6, 1.0, 1.5 / 6, 4 / 6, 4 / 6]
    assert run.panel("high").tolist() == [0, 0, 1, 0, 0, 1]  # of equals the last declared
    assert run.panel("low").tolist() == [0, 1, 0, 1, 0, 0]
    assert run.single("present") == 6


def test_ties_and_who_is_missing_within_groups(tmp_path: Path) -> None:
    """As pandas' groupby; who has no group, or no value, has no result and counts in none."""
    closes: dict[str, list[float | None]] = {f"A{n}": [10.0] * 6 for n in range(9)}
    last = (11.0, 10.0, 12.0, 10.0, 11.0, 11.0, 11.0, None, 13.0)
    for name, close in zip(closes, last, strict=True):
        closes[name][5] = close
    groups = ("a", "b", "a", "b", "a", "b", "", "a", "c")
    rows = [f"{name},{group}" for name, group in zip(closes, groups, strict=True)]
    more = {"universe.groups": write(tmp_path, "sectors.csv", "symbol,sector", rows)}
    run = Panels(STRATEGY, data=table(closes), more=more)
    for _ in run.bars():
        pass
    x = pd.Series(np.array(last, float) / 10 - 1)
    grouped = x.groupby(pd.Series(groups).replace("", None))
    assert run.panel("r_group").tolist() == pytest.approx(grouped.rank(pct=True), nan_ok=True)
    cut = [grouped.transform(lambda v, p=p: v.quantile(p)) for p in (0.05, 0.95)]
    assert run.panel("w_group") == pytest.approx(x.clip(*cut).where(cut[0].notna()), nan_ok=True)
    present = grouped.transform("count").where(x.notna())
    assert run.panel("n_group").tolist() == pytest.approx(present, nan_ok=True)
    assert run.panel("r_group")[:6].tolist() == [1.5 / 3, 1.5 / 3, 1, 1.5 / 3, 1.5 / 3, 1]
    assert np.isnan(run.panel("r_group")[6:8]).all()


EQUAL = """language 1
strategy Equal:
    "What lies off a mean that is rounded would be noise."
    bars 1d
    universe "ALL"
    let x        = float(close) / 3
    let y        = log(volume + 1)
    let away     = xs.demean(x)
    let z        = xs.zscore(x)
    let left     = xs.neutralize(y, x)
    let scaled   = xs.scale(away)
    let in_group = xs.demean(x, by = sector)
    let z_group  = xs.zscore(x, by = sector)
    let middle   = xs.mean(x)
    let wide     = xs.std(x)
    let both     = xs.corr(x, y)
    plot(middle + wide + both)
"""


@pytest.mark.parametrize("count", [3, 5, 7, 11, 23])
@pytest.mark.parametrize("close", [10.1, 0.7, 123.45])
def test_equal_values_are_their_mean(tmp_path: Path, count: int, close: float) -> None:
    closes: dict[str, list[float | None]] = {f"A{n:02}": [close] * 2 for n in range(count)}
    more = {"universe.groups": sectors(tmp_path, list(closes), 2)}
    run = Panels(EQUAL, data=table(closes), more=more)
    for _ in run.bars():
        pass
    assert run.single("middle") == run.panel("x")[0]
    assert not run.single("wide")
    for name in ("away", "in_group"):
        assert not run.panel(name).any(), name
    for name in ("z", "left", "scaled", "z_group"):
        assert np.isnan(run.panel(name)).all(), name
    assert np.isnan(run.single("both"))


def test_machine_code_and_interpreter_leave_the_same_bits(tmp_path: Path) -> None:
    closes = walks(9, 24)
    more = {"universe.groups": sectors(tmp_path, list(closes), 2)}
    runs = [
        Panels(STRATEGY, data=table(closes), more=more, interpreted=interpreted)
        for interpreted in (False, True)
    ]
    for events in runs[0].data.chunks():
        for run in runs:
            run.run.feed(events)
    assert np.isfinite(runs[0].panel("z_group")).any()
    assert np.array_equal(runs[0].run.memory.words, runs[1].run.memory.words)
