"""What lanes share of a turn, computed once for all of them: rows in place of events.

passes/rows.py takes the lanes' loop apart. Its entry `rows` runs here, once, on the state of any
one lane, and writes a row of words for each turn; the kernels then loop over rows. What lanes have
in common besides, an order book, stands behind the rows as it was at any moment (passes/past.py).
"""

import functools
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, cache_key, load, through_cache
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import Target
from quantdsl.ir.link import reached
from quantdsl.ir.ops import I64_T, BufferType, Func, Module, ParamDecl
from quantdsl.passes import LANE, lane_passes
from quantdsl.passes.common import COMMON, common_words
from quantdsl.passes.group import COUNT
from quantdsl.passes.past import ROWS_START
from quantdsl.passes.row_strides import Strides, row_strides
from quantdsl.passes.rows import OUT, ROW_WORDS, ROWS
from quantdsl.passes.stride import STRIDE
from quantdsl.passes.tile import TILE_TYPE
from quantdsl.passes.uniform import START

Words = npt.NDArray[np.int64]
WORDS = BufferType(I64_T)
STATE = ParamDecl("s", WORDS, inout=True)
TAKEN = (
    STATE,
    ParamDecl("events", WORDS),
    ParamDecl("n", I64_T),
    ParamDecl("out", WORDS, inout=True),
)
IMAGES = "images"
IMAGES_PARAMS = (
    ParamDecl(ROWS, WORDS),
    ParamDecl(COUNT, I64_T),
    ParamDecl(OUT, TILE_TYPE, inout=True),
)
IMAGES_INTERFACE = Module((), (), (Func(IMAGES, IMAGES_PARAMS, None, ()),), (IMAGES,))
HELD = ParamDecl(COMMON, WORDS, inout=True)
CHANGES, MOST = 8, 4_096
"""Room for changes of what lanes have in common: so many an event, and so many besides."""
SPLITS_MAX = 8
"""Modules of this process that stay split: a strategy is split once for all of its kernels."""


@functools.lru_cache(SPLITS_MAX)
def split_lanes(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str] | None,
    depth: int | None,
    past: bool,
    /,
) -> Module:
    """A module after the passes over lanes; `varying` are the paths that lanes differ in.

    With a `depth`, words that are used only deep in branches stay in memory (passes/promote.py).
    With `past`, lanes read an order book as it was (passes/past.py), where they would build one.
    Nothing has a default: one that is left out and one that is given are two modules to the cache.
    """
    return lane_passes(module, kept, varying, depth=None if varying is None else depth, past=past)


def kernel_form(
    kept: frozenset[str], varying: frozenset[str] | None, depth: int | None = None
) -> str:
    """What tells kernels of one module apart, as a part of a cache's key."""
    return f"{sorted(kept)} by {sorted(varying) if varying is not None else None} to {depth}"


def kernel_part(module: Module) -> Module:
    """What the kernel runs of a split module: all but what makes the rows."""
    return reached(module, (START, "lane"))


class Behind(NamedTuple):
    """What stands behind all rows, made of them once for all lanes."""

    images: Program
    """Its entry IMAGES writes that."""
    rows: int
    words: int
    """For each so many rows that many words."""


class RowsCode:
    """The program that makes rows of events."""

    def __init__(
        self, program: Program, width: int, common: int, behind: Behind | None = None
    ) -> None:
        self.program = program
        self.width = width
        """Words of a row."""
        self.common = common
        """Words that all lanes have in common; their history stands behind all else."""
        self.behind = behind

    @property
    def room(self) -> int:
        """Words that a row takes of memory, with its share of what stands behind all rows."""
        return self.width + (-(-self.behind.words // self.behind.rows) if self.behind else 0)

    def words(self, turns: int) -> int:
        """Words of what a maker makes for so many turns, without a history."""
        more = -(-turns // self.behind.rows) * self.behind.words if self.behind else 0
        return (turns + 1) * self.width + more

    def start(self, template: Words, params: Words, point: Words) -> "RowMaker":
        """A maker for events from the first on; `point` are the params of any one lane."""
        words = template.copy()
        words[params] = point
        own = len(words) - self.common
        held = np.zeros(self.common + 2, np.int64)
        held[: self.common] = words[own:]
        self.program.call(*((ROWS_START, words, held) if self.common else (START, words)))
        return RowMaker(self, words, held)


class RowMaker:
    """Makes rows of one piece of the events after the other."""

    def __init__(self, code: RowsCode, words: Words, held: Words) -> None:
        self._code, self._words, self._held = code, words, held

    def rows(self, events: Words) -> tuple[Words, int]:
        """The rows of events[event, word], one after the other, and for how many turns they are.

        One more row follows the last turn's: what lanes store of shared words at the end. A word
        that a turn does not write is 0, since lanes may read, before they know that the turn is not
        a usual one, the column that it names. What stands behind all rows comes next, and the
        history of what lanes have in common last.
        """
        made, turns, history = self._parts(events)
        code = self._code
        if code.behind is not None:
            code.behind.images.call(IMAGES, made, turns, made[(turns + 1) * code.width :])
        made = made[: code.words(turns)]
        return np.concatenate((made, history)) if history.size else made, turns

    def _parts(self, events: Words) -> tuple[Words, int, Words]:
        """Room for all words with the rows in it, turns, and the history."""
        flat = np.ascontiguousarray(events).reshape(-1)
        common = self._code.common
        if not common:
            made, turns = self._made(flat, len(events))
            return made, turns, np.zeros(0, np.int64)
        room = CHANGES * len(events) + MOST
        words, before = self._words.copy(), self._held[:common].copy()
        while True:
            self._held = np.empty(common + 2 + 2 * room, np.int64)
            self._held[:common], self._held[common:][:2] = before, (0, room)
            made, turns = self._made(flat, len(events), self._held)
            count = int(self._held[common])
            if count <= room:
                break
            self._words[:], room = words, count  # there were more changes: once more
        log = self._held[common + 2 :][: 2 * count].reshape(-1, 2)
        self._held = self._held[: common + 2].copy()
        return made, turns, history_of(before, log)

    def _made(self, flat: Words, n_events: int, *held: Words) -> tuple[Words, int]:
        made = np.zeros(self._code.words(n_events), np.int64)
        return made, self._code.program.call(ROWS, self._words, flat, n_events, made, *held)


def history_of(before: Words, log: Words) -> Words:
    """The struct PAST_TYPE of passes/past.py: words as they were, and log[change, (word, value)].

    Beside a word stands where its changes begin, each of them (number of the change, value).
    """
    order = np.argsort(log[:, 0], kind="stable")
    words = np.zeros((len(before) + 1, 2), np.int64)
    words[:-1, 0] = before
    np.cumsum(np.bincount(log[:, 0], minlength=len(before)), out=words[1:, 1])
    changes = np.stack((order, log[order, 1]), axis=1)
    return np.concatenate((words.reshape(-1), changes.reshape(-1)))


def load_rows(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str],
    target: Target,
    cache: Cache | None,
    depth: int | None = None,
    *,
    past: bool = False,
) -> RowsCode | None:
    """What makes rows for the kernels of a module; None where they take events themselves.

    Kernels of one `depth` take rows of that depth, and those of a book's `past` what has one. Those
    of a CPU, which have no depth, find the words of strides behind the rows, if they make any.
    """
    form = f"rows {past} {kernel_form(kept, varying, depth)}"

    @functools.cache
    def strides() -> Strides | None:
        part = kernel_part(split_lanes(module, kept, varying, depth, past))
        return row_strides(part, LANE) if depth is None and not past else None

    def widths() -> bytes:
        sizes, found = dict(split_lanes(module, kept, varying, depth, past).sizes), strides()
        return msgspec.msgpack.encode((sizes.get(ROW_WORDS), found.words if found else 0))

    (lane,) = (func for func in module.funcs if func.name == "lane")
    common = common_words(module, lane.params[0].type)
    start, held = (ROWS_START, (HELD,)) if common else (START, ())
    funcs = Func(start, (STATE, *held), None, ()), Func(ROWS, (*TAKEN, *held), I64_T, ())
    interface = Module((), (), funcs, (start, ROWS))

    def made(whole: Module) -> Module:
        return reached(split_lanes(whole, kept, varying, depth, past), interface.entries)

    def filling(_: Module) -> Module:
        found = strides()
        assert found is not None
        return Module((), (), (Func(IMAGES, IMAGES_PARAMS, None, found.fill),), (IMAGES,))

    stored = through_cache(cache, cache_key(module, target, f"widths of {form}"), widths)
    words, words_behind = msgspec.msgpack.decode(stored, type=tuple[int | None, int])
    if words is None:
        return None
    behind = None
    if words_behind:
        images = Form(f"strides of {form}", filling, emit, IMAGES_INTERFACE)
        behind = Behind(load(module, target, cache, images), STRIDE, words_behind)
    program = load(module, target, cache, Form(form, made, emit, interface))
    return RowsCode(program, words, common, behind)
