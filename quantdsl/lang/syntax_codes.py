"""The codes of family 01, syntax, for the registry."""

from quantdsl.lang.codes import define

_HANDLER = "strategy S:\n    bars 5m\n    on bar:\n"


def _define_in_handler(code: str, title: str, why: str, wrong: str, mended: str) -> None:
    """Define with examples that are statements of a handler."""
    define(code, title, why, _HANDLER + wrong, _HANDLER + mended)


define(
    "QD0101",
    "forbidden character",
    "Control characters, byte order marks, exotic line ends and characters that turn the\n"
    "direction of text are refused everywhere, comments included: with them, a reader can see\n"
    "other code than the compiler does.",
    "const a = 1  # looks \u202eharmless\n",
    "const a = 1  # looks harmless\n",
)
define(
    "QD0102",
    "unexpected character",
    "Outside comments and strings a file is ASCII, so that two names that look the same are the\n"
    "same. Signs that word processors insert (curly quotes, long dashes) have a plain form.",
    "const loss = \u22121.5\n",
    "const loss = -1.5\n",
)
define(
    "QD0103",
    "tab in the indentation",
    "Blocks are made by indentation, and the width of a tab depends on the editor. Use spaces,\n"
    "four for each level; 'quantdsl fmt' does it.",
    "struct Band:\n\tmid: float\n",
    "struct Band:\n    mid: float\n",
)
define(
    "QD0104",
    "number out of range",
    "A float that is too large would become infinite and one too small would become zero,\n"
    "silently; an int lies below 2^63, lots and ticks below 2^53, a duration below 146 years.\n"
    "What is beyond is refused.",
    "const huge = 1e999\n",
    "const huge = 1e308\n",
)
define(
    "QD0105",
    "malformed number or unknown unit",
    "Numbers are decimal; underscores stand between digits. Letters after a number must be one of\n"
    "the units: ns us ms s m h d w mo y, % bps, tick share unit lot contract bar day (and their\n"
    "plurals), R, or a currency: an ISO code, USDC or USDT.",
    "const mask = 0x10\n",
    "const mask = 16\n",
)
define(
    "QD0106",
    "bracket never closed",
    "Line ends inside brackets do not count, so one forgotten bracket could swallow the rest of\n"
    "the file. The compiler stops at the next line that plainly begins a statement.",
    "strategy S:\n    let a = log(close\n    let b = 2\n",
    "strategy S:\n    let a = log(close)\n    let b = 2\n",
)
define(
    "QD0107",
    "bracket that closes nothing",
    "Each closing bracket belongs to an opening one of its kind.",
    "const a = 1)\n",
    "const a = 1\n",
)
define(
    "QD0108",
    "indentation that fits no block",
    "A line is indented exactly like the other lines of its block. Only a line that ends in ':'\n"
    "opens a deeper block.",
    "strategy S:\n    bars 5m\n        quotes\n",
    "strategy S:\n    bars 5m\n    quotes\n",
)
define(
    "QD0109",
    "limit exceeded",
    "Sizes of the source are bounded, so that every file compiles in bounded time and memory. The\n"
    "message names the limit. Name parts of a long expression with 'let'.",
    f"const a = {'-' * 120}1\n",
    "const a = -1\n",
)
define(
    "QD0110",
    "not a time of day",
    "Times run from 00:00 to 23:59:59.",
    'strategy S:\n    session "XNYS", flat_by = 25:00\n',
    'strategy S:\n    session "XNYS", flat_by = 15:00\n',
)
define(
    "QD0111",
    "malformed string",
    'A string stands between double quotes on one line. Its escapes are \\\\ \\" \\n and \\t.',
    "test 'one':\n    expect 1 == 1\n",
    'test "one":\n    expect 1 == 1\n',
)
_define_in_handler(
    "QD0112",
    "operator of another language",
    "QuantDSL says and, or, not, ^ for powers, '=' for assignment, '#' for comments, and one\n"
    "statement a line.",
    "        if long && close > open:\n            flatten()\n",
    "        if long and close > open:\n            flatten()\n",
)
define(
    "QD0113",
    "something else was expected",
    "The message says what may stand there.",
    "const a =\n",
    "const a = 1\n",
)
_define_in_handler(
    "QD0114",
    "unexpected text",
    "What stands before is complete, and this cannot follow it. Often an operator, a comma or a\n"
    "line end is missing.",
    "        buy(100 sharez)\n",
    "        buy(100 shares)\n",
)
define(
    "QD0115",
    "reserved word as a name",
    "The reserved words are: and or not is na true false mod of crosses in if elif else for while\n"
    "return break continue let var.",
    "strategy S:\n    let of = 3\n",
    "strategy S:\n    let off = 3\n",
)
define(
    "QD0116",
    "pipe into something that is no call",
    "'x |> f(a)' means f(x, a), so a call stands at its right.",
    "strategy S:\n    let r = close\n        |> xs.zscore\n",
    "strategy S:\n    let r = close\n        |> xs.zscore()\n",
)
_define_in_handler(
    "QD0117",
    "comparisons that do not chain",
    "Only < <= > >= == != chain (0 < x < 1). Join 'crosses' and 'is na' with 'and' or 'or'.",
    "        if fast crosses above slow > 0:\n            flatten()\n",
    "        if fast crosses above slow and slow > 0:\n            flatten()\n",
)
define(
    "QD0118",
    "missing ':'",
    "A line that opens a block ends in ':'.",
    "strategy S:\n    on bar\n        flatten()\n",
    "strategy S:\n    on bar:\n        flatten()\n",
)
_define_in_handler(
    "QD0119",
    "body missing or on the same line",
    "A body stands below its header, on lines of its own, indented by four spaces.",
    "        if long: flatten()\n",
    "        if long:\n            flatten()\n",
)
define(
    "QD0120",
    "cannot stand here",
    "Declarations stand directly in the strategy; statements stand in handlers; functions,\n"
    "indicators, kernels, enums and structs stand at the left margin.",
    "strategy S:\n    if long:\n        flatten()\n",
    "strategy S:\n    on bar:\n        if long:\n            flatten()\n",
)
define(
    "QD0121",
    "unknown word at the start of a line",
    "Every line of a strategy begins with one of its words, and the message names the nearest.",
    "strategy S:\n    parm n = 10\n",
    "strategy S:\n    param n = 10\n",
)
_define_in_handler(
    "QD0122",
    "assignment to something that is not a place",
    "Only a name, a field or an element of an array can be assigned. '==' compares.",
    "        a + b = 3\n",
    "        a = 3 - b\n",
)
define(
    "QD0123",
    "annotation of nothing",
    "An annotation stands right above the handler, function, indicator, kernel or equation that\n"
    "it is about.",
    "@critical_path\nconst a = 1\n",
    "const a = 1\n",
)
_define_in_handler(
    "QD0124",
    "while without a bound",
    "Every handler must end in a time that is known before it starts: a loop states the largest\n"
    "number of its turns.",
    "        while n > 0:\n            n -= 1\n",
    "        while n > 0 max 64:\n            n -= 1\n",
)
define(
    "QD0125",
    "language line",
    "The first line names the version of the language that the file is written in.",
    "language 99\n",
    "language 1\n",
)
