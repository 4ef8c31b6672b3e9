"""The engine core alone, compiled or interpreted, behind a small Python handle."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

import quantdsl.check.elaborators  # noqa: F401 - registers the elaborators
from quantdsl.check.context import Context
from quantdsl.check.library import (
    CORE,
    NO_BOOK,
    SINGLE_RUN,
    USES,
    Library,
    venue_sizes,
)
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events import layout
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout, Slot, field
from quantdsl.ir.link import link
from quantdsl.ir.verify import verify
from quantdsl.passes import run_passes

ENTRIES = {
    "init": "engine.init",
    "ingest": "engine.ingest",
    "market": "engine.market",
    "submit": "engine.submit",
    "finish": "engine.finish",
    "place": "orders.place",
}
PLAY, MAKE, PATIENT = "play", "make", "patient"
PLAYS = (PLAY, MAKE, PATIENT)
ON_TICKS_TOO = {"place_shown": "orders.place_shown", "quote": "quoting.quote"}
NOT_IN_ALL = (
    *("USES_TICKS", "USES_QUOTES", "USES_TRADES", "USES_BOOK"),
    *("USES_COMMAND", "USES_HOUSE"),
    "USES_UNIVERSE",
)
"""Parts of the core that only runs on ticks, live runs and runs on a universe have."""
N_ORDERS, N_RECORDS = 32, 1024
SIZES = {"N_ORDERS": N_ORDERS, "N_RECORDS": N_RECORDS, **NO_BOOK, **SINGLE_RUN}
NONE, FAULT, NEVER = 1 << 53, -(1 << 53), 1 << 62
HOUR = 3_600_000_000_000


@cache
def library() -> Library:
    """The core, elaborated; an error in it fails here."""
    made = Library()
    for key in CORE:
        made.namespace(key)
    for module in list(made.modules):
        if module.key in CORE:
            cx = Context(made, module, module.scope, units=made.unitless)
            for binding in list(module.scope.names.values()):
                if hasattr(binding, "routines"):
                    made.routine(cx, binding, 0)
    made.raise_std_errors()
    return made


@cache
def members(enum: str) -> tuple[str, ...]:
    """Names of an enum of the core, in order of their codes."""
    return library().enum(enum).names


def play_messages(name: str) -> ops.Func:
    """`play(e, events, n)`: whole messages, after each of which nobody sends an order.

    `make(e, events, n)`: a maker quotes 10 lots a side at the touch after each one. `patient`: one
    quotes a lot a side while nothing that it sent is under way, and cancels before it moves.
    """
    engine = ops.ParamDecl("e", ops.StructType("engine.Engine"), inout=True)
    events = ops.ParamDecl("events", ops.BufferType(ops.StructType("engine.Event")))
    event = ops.Elem(ops.Var("events"), ops.Var("k"))
    head = ops.Field(event, "head")

    def part(shift: int, mask: int) -> ops.Expr:
        return ops.Binary("iand", ops.Binary("lshr", head, ops.i64(shift)), ops.i64(mask))

    def do(name: str, *args: ops.Expr) -> ops.Stmt:
        return ops.Do(ops.Call(f"engine.{name}", (ops.Var("e"), *args)))

    more = ops.Binary("ine", part(48, layout.MORE), ops.i64(0))
    venue = ops.Elem(ops.Field(ops.Var("e"), "venues"), ops.i64(0))
    bid, ask = ops.Field(venue, "bid"), ops.Field(venue, "ask")
    due: ops.Expr = ops.Field(venue, "valid")
    bid_lots: ops.Expr = ops.i64(10)
    ask_lots: ops.Expr = ops.i64(10)
    if name == PATIENT:
        sent, wait = ops.Field(venue, "last_arrival"), ops.Field(venue, "latency_response")
        answered = ops.Binary("ige", ops.Field(ops.Var("e"), "now"), ops.Binary("iadd", sent, wait))
        there = ops.Binary("ieq", ops.Field(venue, "errands"), ops.i64(0))
        due = ops.Binary("and", due, ops.Binary("and", there, answered))
        bid_lots, ask_lots = unless_moved("bid", bid), unless_moved("ask", ask)
    terms = (bid, bid_lots, ask, ask_lots)
    quote = ops.Call("quoting.quote", (ops.Var("e"), ops.i64(0), *terms, ops.boolean(True),
                                       ops.i64(1), ops.i64(1)))
    quotes = () if name == PLAY else (ops.If(due, (ops.Do(quote),)),)
    body = (
        do("ingest", event, part(32, 255), part(40, 255), part(0, 0xFFFFFFFF)),
        ops.If(more, (ops.Continue(),)),
        do("market"),
        *quotes,
        do("submit"),
        do("finish"),
    )
    loop = ops.For("k", ops.i64(0), ops.Var("n"), body)
    return ops.Func(name, (engine, events, ops.ParamDecl("n", ops.I64_T)), None, (loop,))


def unless_moved(side: str, touch: ops.Expr) -> ops.Expr:
    """One lot where no order of ours stands on that side, or it stands at the touch; else none."""
    asked = ops.Call(f"engine.working_{side}", (ops.Var("e"), ops.i64(0)))
    free = ops.Binary("ieq", asked, ops.i64(NONE))
    stays = ops.Binary("or", free, ops.Binary("ieq", asked, touch))
    return ops.Select(stays, ops.i64(1), ops.i64(0))


Sizes = frozenset[tuple[str, int]]


@cache
def module(instruments: int, uses: int = 1, sizes: Sizes = frozenset()) -> ops.Module:
    """The core linked behind plain entry functions; `uses` = 0 leaves out what can be left out.

    `sizes` stand in place of those of a single run.
    """
    found = library()

    ticks = dict(sizes).get("USES_TICKS")
    entries = ENTRIES | ON_TICKS_TOO if ticks else ENTRIES

    def lookup(name: str) -> Any:
        if name in PLAYS:
            return play_messages(name)
        if name not in entries:
            return found.lookup(name)
        inner = found.lookup(entries[name])
        assert isinstance(inner, ops.Func)
        call = ops.Call(inner.name, tuple(ops.Var(p.name) for p in inner.params))
        return ops.Func(name, inner.params, None, (ops.Do(call),))

    used = {**dict.fromkeys(USES, uses), **dict.fromkeys(NOT_IN_ALL, 0)}
    all_sizes = {**SIZES, **used, "N_INSTRUMENTS": instruments, **dict(sizes)}
    names = [*entries, *(PLAYS if ticks else ())]
    linked = link(lookup, names, all_sizes | venue_sizes(all_sizes))
    verify(linked)
    return linked


@cache
def machine(instruments: int, uses: int = 1, sizes: Sizes = frozenset()) -> Program:
    """The core as machine code, after the compiler's own passes."""
    linked = run_passes(module(instruments, uses, sizes))
    return Program(object_code(linked, native()), linked, native())


class Core:
    """One engine; `interpreted` runs it in the IR interpreter instead of as machine code."""

    def __init__(
        self,
        config: dict[str, Any],
        instruments: int = 1,
        *,
        interpreted: bool = False,
        uses: int = 1,
        sizes: Sizes = frozenset(),
    ) -> None:
        self.module = module(instruments, uses, sizes)
        self.runner: Any = machine(instruments, uses, sizes)
        if interpreted:
            self.runner = Interpreter(self.module)
        self.words = np.zeros(_words(self.module), np.int64)
        self.event = np.zeros(1, layout.EVENT)
        common = {
            "tick_num": 1.0,
            "tick_den": 100.0,
            "lot_num": 1.0,
            "lot_den": 1.0,
            "money_per_tick_lot": config.get("money", 10_000),
            "price_min": config.get("price_min", 1),
            "price_max": config.get("price_max", 10**7),
            "lots_max": config.get("lots_max", 10**6),
        }
        for i in range(instruments):
            for name, value in common.items():
                self.set(f"instruments[{i}].{name}", value)
        skip = {"money", "price_min", "price_max", "lots_max"}
        for name, value in {
            "cash": 10**11,
            "margin_initial": 1.0,
            "money_scale": 1.0,
            "cut": 1,
            **config,
        }.items():
            if name not in skip:
                self.set(f"config.{name}", value)
        self.run("init")
        self.set("counting", True)  # as engine.begin leaves it before the first bar

    def slot(self, path: str) -> Slot:
        return _slot(self.module, path)

    def set(self, path: str, value: float | bool) -> None:
        """Write one word by its path in engine.Engine."""
        slot = self.slot(path)
        if slot.type == "f64":
            self.words.view(np.float64)[slot.offset_words] = value
        else:
            self.words[slot.offset_words] = value

    def get(self, path: str) -> Any:
        """Read one word by its path in engine.Engine."""
        slot = self.slot(path)
        words = self.words.view(np.float64) if slot.type == "f64" else self.words
        return words[slot.offset_words].item()

    def run(self, entry: str, *args: Any) -> None:
        """Call one of ENTRIES."""
        self.runner.call(entry, self.words, *args)

    def ingest(self, ts: int, ts_open: int, inst: int, kind: int, side: int, *payload: int) -> None:
        """One event."""
        row = self.event[0]
        row["ts_event"], row["ts_recv"], row["instrument"] = ts, ts_open, inst
        row["kind"], row["side"], row["flags"] = kind, side, 0
        row["payload"] = (*payload, *[0] * (5 - len(payload)))
        self.run("ingest", self.event.view(np.int64), int(kind), side, inst)

    def place(self, intent: dict[str, Any]) -> None:
        """One intent: words by name, enums by member name, the rest absent."""
        self.run("place", intent_words(self.module, intent))

    def step(
        self,
        ts: int,
        ts_open: int,
        bars: Mapping[int, tuple[int, ...]],
        intents: list[dict[str, Any]],
        session_close: bool = False,
    ) -> list[tuple[Any, ...]]:
        """One instant; returns its records as (kind, reason, instrument, a, b, c, d, e)."""
        for i, bar in bars.items():
            self.ingest(ts, ts_open, i, layout.Kind.BAR, 0, *bar)
        if session_close:
            self.ingest(ts, ts, 0, layout.Kind.SESSION, 1)
        self.run("market")
        for intent in intents:
            self.place(intent)
        self.run("submit")
        self.run("finish")
        return self.drain()

    def rows(self) -> np.ndarray:
        """The records since the last call, as they stand in the outbox."""
        count = self.get("outbox_count")
        first = self.slot("outbox[0].ts_event").offset_words
        self.set("outbox_count", 0)
        return self.words[first : first + 8 * count].view(layout.RECORD).copy()

    def drain(self) -> list[tuple[Any, ...]]:
        """The records since the last call."""
        return [
            (
                layout.Kind(r["kind"]).name,
                int(r["flags"]),
                int(r["instrument"]),
                *(int(r[name]) for name in "abcde"),
            )
            for r in self.rows()
        ]


@cache
def _words(linked: ops.Module) -> int:
    return Layout(linked.structs).words(ops.StructType("engine.Engine"))


_SLOTS: dict[tuple[int, str], Slot] = {}


def _slot(linked: ops.Module, path: str) -> Slot:
    key = (id(linked), path)
    if key not in _SLOTS:
        _SLOTS[key] = field(linked, "engine.Engine", path)
    return _SLOTS[key]


ENUMS = {
    "verb": "orders.Verb",
    "tif": "orders.Tif",
    "when": "orders.When",
    "size_by": "orders.SizeBy",
}
ABSENT = {
    "limit": NONE,
    "stop": NONE,
    "touch": NONE,
    "take_profit": NONE,
    "stop_loss": NONE,
    "expire_ts": NEVER,
}


def intent_words(linked: ops.Module, intent: dict[str, Any]) -> np.ndarray:
    """An orders.Intent as words."""
    decl = next(s for s in linked.structs if s.name == "orders.Intent")
    given = {**ABSENT, **intent}
    given["size_by"] = next((k for k in ("value", "fraction") if k in intent), "lots")
    words = np.zeros(len(decl.fields), np.int64)
    for at, entry in enumerate(decl.fields):
        value = given.get(entry.name, 0)
        if isinstance(value, str):
            value = members(ENUMS[entry.name]).index(value)
        if entry.type == "f64":
            words.view(np.float64)[at] = value
        else:
            words[at] = value
    return words
