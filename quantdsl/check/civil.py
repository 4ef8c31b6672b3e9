"""What `now` is by the calendar: the figures after its dot, the days of the week, other names."""

import re

from quantdsl.lang import ast

FIGURES: dict[str, tuple[int | None, int | None]] = {
    "weekday": (0, 6),
    "day": (1, 31),
    "month": (1, 12),
    "year": (None, None),
    "hour": (0, 23),
    "minute": (0, 59),
}
"""What follows `now` -> its least and largest value; std/civil.qdsl has a fn for each."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
"""Numbers by name, not an enum: a param can be a day, and days have an order."""

_WEEKDAY = "write now.weekday: 0 is Monday, 6 is Sunday"
ELSEWHERE = {
    "date": "compare now.year, now.month and now.day",
    "time": "compare now with a time of day: now > 10:30",
    "second": "compare now with a time of day: now > 10:30:15",
    "dayofweek": _WEEKDAY,
    "day_of_week": _WEEKDAY,
    "dayofmonth": "write now.day: 1 to 31",
    "day_of_month": "write now.day: 1 to 31",
}
"""Figures by the names that other tools give them."""


IN_EQUATIONS = "ask now.hour and now.minute, which are series, or move this into 'on bar:'"
_BARE = re.compile(r"\bnow\b(?!\.)")


def asks_now(text: str) -> bool:
    """Whether a text reads `now` itself, which only handlers can."""
    return _BARE.search(text) is not None


def of_now(node: ast.Expr) -> bool:
    """Whether this is written `now.weekday` or the like."""
    part = node.value if isinstance(node, ast.Attr) else None
    return isinstance(part, ast.Name) and part.id == "now"
