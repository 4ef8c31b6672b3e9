"""What a strategy costs to run, known before it runs: warm-up, memory, operations."""

from collections import Counter
from typing import TYPE_CHECKING

from quantdsl.check.signals import SignalBinding
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.ir import ops
from quantdsl.ir.layout import Layout
from quantdsl.ir.walk import nodes
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.checked import Checked
    from quantdsl.check.strategy import Strategy

WORD_BYTES = 8
EVENTS = {"timer": "at/every", "flat_by": "flat_by", "late": "stale"}


def facts(checked: "Checked") -> list[tuple[str, str]]:
    """Label and text of each fact, in the order in which `quantdsl check` prints them."""
    kernels = [
        (f"kernel {kernel.name}", str(kernel)) for kernel in checked.library.kernels.values()
    ]
    if not checked.strategy.name:
        return [("library", "without mistakes; 'quantdsl test' runs its tests"), *kernels]
    module = checked.module()
    strategy = checked.strategy
    lines = [
        (f"let {node.name.id}", _series(checked, node.name.id))
        for node in strategy.node.items
        if isinstance(node, ast.Let)
    ]
    lines += kernels
    operations = operation_counts(module)
    for handler in strategy.handlers:
        label = f"on {EVENTS.get(handler.event, handler.event)}"
        reads = {bit: _int(warm.most) for bit, warm in handler.reads.items()}
        lines.append(
            (
                label,
                f"runs from {_first(checked, reads)} on, {operations[handler.func]:,} "
                "operations at most straight through",
            )
        )
    total = Layout(module.structs).words(ops.StructType("State")) * WORD_BYTES
    outbox = Layout(module.structs).locate(ops.StructType("State"), "e.outbox").words * WORD_BYTES
    lines.append(
        ("state", f"{total - outbox:,} bytes, and {outbox:,} for records on their way out")
    )
    lines.append(("params", _params(checked)))
    return lines


def _series(checked: "Checked", name: str) -> str:
    binding = checked.strategy.scope.names[name]
    value = binding.series()
    warm = {bit: _int(w.most) for bit, w in value.series.warm} if value.series else {}
    begins = "asked for" if isinstance(binding, SignalBinding) else "defined"
    return f"{value.type}, {begins} from {_first(checked, warm)} on"


def _first(checked: "Checked", warm: dict[int, int]) -> str:
    """The first step with all that is waited for, by the bits of the clocks that count it."""
    strategy = checked.strategy
    most: dict[tuple[str, str], int] = {}
    for bit, count in warm.items():
        step = step_of(strategy, bit)
        most[step] = max(most.get(step, 1), count)
    finest = ("tick" if strategy.ticks else "bar", "")
    waited = {step: count for step, count in most.items() if count > 1} or {finest: 1}
    return " and ".join(f"{step} {count}{clock}" for (step, clock), count in sorted(waited.items()))


def step_of(strategy: "Strategy", bit: int) -> tuple[str, str]:
    """What a bit counts, bars or ticks, and of which clock where that has to be said.

    Bars of another clock than the finest are told by their name: 15 of a day are no 15 hours, and
    20 of a minute no 20 ticks.
    """
    clock = bit % PANEL_SHIFT if strategy.universe is not None else bit % strategy.width
    if strategy.ticks and clock >= len(strategy.clocks):
        return "tick", ""
    told = clock < len(strategy.clocks) and (strategy.ticks or clock > 0)
    return "bar", f" of {strategy.clocks[clock].called}" if told else ""


def _params(checked: "Checked") -> str:
    """How many points the ranges span."""
    points = 1
    for param in checked.strategy.params:
        step = param.step or (1 if param.kind == "int" else None)
        if param.low is not None and param.high is not None and step:
            points *= int((param.high - param.low) / step) + 1
        elif param.log_count:
            points *= param.log_count
    count = len(checked.strategy.params)
    return f"{count}, whose ranges span {points:,} points before 'require'"


def _int(size: ops.Size) -> int:
    assert isinstance(size, int)
    return size


_FREE = frozenset({ops.Const, ops.Var, ops.SizeOf, ops.Table, ops.Call})


def operation_counts(module: ops.Module) -> dict[str, int]:
    """Arithmetic, comparisons, loads and selects of each function, its callees included.

    A loop counts once, so this is the cost of one pass through every branch.
    """
    known: dict[str, int] = {}
    for name, (own, calls) in _own_operations(module).items():
        known[name] = own + sum(known[called] * times for called, times in calls.items())
    return known


def code_operations(module: ops.Module) -> dict[str, int]:
    """The same of the code that is made: what std marks as cold counts once.

    A cold function stands in the code a single time, and few events come to any of the places that
    call it. No function of a user's is cold, so each call of one counts.
    """
    cold = {func.name for func in module.funcs if func.cold}
    hot: dict[str, int] = {}
    reached: dict[str, frozenset[str]] = {}
    for name, (own, calls) in _own_operations(module).items():
        hot[name] = own + sum(hot[called] * calls[called] for called in calls.keys() - cold)
        reached[name] = frozenset(calls.keys() & cold).union(*(reached[one] for one in calls))
    return {name: hot[name] + sum(hot[one] for one in reached[name]) for name in hot}


def _own_operations(module: ops.Module) -> dict[str, tuple[int, Counter[str]]]:
    """Of each function, callees before their callers: its own operations, and whom it calls."""
    found = {}
    for func in module.funcs:
        inside = nodes(func.body)
        own = sum(type(node) not in _FREE for node in inside)
        found[func.name] = own, Counter(node.func for node in inside if type(node) is ops.Call)
    return found
