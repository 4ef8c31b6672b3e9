"""Hand-made ticks, and strategies run on them by the interpreter and by machine code."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import values
from quantdsl.backtest.program import Run
from quantdsl.backtest.settings import DAY_UTC
from quantdsl.check import Checked, check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events.layout import EVENT, MORE, NO_PRICE, Aggressor, BookSide, Feed, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.kinds import Kinds
from quantdsl.ir.ops import CANONICAL_NAN_BITS, F64_T, Module, StructType
from quantdsl.ir.verify import verify
from quantdsl.lang.source import Source

MS = 1_000_000
START = 1_704_206_400_000_000_000
Message = npt.NDArray[np.void]


def event(kind: Kind, ms: float, *payload: int, side: int = 0, instrument: int = 0) -> Message:
    """One event so many milliseconds after the start, received as it happens."""
    made = np.zeros(1, EVENT)
    made["ts_event"] = made["ts_recv"] = START + int(ms * MS)
    made["kind"], made["side"], made["instrument"] = kind, side, instrument
    made["payload"][0, : len(payload)] = payload
    return made


def quote(ms: float, bid: int | None, ask: int | None, lots: int = 500, inst: int = 0) -> Message:
    """The best prices in ticks, None for a side that is missing."""
    sides = (NO_PRICE if bid is None else bid, NO_PRICE if ask is None else ask)
    return event(Kind.QUOTE, ms, *sides, lots, lots, instrument=inst)


def trade(ms: float, price: int, lots: int, side: Aggressor = Aggressor.UNKNOWN) -> Message:
    """A trade in ticks and lots."""
    return event(Kind.TRADE, ms, price, lots, side=side)


def delta(ms: float, side: BookSide, price: int, lots: int) -> Message:
    """A level of the book."""
    return event(Kind.BOOK_DELTA, ms, price, lots, side=side)


def snapshot(ms: float) -> Message:
    """An empty book, to be filled by what follows in the same message."""
    return event(Kind.BOOK_SNAPSHOT, ms)


def feed(ms: float, state: Feed) -> Message:
    """What has become of the feed."""
    return event(Kind.FEED, ms, side=state)


def message(*events: Message) -> Message:
    """One instant of several events."""
    whole = np.concatenate(events)
    whole["flags"][:-1] = MORE
    return whole


def flat_book(ms: float, bid: int, ask: int, lots: int = 500, levels: int = 5) -> Message:
    """A whole book with as much at every level."""
    bids = [delta(ms, BookSide.BID, bid - n, lots) for n in range(levels)]
    asks = [delta(ms, BookSide.ASK, ask + n, lots) for n in range(levels)]
    return message(snapshot(ms), *bids, *asks)


def checked_strategy(text: str) -> Checked:
    """The strategy, which has no errors."""
    checked, diagnostics = check_source(Source(text, "<input>"))
    assert checked is not None, [d.message for d in diagnostics]
    return checked


def prepared(checked: Checked, module: Module, executor: object) -> Run:
    """A run before its first event: a tick is 0.01, a lot 1, an account of 100,000."""
    run = Run(checked, module, executor)
    memory, scale = run.memory, 10**6
    memory.set("e.config.cash", 100_000 * scale)
    memory.set("e.config.money_scale", float(scale))
    memory.set("e.config.margin_initial", 1.0)
    memory.set("e.config.day_rule", DAY_UTC)
    memory.set("money_scale", float(scale))
    for index in range(len(checked.strategy.instruments)):
        words = (1, 100, 1, 1, scale // 100, 1, 10**9, 10**6)
        names = "tick_num tick_den lot_num lot_den money_per_tick_lot price_min price_max lots_max"
        for name, number in zip(names.split(), words, strict=True):
            memory.set(f"e.instruments[{index}].{name}", number)
    memory.set("trade_from", np.iinfo(np.int64).min)
    memory.set("curve_on", True)
    params = checked.strategy.params
    values.write(memory, params, values.chosen(params, {}, below=True))
    run.start()
    return run


def canonical(run: Run) -> npt.NDArray[np.int64]:
    """The words of the state with every NaN as the one NaN."""
    words = run.memory.words
    floats = Kinds(run.memory.layout).of(StructType("State")) == F64_T
    return np.where(floats & np.isnan(words.view(np.float64)), CANONICAL_NAN_BITS, words)


def run_both(text: str, events: Iterable[Message]) -> Run:
    """The run on machine code, which leaves the same state and records as the interpreter."""
    checked = checked_strategy(text)
    module = checked.module()
    verify(module)
    stream = np.concatenate(list(events))
    oracle = prepared(checked, module, Interpreter(module))
    target = native()
    machine = prepared(checked, module, Program(object_code(module, target), module, target))
    for run in (oracle, machine):
        run.feed(stream)
    assert oracle.all_records().tobytes() == machine.all_records().tobytes()
    assert (oracle.curve() == machine.curve()).all()
    assert not len(np.flatnonzero(canonical(oracle) != canonical(machine)))
    return machine


def state(run: Run, checked: Checked, name: str) -> float | int:
    """What a state of the strategy holds."""
    place = checked.strategy.scope.names[name].value.ir
    return run.memory.get(place.name)
