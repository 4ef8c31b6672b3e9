"""A source file: its text, and where a span of it lies."""

from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from quantdsl import limits
from quantdsl.errors import ConfigError
from quantdsl.lang.ast import Span


class Position(NamedTuple):
    """A place as people count it: line and column from 1."""

    line: int
    column: int


class Source:
    """The text of one file and the name it is reported by.

    `std` marks a file of the standard library, whose size limit is larger.
    """

    def __init__(self, text: str, path: str = "<input>", *, std: bool = False) -> None:
        self.text = text
        self.path = path
        self.std = std

    @classmethod
    def named(cls, path: object) -> "Source":
        """The file that a user names; ConfigError where it is none, or cannot be read."""
        if not isinstance(path, str | Path):
            raise ConfigError(
                f"{path!r} is no strategy\nhelp: name a file, such as 'strategies/sma_cross.qdsl'"
            )
        try:
            return cls.read(Path(path))
        except FileNotFoundError:
            raise ConfigError(f"{path}: there is no such file") from None
        except OSError as wrong:
            raise ConfigError(f"{path}: cannot be read: {wrong.strerror}") from None
        except ValueError:  # a zero byte, as of a text that was meant as one of a strategy
            raise ConfigError(f"{str(path)!r} is no name of a file") from None

    @classmethod
    def read(cls, path: Path, *, std: bool = False) -> "Source":
        """The file's text; bytes that are not UTF-8 become characters that the lexer refuses.

        Never reads much more than the size limit. Raises OSError as `open` does.
        """
        limit = limits.STD_SOURCE_BYTES if std else limits.SOURCE_BYTES
        with path.open("rb") as file:
            content = file.read(limit + 1)
        return cls(content.decode("utf-8", errors="surrogateescape"), str(path), std=std)

    @property
    def size_limit(self) -> limits.Limit:
        return limits.STD_SOURCE_BYTES if self.std else limits.SOURCE_BYTES

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line; a line ends at its line feed only."""
        starts = [0]
        find = self.text.find
        newline = find("\n")
        while newline >= 0:
            starts.append(newline + 1)
            newline = find("\n", newline + 1)
        return starts

    def position(self, offset: int) -> Position:
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def line_text(self, line: int) -> str:
        """The text of a line (from 1), without its line end."""
        start = self.line_starts[line - 1]
        last = line == len(self.line_starts)
        end = len(self.text) if last else self.line_starts[line] - 1
        return self.text[start:end].removesuffix("\r")

    def slice(self, span: Span) -> str:
        return self.text[span[0] : span[1]]
