"""The lanes of a sweep as its result: one row a point, params first, then every metric."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import quantdsl
from quantdsl.backtest import values
from quantdsl.backtest.points import UNORDERED, Axis
from quantdsl.backtest.run import periods_per_year, settings_of, warnings_of
from quantdsl.backtest.sweep import Int64s, Lanes, Sweep
from quantdsl.check.params import Param
from quantdsl.report.columns import choices, flags, numbers
from quantdsl.report.formula import Floats
from quantdsl.report.lane_metrics import Sums
from quantdsl.report.metrics import BY_NAME, evaluate_lanes
from quantdsl.report.sweep_result import Axis as ResultAxis
from quantdsl.report.sweep_result import SweepResult

CHUNK_ROWS = 1 << 14
"""Rows whose metrics are computed at once: they pass through the cache, not through memory."""
TAKEN = {"point", "instrument", *BY_NAME}
"""Columns that are no param's, whether or not this table has them: readers know them by name."""
OPTIONS = {
    "config": "--config",
    "end": "--to",
    "bars": "--bars",
    "session": "--session",
    "tz": "--tz",
    "bad_rows": "--bad-rows",
}


def result_of(sweep: Sweep, lanes: Lanes, device: str) -> SweepResult:
    """What the lanes that are done say; a partial sweep has fewer rows than it was to have."""
    rows = slice(None) if lanes.complete else np.flatnonzero(lanes.done)
    words, levels = lanes.words[:, rows], sweep.levels[:, rows]
    arranged, source = sweep.arranged, sweep.checked.source
    data, config = arranged.data, sweep.config
    params = {param.name: param for param in sweep.checked.strategy.params}
    axes = tuple(map(_axis, sweep.grid.axes))
    return SweepResult(
        strategy=sweep.checked.strategy.name,
        source_path=str(sweep.path),
        source_text=source.text,
        version=quantdsl.__version__,
        data_name=data.name,
        data_sha256=data.sha256,
        instruments=tuple(instrument.name for instrument in data.instruments),
        currency=arranged.resolved.config.account.currency,
        periods_per_year=periods_per_year(data),
        axes=axes,
        fixed={name: values.show(params[name], value) for name, value in sweep.grid.fixed.items()},
        levels=levels,
        table=_table(sweep, axes, sweep.numbers[rows], levels, words),
        blocks=sweep.code.words.block_sums(words),
        trials=words.shape[1],
        planned=sweep.n_points,
        objective=config.objective,
        start_ns=sweep.start_ns,
        end_ns=int(sweep.bar_ns[-1]),
        bars=int(np.count_nonzero(sweep.bar_ns >= sweep.start_ns)),
        moment=sweep.moment,
        device=device,
        rerun=rerun(sweep),
        precision=sweep.precision,
        settings=settings_of(
            arranged.resolved, sweep=True, signals=bool(sweep.checked.strategy.signals)
        ),
        notes=(*arranged.notes, *data.notes, *sweep.notes),
        warnings=warnings_of(sweep.checked, arranged.resolved),
    )


def rerun(sweep: Sweep) -> str:
    """The command of a single run, but for the params that are swept."""
    options, data = sweep.options, sweep.options.get("data")
    parts = ["quantdsl backtest", shlex.quote(str(sweep.path))]
    if data is not None:
        parts.append(f"--data {shlex.quote(str(data) if isinstance(data, str) else 'PATH')}")
    parts.append(f"--from {sweep.start}")
    if any(not key.startswith("sweep.") for key in options.get("more", {})):
        parts.append("--config FILE")  # a mapping, which no option of the shell can say
    for name, flag in OPTIONS.items():
        if options.get(name):
            parts.append(f"{flag} {shlex.quote(str(options[name]))}")
    by_name = {param.name: param for param in sweep.checked.strategy.params}
    of_config = sweep.arranged.resolved.config.params  # where a value may be that was replaced
    for name, value in sweep.grid.fixed.items():
        if value != by_name[name].default or name in of_config:
            parts.append(f"--set {shlex.quote(f'{name}={values.show(by_name[name], value)}')}")
    return " ".join(parts)


def _axis(axis: Axis) -> ResultAxis:
    made = list(axis.values)  # each is made when it is asked for, and there may be a million
    return ResultAxis(
        name=axis.param.name,
        levels=tuple(values.show(axis.param, value) for value in made),
        numbers=np.array([float(value) for value in made]),
        is_number=axis.param.kind not in UNORDERED,
    )


def _table(
    sweep: Sweep,
    axes: Sequence[ResultAxis],
    points: Int64s,
    levels: npt.NDArray[np.int32],
    words: Int64s,
) -> pa.Table:
    columns: dict[str, pa.Array] = {"point": numbers(points)}
    for swept, axis, level in zip(sweep.grid.axes, axes, levels, strict=True):
        name = f"param.{axis.name}" if axis.name in TAKEN else axis.name
        columns[name] = _param_column(swept.param, axis, level)
    data = sweep.arranged.data
    sums = sweep.code.words.accumulators(words)
    found = metrics(sums, sweep.metrics, data.money_digits, periods_per_year(data))
    return pa.table(columns | {name: numbers(values) for name, values in found.items()})


def _param_column(param: Param, axis: ResultAxis, level: npt.NDArray[np.int32]) -> pa.Array:
    """The values in the unit in which they are written."""
    if param.choices:
        return choices(level, list(axis.levels))
    found = axis.numbers[level]
    if param.kind == "bool":
        return flags(found != 0)
    return numbers(found.astype(np.int64) if param.kind == "int" else found)


def metrics(
    accumulators: Mapping[str, npt.NDArray[Any]],
    names: Collection[str],
    money_digits: int,
    per_year: float,
) -> dict[str, Floats]:
    """These metrics of every lane."""
    count = len(next(iter(accumulators.values())))
    pieces = [
        evaluate_lanes(Sums(piece, money_digits, per_year), names)
        for piece in _pieces(accumulators, count)
    ]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _pieces(
    accumulators: Mapping[str, npt.NDArray[Any]], count: int
) -> Iterator[dict[str, npt.NDArray[Any]]]:
    for start in range(0, max(count, 1), CHUNK_ROWS):
        yield {name: row[start : start + CHUNK_ROWS] for name, row in accumulators.items()}
