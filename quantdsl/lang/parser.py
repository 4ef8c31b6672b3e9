"""`parse`: source text to syntax tree, with every syntax error in one go."""

import msgspec

from quantdsl import limits
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import ERROR, Diagnostic
from quantdsl.lang.items import ItemParser
from quantdsl.lang.lexer import lex
from quantdsl.lang.source import Source
from quantdsl.lang.tree import END, Tokens


class Parsed(msgspec.Struct, frozen=True):
    """What `parse` found: the tree, the lossless tokens, and what is wrong, in source order."""

    source: Source
    file: ast.File
    tokens: Tokens
    diagnostics: list[Diagnostic]

    @property
    def ok(self) -> bool:
        return not any(d.severity == ERROR for d in self.diagnostics)


def parse(source: Source) -> Parsed:
    """Parse any text in linear time. Never raises; errors are in the result's diagnostics.

    The tree holds all that could be read; where something could not, it holds `ast.Bad`.
    """
    size = len(source.text.encode("utf-8", errors="surrogatepass"))
    if size > source.size_limit:
        return _refused(source, _too_large(source))
    if (zero := source.text.find("\0")) >= 0:
        return _refused(source, _no_text(zero))
    diagnostics: list[Diagnostic] = []
    tokens = lex(source, diagnostics)
    file = ItemParser(source, tokens, diagnostics).file()
    diagnostics.sort(key=lambda d: d.span)
    return Parsed(source, file, tokens, diagnostics[: limits.DIAGNOSTICS])


def _too_large(source: Source) -> Diagnostic:
    return Diagnostic(
        "QD0109",
        ERROR,
        "this file is too large",
        (0, 0),
        reason=f"the limit is {source.size_limit}.",
        help="move shared functions to a file of their own and import it",
    )


def _no_text(zero: int) -> Diagnostic:
    """One message where every second byte of a picture or of UTF-16 would be another."""
    return Diagnostic(
        "QD0101",
        ERROR,
        "this file is not UTF-8 text: it holds a zero byte",
        (zero, zero + 1),
        help="give a strategy file, saved as UTF-8",
    )


def _refused(source: Source, error: Diagnostic) -> Parsed:
    """A file that is not read at all."""
    end = len(source.text)
    tokens = Tokens(source.text)
    tokens.append(END, "", end, end)
    return Parsed(source, ast.File((0, end), ()), tokens, [error])
