"""Interpreter, scalar code, SIMD code and the simulated GPU leave the same bits, lane by lane.

With and without columns, of every strategy that is here and of generated ones. The digest among
the results is of each order, fill and trade.
"""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import verify
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import (
    InterpretedRunner,
    Lanes,
    Target,
    compared,
    draw,
    targets,
    usual_plan,
)
from quantdsl.check import Checked, columns
from tests.backtest.programs import moody_strategy, strategy
from tests.backtest.test_lane_entry import checked_of, checked_text
from tests.strategies.headers import ON_BARS, ON_UNIVERSES

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "bench/strategies", ROOT / "tests/truth")
OTHERS = (path for folder in FOLDERS for path in folder.rglob("*.qdsl"))
FILES = sorted([*ON_BARS, *ON_UNIVERSES, *OTHERS])
GATED = """language 1

fn calm(price: float, size: float, position: float, equity: float) -> bool:
    return size * position >= 0.0 or abs(size) <= abs(position) + 40.0

strategy Gated:
    "Sends, changes and cancels more than its limits let pass."

    bars 1h

    param lots = 40 shares in 20 shares..80 shares step 20 shares

    state n = 0

    on bar:
        n += 1
        if n mod 3 == 0:
            cancel_all()
        buy(lots, limit = close - 1 tick)
        if n mod 5 < 2:
            short(lots, limit = close + (n mod 2) * 1 tick)

    risk:
        max_position    = 400 shares
        max_order_rate  = 3 / 2h
        max_cancel_rate = 2 / 3h -> alert("cancels")
        duplicate       = 90m
        max_executions  = 150
        check           = calm
"""
"""Every limit on repeats, and a check of one's own."""
WOKEN = """language 1

strategy Woken:
    "Sends orders of every kind, and changes them, while bars are under way."

    bars 30m
    session "XNYS", flat_by = 15:40

    param lots = 40 shares in 20 shares..80 shares step 20 shares
    param by   = 20 ticks in 10 ticks..40 ticks step 10 ticks

    at 10:10:
        buy(lots, stop = close + by, trail = by, tag = "up")
        short(lots, limit = close + by, take_profit = close - by, stop_loss = close + 4 * by)

    every 50m:
        if flat:
            buy(lots, trail = by)
        replace("up", stop = close + 10 ticks)

    at 13:20:
        if long:
            sell(lots, limit = close + by, oco = "out")
            sell(lots, trail = by, oco = "out")
        else:
            cover(lots)

    risk:
        max_daily_loss = 0.1% of equity -> flatten
"""
"""Orders that are sent inside bars."""
LEVERED = """language 1

strategy Levered:
    "Orders nothing, and asks after each bar what its positions are worth."

    bars 1d

    on bar:
        cancel_all()

    backtest:
        leverage = 2
"""
"""A loop over instruments in each turn, also where turns are made in strides."""
MOODY = """language 1

enum Mood: calm, hot, cold

strategy Moody:
    "Acts, or does not, in a branch that changes what it goes by."

    bars 1h

    param lots = 40 shares in 10 shares..90 shares step 10 shares

    state last = 0.0
    state mood = Mood.calm

    on bar when float(cash) > close:
        match mood:
            case calm:
                last = float(volume)
            case hot:
                short(lots)
            case cold:
                cancel_all()
        mood = Mood.hot if close > last else Mood.cold
        if close crosses below hl2:
            short(lots, limit = close * 0.99)
            close_position()
"""
"""A turn that is found to be no usual one in a branch that has changed something before."""

NEWS = """language 1

strategy News:
    "Counts what becomes of the orders of two instruments."

    instrument "SYN1" as y
    instrument "SYN2" as x
    bars 1h, sync = all

    param most = 3_000 USD in 1_000 USD..9_000 USD step 1_000 USD

    state fills = 0
    state refused = 0
    state paid = 0.0

    on bar:
        if fills mod 4 < 2 and refused mod 5 < 3:
            target(y, value = 2_000 USD)
            target(x, value = 9_000 USD)
        elif refused mod 5 < 4:
            target(y, value = 0 USD)
        else:
            refused += 1

    on fill:
        fills += 1
        paid += float(fill.fee)

    on order:
        if order.state == rejected and order.id > 2:
            refused += 1

    risk:
        max_notional = most
        max_drawdown = 5% -> flatten, halt

    backtest:
        fees = 1bps
"""
"""News of orders, whichever instrument they are of."""

POINTS, EVENTS = 4, 600
UNIVERSE_EVENTS = 2_400
"""Of 16 instruments: 126 days, by which each point that is drawn has traded."""
GENERATED, GENERATED_EVENTS = 12, 300
MOODY_SEEDS = [*range(4), 9]
"""The last was wrong once."""


def assert_one_hash(checked: Checked, n_events: int) -> None:
    arranged = arrange(checked)
    checked = arranged.sized(checked)
    points = draw(checked, arranged, POINTS, np.random.default_rng(1))
    every = materialised(arranged.data)
    events = np.concatenate([every[:n_events], every[-1:]])
    lanes = Lanes(checked, arranged, points, events)
    machine = targets(usual_plan(checked, n_events), lambda _: None)
    outcomes = compared(lanes, [Target("interpreter", InterpretedRunner()), *machine])
    assert len(outcomes) >= 4
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
    assert len({outcome.hash for outcome in outcomes}) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_strategy_here(path: Path) -> None:
    assert_one_hash(checked_of(path), UNIVERSE_EVENTS if path in ON_UNIVERSES else EVENTS)


def test_limits_on_repeats_and_an_own_check() -> None:
    assert_one_hash(checked_text(GATED), EVENTS)


def test_orders_inside_bars() -> None:
    assert_one_hash(checked_text(WOKEN), EVENTS)


def test_a_loop_inside_strides_of_rows() -> None:
    assert_one_hash(checked_text(LEVERED), EVENTS)


def test_news_of_several_instruments() -> None:
    assert_one_hash(checked_text(NEWS), EVENTS)


def test_a_turn_that_ends_within_a_branch() -> None:
    assert_one_hash(checked_text(MOODY), EVENTS)


@pytest.mark.parametrize("seed", range(GENERATED))
def test_generated_strategies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # all that can be hoisted is
        monkeypatch.setattr(verify, "LOAD_GPU", 0)
        monkeypatch.setattr(columns, "STORE", 0)
    assert_one_hash(checked_text(strategy(seed)), GENERATED_EVENTS)


@pytest.mark.parametrize("seed", MOODY_SEEDS)
def test_generated_strategies_of_moods(seed: int) -> None:
    assert_one_hash(checked_text(moody_strategy(seed)), GENERATED_EVENTS)
