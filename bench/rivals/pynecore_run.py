"""pynecore: the same rule as a Pine script in Python, run bar by bar by its own runner."""

from datetime import time
from pathlib import Path

from pynecore.core.script_runner import ScriptRunner
from pynecore.core.syminfo import SymInfo, SymInfoInterval, SymInfoSession
from pynecore.types.ohlcv import OHLCV
from serve import Bars, Run, serve

SCRIPT = Path(__file__).with_name("pynecore_script.py")


def market() -> SymInfo:
    """A market that never closes, priced in millionths."""
    days = range(7)
    return SymInfo(
        prefix="X", description="oracle", ticker="X", currency="USD", period="1", type="crypto",
        mintick=1e-6, pricescale=1_000_000, pointvalue=1.0, mincontract=1.0, timezone="UTC",
        opening_hours=[SymInfoInterval(day, time(0), time(23, 59, 59)) for day in days],
        session_starts=[SymInfoSession(day, time(0)) for day in days],
        session_ends=[SymInfoSession(day, time(23, 59, 59)) for day in days],
    )  # fmt: skip


def prepare(bars: Bars) -> Run:
    names = ("open", "high", "low", "close", "volume")
    columns = [bars[name].tolist() for name in names]
    candles = list(map(OHLCV, (bars["ts"] // 1_000_000).tolist(), *columns))

    def run() -> tuple[int, float]:
        runner = ScriptRunner(
            SCRIPT, iter(candles), market(),
            last_bar_index=len(candles) - 1, last_bar_time=candles[-1].timestamp,
        )  # fmt: skip
        runner.run()
        position = runner.script.position
        return position.closed_trades_count, position.netprofit + position.openprofit

    return run


serve(prepare)
