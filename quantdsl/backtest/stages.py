"""A strategy file as each stage of the compiler sees it: `quantdsl explain --stage`."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from quantdsl.backtest import points
from quantdsl.backtest.critical import proofs, prove_critical
from quantdsl.backtest.kernel_text import kernels_text
from quantdsl.backtest.lane_code import lane_code, whole_plan
from quantdsl.check import Checked, compile_file
from quantdsl.check.columns import LOAD_GPU, NO_COLUMNS, Plan
from quantdsl.check.few import few_orders
from quantdsl.check.lanes import column
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.cubin import link_ptx
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.occupancy import occupancy
from quantdsl.codegen.ptx import Bounds, Ptx, gpu_part, ptx_text, target_of
from quantdsl.codegen.sass import disassembled
from quantdsl.codegen.target import native
from quantdsl.codegen.turn import turn_proof
from quantdsl.config import Precision, SweepConfig
from quantdsl.errors import ConfigError
from quantdsl.ir.ops import Module
from quantdsl.ir.show import show as show_ir
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from quantdsl.passes import PASSES, run_passes

PASS_NAMES = tuple(name for name, _ in PASSES)
GPU_STAGES = ("ptx", "sass")
PLAN = "plan"
PROOF = "proof"
KERNELS = "kernels"
STAGES = ("ast", PLAN, "ir", *PASS_NAMES, "llvm", "optimised", "asm", PROOF, *GPU_STAGES, KERNELS)
"""In the order in which the compiler goes through them."""
ARCHITECTURE = "sm_90"
"""Shown of the lanes; `quantdsl compile` makes the others."""


def show(
    path: Path, stage: str, precision: Precision = "f64", sizes: Mapping[str, int] | None = None
) -> str:
    """The text of one of STAGES but PLAN; raises SourceError where the file gets not that far.

    `precision` is that of the equations of lanes, for GPU_STAGES; `sizes` are those of tensors, for
    KERNELS.
    """
    if stage == "ast":
        return _tree(path)
    if stage in GPU_STAGES:
        return _gpu_text(path, stage, precision)
    if stage == KERNELS:
        whole = compile_file(path, library_too=True)
        return kernels_text(whole, target_of(ARCHITECTURE), sizes or {})
    checked = compile_file(path)
    module = checked.module()
    if stage == PROOF:
        return _proof_text(checked, module)
    if stage == "ir":
        return show_ir(module)
    if stage in PASS_NAMES:
        return show_ir(_after(module, stage))
    return _machine_text(module, stage)


def _proof_text(checked: Checked, module: Module) -> str:
    """What the machine code of the hot path does and does not: the turn, and each handler alone."""
    target, cache = native(), Cache()
    lines = [
        "the whole turn, from ring to ring:",
        *turn_proof(module, target, cache).lines(),
    ]
    for title, proof in proofs(checked, module, target, cache):
        lines += ["", f"{title}, by itself:", *proof.lines()]
    return "\n".join(lines)


def hold_proof(path: Path) -> None:
    """Raise SourceError at each annotation that the machine code does not keep."""
    checked = compile_file(path)
    prove_critical(checked, checked.module(), Cache())


def _after(module: Module, last: str) -> Module:
    """The module after all passes up to `last`."""
    for name, apply in PASSES:
        module = apply(module)
        if name == last:
            break
    return module


def _machine_text(module: Module, stage: str) -> str:
    """LLVM IR as emitted or optimised, or assembly, for the machine at hand."""
    target = native()
    text = emit(run_passes(module), target)
    if stage == "llvm":
        return text
    parsed, machine = optimised(text, target)
    return str(parsed) if stage == "optimised" else str(machine.emit_assembly(parsed))


def _gpu_text(path: Path, stage: str, precision: Precision) -> str:
    """The lanes of a sweep as PTX or as machine code of a GPU, and what a thread of them takes.

    They are those of the file's own grid; where it has none, any param may be swept.
    """
    checked = compile_file(path)
    strategy, plan, swept = checked.strategy, NO_COLUMNS, checked.strategy.params
    with contextlib.suppress(ConfigError):  # nothing to sweep
        grid, _ = points.grid(strategy.params, {}, {})
        plan, _ = whole_plan(checked, grid, LOAD_GPU)
        swept = [axis.param for axis in grid.axes]
    few = few_orders(strategy, frozenset())
    lanes = lane_code(checked, frozenset(), SweepConfig().blocks, plan, few, precision)
    varying = {param.field for param in swept} | set(map(column, range(len(plan.words))))
    target, bounds = target_of(ARCHITECTURE), Bounds()
    kernel = gpu_part(lanes.module, lanes.kept, frozenset(varying), bounds)
    ptx = ptx_text(kernel, target, bounds)
    cubin = link_ptx(Ptx(ptx, ""), ARCHITECTURE, None, bounds)
    head = "\n".join(f"// {line}" for line in (occupancy(cubin), *_lanes_said(checked, plan)))
    return f"{head}\n{ptx if stage == 'ptx' else disassembled(cubin.code)}"


def _lanes_said(checked: Checked, plan: Plan) -> Iterator[str]:
    """What the kernel of lanes reads in place of computing it, and in what a sweep's differs."""
    if plan.hoisted:
        equations = checked.strategy.equations.all
        lines = dict.fromkeys(str(equations[one.number].line) for one in plan.hoisted)
        told = ", ".join(lines)
        yield f"read from columns, which cores fill before: the equations of line {told}"
    yield (
        "the kernel of the file's own grid; a sweep has its settings (costs, ticks, params that "
        "keep one value) as constants in it, and threads and registers by the number of points"
    )


def _tree(path: Path) -> str:
    """The syntax tree, a node a line: its kind, its plain fields, its children below it."""
    parsed = parse(Source.read(path))
    if not parsed.ok:
        raise SourceError(parsed.source, parsed.diagnostics)
    return "\n".join(_lines("", parsed.file, ""))


def _lines(label: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, tuple):
        for inner in value:
            yield from _lines(label, inner, indent)
        return
    if not isinstance(value, ast.Node):
        yield f"{indent}{label}{value!r}"
        return
    fields = {f.name: getattr(value, f.name) for f in msgspec.structs.fields(value)}
    fields = {name: inner for name, inner in fields.items() if not name.endswith("span")}
    nested = {name: inner for name, inner in fields.items() if isinstance(inner, ast.Node | tuple)}
    plain = [f" {n}={v!r}" for n, v in fields.items() if n not in nested and v is not None]
    yield f"{indent}{label}{type(value).__name__}{''.join(plain)}"
    for name, inner in nested.items():
        yield from _lines(f"{name}: ", inner, indent + "  ")
