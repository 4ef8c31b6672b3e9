"""`quantdsl data check`: what a data file holds, and the instrument file that says it."""

from pathlib import Path

import click

from quantdsl.data.counts import counted, listed
from quantdsl.data.feed import Feed, open_feed, split_source
from quantdsl.data.instrument import Instrument, show_fraction
from quantdsl.data.recording import head_of, is_recording
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_data import open_tick_feed
from quantdsl.data.tick_feed import TickFeed
from quantdsl.data.tick_formats import files_of, recognised
from quantdsl.data.times import Interval, parse_instant, show_instant
from quantdsl.errors import ConfigError
from quantdsl.files import create

EXIT_BAD_ROWS = 1


@click.group("data")
def command() -> None:
    """Look into market data and write the config that makes it explicit."""


@command.command()
@click.argument("path")
@click.option("--write-instrument", "target", metavar="TOML", help="Write the instrument found.")
@click.option("--tz", default="", metavar="ZONE", help="Zone of times that carry none.")
@click.option("--time-format", default=None, metavar="FORM", help="strptime form of the times.")
@click.option("--time", type=click.Choice(["open", "close"]), default="open", show_default=True)
@click.pass_context
def check(
    ctx: click.Context, path: str, target: str | None, tz: str, time_format: str | None, time: str
) -> None:
    """Print rows, span, zone, gaps, bad rows and the instrument of PATH (a file, a folder, or
    FILE#TICKER for one of many); bars or ticks. The exit code is 1 where there are bad rows."""
    if not split_source(path)[0].strip():  # the folder where one stands is named '.'
        raise ConfigError("PATH names nothing: give a file or a folder")
    spec = DataSpec(
        instruments=(SourceSpec(source=path),),
        tz=tz,
        time_format=time_format,
        time="close" if time == "close" else "open",
        bad_rows="drop",
    )
    if _holds_ticks(path):
        ticks = open_tick_feed(spec, 0)
        facts, instrument = _tick_facts(ticks, tz), ticks.instrument
        bad = ticks.reader.tally.dropped
    else:
        feed = open_feed(spec, 0)
        facts, instrument, bad = _facts(feed, tz), feed.instrument, feed.reader.dropped
    for label, value in facts:
        click.echo(f"{label:<12}{value}")
    if target is not None:
        _write(Path(target), instrument)
        click.echo(f"{'written':<12}{target}, for 'instruments' under [data] of a config")
    if bad:
        ctx.exit(EXIT_BAD_ROWS)


@command.command()
@click.argument("venue")
@click.argument("symbol")
@click.argument("interval")
@click.option("--from", "start", required=True, metavar="DATE", help="Open of the first bar, UTC.")
@click.option("--to", "end", metavar="DATE", help="No bar closes after this (default: now).")
@click.option("--out", metavar="PATH", help="File (default VENUE-SYMBOL-INTERVAL.parquet).")
@click.option("--rest-url", default="", metavar="URL", help="Ask here in place of the venue.")
@click.option("--ca-file", default="", metavar="PEM", help="Trust these authorities alone.")
def fetch(
    venue: str,
    symbol: str,
    interval: str,
    start: str,
    end: str | None,
    out: str | None,
    rest_url: str,
    ca_file: str,
) -> None:
    """Fetch bars of SYMBOL from VENUE into a Parquet file, for example
    `data fetch binance BTCUSDT 1m --from 2024-01-01`. Run again, it goes on behind the last bar."""
    from quantdsl.cli.output import progress_bar
    from quantdsl.live.feed import now_ns
    from quantdsl.live.fetch import Wanted, fetch, source_of

    now = now_ns()
    end_ns = min(parse_instant(end), now) if end else now
    wanted = Wanted(venue, symbol, Interval.parse(interval), parse_instant(start), end_ns)
    if wanted.first_ns >= end_ns:
        raise ConfigError(f"--from {start} lies behind --to {end or 'now'}: there is nothing there")
    path = Path(out or f"{venue}-{symbol}-{interval}.parquet")
    source = source_of(venue, rest_url, ca_file)
    with progress_bar(f"{symbol} {interval}") as progress:

        def told(reached_ns: int) -> None:
            if progress is not None:
                progress(reached_ns - wanted.first_ns, end_ns - wanted.first_ns)

        new = fetch(source, wanted, path, told=told)
    click.echo(f"{new:,} new bars in {path}")


def _holds_ticks(path: str) -> bool:
    """Whether PATH, or the part before its #, is a file of ticks, or a folder
    of such files."""
    file = Path(split_source(path)[0])
    if is_recording(file):
        return head_of(file).ticks
    files = files_of(file) if file.is_dir() else [file] if file.is_file() else []
    return bool(files) and all(recognised(one) is not None for one in files)


def _tick_facts(feed: TickFeed, tz: str) -> list[tuple[str, str]]:
    for _ in feed.chunks(0):
        pass  # what is bad is counted on the way
    scan, reader = feed.scan, feed.reader
    length, after = scan.longest_gap
    said = feed.said_of_time()
    dropped = reader.tally.dropped
    first, last = show_instant(feed.first_ts), show_instant(feed.last_ts)
    facts = [
        ("data", f"{feed.name} ({reader.format})"),
        ("rows", f"{feed.said_of_kinds()}; {counted(scan.messages, 'message')}"),
        ("span", f"{first} to {last}"),
        ("zone", "fixed by the data themselves, or by their format" if not tz else f"{tz} if none"),
        ("time", said[0] if said else "of the venue and of receipt, both in the data"),
        ("gaps", f"the longest silence is {_length(length)}, after {show_instant(after)}"),
        ("bad rows", f"{listed(dropped)}; the first: {reader.tally.first}" if dropped else "none"),
        ("prices", f"{scan.price_min:.12g} to {scan.price_max:.12g}"),
        ("volume", f"up to {scan.volume_max:,.12g} a message"),
        ("instrument", feed.instrument.statement()),
        ("sha256", reader.sha256()),
    ]
    left_out = reader.tally.left_out
    if left_out:
        facts.insert(7, ("counted", listed(left_out)))
    return facts


def _facts(feed: Feed, tz: str) -> list[tuple[str, str]]:
    scan, reader = feed.scan, feed.reader
    first, last = show_instant(scan.first_ts), show_instant(scan.last_ts)
    if reader.dates_only:
        zone = "dates without a time of day"
    elif reader.zoned:
        zone = "fixed by the data themselves"
    else:
        zone = f"none in the data, read as {tz or 'UTC (--tz names another)'}"
    length, after = scan.longest_gap
    gaps = f"{scan.gaps:,} within a day; the longest of all is {_length(length)}"
    facts = [
        ("data", feed.name),
        ("rows", f"{scan.count:,} bars of {scan.interval}"),
        ("span", f"{first} to {last}"),
        ("zone", zone),
        ("time", f"a row's time is its bar's {'close' if feed.at_close else 'open'}"),
        ("gaps", f"{gaps}, after {show_instant(after)}"),
        ("bad rows", _bad_rows(feed)),
        ("prices", f"{scan.price_min:.12g} to {scan.price_max:.12g}"),
        ("volume", f"up to {scan.volume_max:,.12g}" if reader.has_volume else "none"),
        ("instrument", feed.instrument.statement()),
        ("sha256", reader.sha256()),
    ]
    if scan.jump is not None:
        jump = scan.jump
        jumps = f"{scan.jumps:,} as by a split; the first is {jump.before:g} to {jump.after:g}"
        facts.insert(-2, ("jumps", f"{jumps}, at {show_instant(jump.ts)}"))
    if reader.close_only:
        facts.insert(2, ("columns", "closes only: a market order fills at the next close"))
    return facts


def _bad_rows(feed: Feed) -> str:
    dropped = feed.reader.dropped
    if not dropped:
        return "none"
    return f"{listed(dropped)}; the first: {feed.reader.first_fault}"


def _length(ns: int) -> str:
    """A length of time in the largest unit that it fills."""
    for unit in ("1d", "1h", "1m", "1s"):
        size = Interval.parse(unit).nominal_ns
        if ns >= size:
            return f"{ns / size:.4g}{unit[1]}"
    return f"{ns / 1e6:.4g}ms"


def _write(path: Path, one: Instrument) -> None:
    """The instrument as TOML with what each key means; an existing file is not touched."""
    lines = ["[[instrument]]"]
    for comment, key, value in (
        ("Name in strategies and data, without the venue.", "symbol", one.symbol),
        ("Smallest price step, in currency, exact: 0.01 or 1/32.", "tick", show_fraction(one.tick)),
        ("Smallest size step, in units, exact.", "lot", show_fraction(one.lot)),
        ("Money that one unit gains when the price rises by 1.", "multiplier", "1"),
        ("Currency of its prices.", "currency", one.currency),
        ("traded: prices as they were paid; adjusted: changed since.", "prices", one.prices),
    ):
        lines += [f"# {comment}", f'{key} = "{value}"']
    try:
        create(path, "\n".join(lines) + "\n")
    except FileExistsError:
        raise ConfigError(f"{path}: exists already; remove it or name another file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
