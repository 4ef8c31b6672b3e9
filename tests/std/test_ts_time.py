"""Half-lives in time: against pandas where it has the figure, else against the formula itself."""

import math

import numpy as np
import pandas as pd
import pytest

from tests.backtest.tick_runs import START, quote, run_both

HALFLIFE_S = 2.5
TEXT = """
indicator mine(x: series[float]) -> float:
    return ts.ewm_mean(x, 2500ms)

strategy S:
    quotes
    param h = 2.5s in 1s..9s
    plot(ts.ewm_mean(mid, halflife = h), "mean")
    plot(ts.ewm_std(mid, h), "std")
    plot(ts.ewm_rate_std(mid, halflife = h), "rate")
    plot(mine(mid), "mine")
"""


@pytest.fixture(scope="module")
def ticks() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times in ns and mids of irregular quotes, each at least a second apart; the plots."""
    rng = np.random.default_rng(7)
    ms = np.cumsum(rng.integers(1_000, 9_000, 300)).astype(float)
    bids = 10_000 + np.cumsum(rng.integers(-3, 4, 300))
    made = run_both(TEXT, [quote(t, int(b), int(b) + 2) for t, b in zip(ms, bids, strict=True)])
    curve = made.curve()
    assert (curve[:, 0] == START + ms.astype(np.int64) * 1_000_000).all()
    return curve[:, 0], (bids + 1) / 100, curve[:, 2:].view(np.float64)


def test_the_mean_is_that_of_pandas(ticks: tuple) -> None:
    times, mids, plots = ticks
    times = pd.Series(pd.to_datetime(times))
    wanted = pd.Series(mids).ewm(halflife=f"{HALFLIFE_S}s", times=times).mean()
    np.testing.assert_allclose(plots[:, 0], wanted, rtol=1e-10)
    assert (plots[:, 3] == plots[:, 0]).all()  # as part of a user's indicator


def weights(seconds: np.ndarray, now: int) -> np.ndarray:
    return 2.0 ** (-(seconds[now] - seconds[: now + 1]) / HALFLIFE_S)


def test_std_and_rate_are_their_formulas(ticks: tuple) -> None:
    times, mids, plots = ticks
    seconds = (times - times[0]) / 1e9
    assert np.isnan(plots[0, 1:3]).all()
    for now in range(1, len(mids)):
        w = weights(seconds, now)
        x = mids[: now + 1]
        mean = (w * x).sum() / w.sum()
        assert plots[now, 0] == pytest.approx(mean, rel=1e-13)
        variance = (w * (x - mean) ** 2).sum() / (w.sum() - (w**2).sum() / w.sum())
        assert plots[now, 1] == pytest.approx(math.sqrt(variance), rel=1e-9)
        squares = (w[1:] * np.diff(x) ** 2).sum()
        rate = math.sqrt(squares / (w[1:] * np.diff(seconds[: now + 1])).sum())
        assert plots[now, 2] == pytest.approx(rate, rel=1e-9)


def test_a_regular_walk_has_its_own_volatility() -> None:
    quotes = [quote(1_000.0 * n, 10_000 + n % 2, 10_002 + n % 2) for n in range(50)]
    rate = run_both(TEXT, quotes).curve()[:, 4].view(np.float64)
    assert rate[-1] == pytest.approx(0.01)  # a tick each second


def test_values_of_one_moment_have_no_rate_yet() -> None:
    made = run_both(TEXT, [quote(0, 1, 3), quote(0, 5, 7), quote(1_000, 5, 7)])
    assert np.isnan(made.curve()[0, 2:].view(np.float64)[2])
    assert made.curve()[-1, 2:].view(np.float64)[2] == pytest.approx(0.04 / 2 ** (1 / 5))
