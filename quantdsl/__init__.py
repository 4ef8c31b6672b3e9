"""quantdsl: trading strategies in one readable file, compiled to machine code.

quantdsl.compile(file) -> Strategy
quantdsl.backtest(file, data, fast=5) -> Report
quantdsl.sweep(file, data, ranges={"fast": "5..50:5"}) -> SweepReport
quantdsl.signals(file, data, fast=5) -> pyarrow.Table
quantdsl.panel(file, data, device="cuda:0") -> SignalPanel
quantdsl.kernel(file, "product") -> TensorKernel

What a user does wrong is a quantdsl.QuantDSLError, one message that says how to mend it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quantdsl.errors import QuantDSLError

if TYPE_CHECKING:
    from quantdsl.api import backtest, compile, kernel, panel, signals, sweep

__version__ = "0.1.0"
__all__ = [
    "QuantDSLError",
    "__version__",
    "backtest",
    "compile",
    "kernel",
    "panel",
    "signals",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported on first use: the command line needs none of it."""
    if name == "compile":
        from quantdsl.api import compile

        return compile
    if name == "sweep":
        from quantdsl.api import sweep

        return sweep
    if name == "kernel":
        from quantdsl.api import kernel

        return kernel
    if name == "panel":
        from quantdsl.api import panel

        return panel
    if name == "signals":
        from quantdsl.api import signals

        return signals
    if name == "backtest":
        return importlib.import_module("quantdsl.backtest")  # a package that can be called
    raise AttributeError(f"module 'quantdsl' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What a notebook completes: the names of `__all__` too, before any of them is imported."""
    return sorted({*globals(), *__all__})
