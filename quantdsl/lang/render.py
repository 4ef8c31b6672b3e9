"""Diagnostics as text for a terminal: the user's own line, the place, the reason, the remedy."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from quantdsl.lang.diagnostics import ERROR, Diagnostic
from quantdsl.lang.source import Source

_WIDTH = 100
_WINDOW = 90  # characters of a source line that are shown
_QUICK_FIX = "[quick fix]"
_COLOURS = {"error": "1;31", "warning": "1;33", "frame": "34", "help": "32", "bold": "1"}

_Painter = Callable[[str, str], str]


class _Mark(NamedTuple):
    """Carets (primary) or dashes under columns `start` to `end` of a shown line."""

    start: int
    end: int
    primary: bool
    text: str


def render_all(diagnostics: Iterable[Diagnostic], source: Source, *, colour: bool = False) -> str:
    """All findings, with an empty line between."""
    return "\n\n".join(render(d, source, colour=colour) for d in diagnostics)


def render(diagnostic: Diagnostic, source: Source, *, colour: bool = False) -> str:
    """One finding as lines of text, without a final line end.

    Characters of the source that a terminal would act on are shown as their code.
    """
    paint = _paint if colour else _plain
    by_line = _marks_by_line(diagnostic, source)
    gutter = len(str(max(by_line))) + 1
    bar = paint(" " * gutter + "|", "frame")
    line, column = source.position(diagnostic.span[0])
    severity = "error" if diagnostic.severity == ERROR else "warning"
    lines = [
        paint(f"{severity} {diagnostic.code}", severity) + paint(f": {diagnostic.message}", "bold"),
        paint(" " * (gutter - 1) + "-->", "frame") + f" {source.path}:{line}:{column}",
        bar,
    ]
    previous = None
    for number in sorted(by_line):
        if previous is not None and number > previous + 1:
            lines.append(paint(" " * gutter + "...", "frame"))
        previous = number
        shown, marks = _shown_line(source.line_text(number), by_line[number])
        lines.append(paint(f"{number:>{gutter - 1}} |", "frame") + f" {shown}".rstrip())
        lines += [f"{bar} {_coloured(row, severity, paint)}" for row in _mark_rows(marks)]
    if diagnostic.reason:
        lines.append(" " * gutter + paint("= ", "frame") + diagnostic.reason)
    if diagnostic.help:
        lines.append(" " * gutter + _help_line(diagnostic, gutter, paint))
    return "\n".join(lines)


def _help_line(diagnostic: Diagnostic, indent: int, paint: _Painter) -> str:
    text = f"help: {diagnostic.help}"
    if diagnostic.edit is not None:
        text = f"{text:<{_WIDTH - 20 - indent}} {_QUICK_FIX}"
    return paint(text, "help")


def _plain(text: str, _style: str) -> str:
    return text


def _paint(text: str, style: str) -> str:
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"


def _coloured(row: str, severity: str, paint: _Painter) -> str:
    style = severity if "^" in row else "frame"
    return paint(row, style)


# ---- what stands under a line ---------------------------------------------------------------


def _marks_by_line(diagnostic: Diagnostic, source: Source) -> dict[int, list[_Mark]]:
    """The marks of each line that is to be shown, in characters of that line."""
    places = [(diagnostic.span, True, diagnostic.note)]
    places += [(label.span, False, label.text) for label in diagnostic.labels]
    by_line: dict[int, list[_Mark]] = {}
    for (start, end), primary, text in places:
        line, column = source.position(start)
        width = len(source.line_text(line))
        first = min(column - 1, width)
        last = max(first + 1, min(first + end - start, width))
        by_line.setdefault(line, []).append(_Mark(first, last, primary, text))
    return by_line


def _shown_line(text: str, marks: Sequence[_Mark]) -> tuple[str, list[_Mark]]:
    """The line as it is printed, and its marks in printed columns; cropped around the marks."""
    begin, before, after = 0, "", ""
    if max(mark.end for mark in marks) > _WINDOW:
        begin = max(0, min(mark.start for mark in marks) - _WINDOW // 3)
        before = "... " if begin else ""
    if len(text) > begin + _WINDOW:
        after = " ..."
    cells = [_visible(character) for character in text[begin : begin + _WINDOW]]
    columns = [len(before)]
    for cell in cells:
        columns.append(columns[-1] + sum(map(_cell_width, cell)))
    columns.append(columns[-1] + 1)  # the place after the last character
    last = len(columns) - 1
    moved = [
        mark._replace(start=columns[mark.start - begin], end=columns[min(mark.end - begin, last)])
        for mark in marks
        if mark.start - begin < last
    ]
    return before + "".join(cells) + after, moved


def _visible(character: str) -> str:
    if character == "\t":
        return "    "
    if character.isprintable():
        return character
    return f"<{ord(character):04X}>"


def _cell_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _mark_rows(marks: list[_Mark]) -> list[str]:
    """Rows of text under a line: all marks in one, then the texts, the rightmost inline."""
    ordered = sorted(marks, key=lambda m: (m.start, m.primary))
    row = ""
    for mark in ordered:
        row = row.ljust(mark.end)
        sign = ("^" if mark.primary else "-") * (mark.end - mark.start)
        row = row[: mark.start] + sign + row[mark.end :]
    last = ordered[-1]
    inline = last.text if last.end >= len(row) else ""
    rows = [f"{row} {inline}".rstrip()]
    hanging = [m for m in ordered if m.text and not (m is last and inline)]
    if hanging:
        rows.append(_stems(hanging))
    while hanging:
        mark = hanging.pop()
        rows.append(_stems(hanging).ljust(mark.start) + mark.text)
    return rows


def _stems(marks: list[_Mark]) -> str:
    row = ""
    for mark in marks:
        row = row.ljust(mark.start)[: mark.start] + "|"
    return row
