"""What the passes over lanes leave: the same bits as the module as written, after each of them."""

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.target import native
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import If, StructType
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import expressions, statements
from quantdsl.passes import lane_passes
from quantdsl.passes.scopes import promoted
from quantdsl.passes.uniform import uniform
from tests.backtest.programs import strategy
from tests.codegen.programs import BUFFER_WORDS, random_module, random_words
from tests.passes.lanes import (
    RESULTS,
    all_words,
    checked_of,
    checked_text,
    data_of,
    differing,
    final,
    run_events,
    run_rows,
    stages,
    words_of,
)
from tests.strategies.headers import ON_BARS

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*ON_BARS, *(ROOT / "bench/strategies").glob("*.qdsl")])
GENERATED = 6
BARS = 200


@pytest.mark.parametrize("seed", range(400, 410))
def test_each_pass_keeps_the_meaning_of_generated_programs(seed):
    rng = random.Random(seed)
    module = random_module(seed, 5)
    cold = [func for func in module.funcs if func.name not in module.entries and rng.random() < 0.3]
    module = msgspec.structs.replace(
        module,
        funcs=tuple(msgspec.structs.replace(f, cold=f in cold) for f in module.funcs),
    )
    whole = frozenset(
        field.name for struct in module.structs if struct.name == "S" for field in struct.fields
    )
    for entry in module.entries:
        expected = outcomes(module, entry, seed)
        for name, made in stages(module, whole, entry=entry).items():
            assert outcomes(made, entry, seed) == expected, (entry, name)


def outcomes(module, entry, seed):
    """What an entry leaves of some inputs."""
    rng = random.Random(seed)
    leaves = Layout(module.structs).leaves(StructType("S"))
    kinds = np.array([leaf.type for leaf in leaves for _ in range(leaf.words)])
    interpreter, found = Interpreter(module), []
    for turn in range(3):
        words, buffer = random_words(rng, list(kinds)), random_words(rng, ["f64"] * BUFFER_WORDS)
        value = interpreter.call(entry, words, buffer, 0.5, 3, turn % 2 == 0)
        words[np.isnan(words.view(np.float64)) & (kinds == "f64")] = 0
        buffer[np.isnan(buffer.view(np.float64))] = 0
        found.append((repr(value), words.tobytes(), buffer.tobytes()))
    return found


def same_after_each_pass(checked, bars):
    """The oracle's whole state after every pass, that of machine code after the last one."""
    module, data = checked.lane_module(), data_of(checked)
    kept = all_words(module)
    expected = final(checked, module, Interpreter(module), data, bars, {}, results=kept)
    for name, made in stages(module, kept).items():
        oracle = final(checked, made, Interpreter(made), data, bars, {}, results=kept, pieces=3)
        assert oracle == expected, name
    fewer = stages(module, RESULTS)["outline"]
    target = native()
    machine = Program(assemble(emit(fewer, target), target), fewer, target)
    found = final(checked, fewer, machine, data, bars, {}, results=RESULTS, pieces=2)
    assert found == {p: word for p, word in expected.items() if p.startswith(tuple(RESULTS))}
    return expected


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_pass_keeps_the_bits_of_shipped_strategies(path):
    same_after_each_pass(checked_of(path), BARS)


@pytest.mark.parametrize("seed", range(GENERATED))
def test_each_pass_keeps_the_bits_of_generated_strategies(seed):
    same_after_each_pass(checked_text(strategy(seed)), BARS)


@pytest.mark.parametrize("depth", [None, 0])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_lanes_over_rows_of_another_point_do_what_lanes_over_events_do(path, depth):
    checked = checked_of(path)
    module, data = checked.lane_module(), data_of(checked)
    kept = all_words(module) if depth is None else RESULTS
    split = lane_passes(module, kept, differing(module), depth=depth)
    verify(split)
    assert "rows" in split.entries
    shifts = (0, 1, 2)
    lanes = run_rows(checked, split, Interpreter(split), data, BARS, shifts, pieces=3)
    for shift, memory in zip(shifts, lanes, strict=True):
        plain = run_events(checked, module, Interpreter(module), data, BARS, shift, pieces=2)
        assert words_of(memory, kept) == words_of(plain, kept)
    target = native()
    machine = Program(assemble(emit(split, target), target), split, target)
    (found,) = run_rows(checked, split, machine, data, BARS, shifts[:1], pieces=1)
    assert words_of(found, kept) == words_of(lanes[0], kept)


def test_what_lanes_share_is_gone_from_them():
    checked = checked_of(ROOT / "bench/strategies/ema_cross.qdsl")
    module = checked.lane_module()
    split = lane_passes(module, frozenset({"e.equity"}), differing(module))
    lane = next(func for func in split.funcs if func.name == "lane")
    held = promoted(lane)
    assert {"e.equity@s", "p1@s", "e.positions[0].lots@s"} <= held.keys()
    assert not {"e.now@s", "e.market[0].close@s", "ticked@s", "e.metrics.trades@s"} & held.keys()
    same = uniform(split, "lane", differing(split))
    branches = [stmt for stmt in statements(lane.body) if isinstance(stmt, If)]
    assert sum(map(same.expr, (branch.cond for branch in branches))) >= 4
    assert "e.equity@s" not in same.locals
    assert len(list(expressions(lane.body))) < 1400
