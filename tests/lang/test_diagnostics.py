"""Rendering, the JSON form, applied fixes, the registry and the limits table."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quantdsl.lang.syntax_codes  # noqa: F401 (importing them defines their codes)
from quantdsl import limits
from quantdsl.errors import InternalError, QuantDSLError
from quantdsl.lang import codes, spelling
from quantdsl.lang.diagnostics import (
    ERROR,
    WARNING,
    Diagnostic,
    Edit,
    Label,
    SourceError,
    apply_edits,
    to_builtins,
)
from quantdsl.lang.parser import parse
from quantdsl.lang.render import render, render_all
from quantdsl.lang.source import Source
from tests.counting import calls
from tests.lang.programs import damage, seeds, write_program

PAIRS = Source("\n" * 21 + "    let spread = y.close - x.close\n", "strategies/pairs.qdsl")


def place(text, part):
    return (text.index(part), text.index(part) + len(part))


def test_labels_hang_below_the_line():
    finding = Diagnostic(
        "QD0302", ERROR, "price of two instruments cannot be subtracted",
        place(PAIRS.text, "x.close"), "counted in ticks of XNYS:PEP (0.01)",
        (Label(place(PAIRS.text, "y.close"), "counted in ticks of XNYS:KO (0.01)"),),
        help="for a statistic use float(y.close) - float(x.close)",
    )
    assert render(finding, PAIRS) == """\
error QD0302: price of two instruments cannot be subtracted
  --> strategies/pairs.qdsl:22:28
   |
22 |     let spread = y.close - x.close
   |                  -------   ^^^^^^^ counted in ticks of XNYS:PEP (0.01)
   |                  |
   |                  counted in ticks of XNYS:KO (0.01)
   help: for a statistic use float(y.close) - float(x.close)"""


def test_lines_between_labels_are_left_out():
    source = Source("a\nb\nc\nd\n", "x.qdsl")
    finding = Diagnostic("QD0501", WARNING, "m", (6, 7), labels=(Label((0, 1), "here"),))
    assert render(finding, source) == """\
warning QD0501: m
 --> x.qdsl:4:1
  |
1 | a
  | - here
  ...
4 | d
  | ^"""


def test_wide_and_invisible_characters_keep_the_carets_in_place():
    source = Source('x = "\u4e2d\u6587\x1b" ?', "x")
    row, carets = render(Diagnostic("QD0102", ERROR, "m", (10, 11)), source).split("\n")[3:5]
    assert "\x1b" not in row
    assert carets.index("^") == row.index("?") + 2  # two characters are two columns wide


def test_many_findings_on_one_long_line_are_shown_fast():
    half, parsed = parse(Source("'" * 15_000)), parse(Source("'" * 30_000))
    _, half_calls = calls(lambda: render_all(half.diagnostics, half.source))
    shown, whole_calls = calls(lambda: render_all(parsed.diagnostics, parsed.source))
    assert len(shown) < 100_000
    assert whole_calls < 2.2 * half_calls


@pytest.mark.parametrize("at", [0, 50, 500, 999])
def test_long_lines_are_cropped_around_the_place(at):
    text = "x" * at + "?" + "x" * (999 - at)
    rows = render(Diagnostic("QD0102", ERROR, "m", (at, at + 1)), Source(text)).split("\n")
    assert all(len(row) <= 110 for row in rows)
    assert rows[3][rows[4].index("^")] == "?"


def test_colour_changes_nothing_but_colour():
    import re

    for code in codes.defined():
        parsed = parse(Source(code.wrong))
        for finding in parsed.diagnostics:
            coloured = render(finding, parsed.source, colour=True)
            assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(finding, parsed.source)


@given(seeds)
def test_any_finding_can_be_shown(seed):
    parsed = parse(Source(damage(write_program(seed), seed)))
    for finding in parsed.diagnostics:
        assert finding.message in render(finding, parsed.source)
        json.dumps(to_builtins(finding, parsed.source))


def test_json_places_are_lines_and_columns():
    parsed = parse(Source("strategy S:\n    parm n = 1\n", "s.qdsl"))
    found = to_builtins(parsed.diagnostics[0], parsed.source)
    assert found["path"] == "s.qdsl"
    assert found["start"] == {"line": 2, "column": 5}
    assert found["end"] == {"line": 2, "column": 9}
    assert found["edit"] == {
        "start": {"line": 2, "column": 5}, "end": {"line": 2, "column": 9}, "replacement": "param",
    }


def test_fixes_mend_the_file():
    text = "\ufeffstrategyy S:\n\tparm n = \u22121\n\ton bar\n\t\tif a && !b:\n\t\t\tx := 2 ** 3\n"
    for _ in range(5):
        parsed = parse(Source(text))
        text = apply_edits(text, [d.edit for d in parsed.diagnostics if d.edit])
    assert text == (
        "strategy S:\n    param n = -1\n    on bar:\n        if a and not b:\n"
        "            x = 2 ^ 3\n"
    )
    assert parse(Source(text)).ok


def test_overlapping_fixes_are_made_once():
    edits = [Edit((1, 4), "X"), Edit((2, 3), "Y"), Edit((5, 6), "Z")]
    assert apply_edits("abcdef", edits) == "aXeZ"


@given(st.text(max_size=20), st.data())
def test_one_fix_replaces_its_span(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert apply_edits(text, [Edit((start, end), "-")]) == text[:start] + "-" + text[end:]


def test_the_error_shows_its_findings():
    parsed = parse(Source("const a =\n", "s.qdsl"))
    error = SourceError(parsed.source, parsed.diagnostics)
    assert isinstance(error, QuantDSLError)
    assert "s.qdsl:1:10" in str(error)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("BTC", None), ("usd", "USD"), ("Usd", "USD"), ("minutes", "m"), ("shars", "share")],
)
def test_a_currency_is_not_guessed_from_other_letters(word, meant):
    assert spelling.nearest_unit(word) == meant


@pytest.mark.parametrize(
    ("word", "near"),
    [("strateg", "strategy"), ("tets", "test"), ("shares", None), ("fnn", "fn"), ("x", "fn")],
)
def test_nearest_word(word, near):
    assert spelling.nearest(word, ["strategy", "test", "fn"]) == (near if word != "x" else None)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_distance_is_a_distance(a, b):
    assert spelling.distance(a, b, 9) == spelling.distance(b, a, 9)
    assert (spelling.distance(a, b, 9) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= spelling.distance(a, b, 9) <= max(len(a), len(b))


def test_codes_are_defined_once():
    assert codes.lookup("QD0101") is not None
    with pytest.raises(InternalError):
        codes.define("QD0101", "again", "", "", "")
    with pytest.raises(InternalError):
        codes.define("QD1", "short", "", "", "")
    assert codes.lookup("qd0106") is codes.lookup("QD0106") is not None
    assert codes.lookup("QD0100") is None


def test_limits_know_their_names():
    table = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert table
    for name, limit in table.items():
        assert limit.name == name
        assert limit.unit
        assert limit.why


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "big.qdsl"
    path.write_bytes(b"# \xff\n" + b"a" * 100_000)
    parsed = parse(Source.read(path))
    assert "SOURCE_BYTES" in parsed.diagnostics[0].reason
    path.write_bytes(b"const a = 1 # \xff\n")
    assert [d.code for d in parse(Source.read(path)).diagnostics] == ["QD0101"]
