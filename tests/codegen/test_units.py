"""A program compiled in two parts does what it does as one, and the second part is shared."""

import msgspec
import pytest

from quantdsl.check.checked import check_source
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from quantdsl.codegen.units import split
from quantdsl.ir.ops import Module
from quantdsl.lang.source import Source
from quantdsl.passes import run_passes
from tests.codegen.differential import difference
from tests.ir.samples import sample


def cooled(module: Module) -> Module:
    """The module with every function cold that is no entry."""
    funcs = (
        msgspec.structs.replace(func, cold=func.name not in module.entries) for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def in_two_parts(module: Module) -> Program:
    cold = cooled(module)
    assert split(run_passes(cold))[1] is not None
    return load(cold, native(), None)


@pytest.mark.parametrize("seed", [201, 202, 203, 204])
def test_two_parts_leave_the_bits_that_the_interpreter_leaves(seed):
    assert difference(seed, 50, in_two_parts) is None


def test_strategies_that_ask_the_same_of_the_core_share_its_object_file():
    rule = """language 1
strategy S:
    bars 5m
    on bar:
        if ta.{}(close, {}) > close:
            buy(value = 10% of equity)
        else:
            close_position()
"""
    parts = []
    for average, length in (("sma", 10), ("ema", 25)):
        checked, _ = check_source(Source(rule.format(average, length)))
        parts.append(split(run_passes(checked.module())))
    (own, shared), (other, again) = parts
    assert own != other
    assert shared == again


def test_a_program_without_cold_code_is_one_part(tmp_path):
    assert split(run_passes(sample()))[1] is None
    cache = Cache(tmp_path / "cache")
    load(sample(), native(), cache)
    assert cache.info().entries == 1
    load(cooled(sample()), native(), cache)
    assert cache.info().entries == 3
