"""The code of a strategy's lanes: the module, what is read of its state, which points it admits."""

import functools
import hashlib
import re
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.backtest.lane_words import LaneWords
from quantdsl.backtest.points import Axis, Grid
from quantdsl.backtest.program import STATE
from quantdsl.backtest.warm import clock_count
from quantdsl.check import Checked
from quantdsl.check.columns import LOAD_CPU, LOAD_GPU, NO_COLUMNS, Choice, Plan, Scope
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from quantdsl.config import Precision
from quantdsl.ir import ops
from quantdsl.ir.link import Decl, link
from quantdsl.passes.common import own_leaves
from quantdsl.passes.narrow import narrow
from quantdsl.report.metrics import LANE_METRICS, accumulators

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
SETTLED = re.compile(
    r"money_scale|e\.config\.(?!cash|samples)\w+|e\.instruments\[\d+\]\.(tick_|lot_|money_)\w+|p\d+"
    r"|e\.venues\[\d+\]\.(queue_power|latency_feed)"
)
"""What the host writes alike for all lanes, and alike for most data: lanes have code of their own
for it. Cash, days and limits are left out: they change often and would spare a lane nothing."""
BLANK = ("e.intents", "e.orders", "e.positions[0].entries")
"""Tables of the core: who is in one was written there, and nobody looks at who is not."""
MATHEMATICS = ("math.", "explog.", "trig.", "gauss.")
"""Modules of std that compute in double precision, whatever calls them."""
CROWDED = "e.crowded"
"""What a lane with room for few orders leaves last: not 0 where there were more."""
CODES_MAX = 16
"""Strategies of this process whose lanes stay at hand."""
EVENTS = 100_000
"""For how many bars a file's own grid is planned, whatever its data."""
STATE_VAR = ops.Var("s")


class LaneCode:
    """What lanes of one strategy share, whatever the data and the points."""

    def __init__(
        self,
        checked: Checked,
        uses: frozenset[str],
        blocks: int,
        plan: Plan,
        few: int,
        precision: Precision,
        metrics: tuple[str, ...],
    ) -> None:
        self.checked, self.uses = checked, uses
        self.plan, self.precision = plan, precision
        self.few = few
        """Orders that a lane has room for; 0: as many as a single run."""
        module = checked.lane_module(uses, plan, blocks=blocks, few=few)
        self.module = lowered(checked, module, precision)
        self.words = LaneWords(self.module, accumulators(metrics), blocks)
        self._judges: dict[tuple[str, ...], Program] = {}
        self._columns: dict[tuple[str, ...], ops.Module] = {}
        self._settled: dict[tuple[tuple[str, int], ...], ops.Module] = {}

    @property
    def kept(self) -> frozenset[str]:
        """Paths of what a lane leaves."""
        return self.words.kept | {CROWDED} if self.few else self.words.kept

    def columns(self, params: tuple[str, ...]) -> ops.Module:
        """The lanes that fill the columns of one subset of params."""
        if params not in self._columns:
            module = self.checked.columns_module(self.plan, params, self.uses)
            self._columns[params] = lowered(self.checked, module, self.precision)
        return self._columns[params]

    def settled(self, template: Int64s, varying: Collection[str]) -> ops.Module:
        """The module for lanes that start as `template` but for the paths in `varying`."""
        values = settings(self.module, template, varying)
        if values not in self._settled:
            self._settled[values] = settled(self.module, values)
        return self._settled[values]

    def judge(self, template: Int64s, axes: Sequence[Axis]) -> "Judge":
        """What tells of points of these axes whether they are admitted and when they are warm."""
        fields = tuple(axis.param.field for axis in axes)
        if fields not in self._judges:
            self._judges[fields] = _program(self.module, axes)
        return Judge(self._judges[fields], template, clock_count(self.checked))


def settings(
    module: ops.Module,
    template: Int64s,
    varying: Collection[str],
    settled: re.Pattern[str] = SETTLED,
) -> tuple[tuple[str, int], ...]:
    """Path and bits of every word that is `settled`, but for the paths in `varying`."""
    found = []
    for leaf in own_leaves(module, STATE):
        if settled.fullmatch(leaf.path) and leaf.path not in varying:
            word = int(template[leaf.offset_words])
            found.append((leaf.path, word % (1 << 64) if leaf.type == ops.F64_T else word))
    return tuple(found)


def settled(module: ops.Module, values: tuple[tuple[str, int], ...]) -> ops.Module:
    """A module of lanes that may count on these settings."""
    assert module.given is not None
    given = msgspec.structs.replace(module.given, values=values, blank=BLANK)
    return msgspec.structs.replace(module, given=given)


@functools.lru_cache(CODES_MAX)
def lane_code(
    checked: Checked,
    uses: frozenset[str],
    blocks: int,
    plan: Plan = NO_COLUMNS,
    few: int = 0,
    precision: Precision = "f64",
    metrics: tuple[str, ...] = LANE_METRICS,
) -> LaneCode:
    """The code of a strategy's lanes, made once a process; `few` as of `Checked.lane_module`.

    A lane leaves what these metrics of it are computed from.
    """
    return LaneCode(checked, uses, blocks, plan, few, precision, metrics)


def lowered(checked: Checked, module: ops.Module, precision: Precision) -> ops.Module:
    """A module of lanes with its equations in this precision. Every target, and the interpreter,
    takes what this makes. std's mathematics and kernels, whose numbers have types, are not in it.
    """
    if precision == "f64":
        return module
    places = frozenset(one.place for one in checked.strategy.equations.all)
    kernels = checked.library.kernels

    def wide(name: str) -> bool:
        return name.startswith(MATHEMATICS) or name.partition("[")[0] in kernels

    return narrow(module, places, wide)


def whole_plan(checked: Checked, grid: Grid, load: float) -> tuple[Plan, list[Choice]]:
    """What the lanes of a whole grid load from columns, and why, where a load costs so much."""
    swept = {axis.param.name: len(axis.values) for axis in grid.axes}
    return checked.plan(Scope(swept, grid.size, EVENTS, load))


def plan_of(
    checked: Checked, axes: Sequence[Axis], levels: Int32s, n_events: int, *, gpu: bool
) -> Plan:
    """What the lanes of these points, levels[axis, point], load from columns."""
    distinct = [int(np.count_nonzero(np.bincount(level))) for level in levels]
    names = [axis.param.name for axis in axes]
    swept = tuple(zip(names, distinct, strict=True))
    load = LOAD_GPU if gpu else LOAD_CPU
    return _plan(checked, swept, levels.shape[1], n_events, load)


@functools.lru_cache(CODES_MAX)
def _plan(
    checked: Checked, swept: tuple[tuple[str, int], ...], points: int, events: int, load: float
) -> Plan:
    """Kept on disk too: to weigh equations takes the linked module of a single run."""
    scope = Scope(dict(swept), points, events, load)
    asked = msgspec.msgpack.encode(("plan", checked.text, checked.universe, scope))
    key, cache = hashlib.sha256(asked).hexdigest(), Cache()
    stored = cache.get(key)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=Plan)
    plan = checked.plan(scope)[0]
    cache.put(key, msgspec.msgpack.encode(plan))
    return plan


class Judge:
    """Asks the strategy's own code about points: what `require` says, and what is to be warm."""

    def __init__(self, program: Program, template: Int64s, clocks: int) -> None:
        self._program, self._template, self._clocks = program, template, clocks

    def admits(self, words: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each point of words[axis, point] is admitted."""
        return self._asked(words)[0] < 0

    def needs(self, words: Int64s) -> Int64s:
        """How often each clock must have ticked until all of these points are warm."""
        return self._asked(words)[1]

    def _asked(self, words: Int64s) -> tuple[Int64s, Int64s]:
        broken = np.empty(words.shape[1], np.int64)
        needs = np.zeros(self._clocks, np.int64)
        points = np.ascontiguousarray(words)
        self._program.call("judge", self._template.copy(), points, len(broken), broken, needs)
        return broken, needs


def _program(module: ops.Module, axes: Sequence[Axis]) -> Program:
    declared: dict[str, Decl] = {struct.name: struct for struct in module.structs}
    declared |= {table.name: table for table in module.tables}
    declared |= {func.name: func for func in module.funcs}
    declared["judge"] = _judge(axes)
    return load(link(declared.get, ["judge"], {}), native(), Cache())


def _judge(axes: Sequence[Axis]) -> ops.Func:
    """For each point: its params into the state, the `require` it breaks, then what is to be warm.

    `warm` reads what `admits` computes from the params.
    """
    point, count, words = ops.Var("k"), ops.Var("n"), ops.BufferType(ops.I64_T)
    loop: list[ops.Stmt] = []
    for row, axis in enumerate(axes):
        start = ops.Binary("imul", count, ops.i64(row))
        word: ops.Expr = ops.Elem(ops.Var("points"), ops.Binary("iadd", start, point))
        if not axis.param.whole:
            word = ops.Unary("from_bits", word)
        loop.append(ops.Assign(ops.Field(STATE_VAR, axis.param.field), word))
    warm = ops.Do(ops.Call("warm", (STATE_VAR, ops.Var("needs"))))
    loop += [
        ops.Let("verdict", ops.I64_T, ops.Call("admits", (STATE_VAR,))),
        ops.Assign(ops.Elem(ops.Var("broken"), point), ops.Var("verdict")),
        ops.If(ops.Binary("ilt", ops.Var("verdict"), ops.i64(0)), (warm,)),
    ]
    params = (
        ops.ParamDecl("s", STATE, inout=True),
        ops.ParamDecl("points", words),
        ops.ParamDecl("n", ops.I64_T),
        ops.ParamDecl("broken", words, inout=True),
        ops.ParamDecl("needs", words, inout=True),
    )
    return ops.Func("judge", params, None, (ops.For("k", ops.i64(0), count, tuple(loop)),))
