"""Promise: 2e7 events of a recorded order book a second on one core, with a maker at the touch.

The maker quotes both sides at the touch after every message: 10 ms there, 10 ms back, places in
the queue, fills, accounts and metrics.
"""

import numpy as np
import pytest

from quantdsl.check.library import USES
from tests.std.core.core import MAKE, PLAY
from tests.std.core.recording import messages
from tests.std.core.tick_core import RECORDED, TickCore

NS_PER_EVENT = 50.0
NEEDED = frozenset({"USES_TICKS", "USES_BOOK", "USES_TRADES", "USES_TIF", "USES_LIMIT"})
LEAN = {(name, 0) for name in USES if name not in NEEDED} | {("USES_RECORDS", 0), ("N_RECORDS", 1)}
MS = 1_000_000
SMALL = 20_000


@pytest.mark.parametrize("name", [PLAY, MAKE])
def test_events(benchmark, full, name):
    """The recording by itself, and with the maker; a second run leaves the very same state."""
    events = messages() if full else messages()[:SMALL]
    last = int(np.flatnonzero(events["flags"] == 0)[-1]) + 1
    words = events[:last].view(np.int64).reshape(-1)
    venue = {"latency_entry": 10 * MS, "latency_response": 10 * MS}
    core = TickCore({"price_max": 10**8, "money": 100}, venue, sizes=RECORDED | LEAN)
    start = core.words.copy()
    core.run(name, words, last)
    left = core.words.copy()

    def begin():
        core.words[:] = start

    given = (name, core.words, words, last)
    benchmark.pedantic(core.runner.call, given, setup=begin, rounds=20 if full else 1)
    assert (core.words == left).all()
    assert (core.get("metrics.fills") > 0) == (name == MAKE)
    benchmark.extra_info["events"] = last
    if full:
        assert benchmark.stats["median"] / last * 1e9 <= NS_PER_EVENT
