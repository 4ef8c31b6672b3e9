"""What the compiler tells the user: the finding, its JSON form, its fixes, and the error."""

from collections.abc import Iterable
from typing import Any

import msgspec

from quantdsl.errors import QuantDSLError
from quantdsl.lang.ast import Span
from quantdsl.lang.source import Source

ERROR = "error"
WARNING = "warning"


class Label(msgspec.Struct, frozen=True, gc=False):
    """A secondary place with what is to be said about it."""

    span: Span
    text: str


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Replace the text of `span` by `replacement`: a fix that a tool may apply."""

    span: Span
    replacement: str


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding: stable code, the place, and, where known, the reason and the remedy.

    `note` stands beside the carets, `reason` explains the rule, `help` says what to write.
    """

    code: str
    severity: str
    message: str
    span: Span
    note: str = ""
    labels: tuple[Label, ...] = ()
    reason: str = ""
    help: str = ""
    edit: Edit | None = None


class SourceError(QuantDSLError):
    """A strategy file is wrong; `diagnostics` say where and why; `str` shows them all."""

    def __init__(self, source: Source, diagnostics: list[Diagnostic]) -> None:
        super().__init__(source, diagnostics)
        self.source = source
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        from quantdsl.lang.render import render_all

        return render_all(self.diagnostics, self.source)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity == ERROR for d in diagnostics)


def to_builtins(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    """The finding for `--json`: places as lines and columns from 1, ends exclusive."""
    found: dict[str, Any] = {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "path": source.path,
        **_place(diagnostic.span, source),
        "note": diagnostic.note,
        "reason": diagnostic.reason,
        "help": diagnostic.help,
        "labels": [{**_place(x.span, source), "text": x.text} for x in diagnostic.labels],
        "edit": None,
    }
    if diagnostic.edit is not None:
        found["edit"] = {
            **_place(diagnostic.edit.span, source),
            "replacement": diagnostic.edit.replacement,
        }
    return found


def _place(span: Span, source: Source) -> dict[str, Any]:
    start, end = source.position(span[0]), source.position(span[1])
    return {"start": start._asdict(), "end": end._asdict()}


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made; of two that overlap only the first in the text is made."""
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda e: e.span):
        start, end = edit.span
        if start < at:
            continue
        pieces += [text[at:start], edit.replacement]
        at = end
    return "".join(pieces) + text[at:]
