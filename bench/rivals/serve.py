"""What every rival's script shares: read the bars once, then answer each line of stdin by a run.

The runner asks one engine after the other, round by round, so that all see the same machine.
Nothing here imports quantdsl: each rival lives in a virtual environment of its own.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

Bars = dict[str, np.ndarray]
"""ts (ns), open, high, low, close, volume: one array each."""
Run = Callable[[], tuple[int, float]]
"""One backtest: closed trades, profit with the open position marked at the last close."""
TURN_S = 0.1


def serve(prepare: Callable[[Bars], Run]) -> None:
    """Prepare outside the clock, then time runs for each line that comes in: their median.

    A turn lasts TURN_S at least: a run of a millisecond would else be timed on caches that the
    turn of another process has emptied, a run of a second would not.
    """
    with np.load(sys.argv[1]) as stored:
        bars = {name: stored[name] for name in stored.files}
    run = prepare(bars)
    for _ in sys.stdin:
        taken = []
        begin = time.perf_counter()
        while not taken or time.perf_counter() - begin < TURN_S:
            start = time.process_time()
            trades, profit = run()
            taken.append(time.process_time() - start)
        answer = {"cpu_seconds": statistics.median(taken), "trades": trades}
        sys.stdout.write(json.dumps({**answer, "profit": round(profit, 6)}) + "\n")
        sys.stdout.flush()
