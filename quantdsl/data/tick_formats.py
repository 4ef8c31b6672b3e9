"""Which format a file of ticks has: told by its first bytes, or named by the user.

No decoder is imported until a file is its own.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from quantdsl.data.columns import plain
from quantdsl.data.recording import RecordingReader, is_recording
from quantdsl.data.table import open_bytes, open_table
from quantdsl.data.ticks import TickReader
from quantdsl.errors import ConfigError, DataError

_HEAD_BYTES = 4096
Holds = Literal["quotes", "trades", "book"]


class Opening(Struct, frozen=True):
    """How a file is to be opened; `symbol` chooses one of many."""

    path: Any
    symbol: str = ""
    bad_rows: Literal["stop", "drop"] = "stop"
    tz: str = ""
    time_format: str | None = None
    columns: tuple[tuple[str, str], ...] = ()


class Format(Struct, frozen=True):
    """One format: its name in configs, what it looks like, and the reader of it."""

    name: str
    recognises: Callable[[Path, bytes], bool]
    open: Callable[[Opening], TickReader]


def open_ticks(opening: Opening, name: str = "") -> TickReader:
    """A reader of the file or table; DataError where nothing here reads it."""
    if not isinstance(opening.path, str | Path):
        return _table(opening)
    path = Path(opening.path)
    if path.is_dir() and is_recording(path):
        return _recording(opening)
    if path.is_dir():
        return _folder(opening, name)
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if name:
        chosen = next((one for one in FORMATS if one.name == name), None)
        if chosen is None:
            names = [one.name for one in FORMATS]
            near = difflib.get_close_matches(name, names, 1)
            mean = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"data.format {name!r} is none of {', '.join(names)}{mean}")
        return chosen.open(opening)
    found = recognised(path)
    if found is None:
        raise DataError(
            f"{path}: holds no ticks that quantdsl knows: it reads {', '.join(_READ)}, and tables "
            "with the columns time, bid, ask or time, price, size or time, side, price, size"
        )
    return found.open(opening)


def files_of(folder: Path) -> list[Path]:
    """The files of a folder in order of name, but for hidden ones."""
    return sorted(one for one in folder.iterdir() if one.is_file() and one.name[0] != ".")


def _folder(opening: Opening, name: str) -> TickReader:
    from quantdsl.data.tick_folder import TickFolder

    path = Path(opening.path)
    files = files_of(path)
    if any(one.suffix == ".part" for one in files):
        why = "is a recording without a file that is whole yet (record --minutes-a-file)"
        raise DataError(f"{path}: {why}")
    if not files:
        raise DataError(f"{path}: the folder holds no file of ticks")
    books = _books(files)
    readers = [
        open_ticks(replace(opening, path=str(file)), name) for file in files if file not in books
    ]
    reader: TickReader = TickFolder(path, readers, opening.bad_rows)
    return reader


def _books(files: list[Path]) -> set[Path | None]:
    """Order books of LOBSTER's among the files: the reader of their messages reads them."""
    messages = [one for one in files if _is_lobster_file(one)]
    if not messages:
        return set()
    from quantdsl.feeds.lobster import book_file  # which compiles, so for those alone

    return {book_file(one) for one in messages}


def _is_lobster_file(path: Path) -> bool:
    found = recognised(path) if "message" in path.name else None
    return found is not None and found.name == "lobster"


def recognised(path: Path) -> Format | None:
    """The format of a file of ticks, None where it is none (a table of bars, another binary)."""
    try:
        first = open_bytes(path).read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{path}: is damaged: {error}") from None
    if not first:
        raise DataError(f"{path}: the file is empty")
    return next((one for one in FORMATS if one.recognises(path, first)), None)


def _is_binance(_: Path, first: bytes) -> bool:
    """A time in ns, a space, an object."""
    number, space, rest = first.partition(b" ")
    known = (b'"stream":', b'"lastUpdateId"', b'"e":"depthUpdate"', b'"e":"trade"', b'"u":')
    return (
        space == b" " and number.isdigit() and len(number) == 19 and any(k in rest for k in known)
    )


def _is_lobster(_: Path, first: bytes) -> bool:
    """Six columns without names, their values in range."""
    cells = first.partition(b"\n")[0].strip().split(b",")
    if len(cells) != 6 or b"." not in cells[0]:
        return False
    try:
        seconds, (kind, order, size, price, side) = float(cells[0]), map(int, cells[1:])
    except ValueError:
        return False
    shaped = 0.0 <= seconds < 86_400.0 and kind in (1, 2, 3, 4, 5, 6, 7) and side in (-1, 1)
    return shaped and order >= 0 and size >= 0 and price >= -1


def _is_databento(_: Path, first: bytes) -> bool:
    return first.startswith(b"DBN") and len(first) > 3 and 1 <= first[3] <= 3


def _is_itch(_: Path, first: bytes) -> bool:
    """A capture of packets, or messages behind their length, of which the first is a system one."""
    if first[:4] in (
        b"\xd4\xc3\xb2\xa1",
        b"\xa1\xb2\xc3\xd4",
        b"\x4d\x3c\xb2\xa1",
        b"\xa1\xb2\x3c\x4d",
    ):
        return True
    return first[:3] in (b"\x00\x0cS", b"\x00\x00S")


_LEAN_FILE = re.compile(r"\d{8}_(quote|trade)\.zip")


def _is_lean(path: Path, _: bytes) -> bool:
    """Named as Lean names a day of ticks, in a folder `tick`."""
    return _LEAN_FILE.fullmatch(path.name) is not None and "tick" in path.parts


def _is_recording(path: Path, first: bytes) -> bool:
    return first[:4] == b"PAR1" and is_recording(path)


_TABLES = (b"PAR1", b"ARROW1")
"""How Parquet and Arrow files begin."""


def _is_table(path: Path, first: bytes) -> bool:
    try:
        names = {plain(name) for table in open_table(path) for name in table.columns()}
    except DataError:
        if first.startswith(_TABLES):
            raise  # it says what is wrong with a table that is one
        return False
    return is_tick_table(names)


def is_tick_table(names: set[str]) -> bool:
    """Whether a table with these columns (as `plain` writes them) holds ticks and no bars."""
    if names & {"open", "high", "low"}:
        return False
    quotes = bool(names & {"bid", "bidprice", "bidpx"}) and bool(
        names & {"ask", "askprice", "askpx"}
    )
    sized = bool(names & {"price", "px"}) and bool(names & {"size", "qty", "quantity", "amount"})
    return quotes or sized


def _never(_: Path, __: bytes) -> bool:
    """A name for what looks like another: only a config says it."""
    return False


def _binance(opening: Opening) -> TickReader:
    from quantdsl.feeds.binance import BinanceReader

    reader: TickReader = BinanceReader(Path(opening.path), opening.bad_rows, opening.symbol)
    return reader


def _lobster(opening: Opening) -> TickReader:
    from quantdsl.feeds.lobster import LobsterReader

    reader: TickReader = LobsterReader(Path(opening.path), opening.bad_rows)
    return reader


def _databento(opening: Opening) -> TickReader:
    from quantdsl.feeds.databento import DatabentoReader

    reader: TickReader = DatabentoReader(Path(opening.path), opening.bad_rows, opening.symbol)
    return reader


def _itch(opening: Opening) -> TickReader:
    from quantdsl.feeds.itch import ItchReader

    reader: TickReader = ItchReader(Path(opening.path), opening.bad_rows, opening.symbol)
    return reader


def _lean(opening: Opening) -> TickReader:
    from quantdsl.feeds.lean import LeanReader

    reader: TickReader = LeanReader(Path(opening.path), opening.bad_rows)
    return reader


def _recording(opening: Opening) -> TickReader:
    return RecordingReader(Path(opening.path), opening.bad_rows, opening.symbol)


def _table(opening: Opening, holds: Holds | None = None) -> TickReader:
    from quantdsl.data.tick_table import TickTableReader

    tables = open_table(opening.path)
    return TickTableReader(
        tables[0].name if len(tables) == 1 else str(opening.path),
        tables,
        symbol=opening.symbol,
        bad_rows=opening.bad_rows,
        tz=opening.tz,
        time_format=opening.time_format,
        columns=dict(opening.columns),
        holds=holds,
    )


FORMATS: Sequence[Format] = (
    Format("databento", _is_databento, _databento),
    Format("binance", _is_binance, _binance),
    Format("lobster", _is_lobster, _lobster),
    Format("itch", _is_itch, _itch),
    Format("lean", _is_lean, _lean),
    Format("recording", _is_recording, _recording),
    Format("table", _is_table, _table),
    Format("quotes", _never, lambda opening: _table(opening, "quotes")),
    Format("trades", _never, lambda opening: _table(opening, "trades")),
    Format("book", _never, lambda opening: _table(opening, "book")),
)
_READ = (
    "Binance stream recordings",
    "LOBSTER messages",
    "Nasdaq ITCH 5.0",
    "Databento DBN",
    "Lean ticks",
    "recordings of live feeds",
)
