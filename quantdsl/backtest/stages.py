"""`quantdsl explain --stage`: what a file looks like after any stage of the compiler."""

import json
from pathlib import Path

import llvmlite.binding as llvm
import msgspec

from quantdsl.check import compile_file
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import optimise
from quantdsl.codegen.target import Target, native
from quantdsl.ir.ops import Module
from quantdsl.ir.show import show as show_ir
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from quantdsl.passes import PASSES

STAGES: tuple[str, ...] = ("ast", "ir", *(name for name, _ in PASSES), "llvm", "asm")
"""In the order in which they happen; `llvm` is before and `asm` after LLVM's own passes."""


def show(path: Path, stage: str) -> str:
    """The text of a stage. SourceError if the file does not compile that far."""
    if stage == "ast":
        parsed = parse(Source.read(path))
        return json.dumps(msgspec.to_builtins(parsed.file), indent=1)
    module = compile_file(path).module()
    if stage == "ir":
        return show_ir(module)
    for name, apply in PASSES:
        module = apply(module)
        if name == stage:
            return show_ir(module)
    target = native()
    return emit(module, target) if stage == "llvm" else _assembly(module, target)


def _assembly(module: Module, target: Target) -> str:
    machine = target.machine()
    parsed = llvm.parse_assembly(emit(module, target), llvm.create_context())
    parsed.data_layout = str(machine.target_data)
    optimise(parsed, machine)
    return str(machine.emit_assembly(parsed))
