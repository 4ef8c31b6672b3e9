"""A new session: settings merged, feeds asked for their instruments, the manifest written."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import quantdsl
from quantdsl import config as configuration
from quantdsl.backtest import universe, values
from quantdsl.backtest.prepare import Arranged, arrange, hold_hosted
from quantdsl.backtest.program import Run
from quantdsl.backtest.warm import clock_count
from quantdsl.check import Checked, compile_file
from quantdsl.check.ticks import SOURCES
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.config import Config, DataConfig, FeedConfig
from quantdsl.data.calendar import ALWAYS_OPEN
from quantdsl.data.instrument import Instrument
from quantdsl.data.session_data import SessionData
from quantdsl.data.times import Interval
from quantdsl.errors import ConfigError, FeedError
from quantdsl.ir.interp import Interpreter
from quantdsl.live import manifest as manifests
from quantdsl.live.feed import FeedSpec, LiveFeed, factory_of, now_ns, open_feed
from quantdsl.live.manifest import Manifest, StrategyPart, Traded
from quantdsl.live.past import open_past
from quantdsl.live.running import LOCK, held

PRICE_UNKNOWN = 1e5
"""Taken for the highest price so far where no history tells one."""
HEADROOM = 4.0
NIGHTS = 6
"""Times as long as the bars of an exchange's sessions are these with nights and weekends."""
SIMULATED = ("synthetic", "replay")
"""Feeds that are told of the strategies' calendar, and whose time is their own."""
HISTORY_READ = ("tz", "time", "time_format", "bad_rows", "columns")
"""Of [data], what says how its file is read where that is the history; a feed's own file is as
`data fetch` makes one."""


class Wish(NamedTuple):
    """One strategy of a session, as asked for."""

    path: Path
    params: Mapping[str, object]


def is_simulated(feed: LiveFeed) -> bool:
    """Whether a feed has a time of its own."""
    return hasattr(feed, "seek")


def create(
    folder: Path, wishes: Sequence[Wish], *, config: Path, said: Mapping[str, object]
) -> Manifest:
    """Make the folder of a new session and write its manifest.

    `said` are settings of the command line by key. Raises ConfigError, SourceError or FeedError,
    each with one message that says how to mend it.
    """
    resolved = configuration.resolve({k: str(v) for k, v in said.items()}, config).config
    check_limits(resolved, config)
    if resolved.venue.latency_file:
        raise ConfigError(
            f"{configuration.place(config, 'venue.latency_file')}: a session has constant "
            "latencies and measures those of its feeds into latency.csv\nhelp: take it out here, "
            "and give it to quantdsl backtest"
        )
    if resolved.data.actions:
        raise ConfigError(
            f"{configuration.place(config, 'data.actions')}: a session takes splits and dividends "
            "from no file, so what is held over one would be wrong by it\nhelp: take it out here, "
            "and let no session run over the day of one; funding comes from the venue"
        )
    for key, value in (("from", resolved.data.start), ("to", resolved.data.end)):
        if value:
            raise ConfigError(
                f"{configuration.place(config, f'data.{key}')}: a session begins with its feed and "
                f"ends with it, so data.{key} does nothing\nhelp: take it out here, and cut the "
                "file that is replayed"
            )
    _hold_report(resolved, config)
    if not resolved.feed:
        raise ConfigError(f"{config}: names no feed\nhelp: add a table [[feed]], feed = ...")
    checked = [compile_file(wish.path) for wish in wishes]
    specs, feeds = _feeds(resolved, config, checked)
    simulated = {is_simulated(feed) for feed in feeds}
    if len(simulated) > 1:
        raise ConfigError(
            f"{config}: a feed of recorded or invented data has a time of its own and cannot stand "
            "beside a live one\nhelp: use two sessions"
        )
    made = _Made(wishes, checked, config, said, specs, feeds, simulated == {True})
    with _folder_of(folder):
        return _write(folder, made, resolved)


class _Made(NamedTuple):
    """What a session is made of."""

    wishes: Sequence[Wish]
    checked: Sequence[Checked]
    config: Path
    said: Mapping[str, object]
    specs: Sequence[FeedSpec]
    feeds: Sequence[LiveFeed]
    simulated: bool


def _write(folder: Path, made: _Made, resolved: Config) -> Manifest:
    """The strategies made ready, their sources kept, the manifest last: then there is a session."""
    listed = _Listed(made.specs, made.feeds)
    begin = made.feeds[0].now_ns() if made.simulated else now_ns()  # type: ignore[attr-defined]
    uses = manifests.LIVE_USES | ({manifests.FUNDED} if _funded(resolved) else set())
    parts, names = [], set[str]()
    for wish, one in zip(made.wishes, made.checked, strict=True):
        name = _distinct(manifests.folder_name(one.strategy.name), names)
        making = _Making(folder, name, begin, made.config, uses, listed)
        parts.append(_part(making, wish, one, made.said))
    manifest = Manifest(
        format=manifests.FORMAT,
        version=quantdsl.__version__,
        build=manifests.build_digest(),
        created=now_ns(),
        name=folder.name,
        config=str(made.config),
        strategies=tuple(parts),
        instruments=tuple(
            Traded(symbol, feed, manifests.terms_of(one))
            for (symbol, feed), one in zip(listed.places, listed.instruments, strict=True)
        ),
        feeds=tuple(made.specs),
        simulated=made.simulated,
        uses=tuple(sorted(uses)),
    )
    manifests.write(folder, manifest)
    return manifest


def check_limits(config: Config, path: Path) -> None:
    """ConfigError where a limit of the house is not set: none of them has a default."""
    for name, value in msgspec.structs.asdict(config.limits).items():
        if value is None:
            raise ConfigError(
                f"{configuration.place(path, f'limits.{name}')}: limits.{name} is missing: a live "
                "session starts with every limit stated, and none has a default\n"
                f"help: write {name} = ... under [limits]; configs/limits.toml shows all of them"
            )


def _hold_report(config: Config, path: Path) -> None:
    """ConfigError for what of [report] a session does not heed."""
    for name, why in (
        ("out", "the report of a session lies in its folder\nhelp: take it out here; --session "
         "names that folder, and quantdsl report SESSION --out writes elsewhere"),
        ("benchmark", "a session is compared with nothing\nhelp: take it out here, and give it to "
         "quantdsl backtest"),
    ):  # fmt: skip
        if getattr(config.report, name):
            where = configuration.place(path, f"report.{name}")
            raise ConfigError(f"{where}: report.{name} does nothing: {why}")


def _funded(config: Config) -> bool:
    return any(bool(feed.options.get("funding")) for feed in config.feed)


class _Listed:
    """The instruments of a session, by feed and symbol."""

    def __init__(self, specs: Sequence[FeedSpec], feeds: Sequence[LiveFeed]) -> None:
        self.specs, self.feeds = specs, feeds
        self.places = [(symbol, k) for k, spec in enumerate(specs) for symbol in spec.symbols]
        self.instruments = [one for feed in feeds for one in feed.instruments()]

    def place(self, asked: str) -> int:
        """Which instrument of the session a strategy's name means; its only one has none."""
        venue, _, symbol = asked.rpartition(":")
        found = [
            k
            for k, (own, feed) in enumerate(self.places)
            if not asked
            or (own == symbol and (not venue or self.specs[feed].feed.startswith(venue.lower())))
        ]
        if not found:
            known = ", ".join(symbol for symbol, _ in self.places)
            raise ConfigError(f"no feed of the session has {asked}; they have {known}")
        return found[0]


def _feeds(
    config: Config, path: Path, checked: Sequence[Checked]
) -> tuple[list[FeedSpec], list[LiveFeed]]:
    """What each feed is asked for, and the feeds, opened; an error names its line."""
    ticks = {
        name for one in checked for name, event in SOURCES.items()
        if event in one.strategy.ticks.sources
    }  # fmt: skip
    bars = sorted(
        {_finest(config, one) for one in checked if not one.strategy.ticks},
        key=lambda text: Interval.parse(text).nominal_ns,
    )
    wanted = [symbol for one in checked for symbol in _wanted(config, one)]
    whole = any(one.strategy.universe is not None for one in checked)
    specs: list[FeedSpec] = []
    feeds = []
    for number, feed in enumerate(config.feed):
        with _placed(path, f"feed[{number}]"):
            factory_of(feed.feed)  # a name that leads nowhere is told before what it lacks
            own = frozenset(ticks | ({"funding"} if feed.options.get("funding") else set()))
            spec = FeedSpec(
                feed=feed.feed,
                symbols=feed.symbols or _symbols(feed, config, wanted, whole=whole),
                first=sum(len(one.symbols) for one in specs),
                ticks=own,  # type: ignore[arg-type]
                bars=tuple(bars),
                stream_url=feed.stream_url,
                rest_url=feed.rest_url,
                ca_file=feed.ca_file,
                history=_history(feed, config),
                history_read={} if feed.history else _said(config.data, HISTORY_READ),
                stale_ns_max=round(feed.stale_s * 1e9),
                options=_options(feed, config, checked),
            )
            specs.append(spec)
            feeds.append(open_feed(spec))
    return specs, feeds


@contextmanager
def _placed(path: Path, key: str) -> Iterator[None]:
    """Errors within name the line of a key of the config."""
    try:
        yield
    except (ConfigError, FeedError) as wrong:
        raise type(wrong)(f"{configuration.place(path, key)}: {wrong}") from None


def _options(feed: FeedConfig, config: Config, checked: Sequence[Checked]) -> dict[str, Any]:
    options = {key: value for key, value in feed.options.items() if key != "funding"}
    if feed.feed in SIMULATED:
        calendars = {one.strategy.session.get("calendar", "") for one in checked}
        # Of an exchange rather than of none: the market must be open when a session is.
        own = config.data.session or min(
            calendars, key=lambda name: (name in ("", ALWAYS_OPEN), name)
        )
        options.setdefault("calendar", "" if own == "none" else own)
        if config.paper.speed:
            options["speed"] = config.paper.speed
    if feed.feed == "replay":
        options = _as_read(config.data) | options
    return options


def _as_read(data: DataConfig) -> dict[str, Any]:
    """How the config says that a replay reads its file, by the options of that feed."""
    said = _said(data, ("path", "format", "tz", "time", "time_format"))
    columns = {"columns": msgspec.json.encode(data.columns).decode()} if data.columns else {}
    return said | columns


def _said(data: DataConfig, names: Sequence[str]) -> dict[str, Any]:
    """What the config says of these other than usual."""
    usual = DataConfig()
    said = {name: getattr(data, name) for name in names}
    return {name: value for name, value in said.items() if value != getattr(usual, name)}


def _history(feed: FeedConfig, config: Config) -> str:
    """The files that a live feed's strategies warm up from, wherever the session goes on later."""
    if feed.feed not in SIMULATED:
        paths = feed.history or config.data.path
        return ",".join(os.path.abspath(part) for part in paths.split(",") if part)
    if feed.history or (feed.feed != "replay" and config.data.path):
        raise ConfigError(
            f"{feed.history or config.data.path}: the feed {feed.feed} has no past but its own\n"
            "help: replay a file with --config paper_replay, or warm a venue's feed up from it"
        )
    return ""


def _finest(config: Config, checked: Checked) -> str:
    clocks = [clock.text for clock in checked.strategy.clocks if clock.text]
    if config.data.bars or clocks:
        return config.data.bars or clocks[0]
    raise ConfigError(
        f"{checked.strategy.name} takes whatever bars the data have, and a live feed has none by "
        "itself\nhelp: say the bars in the strategy, as in 'bars 1m', or with --bars 1m"
    )


def _wanted(config: Config, checked: Checked) -> list[str]:
    """The symbols that a strategy names, or of a universe its list."""
    if checked.strategy.universe is not None:
        return universe.listed_by(checked, config.universe)
    return [traded.symbol for traded in checked.strategy.instruments]


def _symbols(
    feed: FeedConfig, config: Config, wanted: Sequence[str], *, whole: bool
) -> tuple[str, ...]:
    """The symbols of the strategies, for a feed that names none; invented where they have none: one
    or a `whole` universe."""
    named = [symbol.rpartition(":")[2] for symbol in wanted if symbol]
    if not named and whole and feed.feed == "synthetic":
        return universe.BUILT_IN
    if not named and not whole and feed.feed in SIMULATED:
        return ("SYN1",)
    if not named or len(config.feed) > 1:
        raise ConfigError(
            f"the feed {feed.feed} has no symbols\nhelp: write symbols = [...] in its [[feed]]"
        )
    return tuple(dict.fromkeys(named))


class _Making(NamedTuple):
    """What all strategies of a new session share."""

    folder: Path
    name: str
    begin: int
    config: Path
    uses: frozenset[str]
    listed: _Listed


def _part(
    making: _Making, wish: Wish, checked: Checked, said: Mapping[str, object]
) -> StrategyPart:
    hold_hosted(checked, "a session")
    listed = making.listed
    settings = configuration.resolve({k: str(v) for k, v in said.items()}, making.config).config
    whole = checked.strategy.universe is not None
    wanted = _wanted(settings, checked)
    if whole and not wanted:
        wanted = list(dict.fromkeys(symbol for symbol, _ in listed.places))
    places = [listed.place(symbol) for symbol in wanted]
    symbols = {
        symbol: listed.instruments[at] for symbol, at in zip(wanted, places, strict=True)
    }
    finer, since = [], making.begin
    if not checked.strategy.ticks:
        finer = [_interval(listed, at, checked, making.config, said) for at in places]
        for at, bars in zip(places, finer, strict=True):
            symbol, feed = listed.places[at]
            open_past(listed.specs[feed], symbol, listed.instruments[at], bars)  # refuses in time
    prices = [_price(listed, at) for at in places]
    opened = lambda spec: SessionData(spec, prices, since, making.folder.name)  # noqa: E731
    found: Arranged = arrange(
        checked,
        params=wish.params,
        config=making.config,
        more=said,
        listed=symbols,
        opened=opened,
        live=making.uses,
        symbols=wanted if whole else None,
    )
    replayed = all(listed.specs[listed.places[at][1]].feed == "replay" for at in places)
    if not checked.strategy.ticks and not replayed:
        since = _warm_since(checked, found, making.begin)
    sources = manifests.keep_sources(checked, making.folder / making.name / manifests.SOURCE)
    return StrategyPart(
        name=making.name,
        file=Path(checked.source.path).name,
        path=str(wish.path),
        sources=sources,
        params={name: str(value) for name, value in found.given.items()},
        places=tuple(places),
        terms=tuple(manifests.terms_of(one) for one in found.data.instruments),
        prices=tuple(prices),
        settings=found.resolved,
        # A replay trades from its first event on, as a backtest of the same file does.
        trade_from=int(np.iinfo(np.int64).min) if replayed else making.begin,
        begin=since,
        finer=tuple(str(one) for one in finer),
        changes=found.data.spec.changes,
    )


def _warm_since(checked: Checked, found: Arranged, begin: int) -> int:
    """From where on history warms all handlers up: the bars that they need, nights included."""
    checked = found.sized(checked)
    module = checked.module(found.uses, entries=("warm",))
    run = Run(checked, module, Interpreter(module))
    found.fill(run.memory)
    chosen = values.chosen(checked.strategy.params, found.given)
    values.write(run.memory, checked.strategy.params, chosen)
    needs = np.zeros(clock_count(checked), np.int64)
    run.executor.call("admits", run.memory.words)
    run.executor.call("warm", run.memory.words, needs)
    width = checked.strategy.width if checked.strategy.universe is None else PANEL_SHIFT
    spans = [
        (int(needs[k]) + 2) * found.data.clocks[k % width].nominal_ns
        for k in range(len(needs))
        if k % width < len(found.data.clocks)
    ]
    nights = NIGHTS if found.data.schedule.named else 1
    return begin - max(spans, default=0) * nights


def _interval(
    listed: _Listed, place: int, checked: Checked, config: Path, said: Mapping[str, object]
) -> Interval:
    """The length of the bars that a feed gives of an instrument."""
    symbol, feed = listed.places[place]
    own = getattr(listed.feeds[feed], "bar_interval", None)
    if own is not None:
        found: Interval = own(symbol)
        return found
    settings = configuration.resolve({k: str(v) for k, v in said.items()}, config).config
    return Interval.parse(_finest(settings, checked))


def _price(listed: _Listed, place: int) -> float:
    """How high an instrument has been, with room; a guess where its feed does not tell."""
    symbol, feed = listed.places[place]
    one: Instrument = listed.instruments[place]
    if one.price_max is not None:
        return float(one.price_max / Fraction(4))
    own = getattr(listed.feeds[feed], "price_max", None)
    return float(own(symbol)) if own is not None else PRICE_UNKNOWN * HEADROOM


def _distinct(name: str, names: set[str]) -> str:
    """The name, with a number where another strategy of the session has it."""
    found, number = name, 2
    while found in names:
        found, number = f"{name}-{number}", number + 1
    names.add(found)
    return found


@contextmanager
def _folder_of(folder: Path) -> Iterator[None]:
    """The folder of a new session, held; what comes of a session that cannot begin is taken away.

    One that is there and has something in it keeps its mode, and all that is in it.
    """
    there = folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(folder):  # what is in it from here on is no other command's
        if (folder / manifests.FILE).exists():
            raise ConfigError(
                f"{folder}: another command has just begun this session\n"
                "help: name another folder with --session"
            )
        empty = not _within(folder)
        if empty:
            os.chmod(folder, 0o700)  # its owner's alone
        try:
            yield
        except BaseException:
            if empty:
                for path in _within(folder):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            if empty and not there:
                (folder / LOCK).unlink()
                folder.rmdir()
            raise


def _within(folder: Path) -> list[Path]:
    """What is in a folder beside the mark of who holds it."""
    return [path for path in folder.iterdir() if path.name != LOCK]
