"""Error messages are product: each is shown here as the user sees it, and reviewed in the diff."""

from textwrap import dedent

import pytest

from quantdsl.lang import codes, syntax_codes
from quantdsl.lang.parser import parse
from quantdsl.lang.render import render_all
from quantdsl.lang.source import Source

HANDLER = "strategy S:\n    bars 5m\n    on bar:\n"
STRATEGY = "strategy S:\n"
FILES = {
    "kernel of one expression": "kernel k(r: window[float, 8]) -> float = r[0]\n",
    "byte order mark": "\ufefflanguage 1\n",
    "bidi in a comment": "const a = 1  # \u202e\n",
    "not utf-8": "const a = 1  # \udcff\n",
    "carriage return": "const a = 1\rconst b = 2\n",
    "curly quotes": "test \u201ca\u201d:\n    expect true\n",
    "look-alike name": "const \ufb01 = 1\n",
    "cyrillic name": "const \u0430 = 1\n",
    "dollar": "const a = $b\n",
    "tab": "struct A:\n\tb: int\n",
    "too many digits": f"const a = {'1' * 41}\n",
    "too small": "const a = 1e-400\n",
    "underscore": "const a = 1_\n",
    "hexadecimal": "const a = 0xff\n",
    "misspelt unit": "const a = 5mins\n",
    "unknown unit": "const a = 5zorkmids\n",
    "unclosed twice": "const a = f([1\nconst b = 2\n",
    "unclosed at the end": "const a = f(1,\n    2\n",
    "unclosed header": "fn f(a: int:\n    return a\n",
    "wrong closer": "const a = f([1)\n",
    "stray closer": "const a = 1]\n",
    "long name": f"const {'a' * 65} = 1\n",
    "nested brackets": f"const a = {'(' * 65}\n",
    "time of day": "const a = 24:10\n",
    "string not closed": 'const a = "abc\n',
    "single quotes": "const a = 'abc'\n",
    "escape": 'const a = "\\d"\n',
    "language later": "const a = 1\nlanguage 1\n",
    "language unknown": "language 2\n",
    "language without version": "language\n",
    "statement at the margin": "buy(3)\n",
    "handler at the margin": "on bar:\n    buy(3)\n",
    "let at the margin": "let a = 1\n",
    "string at the margin": '"doc"\n',
    "enum without members": "enum A:\nconst a = 1\n",
    "enum without colon": "enum A b, c\n",
    "struct field without type": "struct A:\n    b\n",
    "from without import": "from a b\n",
    "type argument": "fn f(a: array[float, 1.5]) = 1\n",
    "parameter": "fn f(1) = 1\n",
    "no parameters": "fn f:\n    return 1\n",
    "function without body": "fn f()\nconst a = 1\n",
    "missing indentation": "fn f():\nreturn 1\n",
    "unexpected indentation": "const a = 1\n    const b = 2\n",
    "indentation between": "fn f():\n        a()\n    b()\n",
    "annotation alone": "@critical_path\n",
    "misspelt strategy": "stragety S:\n    bars 5m\n",
    "unknown block": "frobnicate S:\n    bars 5m\n",
    "test step": 'test "a":\n    let a = 1\n',
    "test name": "test a:\n    expect true\n",
    "chained pipe": "const a = b |> c\n",
    "pipe in an argument": "const a = f(b |> c())\n",
    "range of three": "const a = 1..2..3\n",
    "point without digit": "const a = .5\n",
    "trailing operator": "const a = 1 +\n",
    "not inside": "const a = 1 + not b\n",
    "half conditional": "const a = b if c\n",
    "crosses": "const a = b crosses over c\n",
    "is": "const a = b is c\n",
    "two values": "const a = b c\n",
    "modulo": "const a = b % c\n",
    "after a dot": "const a = b.3\n",
    "chained crosses": "const a = b crosses above c > d\n",
    "arithmetic after is": "const a = b is na + 1\n",
    "equals": "const a = b === c\n",
    "bad argument": "const a = f(1 +, b c)\n",
    "missing comma": "const a = [1 2]\n",
    "empty index": "const a = b[]\n",
}
ITEMS = {
    "statement in a strategy": "if a:\n    buy(1)\n",
    "assignment in a strategy": "a = 3\n",
    "kernel in a strategy": "kernel k(a: int) -> int:\n    return a\n",
    "misspelt handler": "onn bar:\n    buy(1)\n",
    "reserved name": "let in = 3\n",
    "no value": "let a\n",
    "no name": "let = 3\n",
    "misspelt step": "param a = 1 in 1..5 stepp 2\n",
    "points": "param a = 1 in 1..5 log x\n",
    "choices": 'param a = "x" in {"x" "y"}\n',
    "setting": "risk:\n    3 = 4\n",
    "settings without colon": "risk\n    max_order = 4\n",
    "event": "on 3:\n    buy(1)\n",
}
STATEMENTS = {
    "single equals": "if a = 3:\n    buy(1)\n",
    "no colon": "if a\n    buy(1)\n",
    "body on the line": "if a: buy(1)\n",
    "else if": "if a:\n    b()\nelse if c:\n    d()\n",
    "else alone": "else:\n    b()\n",
    "misspelt statement": "retrun 3\n",
    "item in a body": "param a = 3\n",
    "assign to a sum": "a + b = 3\n",
    "assign to a call": "f(x) += 3\n",
    "annotation in a body": "@critical_path\nbuy(1)\n",
    "while without bound": "while a > 1:\n    a -= 1\n",
    "for without in": "for i 0..5:\n    b()\n",
    "parallel alone": "parallel i in 0..5:\n    b()\n",
    "loop in steps": "for i in 0..<9 step 2:\n    b()\n",
    "reduce": "for i in 0..5 reduce(a: /):\n    b()\n",
    "match without case": "match a:\n    b()\n",
    "python and": "if a && b || !c:\n    d()\n",
    "walrus": "a := 3\n",
    "power": "a = b ** 2\n",
    "slashes": "a = b // 2\n",
    "semicolon": "a = 1; b = 2\n",
    "message": "assert a, b\n",
    "cast": "var s = 0.0 as f32\n",
    "word after a statement": "var s = x when\n",
}


def indented(text, levels):
    return "".join(f"{'    ' * levels}{row}\n" for row in text.splitlines())


CASES = {
    **FILES,
    **{name: STRATEGY + indented(text, 1) for name, text in ITEMS.items()},
    **{name: HANDLER + indented(text, 2) for name, text in STATEMENTS.items()},
}


def messages(text):
    parsed = parse(Source(dedent(text), "example.qdsl"))
    return render_all(parsed.diagnostics, parsed.source)


@pytest.mark.parametrize("name", CASES)
def test_message(name, snapshot):
    text = messages(CASES[name])
    assert text
    assert all(len(part.splitlines()) <= 12 for part in text.split("\n\n"))
    assert text == snapshot


def test_every_syntax_code_has_a_message_here():
    shown = {d.code for text in CASES.values() for d in parse(Source(text)).diagnostics}
    assert shown == {c.code for c in codes.defined() if c.code.startswith("QD01")}


@pytest.mark.parametrize("code", [c for c in codes.defined() if c.code.startswith("QD01")])
def test_wrong_examples_show_their_code_and_mended_ones_none(code):
    wrong, mended = parse(Source(code.wrong)), parse(Source(code.mended))
    assert [d.code for d in wrong.diagnostics] == [code.code]
    assert not mended.diagnostics


def test_explanations_are_pages(golden):
    pages = (codes.explanation(c) for c in codes.defined() if c.code.startswith("QD01"))
    golden("syntax_codes.txt", "\n".join(pages))
    assert syntax_codes.__doc__
