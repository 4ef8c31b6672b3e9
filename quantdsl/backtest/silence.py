"""Why a run traded nothing: warm-up longer than the data, or a condition that was never true.

A run that sent no order is run again, with a record for every branch of its handlers, and the
branches are counted.
"""

from collections import Counter
from typing import Any

import numpy as np

from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.check import Checked, check_source
from quantdsl.check.facts import step_of
from quantdsl.check.rebalancing import Rebalance
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.data.events import MISSED
from quantdsl.data.tick_data import RunData
from quantdsl.data.times import DAY_NS, show_instant
from quantdsl.events.layout import Kind, Trait
from quantdsl.report.words import plural

LINES_MAX = 3

Branches = Counter[tuple[int, int]]
"""How often the condition in a source line was (1) or was not (0) true."""


def silence(prepared: Prepared, options: dict[str, Any]) -> tuple[str, ...]:
    """The reasons of a finished run without a fill, most likely first; `options` of its prepare."""
    run, checked = prepared.run, prepared.checked
    if run.memory.get("e.metrics.fills"):
        return ()
    start, data = int(run.memory.get("trade_from")), prepared.data
    found = never_started(start, data) or _outside(prepared)
    found = found or no_members(data) or _not_warm(prepared)
    if not found and not run.memory.get("e.metrics.orders"):
        found = _never_true(checked, _count(checked, options)) or _left_alone(checked)
        found = found or _missed(data)
    return tuple(dict.fromkeys(found))


def never_started(start: int, data: RunData) -> list[str]:
    """Trading that was to start after the last bar, or to end before the first."""
    end = data.spec.end
    first, last = map(show_instant, data.span)
    if start > data.span[1]:
        return [f"trading starts at {show_instant(start)}, and the data end at {last}"]
    if end is not None and end <= data.span[0]:
        return [f"the run ends at {show_instant(end)}, and the data begin at {first}"]
    return []


def _outside(prepared: Prepared) -> list[str]:
    """A session within which nothing of the data lies."""
    memory, schedule = prepared.run.memory, prepared.data.schedule
    seen = (memory.get(f"e.market[{k}].bars") for k in range(prepared.checked.instruments))
    begin, end = prepared.data.span
    met = np.any((schedule.open_ns <= end) & (schedule.close_ns > begin))
    if not schedule.named or (any(seen) and met):  # a book is kept outside the sessions too
        return []
    first, last = map(show_instant, prepared.data.span)
    return [f"the data, from {first} to {last}, hold nothing within a session of {schedule.name}"]


def _not_warm(prepared: Prepared) -> list[str]:
    """Handlers that the data never warm up."""
    checked, memory = prepared.checked, prepared.run.memory
    strategy = checked.strategy
    found = []
    for handler in strategy.handlers:
        for bit, warm in handler.reads.items():
            counter = checked.assembly.counted.get(1 << bit)
            if counter is None or not isinstance(warm.most, int):
                continue
            seen = max(int(memory.get(place)) for place in _places(checked, bit, counter.name))
            if seen < warm.most:
                step, clock = step_of(strategy, bit)
                found.append(
                    f"'on {handler.event}' reads series that may need {plural(warm.most, step)}"
                    f"{clock} to be defined, and the data have {plural(seen, step)}"
                )
    return found


def no_members(data: RunData) -> list[str]:
    """A universe whose members were all out of it on each day of the data."""
    changes = sorted(one for one in data.spec.changes if one.trait is Trait.MEMBER)
    first, last = (ns // DAY_NS for ns in data.span)
    at_first = {one.instrument: one.value for one in changes if one.day <= first}
    entered = any(one.value for one in changes if first < one.day <= last)
    if not changes or entered or any(at_first.values()):
        return []
    return ["no instrument was a member of the universe on a day of the data"]


def _missed(data: RunData) -> list[str]:
    """Timers of chosen days of which some, or all, had no bar."""
    missed = [
        f"{what}: {count:,}" for what, count in data.counts.items() if MISSED in what and count
    ]
    return [*missed, "a size of less than one lot makes no order"] if missed else []


def _left_alone(checked: Checked) -> list[str]:
    """Rebalances that found nothing to trade."""
    rebalance, universe = checked.strategy.scope.names.get("rebalance"), checked.strategy.universe
    if not isinstance(rebalance, Rebalance) or rebalance.plan is None:
        return []
    filtered = universe is not None and universe.filter is not None
    return [
        "no 'rebalance' changed a position: its weights were na, 0, less than one lot, or changes "
        f"below its min_trade{', or the filter let nobody in' if filtered else ''}"
    ]


def _places(checked: Checked, bit: int, name: str) -> list[str]:
    """Where a clock's ticks are counted: once, or for each instrument of a universe."""
    if bit < PANEL_SHIFT:
        return [name]
    return [f"panel[{number}].{name}" for number in range(checked.instruments)]


def _count(checked: Checked, options: dict[str, Any]) -> Branches:
    """Run once more and count every branch; nothing else of the run is kept."""
    traced, _ = check_source(checked.source, trace=True)
    assert traced is not None  # it compiled before
    again = prepare(traced, **options)
    counts: Branches = Counter()
    for events in again.data.chunks():
        again.run.feed(events)
        records = again.run.all_records()
        branches = records[records["kind"] == Kind.BRANCH]
        counts.update(zip(branches["a"].tolist(), branches["b"].tolist(), strict=True))
        again.run.records.clear()
        again.run.rows.clear()
    return counts


def _never_true(checked: Checked, counts: Branches) -> list[str]:
    """The conditions that were never true, the most often tested first."""
    tested = Counter({line: count for (line, taken), count in counts.items() if not taken})
    never = [line for line, _ in tested.most_common() if not counts[line, 1]]
    return [
        f"line {line}, '{checked.source.line_text(line).strip().rstrip(':')}', was never true in "
        f"{plural(tested[line], 'test')}"
        for line in never[:LINES_MAX]
    ]
