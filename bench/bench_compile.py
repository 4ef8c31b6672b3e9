"""Promise: a new strategy is machine code in 150 ms (sma_cross), 400 ms (pairs_z), 20 ms cached,
PTX of a sweep of the average cross in 300 ms, and that of a kernel of batched signals.

In a process that has imported the compiler, from the text of the file to functions to call.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.lane_code import lane_code
from quantdsl.backtest.program import native_run
from quantdsl.check.checked import check_source
from quantdsl.check.panel_builder import Form
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_parts import parts
from quantdsl.check.signal_turn import Signals
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.ptx import Bounds, load_ptx, ptx_text, target_of
from quantdsl.devices.cuda.panels import BOUNDS
from quantdsl.lang.source import Source
from quantdsl.passes import along_passes
from quantdsl.shipped import shipped

LIMITS_S = {"sma_cross": 0.150, "pairs_z": 0.400}
CACHED_S = 0.020
PTX_S = 0.300
AVERAGE_CROSS = Path(__file__).parent / "strategies" / "ema_cross.qdsl"
FRESH = itertools.count(1)


def never_seen(name: str) -> Source:
    """The strategy with a plot of a number that no cache has met."""
    path = shipped(f"strategies/{name}.qdsl")
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("    session "))
    price = "y.close" if name == "pairs_z" else "close"
    lines.insert(at + 1, f'    plot({price} * 1.{next(FRESH):06}, "fresh")\n')
    return Source("".join(lines), str(path))


def compiled(source: Source, cache: Cache) -> int:
    """From text to functions that can be called; what init makes of empty memory."""
    checked, _ = check_source(source)
    assert checked is not None
    run = native_run(checked, frozenset(), cache)
    run.executor.call("init", run.memory.words)
    return int(np.count_nonzero(run.memory.words))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.mark.parametrize("name", LIMITS_S)
def test_compile_new_strategy(benchmark, cache, name):
    """The core that strategies share is in the cache, as on every machine but a new one."""
    words = compiled(never_seen(name), cache)
    rounds = 11 if benchmark.enabled else 1
    result = benchmark.pedantic(
        compiled, setup=lambda: ((never_seen(name), cache), {}), rounds=rounds
    )
    assert result == words > 0
    if benchmark.enabled:
        assert benchmark.stats["median"] <= LIMITS_S[name]


@pytest.mark.parametrize("name", LIMITS_S)
def test_compile_very_first_strategy(benchmark, cache, name):
    """As above, and the core has to be compiled too."""

    def setup() -> tuple[tuple[Source, Cache], dict[str, object]]:
        cache.clear()
        return (never_seen(name), cache), {}

    assert benchmark.pedantic(compiled, setup=setup, rounds=5 if benchmark.enabled else 1) > 0


@pytest.mark.parametrize("name", LIMITS_S)
def test_compile_from_cache(benchmark, cache, monkeypatch, name):
    source = never_seen(name)
    words = compiled(source, cache)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert benchmark(compiled, source, cache) == words
    if benchmark.enabled and name == "sma_cross":
        assert benchmark.stats["median"] <= CACHED_S


def ptx(source: Source) -> str:
    """From text to the PTX of a sweep over `fast` and `slow` with every metric; no cache."""
    checked, _ = check_source(source)
    assert checked is not None
    lanes = lane_code(checked, frozenset(), 1)
    varying = frozenset(param.field for param in checked.strategy.params)
    target, kept = target_of("sm_90"), lanes.words.kept
    return load_ptx(lanes.module, kept, target, None, Bounds(), varying=varying).own


def kernel_ptx(source: Source) -> str:
    """From text to the PTX of a kernel at each bar of 1,000 instruments; no cache."""
    checked, _ = check_source(source)
    assert checked is not None
    turn = Signals(checked.assembly)
    ((part,),) = parts(turn)
    (kernel,) = kernels(turn, [part], Form(flat=True)).all
    module = along_passes(checked.kernel_module(kernel, 1_000))
    return ptx_text(module, target_of("sm_90"), BOUNDS)


@pytest.mark.parametrize(
    ("made_of", "path"),
    [(ptx, AVERAGE_CROSS), (kernel_ptx, shipped("strategies/analog_gpu.qdsl"))],
    ids=["sweep", "kernel"],
)
def test_ptx(benchmark, made_of, path):
    """All that a GPU runs is made anew: the core is not shared there."""
    text = path.read_text()
    sources = (Source(f"{text}\n# {number}\n", str(path)) for number in itertools.count())
    rounds = 11 if benchmark.enabled else 1
    made = benchmark.pedantic(made_of, setup=lambda: ((next(sources),), {}), rounds=rounds)
    assert ".visible .entry quantdsl_lanes" in made
    if benchmark.enabled:
        assert benchmark.stats["median"] <= PTX_S
