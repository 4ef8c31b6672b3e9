"""What every rival's script shares: read the bars once, then answer each line of stdin by a run.

The runner asks one engine after the other, round by round, so that all see the same machine.
Nothing here imports quantdsl: each rival lives in a virtual environment of its own.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np

Bars = dict[str, np.ndarray]
"""ts (ns), open, high, low, close, volume: one array each."""
Run = Callable[[], tuple[int, float]]
"""One backtest: closed trades, profit with the open position marked at the last close."""


def serve(prepare: Callable[[Bars], Run]) -> None:
    """Prepare outside the clock, then time one run for each line that comes in."""
    with np.load(sys.argv[1]) as stored:
        bars = {name: stored[name] for name in stored.files}
    run = prepare(bars)
    for _ in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        trades, profit = run()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        answer = {"seconds": seconds, "cpu_seconds": cpu_seconds, "trades": trades}
        sys.stdout.write(json.dumps({**answer, "profit": round(profit, 6)}) + "\n")
        sys.stdout.flush()
