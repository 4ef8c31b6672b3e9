"""What is known of the kernel of lanes before it runs, derived from its signature in the IR.

Every device takes buffers, variables and launch sizes from here, so that they cannot disagree.
"""

from collections.abc import Mapping
from typing import NamedTuple

from quantdsl.codegen.lanes import KERNEL, is_large
from quantdsl.devices.failure import refused
from quantdsl.devices.sizes import Operation, Size, Symbol, evaluate
from quantdsl.devices.work import LaneWork
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Module
from quantdsl.ir.threads import WARP
from quantdsl.passes.common import COMMON_TYPE, takes_common

STATE_WORDS, OWN_WORDS = Symbol("state_words", 1), Symbol("own_words", 1)
COMMON_WORDS, WORKING_WORDS = Symbol("common_words"), Symbol("working_words")
COLUMN_WIDTH = Symbol("column_width")
EVENT_WORDS = Symbol("event_words", 1)
BLOCK = Symbol("block", 1)
VARIABLES = {
    param.name: Symbol(param.name, 0, 3 if param.name == "mode" else 2**63 - 1)
    for param in KERNEL.params
    if isinstance(param.type, str)
}
"""The scalar arguments of the kernel, with their bounds; 1 in `mode` starts a run, 2 ends it."""

_LANES = VARIABLES["n_lanes"]
WORDS: dict[str, Size] = {
    "template": STATE_WORDS,
    "points": Operation("*", VARIABLES["n_params"], _LANES),
    "param_offsets": VARIABLES["n_params"],
    "results": Operation("*", VARIABLES["n_results"], _LANES),
    "result_offsets": VARIABLES["n_results"],
    "events": Operation("*", VARIABLES["n_events"], EVENT_WORDS),
    "columns": Operation("*", VARIABLES["n_events"], COLUMN_WIDTH),
    "states": Operation(
        "+",
        Operation("*", OWN_WORDS, _LANES),
        Operation("*", COMMON_WORDS, Operation("//^", _LANES, WARP)),
    ),
}
"""The words of each buffer of the kernel on a GPU, whose warps have what is common once each."""

STATES_ON_A_CPU: Size = Operation(
    "+",
    Operation("*", OWN_WORDS, _LANES),
    Operation("+", Operation("*", COMMON_WORDS, 2), WORKING_WORDS),
)
"""On a CPU what is common is there twice, and a State too large for a stack once more."""

GRID: Size = Operation("//^", Operation("-", VARIABLES["lane_hi"], VARIABLES["lane_lo"]), BLOCK)
"""Blocks of a launch: a thread a lane."""


class Facts(NamedTuple):
    """The kernel for a reader or another program."""

    inputs: dict[str, str]
    """Buffer that is read -> its size in words."""
    outputs: dict[str, str]
    """Buffer that is written, or read and written -> its size in words."""
    variables: dict[str, tuple[int, int]]
    """Scalar, or size of a launch -> its bounds."""
    grid: str | None
    """Blocks of a launch; None on a CPU, where a call runs all lanes."""


def facts(*, on_cores: bool, threads_max: int | None = None, threads_min: int = 1) -> Facts:
    """Buffers, variables and launch sizes of the kernel of lanes, on a CPU or on a GPU."""
    words = {**WORDS, "states": STATES_ON_A_CPU} if on_cores else WORDS
    buffers = [param for param in KERNEL.params if param.name in words]
    symbols = [*VARIABLES.values()]
    if not on_cores:
        symbols.append(BLOCK._replace(lo=threads_min, hi=threads_max or BLOCK.hi))
    return Facts(
        inputs={param.name: str(words[param.name]) for param in buffers if not param.inout},
        outputs={param.name: str(words[param.name]) for param in buffers if param.inout},
        variables={symbol.name: (symbol.lo, symbol.hi) for symbol in symbols},
        grid=None if on_cores else str(GRID),
    )


def sizes_of(module: Module, *, event_words: int, on_cores: bool) -> dict[str, int]:
    """The sizes that are settled for some code of lanes; `module` is what it is emitted from."""
    (lane,) = (func for func in module.funcs if func.name == "lane")
    layout = Layout(module.structs)
    state = layout.words(lane.params[0].type)
    common = layout.words(COMMON_TYPE) if takes_common(lane) else 0
    return {
        "state_words": state + common,
        "own_words": state,
        "common_words": common,
        "working_words": state if on_cores and is_large(state) else 0,
        "event_words": event_words,
        "column_width": 0,  # nothing is computed ahead for it
    }


def values(work: LaneWork, n_lanes: int, n_events: int) -> dict[str, int]:
    """The symbols of a launch over `n_lanes` lanes and `n_events` events of some work."""
    return {
        "state_words": len(work.template),
        "own_words": work.own,
        "common_words": work.common,
        "n_params": len(work.params),
        "n_results": len(work.results),
        "n_events": n_events,
        "n_lanes": n_lanes,
        "lane_lo": 0,
        "lane_hi": n_lanes,
        "event_words": work.events.shape[1],
        "column_width": work.columns.shape[1],
    }


def grid_of(device: str, sizes: Mapping[str, int], block: int, limits: tuple[int, int]) -> int:
    """Blocks of a launch, checked: positive and within `limits` (blocks, threads of a block).

    Raises DeviceError (launch) beyond the device's limits, LimitError where a size overflows.
    """
    grid = evaluate(GRID, {**sizes, "block": block})
    blocks_max, threads_max = limits
    if not 0 < grid <= blocks_max or not 0 < block <= threads_max:
        told = f"a launch of {grid:,} blocks of {block:,} threads"
        allowed = f"1 to {blocks_max:,} blocks of 1 to {threads_max:,} threads"
        raise refused(device, "launch", f"{told} is not within {allowed}")
    return grid
