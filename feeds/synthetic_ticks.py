"""The built-in tick market: a seeded book of one stock with its trades and quotes.

It is made for trying strategies on ticks out, not for believing their results. What it has of a
real large-tick stock: a spread of one tick most of the time and seldom of more, queues of some
hundred shares that are added to, cancelled from and traded away, a price that moves when a queue
is empty, aggressors who come in runs of one side, stretches of buying and of selling, and
messages that take a fraction of a millisecond to arrive.

Sameness: the only randomness is an integer generator (splitmix64) and every figure comes from
integer arithmetic, so that the stream is the same on every machine.
"""

import hashlib
from collections.abc import Iterator

import numpy as np
from quantdsl.feeds.kernels import head, inner, put

from quantdsl.codegen.decoders import entry
from quantdsl.data.calendar import SessionSpec, schedule_of
from quantdsl.data.ticks import ORDERS, Events, Tally
from quantdsl.data.times import SECOND_NS, parse_instant
from quantdsl.events.layout import EVENT, MORE, WORDS

CALENDAR = "XNYS"
SESSIONS = 2
FIRST_DAY = parse_instant("2023-01-03")

LEVELS = 10
"""Prices of each side that the book shows."""

STEP_NS = 60_000_000
"""Mean time between two actions of the market."""

_START_TICKS = (10_000, 6_000, 25_000, 4_000)
_ROWS_MAX = 8 * LEVELS
"""An action makes fewer events than this."""

# Words of the market's state.
_RANDOM, _NOW, _BID, _SPREAD, _SIGN, _BIAS, _LEFT, _NUMBER, _RECEIVED, _WORDS = range(10)


@inner("int64(int64[::1], int64)")
def _draw(state, below: int) -> int:
    """A number from 0 to below - 1, `below` at most 2**31."""
    z = np.uint64(state[_RANDOM]) + np.uint64(0x9E3779B97F4A7C15)
    state[_RANDOM] = np.int64(z)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64(((z >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))


@entry("int64(int64[::1], int64)")
def _draw_one(state, below: int) -> int:
    """`_draw`, for Python."""
    return _draw(state, below)


@inner("int64(int64[:,::1], int64, int64[::1], int64, int64, int64, int64, int64, int64)")
def _put(out, at, state, word, a, b, c, d, e) -> int:
    put(out, at, state[_NOW], state[_RECEIVED], word, a, b, c, d, e)
    return at + 1


@inner("int64(int64[::1], int64, int64)")
def _price(state, side: int, level: int) -> int:
    return state[_BID] - level if side == 0 else state[_BID] + state[_SPREAD] + level


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1], int64, int64)")
def _level(out, at, state, queue, side: int, level: int) -> int:
    """The change of one level of the book as it is now."""
    word = head(0, 4, side, MORE)
    return _put(out, at, state, word, _price(state, side, level), queue[side, level],
                state[_NUMBER], 0, 0)  # fmt: skip


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1], int64)")
def _worse(out, at, state, queue, side: int) -> int:
    """The best level of a side is empty: the next one is best, and a new one comes into view."""
    at = _put(out, at, state, head(0, 4, side, MORE), _price(state, side, 0), 0,
              state[_NUMBER], 0, 0)  # fmt: skip
    for level in range(LEVELS - 1):
        queue[side, level] = queue[side, level + 1]
    queue[side, LEVELS - 1] = 100 * (2 + _draw(state, 12))
    state[_SPREAD] += 1
    if side == 0:
        state[_BID] -= 1
    return _level(out, at, state, queue, side, LEVELS - 1)


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1], int64, int64)")
def _better(out, at, state, queue, side: int, size: int) -> int:
    """An order within the spread: a new best level, and the last one leaves the view."""
    last = _price(state, side, LEVELS - 1)
    for level in range(LEVELS - 1, 0, -1):
        queue[side, level] = queue[side, level - 1]
    queue[side, 0] = size
    state[_SPREAD] -= 1
    if side == 0:
        state[_BID] += 1
    at = _put(out, at, state, head(0, 4, side, MORE), last, 0, state[_NUMBER], 0, 0)
    return _level(out, at, state, queue, side, 0)


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1])")
def _take(out, at, state, queue) -> int:
    """A market order: a trade message, and the message of what it leaves."""
    if _draw(state, 100) < 30:
        state[_SIGN] = np.int64(_draw(state, 100) < state[_BIAS])
    side = state[_SIGN]  # of the book that is taken from: buyers take asks
    size = min(queue[side, 0], 20 * (1 + _draw(state, 20)))
    if _draw(state, 10) == 0:
        size = queue[side, 0]
    state[_NUMBER] += 1
    number = state[_NUMBER]
    word = head(0, 3, 1 if side == 1 else 2, 0)
    at = _put(out, at, state, word, _price(state, side, 0), size, number, number, 0)
    queue[side, 0] -= size
    if queue[side, 0] == 0:
        return _worse(out, at, state, queue, side)
    return _level(out, at, state, queue, side, 0)


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1])")
def _act(out, at, state, queue) -> int:
    """One action of the market as events; the next row."""
    kind = _draw(state, 100)
    side = _draw(state, 2)
    size = 20 * (1 + _draw(state, 15))
    state[_NUMBER] += 1
    if state[_SPREAD] > 1 and kind < 70:
        # Where the price just moved from, those who followed the flow mostly come first.
        side = 1 - state[_SIGN] if _draw(state, 100) < 40 else state[_SIGN]
        return _better(out, at, state, queue, 1 - side, size)
    level = min(LEVELS - 1, _draw(state, 4) * _draw(state, 4))
    if kind < 48:
        queue[side, level] += size
    elif kind < 88:
        # What stands long is cancelled sooner, so that queues stay near their usual length.
        share = 1 + _draw(state, 4) + queue[side, level] // 500
        size = min(queue[side, level], size * share // 3)
        if size == queue[side, level] and level > 0:
            size -= 20
        if size <= 0:
            return at
        queue[side, level] -= size
        if queue[side, level] == 0:
            return _worse(out, at, state, queue, side)
    else:
        return _take(out, at, state, queue)
    return _level(out, at, state, queue, side, level)


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1])")
def _quote(out, at, state, queue) -> int:
    bid, ask = _price(state, 0, 0), _price(state, 1, 0)
    return _put(out, at, state, head(0, 2, 0, 0), bid, ask, queue[0, 0], queue[1, 0],
                state[_NUMBER])  # fmt: skip


@inner("int64(int64[:,::1], int64, int64[::1], int64[:,::1])")
def _snapshot(out, at, state, queue) -> int:
    at = _put(out, at, state, head(0, 5, 0, MORE), state[_NUMBER], 0, 0, 0, 0)
    for side in range(2):
        for level in range(LEVELS):
            at = _level(out, at, state, queue, side, level)
    out[at - 1, 2] &= ~(np.int64(MORE) << 48)
    return _quote(out, at, state, queue)


@inner("boolean(int64[::1], int64)")
def _moment(state, until: int) -> bool:
    """The time of the next action and of its receipt; False where the session is over."""
    u = _draw(state, 1 << 20)
    state[_NOW] += 1_000 + (3 * u * u >> 20) * (STEP_NS >> 10) // 1024
    took = _draw(state, 1 << 10)
    arrived = state[_NOW] + 150_000 + (took * took * 600_000 >> 20)
    state[_RECEIVED] = max(state[_RECEIVED], arrived)
    state[_LEFT] -= 1
    if state[_LEFT] <= 0:
        state[_LEFT] = 500 + _draw(state, 4_000)
        state[_BIAS] = 30 + 20 * _draw(state, 3)
    return state[_RECEIVED] < until


@entry("int64(int64[::1], int64[:,::1], int64, boolean, int64[:,::1])")
def _session(state, queue, until: int, begins: bool, out) -> int:
    """Events until the session ends or `out` is nearly full: rows made, negative at its end."""
    at = 0
    if begins:
        at = _snapshot(out, at, state, queue)
    while at + _ROWS_MAX < len(out):
        now, received = state[_NOW], state[_RECEIVED]
        if not _moment(state, until):
            return -at - 1
        bid, ask, first, second = state[_BID], state[_SPREAD], queue[0, 0], queue[1, 0]
        before = at
        at = _act(out, at, state, queue)
        if at == before:
            # What nobody sees takes no time, so that the market is never silent for long.
            state[_NOW], state[_RECEIVED] = now, received
            continue
        out[at - 1, 2] &= ~(np.int64(MORE) << 48)
        same = bid == state[_BID] and ask == state[_SPREAD]
        if not (same and first == queue[0, 0] and second == queue[1, 0]):
            at = _quote(out, at, state, queue)
    return at


class SyntheticTicks:
    """Messages of one instrument of the built-in tick market; readable any number of times."""

    price_digits, size_digits = 2, 0
    has_recv, tells = True, ORDERS | {"quotes"}
    format = "invented ticks"

    def __init__(self, index: int, seed: int, calendar: str | None = None) -> None:
        self._index, self._seed = index, seed
        self.name = f"the built-in tick market (seed {seed})"
        self.symbol = f"SYN{index + 1}"
        self.tally = Tally(self.name, "stop")
        self.notes = ["to try a strategy out and not to judge it"]
        spec = SessionSpec(calendar=calendar or CALENDAR)
        schedule = schedule_of(spec, FIRST_DAY, FIRST_DAY + 30 * 86_400 * SECOND_NS)
        first = int(np.searchsorted(schedule.open_ns, FIRST_DAY))
        self._opens = schedule.open_ns[first : first + SESSIONS]
        self._closes = np.minimum(
            schedule.close_ns[first : first + SESSIONS], self._opens + 23_400 * SECOND_NS
        )

    @property
    def start_ns(self) -> int:
        """When the first session opens."""
        return int(self._opens[0])

    def sha256(self) -> str:
        """Hash of what the messages follow from; they themselves are the same everywhere."""
        label = f"synthetic ticks seed {self._seed} instrument {self._index} "
        return hashlib.sha256(
            label.encode() + self._opens.tobytes() + self._closes.tobytes()
        ).hexdigest()

    def chunks(self) -> Iterator[Events]:
        """Whole messages in order of receipt; each session begins with a snapshot."""
        state = np.zeros(_WORDS, np.int64)
        state[_RANDOM] = (self._seed * 1_000_003 + self._index) * 7_919 + 1
        state[_BID] = _START_TICKS[self._index % len(_START_TICKS)]
        state[_SPREAD], state[_BIAS] = 1, 50
        queue = np.zeros((2, LEVELS), np.int64)
        for side in range(2):
            for level in range(LEVELS):
                queue[side, level] = 100 * (3 + _draw_one(state, 8))
        for opens, closes in zip(self._opens.tolist(), self._closes.tolist(), strict=True):
            state[_NOW] = opens
            state[_RECEIVED] = opens + 150_000
            begins, made = True, 0
            while made >= 0:
                out = np.empty((1 << 16, WORDS), np.int64)
                made = int(_session(state, queue, closes, begins, out))
                begins = False
                rows = made if made >= 0 else -made - 1
                if rows:
                    yield out[:rows].view(EVENT).reshape(-1)
