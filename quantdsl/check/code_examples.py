"""Whole strategies around the lines that are wrong and mended, for the registry of codes."""

from quantdsl.lang.codes import define

STRATEGY = "strategy S:\n    bars 5m\n"
ORDER = "    on bar:\n        if flat:\n            buy(100 shares)\n"
BLOCKS = "    risk:\n        max_position = 1_000 shares\n    backtest:\n        fees = 1bps\n"

TICKS = (
    "strategy S:\n{items}    {handler}:\n        if flat and {condition}:\n"
    "            buy(100 shares)\n" + BLOCKS
)


def whole(top: str, items: str, statements: str) -> str:
    """A complete strategy around the lines that matter."""
    handler = f"    on bar:\n{statements}" if statements else ORDER
    return f"{top}{STRATEGY}{items}{handler}{BLOCKS}"


def at_top(code: str, title: str, why: str, wrong: str, mended: str, use: str = "") -> None:
    """Define with examples that stand at the left margin; `use` is an item that needs them."""
    define(code, title, why, whole(wrong, use, ""), whole(mended, use, ""))


def item(code: str, title: str, why: str, wrong: str, mended: str) -> None:
    """Define with examples that are items of a strategy."""
    define(code, title, why, whole("", wrong, ""), whole("", mended, ""))


def in_handler(code: str, title: str, why: str, wrong: str, mended: str, items: str = "") -> None:
    """Define with examples that are statements of a handler."""
    define(code, title, why, whole("", items, wrong), whole("", items, mended))
