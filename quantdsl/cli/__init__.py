"""The command line `quantdsl`: one module a command, imported only when that command is used.

Errors end here, at one place: a QuantDSLError, a full disk or memory or a folder that cannot be
written is a message on stderr and exit code 2, anything else is our own fault (QD9001): a report
file and exit code 70. No command prints a traceback.
"""

import enum
import gc
import importlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import click

from quantdsl import __version__
from quantdsl.cli.options import hold_said
from quantdsl.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USER_ERROR, QuantDSLError
from quantdsl.frames import in_one_piece

GARBAGE_OBJECTS = 50_000
"""New objects between two searches for cycles. Python's own 700 cost a sixth of a backtest: what a
command imports and builds is no garbage, and is walked again and again."""
TELL_AGAIN_S = 0.05
"""After that what dropped a Ctrl-C is most likely over; if it is not, it is told once more."""

COMMANDS = {
    "demo": ("demo", "Backtest a shipped strategy on built-in data and write its report."),
    "new": ("new", "Write a commented starter strategy and its test."),
    "check": ("check", "Say what is wrong with a strategy, and what it costs to run."),
    "fmt": ("fmt", "Format strategy files in the one canonical style."),
    "test": ("test_cmd", "Run the tests that a strategy file contains."),
    "backtest": ("backtest", "Run a strategy over market data and write a report."),
    "sweep": ("sweep", "Run a strategy at many points of its params and compare them."),
    "signals": ("signals", "Compute every equation of a strategy as one table."),
    "paper": ("paper", "Run strategies on live data against a simulated venue."),
    "halt": ("halt", "Let no order of a live session go out any more."),
    "report": ("report", "Write the report of a live session."),
    "verify": ("verify", "Compare what every target of this machine does with a strategy."),
    "compare": ("compare", "Show what differs between two runs, or a session and recorded data."),
    "replay": ("replay", "Run a session again from its journal, and prove that it is the same."),
    "journal": ("journal", "Look into the journal of a session, copy it out, or verify it."),
    "sim": ("sim", "Run sessions whose feed, disk and process fail, and hold them to promises."),
    "devices": ("devices", "List the GPUs and the CPU that a sweep can use."),
    "bench": ("bench", "Measure a device, or a strategy from an event to its order."),
    "doctor": ("doctor", "List what this machine lacks, with the command that mends each."),
    "record": ("record", "Record a live feed into files that backtests read."),
    "data": ("data", "Look into market data and write the config that makes it explicit."),
    "config": ("config_cmd", "Check a configuration, or show where each value comes from."),
    "compile": ("compile", "Compile a strategy for a CPU or GPU that need not be here."),
    "explain": ("explain", "Explain an error code, or print a stage of the compiler."),
    "help": ("help_cmd", "Describe a function, an indicator or a word of the language."),
    "cache": ("cache", "Show or clear the cache of compiled strategies."),
}
"""Name -> (module under quantdsl.cli, line of `quantdsl --help`), in the order of use."""


@contextmanager
def _read_to_an_end() -> Iterator[None]:
    """A command ends well where the reader of its output, such as head, has gone: click would let
    it fail without a word."""
    try:
        yield
    except BrokenPipeError:
        raise click.exceptions.Exit(0) from None


class LazyCommands(click.Group):
    """A group that knows the names of its commands without importing them."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _read_to_an_end():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _read_to_an_end():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's interface)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"quantdsl.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + did_you_mean(args[0]), ctx) from None
        if command is not None:
            hold_said(command, rest)
        return name, command, rest


def did_you_mean(name: str) -> str:
    """' Did you mean ...?' where a command is spelt nearly like `name`, else ''."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Shell completion: quantdsl writes its own script for bash, zsh and fish, for example "
    'eval "$(_QUANTDSL_COMPLETE=bash_source quantdsl)".',
)
@click.version_option(__version__, "-V", "--version", prog_name="quantdsl")
def cli() -> None:
    """One strategy file: write it, check it, test it, backtest it, compare the runs."""


def main(argv: list[str] | None = None) -> None:
    """Run one command and leave the process with its exit code; never raises anything else."""
    try:
        _prepare()
        status = run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before `run` was there to catch it
        status = _interrupted()
    sys.exit(status)


def _prepare() -> None:
    """What holds for the whole process."""
    gc.set_threshold(GARBAGE_OBJECTS)
    # Read when numpy is imported: on 16 cores its threads spin for two seconds of CPU time, and
    # nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _show_warning
    sys.unraisablehook = _tell_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell ignores it
        signal.signal(signal.SIGINT, _interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us, as with >&- in a shell
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


@in_one_piece
def run(argv: list[str]) -> int:
    """Run one command; its exit code. Everything that goes wrong becomes a message on stderr."""
    try:
        status = cli.main(argv, prog_name="quantdsl", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as ended:
        if isinstance(ended.__cause__, EOFError):  # nothing here reads to an end: Python did
            click.echo(_CUT_OFF, err=True)
            return EXIT_USER_ERROR
        return _interrupted()
    except BrokenPipeError:  # found by the last flush; Python would flush once more and fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except QuantDSLError as error:
        click.echo(_message(error), err=True)
        return EXIT_USER_ERROR
    except OSError as refused:  # of the user's machine: a full disk, a folder of somebody else
        where = f"{refused.filename}: " if refused.filename else ""
        click.echo(f"error: {where}{refused.strerror or refused}", err=True)
        return EXIT_USER_ERROR
    except MemoryError as refused:
        click.echo(f"error: there is not enough memory: {refused or 'nothing is left'}", err=True)
        return EXIT_USER_ERROR
    except Exception as error:
        if _stems_from_interrupt(error):
            return _interrupted()
        if isinstance(error, UnicodeEncodeError) and (name := _unreadable(argv, error.object)):
            click.echo(f"error: {name}: the name is not text in UTF-8: rename it", err=True)
            return EXIT_USER_ERROR
        from quantdsl.cli.internal import report_internal

        click.echo(report_internal(error, argv), err=True)
        return EXIT_INTERNAL


def _unreadable(argv: list[str], text: str) -> str:
    """The name of a file that Arrow, JSON and pages cannot hold, "" where all names are UTF-8; of
    a folder's file nobody spoke, so its name is what could not be written."""
    return next((repr(name)[1:-1] for name in (*argv, text[:200]) if _ESCAPED.search(name)), "")


_ESCAPED = re.compile("[\udc80-\udcff]")
"""How Python holds bytes of a name that are not UTF-8."""


_CUT_OFF = (
    "error: a module that Python has compiled is cut off, as a full disk leaves it\n"
    f"help: remove the folders __pycache__ below {os.path.dirname(os.path.dirname(__file__))}"
)


def _interrupted() -> int:
    click.echo("interrupted", err=True)
    return EXIT_INTERRUPTED


def _stems_from_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C came inside an extension module that raises an error of its own for it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise a Ctrl-C; later where NumPy would drop it, which asks an enum for attributes behind
    each comparison with one and takes an error for none. In Python 3.11 code of `enum` answers."""
    if frame is not None and frame.f_code.co_filename == enum.__file__:
        _tell_later()
    else:
        signal.default_int_handler(number, frame)


def _tell_again(lost: "sys.UnraisableHookArgs") -> None:
    """A Ctrl-C that Python drops comes once more: raised in what it calls by itself, as the import
    lock and finalizers, no caller hears of it."""
    if lost.exc_type is KeyboardInterrupt:
        _tell_later()
    else:
        sys.__unraisablehook__(lost)


def _tell_later() -> None:
    """A Ctrl-C comes once more, when what has dropped it is over."""
    main, again = threading.main_thread().ident, signal.SIGINT
    assert main is not None, "it runs"
    timer = threading.Timer(TELL_AGAIN_S, signal.pthread_kill, (main, again))
    timer.daemon = True
    timer.start()


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning without the line of our own code that Python would print with it."""
    _say_once(f"warning: {message}")


@cache  # a folder that cannot be used is found so by all who ask for something in it
def _say_once(line: str) -> None:
    click.echo(line, err=True)


def _message(error: QuantDSLError) -> str:
    """What the user reads: always 'error' first; findings are coloured on a terminal."""
    from quantdsl.lang.diagnostics import SourceError
    from quantdsl.lang.render import render_all

    if isinstance(error, SourceError):
        return render_all(error.diagnostics, error.source, colour=sys.stderr.isatty())
    return f"error: {error}"
