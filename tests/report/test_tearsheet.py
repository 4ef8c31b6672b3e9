"""The page: complete in itself, safe with hostile texts, and alive in a real browser."""

import base64
import json
import re

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.report.chart_data import CANDLES_MAX, STRETCHES, chart_data, thin, thin_rows
from quantdsl.report.metrics import evaluate
from quantdsl.report.tearsheet import page
from tests.report.browser import assert_closed, drawn, needs_browser
from tests.report.synthetic import synthetic_run

RUN = synthetic_run(15)
HOSTILE = "</script><script>alert(1)</script>\"'&<!--"


def page_of(run):
    return page(run, evaluate(run))


def floats(packed: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), kind)


def test_nothing_is_loaded_from_anywhere():
    text = page_of(RUN)
    assert_closed(text)
    assert len(text.encode()) < 600_000


def test_the_chart_ends_at_the_equity_of_the_figures():
    curve = chart_data(RUN)["equity"]
    assert floats(curve["equity"], "<f8")[-1] == RUN.money(RUN.curve_equity)[-1]


def test_texts_of_strategy_and_data_are_escaped():
    plots = tuple(replace(plot, name=HOSTILE, color=HOSTILE) for plot in RUN.plots)
    hostile = replace(
        RUN,
        strategy=HOSTILE,
        source_text=HOSTILE,
        data_name=HOSTILE,
        params={HOSTILE: HOSTILE},
        notes=(HOSTILE,),
        warnings=(HOSTILE,),
        reasons={3: HOSTILE},
        plots=plots,
        instruments=(msgspec.structs.replace(RUN.instruments[0], symbol=HOSTILE),),
        settings=tuple(replace(s, name=HOSTILE, value=HOSTILE) for s in RUN.settings),
    )
    text = page_of(hostile)
    assert "<script>alert" not in text
    assert text.count("</script>") == page_of(RUN).count("</script>") == 3
    data = re.search(r'id="run">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["price"]["plots"][0]["name"] == HOSTILE


def test_a_notebook_shows_the_page_in_a_frame():
    frame = RUN._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count("<") == 2


def test_a_thinned_line_keeps_its_extremes_and_its_end():
    rng = np.random.default_rng(1)
    values = np.cumsum(rng.normal(size=100_000))
    kept = thin(values)
    assert len(kept) == len(thin_rows(len(values))) == 2 * STRETCHES + 1
    assert kept.min() == values.min()
    assert kept.max() == values.max()
    assert kept[-1] == values[-1]
    assert np.ptp(np.diff(thin_rows(len(values))[:-1])) == 0
    short = values[:100]
    assert np.array_equal(thin(short), short)


def test_many_bars_become_candles_of_equal_numbers_of_bars():
    price = chart_data(RUN)["price"]
    assert price["bars_each"] == 1
    assert len(floats(price["time"], "<f8")) == len(RUN.bars)
    k = -(-3 * CANDLES_MAX // len(RUN.bars))
    bars = np.concatenate([RUN.bars] * k)
    step = 300_000_000_000
    bars["ts_recv"] = np.arange(len(bars)) * step
    bars["ts_event"] = bars["ts_recv"] + step
    long = replace(
        RUN, bars=bars, curve_ts=bars["ts_event"], curve_equity=np.zeros(len(bars), int), plots=()
    )
    price = chart_data(long)["price"]
    assert 3 <= price["bars_each"] <= 4
    candles = floats(price["high"])
    assert len(candles) <= CANDLES_MAX
    assert candles.max() == np.float32(bars["high"].max() / 100)
    assert floats(price["close"])[-1] == np.float32(bars["close"][-1] / 100)


def test_of_bars_within_a_second_the_last_is_drawn():
    bars = RUN.bars.copy()
    bars["ts_recv"] = np.arange(len(bars)) * 250_000_000
    price = chart_data(replace(RUN, bars=bars))["price"]
    assert np.array_equal(floats(price["time"], "<f8"), np.arange(-(-len(bars) // 4)))
    assert floats(price["close"])[0] == np.float32(bars["close"][3] / 100)


def test_plots_far_from_the_price_get_their_own_pane():
    rsi = replace(RUN.plots[0], name="rsi", values=np.full(len(RUN.bars), 50.0))
    run = replace(RUN, plots=(RUN.plots[0], rsi))
    assert [plot["on_price"] for plot in chart_data(run)["price"]["plots"]] == [True, False]


def test_an_empty_run_has_a_page_that_says_why():
    empty = synthetic_run(0)
    silent = {**empty.accumulators, "orders": 0, "orders_rejected": 0}
    reasons = ("no bar lies in the session",)
    run = replace(empty, accumulators=silent, no_trade_reasons=reasons)
    assert "Nothing was traded: no bar lies in the session." in page_of(run)


@needs_browser
@pytest.mark.parametrize("days", [15, 0])
def test_a_browser_draws_it_without_a_complaint(days, tmp_path):
    run = synthetic_run(days)
    found = drawn(page_of(run), tmp_path)
    assert ("<canvas" in found) == (days > 0)
    assert ("page 1 of" in found) == (days > 0)
