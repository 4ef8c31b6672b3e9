"""The Python API: `quantdsl.compile`, `backtest`, `sweep`, `signals` and `kernel`.

    strategy = quantdsl.compile("strategies/sma_cross.qdsl")
    report = strategy.backtest("spy.parquet", fast=5)
    report.metrics["sharpe"], report.trades.to_pandas()
    sweep = strategy.sweep("spy.parquet", ranges={"fast": "5..50:5"})
    sweep.table.to_pandas(), sweep.params(0), sweep.backtest(0).trades
    strategy.signals("spy.parquet").to_pandas(), strategy.describe("spy.parquet").foretold
    quantdsl.kernel("linear.qdsl", "product")(a, b, c, device="cuda:0")

Data go in as a path or as any table of the Arrow C stream (pyarrow, pandas, polars); tables come
out as pyarrow. In a notebook a report shows its page.
"""

import datetime as dt
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa

from quantdsl.backtest.conduct import Outcome, conduct, hold
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.signal_panel import SignalPanel, signal_panel
from quantdsl.backtest.signals import PreparedSignals, prepare_signals
from quantdsl.backtest.sweep import Progress, prepare_sweep
from quantdsl.backtest.tensor_kernel import kernel as kernel
from quantdsl.check import Checked, check_source
from quantdsl.check.params import Param
from quantdsl.config import PYTHON, SweepConfig, find, flat
from quantdsl.data.table import ObjectTable
from quantdsl.errors import ConfigError, DataError
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.source import Source
from quantdsl.lang.spelling import nearest
from quantdsl.report import tables
from quantdsl.report.html import framed
from quantdsl.report.metrics import evaluate
from quantdsl.report.result import RunResult
from quantdsl.report.signal_report import SignalReport
from quantdsl.report.store import save
from quantdsl.report.sweep_page import page as sweep_page
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_store import save as save_sweep
from quantdsl.report.tearsheet import page as tearsheet
from quantdsl.report.words import plural

Settings = str | Path | Mapping[str, Any] | None
"""A config: a file, the name of a shipped one, or what such a file holds, as a mapping of its
sections (`{"fees": {"taker_bps": 1}}`) or of its keys (`{"fees.taker_bps": 1}`)."""

Moment = str | dt.date | np.datetime64
"""A date or a time, as ISO 8601 or as Python, pandas and NumPy have it; UTC without a zone."""


class Report:
    """One finished backtest: metrics, tables and the page."""

    def __init__(self, result: RunResult) -> None:
        self.result = result

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric by name; NaN where it is not defined."""
        return evaluate(self.result)

    @cached_property
    def trades(self) -> pa.Table:
        """Closed round trips, one row each."""
        return tables.trades(self.result)

    @cached_property
    def orders(self) -> pa.Table:
        """Every order with its fate and the reason of it."""
        return tables.orders(self.result)

    @cached_property
    def fills(self) -> pa.Table:
        """Every fill with price, quantity and fee."""
        return tables.fills(self.result)

    @cached_property
    def equity(self) -> pa.Table:
        """Equity and drawdown at every bar."""
        return tables.equity(self.result)

    @cached_property
    def days(self) -> pa.Table:
        """Equity and return at the end of every day."""
        return tables.days(self.result)

    def save(self, folder: str | Path) -> Path:
        """Write page, tables and metrics into a folder; returns the path of the page."""
        return save(self.result, self.metrics, Path(_path("folder", folder)))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name} {self.metrics[name]:.4g}"
            for name in ("total_return", "sharpe", "max_drawdown", "trades")
        )
        return f"<Report of {self.result.strategy}: {shown}>"

    def _repr_html_(self) -> str:
        return framed(tearsheet(self.result, self.metrics))


class Strategy:
    """A checked strategy, ready to run."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked

    @property
    def name(self) -> str:
        """As declared."""
        return self.checked.strategy.name

    @property
    def params(self) -> dict[str, float | str]:
        """Every param with its default, as `backtest` takes it."""
        return {param.name: _default(param) for param in self.checked.strategy.params}

    @property
    def warnings(self) -> list[str]:
        """What the checker warns of, one line each."""
        return [f"{d.code}: {d.message}" for d in self.checked.diagnostics]

    def backtest(
        self,
        data: Any = None,
        *,
        config: Settings = None,
        start: Moment | None = None,
        end: Moment | None = None,
        benchmark: str | None = None,
        hosts: Sequence[str] = (),
        **params: object,
    ) -> Report:
        """Run over `data`, a path or a table (None: the built-in market), with params by name.

        `params = {...}` gives params whose names are those of other arguments. `config` is a file,
        the name of a shipped one or a mapping such as `{"fees": {"taker_bps": 1}}`, `hosts` are
        the Python modules that `@host` indicators of the file may run. Raises DataError or
        ConfigError with one message that says how to mend it.
        """
        result = run_checked(
            self.checked,
            Path(self.checked.source.path),
            data=_data(data),
            params=_by_name(params),
            start=_moment("start", start),
            end=_moment("end", end),
            **_config(config),
            benchmark=None if benchmark is None else _path("benchmark", benchmark),
            hosts=_hosts(hosts),
            caller=PYTHON,
        )
        return Report(result)

    def signals(
        self,
        data: Any = None,
        *,
        config: Settings = None,
        start: Moment | None = None,
        end: Moment | None = None,
        hosts: Sequence[str] = (),
        device: str = "auto",
        **params: object,
    ) -> pa.Table:
        """Every equation at every bar: time, instrument, a column each; null is missing.

        `device` is auto, cpu, simulated or cuda:N, the last two for a universe. The columns are
        the memory that compiled code wrote; what takes the Arrow C stream (polars, pandas,
        DuckDB) reads them without a copy. Raises DataError, ConfigError or DeviceError with one
        message that says how to mend it.
        """
        return self._signals(data, config, start, end, params, hosts, device=device).table()

    def panel(
        self,
        data: Any = None,
        *,
        config: Settings = None,
        start: Moment | None = None,
        end: Moment | None = None,
        hosts: Sequence[str] = (),
        device: str = "auto",
        **params: object,
    ) -> SignalPanel:
        """Every equation of a universe as a matrix, instant by instrument, left on its device.

        The columns are DLPack's and `__cuda_array_interface__`'s, so PyTorch, CuPy or JAX take
        them on a GPU (`device="cuda:0"`), NumPy on the host, without a copy. See `signals`.
        """
        prepared = self._signals(data, config, start, end, params, hosts, device=device)
        return signal_panel(prepared)

    def describe(
        self,
        data: Any = None,
        *,
        config: Settings = None,
        start: Moment | None = None,
        end: Moment | None = None,
        hosts: Sequence[str] = (),
        **params: object,
    ) -> SignalReport:
        """How the signals are distributed and what they say of forward returns; see `signals`."""
        prepared = self._signals(data, config, start, end, params, hosts, closes=True)
        return prepared.described(prepared.table())

    def _signals(
        self,
        data: Any,
        config: Settings,
        start: Moment | None,
        end: Moment | None,
        params: Mapping[str, object],
        hosts: Sequence[str],
        *,
        closes: bool = False,
        device: str = "auto",
    ) -> PreparedSignals:
        return prepare_signals(
            self.checked,
            data=_data(data),
            params=_by_name(params),
            start=_moment("start", start),
            end=_moment("end", end),
            **_config(config),
            hosts=_hosts(hosts),
            closes=closes,
            device=device,
            caller=PYTHON,
        )

    def sweep(
        self,
        data: Any = None,
        *,
        ranges: Mapping[str, str | Iterable[object]] | None = None,
        params: Mapping[str, object] | None = None,
        config: Settings = None,
        start: Moment | None = None,
        end: Moment | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        **settings: object,
    ) -> "SweepReport":
        """Run every point of the params' ranges that `require` admits, all from one bar on.

        `ranges` replace those of the file (`5..50:5`, `5, 10, 20` or a list of values), `params`
        keep one value; `settings` are those of a config's section sweep: points, seed, objective,
        device and so on. With `out` the report and tables are written there and what is done
        survives the process; Ctrl-C then leaves what is done, and `resume` goes on. Raises
        DataError, ConfigError or LimitError with one message that says how to mend it.
        """
        for name in settings:
            if name in self.params:
                raise ConfigError(
                    f"{name} is a param of the strategy\nhelp: give params={{{name!r}: VALUE}}, or "
                    f"ranges={{{name!r}: '5..50:5'}}"
                )
            if name not in _SWEEP:
                near = nearest(name, _SWEEP)
                raise ConfigError(
                    f"a sweep has no setting {name}{f'; did you mean {near}?' if near else ''}\n"
                    f"help: it has {', '.join(_SWEEP)}; all others are those of a config"
                )
        if progress is not None and not callable(progress):
            raise ConfigError(
                f"progress is a function of points done and points in all, not {progress!r}\n"
                "help: such as progress=print"
            )
        folder = None if out is None else Path(_path("out", out))
        if folder is None and resume:
            raise ConfigError(
                "resume = True without a folder to go on from\nhelp: give out= as in the run before"
            )
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ConfigError(f"out = {out}: that is a file\nhelp: name a folder")
        sweep = prepare_sweep(
            self.checked,
            Path(self.checked.source.path),
            data=_data(data),
            ranges={name: _listed(name, values) for name, values in _named("ranges", ranges)},
            params=dict(_named("params", params)),
            start=_moment("start", start),
            end=_moment("end", end),
            **_config(config),
            sweep=settings,
            caller=PYTHON,
            hold=hold,
        )
        return SweepReport(conduct(sweep, _silent, folder=folder, resume=resume, progress=progress))

    def __repr__(self) -> str:
        return f"<Strategy {self.name}({', '.join(self.params)})>"


class SweepReport:
    """A finished sweep, or one that Ctrl-C ended: one row a point, best points, statistics."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.result: SweepResult = outcome.result

    @property
    def table(self) -> pa.Table:
        """One row a point: its number, its params and every metric."""
        return self.result.table

    def best(self, top: int = 10) -> pa.Table:
        """The rows of the best points by the objective, best first."""
        top = _count("top", top)
        if top < 0:
            raise ConfigError(f"top = {top}: that many rows are none\nhelp: ask for 0 or more")
        return self.table.take(self.result.ranked(top))

    def params(self, rank: int = 0) -> dict[str, str]:
        """The swept params of a point by its rank, as `backtest` takes them."""
        return self.result.params(self._row(rank))

    def command(self, rank: int = 0) -> str:
        """The shell command that runs this point alone."""
        return self.result.command(self._row(rank))

    def backtest(self, rank: int = 0) -> Report:
        """The backtest of one point alone: the figures of its row, with trades and curve."""
        number = int(self.table["point"][self._row(rank)].as_py())
        return Report(self.outcome.sweep.single(self.outcome.sweep.place(number)))

    def save(self, folder: str | Path) -> Path:
        """Write the page and the tables into a folder; returns the path of the page."""
        top, place = self.outcome.sweep.config.top, Path(_path("folder", folder))
        return save_sweep(self.result, self.outcome.study, place, top, self.outcome.walk)

    def _row(self, rank: int) -> int:
        rank = _count("rank", rank)
        if not 0 <= rank < len(self):
            raise ConfigError(
                f"rank {rank}: the sweep has {plural(len(self), 'point')}, and the best has rank 0"
            )
        return int(self.result.ranked(rank + 1)[rank])

    def __len__(self) -> int:
        return len(self.result)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name} = {value}" for name, value in self.params().items())
        done = f"{len(self):,} of {self.result.planned:,} points"
        return f"<SweepReport of {self.result.strategy}: {done}, best {chosen}>"

    def _repr_html_(self) -> str:
        outcome, top = self.outcome, self.outcome.sweep.config.top
        return framed(sweep_page(self.result, outcome.study, top, outcome.walk))


_SWEEP = tuple(name for name in SweepConfig.__struct_fields__ if name != "ranges")
"""What `Strategy.sweep` takes beside its own arguments."""


def _default(param: Param) -> float | str:
    """The default of a param: a word, a truth value, or a number in the unit that is written."""
    if param.choices:
        return param.choices[int(param.default)]
    return bool(param.default) if param.kind == "bool" else float(param.default)


def _listed(name: str, values: str | Iterable[object]) -> str:
    """A range as `--range` takes it: its text, or values from Python one by one."""
    if isinstance(values, str):
        return values
    if not isinstance(values, Iterable):
        raise ConfigError(
            f"ranges: {name} = {values} is no range\n"
            "help: give one as '5..50:5' or [5, 10, 20]; params= keeps a param at one value"
        )
    listed = [str(value) for value in values]
    if not listed:
        raise ConfigError(
            f"ranges: {name} has no value\nhelp: give some, as [5, 10, 20], or leave {name} out"
        )
    return ",".join(listed)


def _silent(line: str) -> None:
    """Nobody reads along."""


def compile(source: str | Path) -> Strategy:
    """The strategy of a file, or of text that has a line break.

    Raises SourceError where it has errors, ConfigError where there is no such file.
    """
    is_text = isinstance(source, str) and "\n" in source
    read = Source(str(source)) if is_text else Source.named(source)
    checked, diagnostics = check_source(read)
    if checked is None:
        raise SourceError(read, diagnostics)
    return Strategy(checked)


def backtest(source: str | Path, data: Any = None, **options: Any) -> Report:
    """Compile and run in one call; see `Strategy.backtest`."""
    return compile(source).backtest(data, **options)


def sweep(source: str | Path, data: Any = None, **options: Any) -> SweepReport:
    """Compile and sweep in one call; see `Strategy.sweep`."""
    return compile(source).sweep(data, **options)


def signals(source: str | Path, data: Any = None, **options: Any) -> pa.Table:
    """Compile and compute every equation in one call; see `Strategy.signals`."""
    return compile(source).signals(data, **options)


def panel(source: str | Path, data: Any = None, **options: Any) -> SignalPanel:
    """Compile and compute every equation as a matrix in one call; see `Strategy.panel`."""
    return compile(source).panel(data, **options)


def _by_name(params: Mapping[str, object]) -> dict[str, object]:
    """`params = {...}` beside params by name."""
    given = dict(_named("params", params.get("params")))
    plain = {name: value for name, value in params.items() if name != "params"}
    if twice := given.keys() & plain.keys():
        raise ConfigError(f"{min(twice)} is given by its name and in params=: take one of them")
    return {**plain, **given}


def _named(what: str, given: object) -> Iterable[tuple[str, Any]]:
    """The items of a mapping by names of params, none of None."""
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"{what} = {given!r} is no mapping\nhelp: such as {what}={{'fast': ...}}")
    return given.items()


def _count(what: str, given: object) -> int:
    """A whole number, NumPy's too."""
    if isinstance(given, SupportsIndex):
        return operator.index(given)
    raise ConfigError(f"{what} = {given!r} is no whole number")


def _path(what: str, given: object) -> str:
    """A path as text."""
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"{what} is a path, not a {type(given).__name__}")
    path = os.fsdecode(given)
    if not path.strip():  # as text from the environment may be
        raise ConfigError(f"{what} names nothing\nhelp: leave it out, or name what it is for")
    return path


def _data(given: object) -> object:
    """Data that can be read again and again: of a stream, and of any other table, what it holds."""
    if isinstance(given, list) and not all(isinstance(one, str | Path) for one in given):
        raise DataError(
            "data: a list is of paths\nhelp: give one table; pyarrow, pandas and polars have concat"
        )
    return ObjectTable(given) if hasattr(given, "__arrow_c_stream__") else given


def _moment(what: str, given: object) -> str | None:
    """A date or a time as a config has it."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, dt.date):
        return given.isoformat()
    if isinstance(given, np.datetime64):
        return str(given.astype("datetime64[us]"))
    raise ConfigError(
        f"{what} = {given!r} is no date\nhelp: such as {what}='2024-01-31' or a datetime"
    )


def _config(given: object) -> dict[str, Any]:
    """The arguments that a config is: its path, or its settings by key."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        settings: dict[str, Any] = {}
        for key, value in flat(_plain(given)):
            if key in settings:
                raise ConfigError(
                    f"config gives {key} twice: {settings[key]!r} and {value!r}, once in its "
                    f"section and once by its whole name\nhelp: leave one of them out"
                )
            settings[key] = value
        return {"more": settings}
    if not isinstance(given, str | Path):
        raise ConfigError(
            f"config = {given!r} is no config\nhelp: give a file, the name of a shipped one, or "
            "settings, as config={'fees': {'taker_bps': 1}}"
        )
    return {"config": find(_path("config", given))}


def _plain(given: Any) -> Any:
    """Settings with Python's own dicts and numbers in place of others, NumPy's among them."""
    if isinstance(given, Mapping):
        return {str(key): _plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(value) for value in given]
    return given.item() if isinstance(given, np.number | np.bool_) else given


def _hosts(given: object) -> Sequence[str]:
    """Names of modules; a text alone would be one module a letter."""
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        return given
    raise ConfigError(f"hosts = {given!r} is no list\nhelp: such as hosts=['my_module']")
