"""Kernels as blocks of threads: the bits of the interpreter, and machine code of a GPU."""

import re

import numpy as np
import pytest

from quantdsl.codegen.blocks import ENTRY, batch, batch_text
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.codegen.target import native
from quantdsl.devices.simulated import kernel_of
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import BOOL_T, F64_T, ArrayType, bits_to_f64, f64_to_bits
from tests.backtest.kernel_programs import PROGRAMS
from tests.backtest.test_lane_entry import checked_text

INSTRUMENTS = 3
SM_90 = target_of("sm_90")
SCALARS = {"pat": 5, "ahead": 2, "bw": 0.004000000189989805, "n": 290, "on": 1}
"""What each kernel gets; `bw` is an f32."""
OWN = {"ranks": {"n": 3}, "sorted floats": {"n": 9}, "sorted f32": {"n": 9}}
"""What sizes an array is at most what its call says."""


def kernel_in(name):
    """The linked module of a program, and the name of its kernel's function."""
    checked = checked_text(PROGRAMS[name])
    (kernel,) = checked.library.kernels
    module = checked.module()
    return module, next(f.name for f in module.funcs if f.name.partition("[")[0] == kernel)


def rings_of(made, decl, rng):
    """The memory of each window: values, and how many there were."""
    found = {}
    for param in decl.params:
        if isinstance(param.type, ArrayType):
            size = (INSTRUMENTS, param.type.size)
            single = np.abs(rng.normal(scale=0.004, size=size)).astype(np.float32)
            values = single.astype(np.float64)
            whole = param.type.elem != F64_T
            words = rng.integers(-1, 2, size) if whole else values.view(np.int64)
            found[param.name.removeprefix("p.")] = np.ascontiguousarray(words)
            at = param.name.removeprefix("p.") + ".at"
            found[at] = np.array([1000, 1001, 1333], np.int64)
    assert set(found) <= set(made.params)
    return found


def word_of(type_, value):
    return f64_to_bits(float(value)) if type_ == F64_T else int(value)


def interpreted(module, decl, rings, scalars, which):
    args = []
    for param in decl.params:
        name = param.name.removeprefix("p.")
        if isinstance(param.type, ArrayType):
            args.append(rings[name][which].copy())
        elif name in rings:
            args.append(int(rings[name][which]))
        else:
            value = scalars[name]
            args.append(bool(value) if param.type == BOOL_T else value)
    return Interpreter(module).call(decl.name, *args)


def left_by(made, decl, rings, scalars, threads):
    """The kernel after a launch on the simulated device, and the result of each instrument."""
    out = np.zeros(INSTRUMENTS, np.int64)
    types = {param.name.removeprefix("p."): param.type for param in decl.params}
    words = [
        rings[at].ctypes.data
        if at in rings
        else out.ctypes.data
        if at == "out"
        else word_of(types[at], scalars[at])
        for at in made.params
    ]
    kernel = kernel_of(batch_text(made, native(), gpu=False), ENTRY, len(words))
    kernel.launch(INSTRUMENTS, threads, words, shared_bytes=8 * made.shared_words)
    return kernel, out


@pytest.mark.parametrize("threads", [32, 96, 256])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_has_the_bits_of_the_interpreter(name, threads):
    module, symbol = kernel_in(name)
    decl = next(func for func in module.funcs if func.name == symbol)
    made = batch(module, symbol, threads)
    scalars = SCALARS | OWN.get(name, {})
    rings = rings_of(made, decl, np.random.default_rng(threads))
    kernel, out = left_by(made, decl, rings, scalars, threads)
    wanted = [interpreted(module, decl, rings, scalars, which) for which in range(INSTRUMENTS)]
    assert [bits_to_f64(int(word)) for word in out] == wanted
    assert len(set(wanted)) == INSTRUMENTS
    assert kernel.waited == (made.shared_words > 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_machine_code_of_a_gpu(name):
    made = batch(*kernel_in(name), threads=128)
    parsed, machine = optimised(batch_text(made, SM_90, gpu=True), SM_90)
    ptx = str(machine.emit_assembly(parsed))
    assert "bar.sync" in ptx
    assert ("shfl.sync" in ptx) == ("reduce(" in PROGRAMS[name].partition("strategy")[0][30:])
    assert "call" not in ptx
    assert not re.search(r"\bmad\.\w*\.?f32|\.approx|\.ftz", ptx)
    assert ("fma.rn.f32" in ptx) == (name == "product of f32")  # which says so
    assert assembled(ptx, "sm_90").startswith(b"\x7fELF")


def test_single_precision_is_computed_in_32_bits():
    made = batch(*kernel_in("analog"), threads=128)
    parsed, machine = optimised(batch_text(made, SM_90, gpu=True), SM_90)
    ptx = str(machine.emit_assembly(parsed))
    assert {"add.rn.f32", "sub.rn.f32", "mul.rn.f32"} <= set(re.findall(r"\w+\.rn\.f32", ptx))
