"""The summary of a run in the terminal."""

from collections.abc import Mapping

import numpy as np

from quantdsl.data.many import fewer, named
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import DEFAULT, RunResult
from quantdsl.report.store import RUN
from quantdsl.report.terminal import EMPTY, Column, Terminal, Text, table, text
from quantdsl.report.verdict import rejections, verdict
from quantdsl.report.words import date, figure, plural

SHOWN = """
    total_return annual_return net_profit final_equity
    max_drawdown max_drawdown_duration fees slippage
    sharpe sortino calmar volatility value_at_risk exposure turnover financing
    trades win_rate profit_factor average_trade average_holding
    orders rejected_orders nan_orders
""".split()
"""The figures of the summary, column by column; the page and metrics.json hold all of them."""

SHOWN_OF_TICKS = """
    fill_ratio maker_share queue_time markout_0s markout_1s markout_10s markout_60s
    inventory_mean inventory_max
""".split()
"""Those that a run on ticks adds."""

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 72
COLUMN_WIDTH = 38
SIGNED = {"total_return", "annual_return", "net_profit", "average_trade", "sharpe"}


def show(result: RunResult, metrics: Mapping[str, float], terminal: Terminal) -> None:
    """Print the summary; its first line is the verdict where there is one."""
    width = terminal.width
    if said := verdict(result):
        terminal.print(text(said, "bold red"), EMPTY)
    terminal.print(_heading(result), EMPTY)
    if len(result.curve_equity):
        terminal.print(_sparkline(result, width - 4), EMPTY)
    terminal.print(*_figures(result, metrics, width))
    warnings = (*filter(None, [rejections(result)]), *result.warnings)
    terminal.print(*(text(f"warning: {warning}", "yellow") for warning in warnings))
    terminal.print(*(text(f"note: {note}", "dim") for note in fewer(result.notes, RUN)), EMPTY)
    terminal.print(*_settings(result, width))


def _heading(result: RunResult) -> Text:
    """Strategy, instruments, span and params in one or two lines."""
    symbols = named([instrument.name for instrument in result.instruments])
    heading = text(result.strategy, "bold") + text(f" on {symbols}")
    if len(result.curve_ts):
        span = f"{date(int(result.curve_ts[0]))} to {date(int(result.curve_ts[-1]))}"
        heading += text(f" · {span} · {plural(len(result.curve_ts), result.row_name)}")
    heading += text(f" · {result.data_name}", "dim")
    if result.params:
        params = ", ".join(f"{name} = {value}" for name, value in result.params.items())
        heading += text(f"\n{params}", "cyan")
    return heading


def _sparkline(result: RunResult, room: int) -> Text:
    """Equity in one line of blocks: the last value of each of at most SPARK_WIDTH stretches."""
    equity = result.curve_equity
    width = max(1, min(SPARK_WIDTH, len(equity), room))
    ends = (np.arange(1, width + 1) * len(equity)) // width - 1
    sample = equity[ends].astype(np.float64)
    span = float(np.ptp(sample)) or 1.0
    levels = ((sample - sample.min()) / span * (len(BLOCKS) - 1)).round().astype(int)
    rising = sample[-1] >= float(result.accumulators["equity_first"])
    blocks = "".join(BLOCKS[level] for level in levels)
    return text("  ") + text(blocks, "green" if rising else "red")


def _figures(result: RunResult, metrics: Mapping[str, float], width: int) -> list[Text]:
    """The figures in as many columns as the terminal has room for."""
    columns = max(1, min(3, width // COLUMN_WIDTH))
    shown = [*SHOWN, *(name for name in SHOWN_OF_TICKS if name in metrics)]
    height = -(-len(shown) // columns)
    rows = []
    for row in range(height):
        cells = []
        for name in shown[row::height]:
            value = figure(metrics[name], BY_NAME[name].unit, result.currency)
            cells += [text(f"  {BY_NAME[name].title}", "dim")]
            cells += [text(value, _style(name, metrics[name]))]
        rows.append(cells + [EMPTY] * (2 * columns - len(cells)))
    return table(rows, [Column(), Column(right=True)] * columns, width)


def _style(name: str, value: float) -> str:
    """Green for a gain and red for a loss, where the sign says which it is."""
    if name not in SIGNED or value == 0.0:
        return "bold"
    return "bold green" if value > 0.0 else "bold red" if value < 0.0 else "bold"


def _settings(result: RunResult, width: int) -> list[Text]:
    """Each setting that somebody chose, with its source, and the hashes that name the run."""
    chosen = [setting for setting in result.settings if setting.source != DEFAULT]
    rows = [(text(f"  {s.name}"), text(s.value), text(f"({s.source})", "dim")) for s in chosen]
    untouched = len(result.settings) - len(chosen)
    lines = table(rows, [Column()] * 3, width)
    if untouched:
        others = f"  {plural(untouched, 'other setting')} at default, all in {RUN}"
        lines.append(text(others, "dim"))
    hashes = (
        f"  strategy {result.source_sha256[:12]} · data {result.data_sha256[:12]} · "
        f"quantdsl {result.version}"
    )
    return [*lines, text(hashes, "dim")]
