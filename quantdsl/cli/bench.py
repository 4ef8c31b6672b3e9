"""`quantdsl bench device`: what a device does in a second, each figure beside its promise."""

from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from quantdsl.devices.measure import Figure


@click.group("bench")
def command() -> None:
    """Measure this machine."""


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

    name, figures = of_device(choice, lambda line: click.echo(line, err=True))
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
