"""A universe of instruments: whose bars there are, and what files say of each over time.

All files are tables with a header. Dates are ISO 8601; what a line says holds from the open of
the session of its date on, so a strategy never knows it before.

- members: `symbol, entry, exit`: in the universe from the day `entry` to the day before `exit`;
  an empty entry is since ever, an empty exit until further notice. Several lines a symbol.
- eligible: the same columns: may be traded.
- groups: `symbol, sector, industry, country`, any of the three; with `from` since that day.
"""

import csv
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data import columns as naming
from quantdsl.data.calendar import Schedule
from quantdsl.data.many import named
from quantdsl.data.recording import head_of, is_recording
from quantdsl.data.rows import place_of
from quantdsl.data.table import ObjectTable, list_files, open_table, stem
from quantdsl.data.tick_formats import recognised
from quantdsl.errors import ConfigError, DataError
from quantdsl.events.layout import EVENT, Kind, Trait

Int64s = npt.NDArray[np.int64]
Events = npt.NDArray[np.void]

GROUPS = {"sector": Trait.SECTOR, "industry": Trait.INDUSTRY, "country": Trait.COUNTRY}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical lines"}
"""What tables have between their columns instead of commas, and its name."""
ALWAYS = -(2**31)
"""A day before all others."""


class Change(msgspec.Struct, frozen=True, order=True):
    """From `day` (since 1970) on a trait of `instrument` is `value`."""

    day: int
    instrument: int
    trait: int
    value: int


# ---- whose bars there are ----------------------------------------------------------------------


def sources(source: Any) -> dict[str, Any]:
    """Each instrument of a folder or a table by its symbol, with the source of its own bars."""
    if isinstance(source, str | Path) and is_recording(Path(source)):
        listed = head_of(Path(source)).instruments
        return {one.symbol: f"{source}#{one.symbol}" for one in listed}
    if isinstance(source, str | Path) and Path(source).is_dir():
        files: dict[str, list[str]] = {}
        for path in list_files(Path(source)):
            files.setdefault(_symbol_of(path), []).append(str(path))
        return {symbol: own if len(own) > 1 else own[0] for symbol, own in files.items()}
    tables = open_table(source)
    names = tables[0].columns()
    known = {naming.plain(name): name for name in names}
    symbol = next((known[alias] for alias in ("symbol", "ticker", "name") if alias in known), None)
    if symbol is not None:
        return _parts(tables[0], symbol)
    wide = not any(price in known for price in naming.PRICES)
    if not wide and not isinstance(source, str | Path):
        raise DataError(
            f"the table given: no column says whose its rows are; it has {', '.join(names)}\n"
            "help: add a column 'symbol'"
        )
    if not wide:
        return {_symbol_of(Path(source)): source}
    time = naming.time_of(names) or names[0]
    tickers = [name for name in dict.fromkeys(names) if name != time]
    _require_apart(tickers, tables[0].name)
    return {name.upper(): _column(source, tables, time, name) for name in tickers}


def tick_sources(source: Any, listed: Sequence[str]) -> dict[str, Any]:
    """Each instrument of a folder of files of ticks by its symbol; of one file of many instruments
    those `listed`. DataError where it cannot be told whose ticks there are."""
    folder = isinstance(source, str | Path) and Path(source).is_dir()
    if folder and not is_recording(Path(source)):
        found: dict[str, Any] = {}
        for path in list_files(Path(source)):
            symbol = _symbol_of(path)
            if recognised(path) is None:
                continue
            if symbol in found:
                raise DataError(
                    f"{source}: holds two files of {symbol}, {Path(found[symbol]).name} and "
                    f"{path.name}\nhelp: put one file of ticks of each instrument into a folder"
                )
            found[symbol] = str(path)
        return found
    if not listed:
        raise DataError(
            f"{source}: whose ticks to take of it must be said\nhelp: list the instruments in the "
            'strategy, as in universe "AAPL", "MSFT", or in the file of universe.symbols'
        )
    return {symbol.rpartition(":")[2].upper(): source for symbol in listed}


def _require_apart(symbols: Iterable[str], where: str) -> None:
    """DataError where two symbols differ in the case of letters alone, which names no other."""
    seen: dict[str, str] = {}
    for symbol in symbols:
        if symbol.upper() in seen:
            raise DataError(
                f"{where}: {seen[symbol.upper()]} and {symbol} are one instrument, in letters of "
                "another case\nhelp: write the symbol alike in all of it"
            )
        seen[symbol.upper()] = symbol


def _symbol_of(path: Path) -> str:
    """`BRK.B` of `BRK.B_data.csv`."""
    return stem(path).partition("_")[0].upper()


def _column(source: Any, tables: Sequence[Any], time: str, name: str) -> Any:
    """One column of a table of closes."""
    if isinstance(source, str | Path):
        return f"{source}#{name}"
    return ObjectTable(tables[0]._table.select([time, name]), tables[0].name)


def _parts(table: Any, symbol: str) -> dict[str, Any]:
    """The rows of each symbol of a long table, which is read once.

    A part counts rows of its own: its name says whose they are.
    """
    import pyarrow as pa

    names = table.columns()
    wanted = [name for name in names if naming.plain(name) in _NUMBERS]
    text = [name for name in names if name not in wanted]
    batches = list(table.batches(text, wanted))
    if not batches:
        raise DataError(f"{table.name}: holds no rows\nhelp: give bars of each instrument")
    whole = pa.Table.from_batches(batches)
    symbols, order, ends = _grouped(whole[symbol])
    texts = {name: whole[name].combine_chunks() for name in text if name != symbol}
    numbers = {name: whole[name].to_numpy()[order] for name in wanted}

    def part(own: str, rows: slice) -> ObjectTable:
        # Each has memory of its own: a slice would be hashed with all that it is cut from.
        columns = {name: texts[name].take(pa.array(order[rows])) for name in texts}
        columns |= {name: pa.array(numbers[name][rows]) for name in numbers}
        columns[symbol] = pa.repeat(own, rows.stop - rows.start)
        in_order = pa.table({name: columns[name] for name in names})
        return ObjectTable(in_order, f"{table.name}, rows of {own}")

    begins = [0, *ends[:-1]]
    _require_apart(symbols, table.name)
    for own, begin in zip(symbols, begins, strict=True):
        if not own.strip():
            raise DataError(
                f"{place_of(table, int(order[begin]))}: its {symbol} is empty, or such as NA, a "
                "word for what is missing\nhelp: say whose bar it is, or leave the row out; bars "
                "of an instrument of such a name go into a folder, as NA.csv"
            )
    return {
        own.upper(): part(own, slice(begin, end))
        for own, begin, end in zip(symbols, begins, ends, strict=True)
    }


def _grouped(column: Any) -> tuple[list[str], Int64s, list[int]]:
    """The symbols of a column in order, its rows in their order, and where each symbol's end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(pc.cast(column, pa.string()), null_encoding="encode")
    encoded = encoded.combine_chunks()
    names = encoded.dictionary
    ranks = pc.rank(names, sort_keys="ascending").to_numpy() - 1
    # The fewer bytes a key has, the fewer times a stable sort passes over all of them.
    keys = ranks.astype(np.min_scalar_type(len(names)))[encoded.indices.to_numpy()]
    symbols = [name or "" for name in names.take(np.argsort(ranks)).to_pylist()]
    return symbols, np.argsort(keys, kind="stable"), np.cumsum(np.bincount(keys)).tolist()


_NUMBERS = frozenset({"open", "high", "low", "close", "volume"})


# ---- files -------------------------------------------------------------------------------------


def rows(path: str, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by column; DataError where a column or a symbol is missing."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            first = list(table.fieldnames or ())
            names = [naming.plain(name) for name in first]
            table.fieldnames = names
            if len(first) == 1 and (other := _separator(first[0])):
                raise DataError(
                    f"{path}: its first line is separated by {other}, not by commas\n"
                    "help: put commas between the columns of every line"
                )
            for name in needed:
                if name not in names:
                    has = ", ".join(names) or "none"
                    raise DataError(f"{path}: needs the column {name!r}; its columns are {has}")
            for row in table:
                if any(cell.strip() for cell in row.get(None, ())):
                    raise DataError(
                        f"{path}:{table.line_num}: has more cells than the header has columns\n"
                        "help: put a text that holds a comma into quotes"
                    )
                cells = {k: (v or "").strip() for k, v in row.items() if k is not None}
                if not cells["symbol"]:
                    raise DataError(f"{path}:{table.line_num}: has no symbol")
                yield table.line_num, cells
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror}\n"
            "help: a path is from the folder in which the command runs"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not text in UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}: is no table of comma-separated values: {error}") from None


def _separator(line: str) -> str:
    """What stands between the columns of a line without a comma, in words; empty if nothing."""
    return next((word for sign, word in SEPARATORS.items() if sign in line), "")


def day_of(text: str, where: str, missing: int) -> int:
    """Days since 1970 of an ISO date, perhaps with a time of day, which does not count."""
    if not text:
        return missing
    try:
        return (dt.datetime.fromisoformat(text).date() - dt.date(1970, 1, 1)).days
    except ValueError:
        raise DataError(f"{where}: {text!r} is no date such as 2017-06-30") from None


def symbols_in(path: str) -> list[str]:
    """The symbols of a table in order of their first line; DataError where there is none."""
    found = list(dict.fromkeys(row["symbol"].upper() for _, row in rows(path, ["symbol"])))
    if not found:
        raise DataError(f"{path}: names no instrument\nhelp: write a symbol in each line")
    return found


def spans(path: str, which: Trait, index: Mapping[str, int]) -> list[Change]:
    """The changes of a table of `symbol, entry, exit`; DataError where it names none of `index`."""
    found: list[Change] = []
    last: dict[str, tuple[int, int]] = {}
    for line, row in rows(path, ("symbol", "entry", "exit")):
        where, symbol = f"{path}:{line}", row["symbol"].upper()
        entry = day_of(row["entry"], where, ALWAYS)
        exit_ = day_of(row["exit"], where, 2**31)
        if exit_ <= entry:
            raise DataError(f"{where}: {symbol} leaves on {row['exit']}, before it has entered")
        before = last.get(symbol)
        if before is not None and entry < before[0]:
            raise DataError(
                f"{where}: {symbol} enters before it has left (line {before[1]}): sort its lines "
                "by entry, and let none overlap"
            )
        last[symbol] = (exit_, line)
        if symbol in index:
            found.append(Change(entry, index[symbol], which, 1))
            if exit_ < 2**31:
                found.append(Change(exit_, index[symbol], which, 0))
    if not found:
        raise _names_none(path, "symbol", last, index)
    return found


def groups(path: str, wanted: Iterable[str], index: Mapping[str, int]) -> list[Change]:
    """The changes of a table of groups, numbered in order of their names.

    DataError where no instrument of `index` is in a group of a wanted kind.
    """
    names = list(wanted)
    found = []
    first: dict[tuple[int, int, str], tuple[int, int]] = {}
    table = list(rows(path, ("symbol", *names)))
    for name in names:
        numbers = {g: n for n, g in enumerate(sorted({row[name] for _, row in table} - {""}))}
        for line, row in table:
            symbol = row["symbol"].upper()
            if symbol in index:
                day = day_of(row.get("from", ""), f"{path}:{line}", ALWAYS)
                number = numbers.get(row[name], -1)
                before = first.setdefault((index[symbol], day, name), (number, line))
                if before[0] != number:
                    raise DataError(
                        f"{path}:{line}: {symbol} has another {name} in line {before[1]}\n"
                        "help: leave one of them out, or say by a column 'from' since when it holds"
                    )
                found.append(Change(day, index[symbol], GROUPS[name], number))
        if not any(one.trait is GROUPS[name] and one.value >= 0 for one in found):
            raise _names_none(path, name, (row["symbol"] for _, row in table if row[name]), index)
    return found


def _names_none(
    path: str, what: str, symbols: Iterable[str], index: Mapping[str, int]
) -> DataError:
    """Of a file that tells `what` of some symbols, none of which is in the run."""
    has, wants = (named(sorted(set(names))) for names in (symbols, index))
    told = f"is of {has}" if has else "is empty"
    return DataError(
        f"{path}: its column {what!r} {told}, and the run has {wants}\n"
        "help: give a file of the instruments that there are bars of"
    )


def lacking(symbols: Sequence[str], have: Iterable[str], where: str, data: str) -> None:
    """DataError naming the symbols that there are no bars of."""
    known = set(have)
    missing = [symbol for symbol in symbols if symbol.rpartition(":")[2].upper() not in known]
    if missing:
        raise DataError(
            f"{data}: has no bars of {named(missing)}, which {where} names\n"
            "help: add their bars, or take them out of the list"
        )


def required(missing: Sequence[tuple[str, str, str]]) -> None:
    """ConfigError of all that the strategy reads and no file tells: (what, key, columns)."""
    if missing:
        lines = [f'  {key} = "FILE"  # columns {names}: {what}' for what, key, names in missing]
        raise ConfigError(
            "the strategy reads of its universe what no file tells\n"
            "help: add to the config\n  [universe]\n" + "\n".join(lines)
        )


# ---- events ------------------------------------------------------------------------------------


class Told:
    """The changes of a universe as events, each given once, at the open of a session."""

    def __init__(self, changes: Sequence[Change], schedule: Schedule) -> None:
        kept = sorted(changes, key=lambda one: one.day)
        self._day = np.array([one.day for one in kept], np.int64)
        self._events = np.zeros(len(kept), EVENT)
        self._events["kind"] = Kind.TRAIT
        self._events["instrument"] = [one.instrument for one in kept]
        self._events["side"] = [one.trait for one in kept]
        self._events["payload"][:, 0] = [one.value for one in kept]
        self._schedule = schedule
        # Where a session opens in the instant in which the last one closes, that instant is over.
        joined = len(schedule) > 1 and bool(np.any(schedule.open_ns[1:] == schedule.close_ns[:-1]))
        self._after = int(joined)
        self._given = 0

    def until(self, sessions: Int64s) -> Events:
        """What is told at the opens of these sessions, which come after all that were asked for."""
        first = self._given
        for session in sessions.tolist():
            end = int(np.searchsorted(self._day, self._schedule.day[session], "right"))
            ts = self._schedule.open_ns[session] + self._after
            for name in ("ts_event", "ts_recv"):
                self._events[name][self._given : end] = ts
            self._given = max(end, self._given)
        return self._events[first : self._given]

    def before(self, opens: Events, sessions: Int64s) -> Events:
        """The opens of these sessions, each after what is told there."""
        both = np.concatenate((self.until(sessions), opens))
        return both[np.argsort(both["ts_event"], kind="stable")]
