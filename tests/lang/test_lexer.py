"""Tokens: what the source may hold, number rules, brackets and blocks, and linear time."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl import limits
from quantdsl.lang import lexer
from quantdsl.lang.lexer import lex
from quantdsl.lang.source import Source
from quantdsl.lang.tree import DEDENT, END, INDENT, NEWLINE


def tokens_of(text):
    diagnostics = []
    tokens = lex(Source(text), diagnostics)
    return tokens, diagnostics


def codes_of(text):
    return [d.code for d in tokens_of(text)[1]]


def kinds_of(text):
    return tokens_of(text)[0].kinds


@pytest.mark.parametrize(
    "character",
    [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
     *"\x00\x07\x0b\x0c\r\x1b\x7f\x85\u2028\u2029\ufeff\udcff"],
)
@pytest.mark.parametrize("form", ["const a = 1 {} \n", "const a = 1  # {} \n", 'const a = "{}"\n'])
def test_forbidden_characters_are_refused_even_in_comments(character, form):
    text = form.format(character)
    _, diagnostics = tokens_of(text)
    assert [d.code for d in diagnostics] == ["QD0101"]
    assert text[slice(*diagnostics[0].span)] == character


@pytest.mark.parametrize(
    "name", ["\ufb01", "\U0001d431", "\u0430", "\uff11\uff12", "\u00e9t\u00e9", "a\u200d", "\u2212"]
)
def test_names_and_numbers_are_ascii(name):
    assert set(codes_of(f"const {name} = 1\n")) == {"QD0102"}


def test_comments_and_strings_may_hold_any_visible_text():
    assert codes_of('const a = "\u00e9\u4e2d\U0001f600"  # \u00fc\u00df\n') == []


def test_windows_line_ends_are_line_ends():
    assert codes_of("const a = 1\r\n\r\n# c\r\nconst b = 2\r\n") == []
    assert kinds_of("a\r\n  b\r\nc") == kinds_of("a\n  b\nc")


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("1_000", []), ("0", []), ("007", []), ("1.5e-6", []), ("1e308", []), ("0e999", []),
        ("0.0e-999", []), ("5e-324", []), ("9" * 40, []),
        ("1e999", ["QD0104"]), ("1e-400", ["QD0104"]), ("-1e309", ["QD0104"]),
        ("0x10", ["QD0105"]), ("0b1", ["QD0105"]), ("1_", ["QD0105"]), ("1__0", ["QD0105"]),
        ("5x", ["QD0105"]), ("1.5.5x", ["QD0105"]), ("9" * 5_000, ["QD0109"]),
        ("24:00", ["QD0110"]), ("12:60", ["QD0110"]), ("23:59:59", []),
        ("9:30am", ["QD0110"]), ("12:05 PM", ["QD0110"]), ("9:30 amount", []), ("9am", ["QD0105"]),
    ],
)
def test_numbers(text, codes):
    assert codes_of(f"{text}\n") == codes


def test_numbers_are_never_infinite():
    for text in ("1e999", "1" + "0" * 400, "1e-400"):
        tokens, _ = tokens_of(f"{text}\n")
        assert float(tokens.texts[0]) == 0.0


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_every_double_is_read_exactly(value):
    tokens, diagnostics = tokens_of(f"{value!r}\n")
    assert not diagnostics
    assert float(tokens.texts[0]) == value


def test_ranges_are_not_decimal_points():
    assert tokens_of("5..50 0..<n 1.0..2.5\n")[0].texts[:9] == [
        "5", "..", "50", "0", "..<", "n", "1.0", "..", "2.5",
    ]


def test_blocks_are_balanced():
    assert kinds_of("a\n    b\n        c\nd\n") == [
        "name", NEWLINE, INDENT, "name", NEWLINE, INDENT, "name", NEWLINE, DEDENT, DEDENT, "name",
        NEWLINE, END,
    ]


def test_pipes_continue_the_line_over_comments():
    assert NEWLINE not in kinds_of("a\n    # why\n    |> f()\n")[:-2]


def test_an_unclosed_bracket_ends_at_the_next_statement():
    tokens, diagnostics = tokens_of("    let a = f(b[1\n    let c = 2\n")
    assert [d.code for d in diagnostics] == ["QD0106", "QD0106"]
    assert tokens.kinds.count("let") == 2
    assert tokens.kinds[: tokens.kinds.index(NEWLINE)][-2:] == ["]", ")"]


def test_a_bracket_may_span_lines_that_start_with_common_names():
    assert codes_of("let a = f(\n    state,\n    test = 1,\n    on,\n)\n") == []


@given(st.text(alphabet="ab1 .\n\t()[]{}\"'#:=|>&!;\\@%\u202e\ufb01\r", max_size=200))
def test_any_text_is_kept_whole(text):
    """Lossless, balanced, spans in order and inside the file."""
    tokens, diagnostics = tokens_of(text)
    assert tokens.text() == text[: tokens.ends[-1]]
    assert tokens.kinds[-1] == END
    assert tokens.kinds.count(INDENT) == tokens.kinds.count(DEDENT)
    for opener, closer in ("()", "[]", "{}"):
        assert tokens.kinds.count(opener) == tokens.kinds.count(closer)
    for diagnostic in diagnostics:
        start, end = diagnostic.span
        assert 0 <= start <= end <= len(text)


HOSTILE = [
    "a", "1", "(", ")", '"', "'", "#", " ", "\t", "\n", "\r", "\r\n", "\\", "1_", "1.", "1e", ":",
    "\u202e", "\ufb01", " \n", "# \n", "(\n", "a\n ", "1:", '"\\', "-", "..", "|>", "\n|>", "@",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear(unit):
    """A pattern that backtracked over its text would take 10^10 steps here, and time out."""
    text = unit * 100_000
    places = [match.span() for match in lexer._TOKEN.finditer(text)]
    assert all(end == start for (_, end), (start, _) in pairwise(places))
    assert places[-1][1] == len(text)
    tokens_of(text)


def test_deep_brackets_name_their_limit():
    _, diagnostics = tokens_of("(" * 100_000)
    assert "BRACKET_DEPTH" in diagnostics[0].reason
    assert len(diagnostics) <= limits.BRACKET_DEPTH + 1


def test_deep_blocks_name_their_limit():
    text = "".join(f"{' ' * i}if a:\n" for i in range(100))
    assert "BLOCK_DEPTH" in tokens_of(text)[1][0].reason


def test_long_names_name_their_limit():
    assert codes_of("a" * 64 + "\n") == []
    assert codes_of("a" * 65 + "\n") == ["QD0109"]


def test_random_bytes_are_never_fatal():
    rng = random.Random(1)
    for _ in range(200):
        text = rng.randbytes(300).decode("utf-8", errors="surrogateescape")
        tokens_of(text)
