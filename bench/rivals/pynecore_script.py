"""@pyne"""

from pynecore.lib import close, script, strategy, ta


@script.strategy(
    "Cross",
    initial_capital=100_000,
    default_qty_type=strategy.fixed,
    default_qty_value=1,
    commission_value=0.0,
)
def main():
    fast, slow = ta.sma(close, 10), ta.sma(close, 30)
    if ta.crossover(fast, slow):
        strategy.entry("long", strategy.long)
    if ta.crossunder(fast, slow):
        strategy.close("long")
