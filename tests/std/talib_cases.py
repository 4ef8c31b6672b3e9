"""TA-Lib's own results on small made bars, for the functions of std/talib_*.qdsl.

`python -m tests.std.talib_cases` computes them anew where the package TA-Lib is installed and
writes talib_cases.json; the tests only read that file. A case keeps how many leading values are
na and the values at a few rows.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.std.harness import Bars

EXPECTED = Path(__file__).with_suffix(".json")
N = 160
ROWS = (0, 1, 2, 5, 21, 40)
"""Rows that are kept, counted from the first defined one; and the last."""


def columns() -> dict[str, np.ndarray]:
    """Bars in ticks, from a linear congruence: the same on every machine, for ever."""
    state, close = 12345, 10_000
    rows = []
    for _ in range(N):
        draws = []
        for _ in range(4):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            draws.append(state >> 16)
        open_ = close + draws[0] % 21 - 10
        close = open_ + draws[1] % 201 - 100
        high, low = max(open_, close) + draws[2] % 60, min(open_, close) - draws[3] % 60
        rows.append((open_, high, low, close, 1000 + draws[0]))
    names = ("open", "high", "low", "close", "volume")
    return {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True),
                                                           strict=True)}


def bars() -> Bars:
    """The same as an indicator's argument."""
    return Bars(**columns())


def periods() -> np.ndarray:
    """Lengths for mavp: 1.0 to 12.9, so that both its bounds bind."""
    return np.arange(N) * 7 % 120 / 10 + 1


@dataclass(frozen=True)
class Case:
    """`ours` of std beside `theirs` of TA-Lib; `outputs` names ours in TA-Lib's order."""

    ours: str
    theirs: str
    inputs: tuple[str, ...]
    given: dict[str, float | int] = field(default_factory=dict)
    options: tuple[float, ...] = ()
    outputs: tuple[str, ...] = ("",)
    series: tuple[str, ...] = ()  # our parameters for `inputs` when they are not `data`

    @property
    def key(self) -> str:
        """Name in the file of results."""
        return f"{self.ours} {' '.join(map(str, self.given.values()))}".strip()


def _src(ours: str, *options: float, outputs: tuple[str, ...] = ("",), **given: float) -> Case:
    return Case(ours, ours.upper(), ("close",), given, options, outputs, ("src",))


def _data(ours: str, inputs: str, *options: float, outputs: tuple[str, ...] = ("",),
          theirs: str = "", **given: float) -> Case:
    return Case(ours, theirs or ours.upper(), tuple(inputs.split()), given, options, outputs)


WILDER = 13
"""TA-Lib's number of Wilder's average."""

SAR_START = {"start": 95.0, "offset": 0.01, "start_long": 0.03, "step_long": 0.01,
             "max_long": 0.1, "start_short": 0.05, "step_short": 0.03, "max_short": 0.3}
SAR_SHORT = SAR_START | {"start": -104.0, "max_long": 0.02}

CASES = [
    *(_src(name, n, len=n) for n in (2, 9) for name in (
        "dema", "tema", "trima", "midpoint", "trix", "linearreg_slope", "linearreg_angle",
        "linearreg_intercept", "tsf")),
    _src("trima", 10, len=10),
    _src("t3", 4, 0.5, len=4, gain=0.5),
    _src("kama", 7, len=7),
    Case("mavp", "MAVP", ("close", "periods"), {"min_len": 2, "max_len": 12}, (2, 12), ("",),
         ("src", "periods")),
    *(_src(name, 10, len=10) for name in ("rocp", "rocr", "rocr100", "avgdev")),
    _src("apo", 5, 13, 1, fast=5, slow=13),
    _src("ppo", 5, 13, 1, fast=5, slow=13),
    _src("macdext", 5, 0, 13, 0, 4, 0, outputs=("macd", "signal", "hist"), fast=5, slow=13,
         signal=4),
    _src("stochrsi", 6, 5, 3, 0, outputs=("k", "d"), rsi_len=6, len=5, smooth=3),
    _src("coppock", 4, 5, 7, len=4, fast=5, slow=7),
    *(_src("dpo", n, len=n) for n in (2, 9)),
    *(_src(name, n, len=n) for n in (3, 8) for name in ("er", "fosc", "vhf", "zlema")),
    _src("rvi", 6, 5, len=6, spread=5),
    _src("minmax", 8, outputs=("min", "max"), len=8),
    Case("beta", "BETA", ("high", "low"), {"len": 6}, (6,), ("",), ("benchmark", "src")),
    *(_data(name, "high low", n, len=n) for n in (1, 6)
      for name in ("plus_dm", "minus_dm")),
    *(_data(name, "high low close", 6, len=6)
      for name in ("plus_di", "minus_di", "dx", "adx", "adxr")),
    _data("midprice", "high low", 6, len=6),
    _data("accbands", "high low close", 6, outputs=("upper", "middle", "lower"), len=6),
    _data("sarext", "high low"),
    _data("sarext", "high low", *SAR_START.values(), **SAR_START),
    _data("sarext", "high low", *SAR_SHORT.values(), **SAR_SHORT),
    _data("bop", "open high low close"),
    _data("imi", "open close", 6, len=6),
    _data("stochf", "high low close", 5, 3, 0, outputs=("k", "d"), len=5, smooth=3),
    _data("stochslow", "high low close", 5, 3, 0, 4, 0, outputs=("k", "d"), theirs="STOCH", len=5,
          smooth_k=3, smooth_d=4),
    _data("ultosc", "high low close", 3, 5, 9, fast=3, middle=5, slow=9),
    _data("aroon", "high low", 7, outputs=("down", "up"), len=7),
    _data("aroonosc", "high low", 7, len=7),
    _data("ad", "high low close volume"),
    _data("adosc", "high low close volume", 3, 10, fast=3, slow=10),
    _data("ao", "high low", 3, 8, fast=3, slow=8),
    _data("ac", "high low", 3, 8, 4, fast=3, slow=8, signal=4),
    _data("eri", "high low close", 6, outputs=("bull", "bear"), len=6),
    _data("kdj", "high low close", 5, 3, WILDER, 4, WILDER, outputs=("k", "d", "j"), len=5,
          smooth_k=3, smooth_d=4),
    _data("qstick", "open close", 6, len=6),
    _data("smi", "high low close", 6, 2, 5, 4, outputs=("smi", "signal"), len=6, fast=2, slow=5,
          signal=4),
    _data("vortex", "high low close", 6, outputs=("plus", "minus"), len=6),
    _data("donchian", "high low", 6, outputs=("upper", "middle", "lower"), len=6),
    _data("adr", "high low", 6, len=6),
    _data("cvi", "high low", 5, 4, len=5, rate=4),
    _data("massi", "high low", 3, 7, fast=3, slow=7),
    _data("cmf", "high low close volume", 6, len=6),
    _data("efi", "close volume", 6, len=6),
    _data("marketfi", "high low volume"),
    _data("rvol", "volume", 6, len=6),
    _data("ha", "open high low close", outputs=("open", "high", "low", "close")),
    _data("trange", "high low close"),
    _data("avgprice", "open high low close"),
    _data("medprice", "high low"),
    _data("typprice", "high low close"),
    _data("wclprice", "high low close"),
]


def rows_of(first: int) -> list[int]:
    """The rows that a result keeps when its first defined one is `first`."""
    return [*(first + row for row in ROWS if first + row < N - 1), N - 1]


def main() -> None:
    """Ask TA-Lib and write the file."""
    import talib

    table = columns()
    inputs = {name: values / 100.0 for name, values in table.items()}
    inputs |= {"volume": table["volume"].astype(float), "periods": periods()}
    results = {}
    for case in CASES:
        function = getattr(talib, case.theirs)
        found = function(*(inputs[name] for name in case.inputs), *case.options)
        found = found if isinstance(found, tuple) else (found,)
        for name, values in zip(case.outputs, found, strict=True):
            first = int(np.argmin(np.isnan(values)))
            kept = [float(values[row]) for row in rows_of(first)]
            results[f"{case.key} {name}".strip()] = {"first": first, "values": kept}
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
