"""Options that several commands share, and what they take."""

import math
import re
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import click

from quantdsl.errors import ConfigError

Command = Callable[..., Any]
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
LISTED = ",..."
"""How the metavar of an option ends that takes several values, joined by commas."""

_MARKET = (
    click.option(
        "--data",
        metavar=f"PATH{LISTED}",
        help="CSV, Parquet or Arrow file, A,B for several, or a folder of them; without it the "
        "built-in market.",
    ),
    click.option(
        "--from", "start", metavar="DATE", help="Start trading here; earlier bars warm up."
    ),
    click.option("--to", "end", metavar="DATE", help="Stop before this date."),
    click.option("--bars", metavar="5m", help="Override the clock of the strategy's bars."),
    click.option("--session", metavar="NAME|none", help="Override the strategy's session."),
    click.option(
        "--tz",
        metavar="ZONE",
        help="Time zone of times that name none, --from and --to too (default UTC).",
    ),
    click.option(
        "--bad-rows",
        type=click.Choice(["stop", "drop"]),
        help="Stop at a bad row of the data (default), or leave it out and count it.",
    ),
)


class Amount(click.FloatRange):
    """A number of seconds, minutes or the like: one of a range, and neither nan nor inf."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


def with_config(told: str) -> Callable[[Command], Command]:
    """Gives a command the config by its file, or a shipped one by its name."""
    return click.option("--config", callback=_config_found, metavar="FILE|NAME", help=told)


def _config_found(
    _context: click.Context, _option: click.Parameter, name: str | None
) -> Path | None:
    from quantdsl.config import find

    if name is not None and not name.strip():  # an unset variable of a shell: nothing has a cost
        raise ConfigError("--config names nothing\nhelp: leave it out, or name a config")
    return None if name is None else find(name)


SIZE_MAX = 2**31
SIZES = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="A size of tensors of kernels; 64 where it is not given.",
)
HOSTS = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar=f"MODULE{LISTED}",
    callback=lambda _context, _option, said: tuple(name for one in said for name in one.split(",")),
    help="Let @host run these Python modules.",
)


def hold_said(command: click.Command, args: Sequence[str]) -> None:
    """ConfigError where an option of one value is given two, of which all but the last would be
    left out, or a path is empty, as an unset variable of a shell leaves it: it is this folder.
    """
    options = [copy(one) for one in command.params if isinstance(one, click.Option)]
    alone = {str(one.name): one for one in options if not (one.multiple or one.count)}
    for one in alone.values():
        one.multiple = True
    context = click.Context(command, resilient_parsing=True)
    parser = click.Command(None, params=[*options]).make_parser(context)
    given, rest, _ = parser.parse_args([*args])
    for name, one in alone.items():
        said = list(dict.fromkeys(map(str, given.get(name, ()))))
        option = max(one.opts, key=len)
        if isinstance(one.type, click.Path) and "" in said:
            raise ConfigError(f"{option} names nothing\nhelp: leave it out, or name a place")
        if len(said) > 1:
            several = str(one.metavar).endswith(LISTED)
            mend = f"name all at once, {option} {','.join(said)}" if several else "give it once"
            raise ConfigError(f"{option} is given as {' and as '.join(said)}\nhelp: {mend}")
    if isinstance(command, click.Group) and rest and (inner := command.commands.get(rest[0])):
        hold_said(inner, rest[1:])


def of_market(command: Command) -> Command:
    """The command with the options that say which market data a run sees."""
    for option in reversed(_MARKET):
        command = option(command)
    return command


def sizes_said(said: tuple[str, ...]) -> dict[str, int]:
    """`("n=4096",)` as a mapping; ConfigError where one is no size."""
    sizes = {}
    for name, number in assignments(said, "--size", "NAME=N, such as n=4096").items():
        if not re.fullmatch("[0-9]{1,10}", number) or not 0 < int(number) <= SIZE_MAX:
            raise ConfigError(
                f"--size {name}={number}: a size is a number from 1 to {SIZE_MAX:,}, as n=4096"
            )
        sizes[name] = int(number)
    return sizes


def assignments(
    pairs: tuple[str, ...],
    option: str = "--set",
    form: str = "NAME=VALUE, such as fast=10",
) -> dict[str, str]:
    """`("fast=5", "slow=20")` as a mapping; ConfigError where one has no name, no value or two."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise ConfigError(f"{option} {pair} sets nothing\nhelp: write {option} {form}")
        if name.strip() in values:
            raise ConfigError(f"{option} gives {name.strip()} twice\nhelp: write {option} {form}")
        values[name.strip()] = value.strip()
    return values
