"""What a linked strategy may cost: refused here, before any memory is asked for or code is made."""

from quantdsl import limits
from quantdsl.check.facts import code_operations
from quantdsl.errors import LimitError
from quantdsl.ir import ops
from quantdsl.ir.layout import Layout

WORD_BYTES = 8
SHOWN = 3


def hold(module: ops.Module, lines: dict[str, int], *, universe: bool) -> None:
    """LimitError where the state or an event of the strategy would exceed its limit, which of the
    state is another for a universe.

    `lines` says which source line a field of the state stems from.
    """
    layout = Layout(module.structs)
    size = layout.words(ops.StructType("State")) * WORD_BYTES
    limit = limits.UNIVERSE_BYTES if universe else limits.STATE_BYTES
    if size > limit:
        raise LimitError(
            f"this strategy needs {size:,} bytes of state; the limit is "
            f"{limit}\n{_largest(layout, lines)}"
            "help: shorten windows, histories or arrays, or use a coarser clock"
        )
    counts = code_operations(module)
    # A lane takes events in by itself, which is the core's work, as it is before the step of a run.
    most = max(counts.get("step", 0), counts.get("lane", 0) - counts.get("ingest", 0))
    if most > limits.OPERATIONS:
        raise LimitError(
            f"one event of this strategy takes {most:,} operations; the limit is "
            f"{limits.OPERATIONS}\nhelp: name what repeats with 'let' above the handlers: an "
            "equation counts once, a fn at each of its calls"
        )


def _largest(layout: Layout, lines: dict[str, int]) -> str:
    """The fields that take most of it, with their lines; those that each instrument has, of all."""
    state = layout.slots("State")
    words = {name: slot.words for name, slot in state.items()}
    panel = state["panel"].type if "panel" in state else None
    if isinstance(panel, ops.ArrayType):
        count = layout.words(panel) // layout.words(panel.elem)
        words |= {name: slot.words * count for name, slot in layout.slots("Panel").items()}
    names = sorted((n for n in lines if n in words), key=lambda n: -words[n])[:SHOWN]
    return "".join(f"  line {lines[name]}: {words[name] * WORD_BYTES:,} bytes\n" for name in names)
