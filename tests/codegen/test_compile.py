import msgspec
import numpy as np
import pytest

from quantdsl.codegen.cache import Cache, CacheWarning
from quantdsl.codegen.compile import (
    FORBID_COMPILE,
    cache_key,
    compiler_version,
    load,
    load_known,
)
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


def test_a_module_of_a_known_name_is_not_linked_again(tmp_path, monkeypatch):
    """What comes back of it is all that is needed to make memory for its code and to call it."""
    cache = Cache(tmp_path / "cache")
    linked = []

    def known(name):
        return load_known(name, lambda: linked.append(name) or sample(), native(), cache)

    program, whole = known("one")
    fresh = run(program)
    assert whole == sample()
    monkeypatch.setenv(FORBID_COMPILE, "1")
    program, interface = known("one")
    assert linked == ["one"]
    assert run(program) == fresh
    assert [func.name for func in interface.funcs] == [*sample().entries]
    assert not any(func.body for func in interface.funcs)
    assert (interface.structs, interface.given) == (whole.structs, whole.given)
    assert run(known("two")[0]) == fresh  # another name of the same module: linked, not compiled
    assert linked == ["one", "two"]


@pytest.mark.parametrize("lost", [0, 1], ids=["one entry", "the other"])
def test_a_known_name_without_its_code_is_linked_and_compiled(tmp_path, lost):
    cache = Cache(tmp_path / "cache")
    fresh = run(load_known("name", sample, native(), cache)[0])
    sorted(cache.directory.iterdir())[lost].unlink()
    linked = []
    program, _ = load_known("name", lambda: linked.append(1) or sample(), native(), cache)
    assert run(program) == fresh
    assert linked == [1]


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
