"""The hand-written CUDA kernels that the speed of sweeps is measured against: built, fed, checked.

Each returns what a sweep of its strategy returns, lane by lane, so that the same work is compared.
`nvcc` is needed to build them and a GPU to run them.
"""

import ctypes
import functools
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import Kind

HERE = Path(__file__).resolve().parent
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]

RESULT = np.dtype(
    [
        (name, np.float64)
        for name in (
            "trades", "wins", "gross_profit", "gross_loss", "fees", "cash", "equity", "peak",
            "dd_drop", "dd_peak", "days", "returns", "squares", "bars_in_market",
        )
    ]
)  # fmt: skip
"""As `struct Result` of both kernels; money in money units."""

NS_PER_DAY = 86_400_000_000_000


class Market(NamedTuple):
    """Bars as the anchors take them; the days as numbers of bars from the first on."""

    ticks: Float64s  # [bars, 4]: open, high, low, close
    tick: Fraction
    money: int  # money units of one tick of one lot
    day_ends: Int32s

    def close(self, real: Any = np.float64) -> npt.NDArray[Any]:
        """Prices, by operations that each round to `real`: the count of ticks is rounded too."""
        numerator, denominator = real(self.tick.numerator), real(self.tick.denominator)
        return self.ticks[:, 3].astype(real) * numerator / denominator

    def means(self, longest: int, real: Any = np.float64) -> npt.NDArray[Any]:
        """The mean of the first n closes, for n from 1 to `longest`, computed in `real`."""
        totals = np.cumsum(self.close(real), dtype=np.float64)[:longest]
        return totals.astype(real) / np.arange(1, len(totals) + 1).astype(real)


class Account(NamedTuple):
    """Money in money units; `rate` is the fee as a share, `scale` the money units of 1."""

    cash: float
    rate: float
    scale: float
    lots_max: float


def market_of(events: npt.NDArray[np.void], tick: Fraction, money: int) -> Market:
    """The bars among `events`, whose payload is open, high, low, close (ticks) and volume."""
    bars = events[events["kind"] == Kind.BAR]
    day = (bars["ts_event"] - 1) // NS_PER_DAY
    ends = np.append(np.flatnonzero(np.diff(day)) + 1, len(bars)).astype(np.int32)
    return Market(bars["payload"][:, :4].astype(np.float64), tick, money, ends)


@functools.cache
def build(source: str, *options: str) -> ctypes.CDLL:
    """The shared library of a kernel, made by nvcc for the machine's GPU."""
    target = Path(tempfile.mkdtemp()) / f"{source}.so"
    command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", *options]
    subprocess.run([*command, "-o", str(target), str(HERE / f"{source}.cu")], check=True)
    return ctypes.CDLL(str(target))


def ema_cross(
    library: ctypes.CDLL,
    market: Market,
    points: Int32s,
    account: Account,
    *,
    block: int = 128,
    rounds: int = 5,
    real: Any = np.float64,
) -> tuple[npt.NDArray[np.void], Float64s]:
    """RESULT of every lane, and the kernel's seconds in each round.

    `points` is [2, lanes]: fast and slow. Trading starts with bar points.max(), counted from 0.
    `real` is the type of the averages that the library was built for.
    """
    lanes, warm = points.shape[1], int(points.max())
    bars = np.zeros(len(market.ticks), [("close", real), ("pad", real), ("money", "f8", 2)])
    bars["close"] = market.close(real)
    bars["money"] = market.ticks[:, [0, 3]] * market.money
    results, seconds = np.zeros(lanes, RESULT), np.zeros(rounds)
    code = library.run_ema_cross(
        *_market(bars, market.means(warm, real), market.day_ends),
        _address(np.ascontiguousarray(points, np.int32)), lanes, warm,
        ctypes.c_double(account.cash), ctypes.c_double(account.rate),
        ctypes.c_double(account.scale), _address(results), block, rounds, _address(seconds),
    )  # fmt: skip
    _check(code)
    return results, seconds


def bracket(
    library: ctypes.CDLL,
    market: Market,
    points: Float64s,
    account: Account,
    *,
    block: int = 128,
    rounds: int = 5,
) -> tuple[npt.NDArray[np.void], Float64s]:
    """RESULT of every lane, and the kernel's seconds in each round.

    `points` is [4, lanes]: fast, dip, above, below. Trading starts with bar 4 * the longest fast.
    """
    lanes, warm = points.shape[1], 4 * int(points[0].max())
    tick = (market.tick.numerator, market.tick.denominator)
    costs = np.array([*account[:3], market.money, *tick, account.lots_max, 0.2, 0.25], np.float64)
    results, seconds = np.zeros(lanes, RESULT), np.zeros(rounds)
    code = library.run_bracket(
        *_market(np.ascontiguousarray(market.ticks), market.means(warm), market.day_ends),
        _address(np.ascontiguousarray(points, np.float64)), lanes, warm, _address(costs),
        _address(results), block, rounds, _address(seconds),
    )  # fmt: skip
    _check(code)
    return results, seconds


def _market(*arrays: npt.NDArray[Any]) -> list[Any]:
    """Address and length of each array."""
    return [part for array in arrays for part in (_address(array), len(array))]


def _address(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # keeps the array alive as long as the pointer


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"CUDA error {code}")
