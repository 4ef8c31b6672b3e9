"""The built-in market: the same everywhere, as lively as a real one, and a pair that is a pair."""

import hashlib
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from quantdsl.data.events import open_data
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import DataSpec, SourceSpec
from tests.data.helpers import XNYS, bars, check_stream, events

Floats = npt.NDArray[np.float64]

PAIR = (SourceSpec(symbol="XNYS:KO"), SourceSpec(symbol="XNYS:PEP"))


def market(**options: object) -> DataSpec:
    return DataSpec(session=XNYS, clocks=("5m",), **options)  # type: ignore[arg-type]


def test_the_bytes_are_pinned() -> None:
    """Figures in strategies' headers and in the README stand on these bars."""
    made = bars(open_data(market()))
    digest = hashlib.sha256(made.tobytes()).hexdigest()
    assert len(made) == 38_970
    assert digest == "570cdc3c8607f7ef2366996e3ba2be964ba399defe57a40b6b6edbc500906e88"


def test_seeds_differ_and_repeat() -> None:
    one, again, other = (events(open_data(market(seed=seed))) for seed in (5, 5, 6))
    assert one.tobytes() == again.tobytes()
    assert one.tobytes() != other.tobytes()
    hashes = {open_data(market(seed=seed)).sha256 for seed in (5, 6)}
    assert len(hashes) == 2


def test_average_true_range_is_that_of_real_minutes() -> None:
    made = bars(open_data(market()))
    high, low, close = (made[name].astype(np.float64) for name in ("high", "low", "close"))
    true = np.maximum(high[1:], close[:-1]) - np.minimum(low[1:], close[:-1])
    atr = np.empty_like(true)
    atr[0] = true[:14].mean()
    for k in range(1, len(true)):
        atr[k] = (13 * atr[k - 1] + true[k]) / 14
    share = 100 * atr / close[1:]
    inside = (share >= 0.06) & (share <= 0.22)
    assert inside.mean() > 0.99
    assert 0.08 < np.median(share) < 0.13


def average(values: Floats, window: int) -> Floats:
    total = np.concatenate(([0.0], np.cumsum(values)))
    return (total[window:] - total[:-window]) / window


def test_trends_are_long_enough_to_trade() -> None:
    close = bars(open_data(market()))["close"].astype(np.float64)
    fast, slow = average(close, 10)[30:], average(close, 40)
    crosses = np.count_nonzero((fast[1:] > slow[1:]) & (fast[:-1] <= slow[:-1]))
    assert 300 < crosses < 900


def test_activity_is_highest_at_the_open_and_the_close() -> None:
    made = bars(open_data(market()))
    full = made["ts_event"] - made["ts_recv"] == 300 * 10**9
    slot = (made["ts_recv"] // (300 * 10**9)) % 288
    volume = made["volume"].astype(np.float64)
    winter = full & ((made["ts_event"] // (86_400 * 10**9)) % 365 < 60)
    busy = volume[winter & ((slot == 174) | (slot == 251))].mean()
    quiet = volume[winter & (slot == 210)].mean()
    assert busy > 1.5 * quiet


def test_a_pair_returns_to_its_spread() -> None:
    data = open_data(market(instruments=PAIR, sync_all=True))
    found = check_stream(data)
    assert [one.name for one in data.instruments] == ["XNYS:KO", "XNYS:PEP"]
    made = found[found["kind"] == 1]
    close = np.log(made["payload"][:, 3].reshape(-1, 2).astype(np.float64))
    returns = np.diff(close, axis=0)
    assert np.corrcoef(returns.T)[0, 1] > 0.5
    spread = close[:, 0] - close[:, 1]
    spread -= spread.mean()
    decay = (spread[1:] * spread[:-1]).sum() / (spread[:-1] ** 2).sum()
    half_life_bars = -np.log(2) / np.log(decay)
    assert half_life_bars < 78  # a session
    assert np.abs(spread).max() < 0.05


def test_the_second_of_a_pair_is_the_market_alone() -> None:
    alone = bars(open_data(market()))["close"] / 100.0
    second = bars(open_data(market(instruments=PAIR)), instrument=1)["close"] / 60.0
    assert np.allclose(alone, second, rtol=2e-4, atol=0)


def test_the_users_own_tick_rounds_it() -> None:
    own = Instrument(symbol="X", tick=Fraction(1, 4), named=frozenset({"symbol", "tick"}))
    made = bars(open_data(market(instruments=(SourceSpec(instrument=own),))))
    assert made["close"][0] == 400
