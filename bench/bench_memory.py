"""Promise: a million bars backtested from the shell, report included, in less than 400 MB."""

import subprocess
import sys

import pyarrow.parquet

from bench.oracle import EXPECTED, ORACLE
from tests.truth.test_oracle import market

LIMIT_BYTES = 400_000_000
RUN = """
import resource, sys
from quantdsl.cli import run
status = run(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(status)
"""
UNIT = 1024 if sys.platform == "linux" else 1
"""What ru_maxrss counts in, in bytes."""


def test_peak_memory(benchmark, tmp_path, full):
    bars = 1_000_000 if full else 10_000
    data = tmp_path / "bars.parquet"
    pyarrow.parquet.write_table(market(bars), data)
    args = ["backtest", str(ORACLE), "--data", str(data), "--out", str(tmp_path / "out")]

    def run() -> str:
        command = [sys.executable, "-c", RUN, *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    printed = benchmark.pedantic(run, rounds=3 if full else 1)
    assert f"{EXPECTED[bars][0]:,}" in printed
    peak = int(printed.rsplit("peak", 1)[1]) * UNIT
    benchmark.extra_info["peak_bytes"] = peak
    assert peak < LIMIT_BYTES
