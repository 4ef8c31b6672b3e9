"""`quantdsl bench kernels`: the kernels of a file on a device, beside one core."""

from pathlib import Path

import click

EXIT_DIFFERENT = 1
INSTRUMENTS_MAX = 1_000_000
SIZE_MAX = 2**31


@click.command("kernels")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--device",
    default="simulated",
    show_default=True,
    metavar="simulated|cuda:N",
    help="Where to run them.",
)
@click.option(
    "--instruments",
    type=click.IntRange(1, INSTRUMENTS_MAX),
    default=100,
    show_default=True,
    help="Blocks of a launch: each has windows of its own, drawn.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="A size of tensors; 64 where it is not given.",
)
def command(file: Path, device: str, instruments: int, sizes: tuple[str, ...]) -> int:
    """Run each kernel of FILE on a device, and hold its bits to one core's.

    The exit code is 1 where they differ.
    """
    from quantdsl.backtest.kernel_bench import compared
    from quantdsl.check import compile_file

    checked = compile_file(file, library_too=True)
    found = list(compared(checked, device, instruments, dict(map(_size, sizes))))
    for one in found:
        click.echo(str(one))
    return 0 if all(one.same for one in found) else EXIT_DIFFERENT


def _size(said: str) -> tuple[str, int]:
    """`n=4096`."""
    from quantdsl.errors import ConfigError

    name, _, number = said.partition("=")
    if not number.isdigit() or not 0 < int(number) <= SIZE_MAX:
        raise ConfigError(f"--size {said}: write a name and a number, such as n=4096")
    return name, int(number)
