"""`quantdsl fmt`: the one canonical layout of a strategy file."""

import stat
import sys
from difflib import unified_diff
from pathlib import Path

import click

from quantdsl.files import whole

EXIT_CHANGED = 1


@click.command("fmt")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not formatted.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
def command(files: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Format FILES in place; '-' reads stdin and writes stdout. There are no options of style."""
    changed = [file for file in files if _format(file, write=not (check or diff), diff=diff)]
    return EXIT_CHANGED if check and changed else 0


def _replace(file: Path, text: str) -> None:
    """Exchange a text that may be written to, and that keeps its mode."""
    with file.open("r+b"), whole(file) as part:
        part.write_text(text, encoding="utf-8")
        part.chmod(stat.S_IMODE(file.stat().st_mode))


def _format(file: Path, *, write: bool, diff: bool) -> bool:
    """Format one file; whether its text is not the canonical one."""
    from quantdsl.lang.format import format_source
    from quantdsl.lang.source import Source

    piped = str(file) == "-"
    text = sys.stdin.read() if piped else Source.read(file).text
    formatted = format_source(text, "<stdin>" if piped else str(file))
    if diff:
        lines = text.splitlines(keepends=True), formatted.splitlines(keepends=True)
        click.echo("".join(unified_diff(*lines, f"{file}", f"{file} (formatted)")), nl=False)
    elif write and piped:
        click.echo(formatted, nl=False)
    elif formatted != text:
        if write:
            _replace(file.resolve(), formatted)
        click.echo(f"{'formatted' if write else 'would format'} {file}", err=True)
    return formatted != text
