"""Strategies as modules of lanes, before and after the passes that make their loop fast."""

import numpy as np

from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.data.events import Data
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T, Module, StructType
from quantdsl.ir.verify import verify
from quantdsl.passes import lane_steps
from quantdsl.passes.rows import ROW_WORDS
from tests.backtest.test_lane_entry import (
    NO_COLUMNS,
    checked_of,
    checked_text,
    events_of,
    lane,
    written,
)

__all__ = ["all_words", "checked_of", "checked_text", "data_of", "final", "stages"]
STATE = StructType("State")
RESULTS = frozenset({"e.metrics", "e.cash", "e.equity", "e.positions"})


def data_of(checked: Checked) -> Data:
    """The built-in market of a strategy."""
    return arrange(checked).data


def all_words(module: Module) -> frozenset[str]:
    """Every field of the state: nothing is dead if the host reads all."""
    fields = next(struct.fields for struct in module.structs if struct.name == STATE.name)
    return frozenset(field.name for field in fields)


def stages(
    module: Module,
    results: frozenset[str],
    varying: frozenset[str] | None = None,
    entry: str = "lane",
) -> dict[str, Module]:
    """The verified module after each pass, by the pass's name."""
    made = {}
    for name, apply in lane_steps(results, varying, entry):
        module = apply(module)
        verify(module)
        made[name] = module
    return made


def differing(module: Module) -> frozenset[str]:
    """The words of the state that lanes differ in when they start: params."""
    return frozenset(name for name in all_words(module) if name[0] == "p" and name[1:].isdigit())


def final(checked, module, executor, data, count, params, *, results, pieces=1) -> dict[str, bytes]:
    """The words below `results` after a lane's run, every NaN as the one NaN."""
    memory = Memory(module)
    lane(checked, executor, memory, data, events_of(data, count), params, pieces)
    return words_of(memory, results)


def words_of(memory: Memory, results: frozenset[str]) -> dict[str, bytes]:
    """The words below `results`, every NaN as the one NaN."""
    found = {}
    for leaf in memory.layout.leaves(STATE):
        if not leaf.path.startswith(tuple(results)):
            continue
        words = memory.view(leaf.path).copy()
        if leaf.type == F64_T:
            words[np.isnan(words.view(np.float64))] = CANONICAL_NAN_BITS
        found[leaf.path] = words.tobytes()
    return found


def started(checked, module, executor, data, shift: int) -> Memory:
    """A lane's state before the first event, its params moved off their defaults."""
    memory = Memory(module)
    written(checked, data, memory, {})
    for path in differing(module):
        memory.set(path, memory.get(path) + shift)
    executor.call("init", memory.words)
    return memory


def run_events(checked, module, executor, data, count, shift, pieces) -> Memory:
    """A lane over events."""
    memory = started(checked, module, executor, data, shift)
    for words, n in in_pieces(data, count, pieces):
        executor.call("lane", memory.words, words, n, NO_COLUMNS)
    return memory


def run_rows(checked, module, executor, data, count, shifts, pieces) -> list[Memory]:
    """Lanes over rows that the state of another point made."""
    width = dict(module.sizes)[ROW_WORDS]
    maker = started(checked, module, executor, data, 3)
    rows = []
    for words, n in in_pieces(data, count, pieces):
        out = np.full((n + 1) * width, 0x5A5A5A, np.int64)  # what was there must not matter
        rows.append((out, executor.call("rows", maker.words, words, n, out)))
    lanes = [started(checked, module, executor, data, shift) for shift in shifts]
    for memory in lanes:
        for out, n in rows:
            executor.call("lane", memory.words, out, n, NO_COLUMNS)
    return lanes


def in_pieces(data: Data, count: int, pieces: int) -> list[tuple[np.ndarray, int]]:
    """The events as words, in several chunks."""
    return [
        (np.ascontiguousarray(piece).view(np.int64).reshape(-1), len(piece))
        for piece in np.array_split(events_of(data, count), pieces)
    ]
