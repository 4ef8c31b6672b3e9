"""`@host`: values of Python enter as a column, are allowed by name alone, and know no future."""

import sys
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import carry, run_checked
from quantdsl.backtest.signals import prepare_signals
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.backtest.verify import verify
from quantdsl.check import check_source
from quantdsl.errors import ConfigError, UnavailableError
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from quantdsl.live.creation import hold_hosted
from tests.backtest import host_models
from tests.std.universe import compiled, table, walks

HOSTS = ("tests.backtest.host_models",)
TEXT = """language 1

@host("tests.backtest.host_models:move")
indicator move(src: series[float], n: const int) -> float?:
    "How far src moved."

strategy Hosted:
    bars 1d
    param n = 3 in 1..9 step 1

    let moved = move(close, n)
    let ours  = close - close[3]
    let late  = moved[1]

    on bar:
        if flat and (moved ?? 0.0) > 1.0:
            buy(10 shares)
        elif long and (moved ?? 0.0) < -1.0:
            close_position()

    risk:
        max_gross = 100% of equity

    backtest:
        fees = 1bps
"""
PANEL = """language 1

@host("tests.backtest.host_models:move")
indicator move(src: series[float], n: const int) -> float?:
    "How far src moved."

@host("tests.backtest.host_models:ratio")
indicator ratio(x: series[float], y: series[float]) -> float?:
    "x / y."

strategy HostedPanel:
    bars 1d
    universe "ALL"

    let past  = move(close, 2)
    let ours  = close - close[2]
    let share = ratio(past, close)
    let rank  = xs.rank(share ?? 0.0)

    plot(xs.mean(rank))
"""


def of(function: str) -> Any:
    return compiled(TEXT.replace("host_models:move", f"host_models:{function}"))


def test_the_column_is_what_the_function_says() -> None:
    found = prepare_signals(compiled(TEXT), hosts=HOSTS).table()
    moved, ours, late = (found[name].to_pylist() for name in ("moved", "ours", "late"))
    assert moved[:3] == [None] * 3
    assert moved[3:] == pytest.approx(ours[3:], abs=1e-12)
    assert late[4:] == moved[3:-1]
    other = prepare_signals(compiled(TEXT), hosts=HOSTS, params={"n": 1}).table()
    assert other["moved"].null_count == 1


def test_a_backtest_sees_the_same_values() -> None:
    traced, _ = check_source(Source(TEXT, "hosted.qdsl"), trace=True)
    assert traced is not None
    seen = prepare(traced, hosts=HOSTS)
    carry(seen.run, seen.data)
    plots = [plot.name for plot in traced.strategy.plots]
    shown = seen.run.curve()[:, 2 + plots.index("moved")].copy().view(np.float64)
    found = prepare_signals(compiled(TEXT), hosts=HOSTS).table()
    mine = pc.fill_null(found["moved"], np.nan).to_numpy()
    assert np.array_equal(shown, mine, equal_nan=True)


def test_a_strategy_of_the_host_trades_as_the_same_one_in_the_language() -> None:
    own = TEXT.replace("move(close, n)", "close - close[n]").replace("(moved ?? 0.0)", "moved")
    host, plain = (
        run_checked(compiled(text), Path("x"), hosts=HOSTS) for text in (TEXT, own)
    )
    fills = host.of_kind(Kind.FILL)
    assert len(fills) > 10
    assert [tuple(fill)[:8] for fill in fills.tolist()] == [
        tuple(fill)[:8] for fill in plain.of_kind(Kind.FILL).tolist()
    ]


def test_on_a_universe_each_instrument_has_its_own_history() -> None:
    data = table(walks(7, 50))
    found = prepare_signals(compiled(PANEL), data=data, hosts=HOSTS).table()
    past, ours, share = (
        pc.fill_null(found[name], np.nan).to_numpy() for name in ("past", "ours", "share")
    )
    assert np.allclose(past, ours, rtol=0, atol=1e-12, equal_nan=True)
    assert np.count_nonzero(np.isnan(past)) == 2 * 7
    assert np.nanmax(np.abs(share)) > 0.0
    assert found["rank"].null_count == 0


@pytest.mark.parametrize("function", ["masked", "gaps"])
def test_what_a_function_leaves_out_is_missing(function: str) -> None:
    values = prepare_signals(of(function), hosts=HOSTS).table()["moved"]
    assert values[:2].to_pylist() == [None, None]
    assert values.null_count == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("raise ValueError('no such file')", "cannot be imported: ValueError: no such file\nhelp"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("import sys\nsys.exit(2)", "cannot be imported: SystemExit: 2"),
        ("import sys\nsys.nothing", "cannot be imported: AttributeError: module 'sys' has no"),
        ("import no_such_module", "cannot be imported: No module named 'no_such_module'"),
    ],
)
def test_a_module_that_fails_is_named(
    lines: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_models.py").write_text(lines)
    text = TEXT.replace("tests.backtest.host_models:move", "broken_models:move")
    with pytest.raises(ConfigError, match=message):
        prepare_signals(compiled(text), hosts=("broken_models",))


def test_nothing_runs_that_is_not_allowed() -> None:
    before = len(host_models.CALLS)
    for hosts in ((), ("tests.backtest",), ("tests.backtest.host_models:move",)):
        with pytest.raises(ConfigError, match=r":11: move\(close, n\) runs move of the Python "):
            prepare(compiled(TEXT), hosts=hosts)
    assert len(host_models.CALLS) == before
    unknown = compiled(TEXT.replace("tests.backtest.host_models:", "antigravity:"))
    with pytest.raises(ConfigError, match="add --host antigravity"):
        prepare_signals(unknown, hosts=HOSTS)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("ahead", r"looks into the future: of SYN1 at .*, and nan where the data end at"),
        ("whole", r"looks into the future: of SYN1 at 2022-01-0"),
        ("filled", r"looks into the future: of SYN1 at .*, and .* where other bars follow that of"),
        ("drawn", r"is not the same twice: of SYN1 at 2022-01-.*of the same data once more"),
        ("short", r"returned [\d,]+ values for [\d,]+ bars of SYN1"),
        ("broken", r"failed on SYN1: ValueError: no such window\nhelp: see .*host_models.py:\d+$"),
        ("leaves", "failed on SYN1: SystemExit: 0"),
        ("texts", "returned values that are no numbers for SYN1"),
        ("mixed", "returned values that are no numbers for SYN1"),
        ("complex_numbers", "returned values that are no numbers for SYN1"),
        ("moments", "returned values that are no numbers for SYN1"),
        ("missing", "has no 'missing'"),
        ("NO_FUNCTION", "is no function"),
    ],
)
def test_a_function_that_keeps_no_rule_is_refused(function: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(of(function), hosts=HOSTS)


def test_a_function_that_needs_its_window_is_no_look_into_the_future() -> None:
    found = prepare_signals(compiled(TEXT.replace(":move", ":smoothed")), hosts=HOSTS).table()
    assert found["moved"].null_count == 0


def says(monkeypatch: pytest.MonkeyPatch, value: object, kind: object, *, masked: bool) -> Any:
    """TEXT, where the function gives `value` for each bar: its first two perhaps masked."""

    def move(src: Any, n: int) -> Any:
        found = np.empty(len(src), kind)
        found[:] = value
        return np.ma.array(found, mask=np.arange(len(src)) < 2) if masked else found

    monkeypatch.setattr(host_models, "move", move)
    return compiled(TEXT)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1.5", "U3"),
        (np.datetime64(1, "s"), "M8[s]"),
        (np.timedelta64(1, "s"), "m8[s]"),
        (1 + 2j, complex),
        ("1.5", object),
        (np.datetime64(1, "s"), object),
        (np.timedelta64(1, "s"), object),
        (1 + 2j, object),
        (datetime(2024, 1, 1, tzinfo=UTC), object),
    ],
)
def test_what_is_no_number_is_refused_masked_and_as_an_object(
    value: object, kind: object, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = says(monkeypatch, value, kind, masked=masked)
    with pytest.raises(ConfigError, match="returned values that are no numbers for SYN1"):
        prepare_signals(checked, hosts=HOSTS)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2, np.int32),
        (1.5, np.float32),
        (True, bool),
        (np.int8(3), object),
        (np.True_, object),
        (Fraction(1, 2), object),
        (Decimal("0.25"), object),
    ],
)
def test_numbers_of_every_kind_are_values_where_no_mask_hides_them(
    value: Any, kind: object, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = says(monkeypatch, value, kind, masked=masked)
    found = prepare_signals(checked, hosts=HOSTS).table()["moved"]
    assert found[:2].to_pylist() == ([None] * 2 if masked else [float(value)] * 2)
    assert set(found[2:].to_pylist()) == {float(value)}


def test_what_a_mask_hides_among_objects_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def move(src: Any, n: int) -> Any:
        found = np.array(["none", "none", *src[2:].tolist()], object)
        return np.ma.array(found, mask=np.arange(len(src)) < 2)

    monkeypatch.setattr(host_models, "move", move)
    assert prepare_signals(compiled(TEXT), hosts=HOSTS).table()["moved"].null_count == 2


def test_a_module_that_is_not_there_is_one_message() -> None:
    text = TEXT.replace("tests.backtest.host_models:", "no_such_models:")
    with pytest.raises(ConfigError, match="the module no_such_models cannot be imported"):
        prepare(compiled(text), hosts=["no_such_models"])


def test_a_function_may_write_into_its_arguments() -> None:
    found = prepare_signals(of("writes"), hosts=HOSTS).table()
    assert set(found["moved"].to_pylist()) == {0.0}
    assert found["ours"].to_pylist()[5] != 0.0


def test_sweeps_proofs_and_live_sessions_refuse_it() -> None:
    checked = compiled(TEXT)
    with pytest.raises(UnavailableError, match="a sweep of a strategy with a '@host' indicator"):
        prepare_sweep(checked, Path("x"))
    with pytest.raises(UnavailableError, match="a proof of a strategy with a '@host' indicator"):
        verify(checked, lambda _: None, points=1, seed=1)
    with pytest.raises(UnavailableError, match="a session of a strategy with a '@host'"):
        hold_hosted(checked, "a session")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('@host("tests.backtest.host_models:move")', '@host("os")', "QD0219"),
        ('@host("tests.backtest.host_models:move")', '@host("os.system:a b")', "QD0219"),
        ("    on bar:", "    @critical_path\n    on bar:", "QD0219"),
        ("move(close, n)", "move(close)", "QD0308"),
        ("move(close, n)", "move(close, n, 1)", "QD0308"),
        ("move(close, n)", "move(close, close)", "QD0305"),
        ("move(close, n)", "move(3, n)", "QD0311"),
        ("    bars 1d", "    trades", "QD0216"),
        (
            "    risk:",
            '    test "x":\n        feed close = [1]\n        expect flat\n\n    risk:',
            "QD0216",
        ),
    ],
)
def test_what_the_checker_refuses(old: str, new: str, code: str) -> None:
    _, found = check_source(Source(TEXT.replace(old, new), "x.qdsl"))
    assert code in [one.code for one in found if one.severity == "error"]


def test_a_param_of_the_host_changes_the_orders() -> None:
    _, found = check_source(Source(TEXT, "x.qdsl"))
    assert "QD0704" not in [one.code for one in found]


def test_the_command_line_and_python_allow_it_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hosted.qdsl"
    file.write_text(TEXT, encoding="utf-8")
    assert cli.run(["backtest", str(file), "--out", str(tmp_path / "a")]) == 2
    assert "add --host tests.backtest.host_models" in capsys.readouterr().err
    assert cli.run(["explain", str(file), "--stage", "plan"]) == 2
    assert "a sweep of a strategy with a '@host' indicator is" in capsys.readouterr().err
    allowed = ["--host", *HOSTS]
    assert cli.run(["backtest", str(file), *allowed, "--out", str(tmp_path / "a")]) == 0
    allowed = ["--host", ",".join(("quantdsl", *HOSTS))]  # several at once, as in other lists
    assert cli.run(["check", "--causality", str(file), *allowed]) == 0
    assert "no signal changes" in capsys.readouterr().out
    file.write_text(TEXT.replace(":move", ":ahead"), encoding="utf-8")
    assert cli.run(["check", "--causality", str(file), *allowed]) == 2
    assert "looks into the future" in capsys.readouterr().err
    assert quantdsl.backtest(TEXT, hosts=HOSTS).metrics["trades"] > 0
    assert len(quantdsl.signals(TEXT, hosts=HOSTS)) > 0
