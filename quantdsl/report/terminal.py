"""Lines for a terminal: styled words, wrapped at its width, and columns.

A summary needs no more than this of what the library rich can do, and to load that takes a short
backtest as long as its run. Control characters of names and messages never reach the terminal.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO

COLUMNS_USUAL = 80
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
_CONTROL = {code: None for code in (*range(32), 127, *range(128, 160)) if code != ord("\n")}


class Words(NamedTuple):
    """Text in one style: names of _CODES with spaces between, or none."""

    text: str
    style: str = ""


Text = tuple[Words, ...]
EMPTY: Text = ()


def text(words: str, style: str = "") -> Text:
    """Words in one style, without control characters; texts are put together with +."""
    return (Words(words.translate(_CONTROL), style),)


class Column(NamedTuple):
    """How a column of a table stands."""

    title: str = ""
    right: bool = False


class Terminal:
    """Where lines go, how wide that is, and whether it shows styles."""

    def __init__(
        self, out: TextIO | None = None, width: int | None = None, *, styled: bool | None = None
    ) -> None:
        self.out = sys.stdout if out is None else out
        self.width = _width() if width is None else width
        shows = self.out.isatty() and "NO_COLOR" not in os.environ
        self.styled = shows and os.environ.get("TERM") != "dumb" if styled is None else styled

    def print(self, *lines: Text, wrap: bool = True) -> None:
        """Each text on lines of its own; with `wrap` none is wider than the terminal."""
        for line in lines:
            for part in wrapped(line, self.width) if wrap else [line]:
                try:
                    self.out.write("".join(map(self._shown, part)) + "\n")
                except BrokenPipeError:  # the reader has gone, such as head; files are still wanted
                    os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())

    def _shown(self, words: Words) -> str:
        if not (self.styled and words.style):
            return words.text
        codes = ";".join(str(_CODES[name]) for name in words.style.split())
        return f"\x1b[{codes}m{words.text}\x1b[0m"


def wrapped(line: Text, width: int) -> list[Text]:
    """A text as lines of at most `width` cells, broken at spaces where there are any."""
    plain = "".join(words.text for words in line)
    lines, begin = [], 0
    for paragraph in plain.split("\n"):
        end = begin + len(paragraph)
        lines += [_slice(line, *span) for span in _spans(plain, begin, end, max(1, width))]
        begin = end + 1
    return lines


def indented(mark: str, line: Text, width: int) -> list[Text]:
    """A text behind a mark, all of its lines indented alike."""
    lines = wrapped(line, width - cells(mark))
    marks = [mark, *[" " * cells(mark)] * (len(lines) - 1)]
    return [text(before) + part for before, part in zip(marks, lines, strict=True)]


def table(
    rows: Iterable[Sequence[Text]], columns: Sequence[Column], width: int, gap: int = 2
) -> list[Text]:
    """Rows in columns that are as wide as need be; what is too wide for all is wrapped in its
    column, the widest first, but no figure is broken: where more figures stand in a row than fit,
    rows are wider than that. Titles, where there are any, come first."""
    cellss = [*([[text(c.title, "dim") for c in columns]] if columns[0].title else []), *rows]
    widths = [
        max((_wide(row[at]) for row in cellss), default=0) for at in range(len(columns))
    ]
    least = [
        max((_longest_word(row[at]) for row in cellss), default=0) if column.right else 1
        for at, column in enumerate(columns)
    ]
    room = width - gap * (len(widths) - 1)
    while sum(least) <= room < sum(widths):
        wide = [own if own > fewest else 0 for own, fewest in zip(widths, least, strict=True)]
        widths[wide.index(max(wide))] -= 1
    return [line for row in cellss for line in _row(row, columns, widths, gap)]


def _row(
    row: Sequence[Text], columns: Sequence[Column], widths: Sequence[int], gap: int
) -> list[Text]:
    """A row of a table: as many lines as its highest cell has."""
    parts = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for at in range(max(map(len, parts))):
        line = EMPTY
        for part, column, width in zip(parts, columns, widths, strict=True):
            cell = part[at] if at < len(part) else EMPTY
            blank = text(" " * (width - _wide(cell)))
            line += (text(" " * gap) if line else EMPTY) + (
                blank + cell if column.right else cell + blank
            )
        lines.append(line)
    return lines


def cells(words: str) -> int:
    """How many columns of a terminal a line takes."""
    if words.isascii():
        return len(words)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in words)
    return len(words) + wide - sum(map(bool, map(unicodedata.combining, words)))


def _wide(line: Text) -> int:
    return cells("".join(words.text for words in line))


def _longest_word(line: Text) -> int:
    return max(map(cells, "".join(words.text for words in line).split()), default=0)


def _spans(plain: str, begin: int, end: int, width: int) -> Iterable[tuple[int, int]]:
    """Where each line of a paragraph begins and ends."""
    while True:
        stop = _fitting(plain, begin, end, width)
        if stop == end:
            break
        space = plain.rfind(" ", begin, stop + 1)
        if space > begin:
            yield begin, space
            begin = space + 1
        else:
            yield begin, stop
            begin = stop
    yield begin, end


def _fitting(plain: str, begin: int, end: int, width: int) -> int:
    """How far a line goes that begins there; a character at least."""
    stop = min(end, begin + width)
    while stop > begin + 1 and cells(plain[begin:stop]) > width:
        stop -= 1
    return stop


def _slice(line: Text, begin: int, end: int) -> Text:
    """The part of a text between two of its characters."""
    parts, at = [], 0
    for words in line:
        part = words.text[max(0, begin - at) : max(0, end - at)]
        if part:
            parts.append(words._replace(text=part))
        at += len(words.text)
    return tuple(parts)


def _width() -> int:
    """Of the terminal that is behind any of the three standard streams."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    for descriptor in range(3):
        try:
            return os.get_terminal_size(descriptor).columns or COLUMNS_USUAL
        except OSError:
            continue
    return COLUMNS_USUAL
