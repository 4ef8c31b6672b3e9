"""Promise: depth lines become event columns 10 times as fast as by msgspec and Python, LOBSTER's 4.

The rival decodes the same lines with msgspec (Binance) or by splitting them (LOBSTER) and makes
the same rows of integers; both must leave equal rows.
"""

import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.events.layout import Kind

SCALE = 10**8
Rows = np.ndarray[Any, np.dtype[np.int64]]


class Diff(msgspec.Struct):
    """What the rival reads of a message of a book."""

    U: int
    u: int
    b: list[tuple[str, str]]
    a: list[tuple[str, str]]


class Stream(msgspec.Struct):
    """A message of a combined stream."""

    data: Diff


def recording(folder: Path, lines: int) -> Path:
    """A spot recording: a snapshot, then changes of 12 to 24 levels each."""
    draw = random.Random(1)  # noqa: S311 (a bench)
    start = 1_723_161_254_000_000_000
    bids = ",".join(f'["{61_000 - n}.50000000","1.00000000"]' for n in range(100))
    asks = ",".join(f'["{61_001 + n}.50000000","1.00000000"]' for n in range(100))
    text = [f'{start} {{"lastUpdateId":1,"bids":[{bids}],"asks":[{asks}]}}']

    def levels() -> str:
        return ",".join(
            f'["{draw.randrange(60_000, 62_000)}.{draw.randrange(100):02d}000000",'
            f'"{draw.randrange(9)}.{draw.randrange(10**5):05d}000"]'
            for _ in range(draw.randrange(6, 12))
        )

    for n in range(lines):
        ts, ms = start + (n + 1) * 1_000_000, 1_723_161_254_000 + n
        text.append(
            f'{ts} {{"stream":"btcusdt@depth@100ms","data":{{"e":"depthUpdate","E":{ms},'
            f'"s":"BTCUSDT","U":{n + 2},"u":{n + 2},"b":[{levels()}],"a":[{levels()}]}}}}'
        )
    path = folder / "btcusdt.txt"
    path.write_text("\n".join(text) + "\n", encoding="ascii")
    return path


def by_msgspec(path: Path) -> Rows:
    decoder = msgspec.json.Decoder(Stream)
    rows = []
    with path.open("rb") as file:
        next(file)
        for line in file:
            ts, _, message = line.partition(b" ")
            diff = decoder.decode(message).data
            for side, levels in ((0, diff.b), (1, diff.a)):
                # A float would not be exact; a Decimal is what Python has for this.
                rows += [
                    (int(ts), side, int(Decimal(price) * SCALE), int(Decimal(size) * SCALE))
                    for price, size in levels
                ]
    return np.array(rows, np.int64)


def messages(folder: Path, lines: int) -> Path:
    """LOBSTER messages: each order is added and, 40 messages later, deleted."""
    draw = random.Random(2)  # noqa: S311 (a bench)
    rows: list[str] = []
    stood: list[str] = []
    for n in range(lines):
        ts = f"{34_200 + n * 0.001:.9f}"
        if n % 2 and len(stood) > 20:
            rows.append(f"{ts},3,{stood.pop(0)}")
        else:
            order = f"{n + 1},{draw.randrange(1, 500)},{draw.randrange(5_800_000, 5_900_000, 100)}"
            stood.append(f"{order},{draw.choice((1, -1))}")
            rows.append(f"{ts},1,{stood[-1]}")
    path = folder / "AAPL_2012-06-21_34200000_57600000_message_10.csv"
    path.write_text("\n".join(rows) + "\n", encoding="ascii")
    return path


def by_splitting(path: Path) -> Rows:
    rows = []
    midnight = 1_340_251_200 * 10**9
    with path.open(encoding="ascii") as file:
        for line in file:
            seconds, kind, _, size, price, side = line.split(",")
            ts = midnight + int(Decimal(seconds) * 10**9)
            rows.append((ts, int(side.startswith("-")), int(price), int(size) * (kind == "1")))
    return np.array(rows, np.int64)


def by_us(path: Path) -> list[Any]:
    return list(open_ticks(Opening(path)).chunks())


def rows_of(blocks: list[Any], size_word: int) -> Rows:
    """Time of receipt, side, price and size of each change that is no part of a snapshot."""
    changes = [block for block in blocks if block["kind"][0] != Kind.BOOK_SNAPSHOT]
    events = np.concatenate(changes)
    events = events[events["kind"] == Kind.BOOK_DELTA]
    words = events["ts_recv"], events["side"], events["payload"][:, 0]
    return np.stack((*words, events["payload"][:, size_word]), axis=1).astype(np.int64)


def cpu_seconds(call: Callable[[Path], Any], path: Path) -> float:
    """The median of a few runs, of the processor's time, which other processes do not lengthen."""
    took = []
    for _ in range(3):
        began = time.process_time()
        call(path)
        took.append(time.process_time() - began)
    return float(np.median(took))


CASES = {
    "binance": (recording, by_msgspec, 1, 30_000, 10.0),
    "lobster": (messages, by_splitting, 4, 300_000, 4.0),
}


@pytest.mark.parametrize("name", CASES)
def test_decode(name, benchmark, full, tmp_path):
    write, rival, word, lines, promised = CASES[name]
    path = write(tmp_path, lines if full else 50)
    theirs = rival(path)
    assert np.array_equal(rows_of(by_us(path), word), theirs)
    benchmark(by_us, path)
    if full:
        ours = cpu_seconds(by_us, path)
        speedup = cpu_seconds(rival, path) / ours
        benchmark.extra_info["events_per_second"] = len(theirs) / ours
        benchmark.extra_info["speedup"] = speedup
        assert speedup >= promised
