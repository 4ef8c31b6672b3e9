"""Signals of a live session on a device: from events in the host's memory to values there.

    python -m bench.live_signals OUT.json [INSTRUMENTS] [DEVICE]

Twenty signals of each of 5,000 instruments, an instant after the other, each with a bar of every
instrument. Three spans of each instant, medians over all but the first, in microseconds:

    device   from the launch to the number of the instant in pinned memory
    host     from events in the arena to values: is it their turn, then `device`
    whole    from events in the feed's memory to answers as the sequencer takes them, the copy into
             the arena, with the look at their heads, and that of the values included

The answers of all instants are held to those of a core, bit by bit.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.bench_signals import market
from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.check import compile_file
from quantdsl.check.checked import WORKER
from quantdsl.events.layout import Kind
from quantdsl.live.sequencer import Answer
from quantdsl.live.signal_device import DeviceSignals, parted
from quantdsl.live.worker import Worker

INSTRUMENTS, DAYS, WARM = 5_000, 120, 40
EQUATIONS = (
    "close / close[1] - 1", "close / close[5] - 1", "close / close[21] - 1",
    "ts.mean(ret, 20)", "ts.mean(ret, 30)", "ts.std(ret, 20)", "ts.std(ret, 30)",
    "ts.zscore(ret, 20)", "ts.zscore(float(close), 30)", "ta.ema(close, 12)",
    "ta.ema(close, 26)", "ta.ema(close, 12) / ta.ema(close, 26) - 1", "ta.rsi(close, 14)",
    "ta.atr(14)", "ta.atr(14) / close", "ta.sma(close, 10)", "ta.sma(close, 30)",
    "ta.linreg(close, 20)", "log(close / close[1])", "(high - low) / close",
)  # fmt: skip
HEAD = """language 1

strategy Live:
    bars 1d
    universe "ALL"

    let ret = close / close[1] - 1
"""
TAIL = """
    on ready(s0):
        if flat and s0 > 1.0:
            buy(1 shares)

    risk:
        max_gross = 100% of equity
"""


def text() -> str:
    """A strategy of twenty signals."""
    signals = [
        f"\n    @async(deadline = 2ms)\n    let s{number} = {equation}\n"
        for number, equation in enumerate(EQUATIONS)
    ]
    return HEAD + "".join(signals) + TAIL


def prepared_on(instruments: int, days: int = DAYS) -> tuple[Prepared, list[Any]]:
    """A live strategy of so many instruments before its first event, and instants of bars."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "live.qdsl"
        path.write_text(text(), encoding="utf-8")
        checked, table = compile_file(path), market(instruments, days).table
        prepared = prepare(checked, data=table, live=frozenset({WORKER}))
        events = np.concatenate(list(prepare(checked, data=table).data.chunks()))
    bars = events[events["kind"] == Kind.BAR]
    return prepared, list(parted(bars))


def spans_us(device: DeviceSignals, instants: list[Any], first: int) -> dict[str, float]:
    """The medians of the three spans over the instants from the `first` on."""
    spans: dict[str, list[int]] = {"device": [], "host": [], "whole": []}
    for number, events in enumerate(instants):
        came = time.perf_counter_ns()
        lent = device.arena.copy(events)
        assert lent is not None
        in_arena = time.perf_counter_ns()
        assert device.takes(lent)
        looked = time.perf_counter_ns()
        device.launch(lent)
        device.wait()
        there = time.perf_counter_ns()
        answers = list(device.answers())
        done = time.perf_counter_ns()
        device.arena.free()
        if number >= first:
            assert sum(len(one.bits) for one in answers) == len(EQUATIONS) * len(events)
            # `launch` asks that as well: what it took outside is not counted.
            spans["device"].append(there - looked - (looked - in_arena))
            spans["host"].append(there - looked)
            spans["whole"].append(done - came - (looked - in_arena))
    return {name: statistics.median(found) / 1e3 for name, found in spans.items()}


def rows(answers: Iterable[Answer]) -> npt.NDArray[np.int64]:
    """Signal, instant, bits and instrument of each value, in order."""
    parts = [
        np.stack(np.broadcast_arrays(one.signal, one.of_ts, one.bits, one.instruments), axis=1)
        for one in answers
    ]
    return np.concatenate(parts) if parts else np.empty((0, 4), np.int64)


def main(out: Path, instruments: int = INSTRUMENTS, device: str = "cuda:0") -> int:
    """Measure, compare, write; 1 where the device's answers are not those of a core."""
    prepared, instants = prepared_on(instruments)
    core, worker = Worker(prepared), Worker(prepared)
    worker.move(device)
    assert worker.device is not None, worker.notices
    both = ((rows(one.compute(events)) for one in (worker, core)) for events in instants)
    same = all(np.array_equal(*found) for found in both)
    again = Worker(prepared)
    again.move(device)
    assert again.device is not None, again.notices
    found = spans_us(again.device, instants, WARM)
    began = time.perf_counter_ns()
    for events in instants[-20:]:
        core.compute(events)
    found["core"] = (time.perf_counter_ns() - began) / 20e3
    facts = {"instruments": instruments, "signals": len(EQUATIONS), "on": device, "same": same}
    out.write_text(json.dumps({**facts, "us": found}, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps({**facts, **found}) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(Path(words[0]), *[int(word) for word in words[1:2]], *words[2:]))
