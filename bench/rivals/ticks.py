"""A maker at the touch on a recorded order book, in hftbacktest and in our core, turn by turn.

    python -m bench.rivals.ticks [--rounds 11] [--json ticks.json]

Both have the same events, latency (10 ms there, 10 ms back), pessimistic queue and strategy: a lot
a side at the touch while nothing is under way; what stands elsewhere is cancelled first. What is
timed is CPU time of one run over events in memory: ours with accounts and metrics, theirs the loop
of compiled calls alone. The events stand in the venue's order, since hftbacktest replays in that
one: 88 messages were received in another, and there we take what we have.

The fills are the same but for four and one. The venue's times are whole milliseconds; where two
messages of one millisecond come apart, hftbacktest knows of a fill with the first, we with the one
that filled.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.bench_ticks import LEAN, MS
from bench.rivals.__main__ import HERE, Engine, interpreter
from quantdsl.events.layout import Aggressor, BookSide, Kind
from tests.std.core.core import N_RECORDS, PATIENT
from tests.std.core.recording import messages
from tests.std.core.tick_core import RECORDED, TickCore

RIVAL = Engine("hftbacktest 2.4.4", 0, "hftbacktest", ("hftbacktest==2.4.4", "numba==0.68.1"))
PROMISED_RATIO, PROMISED_EVENTS_PER_S = 3.0, 2e7
THEIRS_ALONE, OURS_ALONE = 4, 1
"""Fills of one of the two."""
MESSAGES_AT_ONCE = 50
"""Of which the records have room."""
Fills = set[tuple[int, ...]]


def events() -> npt.NDArray[np.void]:
    """The recording in the venue's order, no two messages received at one time."""
    found = messages()
    found = found[np.argsort(found["ts_event"], kind="stable")]
    number = np.concatenate([[0], np.cumsum(found["flags"][:-1] == 0)])
    found["ts_recv"] = np.maximum.accumulate(found["ts_recv"] - number) + number
    return found[: int(np.flatnonzero(found["flags"] == 0)[-1]) + 1]


def stored(rows: npt.NDArray[np.void], path: Path) -> None:
    """The same as columns that any program reads; a book that begins needs no mark of it."""
    rows = rows[rows["kind"] != Kind.BOOK_SNAPSHOT]
    trade = rows["kind"] == Kind.TRADE
    buy = np.where(trade, rows["side"] == Aggressor.BUYS, rows["side"] == BookSide.BID)
    ticks, lots = rows["payload"][:, 0], rows["payload"][:, 1]
    np.savez(path, trade=trade, buy=buy, ts=rows["ts_event"], recv=rows["ts_recv"], ticks=ticks,
             lots=lots)  # fmt: skip


class Ours:
    """Our core on the events, in one compiled call."""

    def __init__(self, rows: npt.NDArray[np.void], *, records: bool = False) -> None:
        venue = {"latency_entry": 10 * MS, "latency_response": 10 * MS}
        config = {"price_max": 10**8, "money": 100, "cash": 10**15}
        kept = {("USES_RECORDS", 1), ("N_RECORDS", N_RECORDS)}
        lean = {size for size in LEAN if size[0] not in dict(kept)} | kept if records else LEAN
        self.core = TickCore(config, venue, sizes=RECORDED | frozenset(lean))
        self.rows, self.start = rows, self.core.words.copy()

    def seconds(self) -> float:
        """CPU time of one run."""
        self.core.words[:] = self.start
        words = self.rows.view(np.int64).reshape(-1)
        begin = time.process_time()
        self.core.run(PATIENT, words, len(self.rows))
        return time.process_time() - begin

    def fills(self) -> Fills:
        """Side, ticks, time at the venue."""
        ends = np.flatnonzero(self.rows["flags"] == 0) + 1
        cuts = [0, *ends[MESSAGES_AT_ONCE - 1 :: MESSAGES_AT_ONCE].tolist(), len(self.rows)]
        found: Fills = set()
        for begin, end in itertools.pairwise(cuts):
            words = self.rows[begin:end].view(np.int64).reshape(-1)
            self.core.run(PATIENT, words, end - begin)
            kept = self.core.rows()
            for row in kept[kept["kind"] == Kind.FILL]:
                found.add((int(np.sign(row["b"])), int(row["c"]), int(row["ts_recv"])))
            self.core.set("outbox_count", 0)
        return found


def ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    """One run of theirs."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("run\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def compare(ours: Fills, theirs: Fills) -> str:
    """A line of what they share; AssertionError where more differs than is explained above."""
    alone = len(theirs - ours), len(ours - theirs)
    assert alone == (THEIRS_ALONE, OURS_ALONE), alone
    return f"{len(ours & theirs)} fills are the same, {alone[0]} theirs alone, {alone[1]} ours"


def measure(rounds: int) -> dict[str, Any]:
    """Events a second of both, medians; the median of the ratios of each round; what fills say."""
    rows = events()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "events.npz", Path(folder) / "fills.npy"
        stored(rows, given)
        script = str(HERE / "hftbacktest_run.py")
        with subprocess.Popen(
            [interpreter(RIVAL), script, str(given), str(found)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": ""},
        ) as process:  # fmt: skip
            ask(process)  # compiles, and leaves its fills
            theirs_fills = {tuple(row[:3]) for row in np.load(found).tolist()}
            same = compare(Ours(rows, records=True).fills(), theirs_fills)
            ours = Ours(rows)
            pairs = [(ask(process)["cpu_seconds"], ours.seconds()) for _ in range(rounds)]
    theirs_s, ours_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "engine": RIVAL.name,
        "events": len(rows),
        "events_per_s": len(rows) / ours_s,
        "theirs_per_s": len(rows) / theirs_s,
        "ratio": statistics.median(theirs / own for theirs, own in pairs),
        "fills": same,
    }


def show(found: dict[str, Any]) -> str:
    """The same for people."""
    return (
        f"{found['events']:,} events, medians of CPU time\n"
        f"{found['engine']}: {found['theirs_per_s']:.3g} events/s\n"
        f"quantdsl: {found['events_per_s']:.3g} events/s (promised {PROMISED_EVENTS_PER_S:.2g})\n"
        f"ratio: {found['ratio']:.1f} (promised {PROMISED_RATIO:.0f})\n"
        f"{found['fills']}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.rounds)
    sys.stdout.write(show(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
