"""Kernels of threads in several blocks: machine code of GPUs, and races between blocks."""

import re

import numpy as np
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.grids import launches_of
from tests.backtest.tensor_programs import KEPT, STENCIL, TENSOR_PROGRAMS

OF_THREADS = [name for name, (text, _) in TENSOR_PROGRAMS.items() if "@workgroup" in text]


def kernel_of(text, tmp_path):
    path = tmp_path / "kernels.qdsl"
    path.write_text(text)
    return quantdsl.kernel(path)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", OF_THREADS)
def test_they_are_machine_code_of_a_gpu(name, architecture, tmp_path):
    text, sizes = TENSOR_PROGRAMS[name]
    kernel = kernel_of(text, tmp_path)
    target = target_of(architecture)
    made = launches_of(kernel.work(sizes), target, gpu=True)
    for start in made.starts:
        parsed, machine = optimised(start.text, target)
        ptx = str(machine.emit_assembly(parsed))
        assert f".maxntid {start.threads}" in ptx
        assert "call" not in ptx
        assert assembled(ptx, architecture).startswith(b"\x7fELF")


def test_an_atomic_has_its_scope(tmp_path):
    text, sizes = TENSOR_PROGRAMS["tally"]
    made = launches_of(kernel_of(text, tmp_path).work(sizes), target_of("sm_90"), gpu=True)
    (start,) = made.starts
    parsed, machine = optimised(start.text, target_of("sm_90"))
    ptx = str(machine.emit_assembly(parsed))
    found = set(re.findall(r"(?:red|atom)\.\S*", ptx))
    relaxed = {"add.u64", "min.s64", "xor.b64"}
    assert found == {*(f"atom.global.{op}" for op in relaxed), "atom.sys.max.s64"}
    assert start.grid == 3 * 2 * 2


RACE = """language 1

@workgroup(32)
@grid(ceil(n / 32))
kernel racy(x: tensor[float, n], inout y: tensor[float, n], inout k: tensor[int, n]):
    let i = block.x * block_size.x + thread.x
    if i < n:
        y[i] = x[i]
    {first}
    {second}
"""
FAULTS = {
    "its own element": ("barrier()", "if i < n:\n        y[i] += 1.0", []),
    "another one's, behind a barrier": (
        "barrier()", "if i < n and thread.x == 3 and i > 0:\n        y[i] += y[i - 1]", []
    ),
    "another one's, with no barrier": (
        "", "if i < n and thread.x == 3 and i > 0:\n        y[i] += y[i - 1]", [(8, 11)]
    ),
    "that of another block": (
        "barrier()", "if i < n and thread.x == 0 and i > 0:\n        y[i] += y[i - 1]", [(8, 11)]
    ),
    "one element of all blocks": (
        "barrier()", "if thread.x == 5:\n        y[0] = 1.0", [(8, 11), (11, 11)]
    ),
    "additions of the device": ("barrier()", "atomic_add(k[0], 1)", []),
    "additions of a block": ("barrier()", "atomic_add(k[0], 1, scope = block)", [(10, 10)]),
    "additions and bits": (
        "atomic_add(k[0], 1)\n    barrier()", "atomic_or(k[0], 1)", [(9, 11)]
    ),
    "in order": ("let old = atomic_add(y[0], 1.0)", "if old > 1e9:\n        k[0] = 1", [(8, 9)]),
    "in order of the device": (
        "let old = atomic_exchange(k[0], lane)", "if old < 0:\n        y[0] = 1.0", []
    ),
    "in order of a block": (
        "let old = atomic_exchange(k[0], lane, scope = block)",
        "if old < -99:\n        y[0] = 1.0", [(9, 9)],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_race_between_blocks_is_found_and_its_lines_named(name, tmp_path):
    first, second, wanted = FAULTS[name]
    kernel = kernel_of(RACE.format(first=first, second=second), tmp_path)
    n = 70
    bound = kernel.bound((np.ones(n), np.zeros(n), np.arange(n)), {})
    lines = [fault.lines for fault in kernel.watched(bound)]
    assert sorted(set(lines)) == wanted


def test_the_command_tells_of_races_between_blocks(tmp_path, capsys):
    path = tmp_path / "racy.qdsl"
    path.write_text(RACE.format(first="", second="atomic_add(k[0], 1, scope = block)"))
    assert cli.run(["check", str(path), "--races"]) == 1
    assert "race in kernel racy: one block adds to an element that" in capsys.readouterr().out
    path.write_text(KEPT)
    assert cli.run(["check", str(path), "--races"]) == 0
    assert "kernel kept: no race was seen among 32 threads" in capsys.readouterr().out


def test_blocks_of_other_sizes_are_other_launches(tmp_path):
    kernel = kernel_of(STENCIL.format(type="float"), tmp_path)
    for n in (1, 64, 65, 300):
        x, y = np.arange(float(n)), np.zeros(n)
        for device in ("cpu", "simulated"):
            kernel(x, y, device=device)
            before = np.where(np.arange(n) % 64 == 0, 0.0, np.roll(x, 1))
            last = np.arange(n) % 64 == 0
            before[last] = [x[i + 63] if i + 63 < n else 0.0 for i in np.flatnonzero(last)]
            assert y.tolist() == ((before + x) / 2).tolist()
