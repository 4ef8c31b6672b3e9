"""`quantdsl cache`: the compiled strategies that are kept on disk."""

import click

from quantdsl.report.words import plural


@click.group("cache")
def command() -> None:
    """Show or clear the cache of compiled strategies."""


@command.command("info")
def info() -> None:
    """Say where the cache is and how much it holds."""
    from quantdsl.codegen.cache import Cache

    held = Cache().info()
    entries = f"{held.entries:,} {'entry' if held.entries == 1 else 'entries'}"
    click.echo(f"{held.directory}\n{entries}, {held.size_bytes / 2**20:.1f} MiB")


@command.command("clear")
def clear() -> None:
    """Remove every entry; strategies are compiled anew when they are next used."""
    from quantdsl.codegen.cache import Cache

    click.echo(f"removed {plural(Cache().clear(), 'compiled module')}")
