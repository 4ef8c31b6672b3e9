"""ta.*: recursions, events, pivots and volume against plain Python, na included."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.std.harness import Bars, Ticks, run
from tests.std.markets import market
from tests.std.windows import assert_close, spoiled, walk

N = 300
SMA, FIRST = 0, 1
DAY = 86_400_000_000_000


def bars() -> Bars:
    """Bars, some of them without range or without volume."""
    return market(N, quiet=0.1)


def money(counts: np.ndarray) -> np.ndarray:
    """Ticks as floats."""
    return counts / 100.0


def smooth(x: np.ndarray, length: int, weight: float, seed: int = SMA) -> np.ndarray:
    """A recursive mean that skips na: seeded by the mean of `length` values or by the first."""
    out = np.full(len(x), np.nan)
    seen: list[float] = []
    mean = math.nan
    for i, value in enumerate(x):
        if not abs(value) <= 1e100:
            continue
        seen.append(value)
        if len(seen) <= length and seed == SMA:
            mean = math.fsum(seen) / len(seen)
        else:
            mean = value if len(seen) == 1 else mean + weight * (value - mean)
        if len(seen) >= length:
            out[i] = mean
    return out


def ema(x: np.ndarray, length: int) -> np.ndarray:
    """Exponential mean."""
    return smooth(x, length, 2 / (length + 1))


def rma(x: np.ndarray, length: int) -> np.ndarray:
    """Wilder's mean."""
    return smooth(x, length, 1 / length)


def back(x: np.ndarray, k: int = 1) -> np.ndarray:
    """The series k steps ago."""
    return np.concatenate([np.full(k, np.nan), x[:-k]])


@pytest.mark.parametrize("length", [1, 2, 14])
def test_recursive_means(length: int) -> None:
    x = spoiled(walk(N))
    assert_close(run("ta.ema", src=x, len=length), ema(x, length), 1e-14)
    assert_close(run("ta.rma", src=x, len=length), rma(x, length), 1e-14)
    first = smooth(x, length, 2 / (length + 1), FIRST)
    assert_close(run("ta.ema", src=x, len=length, seed=FIRST), first, 1e-14)


def test_the_ema_of_a_constant_is_that_constant() -> None:
    for seed in (SMA, FIRST):
        found = run("ta.ema", src=np.full(2_000, 0.1), len=7, seed=seed)
        assert (found[6:] == 0.1).all()


def test_rsi() -> None:
    x = spoiled(walk(N))
    with np.errstate(invalid="ignore"):
        move = x - back(x)
    # A step to or from a missing value is no move at all: neither side hears of it.
    known = np.abs(move) <= 1e100
    up = rma(np.where(known, np.maximum(move, 0), np.nan), 14)
    down = rma(np.where(known, np.maximum(-move, 0), np.nan), 14)
    assert_close(run("ta.rsi", src=x, len=14), 100 * up / (up + down), 1e-13)


def test_rsi_without_a_fall_is_100_and_without_a_rise_0() -> None:
    rise = np.arange(40.0)
    assert (run("ta.rsi", src=rise, len=14)[14:] == 100).all()
    assert (run("ta.rsi", src=-rise, len=14)[14:] == 0).all()
    assert (run("ta.rsi", src=np.full(40, 3.3), len=14)[14:] == 100).all()


def test_macd() -> None:
    x = spoiled(walk(N))
    found = run("ta.macd", src=x, fast=5, slow=12, signal=4)
    line = ema(x, 5) - ema(x, 12)
    assert_close(found["macd"], line, 1e-11, 1e-13)
    assert_close(found["signal"], ema(line, 4), 1e-11, 1e-13)
    assert_close(found["hist"], line - ema(line, 4), 1e-11, 1e-13)


def test_tsi() -> None:
    x = walk(N)
    move = x - back(x)
    strength = ema(ema(move, 8), 5) / ema(ema(np.abs(move), 8), 5)
    assert_close(run("ta.tsi", src=x, short=5, long=8), strength, 1e-12, 1e-14)


def test_cmo_is_the_balance_of_plain_sums() -> None:
    x = walk(N)
    move = x - back(x)
    want = np.full(N, np.nan)
    for i in range(9, N):
        window = move[i - 8 : i + 1]
        up, down = math.fsum(np.maximum(window, 0)), math.fsum(np.maximum(-window, 0))
        want[i] = 100 * (up - down) / (up + down) if up + down else np.nan
    assert_close(run("ta.cmo", src=x, len=9), want, 1e-12, 1e-12)


@pytest.mark.parametrize("use_true_range", [True, False])
def test_keltner(use_true_range: bool) -> None:
    at = bars()
    high, low, close = money(at.high), money(at.low), money(at.close)
    previous = back(close)
    reach = high - low
    if use_true_range:
        reach = np.maximum(reach, np.maximum(np.abs(high - previous), np.abs(low - previous)))
    middle, span = ema(close, 10), 1.5 * ema(reach, 10)
    given = {"src": close, "len": 10, "use_true_range": use_true_range, "data": at}
    found = run("ta.kc", **given)
    for field, want in (("middle", middle), ("upper", middle + span), ("lower", middle - span)):
        assert_close(found[field], want, 1e-13)
    assert_close(run("ta.kcw", **given), 2 * span / middle, 1e-11)


def test_since_the_start() -> None:
    x = spoiled(walk(N))
    known = np.abs(x) <= 1e100
    total = np.array([math.fsum(x[: i + 1][known[: i + 1]]) for i in range(N)])
    assert_close(run("ta.cum", src=x), np.where(known, total, np.nan), 1e-15)
    for name, best in (("max", np.maximum), ("min", np.minimum)):
        floor = -np.inf if name == "max" else np.inf
        assert_close(run(f"ta.{name}", src=x), best.accumulate(np.where(known, x, floor)), 0)


def test_occurrences() -> None:
    rng = np.random.default_rng(5)
    cond, x = rng.random(N) < 0.2, walk(N)
    at = np.flatnonzero(cond)
    since = [i - at[at <= i].max() if (at <= i).any() else np.nan for i in range(N)]
    assert_close(run("ta.barssince", cond=cond), np.array(since), 0)
    for k in range(3):
        held = [x[at[at <= i][-1 - k]] if (at <= i).sum() > k else np.nan for i in range(N)]
        assert_close(run("ta.valuewhen", cond=cond, src=x, occurrence=k), np.array(held), 0)


@pytest.mark.parametrize(("name", "up", "down"),
                         [("crossover", 1, 0), ("crossunder", 0, 1), ("cross", 1, 1)])
def test_crossings(name: str, up: int, down: int) -> None:
    x, y = spoiled(np.round(walk(N))), np.round(walk(N, seed=3))
    over = (x > y) & (back(x) <= back(y))
    under = (x < y) & (back(x) >= back(y))
    assert run(f"ta.{name}", x=x, y=y).tolist() == (up * over | down * under).tolist()


@pytest.mark.parametrize(("name", "sign"), [("rising", 1), ("falling", -1)])
def test_runs(name: str, sign: int) -> None:
    x = sign * spoiled(walk(N))
    step = x > back(x)
    want = [i >= 2 and all(step[i - 2 : i + 1]) for i in range(N)]
    assert run(f"ta.{name}", src=sign * x, len=3).tolist() == want


@pytest.mark.parametrize(("name", "sign"), [("pivothigh", 1), ("pivotlow", -1)])
def test_pivots(name: str, sign: int) -> None:
    x = sign * np.round(walk(N))
    want = np.full(N, np.nan)
    for i in range(6, N):
        pivot = x[i - 2]
        if pivot >= x[i - 6 : i - 2].max() and pivot > x[i - 1 : i + 1].max():
            want[i] = sign * pivot
    assert_close(run(f"ta.{name}", src=sign * x, left=4, right=2), want, 0)


def test_volume_flows() -> None:
    at = bars()
    high, low, close, open_ = (a.astype(float) for a in (at.high, at.low, at.close, at.open))
    volume, span, previous = at.volume.astype(float), high - low, back(close)
    with np.errstate(all="ignore"):
        place = np.where(span > 0, (2 * close - high - low) / span, 0)
        body = np.where(span > 0, (close - open_) / span, 0)
        intensity = np.where(volume > 0, place / volume, np.nan)
    move = np.nan_to_num(close - previous)
    true_move = np.where(move > 0, close - np.fmin(low, previous),
                         np.where(move < 0, close - np.fmax(high, previous), 0))
    change = move / np.nan_to_num(previous, nan=1.0)
    assert_close(run("ta.obv", data=at), np.cumsum(np.sign(move) * volume), 0)
    assert_close(run("ta.accdist", data=at), np.cumsum(place * volume), 1e-12, 1e-9)
    assert_close(run("ta.iii", data=at), intensity, 1e-15)
    assert_close(run("ta.wvad", data=at), body * volume, 1e-15)
    assert_close(run("ta.wad", data=at), np.cumsum(true_move) / 100, 1e-15)
    assert_close(run("ta.pvt", data=at), np.cumsum(change * volume), 1e-12, 1e-12)
    for name, chosen in (("nvi", volume < back(volume)), ("pvi", volume > back(volume))):
        want = np.cumprod(np.where(chosen, 1 + change, 1))
        assert_close(run(f"ta.{name}", data=at), want, 1e-13)


def test_vwap_restarts_with_the_utc_day() -> None:
    at = bars()
    at.ts = np.arange(1, N + 1) * (DAY // 48)
    price = (at.high + at.low + at.close) / 300
    want = np.full(N, np.nan)
    for i in range(N):
        # A bar's time is its close: the one that ends at midnight belongs to the day before.
        own = slice(i // 48 * 48, i + 1)
        traded = at.volume[own].sum()
        want[i] = math.fsum(price[own] * at.volume[own]) / traded if traded else np.nan
    assert_close(run("ta.vwap", data=at), want, 1e-14)


def test_anchored_deviation_is_weighted_by_volume() -> None:
    at, x = bars(), walk(N, seed=4)
    anchor = np.random.default_rng(2).random(N) < 0.05
    anchor[:3] = False
    found = run("ta.anchored", src=x, anchor=anchor, data=at)
    start = None
    for i in range(N):
        start = i if anchor[i] else start
        weights = at.volume[start : i + 1] if start is not None else np.zeros(0)
        if weights.sum() == 0:
            assert math.isnan(found["mean"][i])
            continue
        mean = np.average(x[start : i + 1], weights=weights)
        spread = np.average((x[start : i + 1] - mean) ** 2, weights=weights)
        assert found["mean"][i] == pytest.approx(mean, rel=1e-13)
        assert found["stdev"][i] == pytest.approx(math.sqrt(spread), rel=1e-9, abs=1e-6)


KINDS = ["traditional", "fibonacci", "woodie", "classic", "demark", "camarilla"]


def levels(kind: str, high: float, low: float, close: float, open_: float,
           after: float) -> dict[str, float]:
    """The published rules, each level written out."""
    p, span = (high + low + close) / 3, high - low
    if kind == "woodie":
        p = (high + low + 2 * after) / 4
    floor = {"p": p, "r1": 2 * p - low, "s1": 2 * p - high, "r2": p + span, "s2": p - span}
    rules: dict[str, Callable[[], dict[str, float]]] = {
        "traditional": lambda: floor | {
            "r3": 2 * p + high - 2 * low, "s3": 2 * p - 2 * high + low,
            "r4": 3 * p + high - 3 * low, "s4": 3 * p - 3 * high + low,
            "r5": 4 * p + high - 4 * low, "s5": 4 * p - 4 * high + low},
        "classic": lambda: floor | {
            "r3": p + 2 * span, "s3": p - 2 * span, "r4": p + 3 * span, "s4": p - 3 * span},
        "woodie": lambda: floor | {
            "r3": high + 2 * (p - low), "s3": low - 2 * (high - p),
            "r4": high + 2 * (p - low) + span, "s4": low - 2 * (high - p) - span},
        "fibonacci": lambda: {"p": p} | {
            f"{side}{k}": p + sign * part * span for side, sign in (("r", 1), ("s", -1))
            for k, part in ((1, 0.382), (2, 0.618), (3, 1.0))},
        "camarilla": lambda: {"p": p, "r5": high / low * close,
                              "s5": 2 * close - high / low * close} | {
            f"{side}{k}": close + sign * 1.1 * span / part
            for side, sign in (("r", 1), ("s", -1))
            for k, part in ((1, 12), (2, 6), (3, 4), (4, 2))},
        "demark": lambda: _demark(high, low, close, open_),
    }
    return rules[kind]()


def _demark(high: float, low: float, close: float, open_: float) -> dict[str, float]:
    x = high + low + close + (low if close < open_ else high if close > open_ else close)
    return {"p": x / 4, "r1": x / 2 - low, "s1": x / 2 - high}


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize("developing", [False, True])
def test_pivot_levels(number: int, developing: bool) -> None:
    at = bars()
    anchor = np.arange(N) % 24 == 0
    found = run("ta.pivot_point_levels", kind=number, anchor=anchor, developing=developing,
                data=at)
    high, low, close, open_ = (money(a) for a in (at.high, at.low, at.close, at.open))
    for i in range(N):
        start = i // 24 * 24
        own = slice(start, i + 1) if developing else slice(start - 24, start)
        if own.start < 0:
            assert all(math.isnan(column[i]) for column in found.values())
            continue
        after = close[i] if developing else open_[start]
        want = levels(KINDS[number], high[own].max(), low[own].min(), close[own][-1],
                      open_[own][0], after)
        for name, column in found.items():
            expected = want.get(name, math.nan)
            assert column[i] == pytest.approx(expected, rel=1e-13, nan_ok=True), (i, name)


def test_ticks_make_true_range_exact() -> None:
    at = bars()
    found = run("ta.tr", data=at, handle_na=True)
    previous = np.concatenate([at.close[:1], at.close[:-1]])
    reach = np.maximum(at.high, previous) - np.minimum(at.low, previous)
    reach[0] = at.high[0] - at.low[0]
    assert_close(found, reach / 100, 0)
    assert math.isnan(run("ta.tr", data=at)[0])


def test_change_in_every_form() -> None:
    x = walk(N)
    for name, want in (("change", x - back(x, 3)), ("mom", x - back(x, 3)),
                       ("roc", 100 * (x - back(x, 3)) / back(x, 3))):
        assert_close(run(f"ta.{name}", src=x, len=3), want, 1e-15)
    assert_close(run("ta.swma", src=x), (x + 2 * back(x) + 2 * back(x, 2) + back(x, 3)) / 6, 1e-15)


def test_a_price_gives_what_its_float_gives() -> None:
    at = bars()
    for name in ("sma", "wma"):
        exact = run(f"ta.{name}", src=Ticks(at.close), len=20)
        assert_close(exact, run(f"ta.{name}", overload=1, src=money(at.close), len=20), 1e-15)
