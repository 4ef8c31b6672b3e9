"""When handlers run, counted on the built-in market."""

import pytest

from quantdsl.backtest.run import backtest
from quantdsl.report import tables

SESSIONS = 501
COUNTING = """language 1

strategy Counting:
    "Sends an order that never fills each time the handler runs."

    bars 1h
    {session}

    {handler}:
        buy(1 share, limit = 1 USD)
        cancel_all()

    risk:
        max_order = 1 share

    backtest:
        fees = 0bps
"""


@pytest.mark.parametrize(
    ("handler", "session"),
    [
        ("on session_open", 'session "XNYS"'),
        ("on session_close", 'session "XNYS"'),
        ("at session_close - 5m", 'session "XNYS"'),
        ("at 15:45", 'session "XNYS"'),
    ],
)
def test_a_handler_of_the_session_runs_once_a_day(tmp_path, handler, session):
    path = tmp_path / "counting.qdsl"
    path.write_text(COUNTING.format(handler=handler, session=session), encoding="utf-8")
    assert tables.orders(backtest(path)).num_rows == SESSIONS
