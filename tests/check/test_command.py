"""`quantdsl check --json` and `quantdsl explain`, as tools and readers meet them."""

import json

import pytest

from quantdsl import cli
from quantdsl.lang import codes
from tests.check.cases import PAIR, PROGRAMS

PLACE = {"line": int, "column": int}
FINDING = {
    "code": str, "severity": str, "message": str, "path": str, "start": dict, "end": dict,
    "note": str, "reason": str, "help": str, "labels": list, "edit": (dict, type(None)),
}


def checked(text, tmp_path, capsys):
    path = tmp_path / "strategy.qdsl"
    path.write_text(text)
    status = cli.run(["check", "--json", str(path)])
    return status, json.loads(capsys.readouterr().out)


def assert_shape(found, shape):
    assert set(found) == set(shape)
    for name, type_ in shape.items():
        assert isinstance(found[name], type_), name


def test_json_has_one_shape(tmp_path, capsys):
    status, document = checked(PROGRAMS["misspelt name"], tmp_path, capsys)
    assert status == 2
    assert set(document) == {"diagnostics"}
    (finding,) = document["diagnostics"]
    assert_shape(finding, FINDING)
    assert_shape(finding["start"], PLACE)
    assert_shape(finding["end"], PLACE)
    assert (finding["code"], finding["severity"]) == ("QD0201", "error")
    assert finding["start"] == {"line": 3, "column": 10}
    assert finding["edit"] == {"start": {"line": 3, "column": 10},
                               "end": {"line": 3, "column": 15}, "replacement": "close"}


def test_json_holds_labels(tmp_path, capsys):
    status, document = checked(PAIR + "    plot(y.close - x.close)\n", tmp_path, capsys)
    assert status == 2
    (finding,) = [one for one in document["diagnostics"] if one["severity"] == "error"]
    (label,) = finding["labels"]
    assert_shape(label, {"start": dict, "end": dict, "text": str})


def test_json_of_a_file_with_warnings_alone(tmp_path, capsys):
    status, document = checked(PROGRAMS["only sells"], tmp_path, capsys)
    assert status == 0
    assert [one["severity"] for one in document["diagnostics"]] == ["warning"]


def test_json_of_a_clean_file(tmp_path, capsys):
    import quantdsl.check.codes  # noqa: F401 (defines the pages)

    status, document = checked(codes.lookup("QD0401").mended, tmp_path, capsys)
    assert (status, document) == (0, {"diagnostics": []})


@pytest.mark.parametrize("family", ["QD02", "QD03", "QD04", "QD05", "QD06", "QD07", "QD08"])
def test_explain_lists_the_family_of_an_unknown_code(family, capsys):
    assert cli.run(["explain", f"{family}99"]) == 2
    listed = capsys.readouterr().err
    assert f"{family}01" in listed
    assert all(line.strip().startswith(family) for line in listed.splitlines()[2:])


def test_json_tells_what_only_the_finished_program_shows(capsys, tmp_path):
    path = tmp_path / "large.qdsl"
    path.write_text(
        "language 1\n\nstrategy S:\n    bars 5m\n    state r: ring[float, 1_000_000_000_000]\n\n"
        "    on bar:\n        r.push(close)\n        buy(1 share)\n"
    )
    assert cli.run(["check", "--json", str(path)]) == 2
    found = json.loads(capsys.readouterr().out)["diagnostics"][-1]
    assert found["code"] == "QD0611"
    assert "STATE_BYTES" in found["message"]
    assert found["start"] == {"line": 3, "column": 10}


TWO_CLOCKS = """\
strategy S:
    bars 1h
    bars 1d as daily
    let slow = ta.sma(daily.close, 50)
    let fast = ta.sma(close, 8)
    on bar when fast > slow:
        buy(100 shares)
    on bar(daily):
        close_position()
    risk:
        max_position = 900 shares
    backtest:
        fees = 1bps
"""


def test_warm_up_is_told_in_the_bars_of_its_clock(tmp_path, capsys):
    """50 bars of a day were told as 50 bars, of which a reader takes those of the finest clock."""
    path = tmp_path / "strategy.qdsl"
    path.write_text(TWO_CLOCKS)
    assert cli.run(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begins = [line.split(" from ")[1].split(" on")[0] for line in lines if " from " in line]
    assert begins == ["bar 50 of daily", "bar 8", "bar 8 and bar 50 of daily", "bar 1"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "language 1\n"])
def test_a_file_with_nothing_in_it_is_no_library(text, tmp_path, capsys):
    status, document = checked(text, tmp_path, capsys)
    assert status == 2
    assert [finding["code"] for finding in document["diagnostics"]] == ["QD0218"]


@pytest.mark.parametrize(
    ("bars", "called"),
    [("bars 1m", "1m"), ("bars 500 ticks", "500 ticks"), ("bars 1m as slow", "slow")],
)
def test_bars_beside_ticks_are_called_by_name_or_length(bars, called, tmp_path, capsys):
    """Those without a name were `bar 5 of  on`."""
    close = "slow.close" if "slow" in bars else "close"
    text = f"language 1\nstrategy A:\n    trades\n    {bars}\n    let s = ta.sma({close}, 5)\n"
    path = tmp_path / "strategy.qdsl"
    path.write_text(text)
    assert cli.run(["check", str(path)]) == 0
    assert f"let s   float, defined from bar 5 of {called} on\n" in capsys.readouterr().out
