"""Configurations: who wins, who said it, and clear words for every mistake."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from quantdsl import config
from quantdsl.data.instrument import load_instruments
from quantdsl.errors import ConfigError, LimitError
from quantdsl.shipped import shipped

CONFIGS = shipped("configs")
SHIPPED = sorted(CONFIGS.glob("*.toml"))
INSTRUMENTS = sorted((CONFIGS / "instruments").glob("*.toml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text)
    return path


def test_the_nearer_source_wins_and_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "[account]\ncash = 2e5\n[fees]\ntaker_bps = 2\nmaker_bps = 1\n")
    resolved = config.resolve(
        {"account.cash": "5_000"}, path, {"account.cash": 1, "fees.taker_bps": 9, "slippage.bps": 3}
    )
    assert resolved.config.account.cash == 5_000
    assert resolved.config.fees.taker_bps == 2
    assert resolved.config.fees.maker_bps == 1
    assert resolved.config.slippage.bps == 3
    assert resolved.source("account.cash") == "command line"
    assert resolved.source("fees.taker_bps") == "config own.toml"
    assert resolved.source("slippage.bps") == "strategy"
    assert resolved.source("fills.path") == "default"
    assert [entry.key for entry in resolved.entries] == sorted(config.keys())


def test_the_instrument_files_fees_stand_below_the_strategy() -> None:
    fees = {"fees.taker_bps": 5.0, "fees.maker_bps": 2.0}
    resolved = config.resolve(strategy={"fees.taker_bps": 1}, instrument=fees)
    assert resolved.config.fees.taker_bps == 1
    assert resolved.source("fees.maker_bps") == "instrument file"


def test_params_and_columns_are_free_tables(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[params]\nfast = 3\nsrc = "hl2"\n[data.columns]\ntime = "t"\n[data]\nfrom=2024-01-02',
    )
    found = config.resolve(file=path).config
    assert found.params == {"fast": 3, "src": "hl2"}
    assert found.data.columns == {"time": "t"}
    assert found.data.start == "2024-01-02"


MISTAKES = [
    (
        "[fees]\n\ntaker_bsp = 2\n",
        r":3: unknown key 'fees.taker_bsp'; did you mean 'fees.taker_bps'",
    ),
    ("cash = 3\n", r":1: unknown key 'cash'; did you mean 'account.cash'"),
    ("[account]\ncash = {}\n", r":2: account.cash is {} but must be a number above 0"),
    ("[feed]\n", r":1: feed is {} but must be a list, each of it a table"),
    ("[data]\npath = {}\n", r":2: data.path is {} but must be text"),
    ('[feed]\nfeed = "okx"\n', r":2: a session may have several feeds\nhelp: write \[\[feed"),
    ("[feess]\nx = 1\n", r":2: unknown key 'feess.x'. Known: account, alerts, cockpit"),
    (
        '[fees]\ntaker_bps = "x"\n',
        r':2: fees.taker_bps is "x" but must be a number at least 0 and at most 10,000: Of',
    ),
    (
        "[account]\ncash = -1\n",
        r":2: account.cash is -1 but must be a number above 0 and at most 1,000,000,000",
    ),
    ("[account]\ncash = nan\n", r":2: account.cash"),
    (
        "[account]\ncash = inf\n",
        r":2: account.cash is inf but must be a number above 0 and at most",
    ),
    ("[account]\ncash = true\n", r":2: account.cash is true but must be a number"),
    (
        '[fills]\npath = "lucky"\n',
        r':2: fills.path is "lucky" but must be "conservative" or "high_first"',
    ),
    ("[fills]\ndelay_bars = 1.5\n", r":2: fills.delay_bars is 1.5 but must be a whole number"),
    ("[data.columns]\ntime = 3\n", r":2: data.columns.time is 3 but must be text: Column of"),
    (
        "[[feed]]\nfeed = 3\n",
        r":2: feed\[0\].feed is 3 but must be text of a length of at least 1: Its name",
    ),
    ('[[feed]]\nsymbols = ["A"]\n', r":1: feed\[0\]: object missing required field `feed`"),
    (
        '[[feed]]\nfeed = "a"\n\n[[feed]]\nfeed = "b"\nstale_s = "long"\n',
        r':6: feed\[1\].stale_s is "long" but must be a number above 0 and at most 3,600: Silence',
    ),
    (
        '[[feed]]\nfeed = "a"\n[feed.options]\nspeed = []\n',
        r":4: feed\[0\].options.speed is \[\] but must be text or a whole number or a number",
    ),
    ('[[feed]]\nfeed = "a"\nsymbols = ["X", 2]\n', r":3: feed\[0\].symbols\[1\] is 2 but must be"),
    (
        '[[feed]]\nfeed = "a"\n\n[[feed]]\nfeed = "b"\nsymbol = "X"\n',
        r":6: unknown key 'feed\[1\].symbol'; did you mean",
    ),
    ('feed = [{ feed = "a", symbol = "X" }]\n', r":1: unknown key 'feed\[0\].symbol'; did"),
    ("x = \n", "is not TOML"),
    ("[fees]\n[fees]\n", "is not TOML"),
    ('[data]\ntz = "UTC"\ntz = "x"\n', ':3: is not TOML: Cannot set a key twice: tz = "x"'),
    ('[data]\n\ntz = "Mars/Olympus"\n', r":3: data.tz: time zone 'Mars/Olympus' is not known"),
    ('[account]\ncurrency = "dollars"\n', ':2: account.currency is "dollars" but must be text su'),
    ("x = " + "[" * 10_000, "its values are nested too deeply"),
    ("[account]\ncash = " + "9" * 5_000, "is not TOML: Exceeds the limit"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=lambda v: v[:24])
def test_mistakes_name_key_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        config.resolve(file=path)
    assert str(caught.value).startswith(str(path))


def test_a_large_file_is_refused_by_its_limit_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(LimitError, match=r"large.toml: is larger than CONFIG_BYTES \(4,194,304"):
        config.resolve(file=path)


def test_mistakes_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"command line: unknown key 'fees.takr_bps'; did you mean"
    ):
        config.resolve({"fees.takr_bps": "1"})
    with pytest.raises(
        ConfigError, match=r'command line: account.cash is "much" but must be a number above 0'
    ):
        config.resolve({"account.cash": "much"})
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(tmp_path)
    (tmp_path / "bin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        config.load(tmp_path / "bin.toml")


def test_a_wrong_zone_is_told_with_who_said_it() -> None:
    with pytest.raises(ConfigError, match=r"^Python: data.tz: time zone 'Mars' is not known"):
        config.resolve({"data.tz": "Mars"}, caller=config.PYTHON)
    with pytest.raises(ConfigError, match=r"^command line: data.tz: time zone 'Mars' is not known"):
        config.resolve({"data.tz": "Mars"})


def test_what_python_says_is_not_told_as_the_command_line() -> None:
    """A report and messages called it the command line."""
    said = {"account.margin_initial": 0.1, "fees.taker_bps": 2}
    resolved = config.resolve(said, caller=config.PYTHON)
    assert resolved.source("fees.taker_bps") == "Python"
    assert resolved.said("fees.taker_bps", 2) == "taker_bps = 2"
    said["account.margin_maintenance"] = 0.5
    with pytest.raises(ConfigError, match=r"^Python: account.* of 0.1 \(Python\): what is opened"):
        config.resolve(said, caller=config.PYTHON)


def test_shipped_configs_are_found_by_name() -> None:
    assert config.find("crypto_minute") == CONFIGS / "crypto_minute.toml"
    with pytest.raises(
        ConfigError, match=r"did you mean 'crypto_minute'. Shipped: crypto_minute, "
    ):
        config.find("cripto_minute")
    with pytest.raises(ConfigError, match="there is no such file"):
        config.find("../configs/crypto_minute")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_configs_are_right(path: Path) -> None:
    assert config.resolve(file=path).config.account.cash > 0


@pytest.mark.parametrize("path", INSTRUMENTS, ids=lambda path: path.stem)
def test_shipped_instruments_are_right(path: Path) -> None:
    for instrument in load_instruments(path).values():
        assert {"tick", "lot", "currency", "calendar"} <= instrument.named


@pytest.mark.parametrize("path", [*SHIPPED, *INSTRUMENTS], ids=lambda path: path.stem)
def test_every_key_of_a_shipped_file_is_commented(path: Path) -> None:
    lines = path.read_text().splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if re.match(r"\w+ *=", line):
            assert above.startswith("# "), f"{path.name}: {line} has no comment"


def test_schema_describes_every_key() -> None:
    schema = config.schema()
    json.dumps(schema)
    for section in schema["$defs"].values():
        assert section["additionalProperties"] is False
        for name, entry in section["properties"].items():
            assert "$ref" in entry or entry.get("description"), name


def test_defaults_are_in_range() -> None:
    assert msgspec.convert(msgspec.to_builtins(config.Config()), config.Config) == config.Config()


def test_what_is_opened_is_not_closed_at_once_for_want_of_margin(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("[account]\nmargin_maintenance = 0.3\n", encoding="utf-8")
    said = (
        r"config own.toml: account.margin_maintenance is 0.3, above the account.margin_initial of "
        r"0.25 \(strategy\)"
    )
    with pytest.raises(ConfigError, match=said):
        config.resolve(file=path, strategy={"account.margin_initial": 0.25})
    config.resolve(file=path, strategy={"account.margin_initial": 0.3})
