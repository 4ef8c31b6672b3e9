"""`quantdsl new`: a commented starter strategy with its test."""

import re
from importlib import resources
from pathlib import Path
from string import Template

import click

from quantdsl.errors import ConfigError
from quantdsl.files import create

NAME = re.compile(r"[a-z][a-z0-9_]*")


def starter(name: str) -> str:
    """The text of a new strategy for the file NAME.qdsl."""
    template = (resources.files("quantdsl.cli") / "starter.qdsl").read_text(encoding="utf-8")
    title = "".join(word.capitalize() for word in name.split("_"))
    return Template(template).substitute(name=title, file=f"{name}.qdsl")


@click.command("new")
@click.argument("name")
def command(name: str) -> None:
    """Write NAME.qdsl, a commented strategy with its test; never overwrites a file."""
    path = Path(name).with_suffix(".qdsl")
    if not NAME.fullmatch(path.stem):
        raise ConfigError(
            f"'{path.stem}' cannot be the name of a strategy file\n"
            "help: small letters, digits and _, a letter first, such as my_idea"
        )
    try:
        create(path, starter(path.stem))
    except FileExistsError:
        raise ConfigError(
            f"{path} exists already and is left as it is\nhelp: choose another name"
        ) from None
    click.echo(f"wrote {path}\n\n  quantdsl check {path}\n  quantdsl test {path}")
    click.echo(f"  quantdsl backtest {path}")
