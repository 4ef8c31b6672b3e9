"""The tests of a strategy file: `set`, `feed`, `given`, `expect`.

They run on the interpreter, which needs no compiler and gives the same bits; with a kernel, whose
windows would take it minutes, as machine code. Before the fed bars
comes the first of them, again and again, as often as the strategy needs to be warm, so that a
test can be short: its close does not move, its range is the test's.
"""

from fractions import Fraction
from math import lcm
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.backtest import panel_testing, tick_testing, values
from quantdsl.backtest.awaited import awaited
from quantdsl.backtest.program import Run
from quantdsl.backtest.settings import DAY_UTC
from quantdsl.backtest.tick_testing import tick_of
from quantdsl.check import Checked, compile_file
from quantdsl.check.cases import Case
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from quantdsl.config import SignalsConfig
from quantdsl.data.instrument import EXACT_MAX
from quantdsl.data.signals import answered
from quantdsl.errors import ConfigError
from quantdsl.events import layout
from quantdsl.events.layout import MORE, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Module

RUN = ("admits", "init", "run")
CASH = Fraction(100_000)
MONEY_DIGITS = 6
TICK = Fraction(1, 100)
STEP_NS = 60_000_000_000
DAY_NS = 86_400_000_000_000
START_NS = 1_704_206_400_000_000_000  # 2024-01-02 14:40 UTC, in a session of most calendars


class Outcome(Struct, frozen=True):
    """One test: `message` says which expectation failed, with its source."""

    name: str
    line: int
    passed: bool
    message: str = ""


def run_tests(path: Path) -> list[Outcome]:
    """Run every test of a file, in order. SourceError if the file does not compile."""
    checked = compile_file(path, library_too=True)
    if not checked.cases:
        return []
    if checked.strategy.universe is not None:
        sized = [(checked.sized(case.instruments), case) for case in checked.cases]
        return [_run(_Tested(one, case.entries), case) for one, case in sized]
    tested = _Tested(checked, checked.test_entries())
    return [_run(tested, case) for case in checked.cases]


class _Tested:
    """A strategy with the functions of its tests, and what runs both."""

    def __init__(self, checked: Checked, entries: tuple[str, ...]) -> None:
        self.checked = checked
        self.module = checked.module(entries=entries)
        self.interpreter = Interpreter(self.module)
        self.runner = _runner(self.module, self.interpreter, frozenset(checked.library.kernels))


def _runner(
    module: Module, interpreter: Interpreter, kernels: frozenset[str]
) -> Interpreter | Program:
    """What runs the strategy: machine code where a kernel goes over a window for each bar."""
    if not any(func.name.partition("[")[0] in kernels for func in module.funcs):
        return interpreter
    alone = msgspec.structs.replace(module, entries=RUN)
    return load(alone, native(), Cache())


def _run(tested: _Tested, case: Case) -> Outcome:
    checked, interpreter = tested.checked, tested.interpreter
    try:
        run = _prepare(checked, tested.module, tested.runner, case)
        before, after = _events(checked, case)
    except ConfigError as error:
        return Outcome(case.name, case.line, passed=False, message=str(error))
    unlimited = run.memory.view("e.limits").copy()
    run.feed(_answered(checked, before))
    if case.given:
        _give(interpreter, run, case.given, unlimited)
    run.feed(_answered(checked, after))
    for expectation in case.expectations:
        if not interpreter.call(expectation.func, run.memory.words):
            return Outcome(
                case.name,
                expectation.line,
                passed=False,
                message=f"expected {expectation.text}{_state(run, case)}",
            )
    return Outcome(case.name, case.line, passed=True)


def _answered(checked: Checked, events: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """With the answers to asynchronous signals, each at once, in an instant of its own."""
    asks = awaited(checked, SignalsConfig(delay_us=0.0))
    if asks is None or not len(events):
        return events
    key = "ts_recv" if checked.strategy.ticks else "ts_event"
    return np.concatenate(list(answered(iter([events]), asks, key)))


def _give(
    interpreter: Interpreter, run: Run, given: str, unlimited: npt.NDArray[np.int64]
) -> None:
    """What is given was there before the strategy: its limits do not hold it."""
    limits = run.memory.view("e.limits")
    own = limits.copy()
    limits[:] = unlimited
    interpreter.call(given, run.memory.words)
    limits[:] = own


def _prepare(
    checked: Checked, module: Module, runner: Interpreter | Program, case: Case
) -> Run:
    run = Run(checked, module, runner)
    memory, tick = run.memory, _tick(case)
    scale = 10**MONEY_DIGITS
    cash = case.cash if case.cash is not None else CASH
    _hold_exact("price", _prices(case), tick)
    _hold_exact("volume", case.feeds.get("volume", []), Fraction(1))
    _hold_exact("cash", [cash], Fraction(1, scale))
    memory.set("e.config.cash", int(cash * scale))
    memory.set("e.config.money_scale", float(scale))
    memory.set("e.config.margin_initial", 1.0)
    memory.set("e.config.day_rule", DAY_UTC)
    memory.set("money_scale", float(scale))
    for index in range(checked.instruments):
        at = f"e.instruments[{index}]"
        for name, number in (
            ("tick_num", tick.numerator),
            ("tick_den", tick.denominator),
            ("lot_num", 1),
            ("lot_den", 1),
            ("money_per_tick_lot", int(tick * scale)),
            ("price_min", 1),
            ("price_max", 10**9),
            ("lots_max", 10**6),
        ):
            memory.set(f"{at}.{name}", number)
    memory.set("trade_from", np.iinfo(np.int64).min)
    chosen = values.chosen(checked.strategy.params, case.sets, below=True)
    values.write(memory, checked.strategy.params, chosen)
    run.start()
    return run


def _tick(case: Case) -> Fraction:
    """A tick that holds every price of the feed."""
    if case.ticks.mids:
        return tick_of(case.ticks)
    finest = (price.denominator for price in _prices(case))
    return Fraction(1, lcm(TICK.denominator, case.range.denominator * 2, *finest))


def _prices(case: Case) -> list[Fraction]:
    """All that the test feeds."""
    series = [one for name, one in case.feeds.items() if name != "volume"]
    series += [*case.panel.closes.values(), case.ticks.mids, case.ticks.trades]
    return [price for one in series for price in one]


def _hold_exact(what: str, fed: list[Fraction], unit: Fraction) -> None:
    """ConfigError for a number of a test that no event holds."""
    if fed and max(fed) >= EXACT_MAX * unit:
        raise ConfigError(
            f"the test has a {what} of {float(max(fed)):g}, which is beyond 2^53 steps of "
            f"{float(unit):g}\nhelp: take a smaller one, or fewer decimals"
        )


def _events(checked: Checked, case: Case) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """The first bar until all is warm, and once more, by which what is given has filled; then the
    bars of the test."""
    if checked.strategy.ticks:
        clocks = range(checked.strategy.width)
        warm = max(_warm(checked, clock) for clock in clocks)
        before, after = tick_testing.events(checked, case.ticks, warm, START_NS)
        told = panel_testing.told(checked, case, len(case.panel.closes) or 1, START_NS)
        return np.concatenate([told, before]), after
    tick, empty = _tick(case), np.empty(0, layout.EVENT)
    fed = [panel_testing.bars_of(case, name, tick) for name in case.panel.closes]
    fed = fed or [_bars(case, name) for name in _feeds(checked, case)]
    if not fed or not len(fed[0]):
        return empty, empty
    if checked.strategy.universe is not None:
        warm_of = [_warm(checked, clock) for clock in range(len(checked.strategy.clocks))]
        return panel_testing.events(checked, case, fed, tick, warm_of)
    flat = [np.repeat(bars[:1], _warm(checked, 0) + 2) for bars in fed]
    for bars in flat:
        bars["open"] = bars["close"]
    parts = [
        _coarse(flat, _warm(checked, clock) + 1, clock)
        for clock in range(len(checked.strategy.clocks) - 1, 0, -1)
    ]
    fine = _merged(
        [np.concatenate(pair) for pair in zip(flat, fed, strict=True)], START_NS, STEP_NS
    )
    cut = (len(flat[0]) - 1) * len(fed)
    return np.concatenate([*parts, fine[:cut]]), fine[cut:]


def _feeds(checked: Checked, case: Case) -> list[str]:
    """Which feed each instrument takes its closes from."""
    traded = checked.strategy.instruments
    if len(traded) == 1:
        return ["close"] if "close" in case.feeds else []
    missing = [one.name for one in traded if one.name not in case.feeds]
    if case.feeds and missing:
        raise ConfigError(f"the test feeds nothing for {', '.join(missing)}")
    return [one.name for one in traded] if case.feeds else []


def _coarse(flat: list[npt.NDArray[np.void]], count: int, clock: int) -> npt.NDArray[np.void]:
    """Flat bars of a coarser clock, a day each, before the first fine one."""
    bars = [np.repeat(one[:1], count) for one in flat]
    for one in bars:
        one["side"] = clock
    return _merged(bars, START_NS - (count + 1) * DAY_NS, DAY_NS)


def _merged(
    series: list[npt.NDArray[np.void]], start_ns: int, step_ns: int
) -> npt.NDArray[np.void]:
    """The instruments' bars in order of time, each instant marked as whole at its last bar."""
    count = min(len(bars) for bars in series)
    merged = np.zeros(count * len(series), layout.BAR)
    for index, bars in enumerate(series):
        part = bars[:count].copy()
        part["instrument"] = index
        part["ts_event"] = start_ns + np.arange(1, count + 1) * step_ns
        part["ts_recv"] = part["ts_event"] - step_ns
        part["flags"] = MORE if index < len(series) - 1 else 0
        merged[index :: len(series)] = part
    return merged.view(layout.EVENT)


def _bars(case: Case, feed: str) -> npt.NDArray[np.void]:
    """The fed bars in ticks: open is the previous close, high and low lie `range` / 2 outside."""
    closes = case.feeds[feed]
    tick = _tick(case)
    bars = np.zeros(len(closes), layout.BAR)
    bars["kind"] = Kind.BAR
    opens = case.feeds.get("open", [*closes[:1], *closes[:-1]])
    half = case.range / 2
    for n, (start, close) in enumerate(zip(opens, closes, strict=False)):
        high = _at(case.feeds.get("high"), n, max(start, close) + half)
        low = _at(case.feeds.get("low"), n, min(start, close) - half)
        volume = _at(case.feeds.get("volume"), n, Fraction(1_000_000))
        for name, price in (("open", start), ("high", high), ("low", low), ("close", close)):
            bars[name][n] = int(price / tick)
        bars["volume"][n] = int(volume)
    return bars


def _at(values_: list[Fraction] | None, n: int, default: Fraction) -> Fraction:
    return values_[n] if values_ is not None and n < len(values_) else default


def _warm(checked: Checked, clock: int) -> int:
    """The longest warm-up of any handler on a clock over all param values, in its bars."""
    clocks = checked.strategy.width if checked.strategy.universe is None else PANEL_SHIFT
    counts = [
        warm.most
        for handler in checked.strategy.handlers
        for bit, warm in handler.reads.items()
        if bit % clocks == clock and isinstance(warm.most, int)
    ]
    return max(counts, default=1)


def _state(run: Run, case: Case) -> str:
    """What the account looks like, for a failed expectation."""
    held = [int(run.memory.get(f"e.positions[{n}].lots")) for n in range(case.instruments)]
    names = [f"{name} " for name in case.panel.closes] or [""]
    lots = ", ".join(f"{name}{count}" for name, count in zip(names, held, strict=True))
    orders = run.memory.get("e.metrics.orders")
    fills = run.memory.get("e.metrics.fills")
    return f"\nposition {lots} lots, orders.count {orders}, fills.count {fills}"
