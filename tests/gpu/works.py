"""Lanes to compare on any two targets: shipped strategies, generated ones, and plain programs."""

import hashlib
import itertools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from quantdsl.backtest.drawn import drawn_works
from quantdsl.backtest.lane_code import settings, settled
from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import Memory
from quantdsl.backtest.signals import prepare_signals
from quantdsl.backtest.tensor_kernel import tensor_kernels
from quantdsl.backtest.values import chosen
from quantdsl.check import Checked, check_source
from quantdsl.check.grid import points
from quantdsl.check.signal_turn import Signals
from quantdsl.codegen.ptx import Bounds, load_ptx, ptx_text, target_of
from quantdsl.devices import grids
from quantdsl.devices.batches import BlockWork, ptx_of
from quantdsl.devices.cuda.panels import BOUNDS, block_of, block_ptx
from quantdsl.devices.cuda.tune import FEW_LANES, for_lanes
from quantdsl.devices.panels import SHARED_BYTES, SimulatedPanel
from quantdsl.devices.work import LaneWork, Runner, Words
from quantdsl.events import layout
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T, Module, StructType
from quantdsl.lang.source import Source
from quantdsl.passes import along_passes
from tests.backtest.kernel_programs import PROGRAMS as TURNS
from tests.backtest.kernel_programs import THREADED
from tests.backtest.programs import strategy
from tests.backtest.tensor_programs import TENSOR_PROGRAMS, drawn
from tests.backtest.test_lane_entry import checked_of, checked_text, events_of, written
from tests.backtest.test_panel_whole import FACTOR
from tests.backtest.test_panels import ACROSS, ALONG, GROUPED, LOOKING, MEMBERS, files, whole
from tests.codegen.lane_programs import random_lanes
from tests.codegen.programs import S, random_float_bits, random_int, random_words
from tests.std.universe import table, walks
from tests.strategies.headers import ON_BARS

ROOT = Path(__file__).parents[2]
FILES = sorted([*ON_BARS, *ROOT.glob("bench/strategies/*.qdsl")])
TWENTY = ROOT / "bench" / "signals.qdsl"
STATE = StructType("State")
EVENTS, LANES = 1500, 96
GENERATED, PROGRAMS = 12, 24


NAMES = [
    *(path.stem for path in FILES),
    *(f"generated {seed}" for seed in range(GENERATED)),
    *(f"program {seed}" for seed in range(PROGRAMS)),
]
"""Everything that targets are compared on."""

KERNELS = {**TURNS, **THREADED}
INSTRUMENTS = 64


QUOTIENTS = """language 1
strategy Quotients:
    "Quotients and roots of numbers of every size, and of such as have none."
    bars 1d
    universe "ALL"
    let x       = float(close)
    let power   = x * x * x * x * x * x * x * x
    let large   = power * power * power * power * power * power * power * power
    let larger  = large * large
    let small   = x / larger
    let smaller = small / large
    let least   = smaller / power / power
    let none    = least / large
    let beyond  = larger / smaller
    let roots   = sqrt(larger) / sqrt(smaller) + sqrt(least)
    let moved   = close - close[1]
    let ratio   = moved / moved[1]
    let root    = sqrt(moved) / sqrt(moved[1])
    let spread  = ts.std(moved, 5) / ts.mean(moved, 5)
"""
PANELS = {
    "along": ALONG,
    "across": ACROSS,
    "grouped": GROUPED,
    "members": MEMBERS,
    "looking": LOOKING,
    "factor": FACTOR,
    "twenty": TWENTY.read_text(),
    "quotients": QUOTIENTS,
}
"""Strategies on universes whose signals are compared, with gaps and without."""


def panel_options() -> Iterator[dict[str, Any]]:
    """What is given to each of PANELS: bars without gaps, and with."""
    with tempfile.TemporaryDirectory() as folder:
        for closes in (whole(40, 150), walks(150, 90)):
            more = files(Path(folder), list(closes))
            yield {"data": table(closes), "bars": "1d", "more": more}


def panel_digest(name: str, device: str) -> str:
    """A digest of the signals of one of PANELS as a device computes them."""
    checked, digest = checked_text(PANELS[name]), hashlib.sha256()
    for options in panel_options():
        signals = prepare_signals(checked, **options, device=device).table()
        for column in signals.columns[2:]:
            whole_numbers = column.cast(pa.int8()) if column.type == pa.bool_() else column
            floats = whole_numbers.cast(pa.float64(), safe=False).fill_null(-1.0)
            digest.update(floats.to_numpy().tobytes())
    return digest.hexdigest()


def panel_ptx_digest(name: str, architecture: str) -> str:
    """A digest of the code that a GPU of this architecture computes them with."""
    digest, target = hashlib.sha256(), target_of(architecture)
    for options in panel_options():
        arranged = arrange(checked_text(PANELS[name]), **options)
        checked = arranged.sized(checked_text(PANELS[name]))
        params = chosen(checked.strategy.params, arranged.given)
        turn = DeviceTurn(checked, Signals(checked.assembly), arranged.data, params, SimulatedPanel)
        for work in (turn.complete, turn.gaps):
            for kernel in itertools.chain(*work.steps):
                made = (
                    block_ptx(block_of(kernel, SHARED_BYTES), target)
                    if kernel.across
                    else ptx_text(along_passes(kernel.module), target, BOUNDS)
                )
                digest.update(made.encode())
    return digest.hexdigest()


def kernel_named(name: str) -> BlockWork:
    """A kernel of the language, over many instruments."""
    ((_, work),) = drawn_works(checked_text(KERNELS[name]), INSTRUMENTS)
    return work


def tensors_digest(name: str, device: str) -> str:
    """A digest of all that a kernel of tensors leaves on a device."""
    text, sizes = TENSOR_PROGRAMS[name]
    checked, _ = check_source(Source(text, "tensors.qdsl"), library_too=True)
    assert checked is not None
    (kernel,) = tensor_kernels(checked)
    arguments = drawn(kernel.facts, sizes)
    left = hashlib.sha256(repr(kernel(**arguments, device=device)).encode())
    for param in kernel.facts.tensors:
        left.update(arguments[param.name].tobytes())
    return left.hexdigest()


def tensors_ptx_digest(name: str, architecture: str) -> str:
    """A digest of the code that a GPU of this architecture runs for it."""
    text, sizes = TENSOR_PROGRAMS[name]
    checked, _ = check_source(Source(text, "tensors.qdsl"), library_too=True)
    assert checked is not None
    (kernel,) = tensor_kernels(checked)
    work = kernel.work(kernel.bound((), drawn(kernel.facts, sizes)).sizes)
    made = grids.launches_of(work, target_of(architecture), gpu=True)
    texts = grids.ptx_of(made, work, architecture)
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def words_digest(words: Words) -> str:
    """A digest of the results of a kernel; NaN is one value in them."""
    return hashlib.sha256(words.tobytes()).hexdigest()


def kernel_digest(work: BlockWork, architecture: str) -> str:
    """A digest of the code that a GPU of this architecture runs."""
    return hashlib.sha256(ptx_of(work.batch(), target_of(architecture)).encode()).hexdigest()


def work_named(name: str) -> LaneWork:
    """The lanes of one of NAMES."""
    kind, _, seed = name.partition(" ")
    if kind == "generated":
        return strategy_work(checked_text(strategy(int(seed))), 400)
    if kind == "program":
        return program_work(int(seed))
    return strategy_work(checked_of(next(path for path in FILES if path.stem == name)), EVENTS)


def strategy_work(checked: Checked, events: int) -> LaneWork:
    """Lanes over the built-in market whose params are drawn from their ranges.

    Results are all metrics and the digest of every record, so of each order, fill and trade.
    """
    rng = random.Random(1)
    module, data = checked.lane_module(digest=True), arrange(checked).data
    memory = Memory(module)
    written(checked, data, memory, {})
    params, rows = [], []
    for param in checked.strategy.params:
        grid = points(param)
        word = memory.layout.locate(STATE, param.field).offset_words
        kind = np.int64 if param.whole else np.float64
        drawn = [param.word(rng.choice(grid)) for _ in range(LANES)]
        params.append(word)
        rows.append(np.array(drawn, kind).view(np.int64))
    stream = events_of(data, events)
    words = np.ascontiguousarray(stream).view(np.int64).reshape(-1, layout.WORDS)
    shaped = np.array(rows, np.int64).reshape(len(rows), LANES)
    varying = [param.field for param in checked.strategy.params]
    module = settled(module, settings(module, memory.words, varying))
    return _work(module, STATE, "e.metrics.", memory.words, params, shaped, words)


def program_work(seed: int) -> LaneWork:
    """Lanes of a random program, every word of the state a result."""
    module, rng = random_lanes(seed), random.Random(seed)
    kinds = _kinds(module, S)
    template = random_words(rng, kinds)
    params = rng.sample(range(len(kinds)), 3)
    shaped = np.stack([random_words(rng, [kinds[at]] * LANES) for at in params])
    events = [[random_float_bits(rng), random_int(rng)] for _ in range(20)]
    columns = np.array([random_int(rng) for _ in range(20)], np.int64).reshape(-1, 1)
    work = _work(module, S, "", template, params, shaped, np.array(events, np.int64))
    return work._replace(columns=columns)


def bounds_of(work: LaneWork) -> list[Bounds]:
    """Under which bounds some work is compared: as few lanes run, and as many do."""
    counts = 1, FEW_LANES, FEW_LANES + 1
    return list(dict.fromkeys(for_lanes(work, count) for count in counts))


def ptx_digest(work: LaneWork, architecture: str) -> str:
    """A digest of the code that a GPU of this architecture runs, under all bounds."""
    target, digest = target_of(architecture), hashlib.sha256()
    for bounds in bounds_of(work):
        ptx = load_ptx(work.module, work.kept, target, None, bounds, varying=work.varying)
        digest.update((ptx.own + ptx.shared).encode())
    return digest.hexdigest()


def digest_of(work: LaneWork, runner: Runner) -> str:
    """A digest of every result word of every lane; NaN is one value."""
    found = np.full((len(work.results), work.n_lanes), -1, np.int64)

    def finished(lo: int, hi: int, words: Words) -> None:
        found[:, lo:hi] = words

    runner.run(work, 0, work.n_lanes, finished)
    state = S if work.module.funcs[-1].params[0].type == S else STATE
    floats = np.array([kind == F64_T for kind in _kinds(work.module, state)])[work.results, None]
    found = np.where(floats & np.isnan(found.view(np.float64)), CANONICAL_NAN_BITS, found)
    return hashlib.sha256(found.tobytes()).hexdigest()


def _work(
    module: Module,
    state: StructType,
    prefix: str,
    template: Words,
    params: list[int],
    shaped: Words,
    events: Words,
) -> LaneWork:
    leaves = [x for x in Layout(module.structs).leaves(state) if x.path.startswith(prefix)]
    offsets = [at for x in leaves for at in range(x.offset_words, x.offset_words + x.words)]
    return LaneWork(
        module=module,
        kept=frozenset(leaf.path for leaf in leaves),
        template=template,
        params=np.array(params, np.int64),
        results=np.array(offsets, np.int64),
        points=np.ascontiguousarray(shaped),
        events=events,
        columns=np.zeros((len(events), 0), np.int64),
    )


def _kinds(module: Module, state: StructType) -> list[str]:
    leaves = Layout(module.structs).leaves(state)
    return [leaf.type for leaf in leaves for _ in range(leaf.words)]
