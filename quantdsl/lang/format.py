"""The canonical layout of a file. There are no options.

Four spaces a level, one blank between tokens where there is any, aligned columns (align.py), at
most one empty line. Line breaks inside brackets stay where the writer put them, as in Go: after
an opening bracket the rows are indented by four, otherwise they hang below it. Only a row over
100 columns is broken further, at its commas.
"""

from functools import partial
from itertools import groupby

from quantdsl.lang import align, ast
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.items import LANGUAGE_VERSIONS
from quantdsl.lang.lines import Line, logical_lines
from quantdsl.lang.parser import parse
from quantdsl.lang.rows import WIDTH, lay_out
from quantdsl.lang.source import Source
from quantdsl.lang.tree import Tokens

_INDENT = 4
_COMMENT_GAP = 20


def format_source(text: str, path: str = "<input>") -> str:
    """The text in canonical layout: same tree, same comments; formatting twice changes nothing.

    Adds the line `language 1` if there is none. Raises SourceError if the text does not parse.
    """
    parsed = parse(Source(text, path))
    if not parsed.ok:
        raise SourceError(parsed.source, parsed.diagnostics)
    lines = logical_lines(parsed.tokens)
    blocks = [_format_block(parsed.tokens, block) for block in _sections(lines)]
    formatted = "".join(blocks)
    items = parsed.file.items
    if not items or not isinstance(items[0], ast.Language):
        formatted = f"language {LANGUAGE_VERSIONS[-1]}\n" + ("\n" * bool(blocks)) + formatted
    return formatted


def _sections(lines: list[Line]) -> list[list[Line]]:
    """Neighbouring lines of one level without an empty line or a comment between them."""
    sections: list[list[Line]] = []
    for line in lines:
        last = sections[-1][-1] if sections else None
        joins = (
            last is not None
            and line.level == last.level
            and not line.blank_before
            and not line.is_comment
            and not last.is_comment
        )
        if joins:
            sections[-1].append(line)
        else:
            sections.append([line])
    return sections


def _format_block(tokens: Tokens, lines: list[Line]) -> str:
    """The text of one section, ready to be joined to the others."""
    pads = _paddings(tokens, lines)
    laid = [
        lay_out(tokens, line, line.level * _INDENT, pad)
        if not line.is_comment
        else [" " * (line.level * _INDENT) + line.comment]
        for line, pad in zip(lines, pads, strict=True)
    ]
    _add_comments(lines, laid)
    before = "\n" if lines[0].blank_before else ""
    return before + "".join(f"{row}\n" for rows in laid for row in rows)


def _paddings(tokens: Tokens, lines: list[Line]) -> list[dict[int, int]]:
    """For each line, the extra blanks before its tokens that put its columns below others'."""
    found: list[dict[int, int]] = []
    described = [_columns(tokens, line) for line in lines]
    at = 0
    for key, group in groupby(described, key=lambda c: c.key if c else None):
        section = list(group)
        members = lines[at : at + len(section)]
        at += len(section)
        if key is None:
            found += [{} for _ in section]
        else:
            width = partial(_cell_width, tokens, members)
            found += align.paddings([columns for columns in section if columns], width)
    return found


def _columns(tokens: Tokens, line: Line) -> align.Columns | None:
    """The columns of a line that stands on one row, pipes aside, and will stay there."""
    if line.is_comment or line.is_broken(tokens, WIDTH - line.level * _INDENT):
        return None
    return align.columns(tokens, line.first, line.last, in_settings=line.in_settings)


def _cell_width(tokens: Tokens, lines: list[Line], line: int, start: int, end: int) -> int:
    return lines[line].width(tokens, start, end)


def _add_comments(lines: list[Line], laid: list[list[str]]) -> None:
    """Append trailing comments below each other: all of the section's, or else neighbours'."""
    numbers = [number for number, line in enumerate(lines) if line.comment and line.last]
    widths = [len(laid[number][-1]) for number in numbers]
    if numbers and max(widths) - min(widths) <= _COMMENT_GAP:
        runs = [numbers]
    else:
        keyed = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
        runs = [[number for _, number in run] for _, run in keyed]
    for run in runs:
        width = max(len(laid[number][-1]) for number in run)
        for number in run:
            laid[number][-1] = f"{laid[number][-1]:<{width}}  {lines[number].comment}"
