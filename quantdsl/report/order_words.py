"""What became of an order, as a record tells it, in words."""

from collections.abc import Callable, Mapping

import numpy as np

from quantdsl.events.layout import Kind

NONE = 2**53
"""Ticks of a limit or trigger that an order does not have (std/orders.qdsl)."""

LINE_BITS = 32
"""An ORDER record's last word: the source line, and above these bits the tag."""


def order_words(
    record: np.void,
    reasons: Mapping[int, str],
    quantity: Callable[[int], str],
    price: Callable[[int], str],
    exits: str = "exit",
) -> str | None:
    """An ORDER, FILL, REJECT or CANCEL record, None for another one.

    `quantity` and `price` say signed lots and ticks, `exits` is an order for all that is held then;
    `reasons` are std's by their codes.
    """
    a, b, c, d, e = (int(record[name]) for name in "abcde")
    code = int(record["flags"])
    reason = reasons.get(code, f"reason {code}")
    kind = Kind(record["kind"])
    if kind == Kind.ORDER:
        limits = [("limit", c), ("trigger", d)] if d != c else [("limit", c)]
        at = [f", {word} {price(ticks)}" for word, ticks in limits if abs(ticks) < NONE]
        what = quantity(b) if b else exits
        return f"order {a}: {what}{''.join(at)}, line {e & ((1 << LINE_BITS) - 1)}"
    if kind == Kind.FILL:
        return f"order {a} fills: {quantity(b)} at {price(c)}, position {quantity(e)}"
    if kind == Kind.REJECT:
        return f"order {a} refused: {reason}, line {d}"
    if kind == Kind.CANCEL:
        return f"order {a} ends: {reason}"
    return None
