"""The order book of std alone, as machine code or interpreted, and a plain one of Python dicts."""

from functools import cache
from typing import Any

import msgspec
import numpy as np

import quantdsl.check.elaborators  # noqa: F401 - registers the elaborators
from quantdsl.check.context import Context
from quantdsl.check.library import Library, book_sizes
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout, Slot, field
from quantdsl.ir.link import link
from quantdsl.ir.verify import verify

NONE = 1 << 53
NAN_BITS = 0x7FF8_0000_0000_0000
SET, SEAL, CLEAR, LOSE = range(4)
BOOK = ops.StructType("book.Book")
ROW = ("bid", "bid_lots", "ask", "ask_lots", "valid", "ofi")
"""What `play` writes at the end of each message."""


@cache
def library() -> Library:
    """The book, elaborated in full; an error in it fails here."""
    made = Library()
    for module in [made.namespace("book") and m for m in list(made.modules)]:
        if module.key == "book":
            cx = Context(made, module, module.scope, units=made.unitless)
            for binding in list(module.scope.names.values()):
                if hasattr(binding, "routines"):
                    made.routine(cx, binding, 0)
    made.raise_std_errors()
    return made


def call(name: str, *args: ops.Expr) -> ops.Expr:
    """A call of a function of the book."""
    func = library().lookup(f"book.{name}")
    assert isinstance(func, ops.Func)
    return ops.Call(func.name, args)


B, TURN, N = ops.Var("b"), ops.Var("i"), ops.Var("n")


def _word(row: ops.Expr, at: int, width: int, buffer: str) -> ops.Elem:
    place = ops.Binary("iadd", ops.Binary("imul", row, ops.i64(width)), ops.i64(at))
    return ops.Elem(ops.Var(buffer), place)


def _is(op: int) -> ops.Expr:
    return ops.Binary("ieq", _word(TURN, 0, 4, "given"), ops.i64(op))


def _play() -> ops.Func:
    """Applies rows of (op, side, ticks, lots); a SEAL writes one row of ROW."""
    given = [_word(TURN, at, 4, "given") for at in (1, 2, 3)]
    results = (
        call("best", B, ops.i64(0)), call("best_lots", B, ops.i64(0)),
        call("best", B, ops.i64(1)), call("best_lots", B, ops.i64(1)),
        ops.Unary("bool_to_i64", ops.Field(B, "valid")), ops.Field(B, "ofi"),
    )
    k = ops.Var("k")
    seal = (
        ops.Do(call("seal", B)),
        *(ops.Assign(_word(k, at, len(ROW), "out"), x) for at, x in enumerate(results)),
        ops.Assign(k, ops.Binary("iadd", k, ops.i64(1))),
    )
    clear = ops.If(_is(CLEAR), (ops.Do(call("clear", B)),), (ops.Do(call("lose", B)),))
    turn = ops.If(_is(SET), (ops.Do(call("set", B, *given)),), (ops.If(_is(SEAL), seal, (clear,)),))
    body = (ops.Let("k", ops.I64_T, ops.i64(0)), ops.For("i", ops.i64(0), N, (turn,)))
    return ops.Func("play", (*_params("given"), *_params("out", inout=True)[2:]), None, body)


def _params(buffer: str, *, inout: bool = False) -> tuple[ops.ParamDecl, ...]:
    return (
        ops.ParamDecl("b", BOOK, inout=True),
        ops.ParamDecl("n", ops.I64_T),
        ops.ParamDecl(buffer, ops.BufferType(ops.I64_T), inout=inout),
    )


READS: dict[str, tuple[str, ...]] = {
    "bid": (), "ask": (),
    "lots_at": ("side", "ticks"), "depth_to": ("side", "ticks"), "knows": ("side", "ticks"),
    "level_ticks": ("side", "n"), "level_lots": ("side", "n"),
    "imbalance": ("n",), "microprice": ("n",), "vwap_to_fill": ("side", "lots"),
}


def _read(name: str) -> ops.Func:
    """Calls one reader with each row of (side, ticks, lots, n), or as often with no arguments."""
    at = {"side": 0, "ticks": 1, "lots": 2, "n": 3}
    value = call(name, B, *(_word(TURN, at[arg], 4, "given") for arg in READS[name]))
    result = library().lookup(f"book.{name}").result
    if result == ops.F64_T:
        value = ops.Unary("bits", value)
    elif result == ops.BOOL_T:
        value = ops.Unary("bool_to_i64", value)
    body = ops.For("i", ops.i64(0), N, (ops.Assign(ops.Elem(ops.Var("out"), TURN), value),))
    return ops.Func(name, (*_params("given"), *_params("out", inout=True)[2:]), None, (body,))


def _play_orders() -> ops.Func:
    """Applies rows of (id, side, ticks, lots); writes of each its change and the lots ahead of it.

    Id 0 seals, and writes the touch instead; id -1 is a snapshot.
    """
    orders, head = ops.Var("o"), _word(TURN, 0, 4, "given")
    change = [ops.Field(ops.Field(orders, "change"), name) for name in ("ticks", "removed", "turn")]
    told = (*change, call("ahead_of", orders, head))
    touch = [call(name, B, ops.i64(side)) for side in (0, 1) for name in ("best", "best_lots")]

    def write(values: Any) -> tuple[ops.Stmt, ...]:
        return tuple(ops.Assign(_word(TURN, at, 4, "out"), x) for at, x in enumerate(values))

    rest = [_word(TURN, at, 4, "given") for at in range(1, 4)]
    set_ = (ops.Do(call("set_order", B, orders, head, *rest)), *write(told))
    clear = (ops.Do(call("clear", B)), ops.Do(call("clear_orders", orders)))
    sealed = (ops.Do(call("seal", B)), *write(touch))
    other = ops.If(ops.Binary("ieq", head, ops.i64(0)), sealed, clear)
    body = ops.If(ops.Binary("igt", head, ops.i64(0)), set_, (other,))
    params = (_params("")[0], ops.ParamDecl("o", ops.StructType("book.BookOrders"), inout=True),
              *_params("given")[1:], *_params("out", inout=True)[2:])
    return ops.Func("play_orders", params, None, (ops.For("i", ops.i64(0), N, (body,)),))


def _left_ahead() -> ops.Func:
    """book.left_ahead of the last message."""
    names = ("side", "ticks", "turn")
    params = (ops.ParamDecl("o", ops.StructType("book.BookOrders"), inout=True),
              *(ops.ParamDecl(name, ops.I64_T) for name in names))
    value = call("left_ahead", ops.Var("o"), *map(ops.Var, names))
    body = (ops.Let("r", ops.I64_T, value), ops.Return(ops.Var("r")))
    return ops.Func("left_ahead", params, ops.I64_T, body)


def _init() -> ops.Func:
    return ops.Func("init", _params("")[:1], None, (ops.Do(call("init", B)),))


@cache
def module(ladder: int, far: int, orders: int = 1) -> ops.Module:
    """The book linked behind entry functions."""
    own = {f.name: f for f in (_init(), _play(), _play_orders(), _left_ahead(), *map(_read, READS))}

    def lookup(name: str) -> Any:
        return own.get(name) or library().lookup(name)

    sizes = {"N_INSTRUMENTS": 1, "N_ORDERS": 1, "N_RECORDS": 1}
    made = link(lookup, list(own), sizes | book_sizes(ladder, far, orders))
    verify(made)
    return made


@cache
def machine(ladder: int, far: int, orders: int = 1, *, wide: bool = True) -> Program:
    """The book as machine code, its sums in wide registers or one word at a time."""
    made = module(ladder, far, orders)
    if not wide:
        funcs = tuple(msgspec.structs.replace(func, wide=False) for func in made.funcs)
        made = msgspec.structs.replace(made, funcs=funcs)
    return Program(object_code(made, native()), made, native())


class Book:
    """One book of std in memory of its own."""

    def __init__(
        self,
        ladder: int = 4096,
        far: int = 16_384,
        orders: int = 1,
        *,
        interpreted: bool = False,
        wide: bool = True,
    ) -> None:
        sizes = ladder, far, orders
        self.module = module(*sizes)
        self.runner: Any = Interpreter(self.module) if interpreted else machine(*sizes, wide=wide)
        entry = next(f for f in self.module.funcs if f.name == "play_orders")
        words = Layout(self.module.structs).words
        self.words = np.zeros(words(entry.params[0].type), np.int64)
        self.orders = np.zeros(words(entry.params[1].type), np.int64)
        self.runner.call("init", self.words)

    def play(self, rows: Any) -> np.ndarray:
        """Applies rows of (op, side, ticks, lots); returns one row of ROW per SEAL."""
        given = np.ascontiguousarray(rows, np.int64).reshape(-1, 4)
        out = np.zeros((int((given[:, 0] == SEAL).sum()) + 1, len(ROW)), np.int64)
        self.runner.call("play", self.words, len(given), given.reshape(-1), out.reshape(-1))
        return out[:-1]

    def play_orders(self, rows: Any) -> np.ndarray:
        """Applies rows of (id, side, ticks, lots); see `_play_orders`."""
        given = np.ascontiguousarray(rows, np.int64).reshape(-1, 4)
        out = np.zeros_like(given)
        self.runner.call(
            "play_orders", self.words, self.orders, len(given), given.reshape(-1), out.reshape(-1)
        )
        return out

    def left_ahead(self, side: int, ticks: int, turn: int) -> int:
        """Lots that the last message took from before one who joined at that turn."""
        return int(self.runner.call("left_ahead", self.orders, side, ticks, turn))

    def read(self, name: str, side: int = 0, ticks: int = 0, lots: int = 0, n: int = 0) -> Any:
        """One reader; floats as Python floats."""
        out = np.zeros(1, np.int64)
        self.runner.call(name, self.words, 1, np.array([side, ticks, lots, n], np.int64), out)
        if name in ("imbalance", "microprice", "vwap_to_fill"):
            return float(out.view(np.float64)[0])
        return bool(out[0]) if name == "knows" else int(out[0])

    def word(self, path: str) -> int:
        """One word of the state by its path in Book."""
        return int(self.words[_slot(self.module, path).offset_words])


    def orders_word(self, path: str) -> int:
        """One word of the orders by its path in BookOrders."""
        return int(self.orders[_slot(self.module, path, "book.BookOrders").offset_words])


@cache
def _slot(made: ops.Module, path: str, of: str = "book.Book") -> Slot:
    return field(made, of, path)
