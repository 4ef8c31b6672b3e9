import msgspec
import numpy as np
import pytest

from quantdsl.codegen.cache import Cache, CacheWarning
from quantdsl.codegen.compile import FORBID_COMPILE, cache_key, compiler_version, load
from quantdsl.codegen.target import native
from quantdsl.errors import InternalError
from tests.ir.samples import sample


def run(program):
    words, xs = np.zeros(10, np.int64), np.arange(8.0)
    return program.call("run", words, xs.view(np.int64), len(xs)), words.tolist()


def test_code_from_the_cache_runs_without_a_compile(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    fresh = run(load(sample(), native(), cache))
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert run(load(sample(), native(), cache)) == fresh
    cache.clear()
    with pytest.raises(InternalError, match=FORBID_COMPILE):
        load(sample(), native(), cache)


def test_a_poisoned_entry_is_compiled_anew(tmp_path):
    cache = Cache(tmp_path / "cache")
    fresh = run(load(sample(), native(), cache))
    path = next(cache.directory.iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(CacheWarning):
        program = load(sample(), native(), cache)
    assert run(program) == fresh
    assert run(load(sample(), native(), cache)) == fresh


def test_without_a_cache_nothing_is_stored():
    assert run(load(sample(), native(), None))[0] == 8


def test_the_key_covers_program_and_machine():
    module, target = sample(), native()
    other = msgspec.structs.replace(module, sizes=(("N_POINTS", 3),))
    keys = {
        cache_key(module, target),
        cache_key(other, target),
        cache_key(module, msgspec.structs.replace(target, cpu="another")),
        cache_key(module, msgspec.structs.replace(target, features="+another")),
    }
    assert len(keys) == 4
    assert cache_key(sample(), native()) == cache_key(module, target)


def test_the_key_covers_the_compiler(monkeypatch):
    before = cache_key(sample(), native())
    monkeypatch.setattr("quantdsl.codegen.compile.compiler_version", lambda: b"another compiler")
    assert cache_key(sample(), native()) != before
    assert len(compiler_version()) == 32


def test_a_cached_load_reads_one_entry_and_compiles_nothing(tmp_path, monkeypatch):
    """bench_compile.py holds its time."""
    cache, read = Cache(tmp_path / "cache"), []
    load(sample(), native(), cache)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    get = Cache.get
    monkeypatch.setattr(Cache, "get", lambda self, key: read.append(key) or get(self, key))
    load(sample(), native(), cache)
    assert read == [cache_key(sample(), native())]
