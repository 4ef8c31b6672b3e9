"""Quotients and roots in a straight line are those of NVIDIA's assembler, step by step."""

import re
from collections import Counter

import pytest

from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.codegen.sass import disassembled
from quantdsl.codegen.short import SHORT_BODIES
from quantdsl.ir.ops import Module
from quantdsl.passes.short import QUOTIENT, ROOT, SHORT

KERNEL = """\
define ptx_kernel void @k(ptr %p) {{
  %x = load double, ptr %p
  %next = getelementptr double, ptr %p, i64 1
  %y = load double, ptr %next
  %q = {value}
  store double %q, ptr %p
  ret void
}}"""
PLAIN = {
    QUOTIENT: "fdiv double %x, %y",
    ROOT: "call double @llvm.sqrt.f64(double %x)\n",
}
ARGUMENTS = {QUOTIENT: "double %x, double %y", ROOT: "double %x"}
STEP = re.compile(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?P\d )?\s*((?:MUFU|DFMA|DMUL|DADD)[.\w]*)")


def machine_code(architecture: str, name: str, *, plain: bool) -> str:
    """A kernel with one quotient or root: as the assembler writes it, or we do."""
    target = target_of(architecture)

    def outside(_: Module, shared: Shared):
        value = f"call double @{shared.signatures[name].symbol}({ARGUMENTS[name]})"
        yield KERNEL.format(value=PLAIN[name] if plain else value)
        if plain and name == ROOT:
            yield "declare double @llvm.sqrt.f64(double)"

    text = emit(Module((), (), SHORT, ()), target, outside, bodies=SHORT_BODIES)
    parsed, machine = optimised(text, target)
    return disassembled(assembled(str(machine.emit_assembly(parsed)), architecture))


def steps(code: str) -> list[str]:
    """The floating instructions of the kernel itself up to its first branch."""
    lines = code[code.index(".text.k:") :].splitlines()
    end = next(n for n, line in enumerate(lines) if "BRA" in line or "EXIT" in line)
    return [found[1] for line in lines[:end] if (found := STEP.match(line))]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", [QUOTIENT, ROOT])
def test_the_assembler_takes_the_same_steps(name, architecture):
    theirs = steps(machine_code(architecture, name, plain=True))
    code = machine_code(architecture, name, plain=False)
    ours = steps(code)
    assert theirs[0].startswith("MUFU")
    halved = ["DMUL"] * (name == ROOT)  # half an inverse: they count its exponent down
    assert Counter(ours) == Counter([*theirs, *halved])
    assert "CALL" not in code
