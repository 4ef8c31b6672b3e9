"""Runs of a strategy over market data; the package is also the function `quantdsl.backtest`.

Python binds a package to its name in its parent, so that `quantdsl.backtest` is this module from
the first import on; being callable it is both.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, source: Any, data: Any = None, **options: Any) -> Any:
        """See quantdsl.api.backtest."""
        from quantdsl.api import backtest

        return backtest(source, data, **options)


sys.modules[__name__].__class__ = _Callable
