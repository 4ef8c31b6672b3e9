"""What is said of many instruments at once: names that are counted, and lines that are alike."""

import re
from collections.abc import Iterable, Sequence

NAMED_MAX = 8
"""So many names are all told; of more the first few."""
NAMED_OF_MORE = 3
COLUMN = ", column "
"""Between a file and the column of it that is meant."""
OF_FILES = {
    "of what bars files hold": re.compile(r": [\d,]+ bars of \w+ from "),
    "of ticks that were inferred": re.compile(r": tick \S+ \(inferred\), lot "),
    "of bad rows left out": re.compile(r": bad rows left out: "),
    "of prices that jump": re.compile(r": .* opens at \S+ after a close of "),
}
"""Notes that each file or instrument has of its own; all others, of money and positions above all,
are told."""


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
        found[f"{_together(many)}: {what}" if len(many) > NAMED_MAX else line] = None
    return list(found)


def _together(names: Sequence[str]) -> str:
    """Names as one; those of columns of one file tell the file once."""
    parts = [name.partition(COLUMN) for name in names]
    if len({file for file, _, _ in parts}) > 1 or not all(column for _, _, column in parts):
        return named(names)
    return f"{parts[0][0]}, columns {named([column for _, _, column in parts])}"


def fewer(notes: Sequence[str], where: str) -> list[str]:
    """The notes for a terminal: of many on what single files hold the first few, and behind them
    how many more are `where`."""
    alike: dict[str, list[str]] = {
        kind: [note for note in notes if shape.search(note)] for kind, shape in OF_FILES.items()
    }
    told = {note: [note] for note in notes}
    for kind, own in alike.items():
        if len(own) > NAMED_MAX:
            told |= {note: [] for note in own[NAMED_OF_MORE:]}
            more = f"and {len(own) - NAMED_OF_MORE:,} more notes {kind}, all in {where}"
            told[own[NAMED_OF_MORE]] = [more]
    return [line for note in notes for line in told[note]]
