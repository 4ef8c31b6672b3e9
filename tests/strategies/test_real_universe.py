"""The design's momentum on real stocks, with files of members and sectors made for the test."""

import gzip
import tarfile
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import run_checked
from quantdsl.check import compile_file
from quantdsl.events.layout import Kind
from quantdsl.report.result import RunResult
from tests.std.universe import write

SAMPLE = Path(__file__).parents[2].parent / "shared/design/samples/xs_momentum.qdsl"
SECTORS = 11
pytestmark = pytest.mark.skipif(
    not SAMPLE.exists(), reason="the samples of the design are not here"
)


def files(folder: Path, symbols: list[str]) -> dict[str, object]:
    """Sectors by turns; every seventh enters in June 2014, every fifth leaves three years later."""
    sectors = [f"{name},S{k % SECTORS:02}" for k, name in enumerate(symbols)]
    members = [
        f"{name},{'' if k % 7 else '2014-06-02'},{'' if k % 5 else '2017-06-01'}"
        for k, name in enumerate(symbols)
    ]
    return {
        "universe.groups": write(folder, "sectors.csv", "symbol,sector", sectors),
        "universe.members": write(folder, "members.csv", "symbol,entry,exit", members),
    }


def ran(path: Path, data: Path | str, more: dict[str, object]) -> RunResult:
    settings = {**more, "account.cash": 10_000_000.0, "account.margin_initial": 0.4}
    return run_checked(compile_file(path), path, data=str(data), bad_rows="drop", more=settings)


def test_on_505_stocks(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "universe/cnuge/individual_stocks_5yr.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    folder = next(tmp_path.rglob("AAPL*.csv")).parent
    symbols = sorted(path.name.partition("_")[0] for path in folder.glob("*.csv"))
    assert len(symbols) == 505
    found = ran(SAMPLE, folder, files(tmp_path, symbols))
    fills = found.records[found.records["kind"] == Kind.FILL]
    assert len(np.unique(fills["instrument"])) > 250
    gone = list(range(0, 505, 5))
    last = np.datetime64("2017-07-05", "ns").astype(np.int64)  # the rebalance of June's end
    late = fills[np.isin(fills["instrument"], gone) & (fills["ts_event"] > last)]
    lots, after = late["b"], late["e"]
    assert len(late) > 50
    assert (np.abs(after) < np.abs(after - lots)).all()  # who left is only closed, as turnover lets


def test_on_closes_alone_of_twenty_stocks(shared_data: Path, tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    liquid = "ts.mean(dollar_volume, 20) > 20_000_000 USD and close > 5 USD"
    assert liquid in text
    path = tmp_path / "closes.qdsl"
    path.write_text(text.replace(liquid, "close > 5 USD"), encoding="utf-8")
    table = shared_data / "universe/skfolio/sp500_dataset.csv.gz"
    with gzip.open(table, "rt", encoding="utf-8") as file:
        symbols = file.readline().strip().split(",")[1:]
    assert len(symbols) == 20
    found = ran(path, table, files(tmp_path, symbols))
    fills = found.records[found.records["kind"] == Kind.FILL]
    assert len(np.unique(fills["instrument"])) > 10
