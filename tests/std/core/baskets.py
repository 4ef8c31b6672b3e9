"""What the gate adds up over all instruments but one: compiled, interpreted, or one by one."""

from functools import cache

import msgspec
import numpy as np

from quantdsl.codegen.jit import object_code
from quantdsl.codegen.target import native
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.passes.unused import drop_unused
from tests.std.core import core

ENTRY, OTHERS = "add_up", "risk.others"
ONE, AFTER = "lead_to", "risk.after"
FIELDS = ("lots", "closing", "working_buy", "working_sell")


@cache
def module(instruments: int, *, universe: bool, wide: bool) -> ops.Module:
    """OTHERS behind an entry that calls it of each instrument in turn and adds what it gives."""
    linked = core.module(instruments, 1, frozenset({("USES_UNIVERSE", int(universe))}))
    called = next(func for func in linked.funcs if func.name == OTHERS)
    turn = ops.Var("turn")
    inst = ops.Binary("imod", turn, ops.i64(instruments))
    buying = ops.Binary("ieq", ops.Binary("imod", turn, ops.i64(2)), ops.i64(0))
    told = ops.Let("told", called.result, ops.Call(OTHERS, (ops.Var("e"), inst, buying)))

    def add(at: int, name: str) -> ops.Stmt:
        sum_ = ops.Elem(ops.Var("sums"), ops.i64(at))
        return ops.Assign(sum_, ops.Binary("iadd", sum_, ops.Field(ops.Var("told"), name)))

    loop = ops.For("turn", ops.i64(0), ops.Var("calls"), (told, add(0, "gross"), add(1, "net")))
    engine, calls = ops.ParamDecl("e", called.params[0].type), ops.ParamDecl("calls", ops.I64_T)
    sums = ops.ParamDecl("sums", ops.BufferType(ops.I64_T), inout=True)
    entry = ops.Func(ENTRY, (engine, calls, sums), None, (loop,))
    after = next(func for func in linked.funcs if func.name == AFTER)
    called = ops.Call(AFTER, tuple(ops.Var(param.name) for param in after.params))
    one = ops.Func(ONE, after.params, after.result, (ops.Return(called),))
    funcs = (msgspec.structs.replace(f, wide=f.wide and wide) for f in (*linked.funcs, entry, one))
    return drop_unused(msgspec.structs.replace(linked, funcs=tuple(funcs), entries=(ENTRY, ONE)))


@cache
def code(instruments: int, *, universe: bool = False, wide: bool = True) -> bytes:
    """The object file."""
    return object_code(module(instruments, universe=universe, wide=wide), native())


def filled(made: ops.Module, instruments: int, seed: int) -> np.ndarray:
    """An engine whose positions, orders and prices are small numbers, some of them below 0."""
    layout, rng = Layout(made.structs), np.random.default_rng(seed)
    engine = ops.StructType("engine.Engine")
    words = np.zeros(layout.words(engine), np.int64)
    for i in range(instruments):
        for name in FIELDS:
            lowest = 0 if name.startswith("working") else -50
            words[_at(layout, f"positions[{i}].{name}")] = rng.integers(lowest, 50)
        words[_at(layout, f"market[{i}].close")] = rng.integers(-100, 10_000)
        words[_at(layout, f"instruments[{i}].money_per_tick_lot")] = rng.integers(1, 100)
    return words


def _at(layout: Layout, path: str) -> int:
    return layout.locate(ops.StructType("engine.Engine"), path).offset_words


def plainly(made: ops.Module, words: np.ndarray, instruments: int, calls: int) -> list[int]:
    """The sums of gross and net of `calls` calls, by what AFTER says of one instrument."""
    layout, one, gross, net = Layout(made.structs), Interpreter(made), 0, 0
    engine = one.memory(ops.StructType("engine.Engine"), words)  # read once for all calls

    def word(path: str) -> int:
        return int(words[_at(layout, path)])

    for turn in range(calls):
        for i in set(range(instruments)) - {turn % instruments}:
            unit = word(f"market[{i}].close") * word(f"instruments[{i}].money_per_tick_lot")
            up, down = (one.call(ONE, engine, i, buying) * unit for buying in (True, False))
            gross += max(abs(up), abs(down))
            net += down if turn % 2 else up
    return [gross, net]
