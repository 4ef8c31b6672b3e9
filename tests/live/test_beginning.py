"""How a session begins: what is refused before there is one, and what is left of it then."""

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

from quantdsl.cli import run
from quantdsl.errors import ConfigError
from quantdsl.live import manifest as manifests
from quantdsl.live import session
from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import open_feed
from quantdsl.live.running import held
from quantdsl.live.venues import Venues
from tests.live.test_session import INVENTED, STRATEGY


@pytest.fixture
def strategy(tmp_path):
    path = tmp_path / "crosser.qdsl"
    path.write_text(STRATEGY, encoding="utf-8")
    return path


def refused(capsys, *words: object) -> str:
    """What `quantdsl paper` says of a mistake of its user's."""
    assert run(["paper", *map(str, words), "--for", "0.1"]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('[cockpit]\nhost = "192.0.2.1"', "cockpit.host 192.0.2.1 is reached from other machines"),
        ('[cockpit]\ncertificate = "a.pem"', "cockpit.certificate and cockpit.key belong together"),
        ('[cockpit]\nkey = "a.pem"', "cockpit.certificate and cockpit.key belong together"),
        ('[alerts]\nwebhook = "chat.example"', "alerts.webhook is no address that an alert can be"),
        ('[alerts]\nwebhook = "https://"', "alerts.webhook is no address that an alert can be"),
        ('[alerts]\nwebhook = "http://[::1/"', "alerts.webhook is no address that an alert can be"),
        ('[alerts]\nwebhook = "http://a:b/"', "alerts.webhook is no address that an alert can be"),
        ('[alerts]\nwebhook = "https://a b/"', "alerts.webhook is no address that an alert can be"),
        ('[alerts]\ncommand = ["no-such"]', "alerts.command: there is no program 'no-such' to run"),
        ("[params]\nnobodys = 1", "the strategy has no param 'nobodys'"),
        ('[report]\nout = "there"', "report.out does nothing: the report of a session lies in its"),
        ('[report]\nbenchmark = "no.csv"', "report.benchmark does nothing: a session is compared"),
        ('[signals]\ndevice = "cuda:99"', "device cuda:99: "),
        ('[account]\ncurrency = "EUR"', "the strategy counts in USD and the account in EUR"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path, capsys, strategy, lines, said):
    config, folder = tmp_path / "own.toml", tmp_path / "session"
    config.write_text(INVENTED.read_text("utf-8") + lines + "\n", encoding="utf-8")
    text = refused(capsys, strategy, "--config", config, "--session", folder)
    assert said in text
    assert "params" in lines or re.search(r"own\.toml:\d+: ", text)
    assert not folder.exists()
    folder.mkdir(mode=0o755)
    (folder / "mine.txt").write_text("of somebody's", encoding="utf-8")
    refused(capsys, strategy, "--config", config, "--session", folder)
    assert (folder / "mine.txt").exists()
    assert folder.stat().st_mode & 0o777 == 0o755, "a folder that was there keeps its mode"


def begun(folder: Path, strategy: Path) -> None:
    create(folder, [Wish(strategy, {})], config=INVENTED, said={})


def test_a_session_that_runs_is_neither_put_aside_nor_begun_twice(tmp_path, capsys, strategy):
    folder = tmp_path / "session"
    begun(folder, strategy)
    before = (folder / manifests.FILE).read_bytes()
    with held(folder):
        for more in ((), ("--new",)):
            assert "running already" in refused(capsys, strategy, "--session", folder, *more)
    with pytest.raises(ConfigError, match="another command has just begun this session"):
        begun(folder, strategy)
    assert (folder / manifests.FILE).read_bytes() == before
    assert not (tmp_path / "session.1").exists()


def test_a_session_keeps_its_name_where_no_new_one_can_begin(tmp_path, capsys, strategy):
    folder, config = tmp_path / "session", tmp_path / "own.toml"
    begun(folder, strategy)
    before = (folder / manifests.FILE).read_bytes()
    config.write_text(INVENTED.read_text("utf-8") + "[params]\nnobodys = 1\n", encoding="utf-8")
    refused(capsys, strategy, "--config", config, "--session", folder, "--new")
    assert (folder / manifests.FILE).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["session"]


def test_the_config_says_where_sessions_lie(tmp_path, capsys, strategy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config, lie = tmp_path / "own.toml", tmp_path / "kept"
    text = INVENTED.read_text("utf-8") + f'[journal]\nfolder = "{lie}"\n'
    config.write_text(text, encoding="utf-8")
    begun(lie / "crosser", strategy)
    with held(lie / "crosser"):
        assert f"{lie / 'crosser'}: this session is running already" in refused(
            capsys, strategy, "--config", config
        )


def test_a_device_that_is_not_there_is_refused_whoever_needs_it(tmp_path, capsys, strategy):
    folder = tmp_path / "session"
    said = refused(capsys, strategy, "--session", folder, "--device", "cuda:99")
    assert "device cuda:99: " in said
    assert not os.path.lexists(folder)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_session_does_not_last_less_than_no_time(tmp_path, strategy, seconds):
    folder = tmp_path / "session"
    assert run(["paper", str(strategy), "--session", str(folder), "--for", seconds]) == 2
    assert not os.path.lexists(folder)


@pytest.mark.parametrize(("what", "step"), [("tick", Fraction(1, 1000)), ("lot", Fraction(1, 10))])
def test_a_session_does_not_go_on_where_the_venue_counts_otherwise(
    tmp_path, strategy, monkeypatch, what, step
):
    folder = tmp_path / "session"
    begun(folder, strategy)

    def changed(spec):
        feed = open_feed(spec)
        found = [replace(one, **{what: step}) for one in feed.instruments()]
        monkeypatch.setattr(feed, "instruments", lambda: found)
        return feed

    monkeypatch.setattr(session, "open_feed", changed)
    said = rf"SYN1 has a {what} of {float(step)} now, and the session counts by the [\d.]+ that it"
    with pytest.raises(ConfigError, match=said):
        session.Session(folder, 0, 0)


def test_a_session_starts_with_terms_of_the_user_s_own(tmp_path, strategy):
    """They are not the feed's, nor is what a rate of currencies makes of a multiplier."""
    table, config = tmp_path / "terms.toml", tmp_path / "own.toml"
    terms = 'symbol = "SYN1"\ntick = "0.05"\nlot = "1"\ncurrency = "USDT"\n'
    table.write_text(f"[[instrument]]\n{terms}", encoding="utf-8")
    config.write_text(
        INVENTED.read_text("utf-8")
        + f'[data]\ninstruments = "{table}"\n[account.rates]\nUSDT = 0.9\n',
        encoding="utf-8",
    )
    made = create(tmp_path / "session", [Wish(strategy, {})], config=config, said={})
    ((counted,),) = (part.terms for part in made.strategies)
    assert (counted["tick"], counted["multiplier"]) == ("0.05", "0.9")
    Venues(tmp_path / "session", made, [open_feed(spec) for spec in made.feeds])


def test_who_comes_second_takes_nothing_from_who_begins(tmp_path, capsys, strategy):
    folder = tmp_path / "session"
    folder.mkdir()
    with held(folder):
        (folder / "begun").write_text("by the first", encoding="utf-8")
        with pytest.raises(ConfigError, match="running already"):
            begun(folder, strategy)
    assert sorted(path.name for path in folder.iterdir()) == ["begun", "session.lock"]
