"""What lanes share of a turn, computed once for all of them: rows in place of events.

passes/rows.py takes the lanes' loop apart. Its entry `rows` runs here, once, on the state of any
one lane, and writes a row of words for each turn; the kernels then loop over rows.
"""

import functools

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, cache_key, load, through_cache
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import Target
from quantdsl.ir.link import Decl, link
from quantdsl.ir.ops import I64_T, BufferType, Func, Module, ParamDecl
from quantdsl.passes import lane_passes
from quantdsl.passes.rows import ROW_WORDS, ROWS

Words = npt.NDArray[np.int64]
WORDS = BufferType(I64_T)
STATE = ParamDecl("s", WORDS, inout=True)
INTERFACE = Module(
    (),
    (),
    (
        Func("init", (STATE,), None, ()),
        Func(
            ROWS,
            (
                STATE,
                ParamDecl("events", WORDS),
                ParamDecl("n", I64_T),
                ParamDecl("out", WORDS, inout=True),
            ),
            I64_T,
            (),
        ),
    ),
    ("init", ROWS),
)
SPLITS_MAX = 8
"""Modules of this process that stay split: a strategy is split once for all of its kernels."""


@functools.lru_cache(SPLITS_MAX)
def split_lanes(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str] | None,
    depth: int | None = None,
) -> Module:
    """A module after the passes over lanes; `varying` are the paths that lanes differ in.

    With a `depth`, words that are used only deep in branches stay in memory (passes/promote.py).
    """
    return lane_passes(module, kept, varying, depth=None if varying is None else depth)


def kernel_form(
    kept: frozenset[str], varying: frozenset[str] | None, depth: int | None = None
) -> str:
    """What tells kernels of one module apart, as a part of a cache's key."""
    return f"{sorted(kept)} by {sorted(varying) if varying is not None else None} to {depth}"


def kernel_part(module: Module) -> Module:
    """What the kernel runs of a split module: all but what makes the rows."""
    return _reached(module, ("init", "lane"))


class RowsCode:
    """The program that makes rows of events."""

    def __init__(self, program: Program, width: int) -> None:
        self.program = program
        self.width = width
        """Words of a row."""

    @property
    def room(self) -> int:
        """Words that a row takes of memory."""
        return self.width

    def words(self, turns: int) -> int:
        """Words of what a maker makes for so many turns."""
        return (turns + 1) * self.width

    def start(self, template: Words, params: Words, point: Words) -> "RowMaker":
        """A maker for events from the first on; `point` are the params of any one lane."""
        words = template.copy()
        words[params] = point
        self.program.call("init", words)
        return RowMaker(self.program, self.width, words)


class RowMaker:
    """Makes rows of one piece of the events after the other."""

    def __init__(self, program: Program, width: int, words: Words) -> None:
        self._program, self._width, self._words = program, width, words

    def rows(self, events: Words) -> tuple[Words, int]:
        """The rows of events[event, word] as [row, word], and for how many turns they are.

        One more row follows the last turn's: what lanes store of shared words at the end. A word
        that a turn does not write is 0, since lanes may read, before they know that the turn is not
        a usual one, the column that it names.
        """
        made = np.zeros((len(events) + 1, self._width), np.int64)
        flat = np.ascontiguousarray(events).reshape(-1)
        turns = self._program.call(ROWS, self._words, flat, len(events), made.reshape(-1))
        return made[: turns + 1], turns


def load_rows(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str],
    target: Target,
    cache: Cache | None,
    depth: int | None = None,
) -> RowsCode | None:
    """What makes rows for the kernels of a module; None where they take events themselves.

    Kernels of one `depth` take rows of that depth.
    """
    form = f"rows {kernel_form(kept, varying, depth)}"

    def width() -> bytes:
        sizes = dict(split_lanes(module, kept, varying, depth).sizes)
        return msgspec.msgpack.encode(sizes.get(ROW_WORDS))

    def made(whole: Module) -> Module:
        return _reached(split_lanes(whole, kept, varying, depth), ("init", ROWS))

    stored = through_cache(cache, cache_key(module, target, f"width of {form}"), width)
    words = msgspec.msgpack.decode(stored, type=int | None)
    if words is None:
        return None
    return RowsCode(load(module, target, cache, Form(form, made, emit, INTERFACE)), words)


def _reached(module: Module, entries: tuple[str, ...]) -> Module:
    """The part of a module that these entries reach."""
    declared: dict[str, Decl] = {struct.name: struct for struct in module.structs}
    declared |= {table.name: table for table in module.tables}
    declared |= {func.name: func for func in module.funcs}
    return link(declared.get, entries, dict(module.sizes))
