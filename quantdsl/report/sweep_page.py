"""The page of a sweep: one HTML file with everything in it, that opens without a network.

Every text of a strategy or a data file is escaped.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from quantdsl.data.many import named
from quantdsl.report import html
from quantdsl.report.html import pairs
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import DEFAULT
from quantdsl.report.sweep_charts import LINES_MAX, sweep_data
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_study import Study
from quantdsl.report.sweep_walk import WalkForward
from quantdsl.report.sweep_words import (
    chance,
    differences,
    extent,
    metric_text,
    neighbours_text,
    sentences,
    verdict,
    walk_sentences,
)
from quantdsl.report.words import UNDEFINED, date, figure, moment, plural

COLUMNS = ("sharpe", "total_return", "max_drawdown", "trades", "win_rate", "profit_factor")
"""Metrics of the best points that stand beside the objective."""
WALK_COLUMNS = ("total_return", "trades")
STEADY_ROWS = 5


def page(result: SweepResult, study: Study, top: int = 20, walk: WalkForward | None = None) -> str:
    """The whole page as text, with the best `top` points; the same sweep gives the same bytes."""
    tone, said = verdict(result, study)
    steady = study.neighbourhood.ranked(STEADY_ROWS).tolist()
    part = html.Part(
        name="sweep",
        kind="sweep",
        subtitle=_subtitle(result),
        params=_grid(result),
        about=_about(result),
        charts="Equity chart",
        data=sweep_data(result, study, walk),
        sheets=("sweep.css",),
    )
    return html.page(
        result,
        part,
        tone=tone,
        verdict=escape(said),
        sentences=_list(sentences(result, study)),
        warnings="".join(
            f'<div class="banner warn">{escape(text)}</div>' for text in result.warnings
        ),
        cards="".join(_card(text, title) for text, title in _cards(result, study)),
        top=_table(result, study, result.ranked(top).tolist()),
        steady=_table(result, study, steady, ()) if steady else "No point has a neighbour.",
        objective=escape(result.objective_title),
        drawn=_drawn(result),
        splits=escape(_splits(study)),
        walk="" if walk is None else _walk(walk),
    )


def _subtitle(result: SweepResult) -> str:
    return " · ".join(
        [
            f"sweep of {plural(len(result), 'point')}",
            named(result.instruments),
            f"{date(result.start_ns)} to {date(result.end_ns)}",
            plural(result.bars, result.moment),
            result.data_name,
        ]
    )


def _grid(result: SweepResult) -> str:
    """Each swept param with its first and last value, then those that stayed."""
    swept = [f"{axis.name} = {extent(axis.levels)}" for axis in result.axes]
    return ", ".join([*swept, *(f"{name} = {value}" for name, value in result.fixed.items())])


def _cards(result: SweepResult, study: Study) -> list[tuple[str, str]]:
    best = UNDEFINED if study.best is None else metric_text(result, result.objective, study.best)
    luck, splits = study.luck, study.splits
    expected = math.nan if luck is None else luck.expected_best
    return [
        (best, f"{result.objective_title}, best point"),
        (f"{result.trials:,}", "Points tried"),
        (figure(expected, "ratio"), "Best Sharpe ratio by luck"),
        (UNDEFINED if luck is None else chance(luck.deflated), "Deflated Sharpe ratio"),
        (
            UNDEFINED if splits is None else chance(splits.overfit_probability),
            "Probability of overfitting",
        ),
        (
            UNDEFINED if splits is None else figure(splits.rank_correlation, "ratio"),
            "Rank correlation, in and out of sample",
        ),
        (neighbours_text(result, study, study.best), "Neighbours, median"),
        (_rank(result, study), "Rank by surroundings"),
    ]


def _rank(result: SweepResult, study: Study) -> str:
    if study.best is None or not study.neighbourhood.tried[study.best]:
        return UNDEFINED
    return f"{study.neighbourhood.rank(study.best):,} of {len(result):,}"


def _card(text: str, title: str) -> str:
    return f'<div class="card"><b>{escape(text)}</b><span>{escape(title)}</span></div>'


def _table(
    result: SweepResult, study: Study, rows: Sequence[int], beside: Sequence[str] = COLUMNS
) -> str:
    """Points with params, objective, neighbours and metrics `beside`; each knows its command."""
    metrics = result.shown(beside)
    titles = [BY_NAME[name].title for name in metrics]
    head = ["#", *(axis.name for axis in result.axes), titles[0], "Neighbours", *titles[1:]]
    body = []
    for place, row in enumerate(rows, 1):
        first, *others = (metric_text(result, name, row) for name in metrics)
        around = neighbours_text(result, study, row)
        cells = [f"{place}", *result.params(row).values(), first, around, *others]
        marked = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body.append(f'<tr data-command="{escape(result.command(row))}">{marked}</tr>')
    titled = "".join(f"<th>{escape(title)}</th>" for title in head)
    rows_text = "".join(body)
    return f'<table class="list"><thead><tr>{titled}</tr></thead><tbody>{rows_text}</tbody></table>'


def _walk(walk: WalkForward) -> str:
    """The tests of a walk-forward: what they say, their equity, and each of them."""
    params = list(walk.steps[0].params)
    title = BY_NAME[walk.objective].title
    head = ["Test", *params, f"{title} in training", title, "Total return", "Trades"]
    body = []
    for step in walk.steps:
        cells = [
            f"{date(step.test_ns)} to {date(step.end_ns)}",
            *step.params.values(),
            _value(walk, walk.objective, step.inside),
            *(_value(walk, name, step.outside) for name in (walk.objective, *WALK_COLUMNS)),
        ]
        body.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    titled = "".join(f"<th>{escape(title)}</th>" for title in head)
    return (
        f"<section><h2>Walk-forward: train {escape(walk.train)}, test {escape(walk.test)}</h2>"
        f'<div class="said">{_list(walk_sentences(walk))}</div>'
        '<div id="walk" class="chart tall"></div><div class="scroll"><table class="list"><thead>'
        f"<tr>{titled}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _value(walk: WalkForward, name: str, metrics: Mapping[str, float]) -> str:
    return figure(metrics[name], BY_NAME[name].unit, walk.currency)


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def _drawn(result: SweepResult) -> str:
    if len(result) <= LINES_MAX:
        return ""
    return f"{LINES_MAX:,} of {len(result):,} points are drawn: the best, and others by rank."


def _splits(study: Study) -> str:
    if study.splits is None:
        return "Nothing to split: the days or the points are too few, or the points are all alike."
    slope = study.splits.degradation
    return (
        f"One dot for each of {len(study.splits.rank):,} ways to halve the days: the best point of "
        "one half, and what it does in the other. On the line it is as good there; below 0 it "
        f"loses money. The slope of the dots is {figure(slope, 'ratio')}."
    )


def _differences(result: SweepResult) -> list[tuple[str, str]]:
    """What another precision changed of each metric."""
    return [
        (escape(title), escape(f"{largest} at most, {median} in the median"))
        for title, largest, median in differences(result)
    ]


def _about(result: SweepResult) -> str:
    """The grid, where it began, settings with their sources, and the notes."""
    run = [
        ("Points tried", f"{result.trials:,}"),
        ("Objective", escape(result.objective_title)),
        ("All points trade from", escape(f"{moment(result.start_ns)} UTC")),
        ("Computed on", escape(result.device)),
        ("Precision", escape(result.precision)),
    ]
    swept = [(escape(axis.name), escape(extent(axis.levels))) for axis in result.axes]
    fixed = [(escape(name), escape(value)) for name, value in result.fixed.items()]
    chosen = [
        (f"{escape(s.name)}<small>{escape(s.source)}</small>", escape(s.value))
        for s in result.settings
        if s.source != DEFAULT
    ]
    default = [(escape(s.name), escape(s.value)) for s in result.settings if s.source == DEFAULT]
    return (
        pairs("The sweep", run)
        + pairs(f"{result.precision} against f64", _differences(result))
        + pairs("Swept params", swept)
        + pairs("Other params", fixed)
        + pairs("Settings and where they come from", chosen)
        + pairs("Settings at default", default)
        + (f"<div><h3>Notes</h3>{_list(result.notes)}</div>" if result.notes else "")
    )
