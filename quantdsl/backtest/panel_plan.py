"""The part of `explain --stage plan` that tells how the signals of a universe are computed."""

from collections.abc import Iterator

from quantdsl.backtest.placement import Size, in_pieces, placement, placement_text
from quantdsl.backtest.stages import ARCHITECTURE
from quantdsl.check import Checked
from quantdsl.check.columns import WORD_BYTES
from quantdsl.check.cross import Gather
from quantdsl.check.panel_builder import Form, Kernel
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_parts import parts
from quantdsl.check.panel_stages import stages, unstaged
from quantdsl.check.panel_words import (
    CLOCK,
    FACTOR,
    INSTANTS,
    INSTANTS_MAX,
    OF_INSTANTS,
    TRAIT,
    of_host,
)
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.codegen.cubin import Cubin
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.cuda.panels import BOUNDS, along_cubin
from quantdsl.devices.measured import lanes_at_once, rates
from quantdsl.errors import UnavailableError
from quantdsl.events.layout import Trait
from quantdsl.ir import ops
from quantdsl.ir.walk import expressions
from quantdsl.report.words import plural

FLOPS = {"fadd": 1, "fsub": 1, "fmul": 1, "fdiv": 1, "sqrt": 1}
FMA_FLOPS = 2
PLANNED_INSTRUMENTS, PLANNED_INSTANTS = 5_000, 2_520
"""The panel whose placement is told: a plan has no data."""
HOST_NAMES = {
    FACTOR: "factor of adjusted prices",
    INSTANTS: "number of the instant",
    CLOCK["now"]: "time of the instant",
    CLOCK["midnight"]: "midnight of its session",
}


def panel_plan(checked: Checked) -> Iterator[str]:
    """The kernels, what each reads and writes of a bar, and the least that there is to move."""
    turn = Signals(checked.assembly)
    if not turn.shown:
        return
    if why := unstaged(checked.strategy):
        yield f"Signals: event by event on one core, for {why}."
        return
    made = kernels(turn, stages(turn), Form(usual=True))
    yield (
        f"Signals: {plural(len(made.all), 'kernel')} over blocks of {INSTANTS_MAX} instants, on "
        "all cores; bytes and operations are those of a bar, once all is warm."
    )
    moved = 0
    for number, kernel in enumerate(made.all):
        read, written = len(kernel.reads), len(kernel.writes) + len(kernel.stage.shown)
        whole = kernel.stage.whole
        moved += 0 if whole else WORD_BYTES * (read + written)
        of = " an instant" if whole else ""
        yield f"  {number + 1}. {_kernel(checked, kernel)}"
        names = [_name(turn, name) for name in kernel.reads]
        yield f"     reads {', '.join(names) or 'nothing'}: {WORD_BYTES * read} bytes{of}"
        names = [turn.shown[n].name for n in kernel.stage.shown]
        kept = ", ".join(_name(turn, name) for name in kernel.writes)
        between = f"for a later one {kept}" if kept else ""
        told = "; ".join(filter(None, (", ".join(names), between)))
        yield f"     writes {told}: {WORD_BYTES * written} bytes{of}"
    given = [name for name in made.columns if of_host(name) and name not in OF_INSTANTS]
    out = sum(len(one.stage.shown) for one in made.all if not one.stage.whole)
    least = WORD_BYTES * (len(given) + out)
    yield (
        f"  Moved {moved} bytes a bar; the least is {least}: {plural(len(given), 'word')} in, "
        f"{out} out. The rest stands between kernels, since a cross-section needs all "
        "instruments."
    )
    yield (
        "  Transfers: events into columns once, columns into rows "
        f"({WORD_BYTES * (ROW_WORDS + len(turn.shown))} bytes a bar) once; none between kernels."
    )
    size = Size(PLANNED_INSTRUMENTS, PLANNED_INSTANTS, lanes_at_once())
    yield from _on_a_gpu(checked, turn, size)
    place = placement(checked, turn, size, rates(gpu=False), rates(gpu=True))
    yield from placement_text(place, size)


def _on_a_gpu(checked: Checked, turn: Signals, size: Size) -> Iterator[str]:
    """The kernels of `--device cuda:N`, and what they move."""
    steps = parts(turn)
    made = kernels(turn, [one for step in steps for one in step], Form(flat=True))
    each, moved = iter(made.all), 0
    taken: list[Cubin] = []
    yield (
        f"  On a GPU (--device cuda:N) {plural(len(made.all), 'kernel')} over chunks of instants, "
        "the same bits:"
    )
    for number, step in enumerate(steps):
        how = "a block of threads an instant" if step[0].across else "a thread an instrument"
        how += ", each the universe as a whole" if step[0].whole else ""
        pairs = list(zip(step, each, strict=False))
        cut = [in_pieces(checked, kernel, stage.window, size) for stage, kernel in pairs]
        streams = sum(map(len, cut))
        beside = f"{len(step)} parts beside each other on {streams} streams, each "
        yield f"  {number + 1}. {beside if len(step) > 1 else ''}{how}"
        for (stage, kernel), own in zip(pairs, cut, strict=True):
            words = len(kernel.reads) + len(kernel.writes) + len(stage.shown)
            moved += WORD_BYTES * words
            names = [turn.shown[n].name for n in stage.shown]
            names += [_name(turn, name) for name in kernel.writes if not names]
            one = None if kernel.stage.across else _taken(checked, kernel)
            told = ""
            if stage.window is not None:
                lead, many = stage.window.lead, sum(piece.times for piece in own)
                told = f", {PLANNED_INSTANTS} bars in {many} pieces that begin {lead} bars before"
            if one is not None:
                taken.append(one)
                told += f", {one.registers} registers, {one.spill_bytes} bytes spilled"
            yield f"     {', '.join(names)}: {WORD_BYTES * words} bytes{told}"
    given = [name for name in made.columns if of_host(name)]
    yield (
        f"  Moved {moved} bytes a bar: indicators that need nothing of each other are parts, since "
        "one thread an instrument would leave a GPU idle, and each part reads its columns itself."
    )
    if taken:
        spilled = sum(one.spill_bytes > 0 for one in taken)
        most = max(one.registers for one in taken)
        yield (
            f"  Fused as far as equations need each other: {most} of {BOUNDS.registers} registers "
            f"at most on {ARCHITECTURE}, {spilled or 'no'} kernel{'s' * (spilled > 1)} with spills."
        )
    yield (
        f"  Transfers: {WORD_BYTES * len(given)} bytes a bar up (and {WORD_BYTES} more where some "
        f"lack), {WORD_BYTES * len(turn.shown)} down, on streams of their own while the chunk "
        "between is computed; none between kernels."
    )


def _taken(checked: Checked, kernel: Kernel) -> Cubin | None:
    """What a thread of a kernel takes; None where nothing here assembles for a GPU."""
    module = checked.kernel_module(kernel, PLANNED_INSTRUMENTS)
    try:
        return along_cubin(module, target_of(ARCHITECTURE), ARCHITECTURE)
    except UnavailableError:
        return None


def _kernel(checked: Checked, kernel: Kernel) -> str:
    every = checked.strategy.equations.all
    count = sum(not isinstance(every[n], Gather) for n in kernel.stage.equations)
    lane = next(one for one in kernel.decls if isinstance(one, ops.Func) and one.name == "lane")
    if kernel.stage.across:
        names = sorted(node.func for node in expressions(lane.body) if isinstance(node, ops.Call))
        return f"across: a lane an instant, {', '.join(names)}"
    fused = f"{count} equations in one loop" if count > 1 else "1 equation"
    lanes = "one lane, the universe as a whole" if kernel.stage.whole else "a lane an instrument"
    return (
        f"along time: {lanes}, {fused}, "
        f"{_flops(checked, lane.body)} float operations where no indicator loops"
    )


def _flops(checked: Checked, body: tuple[ops.Stmt, ...]) -> int:
    """Float operations of a body without loops of its own; a fused multiply-add counts as two."""
    total = 0
    for node in expressions(body):
        if isinstance(node, ops.Fma):
            total += FMA_FLOPS
        elif isinstance(node, ops.Unary | ops.Binary):
            total += FLOPS.get(node.op, 0)
        elif isinstance(node, ops.Call):
            func = checked.library.lookup(node.func)
            assert isinstance(func, ops.Func)
            total += _flops(checked, func.body)
    return total


def _name(turn: Signals, name: str) -> str:
    """A column between kernels as the user knows it: a price, a trait, an equation, its line."""
    if name.startswith("bar."):
        return name.removeprefix("bar.")
    if name.startswith(TRAIT):
        return Trait(int(name.removeprefix(TRAIT))).name.lower()
    if name in HOST_NAMES:
        return HOST_NAMES[name]
    place, _, part = name.partition(".")
    equation = next(one for one in turn.strategy.equations.all if one.place.name == place)
    source = equation.value if isinstance(equation, Gather) else equation.place
    known = [one.name for one in turn.shown if one.value == source]
    return ".".join(filter(None, (known[0] if known else f"line {equation.line}", part)))
