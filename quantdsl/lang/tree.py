"""The lossless token stream: every character of a file, in tokens and in the gaps between them.

A gap holds only blanks, line ends and comments (in a file without errors). NEWLINE, INDENT,
DEDENT, END and closing brackets that recovery had to invent have no text of their own.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

NAME = "name"
NUMBER = "number"
TIME = "time"
STRING = "string"
NEWLINE = "newline"
INDENT = "indent"
DEDENT = "dedent"
END = "end"

_COMMENT = re.compile(r"#[^\n]*")


class Token(NamedTuple):
    """`kind` is one of the constants above; reserved words and punctuation are their own kind."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """A file's tokens as parallel lists (the parser's hot path), the last one of kind END."""

    __slots__ = ("cut", "ends", "keywords", "kinds", "source_text", "starts", "texts")

    def __init__(self, source_text: str) -> None:
        self.source_text = source_text
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.cut: int | None = None  # where reading stopped at a limit
        self.keywords: set[int] = set()  # names that the parser took as contextual keywords

    def append(self, kind: str, text: str, start: int, end: int) -> None:
        self.kinds.append(kind)
        self.texts.append(text)
        self.starts.append(start)
        self.ends.append(end)

    def insert(self, index: int, kind: str, text: str, offset: int) -> None:
        """Put an invented token, without extent, before the token at `index`."""
        self.kinds.insert(index, kind)
        self.texts.insert(index, text)
        self.starts.insert(index, offset)
        self.ends.insert(index, offset)

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> Token:
        return Token(self.kinds[index], self.texts[index], self.starts[index], self.ends[index])

    def __iter__(self) -> Iterator[Token]:
        return map(Token, self.kinds, self.texts, self.starts, self.ends)

    def gap(self, index: int) -> str:
        """The text between the token before `index` and the token at `index`."""
        before = self.ends[index - 1] if index else 0
        return self.source_text[before : self.starts[index]]

    def comments(self, index: int) -> list[str]:
        """The comments in the gap before the token at `index`, each from its `#`."""
        return [comment.rstrip() for comment in _COMMENT.findall(self.gap(index))]

    def text(self) -> str:
        """The whole file again, from the gaps and the tokens."""
        pieces = [self.gap(i) + self.source_text[t.start : t.end] for i, t in enumerate(self)]
        return "".join(pieces)
