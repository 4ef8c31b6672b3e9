"""What a cache directory may hold, and what is never run from it."""

import multiprocessing
import os
import shutil
import time

import pytest

from quantdsl.codegen import cache as cache_module
from quantdsl.codegen.cache import Cache, CacheWarning, default_directory

KEY, OTHER = "a" * 64, "b" * 64
CODE = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "deep" / "cache")


def entry(cache, key=KEY):
    return cache.directory / f"{key}.code"


def test_what_is_put_is_got(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE
    assert cache.get(OTHER) is None
    cache.put(KEY, b"newer")
    assert cache.get(KEY) == b"newer"
    assert cache.info().entries == 1
    assert cache.info().size_bytes == entry(cache).stat().st_size
    assert cache.clear() == 1
    assert cache.get(KEY) is None


def test_directory_and_entries_are_for_their_owner_alone(cache):
    cache.put(KEY, CODE)
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert entry(cache).stat().st_mode & 0o777 == 0o600


def planted(cache):
    entry(cache).write_bytes(b"\x90" * 500)


def truncated(cache):
    os.truncate(entry(cache), entry(cache).stat().st_size - 1)


def emptied(cache):
    os.truncate(entry(cache), 0)


def flipped(cache):
    blob = bytearray(entry(cache).read_bytes())
    blob[-7] ^= 1
    entry(cache).write_bytes(blob)


def swapped(cache):
    cache.put(OTHER, b"other code")
    os.replace(entry(cache, OTHER), entry(cache))


def of_an_older_version(cache):
    blob = entry(cache).read_bytes()
    entry(cache).write_bytes(blob.replace(b"quantdsl-code-1", b"quantdsl-code-0"))


def symlinked(cache):
    aside = cache.directory.parent / "aside"
    os.rename(entry(cache), aside)
    entry(cache).symlink_to(aside)


def group_writable(cache):
    entry(cache).chmod(0o620)


def world_writable(cache):
    entry(cache).chmod(0o602)


def a_directory(cache):
    entry(cache).unlink()
    entry(cache).mkdir()


def a_pipe(cache):
    entry(cache).unlink()
    os.mkfifo(entry(cache), 0o600)


def of_another_user(cache):
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(entry(cache), 12345, -1)


def huge(cache):
    os.truncate(entry(cache), cache_module.ENTRY_BYTES_MAX + 1)


POISONS = [
    planted, truncated, emptied, flipped, swapped, of_an_older_version, symlinked, group_writable,
    world_writable, a_directory, a_pipe, of_another_user, huge,
]  # fmt: skip


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__)
def test_a_poisoned_entry_is_refused_with_a_warning(cache, poison):
    cache.put(KEY, CODE)
    poison(cache)
    with pytest.warns(CacheWarning, match="compiled anew"):
        assert cache.get(KEY) is None


@pytest.mark.parametrize("poison", [planted, truncated, swapped, symlinked, group_writable])
def test_a_poisoned_entry_is_replaced(cache, poison):
    cache.put(KEY, CODE)
    poison(cache)
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE
    assert not entry(cache).is_symlink()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o770, 0o777, 0o701])
def test_a_directory_open_to_others_is_not_used(cache, mode):
    cache.put(KEY, CODE)
    cache.directory.chmod(mode)
    with pytest.warns(CacheWarning, match="must be yours alone"):
        assert cache.get(KEY) is None
    with pytest.warns(CacheWarning, match="must be yours alone"):
        cache.put(OTHER, CODE)
    assert not entry(cache, OTHER).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(cache):
    cache.put(KEY, CODE)
    os.chown(cache.directory, 12345, -1)
    with pytest.warns(CacheWarning, match="must be yours alone"):
        assert cache.get(KEY) is None


def test_a_symlinked_directory_is_not_used(cache, tmp_path):
    cache.put(KEY, CODE)
    link = tmp_path / "link"
    link.symlink_to(cache.directory)
    with pytest.warns(CacheWarning, match="is not used"):
        assert Cache(link).get(KEY) is None


def test_a_directory_that_cannot_be_made_costs_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="is not used"):
        Cache(tmp_path / "file" / "cache").put(KEY, CODE)


def test_a_failed_write_leaves_nothing_behind(cache, monkeypatch):
    cache.put(OTHER, CODE)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.put(KEY, CODE)
    assert [path.name for path in cache.directory.iterdir()] == [entry(cache, OTHER).name]


def test_an_entry_that_cannot_be_removed_is_named(cache, monkeypatch):
    cache.put(KEY, CODE)

    def refused(name, **_):
        raise PermissionError(1, "Operation not permitted", name)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionError, match="Operation not permitted") as error:
        cache.clear()
    assert error.value.filename == str(entry(cache, KEY))


def test_the_least_recently_used_go_first(tmp_path):
    cache = Cache(tmp_path / "cache", bytes_max=5 * len(CODE))
    keys = [f"{n:064x}" for n in range(5)]
    for age, key in enumerate(reversed(keys[:4])):
        cache.put(key, CODE)
        at = time.time() - 100 - age
        os.utime(entry(cache, key), (at, at))
    cache.get(keys[0])
    cache.put(keys[4], CODE)
    kept = {key for key in keys if cache.get(key) is not None}
    assert keys[4] in kept
    assert keys[0] in kept
    assert len(kept) == 3
    assert cache.info().size_bytes <= cache.bytes_max * 3 // 4


def test_only_stale_temporaries_are_cleared_away(cache):
    cache.put(KEY, CODE)
    fresh, stale = (cache.directory / f"{name}.tmp" for name in ("fresh", "stale"))
    for path in (fresh, stale):
        path.write_bytes(b"half")
    os.utime(stale, (1, 1))
    cache.put(OTHER, CODE)
    assert fresh.exists()
    assert not stale.exists()


def test_where_the_cache_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("QUANTDSL_CACHE_DIR", raising=False)
    assert default_directory() == tmp_path / "quantdsl"
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "mine"))
    assert Cache().directory == tmp_path / "mine"


def hammer(directory, seed, failures):
    """Write, read, poison and clear; anything read must be what belongs to its key."""
    cache = Cache(directory, bytes_max=100_000)
    for turn in range(60):
        key = f"{(turn * 7 + seed) % 5:064x}"
        code = key.encode() * 100
        action = (turn + seed) % 7
        if action == 0:
            cache.clear()
        elif action == 1:
            (directory / f"{key}.code").write_bytes(b"poison" * turn)
        elif action < 4:
            cache.put(key, code)
        elif cache.get(key) not in (None, code):
            failures.put(key)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside pytest's own threads
@pytest.mark.filterwarnings("ignore::quantdsl.codegen.cache.CacheWarning")
def test_eight_processes_at_once_never_read_a_foreign_byte(tmp_path):
    context = multiprocessing.get_context("fork")
    failures = context.Queue()
    directory = tmp_path / "cache"
    Cache(directory).put(KEY, CODE)
    processes = [
        context.Process(target=hammer, args=(directory, seed, failures)) for seed in range(8)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    assert failures.empty()
    shutil.rmtree(directory)
