"""What happens to a linked module before code is made of it: flat, named, ordered lists.

Each pass takes a verified module to a verified module of the same meaning. The list is short
because LLVM optimises too; a pass is here because LLVM cannot do it, or because doing it early
spares LLVM the work.
"""

from collections.abc import Callable, Set

from quantdsl.ir.ops import Module
from quantdsl.passes.cold import outline_cold
from quantdsl.passes.common import hold_common
from quantdsl.passes.dead import drop_dead
from quantdsl.passes.divide import divide_by_reciprocals
from quantdsl.passes.early import ask_early
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.inline import inline_hot
from quantdsl.passes.known import settle_known
from quantdsl.passes.network import sort_in_registers
from quantdsl.passes.outline import outline_large
from quantdsl.passes.promote import promote_words
from quantdsl.passes.rings import turn_rings
from quantdsl.passes.rows import ROWS, split_rows
from quantdsl.passes.sink import sink_values
from quantdsl.passes.split import split_structs
from quantdsl.passes.tried import try_straight
from quantdsl.passes.uniform import uniform
from quantdsl.passes.unread import drop_unread
from quantdsl.passes.unused import drop_unused
from quantdsl.passes.warm import split_warm

Pass = Callable[[Module], Module]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("known", settle_known),
    ("unused", drop_unused),
    ("outline", outline_large),
)


def run_passes(module: Module) -> Module:
    """The module after every pass of the list."""
    for _, apply in PASSES:
        module = apply(module)
    return module


LANE = "lane"
"""The entry whose loop the lane passes make fast."""


def lane_steps(
    results: Set[str],
    varying: Set[str] | None = None,
    entry: str = LANE,
    depth: int | None = None,
    *,
    past: bool = False,
) -> tuple[tuple[str, Pass], ...]:
    """The passes over a module of lanes; of the state, `results` and what is read is kept.

    With `varying`, what lanes share is computed apart from them (rows.py), with `past` a book too;
    with `depth` rarely used words stay in memory (promote.py).
    """

    def promote(module: Module) -> Module:
        shared = None if varying is None or depth is None else uniform(module, entry, varying)
        return promote_words(module, entry, shared, depth)

    steps: list[tuple[str, Pass]] = [
        ("known", settle_known),
        ("unused", drop_unused),
        ("unread", lambda module: drop_unread(module, entry, results)),
        ("common", lambda module: module if varying is None else hold_common(module, entry)),
        ("inline", lambda module: inline_hot(module, entry)),
        ("fold again", fold_constants),
        ("split", lambda module: split_structs(module, entry)),
        ("cold", lambda module: outline_cold(module, entry)),
        ("sink", lambda module: sink_values(module, entry)),
        ("promote", promote),
        ("dead", lambda module: drop_dead(module, entry, results)),
    ]
    if varying is not None:
        steps += [
            ("rows", lambda module: split_rows(module, entry, results, varying, past=past)),
            ("dead in rows", lambda module: drop_dead(module, ROWS, frozenset())),
            ("dead again", lambda module: drop_dead(module, entry, results)),
        ]
    return (*steps, ("unused again", drop_unused), ("outline", outline_large))


def own_passes(module: Module) -> Module:
    """The module of lanes that go through columns of their own (own.py), after every pass.

    Nothing of it is the same in all lanes but settings, so there are no rows to make.
    """
    steps: tuple[tuple[str, Pass], ...] = (
        ("known", settle_known),
        ("unused", drop_unused),
        ("inline", lambda module: inline_hot(module, LANE)),
        ("fold again", fold_constants),
        ("split", lambda module: split_structs(module, LANE)),
        ("sink", lambda module: sink_values(module, LANE)),
        ("promote", lambda module: promote_words(module, LANE)),
        ("dead", lambda module: drop_dead(module, LANE, frozenset())),
        ("unused again", drop_unused),
    )
    for _, apply in steps:
        module = apply(module)
    return module


def along_passes(module: Module) -> Module:
    """The same for a thread a lane of a GPU."""
    straight = split_warm(own_passes(module), LANE)
    tried = try_straight(divide_by_reciprocals(straight, LANE), LANE)
    return ask_early(tried, LANE)


def panel_passes(module: Module) -> Module:
    """The same for lanes on cores."""
    return turn_rings(own_passes(sort_in_registers(module)), LANE)


def lane_passes(
    module: Module,
    results: Set[str],
    varying: Set[str] | None = None,
    depth: int | None = None,
    *,
    past: bool = False,
) -> Module:
    """The module after every pass over lanes.

    `results` are paths of the state that the host reads at the end of a run; other words need not
    hold what a single run would leave there. `varying` are the words that lanes start with.
    """
    for _, apply in lane_steps(results, varying, LANE, depth, past=past):
        module = apply(module)
    return module
