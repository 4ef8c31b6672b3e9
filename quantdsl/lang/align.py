"""Columns: which tokens of neighbouring lines stand below each other.

Lines that say the same kind of thing form a section: `param`, `let`, `state`, `const` and `var`
declarations, assignments, settings, data lines with a name. Their first column (`=` or `as`) is
aligned if no gap grows too wide, otherwise nowhere in the section. The further columns of params
and settings (`in`, `step`, `->`) are aligned in runs of lines of similar width.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from quantdsl.lang import words
from quantdsl.lang.tree import NAME, Tokens

_GAP_MAX = 20
_NARROW_GAP = 5
_STARTS = {"param": ("=", "in", "step", "log"), "setting": ("=", "->"), "data": ("as",)}
_TABLES = frozenset(_STARTS)

Width = Callable[[int, int, int], int]
"""`width(line, start, end)`: of a line of the section, from token `start` (-1: its first)."""


class Columns(NamedTuple):
    """Of one line: its section's key, its kind, and where its columns begin (token indices)."""

    key: str
    kind: str
    starts: tuple[int, ...]


def columns(tokens: Tokens, first: int, last: int, *, in_settings: bool) -> Columns | None:
    """The columns of the line of tokens `first` to `last` (exclusive), None if it has none."""
    word = tokens.texts[first]
    keyword = first in tokens.keywords or word in words.RESERVED
    if in_settings:
        key = kind = "setting"
    elif keyword and word in words.BINDING_WORDS:
        key, kind = word, word if word == "param" else "binding"
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
    return Columns(key, kind, starts)


def _column_starts(tokens: Tokens, first: int, last: int, wanted: Sequence[str]) -> Iterator[int]:
    depth, seen = 0, set()
    for index in range(first + 1, last):
        kind, text = tokens.kinds[index], tokens.texts[index]
        if kind in ("(", "[", "{"):
            depth += 1
        elif kind in (")", "]", "}"):
            depth -= 1
        contextual = kind != NAME or index in tokens.keywords
        if not depth and text in wanted and contextual and text not in seen:
            seen.add(text)
            yield index


def paddings(section: Sequence[Columns], width: Width) -> Iterable[dict[int, int]]:
    """For each line of a section, the extra blanks before its tokens."""
    found: list[dict[int, int]] = [{} for _ in section]
    cells = [(line, width(line, -1, columns.starts[0])) for line, columns in enumerate(section)]
    kind = section[0].kind
    if _spread(cells) <= (_GAP_MAX if kind in _TABLES else _NARROW_GAP):
        _align(section, cells, 0, width, found)
    return found


def _spread(cells: Sequence[tuple[int, int]]) -> int:
    widths = [width for _, width in cells]
    return max(widths) - min(widths)


def _align(
    section: Sequence[Columns],
    cells: Sequence[tuple[int, int]],
    column: int,
    width: Width,
    found: list[dict[int, int]],
) -> None:
    """Align a column of some neighbouring lines, given as (line, width), then what follows it."""
    widest = max(cell for _, cell in cells)
    for line, cell in cells:
        if widest > cell:
            found[line][section[line].starts[column]] = widest - cell
    limit = _GAP_MAX if section[0].kind == "setting" else _NARROW_GAP
    lines = [line for line, _ in cells]
    for group in _similar(section, lines, column + 1, width, limit):
        _align(section, group, column + 1, width, found)


def _similar(
    section: Sequence[Columns], lines: Sequence[int], column: int, width: Width, limit: int
) -> Iterator[list[tuple[int, int]]]:
    """Runs of lines that have the column, as (line, cell width) that differ by at most `limit`."""
    group: list[tuple[int, int]] = []
    low = high = 0
    for line in lines:
        starts = section[line].starts
        cell = width(line, starts[column - 1], starts[column]) if column < len(starts) else None
        if group and (cell is None or max(high, cell) - min(low, cell) > limit):
            yield group
            group = []
        if cell is not None:
            low, high = (min(low, cell), max(high, cell)) if group else (cell, cell)
            group.append((line, cell))
    if group:
        yield group
