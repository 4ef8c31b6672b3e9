"""The parser's place in the token stream: looking, taking, reporting, and getting back on track.

A syntax error inside an expression raises `Abandon`, which the nearest bracket or line catches;
there the parser skips to a safe token. While `quiet` is set, the rest of the line is in doubt and
nothing more is reported on it.
"""

from quantdsl import limits
from quantdsl.lang import spelling, words
from quantdsl.lang.ast import Bad, Ident, Span
from quantdsl.lang.diagnostics import ERROR, Diagnostic, Edit, Label
from quantdsl.lang.source import Source
from quantdsl.lang.tree import DEDENT, END, INDENT, NAME, NEWLINE, NUMBER, STRING, TIME, Tokens

OPENERS = frozenset("([{")
CLOSERS = frozenset(")]}")
LINE_ENDS = frozenset((NEWLINE, END, INDENT, DEDENT))
_SHOWN = {
    NEWLINE: "the end of the line",
    INDENT: "indentation",
    DEDENT: "the end of the block",
    END: "the end of the file",
}


class Abandon(Exception):  # noqa: N818 - a signal inside the parser, not an error
    """Unwinds from an unparsable expression; always caught inside the parser."""


class Cursor:
    def __init__(self, source: Source, tokens: Tokens, diagnostics: list[Diagnostic]) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.ends = tokens.ends
        self.keywords = tokens.keywords
        self.cut = tokens.cut
        self.at = 0
        self.kind = self.kinds[0]
        self.quiet = False

    # ---- looking and taking -----------------------------------------------------------------

    def advance(self) -> None:
        """Go to the next token; never called at END."""
        self.at += 1
        self.kind = self.kinds[self.at]

    def take(self, kind: str) -> bool:
        """Step over the token if it is of this kind."""
        if self.kind != kind:
            return False
        self.advance()
        return True

    def at_word(self, word: str) -> bool:
        """Is this the contextual word (a word that elsewhere may be a name)?"""
        return self.kind == NAME and self.texts[self.at] == word

    def take_word(self, word: str) -> bool:
        if not self.at_word(word):
            return False
        self.keywords.add(self.at)
        self.advance()
        return True

    @property
    def next_kind(self) -> str:
        return self.kinds[self.at + 1] if self.kind != END else END

    @property
    def start(self) -> int:
        return self.starts[self.at]

    @property
    def end_before(self) -> int:
        """Where the last line or token ended: the end of the node that is being built."""
        last = self.at - 1
        while last > 0 and self.kinds[last] in (DEDENT, INDENT):
            last -= 1
        return self.ends[last] if last >= 0 else 0

    def span_from(self, start: int) -> Span:
        """From `start` to the last token taken; an empty span behind it if none was taken."""
        end = self.end_before
        return (min(start, end), end)

    def missing(self) -> Bad:
        """Stands for an expression of which nothing was written."""
        return Bad(self.span_from(self.start))

    def here(self) -> Span:
        return (self.starts[self.at], self.ends[self.at])

    def shown(self) -> str:
        """The current token as a message names it."""
        return _SHOWN.get(self.kind) or f"'{self.texts[self.at]}'"

    # ---- requiring --------------------------------------------------------------------------

    def expect(self, kind: str, what: str) -> bool:
        """Step over the token or report that `what` was expected."""
        if self.kind == kind:
            self.advance()
            return True
        self.error("QD0113", f"expected {what}, found {self.shown()}")
        return False

    def name(self, what: str) -> Ident:
        """A declared name; on failure an empty one, reported."""
        start, end = self.here()
        if self.kind == NAME:
            text = self.texts[self.at]
            self.advance()
            return Ident((start, end), text)
        if self.kind in words.RESERVED:
            text = self.texts[self.at]
            self.error(
                "QD0115",
                f"'{text}' is a word of the language and cannot be a name",
                help="choose another name",
            )
            self.quiet = False  # the line can still be read
            self.advance()
            return Ident((start, end), text)
        self.error("QD0113", f"expected {what}, found {self.shown()}")
        return Ident(self.span_from(start), "")

    # ---- reporting --------------------------------------------------------------------------

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        note: str = "",
        reason: str = "",
        help: str = "",
        labels: tuple[Label, ...] = (),
        edit: Edit | None = None,
    ) -> None:
        """Report at `span` (default: the current token), at most once until back on track."""
        if self.quiet:
            return
        self.quiet = True
        place = span or self.here()
        beyond = self.cut is not None and place[1] >= self.cut
        if beyond or len(self.diagnostics) >= limits.DIAGNOSTICS:
            return
        self.diagnostics.append(
            Diagnostic(code, ERROR, message, place, note, labels, reason, help, edit)
        )

    # ---- recovering -------------------------------------------------------------------------

    def skip_to(self, stops: frozenset[str]) -> None:
        """Skip to a token of `stops`, an unmatched closer or the end of the line."""
        depth = 0
        while self.kind not in LINE_ENDS:
            if not depth and self.kind in stops:
                return
            if self.kind in OPENERS:
                depth += 1
            elif self.kind in CLOSERS:
                if not depth:
                    return
                depth -= 1
            self.advance()

    def skip_line(self) -> None:
        """Skip to the end of the line."""
        while self.kind not in LINE_ENDS:
            self.advance()

    def end_line(self) -> None:
        """Require the end of the line; report and skip what is left of it."""
        if self.kind not in LINE_ENDS:
            self.error("QD0114", f"unexpected {self.shown()}", help=self.leftover_advice())
            self.skip_line()
        self.take(NEWLINE)
        self.quiet = False

    def leftover_advice(self, *, in_brackets: bool = False) -> str:
        """What to say about a token that should not follow a complete statement."""
        kind, before = self.kind, self.kinds[self.at - 1]
        if kind == "=":
            return "'==' compares; '=' assigns, and only to a name, field or element"
        if kind == "%":
            return "'%' is percent; the remainder is 'a mod b'"
        if kind == "|>":
            return "a pipe ends an equation of its own; in its place here write f(x) for x |> f()"
        if kind == NAME:
            text = self.texts[self.at]
            if before == NUMBER:
                near = spelling.nearest_unit(text, words.AFTER_WORDS)
            else:
                near = spelling.nearest(text, words.AFTER_WORDS)
            if text == "as":
                return "a number becomes one of another type by a call: float(x), int(x), f32(x)"
            if near and near != text:
                return f"did you mean '{near}'?"
            if before == NUMBER and text.isupper():
                return words.UNITS_SHOWN
        if kind not in (NAME, NUMBER, STRING, TIME) and kind not in words.RESERVED:
            return ""
        if in_brackets:
            return "a comma or an operator is missing before it"
        return "an operator is missing before it, or it belongs on its own line"
