"""One logical line to rows of text: the writer's breaks, and more where a row is too wide."""

from typing import NamedTuple

from quantdsl.lang.cursor import CLOSERS, OPENERS
from quantdsl.lang.lines import Line
from quantdsl.lang.spacing import blanks
from quantdsl.lang.tree import Tokens

WIDTH = 100
_STEP = 4


def lay_out(tokens: Tokens, line: Line, indent: int, pads: dict[int, int]) -> list[str]:
    """The rows of a line, indented; `pads` are extra blanks before some of its tokens."""
    layout = _Layout(tokens, line, indent, pads)
    index = line.first
    while index < line.last:
        index = layout.token(index)
    layout.end_row()
    return layout.rows


class _Bracket(NamedTuple):
    """An open bracket: its token, and the indentation of rows inside it and of its closer's.

    `closer_indent` is None if the bracket did not end its row; then no row begins with the closer.
    """

    token: int
    indent: int
    closer_indent: int | None


class _Comma(NamedTuple):
    """A place where the row could end: in which bracket, before which token, and how long then."""

    bracket: int
    before: int
    length: int
    width: int  # length without the blanks for alignment


class _Layout:
    def __init__(self, tokens: Tokens, line: Line, indent: int, pads: dict[int, int]) -> None:
        self.tokens = tokens
        self.line = line
        self.indent = indent
        self.pads = pads
        inner = range(line.first + 1, line.last)
        self.breaks = {index for index in inner if "\n" in tokens.gap(index)}
        self.rows: list[str] = []
        self.open: list[_Bracket] = []
        self.start_row(indent)

    def start_row(self, indent: int) -> None:
        self.row = " " * indent
        self.padded = 0  # blanks for alignment make no row too wide
        self.too_wide = False
        self.commas: list[_Comma] = []

    def token(self, index: int) -> int:
        """Add a token to the row; the index of the one to add next, which may be before it."""
        kind = self.tokens.kinds[index]
        if index > self.line.first:
            if self.breaks_before(index, kind):
                self.end_row()
                self.start_row(self.row_indent(kind))
                self.comments(index)
            else:
                pad = self.pads.get(index, 0)
                self.padded += pad
                self.row += " " * (blanks(self.tokens, index, self.line.first) + pad)
        self.row += self.tokens.texts[index]
        if not self.too_wide and len(self.row) - self.padded > WIDTH:
            self.too_wide = True
            comma = self.comma_to_break_at()
            if comma is not None:
                return self.break_at(comma)
        if kind in OPENERS:
            self.open_bracket(index)
        elif kind in CLOSERS:
            self.open.pop()
        elif kind == "," and self.open:
            length = len(self.row)
            comma = _Comma(self.open[-1].token, index + 1, length, length - self.padded)
            self.commas.append(comma)
        return index + 1

    def comma_to_break_at(self) -> _Comma | None:
        """The last comma that fits, of the outermost bracket across the edge that has one.

        Without such a comma the row stays: a break elsewhere would only hide what is too long.
        """
        for bracket in self.open:
            for comma in reversed(self.commas):
                fits = comma.bracket == bracket.token and comma.width <= WIDTH
                if fits and self.tokens.kinds[comma.before] not in CLOSERS:
                    return comma
        return None

    def break_at(self, comma: _Comma) -> int:
        """Take back what follows the comma, to be laid out again in a row of its own."""
        self.row = self.row[: comma.length]
        while self.open[-1].token != comma.bracket:
            self.open.pop()
        self.breaks.add(comma.before)
        return comma.before

    def end_row(self) -> None:
        self.rows.append(self.row)

    def breaks_before(self, index: int, kind: str) -> bool:
        """The writer's break; but a closer comes down only if its opener ended a row."""
        if index not in self.breaks:
            return False
        hangs = bool(self.open) and self.open[-1].closer_indent is None
        return not (kind in CLOSERS and hangs and not self.tokens.comments(index))

    def row_indent(self, kind: str) -> int:
        if not self.open:
            return self.indent + _STEP
        bracket = self.open[-1]
        if kind in CLOSERS and bracket.closer_indent is not None:
            return bracket.closer_indent
        return bracket.indent

    def open_bracket(self, index: int) -> None:
        if index + 1 in self.breaks:
            row_indent = len(self.row) - len(self.row.lstrip(" "))
            self.open.append(_Bracket(index, row_indent + _STEP, row_indent))
        else:
            self.open.append(_Bracket(index, len(self.row), None))

    def comments(self, index: int) -> None:
        """Comments inside a line: after the row they follow, or on rows of their own."""
        comments = self.tokens.comments(index)
        trailing = self.tokens.gap(index).lstrip(" \t").startswith("#")
        for number, comment in enumerate(comments):
            if number == 0 and trailing:
                self.rows[-1] += f"  {comment}"
            else:
                self.rows.append(self.row + comment)
