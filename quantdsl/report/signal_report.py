"""The description of signals as files: one page, two tables, one JSON document.

    report.html            the page
    distribution.parquet   one row a signal
    foretold.parquet       one row a signal and horizon
    describe.json          the same figures; null where one is not defined

Equal inputs give equal bytes; a file is complete or not there, and the page comes last.
"""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from quantdsl.files import renewed
from quantdsl.report.columns import numbers, texts
from quantdsl.report.signal_study import LAGS, LEVELS, SignalStudy
from quantdsl.report.store import PAGE
from quantdsl.report.words import plural

DOCUMENT = "describe.json"


class SignalReport(Struct, frozen=True):
    """What was described, and the description of each signal."""

    strategy: str
    source_path: str
    source_text: str
    version: str
    data_name: str
    data_sha256: str
    params: Mapping[str, str]
    instruments: tuple[str, ...]
    across: bool
    """Whether instruments are compared at each instant; else the bars of each of them."""
    rows: int
    start_ns: int
    end_ns: int
    studies: tuple[SignalStudy, ...]
    notes: tuple[str, ...] = ()

    @property
    def source_sha256(self) -> str:
        """SHA-256 of the strategy's text, in hex."""
        return hashlib.sha256(self.source_text.encode()).hexdigest()

    @property
    def distribution(self) -> pa.Table:
        """One row a signal: how its values are distributed and how they move."""
        return _table([_distribution(one) for one in self.studies])

    @property
    def foretold(self) -> pa.Table:
        """One row a signal and horizon: what it says of the forward return."""
        rows = [row for one in self.studies for row in _foretold(one)]
        return _table(rows)

    def save(self, folder: Path) -> Path:
        """Write every file into `folder`, made if absent; the path of the page."""
        from quantdsl.report.signal_page import page

        with renewed(folder, DOCUMENT) as apart:
            for name, table in (("distribution", self.distribution), ("foretold", self.foretold)):
                pq.write_table(table, apart / f"{name}.parquet", compression="zstd")
            said = msgspec.json.format(msgspec.json.encode(self.document()), indent=2)
            (apart / DOCUMENT).write_bytes(said)
            (apart / PAGE).write_text(page(self), encoding="utf-8")
        return folder / PAGE

    def __repr__(self) -> str:
        on = f"{plural(len(self.instruments), 'instrument')}, {plural(self.rows, 'row')}"
        return f"<SignalReport of {self.strategy}: {plural(len(self.studies), 'signal')}, {on}>"

    def document(self) -> dict[str, Any]:
        """What describe.json holds."""
        said = {
            "strategy": self.strategy,
            "source_path": self.source_path,
            "source_sha256": self.source_sha256,
            "data": self.data_name,
            "data_sha256": self.data_sha256,
            "version": self.version,
            "params": dict(self.params),
            "instruments": list(self.instruments),
            "across_instruments": self.across,
            "rows": self.rows,
            "first_ns": self.start_ns,
            "last_ns": self.end_ns,
            "notes": list(self.notes),
        }
        signals = [
            {**_finite(_distribution(one)), "foretold": [_finite(r) for r in _foretold(one)]}
            for one in self.studies
        ]
        return {**said, "signals": signals}


def _distribution(one: SignalStudy) -> dict[str, Any]:
    quantiles = {
        f"q{level * 100:02.0f}": value for level, value in zip(LEVELS, one.quantiles, strict=True)
    }
    lags = {
        f"autocorrelation_{lag}": value
        for lag, value in zip(LAGS, one.autocorrelation, strict=True)
    }
    return {
        "signal": one.name,
        "cells": one.cells,
        "present": one.present,
        "coverage": one.coverage,
        "instruments": one.instruments,
        "first_ns": one.first_ns,
        "mean": one.mean,
        "std": one.std,
        "skew": one.skew,
        "kurtosis": one.kurtosis,
        "min": one.least,
        **quantiles,
        "max": one.most,
        **lags,
        "turnover": one.turnover,
    }


def _foretold(one: SignalStudy) -> list[dict[str, Any]]:
    return [
        {
            "signal": one.name,
            "horizon": found.horizon,
            "groups": found.groups,
            "spearman": found.spearman,
            "spearman_t": found.spearman_t,
            "pearson": found.pearson,
            "pearson_t": found.pearson_t,
            **{f"quintile_{n + 1}": value for n, value in enumerate(found.quintiles)},
            "spread": found.spread,
        }
        for found in one.foretold
    ]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if isinstance(values[0], str):
            columns[name] = texts(values)
        else:
            array = np.array(values)
            missing = np.isnan(array) if array.dtype.kind == "f" else None
            columns[name] = numbers(array, missing)
    return pa.table(columns)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
