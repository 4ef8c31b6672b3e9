"""Signals as matrices have the values of the table, on the host and on a device."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantdsl
from quantdsl.devices.columns import CPU
from quantdsl.errors import UnavailableError
from tests.backtest.test_panels import ACROSS, ALONG, files, whole
from tests.std.universe import table, walks, write

MISSING = -(2**63)
COMMON = ("middle", "present", "decile", "gap", "both")
"""Numbers of the universe as a whole."""


def matrices(found: Any, names: list[str]) -> dict[str, np.ndarray]:
    """The columns of a table of signals, each in its place; NaN where there is no row."""
    times = np.unique(found["time"].cast("int64").to_numpy())
    row = np.searchsorted(times, found["time"].cast("int64").to_numpy())
    symbols = found["instrument"].combine_chunks()
    who = symbols.indices.to_numpy()
    count = len(symbols.dictionary)
    made = {}
    for name in names:
        matrix = np.full((len(times), count), np.nan)
        matrix[row, who] = found[name].cast("float64").to_numpy(zero_copy_only=False)
        made[name] = matrix
    return made


def strategy_of(text: str, folder: Path) -> Path:
    return Path(write(folder, "universe.qdsl", text.rstrip("\n"), []))


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
def test_matrices_hold_the_table(device: str, gaps: bool, tmp_path: Path) -> None:
    closes = walks(9, 150) if gaps else whole(9, 150)
    bars, more = table(closes), files(tmp_path, list(closes))
    config = tmp_path / "config.toml"
    lines = [f'{key.partition(".")[2]} = "{value}"' for key, value in more.items()]
    config.write_text("\n".join(["[universe]", *lines]) + "\n")
    path = strategy_of(ACROSS, tmp_path)
    found = quantdsl.signals(path, bars, config=config)
    panel = quantdsl.panel(path, bars, config=config, device=device)
    names = found.schema.names[2:]
    assert list(panel) == names
    assert panel.instruments == tuple(found["instrument"].combine_chunks().dictionary.to_pylist())
    assert np.array_equal(panel.times, np.unique(found["time"].cast("int64").to_numpy()))
    for name, matrix in matrices(found, names).items():
        column = panel[name]
        assert column.__dlpack_device__() == (CPU, 0)
        taken = np.from_dlpack(column)
        assert taken.ctypes.data == column.address
        values = np.where(taken == MISSING, np.nan, taken)
        if name in COMMON:
            there = ~np.isnan(matrix)
            assert np.array_equal(values[there], matrix[there]), name
            numbers = [set(row[~np.isnan(row)].tolist()) for row in values]
            assert all(len(one) <= 1 for one in numbers), name
            continue
        assert np.array_equal(values, matrix, equal_nan=True), name


def test_rows_begin_at_the_start(tmp_path: Path) -> None:
    path, bars = strategy_of(ALONG, tmp_path), table(whole(3, 60))
    for device in ("cpu", "simulated"):
        panel = quantdsl.panel(path, bars, device=device, start="2020-02-10")
        every = quantdsl.panel(path, bars, device=device)
        begins = len(every.times) - len(panel.times)
        assert 0 < begins < 60
        for name in panel:
            late, all_ = (np.from_dlpack(one[name]) for one in (panel, every))
            assert np.array_equal(late, all_[begins:], equal_nan=True), name


def test_what_has_no_stages_has_no_matrices(tmp_path: Path) -> None:
    text = "language 1\nstrategy One:\n    bars 1d\n    let fast = ta.sma(close, 5)"
    with pytest.raises(UnavailableError, match="no matrices, for it has no universe"):
        quantdsl.panel(strategy_of(text, tmp_path), None)
