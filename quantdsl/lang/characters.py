"""Which characters a source file may hold: what the eye reads is what the compiler reads.

Outside comments and strings only ASCII. Nowhere a character that is invisible, ends a line for
some programs only, or turns the direction of the text.
"""

import re
import unicodedata

from quantdsl.lang.diagnostics import ERROR, Diagnostic, Edit

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINE_ENDS = "\x0b\x0c\x85\u2028\u2029"
_FORBIDDEN = re.compile(
    rf"[{_BIDI}]+|[{_LINE_ENDS}]+|\ufeff+|\r(?!\n)|[\ud800-\udfff]+|[\x00-\x08\x0e-\x1f\x7f-\x9f]+"
)
_PLAIN = re.compile(r"[\t\n\x20-\x7e]*+(?:\r\n[\t\n\x20-\x7e]*+)*+\Z")
_BIDI_RUN = re.compile(rf"[{_BIDI}]")
_LINE_END_RUN = re.compile(rf"[{_LINE_ENDS}]")


def check(text: str) -> list[Diagnostic]:
    """An error for each run of forbidden characters, also inside comments and strings."""
    if _PLAIN.match(text):
        return []
    return [_forbidden(match[0], *match.span()) for match in _FORBIDDEN.finditer(text)]


def is_forbidden(character: str) -> bool:
    return _FORBIDDEN.match(character) is not None


def _forbidden(run: str, start: int, end: int) -> Diagnostic:
    message = f"forbidden character: {describe(run[0])}"
    reason, remedy, replacement = "it cannot be seen where it stands.", "remove it", ""
    if _BIDI_RUN.match(run):
        reason = "it turns the direction of the text: the reader sees other code than the compiler."
    elif run[0] == "\r" or _LINE_END_RUN.match(run):
        reason = "some programs end a line here and some do not."
        remedy, replacement = "end the line with a line feed", "\n"
    elif run[0] == "\ufeff":
        reason = "a file is UTF-8 without a byte order mark."
    elif "\ud800" <= run[0] <= "\udfff":
        message = f"this byte is not UTF-8: {ord(run[0]) - 0xDC00:#04x}"
        reason = "a file is UTF-8 text."
    edit = Edit((start, end), replacement)
    return Diagnostic("QD0101", ERROR, message, (start, end), reason=reason, help=remedy, edit=edit)


def stray(text: str, start: int, end: int) -> Diagnostic:
    """A visible character that no token begins with."""
    culprit = next((c for c in text if c > "\x7f"), text[0])
    message = f"unexpected character: {describe(culprit)}"
    if culprit < "\x80":
        return Diagnostic("QD0102", ERROR, message, (start, end))
    plain = unicodedata.normalize("NFKC", text)
    meant = plain if plain.isascii() and plain.strip() else _LOOKS_LIKE.get(text, "")
    return Diagnostic(
        "QD0102",
        ERROR,
        message,
        (start, end),
        reason="outside comments and strings the source is ASCII, so that no two names look alike.",
        help=f"write '{meant}'" if meant else "",
        edit=Edit((start, end), meant) if meant else None,
    )


def describe(character: str) -> str:
    """U+00D7 (MULTIPLICATION SIGN), with the character itself where it can be seen."""
    code = ord(character)
    name = unicodedata.name(character, "CARRIAGE RETURN" if code == 0x0D else "control character")
    shown = f"'{character}' " if character.isprintable() and not character.isspace() else ""
    return f"{shown}U+{code:04X} ({name})"


_LOOKS_LIKE = {
    "\u2212": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "*",
    "\u00f7": "/",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u201c": '"',
    "\u201d": '"',
    "\u2192": "->",
    "\u00b7": "*",
}
