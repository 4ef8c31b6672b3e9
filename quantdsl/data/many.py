"""What is said of many instruments at once: names that are counted, and lines that are alike."""

from collections.abc import Iterable, Sequence

NAMED_MAX = 8
"""So many names are all told; of more the first few."""
NAMED_OF_MORE = 3


def named(names: Sequence[str]) -> str:
    """The names, or the first of them and how many more there are."""
    if len(names) <= NAMED_MAX:
        return ", ".join(names)
    more = len(names) - NAMED_OF_MORE
    return f"{', '.join(names[:NAMED_OF_MORE])} and {more:,} more"


def grouped(lines: Iterable[str]) -> list[str]:
    """Notes without repeats; those that say the same of many names, `NAME: what`, are one line
    where the first of them stood."""
    names: dict[str, list[str]] = {}
    alone = list(dict.fromkeys(lines))
    for line in alone:
        name, colon, what = line.partition(": ")
        names.setdefault(what if colon else line, []).append(name)
    found: dict[str, None] = {}
    for line in alone:
        _, colon, what = line.partition(": ")
        many = names[what] if colon else []
        found[f"{named(many)}: {what}" if len(many) > NAMED_MAX else line] = None
    return list(found)
