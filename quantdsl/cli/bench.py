"""`quantdsl bench`: what can be measured; `bench device`: what a device does in a second."""

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import quantdsl
from quantdsl.cli import kernels, latency

if TYPE_CHECKING:
    from quantdsl.devices.measure import Figure


@click.group("bench", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Measure this machine; without a command, list every benchmark there is."""
    if context.invoked_subcommand is not None:
        return
    for name, one in command.commands.items():
        click.echo(f"quantdsl bench {name:<10} {one.get_short_help_str(80)}")
    folder = Path(quantdsl.__file__).parents[1] / "bench"
    promises = [(path, _promise(path)) for path in sorted(folder.glob("bench_*.py"))]
    if promises:
        click.echo("\nin this checkout, by pytest bench/FILE --benchmark-enable")
    for path, promise in promises:
        click.echo(f"  {path.name:<26} {promise}")


def _promise(path: Path) -> str:
    """The first line of a bench, which says what it holds."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0].removeprefix("Promise: ")


command.add_command(latency.command)
command.add_command(kernels.command)


@command.command()
@click.option(
    "--device",
    "choice",
    default="auto",
    show_default=True,
    metavar="auto|cpu|cuda:N",
    help="What to measure.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def device(choice: str, as_json: bool) -> None:
    """Measure starts, waits, copies, bandwidths and rates of a device.

    Where a figure cannot be measured the line says why. A figure that misses its promise is no
    error: another process may use the device.
    """
    from quantdsl.devices.measure import PROMISES, of_device
    from quantdsl.devices.measured import keep

    name, figures = of_device(choice, lambda line: click.echo(line, err=True))
    on_gpu = any(figure.promised and figure.name == "f64 rate" for figure in figures)
    keep(name, {figure.name: figure.value for figure in figures}, gpu=on_gpu)
    if as_json:
        found = {
            figure.name.replace(" ", "_"): {
                "value": figure.value,
                "unit": PROMISES[figure.name].unit,
                "promise": PROMISES[figure.name].value,
                "kept": figure.kept,
                "note": figure.note,
            }
            for figure in figures
        }
        text = msgspec.json.format(msgspec.json.encode({"device": name, "figures": found}))
        click.echo(text.decode())
        return
    click.echo(name)
    for figure in figures:
        click.echo(_line(figure))


def _line(figure: "Figure") -> str:
    from quantdsl.devices.measure import PROMISES

    promise = PROMISES[figure.name]
    if figure.value is None:
        return f"  {figure.name:<22}{'':>12}  {figure.note}"
    bound = "at most" if promise.at_most else "at least"
    promised = f"{bound} {promise.value:g} {promise.unit}"
    verdict = {True: "kept", False: "MISSED", None: "a GPU's"}[figure.kept]
    measured = f"{figure.value:,.2f}" if figure.value < 100 else f"{figure.value:,.0f}"
    told = f"{promised:<24} {verdict:<7} {figure.note}"
    return f"  {figure.name:<22}{measured:>12} {promise.unit:<7} {told}"
