"""The summary of a run in the terminal."""

from collections.abc import Mapping

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from quantdsl.data.many import named
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import DEFAULT, RunResult
from quantdsl.report.store import RUN
from quantdsl.report.verdict import verdict
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


def show(result: RunResult, metrics: Mapping[str, float], console: Console) -> None:
    """Print the summary; its first line is the verdict where there is one."""
    console.print(Group(*_parts(result, metrics, console.width)))


def _parts(result: RunResult, metrics: Mapping[str, float], width: int) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if said := verdict(result):
        parts += [Text(said, style="bold red"), Text("")]
    parts += [_heading(result), Text("")]
    if len(result.curve_equity):
        parts += [Padding(_sparkline(result, width - 4), (0, 0, 1, 2), expand=False)]
    parts.append(_figures(result, metrics, width))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in result.warnings]
    parts += [Text(f"note: {note}", style="dim") for note in result.notes]
    parts.append(_settings(result))
    return parts


def _heading(result: RunResult) -> Text:
    """Strategy, instruments, span and params in one or two lines."""
    symbols = named([instrument.name for instrument in result.instruments])
    heading = Text.from_markup(f"[bold]{escape(result.strategy)}[/bold] on {escape(symbols)}")
    if len(result.curve_ts):
        span = f"{date(int(result.curve_ts[0]))} to {date(int(result.curve_ts[-1]))}"
        heading.append(f" · {span} · {plural(len(result.curve_ts), result.row_name)}")
    heading.append(f" · {result.data_name}", style="dim")
    if result.params:
        params = ", ".join(f"{name} = {value}" for name, value in result.params.items())
        heading.append(f"\n{params}", style="cyan")
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
    return Text("".join(BLOCKS[level] for level in levels), style="green" if rising else "red")


def _figures(result: RunResult, metrics: Mapping[str, float], width: int) -> Table:
    """The figures in as many columns as the terminal has room for."""
    columns = max(1, min(3, width // COLUMN_WIDTH))
    shown = [*SHOWN, *(name for name in SHOWN_OF_TICKS if name in metrics)]
    rows = -(-len(shown) // columns)
    table = Table.grid(padding=(0, 2))
    for _ in range(columns):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
    for row in range(rows):
        cells: list[RenderableType] = []
        for name in shown[row::rows]:
            text = figure(metrics[name], BY_NAME[name].unit, result.currency)
            cells += [f"  {BY_NAME[name].title}", Text(text, style=_style(name, metrics[name]))]
        table.add_row(*cells)
    return table


def _style(name: str, value: float) -> str:
    """Green for a gain and red for a loss, where the sign says which it is."""
    if name not in SIGNED or value == 0.0:
        return "bold"
    return "bold green" if value > 0.0 else "bold red" if value < 0.0 else "bold"


def _settings(result: RunResult) -> RenderableType:
    """Each setting that somebody chose, with its source, and the hashes that name the run."""
    table = Table.grid(padding=(0, 2))
    chosen = [setting for setting in result.settings if setting.source != DEFAULT]
    for setting in chosen:
        name, value = escape(setting.name), escape(setting.value)
        table.add_row(f"  {name}", value, Text(f"({setting.source})", style="dim"))
    untouched = len(result.settings) - len(chosen)
    lines = (
        [f"  {plural(untouched, 'other setting')} at default, all in {RUN}"] if untouched else []
    )
    lines.append(
        f"  strategy {result.source_sha256[:12]} · data {result.data_sha256[:12]} · "
        f"quantdsl {result.version}"
    )
    return Padding(Group(table, Text("\n".join(lines), style="dim")), (1, 0, 0, 0), expand=False)
