"""`quantdsl paper`: strategies on live data against a simulated venue, until it is stopped."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantdsl.cli.options import FILE, Amount, assignments, with_config
from quantdsl.config import differing, find, place, resolve
from quantdsl.errors import (
    EXIT_USER_ERROR,
    ConfigError,
    JournalError,
    QuantDSLError,
    UnavailableError,
)

if TYPE_CHECKING:
    from quantdsl.cockpit.history import History
    from quantdsl.cockpit.server import Cockpit
    from quantdsl.config import Config
    from quantdsl.live.manifest import Manifest
    from quantdsl.live.supervisor import Supervisor

DEFAULT_CONFIG = "paper_synthetic"
FULL_SPEED = 1e6
SESSIONS = Path("out/sessions")
STOPS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


@click.command("paper")
@click.argument("files", type=FILE, nargs=-1)
@with_config("Feeds, limits, costs (paper_synthetic).")
@click.option("--data", metavar="PATH", help="File to replay, or to warm a live feed up from.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set a param of the file.")
@click.option("--bars", metavar="5m", help="Override the clock of the strategies' bars.")
@click.option(
    "--speed", metavar="N|full", help="Times real time, where the feed's time is its own."
)
@click.option(
    "--session",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the session (default NAME in journal.folder, else in out/sessions); "
    "one that is there goes on.",
)
@click.option("--new", is_flag=True, help="Begin anew; a session that is there is put aside.")
@click.option("--flatten", is_flag=True, help="Close positions before the session ends.")
@click.option(
    "--for",
    "seconds",
    type=Amount(min=0, min_open=True),
    help="End after so many s.",
)
@click.option(
    "--device", metavar="DEVICE", default="", help="Of signals: auto, cpu, cuda:N, simulated."
)
@click.option("--no-cockpit", is_flag=True, help="No page in the browser.")
def command(files: tuple[Path, ...], config: Path | None, **options: Any) -> None:
    """Run the strategies FILES live against a simulated venue; no order ever leaves.

    Without a config it runs on an invented market whose clock starts inside a session. Everything
    is recorded: the same command after a kill goes on where the session was. Ctrl-C ends it.
    """
    from quantdsl.devices.choose import hold_live, hold_there
    from quantdsl.live.manifest import read

    if options["device"]:
        hold_live(options["device"])
        hold_there(options["device"])
    folder = _folder(files, options["folder"], config)
    manifest = _manifest(folder, files, config, options)
    _run(folder, manifest, options)
    if read(folder).strategies:
        _report(folder, manifest)


def _folder(files: tuple[Path, ...], named: Path | None, config: Path | None) -> Path:
    if named is not None:
        return named
    if not files:
        raise ConfigError("nothing to run\nhelp: name a strategy file, or a session with --session")
    sessions = resolve(file=config or find(DEFAULT_CONFIG)).config.journal.folder
    return (Path(sessions) if sessions else SESSIONS) / "-".join(file.stem for file in files)


def _manifest(
    folder: Path, files: tuple[Path, ...], config: Path | None, options: dict[str, Any]
) -> "Manifest":
    """That of the session that is there, or of a new one."""
    from quantdsl.backtest.values import chosen
    from quantdsl.check import compile_file
    from quantdsl.live import manifest as manifests
    from quantdsl.live.creation import Wish, create
    from quantdsl.live.running import held

    there = (folder / manifests.FILE).exists()
    speed = options["speed"]
    said = {
        "data.path": options["data"],
        "data.bars": options["bars"],
        "paper.speed": FULL_SPEED if speed == "full" else speed,
        "paper.flatten_at_stop": True if options["flatten"] else None,
    }
    given = {key: value for key, value in said.items() if value is not None}
    sets = assignments(options["sets"])
    if there and not options["new"]:
        with held(folder):
            manifest = _going_on(folder, files)
        _hold_settings(folder, manifest, config, given, sets)
        return manifest
    if not files:
        raise ConfigError(f"{folder}: is no session\nhelp: name a strategy file to begin one")
    for file in files if sets else ():  # before there is a session that never starts
        chosen(compile_file(file).strategy.params, sets)
    wishes = [Wish(file, sets) for file in files]
    chosen_config = config or find(DEFAULT_CONFIG)
    _hold_surroundings(
        chosen_config, page=not options["no_cockpit"], device=not options["device"]
    )
    with _put_aside(folder) if there else nullcontext():
        return create(folder, wishes, config=chosen_config, said=given)


def _hold_surroundings(path: Path, *, page: bool, device: bool) -> None:
    """ConfigError where the page, an alert or the device of a session could not do what its config
    says."""
    from quantdsl.cockpit.alerts import hold_channels
    from quantdsl.devices.choose import hold_there

    config = resolve(file=path).config
    try:
        key = "signals.device"
        if device:
            hold_there(config.signals.device)
        key = "alerts"
        hold_channels(config.alerts)
        if page and config.cockpit.enabled:
            from quantdsl.cockpit.server import hold_door

            key = "cockpit"
            hold_door(config.cockpit)
    except (ConfigError, UnavailableError) as wrong:
        raise ConfigError(f"{place(path, key)}: {wrong}") from None


@contextmanager
def _put_aside(folder: Path) -> Iterator[None]:
    """The session that is there gets another name; it keeps its own where no new one can begin."""
    from quantdsl.live.running import held

    aside = _unused(folder)
    with held(folder):  # one that runs would write into what is begun in its place
        folder.rename(aside)
    try:
        yield
    except BaseException:
        aside.rename(folder)
        raise
    click.echo(f"the session that was in {folder} is now in {aside}")


def _unused(folder: Path) -> Path:
    """The name of a folder beside this one that is not there yet."""
    number = 1
    while (found := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    return found


def _going_on(folder: Path, files: tuple[Path, ...]) -> "Manifest":
    """The manifest of a session that is there; ConfigError where the strategies are others now."""
    import hashlib

    from quantdsl.live.manifest import read

    manifest = read(folder)
    parts = {part.file: part for part in manifest.strategies}
    for file in files:
        part = parts.get(file.name)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if part is None or part.sources[part.file] != digest:
            raise ConfigError(
                f"{folder}: was begun with another text of {file.name}\n"
                "help: --new begins anew and puts the old session aside, --session DIR names "
                "another folder"
            )
    return manifest


def _hold_settings(
    folder: Path,
    manifest: "Manifest",
    config: Path | None,
    said: dict[str, Any],
    sets: dict[str, str],
) -> None:
    """ConfigError where a session that goes on is asked for other settings than it began with."""
    wished = {key: str(value) for key, value in said.items()}
    asked = {one.key: one.value for one in resolve(wished).entries}
    changed = set()
    for part in manifest.strategies:
        began = {one.key: one.value for one in part.settings.entries}
        others = [key for key in said if asked[key] != began[key]]
        others += [] if config is None else differing(part.settings, config)
        changed |= {_stated(key, began[key]) for key in others}
        changed |= {
            f"{name} = {part.params.get(name, 'its default')}"
            for name, value in sets.items()
            if part.params.get(name) != value
        }
    if changed:
        raise ConfigError(
            f"{folder}: goes on with the settings that it began with: {', '.join(sorted(changed))}"
            "\nhelp: leave the options out; --new begins anew and puts the old session aside"
        )


def _stated(key: str, value: Any) -> str:
    """A setting as it was, in TOML's words; a list or table by its name alone."""
    if isinstance(value, list | tuple | dict):
        return key
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"{key} = {'not set' if shown == '' else shown}"


def _run(folder: Path, manifest: "Manifest", options: dict[str, Any]) -> None:
    """Supervise the session until it ends, with its page, alerts and what the terminal shows."""
    from rich.console import Console

    from quantdsl.cockpit import terminal
    from quantdsl.cockpit.alerts import Alerts
    from quantdsl.cockpit.history import History
    from quantdsl.live.supervisor import Supervisor

    click.echo(f"{_headline(manifest)}\nsession  {folder}")
    history, stop = History(), threading.Event()
    config = manifest.strategies[0].settings.config
    asked: list[str] = []
    before = {
        number: signal.signal(number, lambda which, _: asked.append(STOPS[signal.Signals(which)]))
        for number in STOPS
    }
    supervisor = Supervisor(
        folder,
        history.take,
        history.say,
        simulated=manifest.simulated,
        device=options["device"],
    )
    alerts, cockpit = Alerts(history, config.alerts), None
    alerts.start()
    console = Console(highlight=False)
    shown = threading.Thread(target=terminal.show, args=(history, stop, console), daemon=True)
    by: list[str] = []
    try:
        if config.cockpit.enabled and not options["no_cockpit"]:
            cockpit = _cockpit(history, supervisor, folder, config)
        shown.start()
        by += _until_the_end(supervisor, asked, options["seconds"])
    finally:
        code = supervisor.close(*by)
        stop.set()
        if shown.ident is not None:
            shown.join()
        if cockpit is not None:
            cockpit.close()
        alerts.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if code:
        text = supervisor.told()
        last = text.rpartition("error: ")[2] if "error: " in text else text[-2000:]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else "failed"
        text = f"the session {how}{f': {last}' if last else ''}"
        if code != EXIT_USER_ERROR:  # that says itself how to mend it
            text += "\nhelp: the same command goes on with what was committed"
        raise QuantDSLError(text)
    if supervisor.latest is not None and supervisor.latest.state == "lost":
        raise QuantDSLError(
            "the session has ended by itself: for two seconds it heard nothing of this command\n"
            "help: the same command goes on with what was committed"
        )


def _cockpit(
    history: "History", supervisor: "Supervisor", folder: Path, config: "Config"
) -> "Cockpit":
    """The page, started; its link, with the token, goes to this terminal alone."""
    from quantdsl.cockpit.server import Cockpit

    cockpit = Cockpit(history, supervisor.send, folder, config.cockpit)
    cockpit.start()
    private = sys.stdout.isatty()
    where = cockpit.link if private else f"{cockpit.address.url}  (token: {folder}/cockpit.token)"
    click.echo(f"cockpit  {where}")
    return cockpit


def _until_the_end(
    supervisor: "Supervisor", asked: list[str], seconds: float | None
) -> list[str]:
    """Return when the session has ended, is asked to, or has run so long: who ends it, if any."""
    since: float | None = None
    while not supervisor.wait(0.1):
        if since is None and supervisor.latest is not None:  # it runs, or waits for its venue
            since = time.monotonic()
        if asked:
            return asked[:1]
        if seconds is not None and since is not None and time.monotonic() - since > seconds:
            return [f"--for {seconds:g}"]
    return []


def _headline(manifest: "Manifest") -> str:
    """What runs, on which feeds, in which time."""
    names = ", ".join(part.name for part in manifest.strategies)
    # A file that names no instrument is asked for by an invented symbol: said is what it holds.
    held = {
        place: terms["symbol"]
        for part in manifest.strategies
        for place, terms in zip(part.places, part.terms, strict=True)
    }
    feeds = ", ".join(
        f"{feed.feed} ({', '.join(held.get(k, s) for k, s in enumerate(feed.symbols, feed.first))})"
        for feed in manifest.feeds
    )
    own = "; its time is the market's own" if manifest.simulated else ""
    return f"{names} on {feeds}{own}. Paper only: no order leaves this machine."


def _report(folder: Path, manifest: "Manifest") -> None:
    """The tearsheet of each strategy; of one whose journal is damaged the damage, at the end."""
    from quantdsl.cli.output import finish
    from quantdsl.live.tearsheet import session_result

    refused: list[str] = []
    for part in manifest.strategies:
        try:
            found = session_result(folder, part.name)
        except ConfigError as nothing:
            click.echo(str(nothing))
            continue
        except JournalError as damaged:
            refused.append(f"{part.name} has no report: {damaged}")
            continue
        later = f"quantdsl report {folder} writes it once there is room, or elsewhere with --out"
        finish(found, folder / part.name / "report", way_out=later)
    if refused:
        raise JournalError("\n".join(refused))
