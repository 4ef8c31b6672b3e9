"""The formatter: same tree, same comments, a fixed point, and the layout that the samples show."""

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given

from quantdsl.lang import ast
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.format import format_source
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from tests.counting import calls
from tests.lang.programs import programs

SPACED = {  # looser or tighter, never otherwise
    "a+b*c": "a + b * c",
    "- x ^ - 2": "-x ^ -2",
    "f ( a,b = 1 ) [ 2 ] . c": "f(a, b = 1)[2].c",
    "5 m + 3   ticks": "5m + 3 ticks",
    "1 % of x": "1% of x",
    "[ 1,2 ]": "[1, 2]",
    "not ( a ) and(b)": "not (a) and (b)",
    "0 .. < n": None,
    "0 ..<n - 1": "0..<n - 1",
    "a if(b) else - c": "a if (b) else -c",
    "x is  not na": "x is not na",
    "x|>f( )|>g(1)": "x |> f() |> g(1)",
    "a ??-1": "a ?? -1",
}
ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*ROOT.glob("quantdsl/std/*.qdsl"), *ROOT.glob("strategies/**/*.qdsl")])


def shape(node):
    """A tree without its places."""
    if isinstance(node, tuple):
        return tuple(map(shape, node))
    if isinstance(node, ast.Node):
        fields = (f for f in node.__struct_fields__ if not f.endswith("span"))
        return (type(node).__name__, *(shape(getattr(node, f)) for f in fields))
    return node


def comments(text):
    tokens = parse(Source(text, std=True)).tokens
    return [comment for index in range(len(tokens)) for comment in tokens.comments(index)]


def check(text):
    formatted = format_source(text)
    assert format_source(formatted) == formatted
    before = parse(Source(text, std=True)).file.items
    after = parse(Source(formatted, std=True)).file.items
    added = isinstance(after[0], ast.Language) and not (
        before and isinstance(before[0], ast.Language)
    )
    assert shape(after[added:]) == shape(before)
    assert comments(formatted) == comments(text)
    assert all(row == row.rstrip() for row in formatted.split("\n"))
    return formatted


@given(programs)
def test_same_tree_same_comments_and_a_fixed_point(text):
    check(text)


def test_samples_keep_their_meaning(sample):
    check(sample)


@pytest.mark.parametrize(("loose", "canonical"), SPACED.items())
def test_blanks(loose, canonical):
    text = f"language 1\nfn f() =   {loose}\n"
    if canonical is None:
        with pytest.raises(SourceError):
            format_source(text)
    else:
        assert check(text) == f"language 1\nfn f() = {canonical}\n"


def formatted(text):
    return check(dedent(text).lstrip("\n")).removeprefix("language 1\n\n")


def test_the_language_line_is_added_first():
    assert format_source("# why\nconst a = 1\n") == "language 1\n\n# why\nconst a = 1\n"
    assert format_source("") == "language 1\n"


def test_columns_are_aligned():
    text = """
strategy S:
    bars 1d as daily
    instrument "XNYS:KO" as y
    instrument "XNYS:PEP" as x

    param fast = 10 in 5..50 step 5
    param slow = 40 in 20..200 step 10
    param stop_k = 2.5 in 1.0..5.0 log 12
    param gross = 100_000 USD

    let a: int = 1
    let bc: float = 2
    let much_longer_name = 3

    let score = f(x)
      |> g()
    let weight = 2
    on bar:
        side = next
        entered = bar_index
        n += 1
        buy(value = 1, limit = 20)
    risk:
        max_gross = 120_000 USD
        max_order_rate_and_more = 3s -> flatten
        max_daily_loss = 1_500 USD -> flatten, halt
"""
    assert formatted(text) == """\
strategy S:
    bars 1d as daily
    instrument "XNYS:KO"  as y
    instrument "XNYS:PEP" as x

    param fast   = 10  in 5..50    step 5
    param slow   = 40  in 20..200  step 10
    param stop_k = 2.5 in 1.0..5.0 log 12
    param gross  = 100_000 USD

    let a: int = 1
    let bc: float = 2
    let much_longer_name = 3

    let score  = f(x)
        |> g()
    let weight = 2
    on bar:
        side    = next
        entered = bar_index
        n += 1
        buy(value = 1, limit = 20)
    risk:
        max_gross               = 120_000 USD
        max_order_rate_and_more = 3s        -> flatten
        max_daily_loss          = 1_500 USD -> flatten, halt
"""


def test_comments_keep_their_block():
    text = """
# the file
strategy S:   # the strategy


    # first
    on bar:
      # in the body
      if a:
        b()   # here
        cde()     # there
        # still in the branch
      # after the branch
    # in the strategy
# at the end
"""
    assert formatted(text) == """\
# the file
strategy S:  # the strategy
    # first
    on bar:
        # in the body
        if a:
            b()    # here
            cde()  # there
            # still in the branch
        # after the branch
    # in the strategy
# at the end
"""


def test_breaks_inside_brackets_are_the_writers():
    text = """
fn f(a: int,
  b: int) -> int:
  return g(
    a,   # first
    # alone
    b, h(1,
    2
    ),
   )
   |> k()
"""
    assert formatted(text) == """\
fn f(a: int,
     b: int) -> int:
    return g(
        a,  # first
        # alone
        b, h(1,
             2),
    )
        |> k()
"""


def test_a_row_that_is_too_wide_is_broken_at_a_comma():
    arguments = ", ".join(f"argument_{i} = g({i}, {i})" for i in range(8))
    rows = formatted(f"const a = f({arguments})\n").splitlines()
    assert all(len(row) <= 100 for row in rows)
    assert rows[0].endswith("g(3, 3),")
    assert rows[1].startswith("            argument_4")


@pytest.mark.parametrize(
    "text",
    [
        lambda count: f"const T = [{', '.join(['-1.5'] * 6 * count)}]\n",
        lambda count: "strategy S:\n" + "".join(
            f"    param p{i} = {i} in 0..9 step 1\n" for i in range(count)
        ),
    ],
    ids=["table", "section"],
)  # fmt: skip
def test_large_tables_and_long_sections_take_linear_work(text):
    _, half = calls(lambda: format_source(text(200)))
    formatted, whole = calls(lambda: format_source(text(400)))
    assert whole < 2.2 * half
    assert format_source(formatted) == formatted


def test_a_wrong_file_is_not_touched():
    with pytest.raises(SourceError, match="QD0113"):
        format_source("const a =\n")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_ships_is_in_canonical_form(path):
    text = path.read_text(encoding="utf-8")
    assert format_source(text) == text
