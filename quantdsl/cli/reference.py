"""What the language offers, read from its own definitions: std/*.qdsl and the built-ins' table."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quantdsl.check.builtins import TABLE
from quantdsl.check.library import ALIASES, STD
from quantdsl.lang import ast
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source

GLOBAL = "math"
"""The namespace whose names need no prefix."""

NAMESPACES = (GLOBAL, "size", "ta", "ts", "vol", "xs")
"""What a strategy may call; the other files of std are the engine's own."""


@dataclass(frozen=True)
class Entry:
    """One name of the language as `quantdsl help` shows it."""

    name: str  # with its namespace: ta.sma
    signature: str
    summary: str
    details: dict[str, str]  # formula, example, source, note, warm-up, cost


@cache
def entries() -> tuple[Entry, ...]:
    """Everything with documentation, by name; an overloaded name has several entries."""
    found = [_builtin(name) for name, row in TABLE.items() if not row.std_only]
    for path in sorted(STD.glob("*.qdsl")):
        space = path.stem.partition("_")[0]
        if ALIASES.get(space, space) in NAMESPACES:
            found += _documented(path, ALIASES.get(space, space))
    return tuple(sorted(found, key=lambda entry: entry.name))


def find(name: str) -> list[Entry]:
    """The entries of one name, with or without its namespace."""
    exact = [entry for entry in entries() if entry.name == name]
    return exact or [entry for entry in entries() if entry.name.rpartition(".")[2] == name]


def _builtin(name: str) -> Entry:
    row = TABLE[name]
    return Entry(name, row.signature, row.text, {"example": row.example})


def _documented(path: Path, space: str) -> list[Entry]:
    """The fns and indicators of one file that show an example; others are its own business."""
    prefix = "" if space == GLOBAL else f"{space}."
    source = Source.read(path, std=True)
    found = []
    for item in parse(source).file.items:
        if isinstance(item, ast.Fn | ast.Indicator) and isinstance(item.body, ast.Suite):
            entry = _entry(prefix, item, item.body, source)
            if "example" in entry.details:
                found.append(entry)
    return found


def _entry(prefix: str, item: ast.Fn | ast.Indicator, body: ast.Suite, source: Source) -> Entry:
    docs = []
    for statement in body.body:
        if not isinstance(statement, ast.Doc):
            break
        docs.append(statement.value)
    details: dict[str, str] = {}
    for annotation in item.annotations:
        if annotation.name in ("warmup", "cost"):
            start, end = annotation.span
            text = source.text[start:end].partition("(")[2].rstrip().removesuffix(")").strip('"')
            details["warm-up" if annotation.name == "warmup" else "cost"] = text
    for line in docs[1:]:
        label, colon, text = line.partition(": ")
        if colon:
            details[label] = f"{details[label]}; {text}" if label in details else text
    written = source.text[item.name.span[0] : body.span[0]]
    signature = prefix + re.sub(r"\s+", " ", written).strip().removesuffix(":").rstrip()
    return Entry(prefix + item.name.id, signature, docs[0] if docs else "", details)
