"""A sweep: one strategy over one stream of events at many points of its params.

    grid -> points that `require` admits -> one bar at which all may trade -> lanes on a device
         -> words of each lane -> metrics, by the formulas of a single run

All points start to trade at the same bar, so that they are judged on the same days, and a point's
row is to the bit what `quantdsl backtest` says of it with the same `--from`.
"""

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

import quantdsl
from quantdsl.backtest import points as pointing
from quantdsl.backtest import spans, values
from quantdsl.backtest.columns import Table, filled, offsets, table_of
from quantdsl.backtest.lane_code import CROWDED, LaneCode, lane_code, plan_of
from quantdsl.backtest.points import Grid
from quantdsl.backtest.prepare import (
    Arranged,
    Hold,
    arrange,
    begin,
    day_rule,
    files_named,
    hold_hosted,
    said_in,
)
from quantdsl.backtest.program import Memory
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.stream import SPOOL_BYTES, day_samples, market_times, materialised
from quantdsl.backtest.sweep_parts import Manifest, Parts
from quantdsl.backtest.warm import sweep_start, tick_start
from quantdsl.check import Checked
from quantdsl.check.columns import Plan
from quantdsl.check.few import few_orders
from quantdsl.check.lanes import STEP, column
from quantdsl.config import Precision, Resolved, SweepConfig
from quantdsl.data.feed import split_source
from quantdsl.data.table import hold_there
from quantdsl.data.times import exact_instant, show_instant
from quantdsl.devices.choose import hold_choice, on_gpu
from quantdsl.devices.cluster import ClusterRunner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.feed import PIECE_BYTES
from quantdsl.devices.work import LaneWork, Runner
from quantdsl.errors import ConfigError, DataError, LimitError, UnavailableError
from quantdsl.events.layout import EVENT
from quantdsl.lang.spelling import nearest
from quantdsl.report.metrics import LANE_METRICS
from quantdsl.report.result import RunResult

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Progress = Callable[[int, int], None]
"""(points done, points in all)."""

OF_LUCK = "sharpe"
"""The metric that says how likely the best point is luck."""
RESULT_WORDS = 64
"""Of each point in the finished table, beside the words that its lane leaves."""
MICROSECOND_NS = 1_000
CROWDED_LEAST, CROWDED_SHARE = 16, 4
"""So many lanes are enough to see that one in so many is crowded: then all are given room."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Settings, data and the points that are run."""

    checked: Checked
    path: Path
    options: Mapping[str, Any]  # of `arrange`, for the single run of a point
    arranged: Arranged
    grid: Grid
    numbers: Int64s  # of the points in the grid, ascending
    levels: Int32s  # [axis, point]
    words: Int64s  # [axis, point]: what the state holds of them
    needs: Int64s  # ticks of each clock until all points are warm
    memory: Memory  # the state of a lane before its params are written
    precision: Precision
    notes: tuple[str, ...]

    @property
    def config(self) -> SweepConfig:
        """The settings of the sweep itself."""
        return self.arranged.resolved.config.sweep

    @property
    def n_points(self) -> int:
        """Points to run."""
        return len(self.numbers)

    @property
    def moment(self) -> str:
        """What trading goes by, for people."""
        return "tick moment" if self.checked.strategy.ticks else "bar"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of each point, in the order of the table."""
        return _metrics(self.config)


class Sweep(Chosen, frozen=True, kw_only=True):
    """A sweep that is ready to run; `run` may be called again."""

    code: LaneCode
    table: Table | None  # where what is computed once for several points lies
    work: LaneWork  # its columns are filled when it is run
    start_ns: int  # all points trade from here on
    bar_ns: Int64s  # when each bar of the finest clock closes, or ticks come in

    @property
    def start(self) -> str:
        """When trading starts, as `--from` takes it."""
        return exact_instant(self.start_ns)

    def manifest(self) -> Manifest:
        """What the results depend on, as digests."""
        spec = msgspec.structs.replace(self.arranged.data.spec, instruments=())
        module = self._base().module
        report = replace(self.config, device="", on="here")  # anywhere it is the same
        return Manifest(
            version=quantdsl.__version__,
            strategy=_digest(msgspec.msgpack.encode(module, order="deterministic")),
            data=_digest(self.arranged.data.sha256.encode(), repr(spec).encode()),
            ranges=_digest(self.numbers.tobytes(), self.words.tobytes()),
            settings=_digest(self.memory.words.tobytes()),
            precision=self.precision,
            points=self.n_points,
            words=len(self.code.words),
            metrics=",".join(self.metrics),
            report=_digest(msgspec.msgpack.encode(report, order="deterministic")),
        )

    def _base(self) -> LaneCode:
        uses = self.arranged.uses
        few = few_orders(self.checked.strategy, uses)
        return lane_code(
            self.checked,
            uses,
            self.config.blocks,
            few=few,
            precision=self.precision,
            metrics=self.metrics,
        )

    def place(self, number: int) -> int:
        """Which row the point of this number is; ConfigError where it is not run."""
        at = int(np.searchsorted(self.numbers, number))
        if at == self.n_points or self.numbers[at] != number:
            raise ConfigError(
                f"point {number} is not in this sweep: {self.n_points:,} points of "
                f"{self.grid.describe()} are, from {self.numbers[0]} to {self.numbers[-1]}"
            )
        return at

    def params(self, row: int) -> dict[str, str]:
        """Every param of a point, as `--set` takes it."""
        by_name = {param.name: param for param in self.checked.strategy.params}
        exact: dict[str, Fraction] = dict(self.grid.fixed)
        for axis, level in zip(self.grid.axes, self.levels[:, row].tolist(), strict=True):
            exact[axis.param.name] = axis.values[level]
        return {name: values.show(param, exact[name]) for name, param in by_name.items()}

    def window(self, start_ns: int, end_ns: int) -> "Sweep":
        """The same points over the bars that close up to `end_ns`, trading from `start_ns` on."""
        arranged = replace(self.arranged, data=self.arranged.data.until(end_ns))
        options = {**self.options, "end": exact_instant(end_ns)}
        cut, events = replace(self, arranged=arranged, options=options), materialised(arranged.data)
        return placed(cut, events, _start(cut, events, start_ns), self.code.plan)

    def exact(self, rows: Int64s) -> "Sweep":
        """Some of the points in double precision, from the same bar on."""
        levels, words = self.levels[:, rows], self.words[:, rows]
        numbers = self.numbers[rows]
        points = replace(self, precision="f64", numbers=numbers, levels=levels, words=words)
        return placed(points, self.work.events, self.start_ns)

    def single(self, row: int) -> RunResult:
        """The backtest of one point alone, from the same bar on; it is in double precision."""
        options = {**self.options, "params": self.params(row), "start": self.start}
        return run_checked(self.checked, self.path, **options)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def prepare_sweep(checked: Checked, path: Path, *, data: Any = None, **options: Any) -> Sweep:
    """Everything before the first lane of one sweep; the options are those of `prepare_sweeps`."""
    return next(prepare_sweeps(checked, path, [data], **options))


def prepare_sweeps(
    checked: Checked,
    path: Path,
    files: Sequence[Any],
    *,
    ranges: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
    start: str | None = None,
    sweep: Mapping[str, object] | None = None,
    hold: Hold = lambda _: None,
    **options: Any,
) -> Iterator[Sweep]:
    """The sweep of each file before its first lane; `sweep` are settings of its config section.

    `params` keep one value each, `ranges` are swept, trading starts at `start` at the earliest;
    `options` are those of `arrange`, and so is `hold`. Every file is read before the first sweep,
    and once: those that cannot be swept are told together. More than `SPOOL_BYTES` of events wait
    on disk. Raises ConfigError, DataError or LimitError with one message.
    """
    waiting: list[tuple[Chosen, Int64s, int]] = []
    refused: list[str] = []
    room = SPOOL_BYTES
    for data in files:
        try:
            chosen = _chosen(
                checked, path, ranges or {}, params or {}, sweep, {"data": data, **options}, hold
            )
            before = waiting[0][0] if waiting else chosen
            if np.array_equal(chosen.numbers, before.numbers):  # one memory for all files
                points = {name: getattr(before, name) for name in ("numbers", "levels", "words")}
                chosen = replace(chosen, **points)
            asked = 0 if start is None else begin(start, chosen.arranged.data.spec)
            events = materialised(chosen.arranged.data, room)
            start_ns = _start(chosen, events, asked)
            _hold_spans(chosen, events, start_ns)
            waiting.append((chosen, events, start_ns))
            room -= events.nbytes if events.nbytes <= room else 0  # else they lie on disk
        except DataError as error:
            if len(files) == 1:
                raise
            refused.append(str(error))
    if refused:
        raise DataError(
            "\n".join([f"{len(refused)} of {len(files)} files cannot be swept", *refused])
        )
    while waiting:
        yield placed(*waiting.pop(0))


def _chosen(
    checked: Checked,
    path: Path,
    ranges: Mapping[str, str],
    params: Mapping[str, object],
    sweep: Mapping[str, object] | None,
    options: Mapping[str, Any],
    hold: Hold,
) -> Chosen:
    """The points that are run; the arguments are those of `prepare_sweeps`."""

    def judged(resolved: Resolved) -> None:
        """Refuse what no data can mend before they are read."""
        _supported(resolved, sweep or {})
        _hold_ranges(checked, resolved, {**params, **ranges}, options.get("config"))
        _grid(checked, resolved, params, ranges)
        hold(resolved)

    hold_hosted(checked, "a sweep")
    more = {**options.get("more", {}), **_own(sweep)}
    arranged = arrange(checked, **{**options, "more": more}, hold=judged)
    checked = arranged.sized(checked)
    resolved = arranged.resolved
    config = resolved.config.sweep
    grid, notes = _grid(checked, resolved, params, ranges)
    few = few_orders(checked.strategy, arranged.uses)
    code = lane_code(
        checked,
        arranged.uses,
        config.blocks,
        few=few,
        precision=config.precision,
        metrics=_metrics(config),
    )
    memory = Memory(code.module)
    arranged.fill(memory)
    values.write(memory, [p for p in checked.strategy.params if p.name in grid.fixed], grid.fixed)
    judge = code.judge(memory.words, grid.axes)
    said = resolved.said("sweep.points", config.points)
    numbers = pointing.chosen(grid, judge, config.points, config.seed, said)
    levels = grid.levels(numbers)
    words = grid.words(levels)
    _fits(len(numbers), len(code.words))
    return Chosen(
        checked=checked,
        path=path,
        options={**options, "more": more},
        arranged=arranged,
        grid=grid,
        numbers=numbers,
        levels=levels,
        words=words,
        needs=judge.needs(words),
        memory=memory,
        precision=config.precision,
        notes=(*notes, _accounts(checked), *_narrowed(config)),
    )


def placed(
    chosen: Chosen,
    events: Int64s,
    start_ns: int,
    plan: Plan | None = None,
    *,
    roomy: bool = False,
) -> Sweep:
    """The points on the events of their data, trading from `start_ns` on.

    `plan` says what is computed once for several points; unless told, it is decided here. Lanes
    have room for the orders that their strategy is likely to have (check/few.py), or, where they
    are to be `roomy`, for all that a single run has.
    """
    axes, levels, config = chosen.grid.axes, chosen.levels, chosen.config
    if plan is None:
        gpu = on_gpu(config.device)
        plan = plan_of(chosen.checked, axes, levels, len(events), gpu=gpu)
    uses = chosen.arranged.uses
    few = 0 if roomy else few_orders(chosen.checked.strategy, uses)
    code = lane_code(
        chosen.checked, uses, config.blocks, plan, few, chosen.precision, chosen.metrics
    )
    by_name = {axis.param.name: level for axis, level in zip(axes, levels, strict=True)}
    table = table_of(plan, by_name, len(events)) if plan.hoisted else None
    order = events[:, 1 if chosen.checked.strategy.ticks else 0]  # of receipt, or of events
    traded = events[np.searchsorted(order, start_ns) :]
    samples = day_samples(traded, day_rule(chosen.arranged.data))
    chosen.memory.set("trade_from", start_ns)
    chosen.memory.set("e.config.samples", samples)
    memory = chosen.memory.part(code.module)
    paths, points = [axis.param.field for axis in axes], [chosen.words]
    if table is not None:
        memory.set(STEP, table.step)
        paths += [column(number) for number in range(len(table.reads))]
        points.append(table.reads)
    work = LaneWork(
        module=code.settled(memory.words, paths),
        kept=code.kept,
        template=memory.words,
        params=offsets(memory, paths),
        results=np.append(code.words.offsets, offsets(memory, [CROWDED] if few else [])),
        points=np.concatenate(points),
        events=events,
        columns=np.empty((len(events), table.width if table else 0), np.int64),
    )
    known = {field.name: getattr(chosen, field.name) for field in msgspec.structs.fields(Chosen)}
    bar_ns = market_times(events)
    return Sweep(**known, code=code, table=table, work=work, start_ns=start_ns, bar_ns=bar_ns)


def _start(chosen: Chosen, events: Int64s, start_ns: int) -> int:
    """When trading starts: from `start_ns` on, where all points are warm and there is a bar."""
    start = max(_warm(chosen, events), start_ns) // MICROSECOND_NS * MICROSECOND_NS
    last = int(market_times(events)[-1])
    if start > last:
        raise ConfigError(
            f"{chosen.arranged.data.name}: trading starts at {show_instant(start)}, and the data "
            f"end at {show_instant(last)}"
        )
    return start


def _hold_spans(chosen: Chosen, events: Int64s, start_ns: int) -> None:
    """ConfigError where the data have no spans for the walk-forward that is asked for."""
    plan = spans.asked(chosen.arranged.resolved)
    if plan is None:
        return
    try:
        ticks = bool(chosen.checked.strategy.ticks)
        spans.windows_of(plan, start_ns, market_times(events), ticks=ticks)
    except (ConfigError, LimitError) as wrong:
        raise type(wrong)(f"{chosen.arranged.data.name}: {wrong}") from None


def _warm(chosen: Chosen, events: Int64s) -> int:
    """From when on all points are warm, as far as `--from` can say it: to the microsecond."""
    checked, needs, clocks = chosen.checked, chosen.needs, chosen.arranged.data.clocks
    try:
        if not checked.strategy.ticks:
            return sweep_start(checked, clocks, needs, [events.view(EVENT).reshape(-1)])
        warm = tick_start(checked, chosen.arranged.uses, chosen.memory, needs, events)
    except DataError as short:
        raise DataError(f"{chosen.arranged.data.name}: {short}") from None
    return warm + MICROSECOND_NS - 1  # later than ticks that come before it in its microsecond


def files_of(checked: Checked, data: Any) -> list[Any]:
    """The data of each sweep: with one instrument in the strategy each file is swept by itself."""
    alone = len(checked.strategy.instruments) == 1 and checked.strategy.universe is None
    if not isinstance(data, str) or not alone:
        return [data]
    files = files_named(data) or [data]
    if len(files) > 1:  # said before the first sweep, not after it
        for file in files:
            hold_there(Path(split_source(file)[0]))
    return files


def _own(sweep: Mapping[str, object] | None) -> dict[str, object]:
    """The settings of a config's section `sweep`, by their full names."""
    return {f"sweep.{name}": value for name, value in (sweep or {}).items()}


def _supported(resolved: Resolved, sweep: Mapping[str, object]) -> None:
    """ConfigError or UnavailableError where the settings are none of a sweep; `sweep` are those of
    its own section that the caller says.
    """
    config = resolved.config.sweep
    hold_choice(config.device, resolved.said("sweep.device", config.device))
    spans.asked(resolved)
    pointing.parsed(config.points, resolved.said("sweep.points", config.points))
    if "choose" in sweep and not config.walk_forward:
        raise ConfigError(
            f"{resolved.said('sweep.choose', config.choose)}: there is no span to choose on\n"
            "help: add --walk-forward 'train=2y test=6mo' (in Python walk_forward=...)"
        )
    if latencies := resolved.config.venue.latency_file:
        raise UnavailableError(
            f"{latencies}: a sweep with a file of latencies is not available yet: its lanes have "
            "constant ones\nhelp: quantdsl backtest FILE --latency PATH runs one point"
        )
    asked = [("objective", config.objective), *(("metrics", name) for name in config.metrics)]
    for option, name in asked:
        if name not in LANE_METRICS:
            near = nearest(name, LANE_METRICS)
            hint = f"; did you mean {near}?" if near else ""
            every = "leave it out for all, or " if option == "metrics" else ""
            raise ConfigError(
                f"{resolved.said(f'sweep.{option}', name)}: no point of a sweep has such a metric"
                f"{hint}\n"
                f"help: {every}take one of {', '.join(LANE_METRICS)}"
            )


def _metrics(config: SweepConfig) -> tuple[str, ...]:
    """What each point of a sweep is to tell: what is asked for, what ranks it, how far it is luck.
    """
    asked = {*(config.metrics or LANE_METRICS), config.objective, OF_LUCK}
    return tuple(name for name in LANE_METRICS if name in asked)


def _hold_ranges(
    checked: Checked, resolved: Resolved, told: Collection[str], config: Path | None
) -> None:
    """ConfigError where a config's range is of no param, or none that it has; that of a param which
    the caller has told of is not looked at."""
    for name, text in resolved.config.sweep.ranges.items():
        if name not in told:
            with said_in(config, resolved, f"sweep.ranges.{name}"):
                pointing.ranged(values.named(checked.strategy.params, name), text)


def _grid(
    checked: Checked,
    resolved: Resolved,
    params: Mapping[str, object],
    ranges: Mapping[str, str],
) -> tuple[Grid, list[str]]:
    """What is swept: the caller's word counts before the config's."""
    config = resolved.config
    both = {n: v for n, v in config.sweep.ranges.items() if n not in params} | {**ranges}
    fixed = {n: v for n, v in config.params.items() if n not in both} | {**params}
    return pointing.grid(checked.strategy.params, fixed, both)


def _accounts(checked: Checked) -> str:
    """Who shares whose cash."""
    count = checked.instruments
    if count == 1:
        return "every point has an account of its own, with one instrument"
    return f"every point has an account of its own, whose cash {count} instruments share"


def _narrowed(config: SweepConfig) -> tuple[str, ...]:
    """What single precision is about."""
    if config.precision == "f64":
        return ()
    return (
        "precision f32: equations are computed in single precision; orders, fills and the account "
        "as ever; a point run by itself is computed in f64",
    )


def _fits(n_points: int, n_words: int) -> None:
    """LimitError where the results need more memory than there is."""
    needed, there = 8 * n_points * (n_words + RESULT_WORDS), available_bytes()
    if needed > there:
        raise LimitError(
            f"the results of {n_points:,} points need {needed / 2**30:,.1f} GiB of memory and "
            f"{there / 2**30:,.1f} GiB are free\n"
            f"help: {pointing.FEWER}"
        )


def available_bytes() -> int:
    """Memory that a new allocation may count on, as the system says it; else a great deal."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 1 << 62
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024


# ---- running -----------------------------------------------------------------------------------


class Lanes(Struct):
    """The words of the lanes that are done."""

    words: Int64s  # [result, point]
    done: npt.NDArray[np.bool_]

    @property
    def complete(self) -> bool:
        """Whether no lane is missing."""
        return bool(self.done.all())


def run(
    sweep: Sweep,
    runner: Runner,
    *,
    parts: Parts | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Lanes:
    """Run all lanes; with `parts` what is done is kept on disk, and `resume` goes on from there.

    Ctrl-C ends the run: what is done by then is returned. Whatever else goes wrong is raised
    after what is done was kept.
    """
    n = sweep.n_points
    lanes = Lanes(np.empty((len(sweep.code.words), n), np.int64), np.zeros(n, bool))
    if parts is not None and resume:
        for part in parts.resume():
            lanes.words[:, part[0]] = part[1:]
            lanes.done[part[0]] = True
    elif parts is not None:
        parts.begin()
    try:
        _pass(sweep, runner, lanes, parts, progress)
        if sweep.code.few and not lanes.complete:  # some were crowded
            wide = placed(sweep, sweep.work.events, sweep.start_ns, sweep.code.plan, roomy=True)
            _pass(wide, runner, lanes, parts, progress)
    except KeyboardInterrupt:
        if not lanes.done.any():
            raise
    finally:
        if parts is not None:
            parts.flush()
    return lanes


class _CrowdedError(Exception):
    """Too many of the lanes that ran had too little room."""


def _pass(
    sweep: Sweep,
    runner: Runner,
    lanes: Lanes,
    parts: Parts | None,
    progress: Progress | None,
) -> None:
    """Run the lanes that are not done; those that turn out to be crowded are not done by it."""
    rest = np.flatnonzero(~lanes.done)
    if not len(rest):
        return
    n, n_words = sweep.n_points, len(sweep.code.words)
    work = sweep.work
    if sweep.table is not None:
        work = _with_columns(sweep, sweep.table, runner)
    if len(rest) < n:
        work = work._replace(points=np.ascontiguousarray(work.points[:, rest]))
    ran = crowded = 0

    def finished(lo: int, hi: int, words: Int64s) -> None:
        nonlocal ran, crowded
        which, own = rest[lo:hi], words[:n_words]
        if sweep.code.few and words[n_words].any():
            whole = words[n_words] == 0
            which, own = which[whole], own[:, whole]
        at = _side_by_side(which)
        lanes.words[:, at] = own
        lanes.done[at] = True
        ran, crowded = ran + hi - lo, crowded + hi - lo - len(which)
        if parts is not None and len(which):
            parts.add(which, own)
        if progress is not None:
            progress(int(np.count_nonzero(lanes.done)), n)
        if ran >= CROWDED_LEAST and crowded * CROWDED_SHARE > ran:
            raise _CrowdedError

    with contextlib.suppress(_CrowdedError):
        runner.run(work, 0, len(rest), finished)


def _side_by_side(which: Int64s) -> Int64s | slice:
    """Ascending places as a slice where they are neighbours: a block of words is copied whole."""
    if len(which) and which[-1] - which[0] == len(which) - 1:
        return slice(int(which[0]), int(which[-1]) + 1)
    return which


def _with_columns(sweep: Sweep, table: Table, runner: Runner) -> LaneWork:
    """The work with what is computed once for several points, on the cores of this machine."""
    work, axes = sweep.work, sweep.grid.axes
    on_cores = isinstance(runner, CpuRunner) or (
        isinstance(runner, ClusterRunner) and runner.on_cores
    )
    if on_cores and 8 * work.inputs <= PIECE_BYTES:
        table = table.by_column()
    memory, points = Memory(work.module), work.points.copy()
    memory.words[:] = work.template
    memory.set(STEP, table.step)
    points[len(axes) :] = table.reads
    columns = filled(
        sweep.code.columns,
        {axis.param.name: axis.param.field for axis in axes},
        table,
        memory,
        {axis.param.name: row for axis, row in zip(axes, sweep.words, strict=True)},
        work.events,
        CpuRunner(),
    )
    return work._replace(template=memory.words, points=points, columns=columns)
