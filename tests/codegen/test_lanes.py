"""The scalar kernel leaves, lane by lane, what the interpreter leaves."""

import numpy as np
import pytest

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.lanes import InterpretedLanes, load_lanes
from quantdsl.codegen.target import native
from quantdsl.errors import LimitError
from quantdsl.ir.ops import (
    ArrayType,
    BufferType,
    FieldDecl,
    Func,
    Module,
    ParamDecl,
    StructDecl,
    StructType,
)
from tests.codegen.lane_programs import every_path, random_lanes, swept


@pytest.mark.parametrize("seed", range(24))
def test_every_word_of_every_lane_is_the_interpreters(seed):
    module = random_lanes(seed)
    expected = swept(InterpretedLanes(module), module, seed)
    assert np.array_equal(
        swept(load_lanes(module, every_path(module), native(), None), module, seed), expected
    )


@pytest.mark.parametrize("seed", [3, 4])
def test_chunks_of_events_change_nothing(seed):
    module = random_lanes(seed)
    kernel = load_lanes(module, every_path(module), native(), None)
    assert np.array_equal(swept(kernel, module, seed, 1), swept(kernel, module, seed, 6))


def test_the_kernel_comes_from_the_cache(tmp_path, monkeypatch):
    cache, module = Cache(tmp_path / "cache"), random_lanes(1)
    fresh = swept(load_lanes(module, every_path(module), native(), cache), module, 1)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert np.array_equal(
        swept(load_lanes(module, every_path(module), native(), cache), module, 1), fresh
    )


def test_a_state_beyond_a_threads_memory_is_refused():
    struct = StructDecl("S", (FieldDecl("xs", ArrayType("f64", 70_000)),))
    state = ParamDecl("s", StructType("S"), inout=True)
    words = BufferType("i64")
    params = (state, ParamDecl("e", words), ParamDecl("n", "i64"), ParamDecl("c", words))
    funcs = (Func("init", (state,), None, ()), Func("lane", params, None, ()))
    module = Module((struct,), (), funcs, ("init", "lane"))
    with pytest.raises(LimitError, match="needs 560,000 bytes of state, more than LANE_STATE"):
        load_lanes(module, every_path(module), native(), None)
