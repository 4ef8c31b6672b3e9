"""What a run leaves on disk: its tables, their units, and that equal runs give equal bytes."""

import os
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from fractions import Fraction

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from quantdsl.data.instrument import Instrument
from quantdsl.errors import ConfigError, DataError
from quantdsl.events.layout import Kind
from quantdsl.events.messages import Message
from quantdsl.files import WRITING, whole, writable
from quantdsl.report.metrics import evaluate
from quantdsl.report.order_words import NONE
from quantdsl.report.store import load, save
from quantdsl.report.tables import tables
from tests.report.synthetic import OPENING, record, synthetic_run

RUN = replace(synthetic_run(15), benchmark=None)
EIGHTH = Instrument(symbol="ZN", tick=Fraction(1, 64), lot=Fraction(1), multiplier=Fraction(1000))


def run_of(*records: np.ndarray):
    """The run with these records only, of an instrument that ticks in 64ths."""
    return replace(RUN, records=np.concatenate(records), instruments=(EIGHTH,))


def test_equal_runs_write_equal_bytes(tmp_path):
    for name in ("a", "b"):
        save(synthetic_run(15), evaluate(synthetic_run(15)), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    tables_written = ("orders", "fills", "trades", "equity", "days", "messages")
    expected = [f"{table}.{kind}" for table in tables_written for kind in ("arrow", "parquet")]
    assert files == sorted([*expected, "metrics.json", "run.json", "report.html"])
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_saved_run_is_read_back(tmp_path):
    metrics = evaluate(RUN)
    save(RUN, metrics, tmp_path)
    saved = load(tmp_path)
    assert saved.info.source_sha256 == RUN.source_sha256
    assert saved.info.settings == RUN.settings
    assert saved.metrics == pytest.approx(metrics, nan_ok=True)
    assert saved.trades.equals(tables(RUN)["trades"])
    assert pa.ipc.open_file(tmp_path / "trades.arrow").read_all().equals(saved.trades)


def test_runs_that_are_saved_into_one_folder_at_once_are_not_mixed(tmp_path):
    runs = [replace(RUN, data_sha256=str(number)) for number in range(6)]
    metrics = [{**evaluate(RUN), "total_return": float(number)} for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for _ in pool.map(save, runs, metrics, [tmp_path] * 6):
            pass
    saved = load(tmp_path)
    assert saved.metrics["total_return"] == float(saved.info.data_sha256)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_run_that_cannot_be_written_leaves_the_one_before_it(tmp_path, monkeypatch):
    save(RUN, evaluate(RUN), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def refuse(*_):
        raise OSError(ENOSPC, "No space left on device", str(tmp_path / WRITING / "report.html"))

    monkeypatch.setattr("quantdsl.report.tearsheet.page", refuse)
    with pytest.raises(OSError, match="No space left") as refused:
        save(replace(RUN, data_sha256="other"), {"total_return": 7.0}, tmp_path)
    assert refused.value.filename == str(tmp_path / "report.html")
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_folder_that_takes_no_files_is_named(tmp_path):
    (tmp_path / WRITING).touch()
    with pytest.raises(OSError, match="File exists") as refused:
        save(RUN, evaluate(RUN), tmp_path)
    assert refused.value.filename == str(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "metrics.json", "trades.parquet"])
def test_a_damaged_folder_is_refused(name, tmp_path):
    save(RUN, evaluate(RUN), tmp_path)
    (tmp_path / name).write_text("{")
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path)


def test_metrics_that_are_not_defined_are_null(tmp_path):
    save(synthetic_run(0), evaluate(synthetic_run(0)), tmp_path)
    metrics = msgspec.json.decode((tmp_path / "metrics.json").read_bytes())
    assert metrics["sharpe"] is None
    assert metrics["total_return"] == 0.0


def test_units_and_times():
    every = tables(RUN)
    trade = every["trades"].slice(0, 1).to_pylist()[0]
    assert trade["profit"] == pytest.approx(
        (trade["exit_price"] - trade["entry_price"]) * trade["quantity"] - trade["fees"]
    )
    assert every["trades"].schema.field("entry_time").type == pa.timestamp("ns", tz="UTC")
    profit = sum(every["trades"]["profit"].to_pylist())
    kept = RUN.accumulators["gross_profit"] - RUN.accumulators["gross_loss"]
    assert profit == pytest.approx(float(RUN.money(kept)))
    assert every["equity"]["drawdown"].to_numpy().min() == pytest.approx(
        evaluate(RUN)["max_drawdown"]
    )


def test_prices_are_the_decimals_of_the_grid():
    fill = record(Kind.FILL, OPENING, 1, 3, 7041, 0, 3)
    (row,) = tables(run_of(fill))["fills"].to_pylist()
    assert row["price"] == 110.015625
    tenths = Instrument(symbol="X", tick=Fraction(1, 10))
    run = replace(RUN, records=record(Kind.FILL, OPENING, 1, 3, 3, 0, 3), instruments=(tenths,))
    assert tables(run)["fills"]["price"].to_pylist() == [0.3]  # 3 * 0.1 is not


def test_what_became_of_each_order():
    records = (
        record(Kind.ORDER, OPENING, 1, 5, NONE, NONE, 12),
        record(Kind.FILL, OPENING, 1, 5, 640, 0, 5),
        record(Kind.ORDER, OPENING, 2, -5, 704, 704, 13 + (4 << 32)),
        record(Kind.CANCEL, OPENING, 2, -5, flags=7),
        record(Kind.ORDER, OPENING, 3, 5, NONE, 576, 14),
        record(Kind.ORDER, OPENING, 4, 5, 640, 576, 15),
        record(Kind.FILL, OPENING, 4, 2, 640, 0, 7),
        record(Kind.REJECT, OPENING, 5, 0, NONE, 16, flags=3),
    )
    run = replace(run_of(*records), reasons={3: "zero_size", 7: "expired"})
    rows = tables(run)["orders"].to_pylist()
    assert [row["type"] for row in rows] == ["market", "limit", "stop", "stop_limit", "market"]
    assert [row["status"] for row in rows] == [
        "filled",
        "cancelled",
        "working",
        "partly filled",
        "rejected",
    ]
    assert [row["reason"] for row in rows] == ["", "expired", "", "cut", "zero_size"]
    assert [row["line"] for row in rows] == [12, 13, 14, 15, 16]
    assert [row["filled"] for row in rows] == [5, 0, 0, 2, 0]
    assert [row["limit"] for row in rows] == [None, 11.0, None, 10.0, None]
    assert [row["trigger"] for row in rows] == [None, None, 9.0, 9.0, None]
    assert rows[-1]["side"] is None
    assert rows[-1]["quantity"] is None


def test_an_exit_shows_its_side_and_what_it_covered():
    records = (
        record(Kind.ORDER, OPENING, 1, 5, NONE, NONE, 12),
        record(Kind.ORDER, OPENING, 2, 0, NONE, 576, 12),
        record(Kind.FILL, OPENING, 1, 5, 640, 0, 5),
        record(Kind.CANCEL, OPENING, 2, -5, flags=7),
        record(Kind.ORDER, OPENING, 3, -4, NONE, 576, 14),
        record(Kind.ORDER, OPENING, 4, 0, 500, 500, 14),
        record(Kind.CANCEL, OPENING, 3, -4, flags=8),
        record(Kind.CANCEL, OPENING, 4, 0, flags=9),
    )
    reasons = {7: "position closed", 8: "expired", 9: "entry cancelled"}
    rows = tables(replace(run_of(*records), reasons=reasons))["orders"].to_pylist()
    shown = [(row["side"], row["quantity"], row["status"]) for row in rows]
    assert shown == [
        ("buy", 5, "filled"),
        ("sell", 5, "cancelled"),
        ("sell", 4, "cancelled"),
        ("buy", None, "cancelled"),  # never had a size: its entry did not fill
    ]


def test_a_text_is_written_as_it_stands_but_for_its_values():
    """Of texts with other braces the page and the tables of a run could not be written."""
    said = [
        Message("invariant", 'mode != "{a}"', ()),
        Message("log", "at {} of {}", ("time", "int")),
        Message("log", "{}", ("time",)),
    ]
    quarter = 250_000_000
    rows = [record(Kind.LOG, OPENING, n, OPENING + (n == 2) * quarter, 7) for n in range(3)]
    run = replace(run_of(*rows), messages=dict(enumerate(said)))
    opened = str(np.datetime64(OPENING, "ns"))[:19]
    texts = tables(run)["messages"].column("text").to_pylist()
    assert texts == ['mode != "{a}"', f"at {opened} of 7", f"{opened}.25"]


def test_a_link_stays_and_a_pipe_is_no_place_for_a_file(tmp_path):
    """As root a rename takes the place of /dev/stdout, for all who come later."""
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    writable(link)
    with whole(link) as part:
        part.write_text("all of it")
    assert link.is_symlink()
    assert file.read_text() == "all of it"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="pipe: is a device or a pipe\nhelp: name a file"):
        writable(pipe)
    with pytest.raises(ConfigError, match="is a device or a pipe"), whole(pipe):
        raise AssertionError("nothing is to be written")
    assert pipe.is_fifo()
