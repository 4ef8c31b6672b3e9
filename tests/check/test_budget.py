"""What a strategy may cost is counted as code is made of it."""

import pytest

from quantdsl.check import Checked, check_source
from quantdsl.errors import LimitError
from quantdsl.lang.source import Source

LIMITED = """\
language 1

strategy S:
    book depth = 5
    trades

    on book when not pending:
        atomic:
            buy(2 lots, limit = bid - 1 tick, post_only = true)
            short(2 lots, limit = ask + 1 tick, post_only = true, tag = "ice")

    on trade:
        replace("ice", limit = bid)

    on fill:
        flatten()

    every 250ms:
        quote(bid = bid, bid_qty = 1 lot, ask = ask, ask_qty = 1 lot, post_only = true)

    on stale(book):
        cancel_all()

    risk:
        max_position    = 20 lots -> flatten
        max_order       = 10 lots
        max_order_rate  = 5 / 100ms -> cancel_all
        max_cancel_rate = 10 / 1s
        max_data_age    = 100ms
        price_band      = 10bps
        duplicate       = 5ms
        max_daily_loss  = 50 USD -> flatten, halt

    backtest:
        fees = 2bps
"""


def checked(text: str) -> Checked:
    """The strategy of a text without mistakes."""
    made, told = check_source(Source(text, "example.qdsl"))
    assert made is not None, told
    return made


def test_what_std_does_rarely_counts_once_however_often_it_is_called():
    assert checked(LIMITED).module().funcs


def test_a_chain_of_functions_counts_each_of_its_calls():
    fns = ["fn f0(x: float) -> float:\n    return x * x + 1.0\n"]
    fns += [
        f"fn f{n}(x: float) -> float:\n    return f{n - 1}(x) + f{n - 1}(x + 1.0)\n"
        for n in range(1, 20)
    ]
    text = "language 1\n\n{}\nstrategy S:\n    bars 5m\n    on bar:\n        if f19(1.0) > 0.0:\n{}"
    made = checked(text.format("\n".join(fns), "            buy(1 share)\n"))
    with pytest.raises(LimitError, match="an equation counts once, a fn at each of its calls"):
        made.module()


def test_the_state_of_a_universe_has_a_limit_of_its_own():
    text = (
        'language 1\n\nstrategy S:\n    bars 1d\n    universe "ALL"\n'
        "    let a = close[100_000] - close\n    plot(xs.mean(float(a)))\n"
    )
    whole = checked(text)
    assert whole.sized(100).module().funcs  # 105 MB, which is too much for one instrument
    with pytest.raises(LimitError, match=r"UNIVERSE_BYTES \(268,435,456 bytes\)\n  line 6: "):
        whole.sized(1_000).module()
