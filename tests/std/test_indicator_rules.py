"""Rules that every indicator of std keeps: documentation, warm-up, and one result everywhere."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from quantdsl.check.checked import check_source
from quantdsl.check.functions import Routine
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.link import link
from quantdsl.lang import ast
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from tests.std.harness import Ticks, library, routine, run
from tests.std.markets import market
from tests.std.windows import spoiled, walk

NAMESPACES = ("sums", "ta", "ts", "vol")
N = 120
SECOND_NS = 1_000_000_000
LENGTHS = {"short": 4, "long": 6, "fast": 3, "slow": 8, "signal": 4, "middle": 5, "left": 3,
           "right": 2, "depth": 2, "occurrence": 1, "min_len": 2, "max_len": 6, "offset": 0}
ANCHORED = {"ta.pivot_point_levels", "ta.anchored", "ta.vwap_bands"}
"""na until the caller's own anchor, whenever that is."""


@dataclass(frozen=True)
class Case:
    """One overload of an indicator."""

    name: str
    overload: int
    node: ast.Indicator

    def __str__(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


def cases() -> Iterator[Case]:
    """Every indicator of the namespaces, overloads apart, as its file says it."""
    for key in NAMESPACES:
        seen: Counter[str] = Counter()
        for path in library().files[key]:
            for item in parse(Source.read(path, std=True)).file.items:
                if isinstance(item, ast.Fn | ast.Indicator):
                    name = item.name.id
                    if isinstance(item, ast.Indicator):
                        yield Case(f"{key}.{name}", seen[name], item)
                    seen[name] += 1


def arguments(found: Routine) -> dict[str, Any]:
    """Something fitting for every parameter; small distinct lengths."""
    given: dict[str, Any] = {}
    for at, param in enumerate(found.params):
        kind = param.type.kind
        if kind == "bars":
            given[param.name] = market(N)
        elif kind in ("price", "qty"):
            given[param.name] = Ticks(market(N).close)
        elif param.const:
            given[param.name] = LENGTHS.get(param.name, 8)
        elif kind == "bool" and param.node.default is None:
            given[param.name] = np.random.default_rng(at).random(N) < 0.3
        elif kind == "float" and (param.series or param.node.default is None):
            given[param.name] = walk(N, seed=at + 1)
        elif kind == "time":
            given[param.name] = np.cumsum(np.random.default_rng(at).integers(1, 9, N)) * SECOND_NS
        elif kind == "duration":
            given[param.name] = 8 * SECOND_NS
        elif kind in ("enum", "int") and param.node.default is None:
            given[param.name] = 1
    if "percentage" in given:
        given["percentage"] = 40.0
    if "periods" in given:
        given["periods"] = np.full(N, 4.0)
    return given


def columns(result: Any) -> list[np.ndarray]:
    """The outputs as a list of columns."""
    return list(result.values()) if isinstance(result, dict) else [result]


def declared_warmup(found: Routine, given: dict[str, Any]) -> int:
    """The warm-up that callers are told, in steps."""
    assert found.warm is not None
    params = [p for p in found.params if p.const]
    func = ops.Func("warm", tuple(ops.ParamDecl(f"p.{p.name}", ops.I64_T) for p in params),
                    ops.I64_T, (ops.Return(found.warm.count),), found.sizes)
    values = [int(given[p.name]) for p in params]
    bound = tuple(int(given[size]) for size in found.sizes)
    call = ops.Return(ops.Call("warm", tuple(ops.i64(v) for v in values), bound))
    entry = ops.Func("run", (), ops.I64_T, (call,))
    own = {"warm": func, "run": entry}
    module = link(lambda name: own.get(name) or library().lookup(name), ["run"], {})
    return int(Interpreter(module).call("run"))


def docs(case: Case) -> list[str]:
    """The lines of an indicator's documentation."""
    return [stmt.value for stmt in case.node.body.body if isinstance(stmt, ast.Doc)]


ALL = list(cases())


@cache
def native(case: Case) -> list[np.ndarray]:
    """What machine code gives on the common arguments."""
    given = arguments(routine(case.name, case.overload))
    return columns(run(case.name, overload=case.overload, **given))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_is_documented(case: Case) -> None:
    summary, *details = docs(case)
    assert summary[0].isupper() or summary[0] == "`"
    assert summary.endswith(".")
    for part in ("formula: ", "example: "):
        assert any(line.startswith(part) for line in details), part
    assert any(note.name == "cost" for note in case.node.annotations), "@cost"


@pytest.mark.parametrize("key", NAMESPACES)
def test_examples_compile_in_a_strategy(key: str) -> None:
    examples = [line.removeprefix("example: ") for case in ALL if case.name.startswith(key + ".")
                for line in docs(case) if line.startswith("example: ")]
    equations = [f"    let e{i} = {example}" for i, example in enumerate(examples)]
    source = Source("\n".join(["language 1", "strategy Examples:", "    bars 5m", *equations]))
    _, diagnostics = check_source(source)
    wrong = [(d.message, source.position(d.span[0]).line) for d in diagnostics
             if d.severity == "error"]
    assert [f"{message}: {examples[line - 4]}" for message, line in wrong] == []


@pytest.mark.parametrize("case", ALL, ids=str)
def test_is_first_defined_when_it_says(case: Case) -> None:
    if case.name in ANCHORED:
        pytest.skip("hangs on the anchor")
    found = routine(case.name, case.overload)
    if found.result.optional or found.result.kind in ("bool", "int"):
        pytest.skip("may be missing at any step, or is never na")
    given = arguments(found)
    outputs = [column for column in native(case) if column.dtype == np.float64]
    first = max(int(np.argmax(~np.isnan(column))) for column in outputs)
    assert first == declared_warmup(found, given) - 1


@pytest.mark.parametrize("case", ALL, ids=str)
def test_interpreter_and_machine_code_agree_to_the_bit(case: Case) -> None:
    given = arguments(routine(case.name, case.overload))
    interpreted = run(case.name, overload=case.overload, backend="interp", **given)
    for left, right in zip(native(case), columns(interpreted), strict=True):
        np.testing.assert_array_equal(left.view(np.int64), right.view(np.int64))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_room_for_longer_windows_changes_nothing(case: Case) -> None:
    given = arguments(routine(case.name, case.overload))
    roomy = run(case.name, overload=case.overload, spare=13, **given)
    for left, right in zip(native(case), columns(roomy), strict=True):
        np.testing.assert_array_equal(left.view(np.int64), right.view(np.int64))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_is_whole_again_after_hostile_values(case: Case) -> None:
    given = arguments(routine(case.name, case.overload))
    series = {name: value for name, value in given.items() if isinstance(value, np.ndarray)
              and value.dtype == np.float64}
    if not series:
        pytest.skip("takes no floats")
    early = {name: np.concatenate([spoiled(value[:40]), value[40:]])
             for name, value in series.items()}
    found = columns(run(case.name, overload=case.overload, **(given | early)))
    for hurt, sound in zip(found, native(case), strict=True):
        if hurt.dtype == np.float64:
            np.testing.assert_array_equal(np.isfinite(hurt[80:]), np.isfinite(sound[80:]))
