"""Nasdaq TotalView-ITCH 5.0: single orders of one stock, from files of messages or from packets.

Three framings are read: messages behind their length of two bytes (big-endian, as Nasdaq's own
files have it), the same with zeros in place of the length (the type then tells it), and captures
of packets (pcap: Ethernet with or without VLAN, IPv4, UDP, MoldUDP64). Numbers are big-endian,
prices have four decimals, times are ns since New York's midnight. The date stands in the capture
or in the file's name.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from quantdsl.feeds.kernels import big_endian, head, inner, put
from quantdsl.feeds.order_table import forget, order_table, place_of, with_room

from quantdsl.codegen.decoders import entry
from quantdsl.data import times
from quantdsl.data.table import file_sha256
from quantdsl.data.ticks import FAULTS, ORDERS, Events, Fault, Tally, Window
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, MORE, WORDS, Feed, Kind

ZONE = "America/New_York"
PRICE_DIGITS, SIZE_DIGITS = 4, 0

LENGTHS = {
    "S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21,
    "A": 36, "F": 40, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19,
    "I": 50, "N": 20, "O": 48,
}  # fmt: skip
"""Bytes of each type of message, of the specification of version 5.0."""

_LENGTH_OF = np.zeros(256, np.int64)
for _letter, _bytes in LENGTHS.items():
    _LENGTH_OF[ord(_letter)] = _bytes

_SHORTEST = min(LENGTHS.values())
_PER_MESSAGE = 3  # events at most: of a replaced order two, of an execution two
_TAKEN, _OUT, _MESSAGES, _HELD, _BAD, _BAD_AT, _STATE = range(7)
_CUT, _STRANGE = 1, 2
"""_BAD: the message is cut off; its type or its length is none of ITCH."""

_ADD, _ADD_MPID, _EXECUTED, _AT_PRICE = ord("A"), ord("F"), ord("E"), ord("C")
_REDUCED, _DELETED, _REPLACED, _HIDDEN, _CROSS = (ord(letter) for letter in "XDUPQ")
_HALT = ord("H")
_NO_PRINT = ord("N")


@inner("int64(int64[:,::1], int64[::1], int64, int64, int64, int64)")
def _hold(table, state, order, price, size, side):
    """Put an order into the table."""
    row = place_of(table, order)
    state[_HELD] += table[row, 0] == 0
    table[row, 0], table[row, 1], table[row, 2], table[row, 3] = order, price, size, side
    return row


@inner("int64(int64[:,::1], int64[::1], int64, int64)")
def _reduce(table, state, row, size):
    """The order's size less `size`; it leaves the table with the last of it."""
    left = max(0, table[row, 2] - size)
    table[row, 2] = left
    if left == 0:
        forget(table, row)
        state[_HELD] -= 1
    return left


_OF_MESSAGE = "int64[:,::1], int64, int64[:,::1], int64[::1], int64[::1]"


@inner(f"int64(uint8[::1], int64, int64, int64, {_OF_MESSAGE})")
def _change(data, at, kind, ts, out, row, table, state, faults):
    """A change of an order that stands in the book: the next row."""
    order, number = big_endian(data, at + 11, 8), state[_MESSAGES]
    place = place_of(table, order)
    if table[place, 0] == 0:
        # Orders of other stocks are not kept, so that a change of one is not known either.
        faults[Fault.UNKNOWN_ORDER.value] += 1
        return row
    price, side = table[place, 1], table[place, 3]
    if kind in (_EXECUTED, _AT_PRICE):
        size = big_endian(data, at + 19, 4)
        paid = big_endian(data, at + 32, 4) if kind == _AT_PRICE else price
        left = _reduce(table, state, place, size)
        if kind == _EXECUTED or data[at + 31] != _NO_PRINT:
            word = head(0, 3, 1 + np.int64(side == 0), MORE)
            put(out, row, ts, ts, word, paid, size, big_endian(data, at + 23, 8), number, order)
            row += 1
        put(out, row, ts, ts, head(0, 4, side, 0), price, 0, number, order, left)
        return row + 1
    if kind == _REDUCED:
        left = _reduce(table, state, place, big_endian(data, at + 19, 4))
        put(out, row, ts, ts, head(0, 4, side, 0), price, 0, number, order, left)
        return row + 1
    _reduce(table, state, place, table[place, 2])
    put(out, row, ts, ts, head(0, 4, side, 0), price, 0, number, order, 0)
    row += 1
    if kind == _REPLACED:
        renewed, size = big_endian(data, at + 19, 8), big_endian(data, at + 27, 4)
        price = big_endian(data, at + 31, 4)
        out[row - 1, 2] |= np.int64(MORE) << 48
        _hold(table, state, renewed, price, size, side)
        put(out, row, ts, ts, head(0, 4, side, 0), price, 0, number, renewed, size)
        row += 1
    return row


@inner(f"int64(uint8[::1], int64, int64, int64, {_OF_MESSAGE})")
def _message(data, at, locate, midnight, out, row, table, state, faults):
    """The events of one message of the stock `locate` (0: of any): the next row."""
    kind, own = np.int64(data[at]), big_endian(data, at + 1, 2)
    ts = midnight + big_endian(data, at + 5, 6)
    number = state[_MESSAGES]
    if locate and own != locate:
        return row
    if kind in (_ADD, _ADD_MPID):
        side = np.int64(data[at + 19] != 66)
        order, size, price = (
            big_endian(data, at + 11, 8),
            big_endian(data, at + 20, 4),
            big_endian(data, at + 32, 4),
        )
        _hold(table, state, order, price, size, side)
        put(out, row, ts, ts, head(0, 4, side, 0), price, 0, number, order, size)
        return row + 1
    if kind in (_EXECUTED, _AT_PRICE, _REDUCED, _DELETED, _REPLACED):
        return _change(data, at, kind, ts, out, row, table, state, faults)
    if kind == _HIDDEN:
        # Since 2014 the side of a hidden order is always told as B: who took is not known.
        size, price = big_endian(data, at + 20, 4), big_endian(data, at + 32, 4)
        put(
            out, row, ts, ts, head(0, 3, 0, 0), price, size, big_endian(data, at + 36, 8), number, 0
        )
        return row + 1
    if kind == _CROSS:
        size, price = big_endian(data, at + 11, 8), big_endian(data, at + 27, 4)
        if size > 0:
            match = big_endian(data, at + 31, 8)
            put(out, row, ts, ts, head(0, 3, 0, 0), price, size, match, number, 0)
            row += 1
        return row
    if kind == _HALT:
        trading = np.int64(data[at + 19] == 84)
        put(out, row, ts, ts, head(0, 12, 1 - trading, 0), np.int64(data[at + 19]), 0, number, 0, 0)
        row += 1
    return row


@entry(
    "void(uint8[::1], boolean, int64, int64, int64[::1], int64[:,::1], int64[:,::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def _decode(data, final, locate, midnight, lengths, out, table, state, faults, counts):
    """Messages behind their length into `out`; a length of zero is told by the type."""
    at, end = 0, len(data)
    state[_OUT] = 0
    while at + 3 <= end and state[_HELD] * 2 < len(table):
        told, wanted = big_endian(data, at, 2), lengths[data[at + 2]]
        if wanted == 0 or (told != 0 and told < wanted):
            state[_BAD], state[_BAD_AT] = _STRANGE, at
            break
        size = max(told, wanted)
        if at + 2 + size > end:
            break
        state[_MESSAGES] += 1
        counts[data[at + 2]] += 1
        state[_OUT] = _message(
            data, at + 2, locate, midnight, out, state[_OUT], table, state, faults
        )
        at += 2 + size
    if final and state[_BAD] == 0 and at < end and state[_HELD] * 2 < len(table):
        state[_BAD], state[_BAD_AT] = _CUT, at
    state[_TAKEN] = at


class ItchReader:
    """The messages of one stock; `symbol` chooses it where the file holds several.

    After a reading `messages` counts all messages of the file by type, those of other stocks too.
    """

    format = "Nasdaq ITCH 5.0"
    price_digits, size_digits = PRICE_DIGITS, SIZE_DIGITS
    has_recv, tells = False, ORDERS

    def __init__(self, path: Path, bad_rows: Literal["stop", "drop"], symbol: str = "") -> None:
        self._path, self.name = path, str(path)
        self.tally = Tally(self.name, bad_rows)
        self.notes: list[str] = []
        self.messages: dict[str, int] = {}
        stocks, day = _directory(path)
        if symbol and symbol not in stocks and len(stocks) != 1:
            raise DataError(f"{path}: has no stock {symbol!r}; it holds {_list(stocks)}")
        if not symbol and len(stocks) > 1:
            raise DataError(
                f"{path}: holds {len(stocks)} stocks ({_list(stocks)}): choose one as in "
                f"{path}#{next(iter(stocks))}"
            )
        self.symbol = symbol if symbol in stocks else next(iter(stocks), symbol)
        self._locate = stocks.get(self.symbol, 0)
        self._midnight = int(times.utc_of_local(np.array([day]), ZONE)[0])

    def sha256(self) -> str:
        return file_sha256(self._path)

    def chunks(self) -> Iterator[Events]:
        """Whole messages in the order of the file; ITCH tells no time of receipt."""
        self.tally.clear()
        self.notes.clear()
        state, counts = np.zeros(_STATE, np.int64), np.zeros(256, np.int64)
        table, begun = order_table(), False
        blocks = _blocks(self._path, self.tally)
        while (block := next(blocks, None)) is not None:
            data, final, take, gap = block
            out = np.empty((len(data) // _SHORTEST * _PER_MESSAGE + 16, WORDS), np.int64)
            faults = np.zeros(FAULTS, np.int64)
            table = with_room(table, int(state[_HELD]), len(table) // 4)
            state[_BAD] = 0
            more = (self._locate, self._midnight, _LENGTH_OF)
            _decode(data, final, *more, out, table, state, faults, counts)
            take(int(state[_TAKEN]))
            self.tally.note_all(faults)
            events = out[: state[_OUT]].view(EVENT).reshape(-1)
            if len(events):
                first = int(events["ts_event"][0])
                if not begun:
                    yield _one(first, Kind.BOOK_SNAPSHOT)
                elif gap:
                    yield _one(first, Kind.FEED, Feed.GAP)
                begun = True
                yield events
            if state[_BAD]:
                where = f"message {int(state[_MESSAGES]) + 1}"
                fault = Fault.TRUNCATED if state[_BAD] == _CUT else Fault.UNREADABLE
                self.tally.note(fault, 1, where)
                break  # nothing marks where the next message begins
        self.messages = {chr(code): int(n) for code, n in enumerate(counts) if n}


def _one(ts: int, kind: Kind, side: int = 0) -> Events:
    event = np.zeros(1, EVENT)
    event["ts_event"] = event["ts_recv"] = ts
    event["kind"], event["side"] = kind, side
    return event


def _list(names: dict[str, int]) -> str:
    shown = list(names)[:8]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


_MAGIC = {
    b"\xd4\xc3\xb2\xa1": "little",
    b"\x4d\x3c\xb2\xa1": "little",
    b"\xa1\xb2\xc3\xd4": "big",
    b"\xa1\xb2\x3c\x4d": "big",
}
"""How a capture begins -> order of the bytes of its own head; the packets have the network's."""

Block = tuple[npt.NDArray[np.uint8], bool, Callable[[int], None], bool]


def _blocks(path: Path, tally: Tally) -> Iterator[Block]:
    """(bytes of messages behind their length, whether they are the last, what is told how many
    were taken, whether messages are missing before them)."""
    window = Window(path)
    if not window.fill():
        return
    order: Any = _MAGIC.get(window.bytes[:4].tobytes())
    if order is None:
        while window.fill():
            yield window.bytes, window.ended, window.take, False
        return
    awaited: dict[bytes, int] = {}
    window.take(24)
    while window.fill():
        if len(window.bytes) < 16:
            break
        size = int.from_bytes(window.bytes[8:12].tobytes(), order)
        if len(window.bytes) < 16 + size:
            break
        packet = window.bytes[16 : 16 + size].tobytes()
        window.take(16 + size)
        messages = _mold(packet, awaited, tally)
        if messages is not None:
            block, gap = messages
            yield np.frombuffer(block, np.uint8).copy(), True, lambda _: None, gap
    if len(window.bytes):
        tally.note(Fault.TRUNCATED, 1, f"packet at byte {window.offset}")


def _mold(packet: bytes, awaited: dict[bytes, int], tally: Tally) -> tuple[bytes, bool] | None:
    """The messages of a MoldUDP64 packet and whether some are missing before; None without any."""
    at = 12
    while packet[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    if packet[at : at + 2] != b"\x08\x00" or len(packet) < at + 2 + 20:
        return None
    at += 2
    udp = at + (packet[at] & 15) * 4
    if packet[at + 9] != 17 or len(packet) < udp + 8 + 20:
        return None
    end = udp + int.from_bytes(packet[udp + 4 : udp + 6], "big")
    if end > len(packet):
        tally.note(Fault.TRUNCATED, 1, "a packet")
        return None
    session, body = packet[udp + 8 : udp + 18], packet[udp + 28 : end]
    first = int.from_bytes(packet[udp + 18 : udp + 26], "big")
    count = int.from_bytes(packet[udp + 26 : udp + 28], "big")
    if count in (0, 0xFFFF):
        return None  # a heartbeat, or the end of the session
    known = awaited.get(session)
    gap = known is not None and first > known
    tally.note(Fault.GAP, int(gap))
    if known is not None and first + count <= known:
        return None  # sent again
    awaited[session] = first + count
    return body, gap


_HEAD_BYTES = 8 << 20
"""Of a file, in which its stocks are looked for: the directory comes before all trading."""

_DIRECTORY, _NAME_AT = ord("R"), {ord("R"): 11, ord("A"): 24, ord("F"): 24}


def _directory(path: Path) -> tuple[dict[str, int], int]:
    """The stocks of the file by name with their numbers, and its day as ns since 1970."""
    named: dict[int, dict[str, int]] = {kind: {} for kind in _NAME_AT}
    read = 0
    for data, _, take, _ in _blocks(path, Tally(str(path), "drop")):
        raw, at = data.tobytes(), 0
        while at + 3 <= len(raw):
            kind, told = raw[at + 2], int.from_bytes(raw[at : at + 2], "big")
            size = max(told, int(_LENGTH_OF[kind]))
            if _LENGTH_OF[kind] == 0 or at + 2 + size > len(raw):
                break
            if kind in _NAME_AT:
                name = raw[at + 2 + _NAME_AT[kind] :][:8].decode("ascii", "replace").strip()
                named[kind].setdefault(name, int.from_bytes(raw[at + 3 : at + 5], "big"))
            at += 2 + size
        take(at)
        read += at
        if at == 0 or read > _HEAD_BYTES:
            break
    listed = named[_DIRECTORY]
    return listed or {**named[ord("A")], **named[ord("F")]}, _day(path)


_DATES = (
    (re.compile(r"(?<!\d)(20\d\d)(0\d|1[0-2])([0-3]\d)(?!\d)"), "{0}-{1}-{2}"),
    (re.compile(r"(?<!\d)(0\d|1[0-2])([0-3]\d)(20\d\d)(?!\d)"), "{2}-{0}-{1}"),
)
"""20101224, and 12242010 as Nasdaq names its files."""


def _day(path: Path) -> int:
    """The day of the first packet in New York, or of the file's name; ns since 1970."""
    window = Window(path, 64)
    window.fill()
    first = window.bytes.tobytes()
    order: Any = _MAGIC.get(first[:4])
    if order is not None:
        second = int.from_bytes(first[24:28], order) * times.SECOND_NS
        local = int(times.local_of_utc(np.array([second]), ZONE)[0])
        return local - local % times.DAY_NS
    for pattern, form in _DATES:
        if found := pattern.search(path.name):
            return times.parse_instant(form.format(*found.groups()))
    raise DataError(
        f"{path}: ITCH messages tell the time of day alone: put the date into the file's name, as "
        "in 20191230.NASDAQ_ITCH50"
    )
