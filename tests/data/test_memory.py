"""Data larger than what is kept in memory stream through in bounded memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl.data.scan import KEPT_ROWS_MAX

ROWS = 2 * KEPT_ROWS_MAX
MEMORY_MAX_MB = 400

PROGRAM = """
import sys
from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec

data = open_data(DataSpec(instruments=(SourceSpec(source=sys.argv[1]),), clocks=("5m", "1d")))
count = sum(len(chunk) for chunk in data.chunks())
status = open("/proc/self/status").read()
peak_kb = int(status.partition("VmHWM:")[2].split()[0])
print(data.rows, count, peak_kb // 1024)
"""
"""VmHWM, since ru_maxrss of a child starts at the size of the process that made it."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    kinds = {"time": pa.int64()} | dict.fromkeys(("open", "high", "low", "close"), pa.float64())
    with pq.ParquetWriter(path, pa.schema(kinds.items())) as writer:
        for first in range(0, ROWS, 1 << 17):
            ts = np.arange(first, min(first + (1 << 17), ROWS)) * 60_000 + 946_684_800_000
            price = (ts // 60_000 % 5_000 + 10_000) / 100
            columns = [ts, price, price + 1, price - 1, price]
            writer.write_table(pa.table(dict(zip(kinds, columns, strict=True))))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    rows, count, megabytes = map(int, ran.stdout.split())
    assert rows == ROWS
    assert count > ROWS // 5
    assert megabytes < MEMORY_MAX_MB
