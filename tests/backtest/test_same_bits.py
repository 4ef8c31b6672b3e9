"""The same events give the same bits: interpreter and machine code on whole strategies."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import Arranged, arrange
from quantdsl.backtest.program import Run
from quantdsl.backtest.run import run_end
from quantdsl.check import Checked, check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events.merge import Events
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Module
from quantdsl.ir.verify import verify
from quantdsl.lang.source import Source
from tests.backtest.programs import strategy
from tests.backtest.test_every_target import WOKEN
from tests.backtest.tick_runs import canonical

ROOT = Path(__file__).parent.parent.parent
EVENTS = 400
GENERATED = 24


def run(
    checked: Checked, arranged: Arranged, module: Module, executor: object, events: Events
) -> Run:
    """A run over events of the built-in market."""
    made = Run(checked, module, executor)
    arranged.fill(made.memory)
    values.write(made.memory, checked.strategy.params, values.chosen(checked.strategy.params, {}))
    made.memory.set("trade_from", np.iinfo(np.int64).min)
    made.memory.set("curve_on", True)
    made.start()
    made.feed(events)
    made.feed(run_end(int(events["ts_event"][-1])))
    return made


def first_events(arranged: Arranged, count: int) -> Events:
    """The first `count` events of the data."""
    return next(iter(arranged.data.chunks()))[:count]


def assert_same(text: str, path: str = "<input>", events: int = EVENTS) -> Run:
    """Interpreter and machine code leave the same state, records and curve."""
    checked, diagnostics = check_source(Source(text, path))
    assert checked is not None, diagnostics
    arranged = arrange(checked)
    checked = arranged.sized(checked)
    module = checked.module(arranged.uses)
    verify(module)
    target, fed = native(), first_events(arranged, events)
    oracle = run(checked, arranged, module, Interpreter(module), fed)
    program = Program(object_code(module, target), module, target)
    machine = run(checked, arranged, module, program, fed)
    assert oracle.all_records().tobytes() == machine.all_records().tobytes()
    assert (oracle.curve() == machine.curve()).all()
    different = np.flatnonzero(canonical(oracle) != canonical(machine))
    assert not len(different), different
    return machine


@pytest.mark.parametrize("path", sorted((ROOT / "strategies").glob("*.qdsl")), ids=lambda p: p.stem)
def test_shipped_strategies(path: Path) -> None:
    text, events = path.read_text(), 1500
    if "\nkernel " in text:  # a window of 1,024 is full by then; the interpreter makes each turn
        text = text.replace('universe "NASDAQ100"', 'universe "SYN1", "SYN2"')
        events = 2 * 1035
    assert_same(text, str(path), events=events)


def test_orders_inside_bars() -> None:
    assert_same(WOKEN)


@pytest.mark.parametrize("seed", range(GENERATED))
def test_generated_strategies(seed: int) -> None:
    made = assert_same(strategy(seed))
    assert len(made.curve()) > EVENTS // 2
