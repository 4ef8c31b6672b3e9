"""`quantdsl record`: a live feed into a folder of Parquet files."""

import signal
import threading
from pathlib import Path
from typing import Any

import click

from quantdsl.cli.options import LISTED, Amount
from quantdsl.data.counts import counted
from quantdsl.data.times import Interval
from quantdsl.errors import ConfigError
from quantdsl.live.feed import FeedSpec, open_feed
from quantdsl.live.record import record
from quantdsl.report.words import plural

_TICKS = ("book", "quotes", "trades", "funding")


@click.command("record")
@click.argument("feed")
@click.argument("symbols", nargs=-1, required=True)
@click.option("--out", required=True, metavar="FOLDER", help="New folder of the files.")
@click.option(
    "--ticks",
    default="book,quotes,trades",
    show_default=True,
    metavar=f"KIND{LISTED}",
    help=f"What is recorded, of {', '.join(_TICKS)}; a comma between.",
)
@click.option("--bars", default="", metavar="1m", help="Bars of this length too.")
@click.option(
    "--for", "seconds", type=Amount(0, min_open=True), help="Seconds; default: for ever."
)
@click.option(
    "--minutes-a-file",
    type=Amount(0, min_open=True),
    default=10.0,
    show_default=True,
    help="A recording that is killed loses the file at hand.",
)
@click.option("--stream-url", default="", metavar="URL", help="Listen here, not to the venue.")
@click.option("--rest-url", default="", metavar="URL", help="Ask here, not the venue.")
@click.option("--ca-file", default="", metavar="PEM", help="Trust these authorities alone.")
def command(
    feed: str,
    symbols: tuple[str, ...],
    out: str,
    ticks: str,
    bars: str,
    seconds: float | None,
    minutes_a_file: float,
    stream_url: str,
    rest_url: str,
    ca_file: str,
) -> None:
    """Record SYMBOLS of FEED with times of receipt until Ctrl-C, for example
    `record binance BTCUSDT --out btc`; then `backtest STRATEGY --data btc`."""
    chosen: Any = frozenset(one.strip() for one in ticks.split(",") if one.strip())
    if chosen - set(_TICKS):
        raise ConfigError(f"--ticks {ticks}: {', '.join(_TICKS)} can be recorded")
    length = str(Interval.parse(bars)) if bars else ""
    if not (chosen or length):
        raise ConfigError("nothing to record\nhelp: name --ticks or --bars")
    spec = FeedSpec(
        feed=feed,
        symbols=symbols,
        ticks=chosen,
        bars=(length,) if length else (),
        stream_url=stream_url,
        rest_url=rest_url,
        ca_file=ca_file,
    )
    click.echo(f"opening {feed} (on a new machine its decoders are compiled first) ...", err=True)
    opened = open_feed(spec)
    stop = threading.Event()
    former = {
        one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGINT, signal.SIGTERM)
    }
    timer = threading.Timer(seconds, stop.set) if seconds else None
    try:
        if timer is not None:
            timer.start()
        click.echo(f"recording {', '.join(symbols)} into {out}; Ctrl-C ends it", err=True)
        events = record(
            opened,
            Path(out),
            stop,
            ticks=bool(chosen),
            bars=length,
            seconds_a_file=60 * minutes_a_file,
        )
    finally:
        if timer is not None:
            timer.cancel()
        for one, handler in former.items():
            signal.signal(one, handler)
    health = opened.health
    click.echo(
        f"{plural(events, 'event')} of {plural(health.received, 'message')} in {out}; "
        f"{health.dropped:,} dropped, {plural(health.gaps, 'gap')}, "
        f"{plural(health.connects, 'connection')}"
    )
    for fault, count in sorted(health.faults.items()):
        click.echo(f"  {counted(count, fault)}")
