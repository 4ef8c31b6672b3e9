"""`quantdsl halt`: no order of a session goes out any more, said from a terminal."""

from pathlib import Path

import click


@click.command("halt")
@click.argument("session", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(session: Path) -> None:
    """Halt all strategies of SESSION: working orders are cancelled, and no order goes out.

    It is said by a file in the folder of the session. While that is there the session stays
    halted, when it is started again too, and nobody arms it.
    """
    from quantdsl.live.manifest import read
    from quantdsl.live.session import HALT

    read(session)
    file = session / HALT
    file.touch(mode=0o600)
    click.echo(f"{session} halts; to trade again remove {file}, then arm it in the cockpit")
