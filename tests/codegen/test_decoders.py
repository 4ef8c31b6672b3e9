"""Functions that numba compiles: once a machine, then their object code out of the cache."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quantdsl.codegen import decoders
from quantdsl.codegen.cache import Cache, CacheWarning
from quantdsl.codegen.decoders import Entry, later

OFFSET = 7


@later("int64(int64)", no_cpython_wrapper=True)
def _moved(value):
    return value + OFFSET


@later("int64(int64[::1], int64)", no_cpython_wrapper=True)
def _summed(values, size):
    total = 0
    for one in range(size):
        total += _moved(values[one])
    return total


@later("int64(int64)", no_cpython_wrapper=True)
def _unused(value):
    return value


def _filled(values, out, twice):
    out[0] = _summed(values, len(values))
    made = np.zeros(3, np.int64)
    made[1] = out[0]
    out[1] = made.sum() * (2 if twice else 1)
    return out[0]


SIGNATURE = "int64(int64[::1], int64[::1], boolean)"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))


def test_the_bare_function_does_what_a_call_does_compiled_and_found():
    for found in (False, True):
        one = Entry(_filled, SIGNATURE)
        bare = one.ready()
        assert one.found == found
        values, out = np.arange(5), np.zeros(2, np.int64)
        assert bare(values, out, True) == one(values, np.zeros(2, np.int64), True)
        again = np.zeros(2, np.int64)
        one(values, again, True)
        assert out.tolist() == again.tolist()
        with pytest.raises(TypeError):
            bare(values, out)


def _column(table):
    return table[0, 1]


def test_found_code_lives_on_when_nothing_else_holds_it():
    for found in (False, True):
        one = Entry(_column, "float32(float32[:,::1])")
        one.ready()
        gc.collect()
        assert one.found == found
        assert [one(np.full((2, 2), k, np.float32)) for k in range(50)] == list(range(50))


def run(entry: Entry) -> tuple[int, list[int]]:
    out = np.zeros(2, np.int64)
    return entry(np.arange(10), out, True), out.tolist()


def test_what_is_found_does_what_was_compiled():
    first, second = Entry(_filled, SIGNATURE), Entry(_filled, SIGNATURE)
    assert run(first) == run(second) == (115, [115, 230])
    assert (first.found, second.found) == (False, True)
    assert Cache().info().entries == 1


def test_only_what_is_called_is_compiled_and_once():
    for _ in range(2):
        Entry(_filled, SIGNATURE).ready()
    assert [len(one.overloads) for one in (_moved, _summed, _unused)] == [1, 1, 0]
    assert _unused in decoders._later


def test_an_entry_that_was_changed_is_refused_and_replaced(tmp_path):
    run(Entry(_filled, SIGNATURE))
    (path,) = (tmp_path / "cache").glob("*.code")
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 1
    path.write_bytes(blob)
    spoilt = Entry(_filled, SIGNATURE)
    with pytest.warns(CacheWarning, match="its digest does not match"):
        assert run(spoilt) == (115, [115, 230])
    assert not spoilt.found
    assert path.read_bytes() != blob
    again = Entry(_filled, SIGNATURE)
    run(again)
    assert again.found


def test_other_decoders_other_code(monkeypatch):
    run(Entry(_filled, SIGNATURE))
    monkeypatch.setattr(decoders, "_world", lambda _: "of another time")
    later_one = Entry(_filled, SIGNATURE)
    run(later_one)
    assert not later_one.found
    assert Cache().info().entries == 2


def test_what_has_the_wrong_type_is_refused_by_found_code_too():
    run(Entry(_filled, SIGNATURE))
    found = Entry(_filled, SIGNATURE)
    found.ready()
    assert found.found
    with pytest.raises(TypeError):
        found(np.arange(10.0), np.zeros(2, np.int64), True)


def test_threads_that_ask_at_once_get_the_same_code():
    run(Entry(_filled, SIGNATURE))
    for _ in range(10):
        one, ready = Entry(_filled, SIGNATURE), threading.Barrier(4)

        def ask(one: Entry = one, ready: threading.Barrier = ready) -> object:
            ready.wait()
            one.ready()
            return one._call

        with ThreadPoolExecutor(4) as pool:
            found = {id(asked.result()) for asked in [pool.submit(ask) for _ in range(4)]}
        assert len(found) == 1
        assert one.found
        assert run(one) == (115, [115, 230])
