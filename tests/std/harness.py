"""Runs a fn or an indicator of std over arrays, through the interpreter or machine code.

    run("math.exp", x=xs)                                  a fn: one result per element
    run("ta.sma", src=xs, len=20)                          an indicator over a float series
    run("ta.sma", src=Ticks(ints, 1, 100), len=20)         over prices: ticks of 1/100
    run("ta.atr", data=Bars(open, high, low, close, volume), len=14)

A struct result comes back as a dict of arrays. `backend` is "native" or "interp".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import quantdsl.check.elaborators  # noqa: F401 - registers the elaborators
from quantdsl.check.context import Context, Scope
from quantdsl.check.functions import BAR_FIELDS, Routine
from quantdsl.check.library import SINGLE_RUN, Library
from quantdsl.check.modules import Module
from quantdsl.check.types import Type, ir_type, stored
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.verify import verify
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source


@dataclass
class Ticks:
    """A fixed series: integer counts and how one becomes a float."""

    counts: np.ndarray
    num: float = 1.0
    den: float = 100.0


@dataclass
class Bars:
    """Bars in ticks and lots."""

    open: np.ndarray
    high: np.ndarray
    low: np.ndarray
    close: np.ndarray
    volume: np.ndarray
    tick_num: float = 1.0
    tick_den: float = 100.0
    lot_num: float = 1.0
    lot_den: float = 1.0
    ts: np.ndarray | None = None

    def rows(self) -> np.ndarray:
        """One row of words per bar, in the order of the Bar struct."""
        n = len(self.close)
        ts = self.ts if self.ts is not None else np.arange(n, dtype=np.int64) * 60_000_000_000
        out = np.empty((n, len(BAR_FIELDS)), dtype=np.int64)
        columns = {"ts": ts, "open": self.open, "high": self.high, "low": self.low,
                   "close": self.close, "volume": self.volume}
        for at, name in enumerate(BAR_FIELDS):
            if name in columns:
                out[:, at] = columns[name]
            else:
                out[:, at] = np.full(n, getattr(self, name)).view(np.int64)
        return out


_LIBRARY: list[Library] = []


def library() -> Library:
    """One library for the whole test process: std is elaborated once."""
    if not _LIBRARY:
        _LIBRARY.append(Library())
    return _LIBRARY[0]


def routine(name: str, overload: int = 0) -> Routine:
    """The elaborated routine of `namespace.name`."""
    lib = library()
    source = Source("language 1\n")
    module = Module("test", source, parse(source).file, std=True)
    cx = Context(lib, module, Scope(lib.globals), units=lib.unitless)
    key, _, short = name.partition(".")
    found = lib.routine(cx, lib.namespace(key).names[short], overload)
    lib.raise_std_errors()
    return found


def run(
    name: str, *, overload: int = 0, backend: str = "native", spare: int = 0, **given: Any
) -> Any:
    """Results of the routine, one per element of the inputs.

    Buffers get `spare` more room than the lengths need, as where a param's largest value is.
    """
    found = routine(name, overload)
    made = _Entry(found, given, spare)
    sizes = {"N_INSTRUMENTS": 1, "N_ORDERS": 16, "N_RECORDS": 64, **SINGLE_RUN}
    module = link(made.lookup, ["run"], sizes)
    verify(module)
    if backend == "native":
        target = native()
        program = Program(object_code(module, target), module, target)
        program.call("run", *made.arguments)
    else:
        Interpreter(module).call("run", *made.arguments)
    return made.results()


class _Entry:
    """An entry function that loops over the inputs and calls the routine."""

    def __init__(self, found: Routine, given: dict[str, Any], spare: int) -> None:
        self.found = found
        self.params: list[ops.ParamDecl] = []
        self.arguments: list[Any] = []
        self.passed: list[ops.Expr] = []
        self.n = 0
        bound: dict[str, int] = {}
        if found.state is not None:
            self.passed.append(ops.Var("self"))
        for param in found.params:
            value = given[param.name] if param.name in given else _default(param)
            self._input(param.name, param.type, value)
            if param.const:
                bound[param.name] = int(value) + spare
        sizes = tuple(bound[size] for size in found.sizes)
        if found.state is not None:
            state = ops.StructType(found.state, sizes)
            self.params.insert(0, ops.ParamDecl("self", state, inout=True))
            words = self._words(state)
            self.arguments.insert(0, np.zeros(words, dtype=np.int64))
        self.fields = self._outputs()
        self.width = len(self.fields)
        self.out = np.zeros(self.n * self.width, dtype=np.int64)
        self.func = self._build(sizes)

    def lookup(self, name: str) -> Any:
        return self.func if name == "run" else library().lookup(name)

    def _words(self, state: ops.StructType) -> int:
        probe = ops.Func("run", (ops.ParamDecl("self", state, inout=True),), None, ())
        module = link(lambda name: probe if name == "run" else library().lookup(name), ["run"], {})
        entry = next(func for func in module.funcs if func.name == "run")
        return Layout(module.structs).words(entry.params[0].type)

    def _input(self, name: str, type_: Type, value: Any) -> None:
        if isinstance(value, Bars):
            rows = value.rows()
            self.n = len(rows)
            self.params.append(ops.ParamDecl(name, ops.BufferType(ops.StructType("Bar"))))
            self.arguments.append(rows.reshape(-1))
            self.passed.append(ops.Elem(ops.Var(name), ops.Var("i")))
            return
        if isinstance(value, Ticks):
            self._buffer(name, ops.I64_T, np.ascontiguousarray(value.counts, dtype=np.int64))
            self.passed += [ops.f64(value.num), ops.f64(value.den)]
            return
        if isinstance(value, np.ndarray):
            if stored(type_) == ops.F64_T:
                self._buffer(name, ops.F64_T, np.ascontiguousarray(value, dtype=np.float64))
            else:
                self._buffer(name, stored(type_), np.ascontiguousarray(value, dtype=np.int64))
            return
        if isinstance(value, bool):
            self.passed.append(ops.boolean(value))
        elif stored(type_) == ops.F64_T:
            self.passed.append(ops.f64(float(value)))
        else:
            self.passed.append(ops.i64(int(value)))

    def _buffer(self, name: str, type_: ops.ScalarType, data: np.ndarray) -> None:
        self.n = len(data)
        self.params.append(ops.ParamDecl(name, ops.BufferType(type_)))
        self.arguments.append(data.view(np.int64))
        self.passed.append(ops.Elem(ops.Var(name), ops.Var("i")))

    def _outputs(self) -> list[tuple[str, ops.ScalarType]]:
        result = self.found.result
        if result.kind != "struct":
            return [("", stored(result))]
        return [(f.name, stored(f.type))
                for f in library().struct_bindings[result.of].fields]

    def _build(self, sizes: tuple[int, ...]) -> ops.Func:
        call = ops.Call(self.found.ir_name, tuple(self.passed), sizes)
        body: list[ops.Stmt] = [ops.Let("r", ir_type(self.found.result), call)]
        for at, (name, type_) in enumerate(self.fields):
            value: ops.Expr = ops.Field(ops.Var("r"), name) if name else ops.Var("r")
            if type_ == ops.F64_T:
                value = ops.Unary("bits", value)
            elif type_ == ops.BOOL_T:
                value = ops.Unary("bool_to_i64", value)
            slot = ops.Binary("iadd", ops.Binary("imul", ops.Var("i"), ops.i64(self.width)),
                              ops.i64(at))
            body.append(ops.Assign(ops.Elem(ops.Var("out"), slot), value))
        params = [*self.params, ops.ParamDecl("n", ops.I64_T),
                  ops.ParamDecl("out", ops.BufferType(ops.I64_T), inout=True)]
        self.arguments += [self.n, self.out]
        loop = ops.For("i", ops.i64(0), ops.Var("n"), tuple(body))
        return ops.Func("run", tuple(params), None, (loop,))

    def results(self) -> Any:
        table = self.out.reshape(self.n, self.width)
        columns = {}
        for at, (name, type_) in enumerate(self.fields):
            column = np.ascontiguousarray(table[:, at])
            columns[name] = column.view(np.float64) if type_ == ops.F64_T else column
        return columns.get("", columns)


def _default(param: Any) -> Any:
    """A literal default of the declaration."""
    lib = library()
    source = Source("language 1\n")
    module = Module("test", source, parse(source).file, std=True)
    cx = Context(lib, module, Scope(lib.globals), units=lib.unitless)
    if param.node.default is None:
        raise TypeError(f"{param.name} is needed")
    value = cx.expr(param.node.default)
    return value.const if value.const is not None else 0
