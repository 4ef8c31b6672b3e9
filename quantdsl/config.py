"""Configuration: what a run is set to, and who said so.

A value comes from the first of: the command line or the call of Python, the config file, the
strategy's `backtest:` block, the instrument file (its fees), the default. `resolve` merges them and
remembers the source of each. The structs below are the one table of keys: types, units, ranges, the
JSON Schema and the messages all follow from it.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from quantdsl.errors import ConfigError
from quantdsl.files import read_toml
from quantdsl.shipped import shipped
from quantdsl.wanted import fault
from quantdsl.zones import UTC, zone

Precision = Literal["f64", "f32"]
COMMAND_LINE, STRATEGY, DEFAULT = "command line", "strategy", "default"
PYTHON = "Python"
CALLERS = (COMMAND_LINE, PYTHON)
"""Who starts a run: what they say comes before all else."""
INSTRUMENT = "instrument file"


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


Rate = Annotated[float, Meta(ge=0, le=10_000)]
Money = Annotated[float, Meta(ge=0, le=1e9)]


class DataConfig(_Section, frozen=True):
    """Which bars the run is made on and how they are read."""

    path: Annotated[str, Meta(description="File, folder or FILE#TICKER; empty: built-in")] = ""
    instruments: Annotated[str, Meta(description="TOML file of instruments; empty: inferred")] = ""
    bars: Annotated[str, Meta(description="Bar length, as 5m or 1d; empty: the strategy's")] = ""
    session: Annotated[
        str, Meta(description="Exchange code, 24/7 or none; empty: the strategy's")
    ] = ""
    tz: Annotated[str, Meta(description="IANA zone of times that carry none; empty: UTC")] = ""
    time: Annotated[
        Literal["open", "close"], Meta(description="What a row's time marks of its bar")
    ] = "open"
    time_format: Annotated[str, Meta(description="strptime form of times; empty: found out")] = ""
    bad_rows: Annotated[
        Literal["stop", "drop"], Meta(description="Stop at a bad row, or drop and count it")
    ] = "stop"
    start: Annotated[str, Meta(description="First date used, ISO 8601; empty: all")] = field(
        default="", name="from"
    )
    end: Annotated[str, Meta(description="First date no longer used; empty: all")] = field(
        default="", name="to"
    )
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="Seed of the built-in market")] = 1
    format: Annotated[str, Meta(description="Format of a file of ticks; empty: found out")] = ""
    actions: Annotated[
        str, Meta(description="File of splits, dividends and funding rates; empty: none")
    ] = ""
    feed_latency_us: Annotated[
        float, Meta(ge=0, le=1e9, description="What a tick takes to arrive where data do not say")
    ] = 0.0
    columns: Annotated[dict[str, str], Meta(description="Column of each field of a row")] = {}


class AccountConfig(_Section, frozen=True):
    """The money of the run."""

    cash: Annotated[float, Meta(gt=0, le=1e9, description="Money at the start")] = 100_000.0
    currency: Annotated[
        str,
        Meta(pattern="^[A-Z]{3,5}$", examples=["USD"], description="Currency of the account"),
    ] = "USD"
    rates: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=1e9)]],
        Meta(description="Account money for 1 of another currency, the whole run long"),
    ] = {}
    margin_initial: Annotated[
        float,
        Meta(gt=0, le=1, description="Equity needed per unit of exposure to open; 1: fully paid"),
    ] = 1.0
    margin_maintenance: Annotated[
        float, Meta(ge=0, le=1, description="Below this share of exposure all is closed; 0: never")
    ] = 0.0
    borrow_bps: Annotated[Rate, Meta(description="Cost of shorts in bps of their value a year")] = (
        0.0
    )
    unaffordable: Annotated[
        Literal["cut", "reject"], Meta(description="What happens to an order beyond the cash")
    ] = "cut"


class FeesConfig(_Section, frozen=True):
    """What the venue charges for a fill."""

    taker_bps: Annotated[Rate, Meta(description="Of the value, for orders that take")] = 0.0
    maker_bps: Annotated[
        float, Meta(ge=-100, le=10_000, description="Of the value, for orders that rest; < 0: paid")
    ] = 0.0
    per_share: Annotated[Money, Meta(description="Money a unit (a share, a coin)")] = 0.0
    per_contract: Annotated[Money, Meta(description="Money a lot of a future")] = 0.0
    per_order: Annotated[Money, Meta(description="Money once an order, with its first fill")] = 0.0
    minimum: Annotated[Money, Meta(description="Least fee of an order")] = 0.0


class SlippageConfig(_Section, frozen=True):
    """How much worse than the quoted price an order fills that takes liquidity."""

    ticks: Annotated[float, Meta(ge=0, le=1_000, description="Ticks")] = 0.0
    bps: Annotated[Rate, Meta(description="Of the price")] = 0.0
    impact_bps: Annotated[Rate, Meta(description="Of the price, for a whole bar's volume")] = 0.0


class FillsConfig(_Section, frozen=True):
    """How orders meet bars."""

    path: Annotated[
        Literal["conservative", "nearest", "high_first", "low_first"],
        Meta(description="Which extreme of a bar comes first where the bar cannot say"),
    ] = "conservative"
    volume_share: Annotated[
        float, Meta(ge=0, le=1, description="Most of a bar's volume that fills use; 0: no cap")
    ] = 0.0
    delay_bars: Annotated[
        int, Meta(ge=0, le=1_000, description="Bars an order waits; 0: it meets the next bar")
    ] = 0
    close_at_end: Annotated[
        bool, Meta(description="Close what is open at the last price when the run ends")
    ] = False


class VenueConfig(_Section, frozen=True):
    """How orders meet ticks: how long they take, and how queues move that are not told of."""

    latency_entry_us: Annotated[
        float, Meta(ge=0, le=1e9, description="From sending an order to its arrival, microseconds")
    ] = 0.0
    latency_response_us: Annotated[
        float, Meta(ge=0, le=1e9, description="From a fill or an end to knowing it, microseconds")
    ] = 0.0
    latency_feed: Annotated[
        float, Meta(ge=0, le=1_000, description="Times the feed's own latency, added to both")
    ] = 0.0
    latency_file: Annotated[
        str, Meta(description="Measured latencies in place of both, as latency.csv of a session")
    ] = ""
    queue: Annotated[
        Literal["pessimistic", "proportional"],
        Meta(description="Who cancels at a level: those behind an order, or both in proportion"),
    ] = "pessimistic"
    queue_power: Annotated[
        float, Meta(gt=0, le=10, description="Power of the shares, where queue is proportional")
    ] = 1.0


class SignalsConfig(_Section, frozen=True):
    """How asynchronous signals (`@async`) come, in a backtest, and what computes them live."""

    delay_us: Annotated[
        float, Meta(ge=0, le=86_400e6, description="From an instant to its answers, microseconds")
    ] = 250.0
    device: Annotated[
        str,
        Meta(
            pattern=r"^(auto|cpu|simulated|cuda(:\d{1,3})?)$",
            examples=["cuda:0"],
            description="In a session: auto, cpu, simulated or cuda:N",
        ),
    ] = "auto"


class UniverseConfig(_Section, frozen=True):
    """Files that tell of the instruments of a universe; docs/universes.md has their columns."""

    symbols: Annotated[str, Meta(description="Table of symbols; empty: all of the data")] = ""
    members: Annotated[str, Meta(description="Table of symbol, entry, exit")] = ""
    eligible: Annotated[str, Meta(description="Table of symbol, entry, exit")] = ""
    groups: Annotated[str, Meta(description="Table of symbol, sector, industry, country")] = ""


class ReportConfig(_Section, frozen=True):
    """Where results go and what they are compared with."""

    out: Annotated[str, Meta(description="Folder of the run's files; empty: out/STRATEGY")] = ""
    benchmark: Annotated[str, Meta(description="hold, or a file of prices; empty: none")] = ""


class SweepConfig(_Section, frozen=True):
    """Which points `quantdsl sweep` runs, where, and how it ranks them."""

    ranges: Annotated[
        dict[str, str], Meta(description="Values of a param: 5..50:5, or 5, 10, 20")
    ] = {}
    points: Annotated[
        str, Meta(description="grid: every point; random:N or sobol:N: a subset of N")
    ] = "grid"
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="Seed of random and sobol subsets")] = 1
    objective: Annotated[str, Meta(description="Metric that ranks the points")] = "sharpe"
    metrics: Annotated[
        tuple[str, ...], Meta(description="Of each point; none: all. Fewer are faster")
    ] = ()
    top: Annotated[int, Meta(ge=1, le=1_000, description="Best points to show")] = 10
    device: Annotated[str, Meta(description="auto, cpu, simulated, cuda:N or all")] = "auto"
    on: Annotated[
        Literal["here", "ray"], Meta(description="This machine, or the nodes of a Ray cluster")
    ] = "here"
    precision: Annotated[
        Precision, Meta(description="Of equations; f32 is reported with what it changes")
    ] = "f64"
    blocks: Annotated[
        int, Meta(ge=4, le=16, multiple_of=2, description="Blocks of days for cross-validation")
    ] = 16
    walk_forward: Annotated[
        str, Meta(description="train=2y test=6mo: choose on each span, try on the next; empty: no")
    ] = ""
    choose: Annotated[
        Literal["best", "steady"],
        Meta(description="Of a span: its best point, or the one with the best surroundings"),
    ] = "best"
    bootstrap: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Resamples of the best point's trades; 0: none")
    ] = 0


class LiveConfig(_Section, frozen=True):
    """The engine's thread."""

    cpu: Annotated[
        int, Meta(ge=-1, le=4095, description="Core of the engine; -1: the strategy's, or any")
    ] = -1
    wait: Annotated[
        Literal["spin", "yield", "sleep"],
        Meta(description="While there is no event: keep the core, offer it, or leave it"),
    ] = "yield"
    polls: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="Empty looks at the ring before it yields")
    ] = 1_000
    priority: Annotated[
        int, Meta(ge=0, le=99, description="SCHED_FIFO priority of the engine; 0: none")
    ] = 0
    lock_memory: Annotated[bool, Meta(description="Keep the process's memory from paging")] = False


Limit = Annotated[float, Meta(gt=0, le=1e12)] | None


class LimitsConfig(_Section, frozen=True):
    """What a live session may never do, whatever its strategies say. None of them has a default."""

    order_value: Annotated[Limit, Meta(description="Money: value of one order at most")] = None
    position_value: Annotated[
        Limit, Meta(description="Money: one instrument's position, working orders counted")
    ] = None
    gross_value: Annotated[Limit, Meta(description="Money: all positions of a strategy")] = None
    daily_loss: Annotated[Limit, Meta(description="Money: a larger loss of a day halts")] = None
    drawdown: Annotated[Limit, Meta(description="Money below the peak: more halts")] = None
    price_collar: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(description="Share of the price by which an order may be worse than the market"),
    ] = None
    orders_per_second: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | None, Meta(description="Orders in any second")
    ] = None


class PaperConfig(_Section, frozen=True):
    """How a live session goes on; its orders never leave this machine."""

    speed: Annotated[
        float, Meta(ge=0, le=1e6, description="Times real time where a feed can; 0: it chooses")
    ] = 0.0
    bar_wait_s: Annotated[
        float, Meta(gt=0, le=600, description="Seconds an instant waits for bars that are late")
    ] = 2.0
    flatten_at_stop: Annotated[
        bool, Meta(description="Close positions before the session ends")
    ] = False
    stop_s: Annotated[
        float, Meta(gt=0, le=600, description="Seconds a graceful end may take, real time")
    ] = 5.0
    checkpoint_s: Annotated[
        float, Meta(gt=0, le=86_400, description="Seconds between checkpoints of the state")
    ] = 60.0


class FeedConfig(_Section, frozen=True):
    """One live feed: a table [[feed]] for each."""

    feed: Annotated[str, Meta(min_length=1, description="Its name, as binance or synthetic")]
    symbols: Annotated[
        tuple[str, ...], Meta(description="As the venue writes them; none: the strategies'")
    ] = ()
    stream_url: Annotated[str, Meta(description="Address of messages; empty: the venue's")] = ""
    rest_url: Annotated[str, Meta(description="Address of questions; empty: the venue's")] = ""
    ca_file: Annotated[str, Meta(description="Certificates to trust; empty: the system's")] = ""
    history: Annotated[
        str, Meta(description="File of bars to warm up from; what it lacks the venue is asked for")
    ] = ""
    stale_s: Annotated[
        float, Meta(gt=0, le=3600, description="Silence after which an instrument is off, seconds")
    ] = 5.0
    options: Annotated[
        dict[str, str | int | float | bool], Meta(description="The feed's own, as path or seed")
    ] = {}


class JournalConfig(_Section, frozen=True):
    """The files that a session survives a kill by."""

    folder: Annotated[str, Meta(description="Where sessions lie; empty: out/sessions")] = ""
    fsync: Annotated[
        Literal["group", "interval", "never"],
        Meta(description="Each group is forced to disk, or all every so often, or never"),
    ] = "group"
    group_ms: Annotated[
        float, Meta(gt=0, le=1_000, description="What comes in this time is one group")
    ] = 5.0
    interval_ms: Annotated[
        float, Meta(gt=0, le=60_000, description="Between two fsyncs, where that is the policy")
    ] = 1_000.0
    segment_mb: Annotated[
        int, Meta(ge=1, le=4_096, description="Size at which a new file is begun")
    ] = 16


class CockpitConfig(_Section, frozen=True):
    """The page in the browser; this machine alone reaches it unless `exposed` says otherwise."""

    enabled: Annotated[bool, Meta(description="Whether there is a page")] = True
    host: Annotated[
        str, Meta(description="Address; one beyond this machine needs exposed, certificate and key")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65_535, description="0: any; one that is taken: the next free one")
    ] = 8787
    exposed: Annotated[bool, Meta(description="Let other machines in, by TLS only")] = False
    certificate: Annotated[str, Meta(description="File of the TLS certificate")] = ""
    key: Annotated[str, Meta(description="File of its key")] = ""


class AlertsConfig(_Section, frozen=True):
    """Who is told when something is wrong."""

    command: Annotated[
        tuple[str, ...],
        Meta(description="Program and arguments, no shell; the alert is JSON on its input"),
    ] = ()
    webhook: Annotated[str, Meta(description="https address that an alert is POSTed to")] = ""
    repeat_s: Annotated[
        float, Meta(gt=0, le=86_400, description="Least seconds between two alerts of one cause")
    ] = 60.0
    minute_max: Annotated[
        int, Meta(ge=1, le=1_000, description="Alerts in any minute, the rest are counted")
    ] = 20


class LatencyConfig(_Section, frozen=True):
    """What `quantdsl bench latency` measures."""

    events: Annotated[
        int, Meta(ge=1_000, le=10_000_000, description="Events of the data at most")
    ] = 1_000_000
    rate: Annotated[
        float, Meta(ge=0, le=1e8, description="Events a second; 0: one after the other")
    ] = 0.0
    fail_over: Annotated[
        float, Meta(gt=0, le=1_000, description="Growth of a median, in %, that fails a comparison")
    ] = 10.0


class Config(_Section, frozen=True):
    """Settings of a run or a sweep. Every key may be left out."""

    data: DataConfig = DataConfig()
    account: AccountConfig = AccountConfig()
    fees: FeesConfig = FeesConfig()
    slippage: SlippageConfig = SlippageConfig()
    fills: FillsConfig = FillsConfig()
    venue: VenueConfig = VenueConfig()
    signals: SignalsConfig = SignalsConfig()
    universe: UniverseConfig = UniverseConfig()
    report: ReportConfig = ReportConfig()
    sweep: SweepConfig = SweepConfig()
    live: LiveConfig = LiveConfig()
    latency: LatencyConfig = LatencyConfig()
    paper: PaperConfig = PaperConfig()
    limits: LimitsConfig = LimitsConfig()
    journal: JournalConfig = JournalConfig()
    cockpit: CockpitConfig = CockpitConfig()
    alerts: AlertsConfig = AlertsConfig()
    feed: Annotated[tuple[FeedConfig, ...], Meta(description="Sources of a live session")] = ()
    params: Annotated[
        dict[str, bool | int | float | str], Meta(description="Values of the strategy's params")
    ] = {}


class Entry(msgspec.Struct, frozen=True):
    """One merged value: its key (`fees.taker_bps`), the value and who said it."""

    key: str
    value: Any
    source: str


class Resolved(msgspec.Struct, frozen=True):
    """The settings of a run and the source of each."""

    config: Config
    entries: tuple[Entry, ...]

    def source(self, key: str) -> str:
        """Who said a setting, or a whole table of free names where `key` is one of these."""
        return next((e.source for e in self.entries if f"{key}.".startswith(f"{e.key}.")), DEFAULT)

    def said(self, key: str, value: object) -> str:
        """A setting as whoever said it wrote it: `--points 3`, `points = 3`, or with its config."""
        source, name = self.source(key), key.rpartition(".")[2]
        if source not in CALLERS:
            return f"{source}: {key} = {value}"
        return f"{name} = {value}" if source == PYTHON else f"--{name.replace('_', '-')} {value}"


def resolve(
    said: Mapping[str, Any] | None = None,
    file: Path | None = None,
    strategy: Mapping[str, Any] | None = None,
    instrument: Mapping[str, Any] | None = None,
    caller: str = COMMAND_LINE,
) -> Resolved:
    """The merged settings; keys are flat (`fees.taker_bps`). ConfigError names key and line.

    Values that are `said` by the caller (one of CALLERS) and those of the strategy may be text:
    `"2.5"` sets a number.
    """
    values: dict[str, Any] = dict(flat(msgspec.to_builtins(Config())))
    sources = dict.fromkeys(values, DEFAULT)
    layers: list[tuple[Mapping[str, Any], str]] = [
        (instrument or {}, INSTRUMENT),
        (strategy or {}, STRATEGY),
    ]
    if file is not None:
        layers.append((load(file), f"config {file.name}"))
    layers.append((said or {}, caller))
    for layer, source in layers:
        for key, value in layer.items():
            _check_key(key, source, None)
            values[key], sources[key] = _digits(value), source
    try:
        config = msgspec.convert(_nested(values), Config, strict=False)
    except msgspec.ValidationError as error:
        key, reason = fault(error, Config, values)
        raise ConfigError(f"{sources.get(key.partition('[')[0], caller)}: {reason}") from None
    _hold_margins(config.account, sources)
    _hold_zone(values, sources["data.tz"])
    merged = dict(flat(msgspec.to_builtins(config)))
    entries = tuple(Entry(key, merged[key], sources[key]) for key in sorted(merged))
    return Resolved(config, entries)


def differing(began: Resolved, file: Path) -> list[str]:
    """The keys of which a config file says something else than the one that a run began with.

    What the caller says has no part in it.
    """
    now = {entry.key: entry for entry in resolve(file=file).entries}
    return [
        one.key
        for one in began.entries
        if one.source not in CALLERS
        and {one.source, now[one.key].source} - {DEFAULT, STRATEGY, INSTRUMENT}
        # One that was kept on disk has lists for tuples.
        and msgspec.json.encode(one.value) != msgspec.json.encode(now[one.key].value)
    ]


def load(path: Path) -> dict[str, Any]:
    """The flat values of a TOML file, checked; ConfigError names key, line and the nearest key."""
    text, document = read_toml(path)
    values = dict(flat(document))
    for key in _every(values):
        _check_key(key, str(path), text)
    try:
        msgspec.convert(_nested(values), Config)
    except msgspec.ValidationError as error:
        key, reason = fault(error, Config, values)
        raise ConfigError(f"{_place(str(path), text, key)}: {reason}") from None
    _hold_zone(values, _place(str(path), text, "data.tz"))
    return values


def _hold_zone(values: Mapping[str, Any], where: str) -> None:
    """ConfigError for a name of no time zone, even where no time of the data needs it."""
    try:
        zone(values.get("data.tz") or UTC)
    except ConfigError as wrong:
        raise ConfigError(f"{where}: data.tz: {wrong}") from None


def _hold_margins(account: AccountConfig, sources: Mapping[str, str]) -> None:
    """ConfigError where what may just be opened would be closed at once."""
    opens, keeps = account.margin_initial, account.margin_maintenance
    by, beside = (sources[f"account.margin_{one}"] for one in ("maintenance", "initial"))
    if keeps > opens:
        raise ConfigError(
            f"{by}: account.margin_maintenance is {keeps:g}, "
            f"above the account.margin_initial of {opens:g} ({beside}): what is opened with all of "
            "the equity would be closed at once\nhelp: leverage is 1 / margin_initial"
        )


def find(name: str) -> Path:
    """A config file by path, or a shipped one by its bare name (`us_equities_minute`)."""
    path = Path(name)
    if path.exists():
        return path
    folder = shipped("configs")
    found = folder / f"{name.removesuffix('.toml')}.toml"
    if found.parent == folder and found.exists():
        return found
    known = sorted(one.stem for one in folder.glob("*.toml"))
    raise ConfigError(f"{name}: there is no such file{_mean(name, known)} Shipped: {_list(known)}")


def schema() -> dict[str, Any]:
    """JSON Schema of a config file, for editors."""
    found = msgspec.json.schema(Config)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def keys() -> list[str]:
    """Every key that a config file may hold, free tables as their own name."""
    return [key for key, _ in flat(msgspec.to_builtins(Config()))]


_FREE = ("params", "data.columns", "account.rates", "sweep.ranges")


def flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by dotted key; a free table is one leaf, and dates become ISO text."""
    for name, value in document.items():
        key = f"{prefix}{name}"
        section = value or not (prefix or name == "feed")  # else a value, and a wrong one
        if isinstance(value, dict) and key not in _FREE and section:
            yield from flat(value, f"{key}.")
        else:
            yield key, value.isoformat() if isinstance(value, dt.date) else value


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in values.items():
        *tables, name = key.split(".")
        table = document
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
    return document


def _digits(value: Any) -> Any:
    """A number in text without the underscores between its digits."""
    grouped = isinstance(value, str) and re.fullmatch(r"\d+(_\d+)+(\.\d+)?", value)
    return value.replace("_", "") if grouped else value


def _every(values: Mapping[str, Any]) -> Iterator[str]:
    """The keys, and after one that is a list of tables those of each."""
    for key, value in values.items():
        yield key
        for number, table in enumerate(value if isinstance(value, list) else ()):
            if isinstance(table, dict):
                yield from (f"{key}[{number}].{name}" for name in table)


def _check_key(key: str, source: str, text: str | None) -> None:
    known = keys()
    listed, _, own = key.partition("].")
    if own:
        known = [f"{listed}].{name}" for name in FeedConfig.__struct_fields__]
    if key in known:
        return
    where = source if text is None else _place(source, text, key)
    if key.startswith("feed."):
        raise ConfigError(f"{where}: a session may have several feeds\nhelp: write [[feed]]")
    section, _, name = key.rpartition(".")
    tables = {one.rpartition(".")[0] or one for one in known}
    if key in tables:
        names = [one.removeprefix(f"{key}.") for one in known if one.startswith(f"{key}.")]
        raise ConfigError(f"{where}: {key} is a section, not a value\nhelp: it has {_list(names)}")
    inside = [one for one in known if one.startswith(f"{section}.")] or sorted(tables)
    elsewhere = [one for one in known if one.endswith(f".{name}")]
    mean = f"; did you mean {elsewhere[0]!r}?" if elsewhere else _mean(key, known)
    raise ConfigError(f"{where}: unknown key {key!r}{mean} Known: {_list(inside)}")


def place(path: Path, key: str) -> str:
    """`path:line` of a key, of the table around it where it is not there, or the path alone."""
    return _place(str(path), path.read_text(encoding="utf-8"), key)


def _place(path: str, text: str, key: str) -> str:
    lines = _lines(text)
    while key and key not in lines:
        key = re.sub(r"(^|\.)[^.\[\]]*$|\[[^\[\]]*\]$", "", key)
    return f"{path}:{lines[key]}" if key else path


def _lines(text: str) -> dict[str, int]:
    """The line of each key and table of a TOML file; `feed[1]` is the second table [[feed]]."""
    lines: dict[str, int] = {}
    counts: Counter[str] = Counter()
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*(\[{1,2})\s*([^\[\]]+?)\s*\]", line)
        if header is not None:
            table = header[2].replace('"', "")
            listed, _, rest = table.partition(".")
            if len(header[1]) == 2:
                counts[table] += 1
                table = f"{table}[{counts[table] - 1}]"
            elif counts[listed]:
                table = f"{listed}[{counts[listed] - 1}].{rest}"
            lines.setdefault(table, number)
        match = re.match(r'\s*"?([\w.-]+)"?\s*=', line)
        if match is not None:
            lines.setdefault(f"{table}.{match[1]}".lstrip("."), number)
    return lines


def _mean(word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else "."


def _list(names: list[str]) -> str:
    return ", ".join(names)
