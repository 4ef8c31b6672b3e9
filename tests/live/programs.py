"""Shipped strategies made ready for the engine's loop, once a session."""

from functools import cache

import numpy as np

from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.backtest.run import carry, run_end
from quantdsl.check import Checked, compile_file
from quantdsl.events.ring import Records, Ring
from quantdsl.live.loop import EventLoop, open_loop
from quantdsl.shipped import shipped


@cache
def checked(name: str) -> Checked:
    return compile_file(shipped(f"strategies/{name}.qdsl"))


def ready(name: str) -> Prepared:
    """On the built-in market, before its first event."""
    return prepare(checked(name))


def events(prepared: Prepared) -> list[Records]:
    """The whole run, its end included."""
    chunks = list(prepared.data.chunks())
    last = chunks[-1][-1]
    return [*chunks, run_end(int(max(last["ts_event"], last["ts_recv"])))]


def loop(prepared: Prepared, *, inbound: int = 1 << 12, outbound: int = 1 << 13) -> EventLoop:
    rings = {"inbound": Ring.create(None, inbound), "outbound": Ring.create(None, outbound)}
    return open_loop(prepared, **rings)


@cache
def backtested(name: str) -> tuple[bytes, np.ndarray]:
    """The records of a backtest, and the state it left, but for rows and outbox."""
    prepared = ready(name)
    prepared.run.memory.set("curve_on", False)
    carry(prepared.run, prepared.data)
    return prepared.run.all_records().tobytes(), settled(prepared)


def settled(prepared: Prepared) -> np.ndarray:
    """The state of a run as far as it does not depend on who drained it, and when."""
    memory = prepared.run.memory
    words = memory.words.copy()
    for path in ("e.outbox", "rows"):
        slot = memory.slot(path)
        words[slot.offset_words : slot.offset_words + slot.words] = 0
    return words
