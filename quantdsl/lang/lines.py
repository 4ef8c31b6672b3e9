"""Tokens to logical lines with their comments, levels and empty lines: what the formatter moves."""

import re

import msgspec

from quantdsl.lang.cursor import CLOSERS
from quantdsl.lang.spacing import blanks
from quantdsl.lang.tree import DEDENT, END, INDENT, NEWLINE, Tokens

_GAP_LINE = re.compile(r"([ \t]*)(#[^\n]*)?")
_STRUCTURE = frozenset((NEWLINE, INDENT, DEDENT, END))


class Line(msgspec.Struct):
    """Tokens `first` to `last` (exclusive) and a trailing comment; or a comment alone."""

    level: int
    first: int
    last: int
    comment: str = ""
    blank_before: bool = False
    in_settings: bool = False

    @property
    def is_comment(self) -> bool:
        return not self.last

    def is_broken(self, tokens: Tokens, room: int) -> bool:
        """Is it broken inside brackets, or will it be, being wider than `room`?

        A row that begins with a pipe breaks nothing; nor does one that is a closing bracket.
        """
        width = 0
        for index in range(self.first, self.last):
            kind = tokens.kinds[index]
            starts_row = index > self.first and "\n" in tokens.gap(index)
            if starts_row and kind != "|>" and kind not in CLOSERS:
                return True
            if index == self.first or (starts_row and kind == "|>"):
                width = 0
            else:
                width += blanks(tokens, index, self.first)
            width += len(tokens.texts[index])
            if width > room:
                return True
        return False

    def width(self, tokens: Tokens, start: int, end: int) -> int:
        """Columns from the token at `start` (-1: the first) up to the one at `end`, unpadded."""
        begin = self.first if start < 0 else start
        width = len(tokens.texts[begin])
        for index in range(begin + 1, end):
            width += blanks(tokens, index, self.first) + len(tokens.texts[index])
        return width


def logical_lines(tokens: Tokens) -> list[Line]:
    """All lines of a file that parsed, in order."""
    return _Lines(tokens).read()


class _Lines:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.lines: list[Line] = []
        self.widths = [0]  # the indentation of the open blocks, as written
        self.settings_level = -1

    def read(self) -> list[Line]:
        tokens, index, end_before = self.tokens, 0, 0
        last_index = len(tokens) - 1
        while True:
            outer, opened = list(self.widths), False
            while tokens.kinds[index] in (INDENT, DEDENT):
                if tokens.kinds[index] == INDENT:
                    opened = True
                    self.widths.append(self.column(tokens.starts[index]))
                else:
                    self.widths.pop()
                index += 1
            gap = tokens.source_text[end_before : tokens.starts[index]]
            blank = self.gap(gap, outer, opened)
            if index >= last_index:
                return self.lines
            first = index
            while tokens.kinds[index] not in _STRUCTURE:
                index += 1
            self.line(first, index, blank)
            end_before = tokens.ends[index - 1]
            index += 1

    def line(self, first: int, last: int, blank: bool) -> None:
        level = len(self.widths) - 1
        if level <= self.settings_level:
            self.settings_level = -1
        in_settings = 0 <= self.settings_level < level
        self.lines.append(Line(level, first, last, "", blank, in_settings))
        opens_settings = self.tokens.texts[first] in ("risk", "backtest")
        if opens_settings and first in self.tokens.keywords:
            self.settings_level = level

    def gap(self, gap: str, outer: list[int], opened: bool) -> bool:
        """Enter the comments between two lines; is there an empty line before the second?"""
        level = len(self.widths) - 1
        blank = False
        rows = gap.split("\n")
        for number, row in enumerate(rows):
            match = _GAP_LINE.match(row.rstrip("\r"))
            assert match is not None
            column, comment = len(match[1].expandtabs(4)), (match[2] or "").rstrip()
            if number == 0 and self.lines:
                self.lines[-1].comment = comment
            elif comment:
                place = level if opened else self.comment_level(column, outer, level)
                self.lines.append(Line(place, 0, 0, comment, blank and self.may_space(place)))
                blank = False
            elif 0 < number < len(rows) - 1 or (number == 0 and len(rows) > 1):
                blank = bool(self.lines)
        return blank and self.may_space(level)

    def may_space(self, level: int) -> bool:
        """An empty line may follow anything but the header of the block that it would open."""
        return not (self.lines and self.lines[-1].level < level)

    def comment_level(self, column: int, outer: list[int], level: int) -> int:
        """A comment before a dedent belongs to the deepest of the blocks that it is inside of."""
        inner = len(outer) - 1
        while inner > level and outer[inner] > column:
            inner -= 1
        return inner

    def column(self, offset: int) -> int:
        start = self.tokens.source_text.rfind("\n", 0, offset) + 1
        return offset - start
