"""Run the same program interpreted and compiled, and compare every bit it leaves behind."""

import random
from collections.abc import Callable

import numpy as np

from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.kinds import Kinds
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T, Module, StructType
from quantdsl.ir.show import show_node
from quantdsl.ir.verify import verify
from tests.codegen.programs import (
    BUFFER_WORDS,
    random_float,
    random_int,
    random_module,
    random_words,
)

INPUTS = 4


def compiled_whole(module: Module) -> Program:
    """All of a module as one object file."""
    return Program(object_code(module, native()), module, native())


def difference(
    seed: int, programs: int, build: Callable[[Module], Program] = compiled_whole
) -> str | None:
    """What differs first between the two, over `programs` random programs; None if nothing."""
    module = random_module(seed, programs)
    verify(module)
    rng = random.Random(seed)
    compiled = build(module)
    interpreter = Interpreter(module)
    layout = Layout(module.structs)
    kinds = Kinds(layout).of(StructType("S")).tolist()
    for entry in module.entries:
        for _ in range(INPUTS):
            state, buffer = random_words(rng, kinds), random_words(rng, [F64_T] * BUFFER_WORDS)
            scalars = random_float(rng), random_int(rng), rng.random() < 0.5
            left, right = (
                _outcome(runner.call, entry, state.copy(), buffer.copy(), scalars, kinds)
                for runner in (interpreter, compiled)
            )
            if not np.array_equal(left, right):
                where = np.flatnonzero(left != right)
                return _report(module, seed, entry, scalars, left, right, where)
    return None


def _outcome(call, entry, state, buffer, scalars, kinds) -> np.ndarray:
    result = call(entry, state, buffer, *scalars)
    words = np.concatenate([state, buffer, np.zeros(1, np.int64)])
    if isinstance(result, float):
        words[-1:] = np.array([result]).view(np.int64)
    else:
        words[-1] = 0 if result is None else int(result)
    floats = np.array([kind == F64_T for kind in kinds] + [True] * BUFFER_WORDS)
    floats = np.append(floats, isinstance(result, float))
    words[floats & np.isnan(words.view(np.float64))] = CANONICAL_NAN_BITS
    return words


def _report(module: Module, seed, entry, scalars, left, right, where) -> str:
    func = next(func for func in module.funcs if func.name == entry)
    words = ", ".join(f"[{i}] {left[i]:#x} != {right[i]:#x}" for i in where[:5].tolist())
    return f"seed {seed}, {entry}{scalars}: interpreted != compiled at {words}\n{show_node(func)}"
