"""Promise: a million bars backtested from the shell, report included, in less than 400 MB."""

import subprocess
import sys

import pyarrow.parquet

from bench.oracle import EXPECTED, ORACLE
from tests.truth.test_oracle import market

LIMIT_BYTES = 400_000_000
RUN = """
import re, resource, sys
from pathlib import Path
from quantdsl.cli import run
exit_code = run(sys.argv[1:])
# On Linux ru_maxrss would remember the process that started this one.
status = Path("/proc/self/status")
if status.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("peak", peak)
sys.exit(exit_code)
"""


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
    peak = int(printed.rsplit("peak", 1)[1])
    benchmark.extra_info["peak_bytes"] = peak
    assert peak < LIMIT_BYTES
