"""Vector code leaves, lane by lane, what the interpreter leaves, wherever lanes part."""

import re
from collections.abc import Iterable

import numpy as np
import pytest

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.jit import assemble, optimised
from quantdsl.codegen.lanes import InterpretedLanes
from quantdsl.codegen.simd import simd_program
from quantdsl.codegen.target import Target, avx2, avx512, native_lanes, neon
from quantdsl.ir.verify import verify
from quantdsl.passes import lane_passes
from tests.codegen.elf import undefined_symbols
from tests.codegen.lane_programs import every_path, random_lanes, swept, swept_paths
from tests.codegen.simd_programs import (
    EVERY_WAY,
    TARGETS,
    calling,
    elements,
    kernel,
    parting,
    returning,
    text,
    vector_lanes,
    whole_events,
    whole_results,
)
from tests.codegen.test_simd_ops import module as every_operation

BATCHES, BATCH = 8, 10


def difference(seed: int, targets: Iterable[Target]) -> str | None:
    """What differs first between the interpreter and vector code; None if nothing."""
    module = vector_lanes(seed)
    verify(module)
    expected = swept(InterpretedLanes(module), module, seed)
    varying = swept_paths(module, seed)
    passed = lane_passes(module, every_path(module))
    for target in targets:
        for form, words in ((module, None), (module, varying), (passed, varying)):
            found = swept(kernel(form, target, words), module, seed)
            if not np.array_equal(found, expected):
                where = np.argwhere(found != expected)[:3].tolist()
                passes = "after all passes" if form is passed else "as it stands"
                return f"seed {seed} {passes}, {target.lanes} lanes: [word, lane] {where}"
    return None


def small_differs(module, varying: str, target) -> bool:
    """Whether a small module leaves other words than the interpreter."""
    points = np.arange(10).reshape(1, -1)
    found = whole_results(kernel(module, target, frozenset({varying})), module, points)
    return not np.array_equal(found, whole_results(InterpretedLanes(module), module, points))


SMALL = {
    "returning": (returning(), "turns"),
    "calling": (calling(), "x"),
    "elements": (elements(), "x"),
    "parting": (parting(), "x"),
}


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("name", SMALL)
def test_small_programs(name, way):
    """Each is about one order of events that random programs seldom have."""
    assert not small_differs(*SMALL[name], EVERY_WAY[way])


@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_programs_leave_the_interpreters_bits(batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        assert difference(seed, [TARGETS[seed % len(TARGETS)]]) is None


@pytest.mark.parametrize("seed", range(300, 308))
def test_every_width_leaves_the_same_bits(seed):
    assert difference(seed, EVERY_WAY.values()) is None


@pytest.mark.parametrize("seed", range(6))
def test_calls_and_chunks_of_events(seed):
    """`lane` calls its step out of line: scalar code on each lane's own State."""
    module = random_lanes(seed)
    expected = swept(InterpretedLanes(module), module, seed)
    for target in TARGETS:
        assert np.array_equal(swept(kernel(module, target), module, seed), expected)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_calls_that_are_given_whole_events(way):
    """Their words lie side by side, those of a State do not."""
    module = whole_events()
    verify(module)
    expected = swept(InterpretedLanes(module), module, 1)
    assert np.array_equal(swept(kernel(module, EVERY_WAY[way]), module, 1), expected)


def test_the_kernel_comes_from_the_cache(tmp_path, monkeypatch):
    cache, module = Cache(tmp_path / "cache"), vector_lanes(1)
    paths, target = every_path(module), native_lanes()
    fresh = swept(simd_program(module, paths, target, cache, paths), module, 1)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    again = simd_program(module, paths, target, cache, paths)
    assert np.array_equal(swept(again, module, 1), fresh)


@pytest.mark.parametrize("target", [avx512(), avx2(), neon()], ids=lambda t: f"{t.lanes}_lanes")
def test_the_code_calls_nothing_outside_of_itself(target):
    for seed in range(4):
        code = assemble(text(vector_lanes(seed), target), target)
        assert undefined_symbols(code) == []


REGISTERS = {
    8: r"\bv(?:add|sub|mul|fmadd\w+)pd\s.*%zmm",
    4: r"\bv(?:add|sub|mul|fmadd\w+)pd\s.*%ymm",
    2: r"\bf(?:add|sub|mul|mla)\s+v\d+\.2d",
}
INTEGERS = {
    8: r"\bv(?:padd|psub|pmull)q\s.*%zmm",
    4: r"\bv(?:padd|psub)q\s.*%ymm",
    2: r"\b(?:add|sub)\s+v\d+\.2d",
}


@pytest.mark.parametrize("target", [avx512(), avx2(), neon()], ids=lambda t: f"{t.lanes}_lanes")
@pytest.mark.parametrize("expected", [REGISTERS, INTEGERS], ids=["floats", "integers"])
def test_the_finished_code_uses_the_wide_registers(target, expected):
    code = assembly(text(every_operation(), target), target)
    assert len(re.findall(expected[target.lanes], code)) >= 5


def test_avx2_code_needs_nothing_newer():
    code = assembly(text(every_operation(), avx2()), avx2())
    assert not re.search(r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|[23]\d)", code)


def assembly(code: str, target) -> str:
    """The assembly text of the object file."""
    parsed, machine = optimised(code, target)
    return machine.emit_assembly(parsed)


def test_no_instruction_allows_other_bits():
    code = text(vector_lanes(7), avx512())
    flags = r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|exact|disjoint|nneg)\b"
    assert not re.search(flags, code)


def test_the_same_module_gives_the_same_text():
    assert text(vector_lanes(3), avx2()) == text(vector_lanes(3), avx2())
