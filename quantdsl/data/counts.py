"""Counts of what was found, in words: '1 message not understood', '2 messages not understood'."""

import re
from collections.abc import Mapping

_NOUN = re.compile(
    r"\b(book|cell|change|gap|line|message|number|price|quote|row|size|tick|time|trade|value|volume)\b"
)
"""The first of these that a kind is named by is what is counted."""


def counted(count: int, kind: str) -> str:
    """A count of a kind that is named in the singular."""
    return f"{count:,} " + (kind if count == 1 else _NOUN.sub(r"\1s", kind, count=1))


def listed(found: Mapping[str, int]) -> str:
    """Counts by kind, the most frequent first."""
    order = sorted(found.items(), key=lambda one: -one[1])
    return ", ".join(counted(count, kind) for kind, count in order)
