"""The words that a lane leaves behind: which of its state, and what becomes of them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.program import STATE
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import F64_T, Module, StructType
from quantdsl.report.result import Float64s

Int64s = npt.NDArray[np.int64]
METRICS = "e.metrics"
SUM = StructType("sums.Sum")
BLOCK_WORDS = ("count", "total", "squares")


class Word(NamedTuple):
    """One result of a lane."""

    name: str
    path: str
    offset: int
    real: bool  # its bits are a float's


class LaneWords:
    """The words of e.metrics that `names` and the blocks of days need, as rows of results."""

    def __init__(self, module: Module, names: Iterable[str], blocks: int) -> None:
        self._layout = Layout(module.structs)
        self.sums = [word for name in sorted(names) for word in self._words(name)]
        self.blocks = blocks if blocks > 1 else 0
        inner = [
            self._word(f"{METRICS}.blocks[{block}].{part}", part)
            for part in BLOCK_WORDS
            for block in range(self.blocks)
        ]
        self._all = [*self.sums, *inner]
        self.kept = frozenset(word.path for word in self._all)
        self.offsets: Int64s = np.array([word.offset for word in self._all], np.int64)

    def __len__(self) -> int:
        return len(self._all)

    def accumulators(self, words: Int64s) -> Mapping[str, npt.NDArray[np.generic]]:
        """By name, as in a single run, an array of every lane's; `words` is [result, lane]."""
        return {
            word.name: row.view(np.float64) if word.real else row
            for word, row in zip(self.sums, words[: len(self.sums)], strict=True)
        }

    def block_sums(self, words: Int64s) -> Float64s | None:
        """[count, total and squares][block][lane] of the returns of each block of days."""
        if not self.blocks:
            return None
        rows = words[len(self.sums) :].reshape(len(BLOCK_WORDS), self.blocks, -1)
        found = rows.view(np.float64).copy()
        found[0] = rows[0]
        return found

    def _words(self, name: str) -> list[Word]:
        """The words of an accumulator: of a compensated sum its total and what it lost."""
        path = f"{METRICS}.{name}"
        if self._layout.locate(STATE, path).type != SUM:
            return [self._word(path, name)]
        return [self._word(f"{path}.total", name), self._word(f"{path}.carry", f"{name}_lo")]

    def _word(self, path: str, name: str) -> Word:
        slot = self._layout.locate(STATE, path)
        return Word(name, path, slot.offset_words, slot.type == F64_T)
