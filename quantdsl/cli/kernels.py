"""`quantdsl bench kernels`: the kernels of a file on a device, beside one core."""

from pathlib import Path

import click

from quantdsl.cli.options import SIZES, sizes_said

EXIT_DIFFERENT = 1
INSTRUMENTS_MAX = 1_000_000


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
@SIZES
def command(file: Path, device: str, instruments: int, sizes: tuple[str, ...]) -> int:
    """Run each kernel of FILE on a device, and hold its bits to one core's.

    The exit code is 1 where they differ. Where @fast lets the factors of a product be rounded, how
    far off it is stands there, and the exit code is 1 where that is more than rounding explains.
    """
    from quantdsl.backtest.kernel_bench import compared
    from quantdsl.check import compile_file

    checked = compile_file(file, library_too=True)
    found = list(compared(checked, device, instruments, sizes_said(sizes)))
    for one in found:
        click.echo(str(one))
    return 0 if all(one.holds for one in found) else EXIT_DIFFERENT
