"""Before the first event: settings merged, data opened, code loaded, state filled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Struct

from quantdsl import config as configuration
from quantdsl.backtest import awaited, currencies, settings, universe, values
from quantdsl.backtest.exact_money import small_positions
from quantdsl.backtest.program import Memory, Run, native_run
from quantdsl.check import Checked
from quantdsl.check.nodes import inside
from quantdsl.check.strategy import Strategy
from quantdsl.check.tick_bars import TIME
from quantdsl.check.ticks import SOURCES
from quantdsl.codegen.cache import Cache
from quantdsl.config import CALLERS, COMMAND_LINE, DEFAULT, INSTRUMENT, PYTHON, STRATEGY, Resolved
from quantdsl.data.calendar import NO_SESSION, SessionSpec
from quantdsl.data.events import Data
from quantdsl.data.feed import split_source
from quantdsl.data.instrument import Instrument, load_instruments
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_data import RunData, open_run_data
from quantdsl.data.timers import Days, Timer
from quantdsl.data.times import Interval, parse_instant, show_instant
from quantdsl.data.universe import Change
from quantdsl.errors import ConfigError, LimitError, SessionError, UnavailableError
from quantdsl.lang import ast
from quantdsl.report.words import plural

NS_PER_DAY = 86_400_000_000_000
Hold = Callable[[Resolved], None]
"""Raises where settings are not to be run with."""


class Arranged(Struct, frozen=True):
    """Settings and data of a run, before there is code for it."""

    resolved: Resolved
    data: RunData
    given: Mapping[str, object]  # values of params, from the config and the caller
    notes: tuple[str, ...]  # what of the strategy does not apply here
    parts: frozenset[str] = frozenset()  # of the core, that the data or a live run need
    hosts: tuple[str, ...] = ()  # modules of Python that the user allows to run

    def fill(self, memory: Memory) -> None:
        """Write the engine's config and instruments into a state."""
        settings.write(memory, self.resolved.config, self.data, day_rule(self.data))

    def sized(self, checked: Checked) -> Checked:
        """The strategy, made for as many instruments as the data have, or for those that it
        declares at most; ConfigError where there are more."""
        universe, count = checked.strategy.universe, len(self.data.instruments)
        if universe is None:
            return checked
        if 0 < universe.most < count:
            raise ConfigError(
                f"the universe has {count:,} instruments and the strategy says max = "
                f"{universe.most:,}\nhelp: raise it, or leave it out"
            )
        return checked.sized(universe.most or count)

    @property
    def uses(self) -> frozenset[str]:
        """Parts of the core that the run needs."""
        inverse = any(one.inverse for one in self.data.instruments)
        parts = self.parts | ({"USES_INVERSE"} if inverse else set())
        return settings.needs(self.resolved.config) | parts


class Prepared(Struct, frozen=True):
    """A run that is ready for its first event."""

    checked: Checked
    resolved: Resolved
    data: RunData
    run: Run
    chosen: Mapping[str, Fraction]
    notes: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()  # parts of the core beyond those of the strategy


def prepare(checked: Checked, *, start: str | None = None, **options: Any) -> Prepared:
    """Merge the settings, open the data, load the code, fill the state.

    Trading starts at `start`; `options` are those of `arrange`.
    """
    arranged = arrange(checked, **options)
    trade_from = np.iinfo(np.int64).min if start is None else begin(start, arranged.data.spec)
    return make_ready(checked, arranged, trade_from)


def begin(start: str, spec: DataSpec) -> int:
    """When trading starts, in ns since 1970; ConfigError where the data are to end before."""
    start_ns = parse_instant(start, spec.tz)
    if spec.end is not None and start_ns >= spec.end:
        raise ConfigError(
            f"trading cannot start at {show_instant(start_ns)} and end at "
            f"{show_instant(spec.end)}\nhelp: start (--from) before the end (--to)"
        )
    return start_ns


def make_ready(checked: Checked, arranged: Arranged, trade_from: int) -> Prepared:
    """Load the code, fill the state; trading starts at `trade_from`, ns since 1970."""
    checked = arranged.sized(checked)
    chosen = values.chosen(checked.strategy.params, arranged.given)
    if checked.strategy.hosts:
        from quantdsl.backtest import hosted

        hosted.attach(checked, arranged.data, arranged.uses, chosen, arranged.hosts)
    run = native_run(checked, arranged.uses, Cache())
    arranged.fill(run.memory)
    values.write(run.memory, checked.strategy.params, chosen)
    hold_admitted(checked, run.executor, run.memory, chosen)
    run.memory.set("trade_from", trade_from)
    run.memory.set("curve_on", True)
    run.start()
    answered = awaited.notes(checked, arranged.resolved.config.signals)
    notes = (*arranged.notes, *answered)
    return Prepared(checked, arranged.resolved, arranged.data, run, chosen, notes, arranged.uses)


def stated_by(checked: Checked) -> dict[str, object]:
    """The settings that a strategy file makes, by key."""
    stated = checked.strategy.currency
    of_file = {"account.currency": stated} if stated else {}
    return {**of_file, **settings.of_strategy(checked.strategy.chosen)}


def arrange(
    checked: Checked,
    *,
    data: Any = None,
    params: Mapping[str, object] | None = None,
    end: str | None = None,
    config: Path | None = None,
    benchmark: str | None = None,
    bars: str | None = None,
    session: str | None = None,
    tz: str | None = None,
    bad_rows: str | None = None,
    more: Mapping[str, object] | None = None,
    listed: Mapping[str, Instrument] | None = None,
    opened: Callable[[DataSpec], RunData] = open_run_data,
    live: frozenset[str] = frozenset(),
    hosts: Sequence[str] = (),
    symbols: Sequence[str] | None = None,
    caller: str = COMMAND_LINE,
    hold: Hold = lambda _: None,
) -> Arranged:
    """Merge the settings and open the data; `more` are settings by key, as said by the caller.

    `listed` are instruments as a venue has them, by the strategy's names; a file of the user's
    comes first. `live` are parts of the core that only a live run needs, `hosts` the modules of
    Python that `@host` may run. `symbols` are the instruments of a universe whose data come later.
    `caller` is who says all this: the command line, or PYTHON. `hold` may refuse the settings,
    before any data are read.
    """
    named = {
        "data.path": data if isinstance(data, str | Path) else None,
        "data.to": end,
        "data.bars": bars,
        "data.session": session,
        "data.tz": tz,
        "data.bad_rows": bad_rows,
        "report.benchmark": benchmark,
    }
    stated = checked.strategy.currency
    layers = (_said(named, more or {}, caller), config, stated_by(checked))
    resolved = configuration.resolve(*layers, caller=caller)
    given = {**resolved.config.params, **(params or {})}
    _hold_params(checked, resolved, config, given)
    hold(resolved)
    table = data if data is not None and not isinstance(data, str | Path) else None
    chosen = _members(checked, resolved, table) if symbols is None else universe.awaited(symbols)
    known = _instruments(chosen, resolved, listed or {})
    own = {**_fees(known), **currencies.implied(known, resolved)}
    resolved = configuration.resolve(*layers, own, caller)
    _hold_currency(stated, resolved, config)
    known, converted = currencies.converted(known, resolved.config.account)
    _hold_ticks(checked, resolved, config)
    try:
        found = opened(data_spec(checked, resolved, known, chosen))
    except SessionError as wrong:
        raise SessionError(f"{_session_place(checked, config, resolved)}{wrong}") from None
    ungrouped = universe.ungrouped_notes(checked, found)
    unadjusted = universe.unadjusted_notes(checked, found)
    unused = _unused_bars(checked, resolved)
    limited = _notes(checked, found)
    account = resolved.config.account
    assumed = currencies.assumed(found.instruments, account)
    money = (*converted, *assumed, *small_positions(found, account))
    notes = (*money, *unused, *chosen.notes, *ungrouped, *unadjusted, *limited)
    parts = live | _parts(checked, found)
    return Arranged(resolved, found, given, notes, parts, tuple(hosts))


SAID_BY = {
    "data.path": ("--data", "data"),
    "data.to": ("--to", "end"),
    "data.bars": ("--bars",),
    "data.session": ("--session",),
    "data.tz": ("--tz",),
    "report.benchmark": ("--benchmark", "benchmark"),
}
"""Settings as an option and, where Python has it, as an argument there."""


def _said(
    named: Mapping[str, object], more: Mapping[str, object], caller: str
) -> dict[str, object]:
    """What the caller says by its own arguments, and else by `more`.

    ConfigError where a setting is said and empty, as by an unset variable of a shell: the run would
    be on the built-in market, or on all of the data, without a word.
    """
    for key, names in SAID_BY.items():
        if isinstance(named[key], str) and not str(named[key]).strip():
            name = names[-1 if caller == PYTHON else 0]
            raise ConfigError(f"{name} names nothing\nhelp: leave it out, or name what it is for")
    line = {**more, **{key: value for key, value in named.items() if value is not None}}
    return {
        key: value if isinstance(value, list | tuple | dict | int | float) else str(value)
        for key, value in line.items()
        if value is not None
    }


def _place(config: Path | None, resolved: Resolved, key: str) -> str:
    """How a message about a setting begins where a config says it: `path:line: key: `."""
    if config is None or resolved.source(key) in (*CALLERS, STRATEGY, INSTRUMENT, DEFAULT):
        return ""
    return f"{configuration.place(config, key)}: {key}: "


@contextmanager
def said_in(config: Path | None, resolved: Resolved, key: str) -> Iterator[None]:
    """Begin an error about a setting with its place in the config, where one says it."""
    try:
        yield
    except (ConfigError, LimitError) as wrong:
        raise type(wrong)(f"{_place(config, resolved, key)}{wrong}") from None


def _hold_params(
    checked: Checked, resolved: Resolved, config: Path | None, given: Mapping[str, object]
) -> None:
    """ConfigError where what is given to params does not fit them."""
    params = checked.strategy.params
    for name, value in resolved.config.params.items():
        with said_in(config, resolved, f"params.{name}"):
            values.chosen(params, {name: value})
    values.chosen(params, given)


def _session_place(checked: Checked, config: Path | None, resolved: Resolved) -> str:
    """The same of a session, which a strategy names in a line of its own."""
    if resolved.config.data.session or "calendar" not in checked.strategy.session:
        return _place(config, resolved, "data.session")
    items = checked.strategy.node.items
    line = next(one for one in items if isinstance(one, ast.Data) and one.kind == "session")
    return f"{checked.source.path}:{checked.source.position(line.span[0]).line}: "


def _hold_currency(stated: str, resolved: Resolved, config: Path | None) -> None:
    """ConfigError where a strategy states another currency than that of its account."""
    account = resolved.config.account.currency
    if stated not in ("", account):
        raise ConfigError(
            f"{_place(config, resolved, 'account.currency')}the strategy counts in {stated} and "
            f"the account in {account}\n"
            f"help: leave account.currency out, and write under [account]: rates = {{ {account} = "
            f"RATE }} where RATE is what one {account} is worth in {stated}; or count in {account} "
            "in the file"
        )


def _hold_ticks(checked: Checked, resolved: Resolved, config: Path | None) -> None:
    """ConfigError where a file of latencies is named that is not there, or orders meet bars, which
    know of none, or where other bars are asked of a strategy on ticks."""
    bars = resolved.config.data.bars
    if bars and checked.strategy.ticks and resolved.source("data.bars") in CALLERS:
        raise ConfigError(
            f"{resolved.said('data.bars', bars)}: {checked.strategy.name} is on ticks, and builds "
            f"of them the bars that it declares\n"
            f"help: leave that out, or write 'bars {bars}' in the strategy"
        )
    path = resolved.config.venue.latency_file
    where = _place(config, resolved, "venue.latency_file")
    if path and not checked.strategy.ticks:
        raise ConfigError(
            f"{where}{path}: latencies are of strategies on ticks, and {checked.strategy.name} is "
            "on bars\nhelp: fills.delay_bars lets its orders wait"
        )
    if path and not Path(path).exists():
        raise ConfigError(f"{where}{path}: there is no such file")


def _unused_bars(checked: Checked, resolved: Resolved) -> tuple[str, ...]:
    """A note where a config, which other strategies may have too, asks for bars of one on ticks."""
    bars = resolved.config.data.bars
    if not bars or not checked.strategy.ticks:
        return ()
    return (
        f"{resolved.source('data.bars')}: data.bars = {bars} is not used: {checked.strategy.name} "
        "is on ticks, and builds of them the bars that it declares",
    )


def hold_hosted(checked: Checked, what: str) -> None:
    """UnavailableError where `what` knows nothing of columns of the host."""
    if checked.strategy.hosts:
        raise UnavailableError(
            f"{what} of a strategy with a '@host' indicator is not available: Python computes its "
            "values before a run, over the whole history\n"
            "help: quantdsl backtest FILE --host MODULE runs it"
        )


def _members(checked: Checked, resolved: Resolved, table: Any = None) -> universe.Members:
    """The instruments of the run in declared order, each with the source of its data."""
    one = resolved.config.data
    if checked.strategy.universe is not None:
        return universe.members(checked, resolved.config.universe, one.path, table)
    paths: list[Any] = files_named(one.path) if table is None else [table]
    traded = checked.strategy.instruments
    sources = tuple(_source(paths, t.index, len(traded)) for t in traded)
    return universe.Members(tuple(t.symbol for t in traded), sources)


def files_named(path: str) -> list[str]:
    """The files of `A,B`; a name that is missing would be the built-in market."""
    files = path.split(",") if path else []
    if "" in files:
        raise ConfigError(f"data {path!r}: a file's name is missing at a comma")
    return files


def files_read(said: str | None, config: Path | None) -> list[Path]:
    """The user's files that a run with `--data` and `--config` reads: its config, and its data
    with each file of a folder."""
    path = said or ("" if config is None else str(configuration.load(config).get("data.path", "")))
    named = [Path(split_source(one)[0]) for one in files_named(path)]
    inside = [file for one in named if one.is_dir() for file in one.rglob("*")]
    return [*named, *inside, *([] if config is None else [config])]


def hold_admitted(
    checked: Checked, executor: Any, memory: Memory, chosen: Mapping[str, Fraction]
) -> None:
    """ConfigError where the params break a `require` of the strategy."""
    if not checked.strategy.requires:
        return  # the interpreter takes seconds to open the state of thousands of instruments
    broken = int(executor.call("admits", memory.words))
    if broken < 0:
        return
    node = checked.strategy.requires[broken][1]
    text = checked.source.text[slice(*node.cond.span)]
    by_name = {param.name: param for param in checked.strategy.params}
    shown = ", ".join(f"{name} = {values.show(by_name[name], v)}" for name, v in chosen.items())
    why = f": {node.message}" if node.message else ""
    raise ConfigError(f"the strategy requires {text}{why}; these params break it: {shown}")


def _instruments(
    members: universe.Members, resolved: Resolved, listed: Mapping[str, Instrument]
) -> list[Instrument | None]:
    """The user's own definition of each instrument of the run, else the venue's, else None."""
    path = resolved.config.data.instruments
    known = load_instruments(Path(path)) if path else {}
    alone = next(iter(known.values())) if len(known) == 1 else None
    return [
        known.get(symbol.rpartition(":")[2], alone) or listed.get(symbol)
        for symbol in members.symbols
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
    checked: Checked,
    resolved: Resolved,
    known: list[Instrument | None],
    members: universe.Members | None = None,
    changes: tuple[Change, ...] | None = None,
) -> DataSpec:
    """What the strategy and the settings ask of the data layer; unless `changes` do, files tell
    what there is to know of the instruments of a universe."""
    strategy, one = checked.strategy, resolved.config.data
    members = _members(checked, resolved) if members is None else members
    sources = [
        SourceSpec(symbol=symbol, source=source, instrument=own)
        for symbol, source, own in zip(members.symbols, members.sources, known, strict=True)
    ]
    clocks = tuple(clock.text for clock in strategy.clocks if clock.text and not strategy.ticks)
    if one.bars:
        clocks = (one.bars, *clocks[1:])
    session = _session(checked, one.session, known)
    return DataSpec(
        instruments=tuple(sources),
        clocks=clocks or None,
        session=session,
        timers=(*_timers(strategy, clocks, session), *_closings(strategy)),
        sync_all=strategy.sync_all,
        start=parse_instant(one.start, one.tz) if one.start else None,
        end=parse_instant(one.end, one.tz) if one.end else None,
        time=one.time,
        tz=one.tz,
        time_format=one.time_format or None,
        bad_rows=one.bad_rows,
        columns=one.columns,
        seed=one.seed,
        ticks=frozenset(item for item, event in SOURCES.items() if event in strategy.ticks.sources),
        format=one.format,
        actions=one.actions,
        feed_latency_ns=round(one.feed_latency_us * 1_000),
        latencies=resolved.config.venue.latency_file,
        universe=strategy.universe is not None,
        changes=_changes(checked, resolved, members) if changes is None else changes,
        awaited=awaited.awaited(checked, resolved.config.signals),
    )


def _timers(
    strategy: Strategy, clocks: tuple[str, ...], session: SessionSpec | None
) -> tuple[Timer, ...]:
    return tuple(
        Timer(
            id=t.id,
            at_s=t.at_s,
            after_open_ns=t.after_open_ns,
            before_close_ns=t.before_close_ns,
            every_ns=t.every_ns,
            on=cast(Days, t.on or "day"),
        )
        for t in strategy.timers
        if not t.flat_by or _closes_daily(clocks, session)
    )


def _closings(strategy: Strategy) -> tuple[Timer, ...]:
    """What closes the bars of time that are built of ticks."""
    return tuple(
        Timer(id=built.clock, every_ns=built.length_ns, closes=True)
        for built in strategy.built
        if built.kind == TIME
    )


def _changes(
    checked: Checked, resolved: Resolved, members: universe.Members
) -> tuple[Change, ...]:
    """What files say of the instruments of a universe."""
    if checked.strategy.universe is None:
        return ()
    return universe.changes(checked, resolved.config.universe, members.symbols)


def _closes_daily(clocks: tuple[str, ...], session: SessionSpec | None) -> bool:
    """Whether `flat_by` means something: there is a session, and its bars are shorter than it."""
    if session is None:
        return False
    return not clocks or Interval.parse(clocks[0]).nominal_ns < NS_PER_DAY


def _notes(checked: Checked, data: RunData) -> tuple[str, ...]:
    """What of the strategy does not apply to these data, or not as one may think."""
    return (*_flat_by_notes(checked, data), *_timer_notes(data), *_contract_notes(checked, data))


def _contract_notes(checked: Checked, data: RunData) -> tuple[str, ...]:
    """Where contracts are traded of which nobody says how much of a thing they are."""
    unsaid = [one.name for one in data.instruments if "multiplier" not in one.named]
    if not unsaid or not any(_of_contracts(node) for node in inside(checked.strategy.node)):
        return ()
    return (
        f"{unsaid[0]}: a contract is taken for one unit, worth its price; 'multiplier' in an "
        "instrument file says how many units it is",
    )


def _of_contracts(node: ast.Node) -> bool:
    unit = node.unit if isinstance(node, ast.Num) else None
    return unit in ("contract", "contracts") or (
        isinstance(node, ast.Name) and node.id == "per_contract"
    )


def _timer_notes(data: RunData) -> tuple[str, ...]:
    return tuple(
        f"{timer} lies inside a bar of {data.clocks[0]}: what is ordered then meets the close of "
        "that bar alone; finer bars meet it where it is"
        for timer in _inside_bars(data)
    )


def _inside_bars(data: RunData) -> list[str]:
    """The timers that fire between the open and the close of a bar."""
    return data.clockwork.inside_bars(data.clocks[0]) if isinstance(data, Data) else []


def _parts(checked: Checked, data: RunData) -> frozenset[str]:
    """Parts of the core that the data need: orders may be sent inside their bars."""
    if not isinstance(data, Data):
        return frozenset()
    events = {handler.event for handler in checked.strategy.handlers}
    at_borders = not events.isdisjoint({"session_open", "session_close"})
    long = data.clocks[0].nominal_ns > NS_PER_DAY and at_borders
    # A dividend or funding moves equity, and a limit on that flattens. Answers come when they do.
    others = bool(data.spec.actions) or data.spec.awaited is not None
    return frozenset({"USES_INSIDE"} if _inside_bars(data) or long or others else set())


def _flat_by_notes(checked: Checked, data: RunData) -> tuple[str, ...]:
    if "flat_by" not in checked.strategy.session or any(
        timer.id == own.id
        for own in checked.strategy.timers
        if own.flat_by
        for timer in data.spec.timers
    ):
        return ()
    why = "there is no session" if data.spec.session is None else "a bar is as long as a session"
    return (f"flat_by is not applied: {why}",)


def _source(paths: list[Any], index: int, count: int) -> Any:
    """The file of one instrument: one path serves all, or there is one for each, in order."""
    if not paths:
        return None
    if len(paths) not in (1, count):
        raise ConfigError(
            f"the data are {len(paths)} files for {plural(count, 'instrument')}; give one for "
            "each, separated by commas, in the order of the strategy\n"
            "help: where one instrument has several files, name a folder of them"
        )
    return paths[index] if len(paths) == count else paths[0]


def _session(checked: Checked, override: str, known: list[Instrument | None]) -> SessionSpec | None:
    """The session of the settings, else of the strategy, else of the first instrument's file."""
    declared = checked.strategy.session
    own = known[0].calendar if known and known[0] is not None else ""
    calendar = override or declared.get("calendar", "") or own
    if calendar in ("", NO_SESSION):
        return None
    return SessionSpec(
        calendar=calendar,
        start_s=declared.get("start"),
        end_s=declared.get("end"),
        tz=declared.get("tz"),
    )


def day_rule(data: RunData) -> int:
    """When a day ends: with each bar of a day or longer, at the session's close, or at midnight."""
    if data.clocks and data.clocks[0].nominal_ns >= NS_PER_DAY:
        return settings.DAY_BAR
    return settings.DAY_SESSION if data.schedule.named else settings.DAY_UTC
