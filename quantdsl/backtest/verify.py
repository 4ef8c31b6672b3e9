"""`quantdsl verify`: one strategy on every target of this machine, compared to the bit.

Each target runs the same lanes, points drawn from the params' ranges, over the same events. What
is compared are the account, every metric and a digest of every record: each order, fill and trade.
The interpreter, which is slow, runs a few of the points over a window of the events and is
compared with the scalar target there. On a difference the first bar is searched that leaves
another state, by halving the events.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.backtest import values
from quantdsl.backtest.columns import filled, offsets, table_of
from quantdsl.backtest.lane_code import lowered, settings, settled
from quantdsl.backtest.prepare import Arranged, arrange, hold_admitted, hold_hosted
from quantdsl.backtest.program import STATE, Memory
from quantdsl.backtest.run import Progress
from quantdsl.backtest.stream import market_times, materialised
from quantdsl.check import Checked
from quantdsl.check.columns import LOAD_GPU, NO_COLUMNS, Plan, Scope
from quantdsl.check.few import few_orders
from quantdsl.check.grid import points as range_of
from quantdsl.check.lanes import STEP, column
from quantdsl.codegen.lanes import FINISH, START, InterpretedLanes, is_large
from quantdsl.config import Precision
from quantdsl.data.times import show_instant
from quantdsl.devices import choose, cpu
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.work import Finished, LaneWork, Runner
from quantdsl.devices.work import Plan as DevicePlan
from quantdsl.errors import UnavailableError
from quantdsl.events.layout import MORE
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Leaf
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T, Module
from quantdsl.passes.common import own_leaves
from quantdsl.report.words import plural

Int64s = npt.NDArray[np.int64]
State = dict[str, tuple[Leaf, Int64s]]
"""Words of a lane, by path."""
Say = Callable[[str], None]
Ran = Callable[[int], None]
"""Hears how many more lanes have run."""
UNHEARD: Ran = lambda _: None  # noqa: E731
KEPT = ("e.metrics.", "e.cash")
"""Paths of State that are results."""
ORDERS = "e.metrics.orders"
SAMPLE_POINTS, SAMPLE_INSTANTS, SAMPLE_BARS = 3, 2_000, 4_000
"""What the interpreter runs; of a universe no more instants than have so many bars."""
WARM_BARS, WARM_BARS_MAX = 4, 20_000
"""Where that would end before a kernel is asked, one point runs until it was asked at so many bars,
if no more bars of all instruments together lead there."""
POINTS = 64
"""Of the params' ranges, where nobody says how many."""
FEW_POINTS, KERNEL_VALUES = 8, 1 << 28
"""How few they become, all elements of a vector, where kernels would read more values of windows
than these: so many take half a minute on all targets of two cores."""
HASH_CHARS = 16
GPUS_MAX = 16
DRAWS = 50
"""Points drawn for each one wanted, since `require` may refuse most of them."""
SHOWN = 3
"""Differing words of the state that are told."""


class Target(NamedTuple):
    """Something that runs lanes; `plan` says what it loads from columns."""

    name: str
    runner: Runner
    plan: Plan = NO_COLUMNS


class Outcome(Struct, frozen=True):
    """What one target left of the same lanes: a hash, and where it differs from the first one."""

    target: str
    hash: str
    difference: str = ""
    orders: int = 0
    """That all lanes sent; where there is none the hash is of no decision."""


class Lanes(Struct, frozen=True):
    """The lanes that all targets run."""

    checked: Checked
    arranged: Arranged
    points: tuple[Mapping[str, Fraction], ...]
    events: Int64s
    precision: Precision = "f64"

    def __str__(self) -> str:
        return f"{plural(len(self.points), 'point')}, {plural(len(self.events), 'event')}"

    def work(self, plan: Plan, kept: Sequence[str] = KEPT) -> LaneWork:
        """The lanes as a device takes them; `kept` are the beginnings of results' paths."""
        params = self.checked.strategy.params
        uses = self.arranged.uses
        few = few_orders(self.checked.strategy, uses)  # a crowded lane is crowded on all targets
        module = self.lowered(self.checked.lane_module(uses, plan, digest=True, few=few))
        memory = Memory(module)
        self.arranged.fill(memory)
        values.write(memory, params, self.points[0])  # columns are filled with what never varies
        memory.set("trade_from", np.iinfo(np.int64).min)
        paths, rows = [param.field for param in params], list(self.words().values())
        columns = np.empty((len(self.events), 0), np.int64)
        if plan.hoisted:
            levels = {
                name: np.unique(row, return_inverse=True)[1] for name, row in self.words().items()
            }
            table = table_of(plan, levels, len(self.events))
            memory.set(STEP, table.step)
            paths += map(column, range(len(table.reads)))
            rows += list(table.reads)
            columns = filled(
                lambda subset: self.lowered(
                    self.checked.columns_module(plan, subset, self.arranged.uses)
                ),
                {param.name: param.field for param in params},
                table, memory, self.words(), self.events, CpuRunner(),
            )  # fmt: skip
        leaves = [one for one in own_leaves(module, STATE) if one.path.startswith(tuple(kept))]
        if kept is KEPT:  # else every word is wanted, also of tables that are left blank
            module = settled(module, settings(module, memory.words, paths))
        return LaneWork(
            module=module,
            kept=frozenset(leaf.path for leaf in leaves),
            template=memory.words,
            params=offsets(memory, paths),
            results=np.concatenate([_words_of(leaf) for leaf in leaves]),
            points=np.array(rows, np.int64).reshape(len(rows), len(self.points)),
            events=self.events,
            columns=columns,
        )

    def lowered(self, module: Module) -> Module:
        """The module in the precision of these lanes."""
        return lowered(self.checked, module, self.precision)

    def words(self) -> dict[str, Int64s]:
        """What the state holds of each param at every point."""
        found = {}
        for param in self.checked.strategy.params:
            written = [param.word(point[param.name]) for point in self.points]
            found[param.name] = np.array(written, np.int64 if param.whole else np.float64).view(
                np.int64
            )
        return found


def verify(
    checked: Checked,
    say: Say,
    *,
    points: int | None,
    seed: int,
    precision: Precision = "f64",
    progress: Progress | None = None,
    **options: Any,
) -> list[tuple[str, list[Outcome]]]:
    """What all targets leave of drawn points, and of a sample the interpreter and the first one.

    Each with a line that says what was run. Where nobody says how many `points`, they are POINTS
    over all events, or what `_lightened` leaves of those. `progress` is told of how many lanes of
    all targets have run; `options` are those of `arrange`; raises DataError or ConfigError.
    """
    hold_hosted(checked, "a proof")
    arranged = arrange(checked, **options)
    checked = arranged.sized(checked)
    drawn = draw(checked, arranged, points or POINTS, np.random.default_rng(seed))
    lanes = whole = Lanes(checked, arranged, drawn, materialised(arranged.data), precision)
    if points is None:
        lanes = _lightened(whole, np.random.default_rng(seed))
    title = str(lanes)
    if lanes is not whole:
        title += f" (of {whole}, for its kernels are heavy; --points {POINTS} runs all)"
    machine = targets(usual_plan(checked, len(lanes.events)), say)
    words = lanes.work(NO_COLUMNS).own
    if is_large(words):
        say(f"a lane has {8 * words:,} bytes of state: it runs on cores alone, one at a time")
        plans = {target.plan for target in machine if target.plan.hoisted}
        loads = [Target("scalar, columns", CpuRunner(load=cpu.scalar), plan) for plan in plans]
        machine = [machine[0], *loads]
    sample = _sampled(whole, np.random.default_rng(seed))
    oracle = Target("interpreter", InterpretedRunner())
    beside = [oracle, machine[0]]
    total = len(lanes.points) * len(machine) + len(sample.points) * len(beside)
    done = 0

    def ran(lanes: int) -> None:
        nonlocal done
        done += lanes
        if progress is not None:
            progress(done, total)

    ran(0)
    return [
        (title, compared(lanes, machine, ran)),
        (f"a sample: {sample}", compared(sample, beside, ran)),
    ]


def targets(plan: Plan, say: Say) -> list[Target]:
    """Everything on this machine that runs lanes, the scalar target first."""
    simulated = choose.runner("simulated", say)
    found = [
        Target("scalar", CpuRunner(load=cpu.scalar)),
        Target("SIMD", CpuRunner()),
        Target("simulated GPU", simulated),
    ]
    if plan.hoisted:
        found.append(Target("SIMD, columns", CpuRunner(), plan))
        found.append(Target("simulated GPU, columns", simulated, plan))
    try:
        for number in range(GPUS_MAX):
            gpu = choose.runner(f"cuda:{number}", say)
            found.append(Target(gpu.name, gpu))
            if plan.hoisted:
                found.append(Target(f"{gpu.name}, columns", gpu, plan))
    except UnavailableError as error:
        if number == 0:
            say(f"no GPU: {error.__cause__ or error}")  # nobody asked for one by --device
    return found


class InterpretedRunner:
    """Runs lanes on the interpreter, one after the other: the truth about the others."""

    name = "interpreter"

    def compile(self, work: LaneWork) -> None:
        """Nothing is compiled."""

    def plan(self, work: LaneWork) -> DevicePlan:
        """As Runner promises."""
        return DevicePlan(self.name, 8 * len(work.template), work.n_lanes)

    def close(self) -> None:
        """Nothing is held."""

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises."""
        found = np.empty((len(work.results), hi - lo), np.int64)
        InterpretedLanes(work.module).call(
            "lanes", work.template, work.points[:, lo:hi].reshape(-1), work.params,
            len(work.params), found.reshape(-1), work.results, len(work.results),
            work.events.reshape(-1), len(work.events), work.columns.reshape(-1),
            np.empty(0, np.int64), hi - lo, 0, hi - lo, START | FINISH,
        )  # fmt: skip
        finished(lo, hi, found)


# ---- comparing ---------------------------------------------------------------------------------


def compared(lanes: Lanes, found: Sequence[Target], ran: Ran = UNHEARD) -> list[Outcome]:
    """What each target left, and where it first differs from the first one."""
    first: npt.NDArray[np.int64] | None = None
    outcomes = []
    work_of = functools.cache(lanes.work)  # most targets run the same
    for target in found:
        work = work_of(target.plan)
        left = results(work, target, ran)
        first = left if first is None else first
        different = np.flatnonzero((left != first).any(axis=0))
        outcomes.append(
            Outcome(
                target.name,
                hashlib.sha256(np.ascontiguousarray(left).tobytes()).hexdigest()[:HASH_CHARS],
                _explained(lanes, found[0], target, int(different[0])) if len(different) else "",
                _orders(work, left),
            )
        )
    return outcomes


def results(work: LaneWork, target: Target, ran: Ran = UNHEARD) -> Int64s:
    """[result, lane] as the target leaves them; NaN is one value."""
    found = np.empty((len(work.results), work.n_lanes), np.int64)

    def finished(lo: int, hi: int, words: Int64s) -> None:
        found[:, lo:hi] = words
        ran(hi - lo)

    target.runner.run(work, 0, work.n_lanes, finished)
    floats = np.zeros(len(work.template), bool)
    for leaf in own_leaves(work.module, STATE):
        floats[_words_of(leaf)] = leaf.type == F64_T
    nan = floats[work.results, None] & np.isnan(found.view(np.float64))
    return np.where(nan, CANONICAL_NAN_BITS, found)


def _orders(work: LaneWork, left: Int64s) -> int:
    leaf = next(one for one in own_leaves(work.module, STATE) if one.path == ORDERS)
    return int(left[work.results == leaf.offset_words].sum())


def _explained(lanes: Lanes, one: Target, other: Target, lane: int) -> str:
    """The first instant after which the state of a lane differs, and in what."""
    ends = _ends(lanes.events)
    still: set[str] = set()

    def state(target: Target, count: int) -> State:
        return _state(replace(lanes, events=lanes.events[:count]), target, lane)

    def differing(count: int) -> list[tuple[str, str, str]]:
        found = _unequal(state(one, count), state(other, count))
        return [word for word in found if word[0] not in still]

    low, high = -1, len(ends) - 1
    if other.plan.hoisted:  # what a lane loads from columns it does not keep
        last = state(other, int(ends[high]))
        still = set(last) - {path for path, *_ in _unequal(state(other, int(ends[0])), last)}
    if not differing(int(ends[high])):
        return "the results differ, and the state does not where all of it is kept"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if differing(int(ends[middle])) else (middle, high)
    at = int(ends[high])
    point = lanes.points[lane]
    shown = ", ".join(
        f"{param.name} = {values.show(param, point[param.name])}"
        for param in lanes.checked.strategy.params
    )
    told = [
        f"  {_said(lanes.checked, path)}: {a} on {one.name}, {b} on {other.name}"
        for path, a, b in differing(at)[:SHOWN]
    ]
    when = show_instant(int(lanes.events[at - 1, 0]))
    return "\n".join([f"first at {when}, event {at:,}{', ' if shown else ''}{shown}", *told])


def _state(lanes: Lanes, target: Target, lane: int) -> State:
    """Every word of the state of a lane, by path."""
    work = lanes.work(target.plan, ("",))
    words = results(work, target)[:, lane]
    whole = np.zeros(len(work.template), np.int64)
    whole[work.results] = words
    leaves = own_leaves(work.module, STATE)
    return {leaf.path: (leaf, whole[_words_of(leaf)]) for leaf in leaves}


def _unequal(one: State, other: State) -> list[tuple[str, str, str]]:
    """Path and both values of what differs, the fields of the strategy before the engine's."""
    found = []
    for path, (leaf, words) in one.items():
        if path in other and not np.array_equal(words, other[path][1]):
            at = int(np.flatnonzero(words != other[path][1])[0])
            name = path if leaf.words == 1 else f"{path}[{at}]"
            found.append((name, _shown(leaf, words[at]), _shown(leaf, other[path][1][at])))
    return sorted(found, key=lambda item: item[0].startswith("e."))


def _shown(leaf: Leaf, word: np.int64) -> str:
    return repr(float(word.view(np.float64))) if leaf.type == F64_T else str(int(word))


def _said(checked: Checked, path: str) -> str:
    """A word of the state as the reader of the strategy knows it."""
    name = path.partition(".")[0].partition("[")[0]
    equations = checked.strategy.equations
    for equation in equations.all:
        if name == equation.place.name:
            return f"line {equation.line}, {checked.source.line_text(equation.line).strip()}"
    if name in equations.lines:
        line = equations.lines[name]
        return f"line {line}, {checked.source.line_text(line).strip()} ({path})"
    return path


# ---- what is run -------------------------------------------------------------------------------


def draw(
    checked: Checked, arranged: Arranged, count: int, rng: np.random.Generator
) -> tuple[Mapping[str, Fraction], ...]:
    """The point that the settings name, then others drawn from the ranges of the params that they
    leave open: those that `require` admits, each once. ConfigError where it admits none."""
    params = checked.strategy.params
    named = values.chosen(params, arranged.given)
    module = checked.lane_module(arranged.uses)
    memory, interpreter = Memory(module), Interpreter(module)
    arranged.fill(memory)
    swept = [
        param
        for param in params
        if param.low is not None and param.high is not None and param.name not in arranged.given
    ]
    found: list[Mapping[str, Fraction]] = []
    seen: set[tuple[Fraction, ...]] = set()
    for number in range(1 + DRAWS * count if swept else 1):
        point = dict(named)
        for param in swept if number else ():
            steps = range_of(param)
            point[param.name] = steps[int(rng.integers(len(steps)))]
        if tuple(point.values()) in seen:
            continue
        seen.add(tuple(point.values()))
        values.write(memory, params, point)
        if not checked.strategy.requires or interpreter.call("admits", memory.words) < 0:
            found.append(point)
        if len(found) == count:
            break
    if not found:
        values.write(memory, params, named)
        hold_admitted(checked, interpreter, memory, named)
    return tuple(found)


def _sampled(lanes: Lanes, rng: np.random.Generator) -> Lanes:
    """What the interpreter runs."""
    count, instruments = SAMPLE_INSTANTS, lanes.checked.instruments
    if lanes.checked.strategy.universe is not None:
        count = min(count, SAMPLE_BARS // instruments + 1)
    bars = max(_windows(lanes), default=0) + WARM_BARS
    warm = bars * len(_ends(lanes.events)) // len(market_times(lanes.events))
    if warm > count and bars * instruments <= WARM_BARS_MAX:
        return _part(lanes, 1, warm, rng)
    return _part(lanes, SAMPLE_POINTS, count, rng)


def _windows(lanes: Lanes) -> list[int]:
    """How far back kernels look."""
    return [n for one in lanes.checked.library.kernels.values() for n in one.windows]


def _lightened(lanes: Lanes, rng: np.random.Generator) -> Lanes:
    """What all targets run in about a minute: these lanes, or where kernels are heavy fewer points,
    and where that is not enough a window in which each kernel is warm for half of the bars."""
    windows = _windows(lanes)
    count, n_events = len(lanes.points), len(lanes.events)
    if count * n_events * sum(windows) <= KERNEL_VALUES:
        return lanes
    most = KERNEL_VALUES // sum(windows)  # events of all lanes together
    few = min(count, max(FEW_POINTS, most // n_events))
    instants = len(_ends(lanes.events)) * most // (few * n_events)
    return _part(lanes, few, max(instants, 2 * max(windows)), rng)


def _part(lanes: Lanes, n_points: int, count: int, rng: np.random.Generator) -> Lanes:
    """A few of the points over a window of so many instants."""
    few = rng.choice(len(lanes.points), min(n_points, len(lanes.points)), replace=False)
    ends = np.append(0, _ends(lanes.events))
    strategy = lanes.checked.strategy
    first = int(rng.integers(max(len(ends) - count, 1)))
    if strategy.ticks or (strategy.universe is not None and strategy.universe.traits):
        first = 0  # what is told once: without its snapshot there is no book, and nobody a member
    last = min(first + count, len(ends) - 1)
    points = tuple(lanes.points[n] for n in sorted(few))
    return replace(lanes, points=points, events=lanes.events[ends[first] : ends[last]])


def usual_plan(checked: Checked, events: int) -> Plan:
    """What a sweep of the whole grid would load from columns on a GPU, where it is more."""
    swept = {p.name: len(range_of(p)) for p in checked.strategy.params if p.low is not None}
    return checked.plan(Scope(swept, prod(swept.values()), events, LOAD_GPU))[0]


def _ends(events: Int64s) -> Int64s:
    """How many events there are when each instant is complete."""
    return np.flatnonzero((events[:, 2] >> 48) & MORE == 0) + 1


def _words_of(leaf: Leaf) -> Int64s:
    return np.arange(leaf.offset_words, leaf.offset_words + leaf.words)
