"""std/talib_*.qdsl: TA-Lib's own results, warm-up, and what na and infinity do."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import quantdsl
from tests.std import talib_cases
from tests.std.harness import Bars, library, run
from tests.std.talib_cases import CASES, EXPECTED, Case
from tests.std.windows import assert_close, rolling, spoiled, walk

MADE = talib_cases.bars()
RESULTS = json.loads(EXPECTED.read_text(encoding="utf-8"))
EARLY = {("stochf", "k"), ("stochslow", "k"), ("stochrsi", "k"), ("kdj", "k"),
         ("macdext", "macd"), ("smi", "smi")}
"""Outputs that std gives as soon as they are defined, TA-Lib with the last one."""

def ours(case: Case) -> dict[str, np.ndarray]:
    """The outputs of std for a case."""
    table = {name: values / 100.0 for name, values in talib_cases.columns().items()}
    table["periods"] = talib_cases.periods()
    series = {name: table[column] for name, column in zip(case.series, case.inputs, strict=False)}
    given = {**(series or {"data": MADE}), **case.given}
    found = run(f"ta.{case.ours}", **given)
    return found if isinstance(found, dict) else {"": found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_equals_talib(case: Case) -> None:
    found = ours(case)
    for name in case.outputs:
        expected = RESULTS[f"{case.key} {name}".strip()]
        first = expected["first"]
        if (case.ours, name) not in EARLY:
            assert int(np.argmin(np.isnan(found[name]))) == first
        got = found[name][talib_cases.rows_of(first)]
        # TA-Lib's plain running sums leave about 1e-13 of the values that went through them.
        assert_close(got, np.array(expected["values"]), 1e-10, 1e-11)


def test_plus_di_of_one_bar_is_in_percent() -> None:
    """TA-Lib leaves the factor 100 out for a length of 1; std does not."""
    close, high = MADE.close, MADE.high
    span = np.maximum(high[1:], close[:-1]) - np.minimum(MADE.low[1:], close[:-1])
    up, down = high[1:] - high[:-1], MADE.low[:-1] - MADE.low[1:]
    want = 100 * np.where((up > down) & (up > 0), up, 0) / span
    assert_close(run("ta.plus_di", data=MADE, len=1)[1:], want)


def test_macdfix() -> None:
    x = walk(200)
    got = run("ta.macdfix", src=x, signal=9)

    def smooth(values: np.ndarray, length: int, weight: float) -> np.ndarray:
        out = np.full(len(values), np.nan)
        start = int(np.argmin(np.isnan(values))) + length - 1
        out[start] = values[start - length + 1 : start + 1].mean()
        for at in range(start + 1, len(values)):
            out[at] = out[at - 1] + weight * (values[at] - out[at - 1])
        return out

    line = smooth(x, 12, 0.15) - smooth(x, 26, 0.075)
    signal = smooth(line, 9, 0.2)
    assert_close(got["macd"], line, 1e-10, 1e-12)
    assert_close(got["signal"], signal, 1e-10, 1e-12)
    assert_close(got["hist"], line - signal, 1e-10, 1e-12)


def test_the_page_of_names_is_complete_and_every_name_exists() -> None:
    page = (Path(quantdsl.__file__).parent / "docs" / "talib.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]\w+) \| (.*?) \|", page, re.MULTILINE)
    names = [name for name, _ in rows if name != "TA"]
    assert len(names) == len(set(names)) == 201 - 61
    assert {case.theirs for case in CASES} <= set(names)
    for namespace, name in re.findall(r"`(t[as])\.(\w+)", page):
        assert name in library().namespace(namespace).names, name


def test_natr_is_the_average_true_range_in_percent() -> None:
    want = 100 * run("ta.atr", data=MADE, len=5) / (MADE.close / 100.0)
    assert_close(run("ta.natr", data=MADE, len=5), want)


def test_ages_of_extremes() -> None:
    x = spoiled(walk(300))
    oldest = rolling(lambda w: int(np.argmin(w[::-1])), 9, x)
    newest = rolling(lambda w: int(np.argmax(w[::-1])), 9, x)
    assert_close(run("ta.minindex", src=x, len=9), oldest)
    assert_close(run("ta.maxindex", src=x, len=9), newest)
    both = run("ta.minmaxindex", src=x, len=9)
    assert_close(both["min"], oldest)
    assert_close(both["max"], newest)


WINDOWED = {"midpoint": 8, "trima": 7, "avgdev": 8, "linearreg_slope": 8, "linearreg_angle": 8,
            "linearreg_intercept": 8, "tsf": 8}


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_is_na_while_a_bad_value_is_in_it_and_whole_again_after(name: str) -> None:
    length = WINDOWED[name]
    x = spoiled(walk(300))
    good = np.abs(x) <= 1e100
    clean = run(f"ta.{name}", src=np.where(good, x, 100.0), len=length)
    touched = np.convolve(~good, np.ones(length))[: len(x)] > 0
    want = np.where(touched, np.nan, clean)
    assert_close(run(f"ta.{name}", src=x, len=length), want, 1e-9, 1e-11)


@pytest.mark.parametrize(("name", "given"), [
    ("dema", {"len": 5}), ("tema", {"len": 5}), ("t3", {"len": 3}), ("apo", {}), ("ppo", {}),
])
def test_a_recursion_passes_over_a_bad_value(name: str, given: dict[str, int]) -> None:
    x = spoiled(walk(300))
    good = np.abs(x) <= 1e100
    want = np.full(len(x), np.nan)
    want[good] = run(f"ta.{name}", src=x[good], **given)
    assert_close(run(f"ta.{name}", src=x, **given), want)


@pytest.mark.parametrize(("name", "given"), [
    ("kama", {"len": 5}), ("trix", {"len": 4}), ("stochrsi", {}), ("macdfix", {}),
    ("macdext", {}), ("beta", {}),
])
def test_every_output_comes_back_after_bad_values(name: str, given: dict[str, int]) -> None:
    x = spoiled(walk(400))
    series = {"src": x, "benchmark": walk(400, 5)} if name == "beta" else {"src": x}
    found = run(f"ta.{name}", **series, **given)
    for values in (found.values() if isinstance(found, dict) else [found]):
        assert not np.isnan(values[-1])
        assert not np.isinf(values).any()


def test_bars_without_movement_divide_nothing_by_zero() -> None:
    flat = np.full(60, 10_000)
    bars = Bars(flat, flat, flat, flat, np.zeros(60))
    for name, want in (("bop", 0.0), ("imi", 50.0), ("ultosc", 0.0), ("plus_di", 0.0),
                       ("minus_di", 0.0), ("dx", 0.0), ("adx", 0.0), ("ad", 0.0), ("adosc", 0.0),
                       ("trange", 0.0), ("natr", 0.0)):
        given = {"len": 5} if name == "natr" else {}
        assert run(f"ta.{name}", data=bars, **given)[-1] == want, name
    assert math.isnan(run("ta.stochf", data=bars)["k"][-1])
