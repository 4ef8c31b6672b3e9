"""Text to tokens: one regular expression without backtracking, so linear time on any input.

Invariants that the parser builds on: brackets are balanced within a logical line, NEWLINE never
stands inside brackets, INDENT and DEDENT are balanced, END is last. Whatever had to be invented
or dropped for that is reported here.
"""

import re
from typing import Any

from quantdsl import limits
from quantdsl.lang import characters, spelling, words
from quantdsl.lang.diagnostics import ERROR, Diagnostic, Edit, Label
from quantdsl.lang.source import Source
from quantdsl.lang.tree import DEDENT, END, INDENT, NAME, NEWLINE, NUMBER, STRING, TIME, Tokens

_TOKEN = re.compile(
    r"""
    [ \t]*+ (?:
      ( [A-Za-z_][A-Za-z0-9_]*+ (?![^\W\x00-\x7f]) )                         # 1 word
    | ( \|>|->|\.\.<|\.\.|<=|>=|==(?!=)|!=(?!=)|\?\?                        # 2 operator
      | (?!//|\*\*)[-+*/]=?|[<>^%.,@?]|=(?!==)|:(?!=) )
    | ( [(\[{] )                                                            # 3 open
    | ( [)\]}] )                                                            # 4 close
    | ( (?: (?:\#[^\n]*+)?+ \r?\n [ \t]*+ )++ )                             # 5 newlines
    | ( [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?+                                  # 6 time
        (?:[ ]?[AaPp][Mm](?![A-Za-z0-9_]))?+ (?![A-Za-z0-9_]) )
    | ( [0-9]++(?:_[0-9]++)*+(?:\.[0-9]++(?:_[0-9]++)*+)?+(?:[eE][-+]?[0-9]++)?+ )  # 7 number
    | ( "(?:[^"\\\n]++|\\[^\n])*+" )                                        # 8 string
    | ( \#[^\n]*+ )                                                         # 9 comment at the end
    | ( "[^\n]*+ | [\u2018-\u201d][^\u2018-\u201d"\n]*+["\u2018-\u201d]       # 10 foreign
      | '(?:[^'\n]*+')?+ | && | \|\| | := | // | \*\* | === | !== | ! | ; )
    | ( \w++ | [^\x00-\x7f\w]++ | [\x00-\x08\x0b-\x1f\x7f]++ | . )                   # 11 other
    | \Z )
    """,
    re.VERBOSE,
)
_WORD, _OPERATOR, _OPEN, _CLOSE, _NEWLINES, _TIME, _NUMBER, _STRING, _COMMENT, _FOREIGN, _OTHER = (
    range(1, 12)
)
_FIRST_LINE = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\r?\n)*+[ \t]*+")
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_BLOCK_START = re.compile(
    r"(?:(?:let|var|if|elif|for|while|return|break|continue)\b"
    r"|(?:param|state|const|fn|indicator|kernel|strategy|struct|enum|action|on|import|from|parallel"
    r"|match|case|require|invariant|every|at|assert|expect)\s+[A-Za-z_0-9]"
    r'|(?:bars|session|instrument|universe|test)\s+["0-9]'
    r"|(?:risk|backtest|atomic|else)\s*:"
    r"|@[A-Za-z_])"
)


def lex(source: Source, diagnostics: list[Diagnostic]) -> Tokens:
    """The tokens of a source; appends what is wrong with it to `diagnostics`. Never raises."""
    diagnostics.extend(characters.check(source.text))
    return _Lexer(source, diagnostics).run()


class _Lexer:
    def __init__(self, source: Source, diagnostics: list[Diagnostic]) -> None:
        self.text = source.text
        self.diagnostics = diagnostics
        self.tokens = Tokens(source.text)
        self.brackets: list[tuple[str, int]] = []  # bracket and its offset
        self.indents = [0]

    def run(self) -> Tokens:
        first = _FIRST_LINE.match(self.text)
        assert first is not None
        self.indent(first.end())
        self.scan(first.end())
        self.finish()
        return self.tokens

    def scan(self, begin: int) -> None:
        """Words and operators inline, for speed; whatever is rarer by its handler."""
        tokens = self.tokens
        add_kind, add_text = tokens.kinds.append, tokens.texts.append
        add_start, add_end = tokens.starts.append, tokens.ends.append
        reserved, units, name_chars = words.RESERVED, words.UNITS, int(limits.NAME_CHARS)
        handlers: dict[int, Any] = {
            _OPEN: self.open,
            _CLOSE: self.close,
            _NEWLINES: self.newlines,
            _TIME: self.time,
            _NUMBER: self.number,
            _STRING: self.string,
            _FOREIGN: self.foreign,
            _OTHER: self.other,
        }
        number_end = -1
        for match in _TOKEN.finditer(self.text, begin):
            group = match.lastindex
            if group == _WORD:
                word = match[1]
                start, end = match.span(1)
                if start == number_end and word not in units:
                    self.bad_suffix(word, start, end)
                    continue
                if end - start > name_chars:
                    self.long_name(start, end)
                add_kind(word if word in reserved else NAME)
                add_text(word)
                add_start(start)
                add_end(end)
            elif group == _OPERATOR:
                operator = match[2]
                start, end = match.span(2)
                add_kind(operator)
                add_text(operator)
                add_start(start)
                add_end(end)
            elif group in handlers:
                handlers[group](match)
                if group == _NUMBER:
                    number_end = match.end()
                elif tokens.cut is not None:
                    return

    # ---- brackets ---------------------------------------------------------------------------

    def open(self, match: re.Match[str]) -> None:
        bracket, (start, end) = match[_OPEN], match.span(_OPEN)
        if len(self.brackets) >= limits.BRACKET_DEPTH:
            self.limit("brackets are nested too deeply", limits.BRACKET_DEPTH, start, end)
            return
        self.brackets.append((bracket, start))
        self.tokens.append(bracket, bracket, start, end)

    def close(self, match: re.Match[str]) -> None:
        closer, (start, end) = match[_CLOSE], match.span(_CLOSE)
        depth = len(self.brackets)
        while depth and _CLOSER[self.brackets[depth - 1][0]] != closer:
            depth -= 1
        if not depth:
            self.error(
                "QD0107",
                f"'{closer}' closes nothing",
                start,
                end,
                help="remove it",
                edit=Edit((start, end), ""),
            )
            return
        while len(self.brackets) > depth:
            self.close_unclosed(Label((start, end), f"'{closer}' stands here instead"))
        self.brackets.pop()
        self.tokens.append(closer, closer, start, end)

    def close_unclosed(self, label: Label | None, before: int = 0) -> None:
        """Report the innermost bracket and invent its closer before the last `before` tokens."""
        bracket, offset = self.brackets.pop()
        tokens, closer = self.tokens, _CLOSER[bracket]
        index = len(tokens) - before
        tokens.insert(index, closer, closer, tokens.ends[index - 1])
        self.error(
            "QD0106",
            f"'{bracket}' is never closed",
            offset,
            offset + 1,
            note=f"its '{closer}' is missing",
            labels=(label,) if label else (),
        )

    # ---- lines ------------------------------------------------------------------------------

    def newlines(self, match: re.Match[str]) -> None:
        end = match.end()
        text = self.text
        width = end - text.rfind("\n", 0, end) - 1
        if self.brackets:
            if not self.starts_block(end, width):
                return
            word = re.compile(r"@?\w*").match(text, end)
            assert word is not None
            label = Label(word.span(), "a new statement starts here")
            header = int(self.tokens.kinds[-1] == ":")
            while self.brackets:
                self.close_unclosed(label, header)
        if text.startswith("|>", end):
            return
        self.end_line()
        if end < len(text) and text[end] != "#":
            self.indent(end)

    def starts_block(self, offset: int, width: int) -> bool:
        """Inside brackets: is this line certainly a new statement, so that one was not closed?"""
        if _BLOCK_START.match(self.text, offset) is None:
            return False
        return width in self.indents or (width > self.indents[-1] and self.tokens.kinds[-1] == ":")

    def end_line(self) -> None:
        kinds = self.tokens.kinds
        if kinds and kinds[-1] not in (NEWLINE, INDENT, DEDENT):
            end = self.tokens.ends[-1]
            self.tokens.append(NEWLINE, "", end, end)

    def indent(self, offset: int) -> None:
        """Compare the line that starts with the blanks before `offset` to the open blocks."""
        start = self.text.rfind("\n", 0, offset) + 1
        blanks = self.text[start:offset]
        if "\t" in blanks:
            self.error(
                "QD0103",
                "a tab in the indentation",
                start,
                offset,
                reason="how wide a tab is depends on the editor; blocks need one answer.",
                help="use four spaces for each level",
                edit=Edit((start, offset), blanks.expandtabs(4)),
            )
        width = len(blanks.expandtabs(4))
        if width > self.indents[-1]:
            if len(self.indents) > limits.BLOCK_DEPTH:
                self.limit("blocks are nested too deeply", limits.BLOCK_DEPTH, start, offset)
                return
            self.indents.append(width)
            self.tokens.append(INDENT, "", offset, offset)
            return
        while width < self.indents[-1]:
            outer = self.indents[-2]
            if width > outer:  # between two levels: the line belongs to the inner block
                self.error(
                    "QD0108",
                    "this line is indented like no block above it",
                    start,
                    offset,
                    note=f"{width} spaces",
                    help=f"use {outer} or {self.indents[-1]} spaces",
                )
                self.indents[-1] = width
                return
            self.indents.pop()
            self.tokens.append(DEDENT, "", offset, offset)

    def finish(self) -> None:
        end = len(self.text)
        while self.brackets:
            if self.tokens.cut is None:
                self.close_unclosed(None)
            else:
                closer = _CLOSER[self.brackets.pop()[0]]
                self.tokens.append(closer, closer, self.tokens.cut, self.tokens.cut)
        self.end_line()
        for _ in self.indents[1:]:
            self.tokens.append(DEDENT, "", end, end)
        self.tokens.append(END, "", end, end)

    # ---- literals ---------------------------------------------------------------------------

    def time(self, match: re.Match[str]) -> None:
        text, (start, end) = match[_TIME], match.span(_TIME)
        clock = text.rstrip(" AaMmPp")
        hours, minutes, *seconds = map(int, clock.split(":"))
        if hours > 23 or minutes > 59 or (seconds and seconds[0] > 59):
            remedy = "times run from 00:00 to 23:59:59"
        elif clock != text:
            late = 12 * ("p" in text.lower())
            hour = hours % 12 + late if hours <= 12 else hours
            remedy = f"write {hour:02}{clock[clock.index(':') :]}"
        else:
            remedy = ""
        if remedy:
            self.error("QD0110", f"{text} is not a time of day", start, end, help=remedy)
        self.tokens.append(TIME, clock, start, end)

    def number(self, match: re.Match[str]) -> None:
        text, (start, end) = match[_NUMBER], match.span(_NUMBER)
        self.tokens.append(NUMBER, text, start, end)
        if len(text) > limits.NUMBER_CHARS:
            self.tokens.texts[-1] = "0"
            self.error(
                "QD0109",
                "this number has too many digits",
                start,
                end,
                reason=f"the limit is {limits.NUMBER_CHARS}.",
            )
        elif "e" in text or "E" in text:
            value = float(text)
            zero = not text.lower().partition("e")[0].strip("0._")
            if value == float("inf") or (value == 0.0 and not zero):
                self.tokens.texts[-1] = "0"
                size = "large" if value else "small"
                self.error(
                    "QD0104",
                    f"this number is too {size} for a float",
                    start,
                    end,
                    reason="floats reach from 4.9e-324 to 1.8e308.",
                )

    def bad_suffix(self, word: str, start: int, end: int) -> None:
        """Letters right after a number that are no unit: the number is wrong as a whole."""
        number = self.tokens.starts[-1]
        text = self.text[number:end]
        message, remedy = f"'{text}' is not a number", ""
        if self.tokens.texts[-1] == "0" and word[0] in "xXbBoO":
            remedy = "numbers are decimal; write the value in base ten"
        elif word[0] == "_":
            remedy = "an underscore stands between two digits: 1_000"
        else:
            message = f"'{word}' is not a unit"
            near = spelling.nearest_unit(word)
            remedy = f"did you mean '{near}'?" if near else words.UNITS_SHOWN
            remedy = words.NO_UNITS.get(word.lower(), remedy)
            number = start
        self.error("QD0105", message, number, end, help=remedy)

    def string(self, match: re.Match[str]) -> None:
        text, (start, end) = match[_STRING], match.span(_STRING)
        self.tokens.append(STRING, text, start, end)
        if "\\" in text:
            for escape in re.finditer(r"\\(.)", text):
                if escape[1] not in '\\"nt':
                    place = (start + escape.start(), start + escape.end())
                    self.error(
                        "QD0111",
                        f"'{escape[0]}' is not an escape",
                        *place,
                        help=r"the escapes are \\ \" \n \t",
                    )

    # ---- what does not belong here ----------------------------------------------------------

    def foreign(self, match: re.Match[str]) -> None:
        """Other languages' signs: report, and go on with what was meant."""
        text, (start, end) = match[_FOREIGN], match.span(_FOREIGN)
        if text[0] == '"':
            self.error(
                "QD0111",
                "this string is not closed",
                start,
                end,
                help='close it with " on the same line',
            )
            self.tokens.append(STRING, text.rstrip("\\") + '"', start, end)
        elif text[0] in "'\u2018\u2019\u201c\u201d":
            self.quoted(text, start, end)
        else:
            meant, remedy = _FOREIGN_SIGNS[text]
            edit = Edit((start, end), meant) if meant and text != "//" else None
            self.error(
                "QD0112",
                f"'{text}' is no sign of this language",
                start,
                end,
                help=remedy,
                edit=edit,
            )
            if text == ";":
                self.end_line()
            elif meant:
                self.tokens.append(meant.strip(), meant.strip(), start, end)

    def quoted(self, text: str, start: int, end: int) -> None:
        closed = len(text) > 1
        inner = text.strip("'\"\u2018\u2019\u201c\u201d")
        content = '"' + inner.replace("\\", "\\\\").replace('"', '\\"') + '"'
        self.error(
            "QD0111",
            "strings stand in plain double quotes",
            start,
            end,
            help='write "..."',
            edit=Edit((start, end), content) if closed else None,
        )
        if closed:
            self.tokens.append(STRING, content, start, end)

    def other(self, match: re.Match[str]) -> None:
        text, (start, end) = match[_OTHER], match.span(_OTHER)
        if characters.is_forbidden(text[0]):
            return  # reported by characters.check already
        self.diagnostics.append(characters.stray(text, start, end))
        after_number = self.tokens.kinds[-1:] == [NUMBER] and self.tokens.ends[-1] == start
        if text[0].isidentifier() and not after_number:
            self.tokens.append(NAME, text, start, end)

    # ---- reporting --------------------------------------------------------------------------

    def long_name(self, start: int, end: int) -> None:
        self.error(
            "QD0109",
            "this name is too long",
            start,
            end,
            reason=f"the limit is {limits.NAME_CHARS}.",
        )

    def limit(self, message: str, limit: limits.Limit, start: int, end: int) -> None:
        """Report a structural limit and read no further."""
        self.error("QD0109", message, start, end, reason=f"the limit is {limit}.")
        self.tokens.cut = start

    def error(self, code: str, message: str, start: int, end: int, **rest: Any) -> None:
        self.diagnostics.append(Diagnostic(code, ERROR, message, (start, end), **rest))


_FOREIGN_SIGNS = {
    "&&": ("and", "write 'and'"),
    "||": ("or", "write 'or'"),
    "===": ("==", "write '=='"),
    "!==": ("!=", "write '!='"),
    "!": ("not ", "write 'not'"),
    ":=": ("=", "write '='; a name that changes is declared with 'var' or 'state'"),
    "**": ("^", "write '^' for a power"),
    "//": ("/", "a comment begins with '#'; floor division is 'floor(a / b)'"),
    ";": ("", "write one statement on a line"),
}
