"""Benchmarks: holding the run's own instrument, and the prices of a file."""

from datetime import UTC, datetime

import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.events.layout import Kind
from quantdsl.report.benchmark import benchmark_of
from quantdsl.report.metrics import evaluate
from tests.report.synthetic import BARS_A_DAY, synthetic_run

RUN = replace(synthetic_run(20), benchmark=None)


def test_holding_is_the_first_open_and_the_closes_of_the_days():
    levels = benchmark_of("hold", RUN).levels
    assert levels[0] == RUN.bars["open"][0]
    assert np.array_equal(levels[1:], RUN.bars["close"][BARS_A_DAY - 1 :: BARS_A_DAY])
    value = evaluate(replace(RUN, benchmark=benchmark_of("hold", RUN)))["benchmark_return"]
    assert value == pytest.approx(RUN.bars["close"][-1] / RUN.bars["open"][0] - 1.0)


def test_a_file_is_read_at_the_samples(tmp_path):
    rows = ["time,open,high,low,close"]
    for day in range(25):
        date = datetime.fromtimestamp(1_703_980_800 + day * 86_400, UTC).date()  # 2023-12-31
        rows.append(f"{date},{100 + day},{100 + day},{100 + day},{100 + day}")
    file = tmp_path / "index.csv"
    file.write_text("\n".join(rows) + "\n")
    benchmark = benchmark_of(str(file), RUN)
    assert benchmark.name == "index"
    assert len(benchmark.levels) == len(RUN.of_kind(Kind.DAY)) + 1
    assert np.all(np.diff(benchmark.levels[np.isfinite(benchmark.levels)]) >= 0)


def test_a_file_that_ended_long_ago_is_no_benchmark(tmp_path):
    file = tmp_path / "old.csv"
    file.write_text(
        "time,open,high,low,close\n2010-01-04,1,1,1,1\n2010-01-05,2,2,2,2\n2010-01-06,2,2,2,2\n"
    )
    assert np.all(np.isnan(benchmark_of(str(file), RUN).levels))
