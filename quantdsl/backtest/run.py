"""One backtest: a strategy file, data, settings; out comes a `RunResult`.

The host only carries: it writes config and params into the state, streams events in chunks and
drains records. Every decision, fill, fee and metric is made by the compiled core.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

import quantdsl
from quantdsl import config as configuration
from quantdsl.backtest import settings, values
from quantdsl.backtest.program import Run, native_run
from quantdsl.check import Checked, compile_file
from quantdsl.check.step import CURVE_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.config import Resolved
from quantdsl.data.calendar import SessionSpec
from quantdsl.data.events import Data, open_data
from quantdsl.data.instrument import Instrument, load_instruments
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.timers import Days, Timer
from quantdsl.errors import ConfigError
from quantdsl.events import layout
from quantdsl.events.layout import Kind
from quantdsl.report.benchmark import benchmark_of
from quantdsl.report.result import Plot, RunResult, Setting

RUN_END = 2
TRADING_DAYS, CALENDAR_DAYS = 252.0, 365.0
NS_PER_DAY = 86_400_000_000_000
Progress = Callable[[int, int], None]
"""(time done, time in all), in ns of the data."""


def backtest(
    path: Path,
    *,
    data: Any = None,
    params: Mapping[str, object] | None = None,
    start: str | None = None,
    end: str | None = None,
    config: Path | None = None,
    benchmark: str | None = None,
    bars: str | None = None,
    session: str | None = None,
    tz: str | None = None,
    bad_rows: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """The result of running the strategy file `path` over `data`.

    `data` is a path or a table (pyarrow, pandas, polars); None is the built-in market. Raises
    SourceError, DataError or ConfigError, each with one message that says how to mend it.
    """
    return run_checked(
        compile_file(path),
        path,
        progress=progress,
        data=data,
        params=params,
        start=start,
        end=end,
        config=config,
        benchmark=benchmark,
        bars=bars,
        session=session,
        tz=tz,
        bad_rows=bad_rows,
    )


def run_checked(
    checked: Checked, path: Path, *, progress: Progress | None = None, **options: Any
) -> RunResult:
    """As `backtest`, of a strategy that is checked already; `options` are those of `prepare`."""
    prepared = prepare(checked, **options)
    carry(prepared.run, prepared.data, progress)
    finished = result(prepared, path)
    if compared := prepared.resolved.config.report.benchmark:
        finished = replace(finished, benchmark=benchmark_of(compared, finished))
    return finished


@dataclass(frozen=True)
class Prepared:
    """A run that is ready for its first event."""

    checked: Checked
    resolved: Resolved
    data: Data
    run: Run
    chosen: Mapping[str, Fraction]


def prepare(
    checked: Checked,
    *,
    data: Any = None,
    params: Mapping[str, object] | None = None,
    start: str | None = None,
    end: str | None = None,
    config: Path | None = None,
    benchmark: str | None = None,
    bars: str | None = None,
    session: str | None = None,
    tz: str | None = None,
    bad_rows: str | None = None,
) -> Prepared:
    """Merge the settings, open the data, load the code, fill the state."""
    line = {
        "data.path": data if isinstance(data, str | Path) else None,
        "data.to": end,
        "data.bars": bars,
        "data.session": session,
        "data.tz": tz,
        "data.bad_rows": bad_rows,
        "report.benchmark": benchmark,
    }
    said = {key: str(value) for key, value in line.items() if value is not None}
    layers = (said, config, settings.of_strategy(checked.strategy.chosen))
    resolved = configuration.resolve(*layers)
    known = _instruments(checked, resolved)
    resolved = configuration.resolve(*layers, _fees(known))
    given = {**resolved.config.params, **(params or {})}
    chosen = values.chosen(checked.strategy.params, given)
    table = data if data is not None and not isinstance(data, str | Path) else None
    opened = open_data(data_spec(checked, resolved, known, table))
    run = native_run(checked, settings.needs(resolved.config), Cache())
    settings.write(run.memory, resolved.config, opened, day_rule(opened))
    values.write(run.memory, checked.strategy.params, chosen)
    run.memory.set("trade_from", time_ns(start) if start else np.iinfo(np.int64).min)
    run.memory.set("curve_on", True)
    run.start()
    return Prepared(checked, resolved, opened, run, chosen)


def _instruments(checked: Checked, resolved: Resolved) -> list[Instrument | None]:
    """The user's own definition of each instrument of the strategy, None where there is none."""
    path = resolved.config.data.instruments
    known = load_instruments(Path(path)) if path else {}
    alone = next(iter(known.values())) if len(known) == 1 else None
    return [
        known.get(traded.symbol.rpartition(":")[2], alone)
        for traded in checked.strategy.instruments
    ]


def _fees(known: list[Instrument | None]) -> dict[str, float]:
    """The fees of the instrument file as settings; one run has one table of fees."""
    named = {one.fees for one in known if one is not None and "fees" in one.named}
    if len(named) > 1:
        raise ConfigError(
            "the instruments of this run have different fees in the instrument file, "
            "and one run has one table of fees: give it in the config"
        )
    return {
        f"fees.{key}": value
        for fees in named
        for key, value in msgspec.structs.asdict(fees).items()
        if value
    }


def data_spec(
    checked: Checked, resolved: Resolved, known: list[Instrument | None], table: Any = None
) -> DataSpec:
    """What the strategy and the settings ask of the data layer."""
    strategy, one = checked.strategy, resolved.config.data
    paths: list[Any] = [p for p in one.path.split(",") if p] if table is None else [table]
    sources = []
    for traded in strategy.instruments:
        source = _source(paths, traded.index, len(strategy.instruments))
        sources.append(
            SourceSpec(symbol=traded.symbol, source=source, instrument=known[traded.index])
        )
    clocks = tuple(clock.text for clock in strategy.clocks if clock.text)
    if one.bars:
        clocks = (one.bars, *clocks[1:])
    return DataSpec(
        instruments=tuple(sources),
        clocks=clocks or None,
        session=_session(checked, one.session, known),
        timers=tuple(
            Timer(
                id=t.id,
                at_s=t.at_s,
                before_close_ns=t.before_close_ns,
                every_ns=t.every_ns,
                on=cast(Days, t.on or "day"),
            )
            for t in strategy.timers
        ),
        sync_all=strategy.sync_all,
        start=time_ns(one.start) if one.start else None,
        end=time_ns(one.end) if one.end else None,
        time=one.time,
        tz=one.tz,
        time_format=one.time_format or None,
        bad_rows=one.bad_rows,
        columns=one.columns,
        seed=one.seed,
    )


def _source(paths: list[Any], index: int, count: int) -> Any:
    """The file of one instrument: one path serves all, or there is one for each, in order."""
    if not paths:
        return None
    if len(paths) not in (1, count):
        raise ConfigError(
            f"--data names {len(paths)} files for {count} instruments; give one for "
            "each, separated by commas, in the order of the strategy"
        )
    return paths[index] if len(paths) == count else paths[0]


def _session(checked: Checked, override: str, known: list[Instrument | None]) -> SessionSpec | None:
    """The session of the settings, else of the strategy, else of the first instrument's file."""
    declared = checked.strategy.session
    own = known[0].calendar if known and known[0] is not None else ""
    calendar = override or declared.get("calendar", "") or own
    if not calendar or calendar == "none":
        return None
    return SessionSpec(
        calendar=calendar,
        start_s=declared.get("start"),
        end_s=declared.get("end"),
        tz=declared.get("tz"),
    )


def time_ns(text: str) -> int:
    """An ISO date or time as ns since 1970, UTC where it names no zone."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a date; write 2024-01-31 or 2024-01-31T15:30") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return int(moment.timestamp()) * 1_000_000_000


def day_rule(data: Data) -> int:
    """When a day ends: with each bar of a day or longer, at the session's close, or at midnight."""
    if data.clocks[0].nominal_ns >= NS_PER_DAY:
        return settings.DAY_BAR
    return settings.DAY_SESSION if data.schedule.named else settings.DAY_UTC


def run_end(ts: int) -> npt.NDArray[np.void]:
    """The last event of a run: what is open is closed or stays, figures are completed."""
    end = np.zeros(1, layout.EVENT)
    end["ts_event"], end["kind"], end["side"] = ts, Kind.SESSION, RUN_END
    return end


def carry(run: Run, data: Data, progress: Progress | None = None) -> None:
    """Feed all of the data, then the end of the run."""
    first, end = data.span
    last = 0
    for events in data.chunks():
        run.feed(events)
        last = int(events["ts_event"][-1])
        if progress is not None:
            progress(last - first, end - first)
    run.feed(run_end(last))


def result(prepared: Prepared, path: Path) -> RunResult:
    """Everything the run left behind."""
    checked, resolved, data = prepared.checked, prepared.resolved, prepared.data
    run, strategy = prepared.run, prepared.checked.strategy
    curve = run.curve()
    plots = tuple(
        Plot(
            name=plot.name,
            color=plot.color,
            values=np.ascontiguousarray(curve[:, CURVE_WORDS + n]).view(np.float64),
        )
        for n, plot in enumerate(strategy.plots)
    )
    by_name = {param.name: param for param in strategy.params}
    daily = data.clocks[0].nominal_ns >= NS_PER_DAY
    return RunResult(
        strategy=strategy.name,
        source_path=str(path),
        source_text=checked.source.text,
        version=quantdsl.__version__,
        data_name=data.name,
        data_sha256=data.sha256,
        params={name: values.show(by_name[name], value) for name, value in prepared.chosen.items()},
        instruments=tuple(data.instruments),
        currency=resolved.config.account.currency,
        money_digits=data.money_digits,
        periods_per_year=TRADING_DAYS if data.schedule.named or daily else CALENDAR_DAYS,
        records=run.all_records(),
        curve_ts=curve[:, 0].copy(),
        curve_equity=curve[:, 1].copy(),
        bars=data.bars_table(0),
        accumulators=run.memory.struct("e.metrics"),
        plots=plots,
        settings=tuple(
            Setting(name=e.key, value=str(e.value), source=e.source)
            for e in resolved.entries
            if e.value not in ("", {})
        ),
        notes=tuple(data.notes),
        warnings=tuple(f"{d.code}: {d.message}" for d in checked.diagnostics),
        reasons=reasons(checked),
        messages={n: m.template for n, m in enumerate(strategy.messages)},
    )


def reasons(checked: Checked) -> dict[int, str]:
    """The reject and cancel reasons of std/risk.qdsl in words."""
    enum = checked.library.namespace("risk").names["Reason"]
    return {code: name.replace("_", " ") for code, name in enumerate(enum.members())}
