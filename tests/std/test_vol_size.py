"""vol.* against their formulas over real-shaped bars, size.* against worked examples."""

import math

import numpy as np
import pytest

from tests.std.harness import Bars, run
from tests.std.windows import assert_close

LEN = 20


def random_bars(n: int = 300, seed: int = 11) -> tuple[Bars, dict[str, np.ndarray]]:
    """Bars with gaps, in ticks of a cent, and the logarithms of their four prices."""
    rng = np.random.default_rng(seed)
    close = 50_000 + np.cumsum(rng.integers(-300, 301, n))
    open_ = np.concatenate([[50_000], close[:-1]]) + rng.integers(-40, 41, n)
    high = np.maximum(open_, close) + rng.integers(0, 200, n)
    low = np.minimum(open_, close) - rng.integers(0, 200, n)
    prices = {"open": open_, "high": high, "low": low, "close": close}
    return Bars(**prices, volume=np.ones(n)), {k: np.log(v / 100) for k, v in prices.items()}


def rolling_mean(x: np.ndarray) -> np.ndarray:
    """Mean of the last LEN values."""
    out = np.full(len(x), np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(x, LEN)
    out[LEN - 1 :] = windows.mean(axis=1)
    return out


def rolling_variance(x: np.ndarray) -> np.ndarray:
    """Sample variance of the last LEN values."""
    out = np.full(len(x), np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(x, LEN)
    out[LEN - 1 :] = windows.var(axis=1, ddof=1)
    return out


def rogers_satchell(p: dict[str, np.ndarray]) -> np.ndarray:
    """Variance per bar."""
    up = (p["high"] - p["close"]) * (p["high"] - p["open"])
    return rolling_mean(up + (p["low"] - p["close"]) * (p["low"] - p["open"]))


def test_parkinson() -> None:
    bars, p = random_bars()
    want = np.sqrt(rolling_mean((p["high"] - p["low"]) ** 2) / (4 * math.log(2)))
    assert_close(run("vol.parkinson", data=bars, len=LEN), want, 1e-9)


def test_garman_klass() -> None:
    bars, p = random_bars()
    body = (2 * math.log(2) - 1) * (p["close"] - p["open"]) ** 2
    want = np.sqrt(rolling_mean((p["high"] - p["low"]) ** 2 / 2 - body))
    assert_close(run("vol.garman_klass", data=bars, len=LEN), want, 1e-9)


def test_rogers_satchell() -> None:
    bars, p = random_bars()
    assert_close(run("vol.rogers_satchell", data=bars, len=LEN), np.sqrt(rogers_satchell(p)), 1e-9)


def test_yang_zhang() -> None:
    bars, p = random_bars()
    gap = np.concatenate([[np.nan], p["open"][1:] - p["close"][:-1]])
    k = 0.34 / (1.34 + (LEN + 1) / (LEN - 1))
    inner = (1 - k) * rogers_satchell(p)
    want = np.sqrt(rolling_variance(gap) + k * rolling_variance(p["close"] - p["open"]) + inner)
    assert_close(run("vol.yang_zhang", data=bars, len=LEN), want, 1e-9)


def test_realised() -> None:
    _, p = random_bars()
    returns = np.concatenate([[np.nan], np.diff(p["close"])])
    got = run("vol.realised", src=np.exp(p["close"]), len=LEN)
    assert_close(got, np.sqrt(rolling_mean(returns**2)), 1e-9)


def test_a_price_that_has_no_logarithm_is_left_out() -> None:
    bars, _ = random_bars()
    bars.low[100] = 0
    got = run("vol.parkinson", data=bars, len=LEN)
    assert np.flatnonzero(np.isnan(got)).tolist() == [*range(LEN - 1), *range(100, 100 + LEN)]


@pytest.mark.parametrize(("win_rate", "payoff", "fraction"), [
    (0.5, 2.0, 0.25), (0.6, 1.0, 0.2), (0.4, 1.0, 0.0), (1.0, 3.0, 1.0), (math.nan, 1.0, math.nan),
])
def test_kelly(win_rate: float, payoff: float, fraction: float) -> None:
    got = run("size.kelly", win_rate=np.array([win_rate]), payoff=payoff)
    assert got[0] == pytest.approx(fraction, nan_ok=True)


def test_kelly_maximises_growth() -> None:
    fractions = np.linspace(0.0, 0.9, 9001)
    growth = 0.55 * np.log1p(1.4 * fractions) + 0.45 * np.log1p(-fractions)
    got = run("size.kelly", win_rate=np.array([0.55]), payoff=1.4)[0]
    assert got == pytest.approx(fractions[np.argmax(growth)], abs=1e-4)


@pytest.mark.parametrize(("name", "given", "want"), [
    ("kelly_gaussian", {"mean_return": 0.08, "variance": 0.04}, 2.0),
    ("vol_target", {"target": 0.15, "volatility": 0.20}, 0.75),
    ("vol_target", {"target": 0.15, "volatility": 0.05}, 1.0),
    ("vol_target", {"target": 0.15, "volatility": 0.10, "max_leverage": 2.0}, 1.5),
    ("vol_target", {"target": 0.15, "volatility": 0.0}, math.nan),
    ("vol_target", {"target": math.nan, "volatility": 0.2}, math.nan),
    ("risk_per_trade", {"equity": 1e5, "risk": 0.005, "stop_distance": 2.5}, 200.0),
    ("risk_per_trade", {"equity": 1e5, "risk": 0.005, "stop_distance": 0.0}, math.nan),
])
def test_sizes(name: str, given: dict[str, float], want: float) -> None:
    got = run(f"size.{name}", **{key: np.array([value]) for key, value in given.items()})
    assert got[0] == pytest.approx(want, nan_ok=True)
