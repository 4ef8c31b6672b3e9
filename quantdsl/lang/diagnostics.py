"""What the compiler tells the user, and the error that carries it."""

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
    """A strategy file is wrong; `diagnostics` say where and why."""

    def __init__(self, source: Source, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n\n".join(f"{d.code}: {d.message}" for d in diagnostics))
        self.source = source
        self.diagnostics = diagnostics
