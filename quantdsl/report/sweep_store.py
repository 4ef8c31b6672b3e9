"""A sweep as files in a folder.

    points.parquet, points.arrow    one row a point: params, then every metric
    result.json                     what was swept, the best points, and what they are worth
    report.html                     the page

The files take their names together, result.json last; equal sweeps give equal files.
"""

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from quantdsl.files import renewed
from quantdsl.report.result import DEFAULT
from quantdsl.report.store import write_table
from quantdsl.report.sweep_page import page
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_study import Study
from quantdsl.report.sweep_walk import WalkForward
from quantdsl.report.sweep_words import extent, sentences, verdict, walk_sentences

POINTS, RESULT, PAGE = "points", "result.json", "report.html"
TABLES = f"{POINTS}.parquet", f"{POINTS}.arrow"
TRACE = "trace.json"
BESIDE = re.compile(rf"trades-\d+\.(arrow|parquet)|{re.escape(TRACE)}")
"""What is written beside them where it is asked for."""
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the resamples that are kept."""


def save(
    result: SweepResult,
    study: Study,
    folder: Path,
    top: int = 10,
    walk: WalkForward | None = None,
) -> Path:
    """Write every file of a sweep into `folder`, made if absent; the path of the page."""
    said = summary(result, study, top) | ({} if walk is None else {"walk_forward": _walk(walk)})
    earlier = (folder / RESULT).is_file()
    with renewed(folder, RESULT) as apart:
        write_table(result.table, apart, POINTS)
        encoded = msgspec.json.format(msgspec.json.encode(said), indent=2)
        (apart / RESULT).write_bytes(encoded + b"\n")
        (apart / PAGE).write_text(page(result, study, top, walk), encoding="utf-8")
        if earlier:
            forget(folder)
    return folder / PAGE


def forget(folder: Path) -> None:
    """Remove what an earlier sweep left beside its files: its points of these numbers may be
    others."""
    for path in folder.glob("*"):
        if BESIDE.fullmatch(path.name) and path.is_file():
            path.unlink()


def summary(result: SweepResult, study: Study, top: int) -> dict[str, Any]:
    """The sweep in words and single figures; null where one is not defined."""
    settings = [setting for setting in result.settings if setting.source != DEFAULT]
    apart = _finite(msgspec.to_builtins(result.difference))
    return {
        "strategy": result.strategy,
        "source_path": result.source_path,
        "source_sha256": result.source_sha256,
        "version": result.version,
        "data": result.data_name,
        "data_sha256": result.data_sha256,
        "instruments": result.instruments,
        "swept": {axis.name: extent(axis.levels) for axis in result.axes},
        "fixed": dict(result.fixed),
        "points": len(result),
        "points_planned": result.planned,
        "trials": result.trials,
        "objective": result.objective,
        "start_ns": result.start_ns,
        "end_ns": result.end_ns,
        "bars": result.bars,
        "device": result.device,
        "precision": result.precision,
        **({} if apart is None else {"difference": apart}),
        "settings": settings,
        "verdict": verdict(result, study)[1],
        "sentences": sentences(result, study),
        "statistics": _finite(_statistics(study)),
        "best": [_point(result, row) for row in result.ranked(top).tolist()],
        "notes": result.notes,
        "warnings": result.warnings,
    }


def _point(result: SweepResult, row: int) -> dict[str, Any]:
    values = {name: float(result.table.column(name)[row].as_py()) for name in result.metric_names}
    return {
        "point": result.number(row),
        "params": result.params(row),
        "command": result.command(row),
        "metrics": _finite(values),
    }


def _walk(walk: WalkForward) -> dict[str, Any]:
    """The windows, and the tests together."""
    steps = [
        {
            "train_ns": step.train_ns,
            "test_ns": step.test_ns,
            "end_ns": step.end_ns,
            "params": dict(step.params),
            "training": _finite(dict(step.inside)),
            "test": _finite(dict(step.outside)),
        }
        for step in walk.steps
    ]
    return {
        "train": walk.train,
        "test": walk.test,
        "chosen_by": "best surroundings" if walk.steady else "best point",
        "sentences": walk_sentences(walk),
        "efficiency": _finite(walk.efficiency),
        "metrics": _finite(dict(walk.metrics)),
        "steps": steps,
    }


def _statistics(study: Study) -> dict[str, Any]:
    """Every figure behind the sentences."""
    found: dict[str, Any] = {"seed": study.seed}
    if study.luck is not None:
        found["luck"] = msgspec.to_builtins(study.luck)
    if study.splits is not None:
        found["cross_validation"] = {
            "splits": len(study.splits.rank),
            "points": study.splits.n_points,
            "overfit_probability": study.splits.overfit_probability,
            "loss_probability": study.splits.loss_probability,
            "degradation": study.splits.degradation,
            "rank_correlation": study.splits.rank_correlation,
        }
    if study.best is not None:
        around = study.neighbourhood
        found["neighbourhood"] = {
            "tried": int(around.tried[study.best]),
            "median_score": float(around.median[study.best]),
            "worst_score": float(around.worst[study.best]),
            "rank_of_smoothed": around.rank(study.best),
        }
    if study.resamples is not None:
        found["bootstrap"] = {
            "trades": study.resamples.n_trades,
            "resamples": len(study.resamples.final),
            "loss_probability": study.resamples.loss_probability,
            "shares": SHARES,
            "final_return": np.quantile(study.resamples.final, SHARES).tolist(),
            "max_drawdown": np.quantile(study.resamples.drawdown, SHARES).tolist(),
        }
    return found


def _finite(value: Any) -> Any:
    """JSON has no NaN: null instead."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
