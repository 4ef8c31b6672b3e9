"""`quantdsl config`: check a configuration, show where each value comes from, print its schema."""

from pathlib import Path
from typing import Any

import click

from quantdsl import config
from quantdsl.cli.options import FILE
from quantdsl.errors import ConfigError, FeedError, SessionError


@click.group("config")
def command() -> None:
    """Check a configuration, or show where each value comes from."""


@command.command()
@click.argument("files", nargs=-1, required=True)
def check(files: tuple[str, ...]) -> None:
    """Say whether config files are right; the first mistake is named with its line."""
    for name in files:
        path = config.find(name)
        values = config.load(path)
        _hold_session(path, values)
        _hold_feeds(path, values)
        click.echo(f"{path}: {len(values)} keys, all known and in range")


@command.command()
@click.argument("file", required=False)
@click.option("--strategy", type=FILE, help="A strategy file, whose 'backtest:' counts too.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="As on a command line.")
@click.option("--changed", is_flag=True, help="Only what is not at its default.")
def show(file: str | None, strategy: Path | None, pairs: tuple[str, ...], changed: bool) -> None:
    """Print each merged value of the config FILE with its source.

    The command line comes first, then the config, then the strategy's backtest block, then the
    default. What the data and an instrument's own file say is known in a run only.
    """
    path: Path | None = config.find(file) if file else None
    resolved = config.resolve(_settings(pairs), path, _stated_by(strategy) if strategy else None)
    rows = [entry for entry in resolved.entries if not changed or entry.source != config.DEFAULT]
    shown = [(entry.key, _text(entry.value), entry.source) for entry in rows]
    widths = [max((len(row[column]) for row in shown), default=0) for column in (0, 1)]
    for key, value, source in shown:
        click.echo(f"{key:<{widths[0]}} = {value:<{widths[1]}}  # {source}")


@command.command()
def schema() -> None:
    """Print the JSON Schema of config files, for editors."""
    import json

    click.echo(json.dumps(config.schema(), indent=2))


def _hold_session(path: Path, values: dict[str, Any]) -> None:
    """SessionError with its line for a session of no calendar; a run sees it by its data."""
    from quantdsl.data.calendar import hold_known

    try:
        hold_known(values.get("data.session", ""))
    except SessionError as wrong:
        place = config.place(path, "data.session")
        raise SessionError(f"{place}: data.session: {wrong}") from None


def _hold_feeds(path: Path, values: dict[str, Any]) -> None:
    """FeedError with its line for a feed that there is not; else a session alone sees it."""
    from quantdsl.live.feed import factory_of

    for number, feed in enumerate(values.get("feed", ())):
        try:
            factory_of(feed["feed"])
        except FeedError as wrong:
            place = config.place(path, f"feed[{number}]")
            raise FeedError(f"{place}: {wrong}") from None


def _stated_by(strategy: Path) -> dict[str, object]:
    from quantdsl.backtest.prepare import stated_by
    from quantdsl.check import compile_file

    return stated_by(compile_file(strategy))


def _settings(pairs: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set {pair}: write KEY=VALUE, for example fees.taker_bps=2")
        settings[key.strip()] = value.strip()
    return settings


def _text(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {_text(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if value else "{}"
    return str(value)
