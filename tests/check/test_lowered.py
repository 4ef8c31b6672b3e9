"""Values below a param's declaration: indices and windows are proven for them too, or refused."""

from pathlib import Path

import pytest

from quantdsl.backtest import values
from quantdsl.backtest.testing import run_tests
from quantdsl.check import Checked, compile_file
from quantdsl.errors import ConfigError
from quantdsl.lang.diagnostics import SourceError

TEXT = """language 1

strategy Looks:
    bars 5m
    param n = 10{range}
    let x = {equation}
    on bar:
        if flat and x > 0.0:
            buy(1 share)
    backtest:
        fees = 1bps
    risk:
        max_notional = 25% of equity
    test "a short feed":
        set n = {set}
        feed close = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
            range = 0.5
        expect abs(x - {value}) < 0.001
"""
RANGE = " in 5..20"


def written(tmp_path: Path, equation: str, set_: str, value: str, range_: str = RANGE) -> Path:
    path = tmp_path / "looks.qdsl"
    text = TEXT.format(range=range_, equation=equation, set=set_, value=value)
    path.write_text(text.replace("],\n            range", "], range"))
    return path


def compiled(tmp_path: Path, equation: str, range_: str = "") -> Checked:
    """Without a range, and a test that sets what the default is."""
    return compile_file(written(tmp_path, equation, "10", "0.0", range_))


@pytest.mark.parametrize(
    ("equation", "set_", "code", "column"),
    [
        ("close[n - 5]", "3", "QD0401", 19),
        ("ta.sma(close, n - 3)", "3", "QD0603", 27),
        ("ta.sma(close[n - 4], 2)", "2", "QD0401", 26),
    ],
)
def test_a_test_that_sets_a_param_too_low_is_refused_at_the_line_of_the_index(
    tmp_path: Path, equation: str, set_: str, code: str, column: int
) -> None:
    """It read whatever lay before the history, and said nothing."""
    with pytest.raises(SourceError) as raised:
        compile_file(written(tmp_path, equation, set_, "0.0"))
    [found] = raised.value.diagnostics
    position = raised.value.source.position(found.span[0])
    assert (found.code, position.line, position.column) == (code, 6, column)
    [label] = found.labels
    assert label.text == "n is lower here than declared"
    assert raised.value.source.position(label.span[0]).line == 15


@pytest.mark.parametrize(
    ("equation", "set_", "value"),
    [
        ("close[n - 1]", "3", "26.0"),
        ("close[20 - n]", "3", "11.0"),  # its history is deeper than the range alone needs
        ("ta.sma(close, n)", "3", "27.0"),
        ("ta.sma(close, 21 - n)", "3", "19.5"),
    ],
)
def test_what_is_proven_for_the_value_of_a_test_has_the_memory_for_it(
    tmp_path: Path, equation: str, set_: str, value: str
) -> None:
    [outcome] = run_tests(written(tmp_path, equation, set_, value))
    assert outcome.passed, outcome.message


def test_a_value_below_what_the_tests_set_is_outside_of_the_range_elsewhere(tmp_path: Path) -> None:
    params = compile_file(written(tmp_path, "close[n - 1]", "3", "0.0")).strategy.params
    assert values.chosen(params, {"n": "3"}, below=True) == {"n": 3}
    with pytest.raises(ConfigError, match=r"n = 3 lies outside its range 5\.\.20"):
        values.chosen(params, {"n": "3"})
    with pytest.raises(ConfigError, match=r"outside its range 3\.\.20"):
        values.chosen(params, {"n": "2"}, below=True)


def test_a_param_without_a_range_is_lowered_where_that_is_proven(tmp_path: Path) -> None:
    params = compiled(tmp_path, "close[n - 1]").strategy.params
    assert values.chosen(params, {"n": "1"}) == {"n": 1}
    with pytest.raises(ConfigError, match="at least 1 and at most its default 10; declare one"):
        values.chosen(params, {"n": "0"})


@pytest.mark.parametrize("equation", ["close[n - 5]", "ta.sma(close, n - 3)"])
def test_a_param_without_a_range_is_not_lowered_where_it_is_not(
    tmp_path: Path, equation: str
) -> None:
    """`--set n=3` was run with a negative index, or a window of no value."""
    params = compiled(tmp_path, equation).strategy.params
    assert values.chosen(params, {"n": "10"}) == {"n": 10}
    with pytest.raises(ConfigError, match="n = 3: line 6 is proven for 10; declare one: param n ="):
        values.chosen(params, {"n": "3"})


def test_errors_of_another_kind_are_told_once_and_without_a_label(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        compile_file(written(tmp_path, "clos[n - 1]", "3", "0.0"))
    [found] = raised.value.diagnostics
    assert (found.code, found.labels) == ("QD0201", ())
