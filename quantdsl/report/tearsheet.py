"""The page of a run: one HTML file with everything in it, that opens without a network.

Every text of a strategy or a data file is escaped.
"""

import math
from collections.abc import Mapping
from html import escape

from quantdsl.data.many import named
from quantdsl.events.layout import Kind
from quantdsl.report import html
from quantdsl.report.chart_data import chart_data
from quantdsl.report.day_metrics import days_of, monthly_returns
from quantdsl.report.execution_page import section
from quantdsl.report.formula import Group
from quantdsl.report.html import pairs
from quantdsl.report.metrics import ALL_METRICS, BY_NAME
from quantdsl.report.result import DEFAULT, RunResult
from quantdsl.report.verdict import verdict
from quantdsl.report.words import date, figure, plural

CARDS = (
    "total_return",
    "annual_return",
    "sharpe",
    "max_drawdown",
    "trades",
    "win_rate",
    "profit_factor",
    "final_equity",
)
COLORED = {"total_return", "annual_return", "sharpe"}
GROUPS: dict[Group, str] = {
    "return": "Return",
    "risk": "Risk",
    "drawdown": "Drawdown",
    "trades": "Trades",
    "costs": "Costs",
    "orders": "Orders",
    "execution": "Execution",
    "benchmark": "Benchmark",
}
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
HEAT_STEP = 0.02
"""Return of a month at which its colour grows by one of four steps."""


def page(result: RunResult, metrics: Mapping[str, float]) -> str:
    """The whole page as text; the same run gives the same bytes."""
    part = html.Part(
        name="tearsheet",
        kind="backtest",
        subtitle=_subtitle(result),
        params=", ".join(f"{name} = {value}" for name, value in result.params.items()),
        about=_about(result),
        charts="Charts",
        data=chart_data(result),
    )
    return html.page(
        result,
        part,
        verdict=_banners(result),
        cards="".join(_card(name, metrics[name], result.currency) for name in CARDS),
        monthly=_monthly(result),
        execution=section(result.execution),
        figures=_figures(metrics, result.currency),
    )



def _subtitle(result: RunResult) -> str:
    parts = [named([instrument.name for instrument in result.instruments])]
    if len(result.curve_ts):
        parts.append(f"{date(int(result.curve_ts[0]))} to {date(int(result.curve_ts[-1]))}")
        parts.append(plural(len(result.curve_ts), result.row_name))
    return " · ".join([*parts, result.data_name])


def _banners(result: RunResult) -> str:
    said = verdict(result)
    bad = f'<div class="banner bad">{escape(said)}</div>' if said else ""
    warnings = (f'<div class="banner warn">{escape(text)}</div>' for text in result.warnings)
    return bad + "".join(warnings)


def _card(name: str, value: float, currency: str) -> str:
    text = escape(figure(value, BY_NAME[name].unit, currency))
    tone = ""
    if name in COLORED and value:
        tone = "gain" if value > 0 else "loss"
    return f'<div class="card"><b class="{tone}">{text}</b><span>{BY_NAME[name].title}</span></div>'


def _monthly(result: RunResult) -> str:
    """Years down, months across, the year's compounded return at the end."""
    years: dict[int, dict[int, float]] = {}
    for month in monthly_returns(days_of(result)):
        years.setdefault(month.year, {})[month.month] = month.value
    if not years:
        return "<p>No day was sampled.</p>"
    head = "".join(f"<th>{name}</th>" for name in ["", *MONTHS, "Year"])
    rows = []
    for year, months in years.items():
        cells = "".join(_heat_cell(months.get(month)) for month in range(1, 13))
        total = math.prod(1.0 + value for value in months.values()) - 1.0
        rows.append(f"<tr><th>{year}</th>{cells}{_heat_cell(total)}</tr>")
    return f'<table class="months"><thead><tr>{head}</tr></thead>{"".join(rows)}</table>'


def _heat_cell(value: float | None) -> str:
    if value is None:
        return "<td></td>"
    step = min(4, math.ceil(abs(value) / HEAT_STEP))
    tone = f"{'h' if value > 0 else 'l'}{step}" if step else ""
    return f'<td class="{tone}">{value * 100:z.1f}</td>'


def _figures(metrics: Mapping[str, float], currency: str) -> str:
    """Every metric by group; its formula shows where the pointer rests on its name."""
    blocks = []
    for group, title in GROUPS.items():
        rows = [
            (
                f'<abbr title="{escape(metric.formula)}">{escape(metric.title)}</abbr>',
                escape(figure(metrics[metric.name], metric.unit, currency)),
            )
            for metric in ALL_METRICS
            if metric.group == group and metric.name in metrics
        ]
        if rows:
            blocks.append(pairs(title, rows))
    return "".join(blocks)


def _about(result: RunResult) -> str:
    """Settings with their sources, what became of refused orders, and the notes."""
    chosen = [
        (f"{escape(s.name)}<small>{escape(s.source)}</small>", escape(s.value))
        for s in result.settings
        if s.source != DEFAULT
    ]
    default = [(escape(s.name), escape(s.value)) for s in result.settings if s.source == DEFAULT]
    rejected = [
        (escape(why), f"{count:,}") for why, count in result.reasons_of(Kind.REJECT).items()
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return (
        pairs("Settings and where they come from", chosen)
        + pairs("Settings at default", default)
        + pairs("Rejected orders by reason", rejected)
        + (f"<div><h3>Notes</h3><ul>{notes}</ul></div>" if notes else "")
    )
