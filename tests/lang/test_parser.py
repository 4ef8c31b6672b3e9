"""The tree of what is right, and the manners of the parser with what is wrong."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl import limits
from quantdsl.lang import ast
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from tests.lang.programs import damage, programs, seeds, write_program


def parsed(text):
    return parse(Source(dedent(text)))


def expression(text):
    """The expression as nested tuples: operators first, as in Lisp."""
    result = parse(Source(f"const a = {text}\n"))
    assert result.ok, result.diagnostics
    return lisp(result.file.items[0].value)


def lisp(node):
    match node:
        case ast.Num(text=text, unit=unit):
            return text + (unit or "")
        case ast.Name(id=name):
            return name
        case ast.Bool(value=value):
            return value
        case ast.Na():
            return "na"
        case ast.Str(value=value):
            return repr(value)
        case ast.Time(seconds=seconds):
            return seconds
        case ast.Unary(op=op, operand=operand):
            return (op, lisp(operand))
        case ast.Binary(op=op, left=left, right=right):
            return (op, lisp(left), lisp(right))
        case ast.Compare(operands=operands, ops=ops):
            return (*ops, *map(lisp, operands))
        case ast.Crosses(left=left, direction=direction, right=right):
            return (f"crosses {direction}", lisp(left), lisp(right))
        case ast.IsNa(value=value, negated=negated):
            return ("is not na" if negated else "is na", lisp(value))
        case ast.Cond(then=then, cond=cond, otherwise=otherwise):
            return ("if", lisp(cond), lisp(then), lisp(otherwise))
        case ast.Range(low=low, high=high, inclusive=inclusive):
            return (".." if inclusive else "..<", lisp(low), lisp(high))
        case ast.Pipe(value=value, call=call):
            return ("|>", lisp(value), lisp(call))
        case ast.Call(func=func, args=args):
            return ("call", lisp(func), *((a.name, lisp(a.value)) for a in args))
        case ast.Index(value=value, index=index):
            return ("[]", lisp(value), lisp(index))
        case ast.Attr(value=value, name=name):
            return (".", lisp(value), name)
        case ast.Array(items=items):
            return ("array", *map(lisp, items))
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-x ^ 2", ("-", ("^", "x", "2"))),
        ("2 ^ -x ^ 3", ("^", "2", ("-", ("^", "x", "3")))),
        ("a - b - c", ("-", ("-", "a", "b"), "c")),
        ("1% of equity / k", ("/", ("of", "1%", "equity"), "k")),
        ("hl ?? 120 bars + 1", ("??", "hl", ("+", "120bars", "1"))),
        ("3 * (a ?? b)", ("*", "3", ("??", "a", "b"))),
        ("not a and b or c", ("or", ("and", ("not", "a"), "b"), "c")),
        ("20 < x < 80", ("<", "<", "20", "x", "80")),
        ("fc ?? 0.0 > 0.0", (">", ("??", "fc", "0.0"), "0.0")),
        ("f crosses above s and up", ("and", ("crosses above", "f", "s"), "up")),
        ("x is not na and y is na", ("and", ("is not na", "x"), ("is na", "y"))),
        ("a if c else b if d else e", ("if", "c", "a", ("if", "d", "b", "e"))),
        ("0..<r.len - pat", ("..<", "0", ("-", (".", "r", "len"), "pat"))),
        ("5..50", ("..", "5", "50")),
        ("x |> f(1) |> g(k = 2)",
         ("|>", ("|>", "x", ("call", "f", (None, "1"))), ("call", "g", ("k", "2")))),
        ("order.state.of[1](2)", ("call", ("[]", (".", (".", "order", "state"), "of"), "1"),
                                  (None, "2"))),
        ("session_close - 5m", ("-", "session_close", "5m")),
        ("1_000 USD", "1000USD"),
        ("15:50", 15 * 3600 + 50 * 60),
        ("09:30:15", 9 * 3600 + 30 * 60 + 15),
        (r'"a\n\"b\\"', repr('a\n"b\\')),
        ("[1, -2, [true, na],]", ("array", "1", ("-", "2"), ("array", True, "na"))),
        ("max(a, b,)", ("call", "max", (None, "a"), (None, "b"))),
    ],
)
def test_expressions(text, tree):
    assert expression(text) == tree


def test_param_reads_domain_step_and_log():
    strategy = parsed("""\
        strategy S:
            param a = 10 in 5..50 step 5
            param b = 0.1 in 0.01..0.5 log 12
            param c = "x" in {"x", "y"}
            param d: int = 3
        """).file.items[0]
    a, b, c, d = strategy.items
    assert (lisp(a.domain), lisp(a.step)) == (("..", "5", "50"), "5")
    assert (b.log, b.step) == ("12", None)
    assert [item.value for item in c.domain] == ["x", "y"]
    assert (d.type.name, d.domain) == ("int", None)


def test_contextual_words_stay_names():
    result = parsed("""\
        fn f(inout state: Engine, risk: float, inout: int) -> Fill:
            match.fill(state)
            state = risk
            test.count += max(log(step), 1)
            match state.kind:
                case case:
                    return risk
        strategy S:
            bars 5m
            let book_mid = book.microprice()
            let on = 3
            book.note(on)
        """)
    assert result.ok, result.diagnostics
    fn, strategy = result.file.items
    assert [p.inout for p in fn.params] == [True, False, False]
    kinds = [type(s).__name__ for s in fn.body.body]
    assert kinds == ["ExprStmt", "Assign", "Assign", "Match"]
    assert isinstance(strategy.items[-1], ast.ExprStmt)


def test_enum_members_may_stand_in_a_block():
    enum = parsed("enum Reject:\n    none, price,\n    size\n").file.items[0]
    assert [m.id for m in enum.members] == ["none", "price", "size"]


def test_spans_slice_the_source():
    text = 'strategy S:\n    let gap = close - close[-1]  # "\u00fc"\n'
    let = parse(Source(text)).file.items[0].items[0]
    assert text[slice(*let.span)] == "let gap = close - close[-1]"
    assert text[slice(*let.value.right.index.span)] == "-1"
    assert text[slice(*let.value.op_span)] == "-"


# ---- recovery -------------------------------------------------------------------------------


def test_a_file_that_is_no_text_costs_one_message():
    (found,) = parse(Source("strategy\udcff\udcfe S\0:\x01\x02\n\0\0\n")).diagnostics
    assert found.code == "QD0101"
    assert found.span == (12, 13)


def test_a_bad_header_keeps_its_body():
    result = parsed("""\
        strategy S:
            on bar:
                if x = = 3:
                    let a = 1
                    buy(1 +)
                sell(2 share)
        """)
    on = result.file.items[0].items[0]
    branch = on.body.body[0]
    assert isinstance(branch, ast.If)
    assert [type(s) for s in branch.branches[0][1].body] == [ast.Let, ast.ExprStmt]
    assert len(result.diagnostics) == 2
    assert len(on.body.body) == 2


def test_a_bad_value_keeps_its_name():
    let = parsed("strategy S:\n    let x = 3 +\n").file.items[0].items[0]
    assert (let.name.id, type(let.value)) == ("x", ast.Bad)


def test_each_bad_argument_is_reported():
    result = parsed("const a = f(1 +, 2, b c, [3 *, 4], x)\n")
    assert [d.code for d in result.diagnostics] == ["QD0113", "QD0114", "QD0113"]
    assert len(result.file.items[0].value.args) == 5


def test_a_misspelt_word_is_read_as_the_right_one():
    result = parsed("strategyy S:\n    parm n = 1\n    onn bar:\n        x = \n")
    assert [d.code for d in result.diagnostics] == ["QD0121", "QD0121", "QD0121", "QD0113"]
    assert isinstance(result.file.items[0], ast.Strategy)


def test_a_body_that_is_not_indented_costs_one_message():
    result = parsed("""\
        strategy S:
            on bar:
            if long:
                close_position()
            buy(1)
            risk:
                max_order = 1
        """)
    assert [d.code for d in result.diagnostics] == ["QD0119"]
    assert isinstance(result.file.items[0].items[-1], ast.Block)


def test_a_misspelt_block_has_the_right_kind():
    strategy = parsed("strategy S:\n    risc:\n        max_order = 1\n").file.items[0]
    assert strategy.items[0].kind == "risk"


def test_an_unclosed_bracket_costs_one_message():
    result = parsed("""\
        strategy S:
            let a = ta.sma(close, 20
            let b = 3
            on bar:
                buy(value = (1% of equity
            risk:
                max_gross = 3
        """)
    assert [d.code for d in result.diagnostics] == ["QD0106"] * 3
    assert len(result.file.items[0].items) == 4


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("const a = " + "(" * 100_000, "SOURCE_BYTES"),
        ("const a = " + "(" * 10_000 + "\n", "BRACKET_DEPTH"),
        ("const a = " + "-" * 50_000 + "1\n", "EXPRESSION_DEPTH"),
        ("const a = " + "not " * 10_000 + "b\n", "EXPRESSION_DEPTH"),
        ("const a = " + "2 ^ " * 10_000 + "2\n", "EXPRESSION_DEPTH"),
        ("const a = " + "1 if b else " * 5_000 + "2\n", "EXPRESSION_DEPTH"),
        ("const a = " + " + ".join(["x"] * 5_000) + "\n", "EXPRESSION_DEPTH"),
        ("const a = x" + ".y" * 10_000 + "\n", "EXPRESSION_DEPTH"),
        ("const a = x" + "[0]" * 10_000 + "\n", "EXPRESSION_DEPTH"),
        ("const a = " + "a or b and not c < d .. e ?? f + g * -h ^ (" * 60 + "1\n",
         "EXPRESSION_DEPTH"),
        ("fn f():\n" + "".join(" " * i + "if a:\n" for i in range(1, 200)), "BLOCK_DEPTH"),
    ],
)
def test_compile_bombs_name_their_limit(text, limit):
    assert any(limit in d.reason for d in parse(Source(text)).diagnostics)


def test_long_chains_of_branches_do_not_nest():
    branches = "".join(f"    else if a == {i}:\n        b()\n" for i in range(1_000))
    result = parse(Source("fn f():\n    if a:\n        b()\n" + branches, std=True))
    assert len(result.file.items[0].body.body[0].branches) == 1_001
    assert len(result.diagnostics) == limits.DIAGNOSTICS


def test_wide_tables_are_no_depth():
    assert parse(Source(f"const T = [{', '.join(['-1.5'] * 4_000)}]\n")).ok


# ---- any text -------------------------------------------------------------------------------


def check_manners(text):
    """Never raises; every span lies inside the file and its children inside it."""
    result = parse(Source(text))
    for diagnostic in result.diagnostics:
        places = [diagnostic.span, *(label.span for label in diagnostic.labels)]
        if diagnostic.edit is not None:
            places.append(diagnostic.edit.span)
        assert all(0 <= start <= end <= len(text) for start, end in places)
        assert diagnostic.message
        assert diagnostic.help or diagnostic.edit is None
    assert len(result.diagnostics) <= limits.DIAGNOSTICS
    check_spans(result.file, (0, len(text)))


def check_spans(node, outer):
    if isinstance(node, tuple):
        for child in node:
            check_spans(child, outer)
    elif isinstance(node, ast.Node) and node.span[0] < node.span[1]:  # the empty stand for nothing
        assert outer[0] <= node.span[0] <= node.span[1] <= outer[1], (node, outer)
        for field in node.__struct_fields__:
            if field != "annotations" and not field.endswith("span"):
                check_spans(getattr(node, field), node.span)


@given(seeds)
def test_damaged_programs_are_handled_politely(seed):
    check_manners(damage(write_program(seed), seed))


@given(programs, st.data())
def test_cut_programs_are_handled_politely(text, data):
    start = data.draw(st.integers(0, len(text)))
    check_manners(text[: data.draw(st.integers(0, start))] + text[start:])


@given(st.text(max_size=300))
def test_any_text_is_handled_politely(text):
    check_manners(text)


@given(st.lists(st.sampled_from(
    ["let", "if", "x", "=", ":", "\n", "\n    ", "\n        ", "(", ")", "[", "]", "1", "5m", "@",
     "on", "bar", "strategy", "risk", "fn", "->", "|>", "..", "for", "in", "else", "match", "case",
     '"s"', ",", "-", "not", "test", "expect", "enum", "struct", "param", "step", "{", "}", "na"]
), max_size=60).map(" ".join))
def test_any_tokens_are_handled_politely(text):
    check_manners(text)


def test_damaged_samples_are_handled_politely(sample):
    for seed in range(10):
        check_manners(damage(sample, seed))
