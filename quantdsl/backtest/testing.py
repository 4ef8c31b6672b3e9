"""The tests of a strategy file: `set`, `feed`, `given`, `expect`.

They run on the interpreter, which needs no compiler and gives the same bits. Before the fed bars
come flat ones, as many as the strategy needs to be warm, so that a test can be short.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import values
from quantdsl.backtest.program import Run
from quantdsl.backtest.settings import DAY_UTC
from quantdsl.check import Checked, compile_file
from quantdsl.check.cases import Case
from quantdsl.errors import ConfigError
from quantdsl.events import layout
from quantdsl.events.layout import Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Module

CASH = Fraction(100_000)
MONEY_DIGITS = 6
TICK = Fraction(1, 100)
STEP_NS = 60_000_000_000
START_NS = 1_704_206_400_000_000_000  # 2024-01-02 14:40 UTC, in a session of most calendars


@dataclass(frozen=True)
class Outcome:
    """One test: `message` says which expectation failed, with its source."""

    name: str
    line: int
    passed: bool
    message: str = ""


def run_tests(path: Path) -> list[Outcome]:
    """Run every test of a file, in order. SourceError if the file does not compile."""
    checked = compile_file(path)
    if not checked.cases:
        return []
    module = checked.module(entries=checked.test_entries())
    interpreter = Interpreter(module)
    return [_run(checked, module, interpreter, case) for case in checked.cases]


def _run(checked: Checked, module: Module, interpreter: Interpreter, case: Case) -> Outcome:
    if len(checked.strategy.clocks) > 1 or len(checked.strategy.instruments) > 1:
        return Outcome(case.name, case.line, passed=False, message=(
            "a test feeds one instrument on one clock; this strategy has several"))
    try:
        run = _prepare(checked, module, interpreter, case)
    except ConfigError as error:
        return Outcome(case.name, case.line, passed=False, message=str(error))
    bars = _bars(case)
    if len(bars):
        flat = np.repeat(bars[:1], _warm(checked) + 2)
        for name in ("open", "high", "low"):
            flat[name] = flat["close"]
        series = np.concatenate([flat, bars])
        series["ts_event"] = START_NS + np.arange(1, len(series) + 1) * STEP_NS
        series["ts_recv"] = series["ts_event"] - STEP_NS
        _feed(run, interpreter, case, series, len(flat))
    for expectation in case.expectations:
        if not interpreter.call(expectation.func, run.memory.words):
            return Outcome(case.name, expectation.line, passed=False,
                           message=f"expected {expectation.text}{_state(run)}")
    return Outcome(case.name, case.line, passed=True)


def _prepare(checked: Checked, module: Module, interpreter: Interpreter, case: Case) -> Run:
    run = Run(checked, module, interpreter)
    memory, tick = run.memory, _tick(case)
    scale = 10**MONEY_DIGITS
    cash = case.cash if case.cash is not None else CASH
    memory.set("e.config.cash", int(cash * scale))
    memory.set("e.config.margin_initial", 1.0)
    memory.set("e.config.day_rule", DAY_UTC)
    memory.set("money_scale", float(scale))
    at = "e.instruments[0]"
    for name, number in (("tick_num", tick.numerator), ("tick_den", tick.denominator),
                         ("lot_num", 1), ("lot_den", 1),
                         ("money_per_tick_lot", int(tick * scale)), ("price_min", 1),
                         ("price_max", 10**9), ("lots_max", 10**6)):
        memory.set(f"{at}.{name}", number)
    memory.set("trade_from", np.iinfo(np.int64).min)
    chosen = values.chosen(checked.strategy.params, case.sets, below=True)
    values.write(memory, checked.strategy.params, chosen)
    run.start()
    return run


def _feed(
    run: Run, interpreter: Interpreter, case: Case, series: npt.NDArray[np.void], warm: int
) -> None:
    """The flat bars, then what is given, then the bars of the test."""
    events = series.view(layout.EVENT)
    if not case.given:
        run.feed(events)
        return
    run.feed(events[: warm - 1])
    interpreter.call(case.given, run.memory.words)
    run.feed(events[warm - 1 :])


def _tick(case: Case) -> Fraction:
    """A tick that holds every price of the feed."""
    prices = [price for name, series in case.feeds.items() if name != "volume" for price in series]
    denominator = lcm(TICK.denominator, case.range.denominator * 2,
                      *(price.denominator for price in prices))
    return Fraction(1, denominator)


def _bars(case: Case) -> npt.NDArray[np.void]:
    """The fed bars in ticks: open is the previous close, high and low lie `range` / 2 outside."""
    closes = case.feeds.get("close", [])
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


def _warm(checked: Checked) -> int:
    """The longest warm-up of any handler over all param values, in bars."""
    counts = [int(warm.most) for handler in checked.strategy.handlers  # type: ignore[arg-type]
              for warm in handler.reads.values()]
    return max(counts, default=1)


def _state(run: Run) -> str:
    """What the account looks like, for a failed expectation."""
    lots = run.memory.get("e.positions[0].lots")
    orders = run.memory.get("e.metrics.orders")
    fills = run.memory.get("e.metrics.fills")
    return f"\n      position {lots} lots, orders.count {orders}, fills.count {fills}"
