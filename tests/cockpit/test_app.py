"""Commands and news as the page gets them; case E8: what abuse can and cannot do."""

import json
import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from quantdsl.cockpit.app import BODY_BYTES_MAX, CLIENTS_MAX
from quantdsl.cockpit.server import IDLE_MAX
from quantdsl.errors import QuantDSLError
from tests.cockpit.raw import answer, ask, command, dial
from tests.cockpit.script import Script
from tests.cockpit.test_door import good, good_socket
from tests.waiting import WAIT_S, until

HOSTILE = "<script>alert(1)</script>\"'&<!--"


def stream(played, **more):
    return connect(
        f"ws://127.0.0.1:{played.port}/live",
        subprotocols=["quantdsl.cockpit", f"token.{played.token}"],
        origin=played.cockpit.address.url,
        open_timeout=WAIT_S,
        **more,
    )


def frame(socket):
    return json.loads(socket.recv(timeout=WAIT_S))


def frame_where(news, true):
    """The next one of which that is true: where nothing is new, a page is told so every second."""

    def found():
        one = frame(news)
        return one if true(one) else None

    return until(found)


def read_on(news):
    """Reads until the connection ends, which raises."""
    while True:
        news.recv(timeout=WAIT_S)


def send(played, body):
    status, _, text = ask(played.port, "POST", "/command", good(played), body)
    return status, text.decode()


# ---- commands ----


@pytest.mark.parametrize("kind", ["halt", "reduce", "cancel_all", "flatten", "rearm"])
def test_a_command_reaches_the_session_once(play, kind):
    played = play()
    assert send(played, command(kind, strategy="CryptoMaker"))[0] == 202
    assert send(played, command(kind, strategy="CryptoMaker")) == (
        200, '{"id":"' + kind + '-1","repeated":true}',
    )  # fmt: skip
    (sent,) = played.script.sent
    assert (sent.kind, sent.strategy, sent.by) == (kind, "CryptoMaker", "cockpit")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"\xff",
        command("stop"),
        command("buy"),
        command(strategy="Nobody"),
        command(strategy=3),
        command(quantity=5),
        b'{"kind":"halt"}',
        b"[" * 60_000,
    ],
)
def test_what_is_no_command_is_refused(play, body):
    played = play()
    assert send(played, body)[0] == 422
    assert not played.script.sent


def test_a_session_that_takes_nothing_is_told_of(play):
    played = play()

    def broken(_):
        raise QuantDSLError("the session has ended")

    played.script.send = broken
    played.cockpit.close()
    again = type(played)(played.folder, played.script, warm=1, runs=False)
    try:
        assert send(again, command()) == (
            503, "the session did not take it: the session has ended\n",
        )  # fmt: skip
        with stream(again) as news:
            assert "did not reach the session" in frame(news)["log"][-1]["text"]
    finally:
        again.close()


# ---- news ----


def test_a_page_gets_all_there_is_and_then_only_what_is_new(play):
    played = play(warm=2_000)
    with stream(played) as news:
        first = frame(news)
        assert first["session"]["state"] == "active"
        assert first["symbol"] == "BTCUSDT"
        assert first["bars_whole"]
        assert first["points_whole"]
        assert first["rows_whole"]
        assert len(first["bars"]) == 41  # of five seconds, the one that forms too
        assert len(first["points"]) == 200
        assert first["fills"]
        assert first["book"]["symbol"] == "BTCUSDT"
        played.history.take(played.script.next())
        second = frame_where(news, lambda one: one["session"]["seq"] != first["session"]["seq"])
        assert not second["bars_whole"]
        assert not second["rows_whole"]
        assert len(second["bars"]) == 1
        assert second["session"]["seq"] == first["session"]["seq"] + 1
        numbers = [fill["seq"] for fill in first["fills"] + second["fills"]]
        assert numbers == sorted(set(numbers))


def test_a_page_chooses_its_instrument(play):
    played = play(warm=200)
    with stream(played) as news:
        frame(news)
        news.send('{"symbol": "ETHUSDT"}')
        chosen = frame_where(news, lambda one: one["symbol"] == "ETHUSDT")
        assert chosen["bars_whole"]
        assert {bar["symbol"] for bar in chosen["bars"]} == {"ETHUSDT"}
        assert not chosen["points_whole"]
        assert not chosen["fills"]
        news.send('{"symbol": "NOTHERE"}')
        assert frame_where(news, lambda one: one["symbol"] == "NOTHERE")["bars"] == []


def test_a_session_that_is_silent_is_shown_as_that(play):
    played = play()
    with stream(played) as news:
        ages = [frame(news)["age_s"] for _ in range(3)]
    assert ages[-1] > ages[0] + 1.5


# ---- abuse ----


def test_as_many_pages_as_are_meant_and_no_more(play):
    played = play()
    with ExitStack() as open_pages:
        for _ in range(CLIENTS_MAX - 1):
            assert frame(open_pages.enter_context(stream(played)))["session"]
        with stream(played) as last:
            assert frame(last)["session"]
            with pytest.raises(InvalidStatus, match="503"), stream(played):
                pass

        def let_in():
            with suppress(InvalidStatus), stream(played) as again:
                return frame(again)["session"]

        assert until(let_in)


@pytest.mark.parametrize("size", [BODY_BYTES_MAX + 1, 10_000_000])
def test_large_bodies_and_frames_end_at_the_limit(play, size):
    played = play()
    headers = good(played, **{"Content-Length": str(size)})
    lines = ["POST /command HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with dial(played.port) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + b"x" * size)
        with suppress(ConnectionResetError):
            assert answer(connection)[0] in (0, 413)
    with stream(played) as news:
        frame(news)
        with suppress(ConnectionClosed):
            news.send("x" * size)
        with pytest.raises(ConnectionClosed) as ended:
            read_on(news)
        assert ended.value.rcvd is None or ended.value.rcvd.code == 1009
    with stream(played) as news:
        assert frame(news)["session"]


def test_nothing_is_compressed(play):
    played = play()
    with stream(played, compression="deflate") as news:
        assert not news.protocol.extensions
        frame(news)


@pytest.mark.parametrize(
    "wish", ["", "{", "[]", '{"symbol": 3}', '{"symbol": "x", "more": 1}', b"x"]
)
def test_a_wish_that_makes_no_sense_ends_the_stream(play, wish):
    played = play()
    with stream(played) as news:
        frame(news)
        news.send(wish)
        with pytest.raises(ConnectionClosed):
            read_on(news)


def test_a_page_that_does_not_read_is_dropped_and_others_are_served(play, monkeypatch):
    monkeypatch.setattr("quantdsl.cockpit.app.SEND_S_MAX", 2.0)
    played = play(warm=10, runs=True)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(WAIT_S)
    slow.connect(("127.0.0.1", played.port))
    headers = good_socket(played)
    lines = ["GET /live HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    slow.sendall("\r\n".join([*lines, "", ""]).encode())
    assert slow.recv(12) == b"HTTP/1.1 101"
    with stream(played) as news:
        for _ in range(5):
            frame(news)
        huge = "x" * 300_000

        def dropped():
            played.history.say("info", "test", huge)
            frame(news)
            return "quantdsl_cockpit_clients 2.0" not in metrics(played)

        until(dropped, lambda: "the slow page is still there")
        assert "quantdsl_cockpit_clients 1.0" in metrics(played)
        assert frame(news)["session"]
    slow.close()


def metrics(played):
    headers = {"Host": f"127.0.0.1:{played.port}", "Authorization": f"Bearer {played.token}"}
    return ask(played.port, "GET", "/metrics", headers)[2].decode()


def test_a_thousand_connections_that_ask_for_nothing_keep_nobody_out(play):
    played = play(runs=True)
    crowd = []
    try:
        crowd += (dial(played.port) for _ in range(1_000))
        with stream(played) as news:
            assert frame(news)["session"]
        assert "quantdsl_up 1.0" in metrics(played)
        until(lambda: len(open_connections(crowd)) <= IDLE_MAX)
    finally:
        for one in crowd:
            one.close()


def open_connections(crowd):
    """Those that the server has not ended."""
    found = []
    for one in crowd:
        one.setblocking(False)
        try:
            if one.recv(1):
                found.append(one)
        except BlockingIOError:
            found.append(one)
        except OSError:
            pass
    return found


def test_a_flood_takes_nothing_from_who_gives_the_snapshots(play, monkeypatch):
    """The history is all that the engine's side shares with the page: each snapshot is taken, and
    reaches all, while sixteen pages read and strangers knock. bench_cockpit.py times it."""
    monkeypatch.setattr("quantdsl.cockpit.app.SEND_S_MAX", WAIT_S)  # all are read by one thread
    played = play(warm=500)
    stop, knocks = threading.Event(), [0] * 4

    def knock(number):
        while not stop.is_set():
            with suppress(OSError):
                ask(played.port, "GET", "/metrics", {"Host": f"127.0.0.1:{played.port}"})
                knocks[number] += 1

    knocking = [threading.Thread(target=knock, args=(number,)) for number in range(4)]
    with ExitStack() as open_pages:
        pages = [open_pages.enter_context(stream(played)) for _ in range(CLIENTS_MAX)]
        for thread in knocking:
            thread.start()
        last = 0
        while min(knocks) < 5 or last == 0:
            for _ in range(60):
                snapshot = played.script.next()
                played.history.take(snapshot)
                last = snapshot.seq
            for page in pages:
                assert frame(page)["session"]["seq"] <= last
        for page in pages:
            until(lambda page=page: frame(page)["session"]["seq"] == last)
        stop.set()
        for thread in knocking:
            thread.join()
    assert played.history.snapshot()[0].seq == last


def test_hostile_names_are_data_to_everyone(play):
    played = play(Script(name=HOSTILE), warm=5)
    played.history.say("error", HOSTILE, HOSTILE)
    with stream(played) as news:
        assert frame(news)["session"]["session"] == HOSTILE
    assert 'strategy="CryptoMaker"' in metrics(played)
