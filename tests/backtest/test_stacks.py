"""Arrays of kernels may be large: threads have the stack that lanes side by side take."""

import threading

import pyarrow.parquet as pq
import pytest

import quantdsl
from quantdsl.codegen import lanes
from quantdsl.devices import cpu
from quantdsl.errors import LimitError
from tests.truth.test_oracle import market

KERNEL = """
kernel k{n}(x: window[float, 8], add: const int) -> float?:
    var a: array[float, 30_000] = 0
    parallel for j in 0..<30_000:
        a[j] = x[j mod 8] + {n}.5
    var s: float = 0
    parallel for j in 0..<30_000 reduce(s: +):
        s += a[j]
    return s + add
"""
STRATEGY = """language 1
{kernels}
strategy Deep:
    bars 1m{universe}
    param k = 3 in 1..64 step 1
{equations}
    on bar:
        if flat and {total} > k:
            buy(value = 20% of equity)
        elif long:
            close_position()
    backtest:
        cash = 100_000 USD
"""
HANDLER = """language 1
{kernels}
strategy Turns:
    bars 1m
    param k = 3 in 1..64 step 1
    state last = 0.0
    on bar:
        if flat and close > last + k:
            buy(value = 20% of equity)
        elif long and close < last * k:
            last = {total}
            close_position()
        else:
            last = {total} - {total}
    backtest:
        cash = 100_000 USD
"""


def deep(tmp_path, kernels: int, universe: str = ""):
    """A strategy whose kernels keep 240 kB each."""
    numbers = range(kernels)
    path = tmp_path / "deep.qdsl"
    path.write_text(
        STRATEGY.format(
            kernels="".join(KERNEL.format(n=n) for n in numbers),
            universe=universe,
            equations="\n".join(f"    let v{n} = k{n}(close, add = k)" for n in numbers),
            total=" + ".join(f"(v{n} ?? 0.0)" for n in numbers),
        )
    )
    return path


@pytest.mark.parametrize("kernels", [6, 40])
def test_a_sweep_of_kernels_with_large_arrays(kernels, tmp_path):
    """Six need 14 MB in eight lanes; forty are run one lane at a time, in 10 MB."""
    assert_a_row_is_a_backtest(deep(tmp_path, kernels))


def test_a_turn_that_stands_in_the_code_twice_has_its_arrays_once(tmp_path):
    path = tmp_path / "turns.qdsl"
    kernels = [KERNEL.format(n=n).replace("const int", "float") for n in range(4)]
    total = " + ".join(f"(k{n}(close, add = last) ?? 0.0)" for n in range(4))
    path.write_text(HANDLER.format(kernels="".join(kernels), total=total))
    assert_a_row_is_a_backtest(path)


def assert_a_row_is_a_backtest(path):
    swept = quantdsl.sweep(path, market(20), ranges={"k": "1..16:1"}, device="cpu")
    alone = quantdsl.backtest(path, market(20), k=5)
    (row,) = (row for row in swept.table.to_pylist() if row["k"] == 5)
    assert row["trades"] == len(alone.trades) > 0
    assert row["net_profit"] == alone.metrics["net_profit"]


def test_signals_of_kernels_with_large_arrays(tmp_path):
    path = deep(tmp_path, 6, '\n    universe "ALL"')
    data = tmp_path / "data"
    data.mkdir()
    for n in range(3):
        pq.write_table(market(20, seed=n + 1), data / f"S{n}.parquet")
    found = quantdsl.signals(path, data)
    assert found["v5"].to_pylist()[-1] > found["v0"].to_pylist()[-1]


def test_of_two_that_start_threads_at_once_one_waits():
    """There is one size of stacks in a process."""

    def start_more() -> None:
        with cpu.stacks_of(1 << 20):
            pass

    other = threading.Thread(target=start_more)
    with cpu.stacks_of(1 << 24):
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join()


def test_arrays_that_no_stack_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "LANES_STACK_BYTES", 0)
    monkeypatch.setattr(lanes, "LANES_STACK_BYTES", 100_000)
    with pytest.raises(LimitError, match="make the arrays of its kernels smaller"):
        quantdsl.sweep(deep(tmp_path, 1), market(20), ranges={"k": "1..16:1"}, device="cpu")
