"""Writes quantdsl/docs/metrics.md from METRICS: `python -m tests.report.metrics_page`."""

from pathlib import Path

from quantdsl.report.metrics import ALL_METRICS
from quantdsl.report.tearsheet import GROUPS

PAGE = Path(__file__).parents[2] / "quantdsl" / "docs" / "metrics.md"

HEAD = """\
# Metrics

What each figure of a report is. Generated from the functions that compute them
(`python -m tests.report.metrics_page`); a test holds this page to them.

`r` are the returns between day samples: the close of each session that has a bar; without a
session each UTC day, or each bar of a day and longer. The first is against the starting equity. `n`
is their number and `P` the samples in a year: 52 of a file of weeks, 12 of months, 1 of years; else
252 with a session that closes; without one 252 of bars of a day, 52, 12 and 1 of longer ones; and
of UTC days, or a session that never closes, 365 where all days of the week have bars, 313 where six
have (currencies), 252 where five have (stocks). The
riskless rate is 0.
A figure that is not defined is `na` (null in metrics.json), never 0.
What closing at the end (`close_at_end`) costs is in the final equity and its return, not in `r`.
A benchmark begins with the run, at the close of the bar at which trading begins. `--benchmark hold`
is the first instrument held from there on, with the splits, dividends and funding of the data.

What is computed from *accumulators* a lane of a sweep reports too, from the same sums, which
`std/metrics.qdsl` keeps while the strategy runs. The drawdown looks at every bar, so it is never
shallower than one of daily returns; money is compared by cross-multiplication and divided once.
"""


def text() -> str:
    """The page as the metrics say it now."""
    parts = [HEAD]
    for group, title in GROUPS.items():
        rows = [
            f"| `{m.name}` | {m.title} | {m.unit} | {m.formula.replace('|', chr(92) + '|')} "
            f"| {m.source} |"
            for m in ALL_METRICS
            if m.group == group
        ]
        parts.append("\n".join([f"## {title}\n", *TABLE_HEAD, *rows]) + "\n")
    return "\n".join(parts)


TABLE_HEAD = ("| Name | Title | Unit | Formula | From |", "|---|---|---|---|---|")

if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
