"""`quantdsl devices`: every GPU and the CPU, as sweeps may use them."""

from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from quantdsl.devices.facts import Fact


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """List what a sweep can run on: each GPU, and the CPU with its lanes."""
    from quantdsl.devices.facts import cpu_facts

    gpus, missing = _gpus()
    cpu = cpu_facts()
    if as_json:
        found = {
            "gpus": [_plain(facts) for facts in gpus],
            "no_gpu_because": missing,
            "cpu": _plain(cpu),
        }
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    for facts in gpus:
        _show(facts[0].text, facts[1:])
    if missing:
        click.echo(f"no GPU: {missing}\n")
    _show("cpu", cpu)


def _gpus() -> tuple[list[list["Fact"]], str]:
    """The facts of each GPU, or why there is none."""
    from quantdsl.devices.cuda.device import open_device
    from quantdsl.devices.cuda.driver import driver
    from quantdsl.devices.facts import gpu_facts
    from quantdsl.errors import UnavailableError

    try:
        return [gpu_facts(open_device(k)) for k in range(driver().device_count())], ""
    except UnavailableError as error:
        return [], str(error)


def _plain(facts: "list[Fact]") -> dict[str, object]:
    return {fact.key: fact.value for fact in facts}


def _show(title: str, facts: "list[Fact]") -> None:
    click.echo(title)
    width = max(len(fact.label) for fact in facts)
    for fact in facts:
        click.echo(f"  {fact.label:<{width}}  {fact.text}")
    click.echo()
