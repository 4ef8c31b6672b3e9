"""`quantdsl bench latency`: from an event to its order, stage by stage, beside the core's noise."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantdsl.cli.options import FILE, Amount, assignments, with_config
from quantdsl.errors import ConfigError

if TYPE_CHECKING:
    from quantdsl.live.latency import Report
    from quantdsl.live.latency_store import Change

EXIT_SLOWER = 1
SHIPPED = "strategies/skewed_maker.qdsl"
"""Measured where no file is named."""


@click.command("latency")
@click.argument("file", type=FILE, required=False)
@click.option("--data", metavar="PATH", help="Market data; without it the built-in market.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set a param of the file.")
@with_config("Costs, core and data, such as latency_bench.")
@click.option("--cpu", type=click.IntRange(0), help="Core of the engine.")
@click.option("--events", type=click.IntRange(1_000), help="Events of the data at most.")
@click.option("--rate", type=Amount(0), help="Events a second; 0: one after the other.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the run is saved (default out/latency/NAME.json).",
)
@click.option("--html", is_flag=True, help="Write a page beside the saved run.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="RUN",
    help="A saved run: exit code 1 if a median grew by more than --fail-over.",
)
@click.option("--fail-over", metavar="10%", help="Growth of a median that fails a comparison.")
@click.option("--json", "as_json", is_flag=True, help="Print the saved JSON document.")
def command(
    file: Path | None,
    data: str | None,
    sets: tuple[str, ...],
    config: Path | None,
    cpu: int | None,
    events: int | None,
    rate: float | None,
    out: Path | None,
    html: bool,
    compare: Path | None,
    fail_over: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Measure the strategy FILE (default: a shipped one) from an event to its order.

    Each stage is measured by itself on recorded events, in batches between two stamps of the cycle
    counter, and all of them together as they run live. With --rate an event that had to wait counts
    from when it was due. The run is saved as JSON; --compare holds it against an earlier one.
    """
    from quantdsl.live.latency_store import changes, grown, load, save
    from quantdsl.shipped import shipped

    if fail_over is not None and compare is None:
        raise click.UsageError("--fail-over is of a comparison: name a saved run with --compare")
    path = file or shipped(SHIPPED)
    earlier = load(compare) if compare else None
    more: dict[str, Any] = {
        "live.cpu": cpu, "latency.events": events, "latency.rate": rate,
        "latency.fail_over": _percent(fail_over),
    }  # fmt: skip
    options = {
        "data": data,
        "params": assignments(sets),
        "config": config,
        "more": {key: value for key, value in more.items() if value is not None},
    }
    report, most = _measured(path, options, quiet=as_json)
    saved = out or Path("out/latency") / f"{path.stem}.json"
    save(report, saved)
    if as_json:
        click.echo(saved.read_text(encoding="utf-8"), nl=False)
    else:
        _show(report)
        click.echo(f"\nsaved  {saved}")
    if html:
        _write_page(report, saved.with_suffix(".html"), told=not as_json)
    if earlier is None:
        return 0
    found = changes(earlier, report)
    slower = grown(found, most)
    _compare(found, slower, most, err=as_json)
    return EXIT_SLOWER if slower else 0


def _percent(text: str | None) -> str | None:
    return None if text is None else text.strip().removesuffix("%")


def _measured(path: Path, options: dict[str, Any], *, quiet: bool) -> tuple["Report", float]:
    """The report, and the growth that fails a comparison with an earlier one."""
    from quantdsl.backtest.prepare import hold_hosted, prepare
    from quantdsl.check import compile_file
    from quantdsl.live.latency import measure
    from quantdsl.live.machine import read_machine
    from quantdsl.live.placement import FEED, Wish, plan

    checked = compile_file(path)
    hold_hosted(checked, "a measurement of the turn of a session")
    prepared = prepare(checked, **options)
    settings = prepared.resolved.config
    wish = Wish("engine", prepared.checked.strategy.cpu)
    if settings.live.cpu >= 0:
        wish = Wish("engine", settings.live.cpu, prepared.resolved.source("live.cpu"))
    found = plan(read_machine(), [wish], [FEED])
    for line in [] if quiet else found.lines():
        click.echo(line)
    latency = settings.latency
    report = measure(prepared, found, events=latency.events, rate=latency.rate)
    return report, latency.fail_over / 100


def _show(report: "Report") -> None:
    from quantdsl.live.latency import PERCENTILES

    click.echo(
        f"\n{report.strategy} on {report.data}: {report.events:,} events, {report.orders:,} with "
        f"orders, core {report.core}, {report.cycles_per_ns:.3f} cycles a ns\n"
    )
    heads = [f"p{p:g}" for p in PERCENTILES]
    table = [["ns", "count", *heads, "max"]]
    for row in report.rows:
        percentiles = (f"{ns:,.1f}" for ns in row.percentiles_ns)
        table.append([row.name, f"{row.count:,}", *percentiles, f"{row.max_ns:,.0f}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    said = ["", *(_kept(report, row) for row in report.rows)]
    for (name, *cells), verdict in zip(table, said, strict=True):
        numbers = "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))
        click.echo(f"{name:<{widths[0]}}{numbers}{verdict}")
    click.echo()
    width = max(len(row.name) for row in report.rows)
    for row in report.rows:
        click.echo(f"{row.name:<{width}}  {row.how}")
    for note in report.notes:
        click.echo(f"note  {note}")


def _kept(report: "Report", row: Any) -> str:
    """Whether a promise is kept, where there is one: of ours by the median, of @latency by p99."""
    from quantdsl.live.latency import PERCENTILES, PROMISED, PROMISES_NS

    if row.p99_at_most_ns:
        verdict = row.percentiles_ns[PERCENTILES.index(99.0)] <= row.p99_at_most_ns
        return f"  p99 at most {row.p99_at_most_ns:,}: {'kept' if verdict else 'MISSED'}"
    if report.strategy != PROMISED or row.name not in PROMISES_NS:
        return ""
    promise, _ = PROMISES_NS[row.name]
    verdict = "kept" if row.percentiles_ns[0] <= promise else "MISSED"
    return f"  p50 at most {promise:g}: {verdict}"


def _compare(found: list["Change"], slower: list["Change"], most: float, *, err: bool) -> None:
    from quantdsl.live.latency_store import wide

    click.echo("\nmedian, ns                before         now", err=err)
    by_chance = [change for change in wide(found, most) if change not in slower]
    for change in found:
        verdict = "  SLOWER" if change in slower else ""
        verdict = verdict if change.judged else f"  {change.samples} samples: too few to judge"
        if change in by_chance:
            verdict = (
                f"  passes up to {change.before_most_ns:,.1f} before and down to "
                f"{change.now_least_ns:,.1f} now: may be chance"
            )
        click.echo(
            f"{change.name:<22}{change.before_ns:>10,.1f}{change.now_ns:>12,.1f}"
            f"{change.growth:>+9.1%}{verdict}",
            err=err,
        )
    if found and found[0].pace > 1.0:
        click.echo(f"the core itself is {found[0].pace - 1.0:.1%} slower: taken off", err=err)
    much = f"{100 * most:.12g}%"
    said = f"grew by more than {much}" if slower else f"no median grew by more than {much}"
    said += " beyond what passes differ by" if by_chance else ""
    click.echo(f"{len(slower)} of {len(found)} {said}" if slower else said, err=err)
    click.echo("single stages are differences of spans: the step that they make up counts", err=err)


def _write_page(report: "Report", path: Path, *, told: bool) -> None:
    from quantdsl.live.latency_page import page

    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as refused:
        raise ConfigError(f"{path}: cannot be written: {refused.strerror}") from None
    if told:
        click.echo(f"page   {path}")
