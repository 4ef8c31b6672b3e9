"""PTX made here is assembled here, always: no GPU and no driver is needed for either."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.lane_words import LaneWords
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.check.checked import check_source, compile_file
from quantdsl.codegen import warps
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.cubin import link_ptx, load_cubin
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import (
    ENTRY,
    PTX_OF_ARCHITECTURE,
    Bounds,
    Ptx,
    architecture_of,
    load_ptx,
    ptx_of_driver,
    target_of,
)
from quantdsl.codegen.target import FLOAT_INTRINSICS
from quantdsl.devices.cuda.tune import ALONE, CANDIDATES, FEW, ONE_ORDER, ROOMY, USUAL
from quantdsl.errors import InternalError, UnavailableError
from quantdsl.ir.ops import BINARY, UNARY, Module
from quantdsl.lang.source import Source
from quantdsl.report.metrics import accumulators
from tests.codegen.lane_programs import random_lanes
from tests.codegen.test_scalar import OPERATIONS
from tests.strategies.headers import ON_BARS
from tests.truth.test_oracle import market

if sys.platform != "linux":
    pytest.skip("NVIDIA has wheels of its linker for Linux only", allow_module_level=True)

ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*ON_BARS, *ROOT.glob("bench/strategies/*.qdsl")])
SM_90 = target_of("sm_90")
NONE: frozenset[str] = frozenset()


def ptx_of(module, bounds=Bounds(), level=1) -> Ptx:  # noqa: B008 (a tuple)
    return load_ptx(module, NONE, SM_90, None, bounds, level)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_strategy_becomes_machine_code(path, tmp_path):
    module = compile_file(path).lane_module()
    cubin = load_cubin(module, NONE, "sm_90", Cache(tmp_path / "cache"))
    assert cubin.code.startswith(b"\x7fELF")
    assert 16 < cubin.registers <= Bounds().registers
    assert cubin.stack_bytes > 1000
    assert cubin.shared_bytes == 0


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("seed", range(3))
def test_generated_programs_assemble_at_every_level(seed, level):
    link_ptx(ptx_of(random_lanes(seed), level=level), "sm_90", None, Bounds())


@pytest.mark.parametrize("architecture", PTX_OF_ARCHITECTURE)
def test_every_architecture_of_the_table_is_assembled(architecture):
    cubin = load_cubin(random_lanes(5), NONE, architecture, None)
    assert cubin.architecture == architecture


@pytest.mark.parametrize("intrinsic", sorted(FLOAT_INTRINSICS))
def test_every_intrinsic_on_the_list_becomes_an_instruction(intrinsic):
    count = 3 if ".fma." in intrinsic else 1
    types = ", ".join(["double"] * count)
    args = ", ".join(f"double %{i}" for i in range(count))
    text = (
        f'target triple = "{SM_90.triple}"\ndeclare double @{intrinsic}({types})\n'
        f"define double @f({types}) {{\n  %r = call double @{intrinsic}({args})\n"
        "  ret double %r\n}\n"
    )
    parsed, machine = optimised(text, SM_90)
    ptx = machine.emit_assembly(parsed)
    assert "call" not in ptx
    assert re.search(r"\t(cvt\.r[pmzn]i|abs|fma\.rn|sqrt\.rn)\.f64", ptx)


@pytest.mark.parametrize("func", OPERATIONS, ids=lambda func: func.name)
def test_every_operation_becomes_instructions_that_round_as_written(func):
    renamed = type(func)("op", func.params, func.result, func.body)
    module = random_lanes(1)
    module = type(module)((), (), (renamed,), ("op",))
    parsed, machine = optimised(emit(module, SM_90), SM_90)
    ptx = machine.emit_assembly(parsed)
    assert "call" not in ptx
    assert not re.search(r"\.(approx|ftz|sat|full)\b", ptx)
    assert ("fma" in ptx) == (func.name in ("fma", "fma32"))
    assert {*UNARY, *BINARY, "fma"} <= {one.name for one in OPERATIONS}


def test_nothing_is_contracted():
    for path in SHIPPED:
        ptx = ptx_of(compile_file(path).lane_module())
        for text in ptx:
            assert not re.search(r"\t(add|sub|mul|div|sqrt)\.f64|mad\.f64|\.approx|\.ftz", text)


@pytest.mark.parametrize(
    "bounds", [Bounds(), FEW, ALONE, ROOMY], ids=["many", "few", "alone", "roomy"]
)
@pytest.mark.parametrize("name", ["ema_cross", "bracket"])
def test_sweeps_assemble_for_many_lanes_and_for_few(name, bounds):
    """Each form of a turn keeps to the registers that its bounds leave a thread."""
    path = ROOT / f"bench/strategies/{name}.qdsl"
    work = prepare_sweep(compile_file(path), path, data=market(2_000)).work
    cubin = load_cubin(work.module, work.kept, "sm_90", None, bounds, varying=work.varying)
    assert 16 < cubin.registers <= bounds.registers


@pytest.mark.parametrize(
    ("row_words", "lap", "near"),
    [(24, 96, True), (40, 48, True), (100, 24, True), (200, 96, False)],
)
def test_a_lap_is_shorter_where_whole_rows_need_the_room(row_words, lap, near):
    """Rows that are too wide even then stay in the GPU's own memory."""
    sizes = {"ROW_WORDS": row_words, "IMAGE_WORDS": 4, "GROUP_WORDS": 24}
    module = Module((), (), (), (), tuple(sizes.items()))
    assert warps.lap_rows(module, ALONE.tiling) == lap
    assert warps.whole_rows(module, ALONE.tiling) == near
    assert warps.shared_words(module, ALONE.tiling) <= warps.SHARED_WORDS_MAX


@pytest.mark.parametrize("bounds", [USUAL, *CANDIDATES, FEW, ALONE, ONE_ORDER])
@pytest.mark.parametrize("group", [0, 936])
def test_tiles_of_many_words_are_short_enough_for_shared_memory(bounds, group):
    sizes = {"ROW_WORDS": 76, "IMAGE_WORDS": 100} | ({"GROUP_WORDS": group} if group else {})
    module = Module((), (), (), (), tuple(sizes.items()))
    assert 0 < warps.shared_words(module, bounds.tiling) <= warps.SHARED_WORDS_MAX


def test_equations_in_single_precision_are_32_bit_instructions():
    path = ROOT / "bench/strategies/ema_cross.qdsl"
    both = []
    for precision in ("f64", "f32"):
        sweep = prepare_sweep(
            compile_file(path), path, data=market(2_000), sweep={"precision": precision}
        )
        work = sweep.work
        ptx = load_ptx(work.module, work.kept, SM_90, None, Bounds(), varying=work.varying)
        link_ptx(ptx, "sm_90", None, Bounds())
        both.append(ptx.own)
    exact, single = both
    assert ".f32" not in exact
    # Of each average and each row of a stride: its distance from the price, and its next value.
    assert single.count("fma.rn.f32") == exact.count("fma.rn.f64") - single.count("fma.rn.f64")
    assert single.count("sub.rn.f32") >= single.count("fma.rn.f32") > 16
    assert not re.search(r"\.ftz|\.approx", single)


def test_what_all_lanes_read_goes_through_the_read_only_cache():
    own = ptx_of(compile_file(ROOT / "bench/strategies/ema_cross.qdsl").lane_module()).own
    loads = re.findall(r"ld\.global(\.\w+)*", own)
    assert own.count("ld.global.nc") >= len(loads) - 1  # all but the states that are resumed
    assert ".visible .entry quantdsl_lanes(" in own
    assert ".maxntid 128" in own
    assert ".minnctapersm 4" in own


def test_strategies_share_the_cold_core(tmp_path):
    rule = """language 1
strategy S:
    bars 5m
    on bar:
        if ta.{}(close, {}) > close:
            buy(value = 10% of equity)
        else:
            close_position()
"""
    cache, found = Cache(tmp_path / "cache"), []
    for average, length in (("sma", 10), ("ema", 25)):
        checked, _ = check_source(Source(rule.format(average, length)))
        module = checked.lane_module()
        kept = LaneWords(module, accumulators(), blocks=1).kept
        found.append(load_ptx(module, kept, SM_90, cache, Bounds()))
    one, two = found
    assert one.shared == two.shared != ""
    assert one.own != two.own
    assert cache.info().entries == 3


def test_machine_code_comes_from_the_cache(tmp_path, monkeypatch):
    cache, module = Cache(tmp_path / "cache"), random_lanes(1)
    fresh = load_cubin(module, NONE, "sm_90", cache)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert load_cubin(module, NONE, "sm_90", cache) == fresh
    with pytest.raises(InternalError, match=FORBID_COMPILE):
        load_cubin(module, NONE, "sm_80", cache)
    with pytest.raises(InternalError, match=FORBID_COMPILE):
        load_cubin(module, NONE, "sm_90", cache, Bounds(64, 8))
    with pytest.raises(InternalError, match=FORBID_COMPILE):
        load_cubin(module, frozenset({"x"}), "sm_90", cache)


def test_a_launch_bounds_the_registers():
    assert Bounds(128, 8).registers == 64
    assert Bounds(128, 5).registers == 96
    assert Bounds(32, 1).registers == 255
    module = compile_file(ROOT / "bench/strategies/bracket.qdsl").lane_module()
    for bounds in (Bounds(128, 8), Bounds(64, 8)):
        cubin = load_cubin(module, NONE, "sm_90", None, bounds)
        assert cubin.registers <= bounds.registers


def test_the_lowest_ptx_version_that_serves():
    assert target_of("sm_80").features == target_of("sm_90", (12, 0)).features == "+ptx80"
    assert target_of("sm_100").features == "+ptx86"
    assert target_of("sm_120", (12, 8)).features == "+ptx87"
    assert ptx_of_driver((13, 4)) == 90
    assert ptx_of_driver((12, 6)) == 85


def test_what_cannot_be_served_is_named():
    with pytest.raises(UnavailableError, match=r"no architecture 'sm_20'\nhelp: one of sm_75"):
        target_of("sm_20")
    with pytest.raises(UnavailableError, match=r"has CUDA 12\.4, but sm_120 needs 12\.8"):
        target_of("sm_120", (12, 4))
    with pytest.raises(UnavailableError, match=r"has CUDA 11\.8, but sm_80 needs 12\.0"):
        target_of("sm_80", (11, 8))
    with pytest.raises(UnavailableError, match=r"capability 6\.1 is not supported"):
        architecture_of((6, 1))


def test_the_architecture_of_a_gpu():
    assert architecture_of((8, 0)) == "sm_80"
    assert architecture_of((8, 9)) == "sm_89"
    assert architecture_of((9, 0)) == "sm_90"
    assert architecture_of((12, 3)) == "sm_121"


def test_ptx_that_does_not_assemble_is_our_own_fault():
    with pytest.raises(InternalError, match=r"(?s)nvJitLink.*syntax error"):
        link_ptx(
            Ptx(".version 8.0\n.target sm_90\n.address_size 64\nbad", ""), "sm_90", None, Bounds()
        )


def test_the_linker_assembles_anew(monkeypatch):
    """Its own cache would give the code without a word on spills, by which kernels are chosen."""
    linker = importlib.import_module("cuda.bindings.nvjitlink")
    create, asked = linker.create, []

    def noted(count, options):
        asked.append(options)
        return create(count, options)

    monkeypatch.setattr(linker, "create", noted)
    load_cubin(random_lanes(2), NONE, "sm_90", None)
    assert asked
    assert all("-no-cache" in options for options in asked)


def test_machine_code_names_the_kernel():
    code = load_cubin(random_lanes(2), NONE, "sm_90", None).code
    assert ENTRY.encode() in code
    assert np.frombuffer(code, "<u2", 1, 18)[0] == 190  # EM_CUDA
