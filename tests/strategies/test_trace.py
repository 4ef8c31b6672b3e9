"""A trace tells the story of a trade: what was seen, which branch was taken, what came of it."""

import pytest

from quantdsl.backtest.tracing import trace
from quantdsl.errors import ConfigError
from tests.strategies import headers

TRAIL = headers.ROOT / "strategies" / "supertrend_trail.qdsl"
PAIR = headers.ROOT / "strategies" / "pairs_z.qdsl"


def test_a_trade_from_signal_to_exit():
    told = "\n".join(trace(TRAIL, "2022-01-07T19:15..2022-01-07T21:00"))
    story = (
        "up = 1, calm = 1",
        ": yes  if flat and calm and up and not up[1]:",
        "order 1: +308, line",
        "order 2: exit, line",
        "order 1 fills: +308 at 97.22, position +308",
        "order 2 ends: flattened",
        "order 3: -308, line",
        "closed: +308 from 97.22 to 97.15, profit -22.76",
        "order 3 fills: -308 at 97.15, position +0",
    )
    places = [told.find(part) for part in story]
    assert -1 not in places
    assert places == sorted(places)


def test_a_window_that_ends_before_it_begins_is_refused():
    with pytest.raises(ConfigError, match="its end lies before its beginning"):
        next(trace(TRAIL, "2022-01-08..2022-01-07"))


def test_each_leg_is_told_with_its_instrument():
    told = "\n".join(trace(PAIR, "2022-01-13..2022-01-21"))
    assert "XNYS:KO" in told
    assert "XNYS:PEP" in told
