"""Where the signals of a universe are computed: what cores and a GPU would take, stage by stage.

The stages of one strategy lie together. So what is compared is two sums: cores compute every stage
where the data are; a GPU must be opened, take the prices up and bring the signals down, and waits
for each stage's slowest part. A stage takes as long as its operations or its bytes, whichever is
more; operations are those of check/costs.py, and rates are measured (devices/measured.py).
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.columns import WORD_BYTES, typical
from quantdsl.check.costs import Costs
from quantdsl.check.panel_builder import Form, Kernel
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_parts import parts
from quantdsl.check.panel_stages import stages
from quantdsl.check.panel_words import of_host
from quantdsl.check.placing import Pin, pinned
from quantdsl.check.signal_turn import Signals
from quantdsl.devices.measured import Rates
from quantdsl.devices.panels import Piece, piece_rows, pieces
from quantdsl.ir.own import Window

OPEN_S = 0.5
"""To open a GPU and load its kernels: no figure of `bench device`, since it is paid once."""
CORES_ALONG, CORES_ACROSS, GPU_ALONG, GPU_ACROSS = 0.5, 1.0, 1.0, 0.25
"""What stages reach of the rate of chains that need nothing of each other, as 20 equations took on
2 cores and on an H200 (docs/signals.md)."""
STEP_NS = 1.0
"""Of a GPU: from an operation of a lane to the next, which often needs it; of the same run."""


class Stage(Struct, frozen=True):
    """One stage: whether it is across, or of the universe as a whole, and seconds on cores and on a
    GPU."""

    across: bool
    whole: bool
    cores_s: float
    gpu_s: float


class Placement(Struct, frozen=True):
    """The stages in order, what goes to a GPU and back, and where it is best to compute."""

    stages: tuple[Stage, ...]
    up_bytes: int
    down_bytes: int
    up_s: float
    down_s: float
    pin: Pin | None
    cores: Rates
    gpu: Rates

    @property
    def cores_s(self) -> float:
        """All of it on cores."""
        return sum(one.cores_s for one in self.stages)

    @property
    def gpu_s(self) -> float:
        """All of it on a GPU: copies hide behind kernels, or kernels behind copies."""
        return OPEN_S + max(sum(one.gpu_s for one in self.stages), self.up_s, self.down_s)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU is the place: what the file says, else what takes less time."""
        if self.pin is not None:
            return self.pin.place == "cuda"
        return self.gpu_s < self.cores_s

    @property
    def why(self) -> str:
        """The reason, for people."""
        if self.pin is not None:
            return f"@device({self.pin.place}) of {self.pin.name!r}"
        return f"{seconds(self.cores_s)} on {self.cores.name}, {seconds(self.gpu_s)} on a GPU"


class Size(Struct, frozen=True):
    """How much there is to compute, and on how many lanes of cores at once."""

    instruments: int
    instants: int
    lanes: int


def placement(checked: Checked, turn: Signals, size: Size, cores: Rates, gpu: Rates) -> Placement:
    """What the stages of a strategy's signals take on cores and on a GPU; see `unstaged`."""
    checked = checked.sized(size.instruments)
    whole = kernels(turn, stages(turn), Form(usual=True))
    steps = parts(turn)
    form = Form(usual=True, flat=True)
    # Uncut: what they cost is that of bars that are told.
    flat = kernels(turn, [replace(one, window=None) for step in steps for one in step], form)
    each = iter(flat.all)
    made = [
        Stage(
            kernel.stage.across,
            kernel.stage.whole,
            _on_cores(checked, kernel, size, cores),
            _on_gpu(checked, [(next(each), one.window) for one in step], size, gpu),
        )
        for kernel, step in zip(whole.all, steps, strict=True)
    ]
    bars = size.instruments * size.instants
    given = sum(of_host(name) for name in flat.columns)
    up, down = (WORD_BYTES * n * bars for n in (given, len(turn.table)))
    return Placement(
        tuple(made), up, down, up / (gpu.up * 1e9), down / (gpu.down * 1e9),
        pinned(checked.strategy), cores, gpu,
    )  # fmt: skip


def _on_cores(checked: Checked, kernel: Kernel, size: Size, rates: Rates) -> float:
    """The universe as a whole has one lane, and one word an instant."""
    stage, bars = kernel.stage, size.instruments * size.instants
    work = operations(checked, kernel, None) * (bars if stage.of_instruments else size.instants)
    share = CORES_ACROSS if stage.across else CORES_ALONG
    rate = rates.f64 / 2 * 1e9 * (1 if stage.whole else size.lanes) * share
    moved = _bytes(kernel) * (size.instants if stage.whole else bars)
    return max(work / rate, moved / (rates.bandwidth * 1e9))


def _on_gpu(
    checked: Checked, step: Sequence[tuple[Kernel, Window | None]], size: Size, rates: Rates
) -> float:
    """The parts of a stage go beside each other; one lane's operations follow each other."""
    bars = size.instruments * size.instants
    costs = [operations(checked, one, size.instruments) for one, _ in step]
    across = step[0][0].stage.across
    rate = rates.f64 / 2 * 1e9 * (GPU_ACROSS if across else GPU_ALONG)
    work = sum(costs) * (size.instants if across else bars) / rate
    most = (cost * _most_bars(checked, *one, size) for cost, one in zip(costs, step, strict=True))
    chain = 0.0 if across else max(most) * STEP_NS * 1e-9
    moved = sum(_bytes(one) for one, _ in step) * bars / (rates.bandwidth * 1e9)
    return max(work, chain, moved) + rates.launch * 1e-6 * len(step)


def in_pieces(checked: Checked, kernel: Kernel, window: Window | None, size: Size) -> list[Piece]:
    """The pieces of time of a kernel along it, each of which has lanes of its own on a GPU."""
    rows = size.instants
    if window is not None:
        words = len(Memory(checked.kernel_module(kernel, size.instruments)).words)
        rows = piece_rows(window, (rows, size.instruments), words)
    return pieces(window, rows, size.instants, 0)


def _most_bars(checked: Checked, kernel: Kernel, window: Window | None, size: Size) -> int:
    """The bars of the longest piece; of kernels those that are told, for what comes before costs
    nothing beside them."""
    spared = window.lead if window is not None and window.heavy else 0
    return max(one.n - spared * one.amid for one in in_pieces(checked, kernel, window, size))


def operations(checked: Checked, kernel: Kernel, flat: int | None) -> float:
    """Of a lane along time at one bar, or across at one instant."""
    module = checked.kernel_module(kernel, flat)
    return Costs(module, typical(checked.strategy.params), memory=1).once("lane", {"n": 1})


def _bytes(kernel: Kernel) -> int:
    """What a kernel reads and writes of a bar."""
    return WORD_BYTES * (len(kernel.reads) + len(kernel.writes) + len(kernel.stage.shown))


def seconds(time_s: float) -> str:
    """A time of a model, for people: two digits."""
    units = (("s", 1.0), ("ms", 1e3), ("us", 1e6))
    unit, factor = next((one for one in units if time_s * one[1] >= 1), units[-1])
    number = time_s * factor
    return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


def placement_text(found: Placement, size: Size) -> Iterator[str]:
    """The lines of `explain --stage plan`: each stage, each transfer, and what is chosen."""
    told = ", ".join(
        f"{one.name}{'' if one.measured else ' (assumed: run quantdsl bench device)'}"
        for one in (found.cores, found.gpu)
    )
    yield (
        f"  Placement of {size.instruments:,} instruments x {size.instants:,} instants by the "
        f"rates of {told}:"
    )
    for number, one in enumerate(found.stages):
        kind = "across" if one.across else "along time"
        kind += ", the universe as a whole" if one.whole else ""
        times = f"{seconds(one.cores_s)} on cores, {seconds(one.gpu_s)} on a GPU"
        yield f"  {number + 1}. {kind}: {times}"
    yield (
        f"  To a GPU {found.up_bytes:,} bytes of prices and traits, {seconds(found.up_s)}, since "
        f"events are of the host; back {found.down_bytes:,} bytes of signals, "
        f"{seconds(found.down_s)}, since a table is; beside kernels. Opening it {seconds(OPEN_S)}."
    )
    yield (
        "  Stages lie together: what stands between them is larger than what goes in. "
        f"--device auto takes {'a GPU' if found.on_gpu else 'cores'}: {found.why}."
    )
