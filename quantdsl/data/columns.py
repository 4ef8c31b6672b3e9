"""Which column of a table is what: recognised by name in any case, or mapped by the user."""

import difflib
from collections.abc import Mapping, Sequence

import msgspec

from quantdsl.errors import DataError
from quantdsl.events.layout import HEAD

PRICES = ("open", "high", "low", "close")
FIELDS = ("time", *PRICES, "volume", "symbol")

_ALIASES = {
    "time": (
        "time", "timestamp", "timestamputc", "datetime", "date", "ts", "tsevent", "opentime",
        "timeutc", "gmttime", "index", "dt", "unixtime", "unix", "epoch",
        "windowstart", "",
    ),
    "open": ("open", "openprice", "openbid"),
    "high": ("high", "highprice"),
    "low": ("low", "lowprice"),
    "close": ("close", "closeprice", "last", "price", "value", "adjclose"),
    "volume": ("volume", "vol", "tickvolume", "tickvol", "qty", "size", "basevolume"),
    "symbol": ("symbol", "ticker", "instrument", "name", "code", "tic"),
}  # fmt: skip
# One letter is also a ticker, so it counts only where all four prices are written so.
_LETTERS = {"o": "open", "h": "high", "l": "low", "c": "close", "v": "volume", "t": "time"}


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Column names by field. A close-only table has no open, high and low.

    `clock` is a second column with the time of day where the date stands alone. Of a `wide` table
    each other column is a ticker's closes, and an empty cell is no bar.
    """

    time: str
    close: str
    open: str | None = None
    high: str | None = None
    low: str | None = None
    volume: str | None = None
    symbol: str | None = None
    clock: str | None = None
    wide: bool = False

    @property
    def close_only(self) -> bool:
        return self.open is None

    def used(self) -> list[str]:
        """Every column that has to be read, once each."""
        given = [getattr(self, field) for field in (*FIELDS, "clock")]
        return list(dict.fromkeys(name for name in given if name is not None))


def plain(name: str) -> str:
    """A column name as it is compared: lower case, letters and digits only."""
    text = name.strip().lower()
    return "" if text.startswith("unnamed:") else "".join(c for c in text if c.isalnum())


def time_of(names: Sequence[str]) -> str | None:
    """The column of the times of a wide table; that of the dates where another has the time of day.

    TS is a ticker too, and so counts where nothing else can be the times.
    """
    found = {plain(name): name for name in reversed(names)}
    if {"date", "time"} <= found.keys():
        return found["date"]
    known = (found[alias] for alias in _ALIASES["time"] if alias in found and alias != "ts")
    return next(known, found.get("ts"))


def recognise(
    names: Sequence[str], mapping: Mapping[str, str], ticker: str | None, where: str
) -> Columns:
    """The columns of a table with these names; `ticker` chooses one column of a wide table.

    Raises DataError that says which column is missing and what the nearest name is.
    """
    if not names:
        raise DataError(f"{where}: the table has no column")
    if _looks_like_data(names):
        raise DataError(
            f"{where}: its first line holds values and no column names: put a line such as "
            "time,open,high,low,close,volume before it"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{where}: the column {repeated[0]!r} stands there twice")
    found = _mapped(names, mapping, where)
    plains = {name: plain(name) for name in names}
    letters = {p for p in plains.values() if p in _LETTERS}
    if {"o", "h", "l", "c"} <= letters:
        for name, text in plains.items():
            if text in _LETTERS:
                found.setdefault(_LETTERS[text], name)
    for field in FIELDS:
        for alias in _ALIASES[field]:
            match = next((n for n in names if plains[n] == alias and n not in found.values()), None)
            if match is not None:
                found.setdefault(field, match)
    clock = None
    if plains.get(found.get("time", ""), "") == "date":
        clock = next((n for n in names if plains[n] in ("time", "timeofday")), None)
    elif plains.get(found.get("time", ""), "") == "time":
        date = next((n for n in names if plains[n] == "date"), None)
        if date is not None:
            clock, found["time"] = found["time"], date
    if "time" not in found:
        raise DataError(_missing("time", names, found, where))
    if not any(field in found for field in PRICES):
        time = mapping.get("time") or time_of(names) or names[0]
        return _wide(names, time, ticker, where)
    missing = [field for field in PRICES if field not in found]
    if missing and missing != ["open", "high", "low"]:
        raise DataError(_missing(missing[0], names, found, where))
    return Columns(clock=clock, wide=False, **found)


def _mapped(names: Sequence[str], mapping: Mapping[str, str], where: str) -> dict[str, str]:
    for field, name in mapping.items():
        if field not in FIELDS:
            raise DataError(
                f"{where}: columns.{field}: a column is one of {', '.join(FIELDS)}"
                f"{_mean(field, FIELDS)}"
            )
        if name not in names:
            raise DataError(
                f"{where}: columns.{field} names the column {name!r}, and the table has "
                f"{_list(names)}{_mean(name, names)}"
            )
    return dict(mapping)


def one_of(ticker: str) -> str:
    """How one instrument of several in a table is chosen."""
    return f"choose one by instrument \"{ticker}\" in the strategy, or FILE#{ticker} in --data"


def _wide(names: Sequence[str], time: str, ticker: str | None, where: str) -> Columns:
    """A column a ticker, each holding closes."""
    if {name for name, _ in HEAD} <= set(names):
        raise DataError(
            f"{where}: holds events of a session, and a table of bars is wanted\n"
            "help: `quantdsl data fetch` gets bars of a venue, `quantdsl record --bars` keeps them"
        )
    tickers = [name for name in names if name != time]
    if not tickers:
        raise DataError(f"{where}: the table has a time and nothing else")
    if ticker is None:
        if len(tickers) == 1:
            return Columns(time=time, close=tickers[0], wide=True)
        raise DataError(
            f"{where}: holds no column open, high, low or close, so it is read as closes of "
            f"{len(tickers)} tickers ({_list(tickers)}): {one_of(tickers[0])}, "
            'or name the columns in the config, as in data.columns = { close = "PX_LAST" }'
        )
    match = next((name for name in tickers if name.strip().upper() == ticker.upper()), None)
    if match is None:
        raise DataError(
            f"{where}: has no column {ticker!r}; its columns are "
            f"{_list(names)}{_mean(ticker, tickers)}"
        )
    return Columns(time=time, close=match, wide=True)


def _missing(field: str, names: Sequence[str], found: Mapping[str, str], where: str) -> str:
    free = [name for name in names if name not in found.values()]  # a ticker is no time
    near = difflib.get_close_matches(field, [plain(name) for name in free], 1, 0.6)
    like = next((name for name in free if near and plain(name) == near[0]), None)
    hint = f"; did you mean {like!r}?" if like is not None else ""
    name = like or "NAME"
    return (
        f"{where}: no column for {field} among {_list(names)}{hint}\nhelp: name it in the config: "
        f'data.columns = {{ {field} = "{name}" }}'
    )


def _looks_like_data(names: Sequence[str]) -> bool:
    def is_number(text: str) -> bool:
        try:
            float(text)
        except ValueError:
            return False
        return True

    return sum(is_number(name) for name in names) * 2 > len(names)


def _mean(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 12 else shown
