"""The page of signals: one HTML file with everything in it, that opens without a network.

Every text of a strategy or a data file is escaped. Small charts are drawings made here; what is
drawn over time uses the chart library of the other pages.
"""

import base64
import math
from html import escape

import numpy as np

from quantdsl.report import html
from quantdsl.report.html import pairs
from quantdsl.report.signal_report import SignalReport
from quantdsl.report.signal_study import HORIZONS, LAGS, Foretold, SignalStudy
from quantdsl.report.signal_summary import number, percent, ratio, said_of_returns
from quantdsl.report.words import date, plural

LINES_MAX = 8
POINTS_MAX = 2_000
WIDTH, HEIGHT = 320, 120
SURE = 2.0
"""Beyond this t a figure is in colour."""


def page(report: SignalReport) -> str:
    """The whole page as text; the same report gives the same bytes."""
    part = html.Part(
        name="signals",
        kind="signals",
        subtitle=_subtitle(report),
        params=", ".join(f"{name} = {value}" for name, value in report.params.items()),
        about=_about(report),
        charts="Chart over time",
        data={"lines": _lines(report)},
        sheets=("signals.css",),
    )
    return html.page(
        report,
        part,
        returns=escape(said_of_returns(report)),
        distribution=_distribution(report),
        ranked=_foretold(report, "spearman"),
        linear=_foretold(report, "pearson"),
        signals="".join(map(_signal, report.studies)),
        hidden="" if report.across else "hidden",
    )


def _subtitle(report: SignalReport) -> str:
    return " · ".join(
        [
            plural(len(report.studies), "signal"),
            ", ".join(report.instruments)
            if len(report.instruments) <= 4
            else plural(len(report.instruments), "instrument"),
            f"{date(report.start_ns)} to {date(report.end_ns)}",
            plural(report.rows, "row"),
            report.data_name if len(report.instruments) <= 4 else "",
        ]
    ).removesuffix(" · ")


def _about(report: SignalReport) -> str:
    run = pairs("Params", ((escape(k), escape(v)) for k, v in report.params.items()))
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return run + (f"<div><h3>Notes</h3><ul>{notes}</ul></div>" if notes else "")


def _cells(texts: list[str], tag: str = "td") -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def _rows(head: list[str], rows: list[list[str]]) -> str:
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<table class="figures"><thead><tr>{_cells(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _distribution(report: SignalReport) -> str:
    head = ["Signal", "Coverage", "Mean", "Std", "Skew", "Kurtosis", "Min", "1 %", "5 %", "25 %"]
    head += ["Median", "75 %", "95 %", "99 %", "Max", "Turnover"]
    rows = []
    for one in report.studies:
        shape = [percent(one.coverage, 1), number(one.mean), number(one.std)]
        shape += [ratio(one.skew, 2), ratio(one.kurtosis, 2)]
        levels = [number(x, 3) for x in (one.least, *one.quantiles, one.most)]
        rows.append([escape(one.name), *shape, *levels, ratio(one.turnover)])
    return _rows(head, rows)


def _foretold(report: SignalReport, kind: str) -> str:
    head = ["Signal", *(f"{bars} bar{'s' * (bars > 1)}" for bars in HORIZONS)]
    rows = []
    for one in report.studies:
        cells = [_tested(getattr(f, kind), getattr(f, f"{kind}_t")) for f in one.foretold]
        rows.append([escape(one.name), *cells])
    return _rows(head, rows)


def _tested(value: float, t: float) -> str:
    """A correlation with its t, in colour where it is far from chance."""
    text = f"{ratio(value)} <small>t {ratio(t, 1)}</small>"
    if math.isnan(t) or abs(t) < SURE:
        return text
    return f'<span class="{"gain" if t > 0 else "loss"}">{text}</span>'


def _signal(one: SignalStudy) -> str:
    """The drawings of one signal."""
    return (
        f'<section><h2>{escape(one.name)}</h2><div class="drawings">'
        f"<figure>{_histogram(one)}<figcaption>Values, all but the outermost half percent on each "
        "side</figcaption></figure>"
        f"<figure>{_fifths(one.foretold[0])}{_fifths(one.foretold[2])}<figcaption>Mean return over "
        f"{HORIZONS[0]} bar and over {HORIZONS[2]}, by fifth of the signal, lowest first"
        "</figcaption></figure>"
        f"<figure>{_lags(one)}<figcaption>Autocorrelation after {', '.join(map(str, LAGS))} bars"
        "</figcaption></figure></div></section>"
    )


def _histogram(one: SignalStudy) -> str:
    high = max(max(one.counts), 1)
    width = WIDTH / len(one.counts)
    bars = "".join(
        _bar(n * width, HEIGHT - 16, width - 1, count / high * (HEIGHT - 24), "plain")
        for n, count in enumerate(one.counts)
    )
    ends = _text(0, number(one.bins[0], 3), "start")
    return _svg(WIDTH, bars + ends + _text(WIDTH, number(one.bins[-1], 3), "end"))


def _fifths(found: Foretold) -> str:
    return _signed(WIDTH // 2 - 6, found.quintiles, [percent(x, 2) for x in found.quintiles])


def _lags(one: SignalStudy) -> str:
    shown = [ratio(x, 2) for x in one.autocorrelation]
    return _signed(WIDTH, one.autocorrelation, shown, full=1.0)


def _signed(width: int, values: tuple[float, ...], shown: list[str], full: float = 0.0) -> str:
    """Bars up and down from a line in the middle, each with what it says."""
    known = [abs(x) for x in values if not math.isnan(x)]
    most = max([full, *known]) or 1.0
    step, middle = width / len(values), (HEIGHT - 16) / 2
    drawn = [f'<line x1="0" x2="{width}" y1="{middle:g}" y2="{middle:g}"/>']
    for n, value in enumerate(values):
        if not math.isnan(value):
            size = abs(value) / most * (middle - 4)
            bottom = middle if value > 0 else middle + size
            kind = "up" if value > 0 else "down"
            drawn.append(_bar(n * step + 3, bottom, step - 6, size, kind, shown[n]))
        drawn.append(_text((n + 0.5) * step, shown[n].removesuffix(" %"), "middle"))
    return _svg(width, "".join(drawn))


def _svg(width: int, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" role="img">'
        f"{content}</svg>"
    )


def _bar(
    left: float, bottom: float, width: float, height: float, kind: str, title: str = ""
) -> str:
    said = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect class="{kind}" x="{left:.2f}" y="{bottom - height:.2f}" width="{width:.2f}" '
        f'height="{height:.2f}">{said}</rect>'
    )


def _text(at: float, text: str, anchor: str) -> str:
    return f'<text x="{at:.1f}" y="{HEIGHT - 3}" text-anchor="{anchor}">{escape(text)}</text>'


def _lines(report: SignalReport) -> list[dict[str, str]]:
    """The rank correlations added up over time: those that foretell most, packed."""
    if not report.across:
        return []

    def far(one: SignalStudy) -> float:
        t = one.foretold[0].spearman_t
        return -abs(t) if not math.isnan(t) else 0.0

    chosen = sorted(report.studies, key=far)[:LINES_MAX]
    return [_line(one) for one in chosen if len(one.path)]


def _line(one: SignalStudy) -> dict[str, str]:
    every = np.unique(np.linspace(0, len(one.path) - 1, POINTS_MAX).astype(np.int64))
    return {
        "name": one.name,
        "time": _packed(one.path_ns[every] / 1e9, "<f8"),
        "value": _packed(one.path[every], "<f4"),
    }


def _packed(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()
