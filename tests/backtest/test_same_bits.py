"""The same events give the same bits: interpreter and machine code on whole strategies."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import settings, values
from quantdsl.backtest.prepare import day_rule, prepare
from quantdsl.backtest.program import Run
from quantdsl.backtest.run import run_end
from quantdsl.check import Checked, check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.config import resolve
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


def run(checked: Checked, module: Module, executor: object, events: int) -> Run:
    """A run of the first `events` events of the built-in market."""
    data = prepare(checked).data
    config = resolve(strategy=settings.of_strategy(checked.strategy.chosen)).config
    made = Run(checked, module, executor)
    settings.write(made.memory, config, data, day_rule(data))
    values.write(made.memory, checked.strategy.params, values.chosen(checked.strategy.params, {}))
    made.memory.set("trade_from", np.iinfo(np.int64).min)
    made.memory.set("curve_on", True)
    made.start()
    chunk = next(iter(data.chunks()))[:events]
    made.feed(chunk)
    made.feed(run_end(int(chunk["ts_event"][-1])))
    return made


def assert_same(text: str, path: str = "<input>", events: int = EVENTS) -> Run:
    """Interpreter and machine code leave the same state, records and curve."""
    checked, diagnostics = check_source(Source(text, path))
    assert checked is not None, diagnostics
    checked = checked.sized(len(prepare(checked).data.instruments))
    module = checked.module(prepare(checked).uses)
    verify(module)
    oracle = run(checked, module, Interpreter(module), events)
    target = native()
    machine = run(checked, module, Program(object_code(module, target), module, target), events)
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
