"""One logical line to rows of text: the writer's breaks, and more where a row is too wide."""

from quantdsl.lang.cursor import CLOSERS, OPENERS
from quantdsl.lang.lines import Line
from quantdsl.lang.spacing import blanks
from quantdsl.lang.tree import Tokens

WIDTH = 100
_STEP = 4


def lay_out(tokens: Tokens, line: Line, indent: int, pads: dict[int, int]) -> list[str]:
    """The rows of a line, indented; `pads` are extra blanks before some of its tokens."""
    breaks = {
        index for index in range(line.first + 1, line.last) if "\n" in tokens.gap(index)
    }
    while True:
        layout = _Layout(tokens, line, indent, pads, breaks)
        place = layout.place_to_break()
        if place is None:
            return layout.rows
        breaks.add(place)


class _Layout:
    def __init__(
        self, tokens: Tokens, line: Line, indent: int, pads: dict[int, int], breaks: set[int]
    ) -> None:
        self.tokens = tokens
        self.breaks = breaks
        self.indent = indent
        self.rows: list[str] = []
        self.row = " " * indent
        self.padded = 0  # blanks of the row that are for alignment; they make no row too wide
        self.openers: list[int] = []  # the open brackets
        self.open: list[int] = []  # for each open bracket, the indentation of rows inside it
        self.closing: list[int] = []  # and that of a row which begins with its closer
        self.commas: list[tuple[int, int, int]] = []  # in this row: bracket, width, next token
        self.crossed: list[int] | None = None  # brackets open where the row became too wide
        self.too_wide: int | None = None
        for index in range(line.first, line.last):
            self.token(index, line, pads)
        self.end_row()

    def token(self, index: int, line: Line, pads: dict[int, int]) -> None:
        kind = self.tokens.kinds[index]
        if index > line.first:
            if self.breaks_before(index, kind):
                self.end_row()
                self.row = " " * self.row_indent(kind)
                self.comments(index)
            else:
                pad = pads.get(index, 0)
                self.padded += pad
                self.row += " " * (blanks(self.tokens, index, line.first) + pad)
        self.row += self.tokens.texts[index]
        if self.crossed is None and len(self.row) - self.padded > WIDTH:
            self.crossed = list(self.openers)
        if kind in OPENERS:
            self.open_bracket(index)
        elif kind in CLOSERS:
            self.openers.pop()
            self.open.pop()
            self.closing.pop()
        elif kind == "," and self.open:
            self.commas.append((self.openers[-1], len(self.row) - self.padded, index + 1))

    def breaks_before(self, index: int, kind: str) -> bool:
        """The writer's break; but a closer comes down only if its opener ended a row."""
        if index not in self.breaks:
            return False
        hangs = bool(self.open) and self.closing[-1] < 0
        return not (kind in CLOSERS and hangs and not self.tokens.comments(index))

    def row_indent(self, kind: str) -> int:
        if not self.open:
            return self.indent + _STEP
        if kind in CLOSERS and self.closing[-1] >= 0:
            return self.closing[-1]
        return self.open[-1]

    def open_bracket(self, index: int) -> None:
        self.openers.append(index)
        row_indent = len(self.row) - len(self.row.lstrip(" "))
        if index + 1 in self.breaks:
            self.open.append(row_indent + _STEP)
            self.closing.append(row_indent)
        else:
            self.open.append(len(self.row))
            self.closing.append(-1)

    def comments(self, index: int) -> None:
        """Comments inside a line: after the row they follow, or on rows of their own."""
        comments = self.tokens.comments(index)
        trailing = self.tokens.gap(index).lstrip(" \t").startswith("#")
        for number, comment in enumerate(comments):
            if number == 0 and trailing:
                self.rows[-1] += f"  {comment}"
            else:
                self.rows.append(self.row + comment)

    def end_row(self) -> None:
        """Take the row. Too wide, it breaks at a comma of the outermost bracket across the edge.

        Without such a comma it stays: a break elsewhere would only hide what is too long.
        """
        if self.crossed and self.too_wide is None:
            for bracket in self.crossed:
                places = [p for b, width, p in self.commas if b == bracket and width <= WIDTH]
                usable = [p for p in places if self.tokens.kinds[p] not in CLOSERS]
                if usable:
                    self.too_wide = usable[-1]
                    break
        self.rows.append(self.row)
        self.commas = []
        self.crossed = None
        self.padded = 0

    def place_to_break(self) -> int | None:
        """The token before which the first row that is too wide should be broken, if any."""
        return self.too_wide
