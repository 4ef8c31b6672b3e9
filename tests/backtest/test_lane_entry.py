"""A lane decides what the single run decides: the same cash, positions and metrics to the bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantdsl.backtest import settings, values
from quantdsl.backtest.prepare import arrange, day_rule
from quantdsl.backtest.program import Memory, Run
from quantdsl.backtest.run import run_end
from quantdsl.check import Checked, check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.config import resolve
from quantdsl.data.events import Data
from quantdsl.events import layout
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import StructType
from quantdsl.ir.verify import verify
from quantdsl.lang.source import Source
from tests.backtest.programs import strategy
from tests.strategies.headers import ON_BARS

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*ON_BARS, *(ROOT / "bench/strategies").glob("*.qdsl")])
STATE = StructType("State")
EVENTS = 1200
NO_COLUMNS = np.zeros(1, np.int64)


def checked_of(path: Path) -> Checked:
    return checked_text(path.read_text(), str(path))


def checked_text(text: str, path: str = "<input>") -> Checked:
    checked, diagnostics = check_source(Source(text, path))
    assert checked is not None, diagnostics
    return checked


def written(checked: Checked, data: Data, memory: Memory, params: dict[str, object]) -> None:
    """Config and params as a run has them."""
    config = resolve(strategy=settings.of_strategy(checked.strategy.chosen)).config
    settings.write(memory, config, data, day_rule(data))
    values.write(memory, checked.strategy.params, values.chosen(checked.strategy.params, params))
    memory.set("trade_from", np.iinfo(np.int64).min)


def events_of(data: Data, count: int = EVENTS) -> np.ndarray:
    """The first events of the data and the end of the run."""
    chunk = next(iter(data.chunks()))[:count]
    return np.concatenate([chunk, run_end(int(chunk["ts_event"][-1]))])


def decided(memory: Memory) -> dict[str, bytes]:
    """Every word of the engine that both have, the outbox left out."""
    kept = {}
    for leaf in memory.layout.leaves(STATE):
        if leaf.path.startswith("e.") and not leaf.path.startswith(("e.outbox", "e.news")):
            kept[leaf.path] = memory.view(leaf.path).tobytes()
    return kept


def single(checked: Checked, data: Data, events: np.ndarray, params: dict[str, object]) -> Memory:
    module = checked.module()
    target = native()
    run = Run(checked, module, Program(object_code(module, target), module, target))
    written(checked, data, run.memory, params)
    run.start()
    run.feed(events)
    assert run.memory.get("e.metrics.bars") > 0
    return run.memory


def lane(
    checked: Checked,
    executor: Any,
    memory: Memory,
    data: Data,
    events: np.ndarray,
    params: dict[str, object],
    pieces: int = 1,
) -> Memory:
    written(checked, data, memory, params)
    executor.call("init", memory.words)
    for piece in np.array_split(events, pieces):
        words = np.ascontiguousarray(piece).view(np.int64).reshape(-1, layout.WORDS)
        executor.call("lane", memory.words, words.reshape(-1), len(words), NO_COLUMNS)
    return memory


def assert_as_single(checked: Checked, params: dict[str, object], count: int = EVENTS) -> None:
    data = arrange(checked).data
    events = events_of(data, count)
    expected = decided(single(checked, data, events, params))
    module = checked.lane_module()
    verify(module)
    target = native()
    machine = Program(object_code(module, target), module, target)
    for executor, pieces in ((Interpreter(module), 1), (machine, 1), (machine, 3)):
        memory = lane(checked, executor, Memory(module), data, events, params, pieces)
        assert decided(memory) == expected


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_shipped_strategies(path: Path) -> None:
    assert_as_single(checked_of(path), {})


@pytest.mark.parametrize("seed", range(8))
def test_generated_strategies(seed: int) -> None:
    assert_as_single(checked_text(strategy(seed)), {}, 400)
