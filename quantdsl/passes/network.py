"""The words that a cross-section sorts, by a network whose steps lie in registers.

What `xs.sort_words` says in std compares two words at a time and has both in memory before and
after. Here eight words are loaded, compared as often as they can be, and stored once. A pair is put
in order by its smaller and its larger float, an instruction each, where integers take three.
Networks of this kind never move the larger of two to the front, so what stands behind the last word
stays there, and any number of words will do.
"""

import itertools
import math
from collections.abc import Iterator

import msgspec

from quantdsl.ir import ops

SORT, COUNT = "xs.sort_words", "N_INSTRUMENTS"
"""The function of std, and how many words it sorts."""
RUN = 8
"""Words that are loaded at once: their comparisons need two registers more."""
FIRST = (
    ((0, 2), (1, 3), (4, 6), (5, 7)), ((0, 4), (1, 5), (2, 6), (3, 7)),
    ((0, 1), (2, 3), (4, 5), (6, 7)), ((2, 4), (3, 5)), ((1, 4), (3, 6)),
    ((1, 2), (3, 4), (5, 6)),
)  # fmt: skip
"""Sorts eight: Knuth, The Art of Computer Programming 3, 5.3.4, with 19 comparisons."""
KEYS, SIZE, STEP = ops.Var("keys"), ops.Var("size"), ops.Var("step")
SIGN_BIT, ALL_BUT_SIGN = 63, (1 << 63) - 1
SIZES_MAX = 64
Levels = tuple[tuple[tuple[int, int], ...], ...]


def sort_in_registers(module: ops.Module) -> ops.Module:
    """The module with that function, if it has it, as a network for its number of words."""
    funcs = tuple(
        _Network(func, dict(module.sizes)[COUNT]).made() if func.name == SORT else func
        for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


class _Network:
    def __init__(self, func: ops.Func, count: int) -> None:
        self.func, self.count = func, count
        self.numbers = itertools.count()

    def made(self) -> ops.Func:
        """Sorts runs of eight, and merges two and two until one is left."""
        count = self.count
        room = max(2 * RUN, 1 << (count - 1).bit_length())
        words = ops.Field(ops.Var(self.func.params[0].name), "order")
        first, behind, run, last = (self.local() for _ in range(4))
        key = _image(ops.Elem(words, first))
        word = _image(ops.Unary("bits", ops.Elem(KEYS, last)))
        places = [_plus(_times(run, RUN), ops.i64(k)) for k in range(RUN)]
        merge = (*self.merged(), ops.Assign(SIZE, _times(SIZE, 2)))
        body = (
            ops.Let(KEYS.name, ops.ArrayType(ops.F64_T, room), None),
            _each(first, 0, count, ops.Assign(ops.Elem(KEYS, first), ops.Unary("from_bits", key))),
            _each(behind, count, room, ops.Assign(ops.Elem(KEYS, behind), ops.f64(math.inf))),
            _each(run, 0, -(-count // RUN), *self.exchanged(places, FIRST)),
            ops.Let(SIZE.name, ops.I64_T, ops.i64(2 * RUN)),
            ops.While(ops.Binary("ile", SIZE, ops.i64(room)), ops.i64(SIZES_MAX), merge),
            _each(last, 0, count, ops.Assign(ops.Elem(words, last), word)),
        )
        return msgspec.structs.replace(self.func, body=body)

    def merged(self) -> Iterator[ops.Stmt]:
        """Each two neighbours of `size` / 2 sorted words as `size` of them.

        The first step compares the words from both ends inwards, all others those that are `step`
        apart, then half of it, down to neighbours.
        """
        eighth, turn = self.local(), self.local()
        yield ops.Let(eighth.name, ops.I64_T, ops.Binary("ashr", SIZE, ops.i64(3)))
        beside = _rest(turn, eighth)
        first = _plus(_times(_minus(turn, beside), RUN), beside)
        last = _minus(_plus(first, _minus(SIZE, ops.i64(1))), _times(beside, 2))
        lower = [_plus(first, _times(eighth, k)) for k in range(4)]
        upper = [_minus(last, _times(eighth, 3 - k)) for k in range(4)]
        inward = tuple((k, RUN - 1 - k) for k in range(4))
        yield self.turns(turn, SIZE, eighth, [*lower, *upper], (inward, *_levels(4, RUN)))
        yield ops.Let(STEP.name, ops.I64_T, ops.Binary("ashr", eighth, ops.i64(1)))
        yield ops.While(
            ops.Binary("ige", STEP, ops.i64(4)), ops.i64(SIZES_MAX),
            (
                *self.apart(8, ops.Binary("ashr", STEP, ops.i64(2))),
                ops.Assign(STEP, ops.Binary("ashr", STEP, ops.i64(3))),
            ),
        )  # fmt: skip
        for words in (4, 2):
            left = ops.Binary("ieq", STEP, ops.i64(words // 2))
            yield ops.If(left, tuple(self.apart(words, ops.i64(1))))

    def apart(self, words: int, step: ops.Expr) -> Iterator[ops.Stmt]:
        """Compares words, each `step` from the next: at all halves of their span."""
        near, span, turn = (self.local() for _ in range(3))
        yield ops.Let(near.name, ops.I64_T, step)
        yield ops.Let(span.name, ops.I64_T, _times(near, words))
        beside = _rest(turn, near)
        first = _plus(_times(_minus(turn, beside), words), beside)
        places = [_plus(first, _times(near, k)) for k in range(words)]
        yield self.turns(turn, span, near, places, _levels(words, words))

    def turns(
        self, turn: ops.Var, span: ops.Expr, turns: ops.Expr, places: list[ops.Expr], levels: Levels
    ) -> ops.For:
        """So many turns for each `span` that holds a word."""
        spans = ops.Binary("idiv", _plus(span, ops.i64(self.count - 1)), span)
        whole = ops.Binary("imul", spans, turns)
        return ops.For(turn.name, ops.i64(0), whole, tuple(self.exchanged(places, levels)))

    def exchanged(self, places: list[ops.Expr], levels: Levels) -> Iterator[ops.Stmt]:
        """Words loaded, put in order pair by pair, and stored."""
        at, held = [self.local() for _ in places], [self.local() for _ in places]
        for name, place in zip(at, places, strict=True):
            yield ops.Let(name.name, ops.I64_T, place)
        for name, word in zip(at, held, strict=True):
            yield ops.Let(word.name, ops.F64_T, ops.Elem(KEYS, name))
        for low, high in itertools.chain(*levels):
            x, y = held[low], held[high]
            held[low], held[high] = self.local(), self.local()
            # Where both are equal, zeros of both signs, each is still there once.
            yield ops.Let(held[low].name, ops.F64_T, ops.Binary("fmin", x, y))
            yield ops.Let(held[high].name, ops.F64_T, ops.Binary("fmax", y, x))
        for name, word in zip(at, held, strict=True):
            yield ops.Assign(ops.Elem(KEYS, name), word)

    def local(self) -> ops.Var:
        """A local of a name that no other has."""
        return ops.Var(f"net.{next(self.numbers)}")


def _levels(words: int, of: int) -> Levels:
    """The pairs of each `words` of those at hand: half of them apart, then a quarter."""
    halves = [1 << k for k in reversed(range(words.bit_length() - 1))]
    return tuple(tuple((k, k + half) for k in range(of) if not k & half) for half in halves)


def _each(turn: ops.Var, lo: int, hi: int, *body: ops.Stmt) -> ops.For:
    return ops.For(turn.name, ops.i64(lo), ops.i64(hi), body)


def _image(word: ops.Expr) -> ops.Expr:
    """Bits of a float as a word of the same order, and back."""
    sign = ops.Binary("ashr", word, ops.i64(SIGN_BIT))
    return ops.Binary("ixor", word, ops.Binary("iand", sign, ops.i64(ALL_BUT_SIGN)))


def _rest(x: ops.Expr, power: ops.Expr) -> ops.Expr:
    """The rest of x by a power of two."""
    return ops.Binary("iand", x, _minus(power, ops.i64(1)))


def _plus(x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary("iadd", x, y)


def _minus(x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary("isub", x, y)


def _times(x: ops.Expr, k: int) -> ops.Expr:
    return ops.Binary("imul", x, ops.i64(k))
