"""Cases E6 and E7: who gets in, who does not, and that the token is written nowhere else."""

import os
import socket
import ssl
import stat

import httpx
import pytest
import trustme
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from quantdsl.cockpit.history import History
from quantdsl.cockpit.security import HEADERS, TOKEN_FILE, Address, token_of
from quantdsl.cockpit.server import Cockpit
from quantdsl.config import CockpitConfig
from quantdsl.errors import ConfigError
from tests.cockpit.raw import ask, command, upgrade
from tests.waiting import WAIT_S

JSON = "application/json"
EVERYWHERE = "0.0.0.0"  # noqa: S104  the tests are that this is refused


def good(played, **more):
    """The headers of a command as our own page sends it."""
    return {
        "Host": f"127.0.0.1:{played.port}",
        "Origin": f"http://127.0.0.1:{played.port}",
        "Authorization": f"Bearer {played.token}",
        "Content-Type": JSON,
        **more,
    }


def good_socket(played, **more):
    return upgrade(
        {
            "Host": f"127.0.0.1:{played.port}",
            "Origin": f"http://127.0.0.1:{played.port}",
            "Sec-WebSocket-Protocol": f"quantdsl.cockpit, token.{played.token}",
            **more,
        }
    )


def without(headers, *names):
    return {name: value for name, value in headers.items() if name not in names}


# ---- the token and where it is ----


def test_the_token_is_long_private_and_kept(tmp_path):
    token = token_of(tmp_path)
    assert len(token) == 43  # 256 bits, six a character
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert token_of(tmp_path) == token
    (tmp_path / "other").mkdir()
    assert token_of(tmp_path / "other") != token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_token_that_others_may_read_is_not_used(tmp_path, mode):
    token_of(tmp_path)
    os.chmod(tmp_path / TOKEN_FILE, mode)
    with pytest.raises(ConfigError, match=r"read by others\nhelp: delete the file"):
        token_of(tmp_path)


def test_a_token_that_is_a_link_or_short_is_not_used(tmp_path):
    (tmp_path / "real").write_text("x" * 43)
    os.chmod(tmp_path / "real", 0o600)
    (tmp_path / TOKEN_FILE).symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="cannot be read"):
        token_of(tmp_path)
    (tmp_path / TOKEN_FILE).unlink()
    (tmp_path / TOKEN_FILE).write_text("short")
    os.chmod(tmp_path / TOKEN_FILE, 0o600)
    with pytest.raises(ConfigError, match="is not a token"):
        token_of(tmp_path)


def test_the_token_is_in_no_line_that_the_session_writes(play, capfd, caplog):
    played = play(runs=True)
    assert ask(played.port, "POST", "/command", good(played), command())[0] == 202
    assert ask(played.port, "GET", "/metrics", without(good(played), "Origin"))[0] == 200
    ask(played.port, "GET", "/metrics", good(played, Authorization=f"Basic {played.token}"))
    url = f"ws://127.0.0.1:{played.port}/live"
    protocols = ["quantdsl.cockpit", f"token.{played.token}"]
    with connect(
        url, subprotocols=protocols, origin=played.cockpit.address.url, open_timeout=WAIT_S
    ) as stream:
        frames = [stream.recv(timeout=WAIT_S) for _ in range(3)]
        assert stream.subprotocol == "quantdsl.cockpit"
    played.close()
    out, err = capfd.readouterr()
    assert played.token not in out + err + caplog.text + "".join(map(str, frames))
    for file in played.folder.rglob("*"):
        if file.name != TOKEN_FILE:
            assert played.token.encode() not in file.read_bytes()
    assert played.token not in played.cockpit.address.url


# ---- where it listens ----


def test_it_listens_on_this_machine_alone(play):
    played = play()
    bound = {one.getsockname()[0] for one in played.cockpit._sockets}
    assert bound <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in bound
    if "::1" in bound:
        with socket.create_connection(("::1", played.port), timeout=WAIT_S):
            pass


@pytest.mark.parametrize(
    "settings",
    [
        CockpitConfig(host=EVERYWHERE),
        CockpitConfig(host=EVERYWHERE, exposed=True),
        CockpitConfig(host="::", certificate="a.pem", key="b.pem"),
        CockpitConfig(host="192.0.2.1", exposed=True, certificate="a.pem"),
    ],
)
def test_others_are_let_in_only_by_flag_and_tls(tmp_path, settings):
    with pytest.raises(ConfigError, match=r"reached from other machines\nhelp: leave it"):
        Cockpit(History(), lambda _: None, tmp_path, settings)
    assert not (tmp_path / TOKEN_FILE).exists()


def test_a_port_that_is_taken_is_passed_over(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cockpit = Cockpit(History(), lambda _: None, tmp_path, CockpitConfig(port=port))
        assert port < cockpit.address.port <= port + 10
        cockpit.close()


def test_exposed_it_speaks_tls_and_still_needs_the_token(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    settings = CockpitConfig(
        host=EVERYWHERE, port=0, exposed=True, certificate=str(certificate), key=str(key)
    )
    cockpit = Cockpit(History(), lambda _: None, tmp_path, settings)
    cockpit.start()
    try:
        port, token = cockpit.address.port, cockpit.link.rpartition("#")[2]
        url = f"https://127.0.0.1:{port}"
        with httpx.Client(verify=trust, base_url=url, timeout=WAIT_S) as client:
            assert client.get("/").status_code == 200
            assert client.get("/metrics").status_code == 401
            told = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
            assert told.status_code == 200
            evil = {"Host": f"evil.test:{port}", "Authorization": f"Bearer {token}"}
            assert client.get("/metrics", headers=evil).status_code == 403
        assert ask(port, "GET", "/", {"Host": f"127.0.0.1:{port}"})[0] == 0  # in the clear
    finally:
        cockpit.close()


def test_a_certificate_that_cannot_be_used_is_told_of(tmp_path):
    settings = CockpitConfig(certificate=str(tmp_path / "no.pem"), key=str(tmp_path / "no.key"))
    with pytest.raises(ConfigError, match="cannot be used: "):
        Cockpit(History(), lambda _: None, tmp_path, settings)


def test_exposed_it_answers_to_addresses_and_never_to_names():
    address = Address(EVERYWHERE, 443, tls=True)
    assert address.is_ours("192.0.2.7:443")
    assert not address.is_ours("evil.test:443")
    assert not Address("127.0.0.1", 443).is_ours("192.0.2.7:443")


# ---- without the token ----

DATA = ["/metrics", "/command", "/live", "/nowhere", "/cockpit.js.map", "//", "/../cockpit.token"]


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize(
    "sent", ["", "Bearer", "Bearer x", "Bearer é", "Basic TOKEN", "TOKEN", "Bearer TOKENx"]
)
def test_without_the_token_nothing_is_told(play, path, sent):
    played = play()
    headers = without(good(played), "Authorization", "Origin")
    if sent:
        headers["Authorization"] = sent.replace("TOKEN", played.token)
    status, answered, body = ask(played.port, "GET", path, headers)
    assert status == 401
    assert b"token" in body
    assert answered["content-security-policy"] == HEADERS["content-security-policy"]
    url = f"{path}?token={played.token}"
    assert ask(played.port, "GET", url, headers)[0] == 401  # a URL opens nothing


def test_who_is_refused_makes_no_work(play, monkeypatch):
    """The session is not asked and nothing is put together; bench_cockpit.py times it."""
    played, asked = play(), []
    for name in ("news", "snapshot"):
        monkeypatch.setattr(played.history, name, lambda *_, name=name: asked.append(name))
    for _ in range(31):
        assert ask(played.port, "GET", "/metrics", {"Host": f"127.0.0.1:{played.port}"})[0] == 401
    assert not asked


def test_the_open_page_holds_nothing_of_the_session(play):
    played = play()
    for path in ("/", "/cockpit.js", "/words.js", "/theme.css", "/lightweight-charts.js"):
        status, headers, body = ask(played.port, "GET", path, {"Host": f"localhost:{played.port}"})
        assert status == 200
        assert played.token.encode() not in body
        assert b"CryptoMaker" not in body
        assert headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in headers["content-security-policy"]
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "set-cookie" not in headers


# ---- other pages' browsers ----

EVIL = "http://evil.test"
FORM = "application/x-www-form-urlencoded"


def shapes(played):
    """Name -> method, path, headers, body: what a page of another's can make a browser send, as if
    it even knew the token."""
    port = played.port
    cookie = {"Cookie": f"token={played.token}; quantdsl={played.token}"}
    post, get = good(played), without(good(played), "Origin")
    evil_host = {"Host": f"evil.test:{port}"}
    form = {"Content-Type": FORM, "Origin": EVIL}
    preflight = {
        "Host": f"127.0.0.1:{port}", "Origin": EVIL, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }  # fmt: skip
    return {
        "foreign origin": ("POST", "/command", {**post, "Origin": EVIL}, command()),
        "null origin": ("POST", "/command", {**post, "Origin": "null"}, command()),
        "no origin, a cookie": (
            "POST", "/command", {**without(post, "Origin", "Authorization"), **cookie}, command(),
        ),
        "foreign host": ("POST", "/command", {**post, **evil_host}, command()),
        "rebinding": (
            "POST", "/command", {**post, **evil_host, "Origin": f"{EVIL}:{port}"}, command(),
        ),
        "preflight": ("OPTIONS", "/command", preflight, b""),
        "form": ("POST", "/command", {**post, **form, **cookie}, b"kind=halt&id=1"),
        "form from our own origin": (
            "POST", "/command", {**post, "Content-Type": FORM}, b"kind=halt",
        ),
        "text as a simple request": (
            "POST", "/command", {**post, "Content-Type": "text/plain"}, command(),
        ),
        "another port of this machine": (
            "POST", "/command", {**post, "Origin": f"http://127.0.0.1:{port + 1}"}, command(),
        ),
        "read from another site": ("GET", "/metrics", {**get, "Sec-Fetch-Site": "cross-site"}, b""),
        "read from another port": ("GET", "/metrics", {**get, "Sec-Fetch-Site": "same-site"}, b""),
        "socket, foreign origin": ("GET", "/live", good_socket(played, Origin=EVIL), b""),
        "socket, null origin": ("GET", "/live", good_socket(played, Origin="null"), b""),
        "socket, no origin": ("GET", "/live", without(good_socket(played), "Origin"), b""),
        "socket, foreign host": ("GET", "/live", good_socket(played, **evil_host), b""),
        "socket, rebinding": (
            "GET", "/live", good_socket(played, Origin=f"{EVIL}:{port}", **evil_host), b"",
        ),
        "name that begins like ours": (
            "POST", "/command", {**post, "Host": f"localhost.evil.test:{port}"}, command(),
        ),
        "host without a port": ("POST", "/command", {**post, "Host": "127.0.0.1"}, command()),
        "encrypted origin": (
            "POST", "/command", {**post, "Origin": f"https://127.0.0.1:{port}"}, command(),
        ),
        "put": ("PUT", "/command", post, command()),
        "page by a foreign name": ("GET", "/", evil_host, b""),
    }  # fmt: skip


def test_no_page_of_another_gets_in_by_any_shape(play):
    played = play()
    tried = shapes(played)
    assert len(tried) >= 12
    for name, (method, path, headers, body) in tried.items():
        status, answered, _ = ask(played.port, method, path, headers, body)
        assert status == 403, name
        assert "access-control-allow-origin" not in answered
    assert not played.script.sent
    assert ask(played.port, "POST", "/command", good(played), command())[0] == 202
    assert [sent.kind for sent in played.script.sent] == ["halt"]  # the shapes were near enough


def test_a_header_that_comes_twice_is_refused(play):
    played = play()
    for name in ("Host", "Origin"):
        headers = good(played)
        headers[name.lower()] = headers[name]
        assert ask(played.port, "POST", "/command", headers, command())[0] in (400, 403)
    assert not played.script.sent


@pytest.mark.parametrize("sent", ["", "quantdsl.cockpit", "quantdsl.cockpit, token.wrong"])
def test_a_socket_without_the_token_is_told_so(play, sent):
    played = play()
    headers = good_socket(played)
    headers["Sec-WebSocket-Protocol"] = sent
    headers = headers if sent else without(headers, "Sec-WebSocket-Protocol")
    assert ask(played.port, "GET", "/live", headers)[0] == 401
    with pytest.raises(InvalidStatus, match="401"), connect(
        f"ws://127.0.0.1:{played.port}/live?token={played.token}",
        origin=played.cockpit.address.url, open_timeout=WAIT_S,
    ):  # fmt: skip
        pass


def test_nothing_is_changed_by_reading(play):
    played = play()
    headers = without(good(played), "Origin")
    assert ask(played.port, "GET", "/command?kind=halt&id=1", headers)[0] == 405
    assert not played.script.sent


@pytest.mark.parametrize(
    ("tls", "port", "host", "ours"),
    [
        (False, 80, "127.0.0.1", True),
        (False, 80, "[::1]", True),
        (False, 80, "localhost:80", True),
        (False, 80, "evil.test", False),
        (False, 80, "127.0.0.1:443", False),
        (True, 443, "localhost", True),
        (True, 80, "localhost", False),
        (False, 8787, "127.0.0.1", False),
        (False, 80, "", False),
    ],
)
def test_a_browser_leaves_the_usual_port_out(tls, port, host, ours):
    assert Address("127.0.0.1", port, tls).is_ours(host) == ours
