"""`quantdsl config` and `quantdsl data`, as a user types them."""

from pathlib import Path

import pytest

from quantdsl.cli import run
from quantdsl.data.instrument import load_instruments
from quantdsl.shipped import shipped


def output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run([*arguments]) == status
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_config_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "all known and in range" in output(capsys, "config", "check", "us_equities_daily")
    (tmp_path / "own.toml").write_text("[fees]\nminimun = 1\n")
    told = output(capsys, "config", "check", str(tmp_path / "own.toml"), status=2)
    assert "own.toml:2: unknown key 'fees.minimun'; did you mean 'fees.minimum'?" in told
    (tmp_path / "own.toml").write_text('[data]\nsession = "MOON"\n')
    told = output(capsys, "config", "check", str(tmp_path / "own.toml"), status=2)
    assert "own.toml:2: data.session: calendar 'MOON' is not known" in told


def test_config_show(capsys: pytest.CaptureFixture[str]) -> None:
    told = output(
        capsys, "config", "show", "us_equities_daily", "--set", "fees.per_order=1", "--changed"
    )
    assert ["fees.per_order", "=", "1.0", "#", "command", "line"] in map(
        str.split, told.splitlines()
    )
    assert "config us_equities_daily.toml" in told
    assert "default" not in told
    assert "write KEY=VALUE" in output(capsys, "config", "show", "--set", "x", status=2)


def test_config_show_of_a_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    strategy = str(shipped("strategies/sma_cross.qdsl"))
    asked = ["us_equities_minute", "--strategy", strategy, "--set", "fees.per_order=3"]
    told = output(capsys, "config", "show", *asked)
    sources = {line.split(" = ")[0].strip(): line.split("  # ")[1] for line in told.splitlines()}
    assert sources["fees.per_order"] == "command line"
    assert sources["slippage.ticks"] == "config us_equities_minute.toml"
    assert sources["fees.taker_bps"] == "strategy"
    assert sources["fees.per_contract"] == "default"


def test_config_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert '"taker_bps"' in output(capsys, "config", "schema")


ROWS = (
    "time,open,high,low,close,volume\n2024-01-02 10:00,1.05,2,1,1.5,3\n2024-01-02 10:01,1,2,1,1,4\n"
)


def test_config_check_of_a_feed_that_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[account]\ncash = 5.0\n\n[[feed]]\nfeed = "binence"\n')
    told = output(capsys, "config", "check", str(own), status=2)
    assert "own.toml:4: there is no feed 'binence'; did you mean 'binance'?" in told


def test_data_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "eurusd.csv"
    path.write_text(ROWS)
    told = output(
        capsys, "data", "check", str(path), "--write-instrument", str(tmp_path / "i.toml")
    )
    assert "2 bars of 1m" in told
    assert "2024-01-02 10:00 UTC to 2024-01-02 10:01 UTC" in told
    assert "read as UTC" in told
    assert "EURUSD: tick 0.01 (inferred), lot 1 (inferred), USD (assumed)" in told
    written = load_instruments(tmp_path / "i.toml")["EURUSD"]
    assert {"tick", "lot", "currency"} <= written.named
    again = ["data", "check", str(path), "--write-instrument", str(tmp_path / "i.toml")]
    assert "exists already" in output(capsys, *again, status=2)


def test_data_check_of_a_folder_of_bars(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "holds no data file" in output(capsys, "data", "check", str(tmp_path), status=2)
    (tmp_path / "eurusd.csv").write_text(ROWS)
    (tmp_path / "gbpusd.csv.part").write_text("time,op")  # a download that is not whole
    assert "2 bars of 1m" in output(capsys, "data", "check", str(tmp_path))


@pytest.mark.parametrize("path", ["", "#", "#KO"])
def test_data_check_of_nothing(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "PATH names nothing" in output(capsys, "data", "check", path, status=2)


def test_data_check_counts_bad_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(ROWS + "2024-01-02 10:01,1,2,1,1,4\n2024-01-02 10:02,1,2,1,1,4\n")
    told = output(capsys, "data", "check", str(path), status=1)
    assert "1 duplicate time; the first: " in told
    assert "row 3 (line 4)" in told


def test_data_check_of_what_is_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = output(capsys, "data", "check", str(tmp_path / "none.csv"), status=2)
    assert "there is no such file or folder" in told
