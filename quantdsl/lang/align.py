"""Columns: which tokens of neighbouring lines stand below each other.

Lines that say the same kind of thing form a section: `param`, `let`, `state`, `const` and `var`
declarations, assignments, settings, data lines with a name. Their `=`, `in`, `step`, `->` and
`as` are aligned, unless that would open a gap wider than `_GAP_MAX`; settings are tables and
always align.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from quantdsl.lang import words
from quantdsl.lang.tree import NAME, Tokens

_GAP_MAX = 5
_STARTS = {"param": ("=", "in", "step", "log"), "setting": ("=", "->"), "data": ("as",)}


class Columns(NamedTuple):
    """Of one line: its section's key, and where its columns begin (token indices, ascending)."""

    key: str
    starts: tuple[int, ...]


def columns(tokens: Tokens, first: int, last: int, *, in_settings: bool) -> Columns | None:
    """The columns of the line of tokens `first` to `last` (exclusive), None if it has none."""
    word = tokens.texts[first]
    keyword = first in tokens.keywords or word in words.RESERVED
    if in_settings:
        key = kind = "setting"
    elif keyword and word in words.BINDING_WORDS:
        key = word
        kind = word if word == "param" else "binding"
    elif keyword and word in words.DATA_WORDS:
        key, kind = word, "data"
    elif tokens.kinds[first] == NAME and not keyword:
        key = kind = "assignment"
    else:
        return None
    wanted = _STARTS.get(kind, ("=",))
    starts = tuple(_column_starts(tokens, first, last, wanted))
    if not starts or (wanted[0] == "=" and tokens.kinds[starts[0]] != "="):
        return None
    return Columns(key, starts)


def _column_starts(
    tokens: Tokens, first: int, last: int, wanted: Sequence[str]
) -> Iterator[int]:
    depth, seen = 0, set()
    for index in range(first + 1, last):
        kind = tokens.kinds[index]
        if kind in ("(", "[", "{"):
            depth += 1
        elif kind in (")", "]", "}"):
            depth -= 1
        text = tokens.texts[index]
        contextual = kind != NAME or index in tokens.keywords
        if not depth and text in wanted and contextual and text not in seen:
            seen.add(text)
            yield index


def paddings(
    section: Sequence[Columns], width: Callable[[int, int, int], int]
) -> Iterable[dict[int, int]]:
    """For each line of a section, the extra blanks before its tokens.

    `width(line, column)` is the width of the text between a line's column and the one before.
    """
    found: list[dict[int, int]] = [{} for _ in section]
    _align(section, range(len(section)), 0, width, found)
    return found


def _align(
    section: Sequence[Columns],
    lines: Sequence[int],
    column: int,
    width: Callable[[int, int, int], int],
    found: list[dict[int, int]],
) -> None:
    """Align one column of some neighbouring lines, then within each group the next column."""
    limit = None if section[0].key == "setting" else _GAP_MAX
    for group in _groups(section, lines, column, width, limit):
        widest = max(cell for _, cell in group)
        for line, cell in group:
            if widest > cell:
                found[line][section[line].starts[column]] = widest - cell
        _align(section, [line for line, _ in group], column + 1, width, found)


def _groups(
    section: Sequence[Columns],
    lines: Sequence[int],
    column: int,
    width: Callable[[int, int, int], int],
    limit: int | None,
) -> Iterator[list[tuple[int, int]]]:
    """Runs of (line, cell width) that have the column and differ by at most `limit`."""
    group: list[tuple[int, int]] = []
    for line in lines:
        starts = section[line].starts
        if len(starts) <= column:
            if group:
                yield group
            group = []
            continue
        cell = width(line, starts[column - 1] if column else -1, starts[column])
        cells = [cell, *(other for _, other in group)]
        if group and limit is not None and max(cells) - min(cells) > limit:
            yield group
            group = []
        group.append((line, cell))
    if group:
        yield group
