"""The part of a page that tells of orders on ticks: mark-outs, inventory, what was assumed."""

from html import escape

import numpy as np

from quantdsl.report.execution import HORIZONS_S, Bools, Execution, Float64s, weighted
from quantdsl.report.words import figure

WIDTH, HEIGHT, MARGIN = 640, 140, 8
STEPS_MAX = 1_000
"""Points of a drawn line; of an inventory the largest of each stretch is kept."""


def section(x: Execution | None) -> str:
    """HTML of a section; nothing for a run on bars."""
    if x is None:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in x.assumptions)
    return (
        "<section><h2>Execution</h2><h3>Mark-out: ticks in favour of a fill, by lots</h3>"
        f'{_curve(x)}<div class="scroll">{_table(x)}</div>'
        f"<h3>Inventory: sum of absolute positions, lots</h3>{_inventory(x)}"
        f"<h3>What was assumed</h3><ul>{lines}</ul></section>"
    )


def _groups(x: Execution) -> tuple[tuple[str, Bools], ...]:
    every = np.ones(len(x.fill_lots), bool)
    return (
        ("All", every),
        ("Maker", x.maker),
        ("Taker", ~x.maker),
        ("Buys", x.buys),
        ("Sells", ~x.buys),
    )


def _curve_of(x: Execution, chosen: Bools) -> Float64s:
    lots, marks = x.fill_lots[chosen], x.markout[chosen]
    return np.array([float(weighted(marks[:, at], lots)) for at in range(len(HORIZONS_S))])


def _table(x: Execution) -> str:
    """Horizons across; fills of each kind down."""
    head = "".join(f"<th>{seconds:g} s</th>" for seconds in HORIZONS_S)
    rows = []
    for name, chosen in _groups(x):
        cells = "".join(f"<td>{figure(v, 'ticks')}</td>" for v in _curve_of(x, chosen).tolist())
        rows.append(f"<tr><th>{name}</th><td>{np.count_nonzero(chosen):,}</td>{cells}</tr>")
    head = f"<tr><th>Fills</th><th>Number</th>{head}</tr>"
    return f'<table class="list">{head}{"".join(rows)}</table>'


def _curve(x: Execution) -> str:
    """The mark-out of all fills, a step of equal width for each horizon."""
    values = _curve_of(x, _groups(x)[0][1])
    known = np.isfinite(values)
    return _line(np.flatnonzero(known).astype(np.float64), values[known])


def _inventory(x: Execution) -> str:
    n = len(x.position_lots)
    if not n:
        return "<p>Nothing was filled.</p>"
    bounds = np.unique(np.arange(min(n, STEPS_MAX)) * n // min(n, STEPS_MAX))
    lots = np.maximum.reduceat(x.position_lots, bounds).astype(np.float64)
    seconds = (x.position_ts[bounds] - x.position_ts[0]) / 1e9
    return _line(seconds, lots)


def _line(x: Float64s, y: Float64s) -> str:
    """A line with a rule at zero, as SVG; lowest and highest value beside it."""
    if len(x) < 2:
        return ""
    low, high = min(0.0, float(y.min())), max(0.0, float(y.max()))
    span = (high - low) or 1.0
    right = WIDTH - 2 * MARGIN
    across = MARGIN + (x - x[0]) / ((x[-1] - x[0]) or 1.0) * right
    down = MARGIN + (high - y) / span * (HEIGHT - 2 * MARGIN)
    zero = MARGIN + high / span * (HEIGHT - 2 * MARGIN)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img">'
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{zero:.1f}" y2="{zero:.1f}" '
        'stroke="currentColor" stroke-opacity="0.3"/>'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
        f'<p class="hint">from {low:,.4g} to {high:,.4g}</p>'
    )
