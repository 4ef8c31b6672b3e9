"""Asynchronous signals of a run: when they are answered, and what became of the requests."""

from typing import NamedTuple

from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.ticks import SOURCES
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.config import SignalsConfig
from quantdsl.data.signals import Awaited
from quantdsl.events.layout import Kind
from quantdsl.report.words import span


class Answers(NamedTuple):
    """What became of the requests of one signal; ages are those of its inputs, in ns."""

    name: str
    asked: int
    ready: int
    stale: int
    """Given up at the deadline."""
    dropped: int
    """Refused, for too many were in flight, or overtaken by a newer answer."""
    age_mean_ns: int
    age_most_ns: int

    @property
    def waiting(self) -> int:
        """Still in flight."""
        return self.asked - self.ready - self.stale - self.dropped

    def __str__(self) -> str:
        line = (
            f"signal {self.name}: {self.asked:,} asked, {self.ready:,} ready, {self.stale:,} "
            f"stale, {self.dropped:,} dropped, {self.waiting:,} in flight"
        )
        if not self.ready:
            return line
        mean, most = span(self.age_mean_ns), span(self.age_most_ns)
        return f"{line}; age of what was ready {mean} on average, {most} at most"


def awaited(checked: Checked, config: SignalsConfig) -> Awaited | None:
    """What asks for the signals of a strategy; None where it has none."""
    strategy = checked.strategy
    if not strategy.signals:
        return None
    from quantdsl.data.tick_feed import KINDS

    mask, clocks, kinds = strategy.signals.clocks, set[int](), set[int]()
    for traded in strategy.instruments:
        own = mask >> (traded.index * strategy.width)
        own |= mask >> PANEL_SHIFT if strategy.universe is not None else 0
        clocks |= {n for n in range(len(strategy.clocks)) if own >> n & 1}
        for built in strategy.built:
            if own >> built.clock & 1:  # it closes with a tick, or at a time
                item = next(item for item, event in SOURCES.items() if event == built.event)
                kinds |= {*map(int, KINDS[item]), int(Kind.TIMER)}
        for item, event in SOURCES.items():
            if event in strategy.ticks.sources and own >> strategy.ticks.clock(event) & 1:
                kinds |= set(map(int, KINDS[item]))
    delay_ns = round(config.delay_us * 1_000)
    return Awaited(clocks=frozenset(clocks), kinds=frozenset(kinds), delay_ns=delay_ns)


def notes(checked: Checked, config: SignalsConfig) -> tuple[str, ...]:
    """How signals are answered, and which of them never are in time."""
    delay_ns = round(config.delay_us * 1_000)
    delay = f"{config.delay_us:,.15g} microseconds"
    lines = []
    for signal in checked.strategy.signals.all:
        lines.append(f"asynchronous signals are answered after {delay}")
        if delay_ns > signal.deadline_ns:
            lines.append(
                f"no answer of {signal.name} comes in time: its deadline is "
                f"{signal.deadline_ns / 1_000:,.15g} microseconds, less than signals.delay_us"
            )
    return tuple(dict.fromkeys(lines))


def answers(checked: Checked, memory: Memory) -> tuple[Answers, ...]:
    """The counts of each signal by now; of a universe those of all instruments together."""
    found = []
    for signal in checked.strategy.signals.all:
        places = [signal.place.name]
        if signal.panel:
            places = [f"panel[{n}].{signal.place.name}" for n in range(checked.instruments)]
        counts = {
            name: sum(int(memory.get(f"{place}.{name}")) for place in places)
            for name in ("asked", "ready", "stale", "dropped", "age")
        }
        age = counts.pop("age")
        most = max(int(memory.get(f"{place}.age_most")) for place in places)
        mean = age // counts["ready"] if counts["ready"] else 0
        found.append(Answers(signal.name, **counts, age_mean_ns=mean, age_most_ns=most))
    return tuple(found)
