"""The test venues themselves: what they play, what their oracle books say, each fault they can do.

The client here is a plain one of the websockets library, no adapter.
"""

import asyncio
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, Self

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.venues import binance
from tests.venues.faults import (
    Close,
    Delay,
    Dial,
    Duplicate,
    Faults,
    Insert,
    Instead,
    Lose,
    Reorder,
    Reset,
    Stall,
)
from tests.venues.server import Venue, foreign_ca_file
from tests.venues.tape import Book, Message
from tests.waiting import WAIT_S

PATH = "/stream?streams=btcusdt@depth@100ms"


class Stream:
    """A client in the thread of its test alone: one that reads in another thread than it writes in
    may do both at once, which OpenSSL does not allow on one connection: it was seen to hang."""

    def __init__(self, venue: Venue, path: str, seconds: float, ca_file: str) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._connection = self._run(self._open(venue, path, seconds, ca_file))
        except BaseException:
            self._loop.close()
            raise

    def send(self, text: str) -> None:
        self._run(self._connection.send(text))

    def recv(self, seconds: float) -> str | bytes:
        return self._run(asyncio.wait_for(self._connection.recv(), seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._connection.close())
        self._loop.close()

    async def _open(
        self, venue: Venue, path: str, seconds: float, ca_file: str
    ) -> ClientConnection:
        trust = ssl.create_default_context(cafile=ca_file)
        plain = socket.create_connection(("localhost", venue.port), seconds)
        return await connect(venue.stream_url + path, ssl=trust, server_hostname="localhost",
                             sock=plain, open_timeout=seconds, close_timeout=0.2, proxy=None)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)


def dial(
    venue: Venue, path: str = PATH, seconds: float = WAIT_S, ca_file: str | None = None
) -> Stream:
    return Stream(venue, path, seconds, ca_file or venue.ca_file)


def ask(venue: Venue, path: str) -> object:
    trust = ssl.create_default_context(cafile=venue.ca_file)
    with urllib.request.urlopen(venue.rest_url + path, context=trust, timeout=WAIT_S) as answer:  # noqa: S310
        return json.load(answer)


@pytest.fixture
def venue():
    with Venue(binance.made_up(steps=200)) as one:
        yield one


def ids(venue: Venue, count: int) -> list[int]:
    with dial(venue) as stream:
        return [json.loads(stream.recv(WAIT_S))["data"]["u"] for _ in range(count)]


def first_ids(venue: Venue, count: int) -> list[int]:
    texts = [one.text for one in venue.dialect.tape if one.book]
    return [json.loads(text)["data"]["u"] for text in texts[:count]]


def test_a_tape_is_played_in_order(venue):
    assert ids(venue, 200) == first_ids(venue, 200)
    assert venue.log.requests == [PATH]


def test_snapshot_and_changes_make_the_book_of_the_market(venue):
    answer = ask(venue, "/api/v3/depth?symbol=BTCUSDT&limit=1000")
    market = binance.Market(1)
    book = Book(sequence=answer["lastUpdateId"])
    for side, key in enumerate(("bids", "asks")):
        for price, size in answer[key]:
            book.set(side, price, size)
    with dial(venue) as stream:
        for _ in range(200):
            data = json.loads(stream.recv(WAIT_S))["data"]
            for side, key in enumerate(("b", "a")):
                for price, size in data[key]:
                    book.set(side, price, size)
    assert sum(1 for _ in market.steps(200)) == 200
    tick, lot = venue.dialect.units["BTCUSDT"]
    assert book.in_units(tick, lot) == (market.bids, market.asks)
    later = ask(venue, "/api/v3/depth?symbol=BTCUSDT&limit=5000")
    assert [tuple(one) for one in later["bids"]] == book.levels(0)


def test_subscribing_on_an_open_stream(venue):
    with dial(venue, "/ws") as stream:
        stream.send('{"method":"SUBSCRIBE","params":["btcusdt@trade"],"id":7}')
        assert json.loads(stream.recv(WAIT_S)) == {"result": None, "id": 7}
        assert json.loads(stream.recv(WAIT_S))["e"] == "trade"


def test_symbols_and_bars_have_the_documented_shape(venue):
    info = ask(venue, "/api/v3/exchangeInfo?symbol=BTCUSDT")
    (symbol,) = info["symbols"]
    sizes = {one["filterType"]: one for one in symbol["filters"]}
    assert sizes["PRICE_FILTER"]["tickSize"] == "0.01000000"
    assert sizes["LOT_SIZE"]["stepSize"] == "0.00100000"
    rows = ask(venue, "/api/v3/klines?symbol=BTCUSDT&interval=1m&limit=5")
    assert [len(row) for row in rows] == [12] * 5
    assert [b[0] - a[0] for a, b in pairwise(rows)] == [60_000] * 4
    assert all(a[4] == b[1] for a, b in pairwise(rows))
    with pytest.raises(urllib.error.HTTPError, match="400"):
        ask(venue, "/api/v3/depth?symbol=NONE")


def test_only_its_own_authority_is_trusted(venue, tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError):
        dial(venue, ca_file=foreign_ca_file(tmp_path))


@pytest.mark.parametrize(
    ("fault", "order"),
    [
        (Lose(3), [0, 1, 5, 6, 7]),
        (Duplicate(2), [0, 1, 2, 2, 2, 3]),
        (Reorder(3), [0, 1, 4, 3, 2, 5]),
        (Delay(2), [0, 1, 3, 4, 2, 5]),
        (Insert("17"), [0, 1, 17, 2, 3]),
        (Instead(lambda text: text + "0"), [0, 1, 20, 3]),
    ],
)
def test_faults_of_messages(fault, order):
    faults, texts = Faults(), []
    faults.at(2, fault)
    for number in range(8):
        texts += faults.apply(Message(number, "S", "c", str(number)))
    assert [int(text) for text in texts[: len(order)]] == order


@pytest.mark.parametrize("fault", [Reset(), Close(), Close(1012, linger_s=0.3)])
def test_a_stream_ends(venue, fault):
    venue.faults.at(2, fault)
    with dial(venue) as stream:
        got = [stream.recv(WAIT_S), stream.recv(WAIT_S)]
        with pytest.raises(ConnectionClosed):
            stream.recv(WAIT_S)
    assert len(got) == 2


def test_a_stall_is_silence(venue):
    venue.faults.at(2, Stall(3600.0))
    with dial(venue) as stream:
        assert len([stream.recv(WAIT_S), stream.recv(WAIT_S)]) == 2
        with pytest.raises(TimeoutError):
            stream.recv(0.2)
        venue.resume()
        assert stream.recv(WAIT_S)


@pytest.mark.parametrize("how", [how for how in Dial if how is not Dial.MUTE])
def test_dials(venue, how):
    venue.faults.dial(how)
    expected = {Dial.REFUSED: InvalidStatus, Dial.CLOSED: ConnectionClosed}
    silent = how in (Dial.HANG, Dial.TLS_STALL)
    with (
        pytest.raises(expected.get(how, (OSError, EOFError))),
        dial(venue, seconds=0.3 if silent else WAIT_S) as stream,
    ):
        stream.recv(WAIT_S)
    assert ids(venue, 2)


def test_a_request_without_an_answer(venue):
    """The library's own client would wait for the end of its reading thread without a bound."""
    venue.faults.dial(Dial.MUTE)
    trust = ssl.create_default_context(cafile=venue.ca_file)
    with (
        socket.create_connection(("localhost", venue.port)) as raw,
        trust.wrap_socket(raw, server_hostname="localhost") as stream,
    ):
        stream.sendall(f"GET {PATH} HTTP/1.1\r\nUpgrade: websocket\r\n\r\n".encode())
        stream.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(1)
    assert ids(venue, 2)


def test_nobody_listens_and_somebody_does_again(venue):
    venue.refuse()
    with pytest.raises(ConnectionRefusedError), dial(venue):
        pass
    venue.listen()
    assert ids(venue, 1)


@pytest.mark.parametrize(
    ("name", "futures"), [("usdm_btcusdt", True), ("spot_btcusdt", False), ("spot_ethusdt", False)]
)
def test_recordings_lie_on_the_tape(name, futures):
    dialect = binance.hftbacktest(name, 2_000)
    tick, lot = dialect.units[dialect.tape[0].symbol]
    book = dialect.depth[dialect.tape[0].symbol].book(2_000)
    bids, asks = book.in_units(tick, lot)
    assert max(bids) < min(asks)
    quotes = [one for one in dialect.tape if "@bookTicker" in one.channel]
    before = [one for one in quotes if binance.data_of(one.text)["u"] <= book.sequence]
    last = binance.data_of(before[-1].text)
    assert book.levels(0, 1) == [(last["b"], last["B"])]
    assert book.levels(1, 1) == [(last["a"], last["A"])]


@pytest.mark.parametrize("futures", [False, True])
def test_four_symbols_with_their_snapshots(futures):
    dialect = binance.cryptofeed(futures)
    assert len(dialect.depth) == 4
    for depth in dialect.depth.values():
        bids, asks = depth.book(len(dialect.tape)).in_units(*dialect.units[
            next(s for s, d in dialect.depth.items() if d is depth)])
        assert max(bids) < min(asks)
