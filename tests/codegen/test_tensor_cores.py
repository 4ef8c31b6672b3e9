"""Products on tensor cores: how their factors lie, and a schedule that keeps all in registers."""

import re

import numpy as np
import pytest

from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.codegen.target import native
from quantdsl.codegen.tensor_cores import (
    ENTRY,
    PACK_ENTRY,
    TYPES,
    has_tensor_cores,
    multiply_launch,
    pack_launch,
)
from quantdsl.devices.simulated import kernel_of
from quantdsl.ir.tensors import ROUNDED
from quantdsl.passes.nests import Operand, Product
from quantdsl.passes.packs import LINKS, Packs, packed


def packs(n: int, k: int, m: int, rounded: str) -> Packs:
    a, b, c = Operand("a", k, 1, 0), Operand("b", 1, m, 0), Operand("c", m, 1, 0)
    return packed(Product(n, m, k, a, b, c, single=True), rounded, 1)


def ptx(text: str, architecture: str) -> str:
    target = target_of(architecture)
    parsed, machine = optimised(f'target triple = "{target.triple}"\n{text}', target)
    made = str(machine.emit_assembly(parsed))
    assert assembled(made, architecture).startswith(b"\x7fELF")
    return made


@pytest.mark.parametrize("rounded", TYPES)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_a_step_is_32_instructions_over_what_was_copied_ahead(rounded, architecture):
    made = multiply_launch(packs(512, 256, 384, rounded))
    text = ptx(made.text, architecture)
    name = {"bf16": "f32.bf16.bf16.f32", "f16": "f32.f16.f16.f32", "tf32": "f32.tf32.tf32.f32"}
    assert len(re.findall(rf"mma\.sync\.aligned\.\w+\.row\.col\.{name[rounded]}", text)) == 32
    assert text.count("cp.async.cg.shared.global") == 4 * 3  # three steps ahead, and the loop's
    assert {line.split()[0] for line in text.splitlines() if "ld.shared" in line} == {
        "ld.shared.v4.b32"
    }
    assert "ld.local" not in text
    assert "st.local" not in text
    assert (made.grid, made.shared_bytes) == (2 * 3, 48 * 1024)


@pytest.mark.parametrize("rounded", TYPES)
def test_odd_sizes_and_factors_are_machine_code_too(rounded):
    made = packs(131, 37, 51, rounded)
    for launch in (
        pack_launch(made.a, rounded, across=False),
        pack_launch(made.b, rounded, across=True),
        multiply_launch(made),
    ):
        ptx(launch.text, "sm_90")


def test_what_has_tensor_cores():
    assert has_tensor_cores(target_of("sm_80"))
    assert not has_tensor_cores(target_of("sm_75"))
    assert not has_tensor_cores(native())


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
def test_a_factor_lies_as_the_instruction_takes_it(across):
    """PTX ISA, mma.m16n8k16: thread 4 g + t of a warp has of rows g and g + 8 (of b: of column g)
    the links 2 t, 2 t + 1, and 8 more, two in a word; b's come for two instructions."""
    if native().cpu not in ("x86-64-v3", "x86-64-v4"):
        pytest.skip("this CPU rounds to half precision by a library, which a kernel has none of")
    one = packs(300, 37, 131, "f16")
    pack = one.b if across else one.a
    rng = np.random.default_rng(3)
    from_ = rng.standard_normal((37, 131) if across else (300, 37)).astype(np.float32)
    made = pack_launch(pack, "f16", across=across)
    text = made.text[: made.text.index("@quantdsl_memory")].replace("ptx_kernel ", "")
    text = text.replace("declare i32 @llvm.nvvm.f2tf32.rna(float)\n", "")
    scratch = np.zeros(pack.first + pack.words, np.int64)
    kernel = kernel_of(f'target triple = "{native().triple}"\n{text}', PACK_ENTRY, 2)
    kernel.launch(made.grid, made.threads, [from_.ctypes.data, scratch.ctypes.data], 0)
    halves = scratch[pack.first :].view(np.float16)
    shape = (pack.strips, pack.steps, pack.tiles, 8, 4, 4, 2)
    found = np.zeros((pack.strips * pack.side, pack.steps * 16), np.float16)
    for at in np.ndindex(shape):
        strip, step, tile, group, thread, word, half = at
        low, later = (word // 2, word % 2) if across else (word % 2, word // 2)
        row = strip * pack.side + 16 * tile + group + 8 * low
        found[row, 16 * step + 2 * thread + half + 8 * later] = halves.reshape(shape)[at]
    rows = from_.T if across else from_
    assert np.array_equal(found[: len(rows), :37], rows.astype(np.float16))
    assert not found[len(rows) :].any()
    assert not found[:, 37:].any()


def test_all_types_are_packed_and_multiplied():
    assert tuple(LINKS) == tuple(TYPES) == ROUNDED


def test_entries_are_those_that_are_started():
    made = packs(16, 16, 16, "bf16")
    assert f"@{PACK_ENTRY}(" in pack_launch(made.a, "bf16", across=False).text
    assert f"@{ENTRY}(" in multiply_launch(made).text
