"""The blanks between two tokens of a line: the one place that knows them."""

from quantdsl.lang import words
from quantdsl.lang.tree import NAME, NUMBER, STRING, TIME, Tokens

_TIGHT_BEFORE = frozenset((",", ":", ")", "]", "}", ".", "..", "..<", "?"))
_TIGHT_AFTER = frozenset(("(", "[", "{", ".", "..", "..<", "@"))
_VALUES = frozenset((NAME, NUMBER, STRING, TIME, "true", "false", "na", ")", "]", "}", "%", "?"))


def ends_value(tokens: Tokens, index: int) -> bool:
    """Can this token end an operand, so that what follows is an operator, call or index?"""
    return tokens.kinds[index] in _VALUES and index not in tokens.keywords


def is_sign(tokens: Tokens, index: int, first: int) -> bool:
    """Is this + or - a sign, not an operation? `first` is the first token of the line."""
    return tokens.kinds[index] in ("+", "-") and (
        index == first or not ends_value(tokens, index - 1)
    )


def is_unit(tokens: Tokens, index: int) -> bool:
    return (
        index > 0
        and tokens.kinds[index - 1] == NUMBER
        and tokens.kinds[index] in (NAME, "%")
        and tokens.texts[index] in words.UNITS
        and index not in tokens.keywords
    )


def blanks(tokens: Tokens, index: int, first: int) -> int:
    """0 or 1: the blanks before the token at `index`, which is not the first of its line."""
    kind, before = tokens.kinds[index], tokens.kinds[index - 1]
    if kind in _TIGHT_BEFORE or before in _TIGHT_AFTER:
        return 0
    if is_unit(tokens, index):
        return int(tokens.texts[index] not in words.CLOSE_UNITS)
    if is_sign(tokens, index - 1, first):
        return 0
    if kind in ("(", "["):
        return int(not ends_value(tokens, index - 1))
    return 1
