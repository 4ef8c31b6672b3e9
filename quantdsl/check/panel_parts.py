"""Stages along time cut into parts that need nothing of each other, for devices of many threads.

A lane goes through the bars of one instrument, so a stage has as many lanes as there are
instruments: too few for a GPU, which hides the wait for a result behind other lanes. Indicators of
one instrument do not need each other either; what each keeps from bar to bar is its own. So those
that no other output needs become a part, which goes through the same bars beside the others. A
cheap equation, such as a return, is computed in each part that reads it, and told by one of them. A
part that looks at windows alone may be cut in time, too (panel_windows.py).
"""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quantdsl.check.columns import live
from quantdsl.check.graph import Graph, Use, used
from quantdsl.check.panel_builder import Form
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_shared import Sharing
from quantdsl.check.panel_stages import Stage, stages
from quantdsl.check.panel_windows import keeps, kept_words, window
from quantdsl.ir import ops
from quantdsl.ir.own import Window

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals

PARTS_MAX = 16
"""Of a stage: each is a kernel to compile, and reads its columns once more."""
PAIRED_WORDS = 96
"""Of the arrays of two parts that are as one: shared memory has room for so many beside the rest of
their States. Registers have room for no third part."""
Group = list[tuple[int | str, frozenset[int]]]
"""Outputs of a part, each with the equations that it is computed from."""


def parts(turn: "Signals") -> tuple[tuple[Stage, ...], ...]:
    """The stages in order, each as the parts that may go beside each other."""
    whole = stages(turn)
    made = kernels(turn, whole, Form(flat=True)).all
    cutter = _Cutter(turn)
    return tuple(
        (stage,) if stage.across else tuple(cutter.cut(stage, kernel.writes))
        for stage, kernel in zip(whole, made, strict=True)
    )


class _Cutter:
    def __init__(self, turn: "Signals") -> None:
        self.turn = turn
        self.graph = Graph(turn.strategy)
        self.numbers = {one.place.name: n for n, one in enumerate(self.graph.all)}
        self.sharing = Sharing(turn.strategy.library.lookup, self.graph.all)

    def cut(self, stage: Stage, writes: Iterable[str]) -> list[Stage]:
        """The parts of a stage along time that writes these columns for later ones."""
        outputs: Group = []
        for number in stage.shown:
            column = self.turn.table[number]
            outputs.append((number, self.needed(stage, used(column.value, column.defined))))
        for name in writes:
            roots = {(name.partition(".")[0], "")}
            outputs.append((name, self.needed(stage, roots)))
        groups: list[Group] = []
        for output in outputs:
            dear = self.dear(output[1])
            near = [g for g in groups if dear & self.dear(_needed(g))]
            if not dear:
                near = [g for g in groups if not self.dear(_needed(g))]
            groups = [g for g in groups if g not in near]
            groups.append([*(one for g in near for one in g), output])
        groups = self.told_beside(self.paired(groups))
        groups.sort(key=lambda g: len(self.dear(_needed(g))))
        while len(groups) > PARTS_MAX:  # the cheapest ones together
            groups = [groups[0] + groups[1], *groups[2:]]
            groups.sort(key=lambda g: len(self.dear(_needed(g))))
        return [replace(self.part(group), whole=stage.whole) for group in groups]

    def paired(self, groups: list[Group]) -> list[Group]:
        """Groups, with two as one where their blocks are of the same things and end together: what
        they read is computed once."""
        made: list[Group] = []
        waiting: dict[tuple[Window, frozenset[Use]], tuple[Group, int]] = {}
        for group in groups:
            part = self.part(group)
            if part.window is None or part.window.period == 1:
                made.append(group)
                continue
            dear = self.dear(part.equations)
            key, words = (part.window, self.read(dear)), kept_words(self.turn, self.graph, dear)
            other, others = waiting.pop(key, (None, 0))
            if other is not None and words + others <= PAIRED_WORDS:
                made.append(other + group)
                continue
            if other is not None:
                made.append(other)
            waiting[key] = group, words
        return [*made, *(group for group, _ in waiting.values())]

    def told_beside(self, groups: list[Group]) -> list[Group]:
        """Groups, with each cheap output in one that computes it anyway: of those of windows in the
        one that tells least. Lanes that go through all bars are the last to end without it."""
        cheap = [group for group in groups if not self.dear(_needed(group))]
        made = [list(group) for group in groups if group not in cheap]
        hosts = [group for group in made if self.part(group).window is not None]
        left: Group = []
        for output in chain.from_iterable(cheap):
            near = [host for host in hosts if output[1] and output[1] <= _needed(host)]
            min(near, key=len, default=left).append(output)
        return [*([left] if left else []), *made]

    def read(self, dear: Iterable[int]) -> frozenset[Use]:
        """What indicators are given."""
        calls = [call for n in dear if isinstance(call := self.graph.all[n].value, ops.Call)]
        return frozenset(use for call in calls for arg in call.args[1:] for use in used(arg))

    def part(self, outputs: Group) -> Stage:
        """The stage of some outputs alone."""
        equations = tuple(sorted(_needed(outputs)))
        shown = tuple(sorted(one for one, _ in outputs if isinstance(one, int)))
        return Stage(
            across=False,
            equations=equations,
            shown=shown,
            only=frozenset(one for one, _ in outputs if isinstance(one, str)),
            window=window(self.turn, self.graph, equations, shown),
        )

    def needed(self, stage: Stage, roots: set[Use]) -> frozenset[int]:
        """The equations of a stage that an output is computed from."""
        rings = {
            ring.place.name: name for name, kept in self.graph.histories.items() for _, ring in kept
        }
        roots = roots | {(rings[name], "") for name, _ in roots if name in rings}
        found = live(self.graph, roots, lambda *_: None).evaluated
        return frozenset(found) & set(stage.equations)

    def dear(self, numbers: Iterable[int]) -> frozenset[int]:
        """The indicators among equations: they keep something from bar to bar.

        Those that are told the same as another one count as that.
        """
        every = (self.graph.all[n] for n in numbers)
        names = (self.sharing.first(one.place.name) for one in every if keeps(self.turn, one))
        return frozenset(self.numbers[name] for name in names)


def _needed(outputs: Group) -> frozenset[int]:
    """The equations that outputs are computed from."""
    return frozenset(n for _, numbers in outputs for n in numbers)
