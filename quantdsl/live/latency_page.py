"""Measured latencies as one HTML file: a table, and the spans drawn on a logarithmic scale."""

import math
from html import escape
from string import Template

from quantdsl.live.latency import PERCENTILES, Report, Row
from quantdsl.report.html import policy

STYLE = """\
body{font:14px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:#1c2733;background:#fff}
table{border-collapse:collapse;width:100%}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #dfe5ea;
font-variant-numeric:tabular-nums}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}
figure{margin:1rem 0}svg{width:100%;height:auto}figcaption{color:#667}
text{font:12px system-ui,sans-serif;fill:#445}
.span{fill:#9bbce0}.body{fill:#2b6cb0}.grid{stroke:#dfe5ea}
@media(prefers-color-scheme:dark){body{background:#12181f;color:#dbe3ea}text{fill:#aab}
th,td{border-color:#2a3440}.grid{stroke:#2a3440}}
"""
PAGE = Template("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width"><title>$title</title>
<style>$style</style></head><body>
<h1>$title</h1><p>$subtitle</p>
<figure>
<svg viewBox="0 0 1000 $height" role="img" aria-label="p50 to p99.9 of each row">$drawn</svg>
<figcaption>Each bar begins at the median; the dark part ends at the 99th percentile, the light one
at the 99.9th.</figcaption></figure>
<table><thead><tr>$head</tr></thead><tbody>$rows</tbody></table>
<h2>Notes</h2><ul>$notes</ul>
</body></html>
""")
LEFT, RIGHT, LINE = 210, 970, 22
DECADES = (0, 6)
"""1 ns to 1 ms are drawn."""


def page(report: Report) -> str:
    """The whole page as text; equal reports give equal bytes. Every text is escaped."""
    columns = ["", "count", *(f"p{p:g}" for p in PERCENTILES), "max", "how"]
    rate = f"{report.rate:,.0f} events/s" if report.rate else "one event after the other"
    return PAGE.substitute(
        policy=policy(STYLE, ()),
        style=STYLE,
        title=escape(f"{report.strategy}: latency"),
        subtitle=escape(
            f"{report.data} · {report.events:,} events, {report.orders:,} with orders · {rate} · "
            f"core {report.core} · {report.cycles_per_ns:.3f} cycles a ns · all times in ns"
        ),
        height=LINE * (len(report.rows) + 2),
        drawn=_grid(len(report.rows)) + "".join(map(_bar, range(99), report.rows)),
        head="".join(f"<th>{column}</th>" for column in columns),
        rows="".join(map(_row, report.rows)),
        notes="".join(f"<li>{escape(note)}</li>" for note in report.notes),
    )


def _row(row: Row) -> str:
    cells = [f"{row.count:,}", *(f"{ns:,.1f}" for ns in (*row.percentiles_ns, row.max_ns))]
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr><td>{escape(row.name)}</td>{inner}<td>{escape(row.how)}</td></tr>"


def _x(ns: float) -> float:
    low, high = DECADES
    share = (math.log10(max(ns, 10.0**low)) - low) / (high - low)
    return LEFT + (RIGHT - LEFT) * min(share, 1.0)


def _grid(rows: int) -> str:
    lines = []
    for decade in range(DECADES[0], DECADES[1] + 1):
        x, bottom = _x(10.0**decade), LINE * (rows + 1)
        label = ("1 ns", "10", "100", "1 us", "10", "100", "1 ms")[decade]
        lines.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{bottom}"/>')
        lines.append(f'<text x="{x:.0f}" y="{bottom + 14}" text-anchor="middle">{label}</text>')
    return "".join(lines)


def _bar(number: int, row: Row) -> str:
    """From the median to p99.9, the part to p99 darker."""
    y = LINE * number
    median, p99, p999 = (_x(row.percentiles_ns[k]) for k in (0, 2, 3))
    return (
        f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(row.name)}</text>'
        f'<rect class="span" x="{median:.1f}" y="{y + 6}" width="{max(p999 - median, 1):.1f}" '
        f'height="12"/><rect class="body" x="{median:.1f}" y="{y + 6}" '
        f'width="{max(p99 - median, 2):.1f}" height="12"/>'
    )
