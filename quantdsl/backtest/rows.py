"""Rows of 8-byte words that a run leaves behind, one after the other in one growing array.

Machine code writes them straight into the free end, so what a long run collects is written once
and copied only when the array doubles.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]
# As much as a million bars take; memory that is not written costs nothing.
START_WORDS = 1 << 22


class Rows:
    """Grows at the end; `all` shows what is there so far without a copy."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self._words: Words = np.empty(0, np.int64)

    def free(self, rows: int) -> Words:
        """The free end, as long as so many rows; `add` then says how many were written.

        It is no longer than asked for, since the interpreter reads whatever it is given.
        """
        used = self.count * self.width
        needed = used + rows * self.width
        if needed > len(self._words):
            grown = np.empty(max(needed, 2 * len(self._words), START_WORDS), np.int64)
            grown[:used] = self._words[:used]
            self._words = grown
        return self._words[used:needed]

    def add(self, rows: int) -> None:
        """Keep the first `rows` rows of the free end."""
        self.count += rows

    def append(self, words: Words) -> None:
        """Copy whole rows to the end."""
        rows = len(words) // self.width
        self.free(rows)[: len(words)] = words
        self.add(rows)

    def all(self) -> Words:
        """Every row so far: i64[count, width], valid until the next one is added."""
        return self._words[: self.count * self.width].reshape(self.count, self.width)

    def clear(self) -> None:
        """Forget the rows, keep the room."""
        self.count = 0
