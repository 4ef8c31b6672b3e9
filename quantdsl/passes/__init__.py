"""What happens to a linked module before code is made of it: a flat, named, ordered list.

Each pass takes a verified module to a verified module of the same meaning. The list is short
because LLVM optimises too; a pass is here because LLVM cannot do it, or because doing it early
spares LLVM the work.
"""

from collections.abc import Callable

from quantdsl.ir.ops import Module
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.outline import outline_large
from quantdsl.passes.unused import drop_unused

Pass = Callable[[Module], Module]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("fold", fold_constants),
    ("unused", drop_unused),
    ("outline", outline_large),
)


def run_passes(module: Module) -> Module:
    """The module after every pass of the list."""
    for _, apply in PASSES:
        module = apply(module)
    return module
