"""`quantdsl doctor`: what this machine lacks, and the command that mends each lack."""

import click
import msgspec

EXIT_LACKS = 1


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> int:
    """List what this machine has and lacks, each lack with the command that mends it.

    The exit code is 1 only where something is missing that every use of quantdsl needs; what makes
    latency steady (an isolated core, the governor, rights) may be missing on any machine.
    """
    from quantdsl.live.checkup import checkup
    from quantdsl.live.machine import read_machine
    from quantdsl.live.placement import FEED, GPU, JOURNAL, Wish, plan

    findings = checkup()
    gpu = [GPU] if any(one.name == "GPU" and one.ok for one in findings) else []
    placement = plan(read_machine(), [Wish("engine", None)], [FEED, JOURNAL, *gpu])
    code = EXIT_LACKS if any(one.needed and not one.ok for one in findings) else 0
    if as_json:
        document = {
            "findings": [one._asdict() for one in findings],
            "placement": {seat.thread: seat.core for seat in placement.seats},
        }
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return code
    width = max(len(one.name) for one in findings)
    for one in findings:
        mark = "ok     " if one.ok else ("MISSING" if one.needed else "lacks  ")
        click.echo(f"{mark}  {one.name:<{width}}  {one.found}")
        if one.mend:
            click.echo(f"{'':9}{'':<{width}}  $ {one.mend}")
    click.echo()
    click.echo(placement.lines()[0])
    return code
