"""`quantdsl help`: what a function, an order, a limit or a setting of the language does."""

from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING

import click

from quantdsl.errors import ConfigError

if TYPE_CHECKING:
    from quantdsl.cli.reference import Entry

LABELS = ("formula", "warm-up", "cost", "example", "note", "source")


@click.command("help")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Describe NAME, such as ta.sma, or list what there is in ta; without it list all."""
    from quantdsl.cli.reference import entries, find

    if name is None:
        for line in _listing(entries()):
            click.echo(line)
        return
    found = find(name)
    within = tuple(entry for entry in entries() if entry.section == name.removesuffix("."))
    if not found and within:
        for line in _listing(within):
            click.echo(line)
        return
    if not found:
        known = [entry.name for entry in entries()]
        bare = [full.rpartition(".")[2] for full in known]
        near = get_close_matches(name, list(dict.fromkeys(known + bare)), n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "'quantdsl help' lists all there is"
        )
        raise ConfigError(f"the language has no '{name}'\nhelp: {hint}")
    click.echo("\n\n".join(_page(entry) for entry in found))


def _page(entry: "Entry") -> str:
    lines = [click.style(entry.signature, bold=True), f"  {entry.summary}"]
    for label in LABELS:
        if label in entry.details:
            told = entry.details[label].replace("\n", "\n" + " " * 11)
            lines.append(f"  {label:<8} {told}")
    return "\n".join(lines)


def _listing(entries: "tuple[Entry, ...]") -> list[str]:
    """Names with their summaries, each section under its own heading."""
    lines = []

    def section(entry: "Entry") -> str:
        return entry.section

    for heading, members in groupby(sorted(entries, key=section), section):
        lines += ["", click.style(heading, bold=True)]
        summaries: dict[str, str] = {}
        for entry in members:  # of an overloaded name the first form, which tells of the others
            summaries.setdefault(entry.name, entry.summary)
        lines += [f"  {name:<22} {summary}" for name, summary in summaries.items()]
    return lines[1:]
