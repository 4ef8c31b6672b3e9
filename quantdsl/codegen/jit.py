"""From a linked module to functions that Python can call.

`object_code` optimises and assembles; `Program` loads the result into this process. The two are
apart because object code may come from the cache.
"""

import ctypes
import functools
import weakref
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from quantdsl.codegen.target import Target, native
from quantdsl.codegen.text import entry_symbol
from quantdsl.errors import InternalError
from quantdsl.ir.ops import BOOL_T, F64_T, I64_T, Func, Module

SPEED_LEVEL = 1
"""LLVM's O1: on whole strategies O2 takes half as long again and its code runs no faster."""


def object_code(module: Module, target: Target) -> bytes:
    """Machine code of a verified module, after all passes, as an object file."""
    from quantdsl.codegen.emit import emit
    from quantdsl.passes import run_passes

    return assemble(emit(run_passes(module), target), target)


def assemble(text: str, target: Target, level: int = SPEED_LEVEL) -> bytes:
    """Machine code of LLVM IR text, as an object file."""
    parsed, machine = optimised(text, target, level)
    code: bytes = machine.emit_object(parsed)
    return code


Simplify = Callable[[llvm.PassBuilder], llvm.FunctionPassManager]
"""What each function goes through at SPEED_LEVEL."""


def whole(builder: llvm.PassBuilder) -> llvm.FunctionPassManager:
    """All that LLVM has for it at O1; most of it is about loops."""
    return builder.getFunctionPassManager()


def plain(_: llvm.PassBuilder) -> llvm.FunctionPassManager:
    """Without what LLVM does about loops, in a third of the time."""
    made = _cleaning()
    made.add_simplify_cfg_pass()
    return made


def numbered(_: llvm.PassBuilder) -> llvm.FunctionPassManager:
    """The same, and what has a value already is not computed again; in half of the time.

    llvmlite has one pass that does this alone, LLVM's NewGVN, which LLVM does not use by itself.
    What is known to have gone wrong with it lies in operations on values that differ by the way
    taken (phis), so that part is switched off.
    """
    _without_phis()
    made = _cleaning()
    made.add_new_gvn_pass()
    made.add_simplify_cfg_pass()
    return made


def _cleaning() -> llvm.FunctionPassManager:
    made = llvm.create_new_function_pass_manager()
    made.add_sroa_pass()
    made.add_simplify_cfg_pass()
    made.add_instruction_combine_pass()
    return made


@functools.cache
def _without_phis() -> None:
    llvm.set_option("", "-enable-phi-of-ops=false")


def optimised(
    text: str, target: Target, level: int = SPEED_LEVEL, simplify: Simplify = whole
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """LLVM IR text as LLVM has simplified it, and the machine that makes code of it."""
    machine = target.machine(level)
    context = llvm.create_context()
    try:
        parsed = llvm.parse_assembly(text, context)
        parsed.verify()
    except RuntimeError as error:
        raise InternalError(f"QD9504 codegen: LLVM refuses what we emitted: {error}") from error
    parsed.data_layout = str(machine.target_data)
    optimise(parsed, machine, level, simplify)
    return parsed, machine


def optimise(
    parsed: llvm.ModuleRef, machine: llvm.TargetMachine, level: int, simplify: Simplify
) -> None:
    """Run LLVM's passes in place; no level changes a bit of what the code computes.

    Level 0 inlines what asks for it, 1 also simplifies each function once, 2 and 3 are LLVM's
    own. Its stock O1 pipeline simplifies before and after inlining and once more at the end,
    which takes half as long again as ours and gains nothing measurable on whole strategies.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    # Lanes are ours to vectorise. Inside one lane neither that nor unrolling gains anything.
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    if level > SPEED_LEVEL:
        builder.getModulePassManager().run(parsed, builder)
        return
    inlining = llvm.create_new_module_pass_manager()
    inlining.add_always_inliner_pass()
    inlining.add_global_dead_code_eliminate_pass()
    inlining.add_post_order_function_attributes_pass()
    inlining.run(parsed, builder)
    if level < SPEED_LEVEL:
        return
    simplification = simplify(builder)
    for function in parsed.functions:
        if not function.is_declaration:
            simplification.run(function, builder)


def straight_assembly(parsed: llvm.ModuleRef, machine: llvm.TargetMachine) -> str:
    """Assembly text whose loops count along by their own words alone.

    Those that LLVM's strength reduction adds take registers of a loop that is as large as a lane's
    turns, and a tenth of the time to PTX; to look for loads beside each other takes long, and finds
    none. Both can be switched for the whole process only, so all others wait at llvmlite's lock
    meanwhile.
    """
    with llvm.ffi.lib._lock:  # it has no public name
        _leave_out("true")
        try:
            return str(machine.emit_assembly(parsed))
        finally:
            _leave_out("false")


def _leave_out(whether: str) -> None:
    for name in ("lsr", "nvptx-load-store-vectorizer"):
        llvm.set_option("", f"-disable-{name}={whether}")


def assemble_cold(text: str, target: Target) -> bytes:
    """As `assemble`, for code that runs seldom and has hardly a loop: orders are as fast."""
    parsed, machine = optimised(text, target, simplify=plain)
    code: bytes = machine.emit_object(parsed)
    return code


class Program:
    """Machine code loaded into this process; keep it as long as a function of it may run."""

    def __init__(self, code: bytes, module: Module, target: Target, shared: bytes = b"") -> None:
        """`shared` is the object file that `code` imports from, if it does."""
        context = llvm.create_context()
        empty = llvm.parse_assembly("", context)
        self._engine = llvm.create_mcjit_compiler(empty, target.machine())
        for part in (code, shared):
            if part:
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(part))
        self._engine.finalize_object()
        # Held from outside, so that LLVM's objects go in order of use: in a cycle of garbage the
        # context may go before the engine that still needs it.
        weakref.finalize(self, _released, self._engine).atexit = False
        decls = {func.name: func for func in module.funcs}
        self._functions = {name: self._function(decls[name]) for name in module.entries}

    def address(self, entry: str) -> int:
        """The address of an entry function, for other native code."""
        return int(self._engine.get_function_address(entry_symbol(entry)))

    def call(self, entry: str, *args: Any) -> Any:
        """Call an entry function: scalars as Python values, aggregates as int64 word arrays.

        Arrays must be contiguous and long enough: machine code checks nothing. The GIL is
        released meanwhile. Returns the scalar result, or None.
        """
        return self._functions[entry](*map(_native, args))

    def _function(self, decl: Func) -> Callable[..., Any]:
        params = [_C_TYPE.get(p.type, ctypes.c_void_p) for p in decl.params]  # type: ignore[arg-type]
        result = None if decl.result is None else _C_TYPE[decl.result]  # type: ignore[index]
        function = ctypes.CFUNCTYPE(result, *params)(self.address(decl.name))
        if decl.result != BOOL_T:
            return function
        return lambda *args: bool(function(*args))


class Native:
    """Machine code of some text, in this process as long as this is held."""

    def __init__(self, text: str) -> None:
        target = native()
        empty = llvm.parse_assembly("", llvm.create_context())
        self._engine = llvm.create_mcjit_compiler(empty, target.machine())
        code = assemble(text, target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function of it begins."""
        found: int = self._engine.get_function_address(name)
        return found


def _released(_: Any) -> None:
    """Nothing is left to do: the last reference goes with the call."""


_C_TYPE: dict[str, Any] = {
    BOOL_T: ctypes.c_int64,
    I64_T: ctypes.c_int64,
    F64_T: ctypes.c_double,
}


def _native(arg: Any) -> Any:
    if not isinstance(arg, np.ndarray):
        return arg
    if arg.dtype != np.int64 or not arg.flags.c_contiguous:
        raise InternalError(f"QD9506 codegen: memory is contiguous int64 words, not {arg.dtype}")
    return arg.ctypes.data
