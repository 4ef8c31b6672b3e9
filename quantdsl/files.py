"""Files of the user: read up to a limit, and written whole or not at all.

What ends a command, be it a full disk or SIGKILL, leaves a file as it was, or as it was to be, and
so do two commands that write to one place at once.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from pathlib import Path
from typing import Any

from quantdsl.errors import ConfigError, LimitError
from quantdsl.limits import CONFIG_BYTES

WRITING = ".writing"
"""Of a folder that is being renewed: where its files are written."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write to that takes the name `path` only once everything is written.

    A link stays, and what it leads to is written; ConfigError where that is no file.
    """
    place = _place(path)
    part = _part(place)
    try:
        yield part
        part.replace(place)
    except OSError as refused:
        if refused.filename == str(part):
            refused.filename = None  # no user's word
        raise _named(refused, path) from None
    finally:
        part.unlink(missing_ok=True)


def apart(path: Path, *sources: Path) -> None:
    """ConfigError where what is written to `path` would replace a file that it is made from."""
    if any(_same(path, one) for one in sources):
        raise ConfigError(
            f"{path}: is what this command reads, and would be lost\n"
            "help: give the output another name"
        )


def writable(path: Path, *sources: Path) -> None:
    """Raises what `apart`, and `whole` at its end, would raise, before the work whose result goes
    there."""
    apart(path, *sources)
    part = _part(_place(path))
    try:
        part.touch()
    except OSError as refused:
        raise OSError(refused.errno, refused.strerror, str(path)) from None
    part.unlink()


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:  # one is not there, or can be no name of a file
        return False


def _place(path: Path) -> Path:
    """Where `path` leads; ConfigError at a device or a pipe, which would be lost for everybody."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(f"{path}: is a device or a pipe\nhelp: name a file")
    return Path(os.path.realpath(path))


def _part(path: Path) -> Path:
    """Nobody else's, who writes to the same place now: one would cut off what the other wrote."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")


@contextmanager
def renewed(folder: Path, last: str) -> Iterator[Path]:
    """A place to write files to that take their names in `folder`, made if absent, once all are
    written; who comes meanwhile waits, so files of two are never mixed. `last` is the file without
    which the others are nothing: it goes first and comes last, for a kill amid the two."""
    folder.mkdir(parents=True, exist_ok=True)
    held = _locked(folder)
    part = folder / WRITING
    try:
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        part.mkdir()
        yield part
        (folder / last).unlink(missing_ok=True)
        for file in sorted(part.iterdir(), key=lambda one: (one.name == last, one.name)):
            file.replace(folder / file.name)
    except OSError as refused:
        named = Path(refused.filename or folder)
        if part in (named, named.parent):
            refused.filename = str(folder if named == part else folder / named.name)
        raise _named(refused, folder) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(held)


def _locked(folder: Path) -> int:
    """Waits until nobody else has `folder` and takes it until the descriptor is closed.

    The lock is the system's, on the folder itself: it leaves no file and ends with the process.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # a file system of a network may know no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def create(path: Path, text: str) -> None:
    """A new file with this text; FileExistsError leaves the one that is there as it is."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise
    except OSError as refused:
        path.unlink(missing_ok=True)
        raise _named(refused, path) from None


def _named(refused: OSError, path: Path) -> OSError:
    """The error with the file's name, which one of writing lacks, in the system's own words."""
    number = refused.errno or EIO
    return OSError(number, os.strerror(number), refused.filename or str(path))


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says; ConfigError where it is none."""
    import tomllib  # seldom needed

    try:
        with path.open("rb") as file:
            encoded = file.read(CONFIG_BYTES + 1)
        if len(encoded) > CONFIG_BYTES:
            raise LimitError(f"{path}: is larger than {CONFIG_BYTES}")
        text = encoded.decode("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not text in UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path}: its values are nested too deeply") from None
    except ValueError as error:  # of TOML's own kind, and of a number with thousands of digits
        where = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        if where is None:
            raise ConfigError(f"{path}: is not TOML: {error}") from None
        line = text.split("\n")[int(where[1]) - 1].strip()
        what = str(error)[: where.start()].replace("overwrite a value", "set a key twice")
        raise ConfigError(f"{path}:{where[1]}: is not TOML: {what}: {line}") from None
