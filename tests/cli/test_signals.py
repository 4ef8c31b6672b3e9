"""`quantdsl signals` on the command line: its files, its words, its refusals."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl import cli

TEXT = """language 1

strategy Two:
    bars 1d
    param n = 5 in 2..20 step 1

    let fast = ta.sma(close, n)
    let k    = 2 * n
    let up   = close > fast

    plot(fast)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.qdsl"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_table_is_written_and_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.parent / "new" / "two.parquet"
    assert cli.run(["signals", str(file), "--set", "n=3", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"rows of 2 equations  {out}" in said.out
    assert said.err == "note: k is no series: params alone decide it, so it is left out\n"
    table = pq.read_table(out)
    assert table.schema.names == ["time", "instrument", "fast", "up"]
    assert table.schema.metadata[b"quantdsl.params"] == b'{"n":"3"}'
    assert table["fast"].null_count == 2


def test_bad_rows_that_were_left_out_are_told_of_many_instruments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All notes after the eighth were "more of the data"."""
    folder = tmp_path / "bars"
    folder.mkdir()
    for n in range(12):
        days = (f"2024-01-{day:02},{day}.{n + 10}\n" for day in range(2, 10 + n))
        bad = "2024-02-01,-1\n" if n == 11 else ""
        (folder / f"S{n}.csv").write_text(f"date,close\n{''.join(days)}{bad}")
    file = tmp_path / "all.qdsl"
    equation = "let up = close > close[1]"
    file.write_text(f'language 1\nstrategy All:\n    bars 1d\n    universe "ALL"\n    {equation}\n')
    options = ["--data", str(folder), "--bad-rows", "drop", "--out", str(tmp_path / "a.parquet")]
    assert cli.run(["signals", str(file), *options]) == 0
    said = capsys.readouterr().out
    assert f"note: {folder}/S11.csv: bad rows left out: 1 price not positive\n" in said
    assert "more notes of what bars files hold, all in describe.json of --describe" in said


def test_a_description_is_kept_though_its_reader_has_gone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `quantdsl signals FILE --describe | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    out = file.parent / "two.parquet"
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert cli.run(["signals", str(file), "--describe", "--out", str(out)]) == 0
    assert pq.read_table(out).num_rows > 0
    assert (file.parent / "two" / "report.html").exists()


def test_a_history_that_is_too_short_is_told_of(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(TEXT.replace("ta.sma(close, n)", "ta.sma(close, 50000)"), encoding="utf-8")
    assert cli.run(["signals", str(file), "--out", str(file.parent / "two.parquet")]) == 0
    assert "note: fast, up: no value at any bar" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--from", "2031-01-01"], "trading starts at 2031-01-01 00:00 UTC, and the data end at"),
        (["--to", "1999-01-01"], "the run ends at 1999-01-01 00:00 UTC, and the data begin at"),
    ],
)
def test_rows_beyond_the_data_are_told_of(
    file: Path, capsys: pytest.CaptureFixture[str], option: list[str], why: str
) -> None:
    line = ["signals", str(file), *option, "--out", str(file.parent / "two.parquet")]
    assert cli.run(line) == 0
    said = capsys.readouterr().out
    assert f"no value at any bar: {why}" in said
    assert "0 rows of 2 equations" in said


def test_a_description_lies_beside_the_table(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, plain = file.parent / "two.parquet", file.parent / "plain.parquet"
    assert cli.run(["signals", str(file), "--describe", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Two on SYN1 · ")
    assert "Forward returns are of the future" in said
    names = {path.name for path in (file.parent / "two").iterdir()}
    assert names == {"report.html", "describe.json", "distribution.parquet", "foretold.parquet"}
    assert cli.run(["signals", str(file), "--out", str(plain)]) == 0
    assert plain.read_bytes() == out.read_bytes()


def test_an_equation_called_like_a_column_of_the_table_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table had two columns of that name, and --describe ended in a traceback."""
    for name in ("time", "instrument"):
        file.write_text(TEXT.replace("fast", name), encoding="utf-8")
        assert cli.run(["signals", str(file), "--describe"]) == 2
        assert f"the equation {name!r} is called like a column that" in capsys.readouterr().err


def test_no_delay_is_told_of_where_nothing_orders(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    above = "@async(deadline = 1us)\n    let up = 1.0 if close > fast else 0.0"
    awaited = TEXT.replace("let up   = close > fast", above)
    file.write_text(awaited.replace("plot(fast)", "on ready(up):\n        buy(1 share)"))
    assert cli.run(["signals", str(file), "--out", str(file.parent / "a.parquet")]) == 0
    said = capsys.readouterr().out
    assert "rows of 2 equations" in said
    assert "answer" not in said
    assert cli.run(["backtest", str(file), "--out", str(file.parent / "run")]) == 0
    assert "no answer of up comes in time" in capsys.readouterr().out


def test_one_equation_is_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("    let k    = 2 * n\n    let up   = close > fast\n", ""))
    assert cli.run(["signals", str(file), "--out", str(file.parent / "one.parquet")]) == 0
    assert " rows of 1 equation  " in capsys.readouterr().out


def test_the_table_never_takes_the_place_of_what_is_read(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data were lost: a file, one of a folder, what a config names."""
    folder = file.parent / "bars"
    folder.mkdir()
    data, config = folder / "KO.parquet", file.parent / "own.toml"
    times = [f"2024-01-{day:02}" for day in range(2, 20)]
    pq.write_table(pa.table({"time": times, "close": [*range(1, 19)]}), data)
    config.write_text(f'[data]\npath = "{data}"\n')
    before = data.read_bytes()
    for said in (["--data", str(data)], ["--data", str(folder)], ["--config", str(config)]):
        assert cli.run(["signals", str(file), *said, "--out", str(data)]) == 2
        assert f"{data}: is what this command reads, and would be lost" in capsys.readouterr().err
        assert data.read_bytes() == before
    assert cli.run(["signals", str(file), "--config", str(config), "--out", f"{data}.arrow"]) == 0


def test_a_file_where_the_description_goes_is_told_before_the_work(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table was written, and then "File exists" was all that was said."""
    (file.parent / "new").touch()
    out = file.parent / "new.parquet"
    assert cli.run(["signals", str(file), "--describe", "--out", str(out)]) == 2
    assert "is a file, and the description is a folder of that name" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "."], "this is a folder, and signals are one file"),
        (["--out", "x.csv"], "in which form to write: .parquet or .arrow"),
        (["--device", "simulated"], "on a core of this machine, for it has no universe"),
        (["--device", "all"], "a cross-section needs all instruments"),
        (["--device", "tpu"], "there is no such device; give auto, cpu, simulated or cuda:N\n"),
        (["--from", "2024-03-01", "--to", "2024-02-01"], "trading cannot start at 2024-03-01"),
        (["--set", "m=1"], "the strategy has no param 'm'"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_input_is_one_message(
    file: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["signals", str(file), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert said.count("error") == 1
