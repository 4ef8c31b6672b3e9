"""What the language offers, read from where it is defined: std/*.qdsl and the checker's tables."""

import re
from functools import cache
from pathlib import Path

from msgspec import Struct

from quantdsl.check import line_words, words
from quantdsl.check.builtins import TABLE
from quantdsl.check.library import ALIASES, STD
from quantdsl.check.market import OF_ACCOUNT, OF_INSTRUMENT, Traded
from quantdsl.check.settings import BACKTEST, FORMS, MODELS, RISK
from quantdsl.check.thread_words import HELP
from quantdsl.check.trading import ORDERS
from quantdsl.check.words import Word
from quantdsl.lang import ast
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source

EVERYWHERE = "everywhere"
KERNELS = "kernels"
THREADS = "threads of kernels"
"""The section of what needs no prefix."""

ONLY = Traded(0, "", "")
"""The instrument whose figures need no name before them."""

GLOBAL = "math"
"""The namespace whose names need no prefix."""

NAMESPACES = (GLOBAL, "size", "ta", "ts", "vol", "xs")
"""What a strategy may call; the other files of std are the engine's own."""

IN_GROUPS = "_by"
"""How a function of xs ends that stands for another one with `by =`."""


class Entry(Struct, frozen=True):
    """One name of the language as `quantdsl help` shows it."""

    section: str  # the heading it is listed under
    name: str  # with its namespace: ta.sma
    signature: str
    summary: str
    details: dict[str, str]  # formula, example, source, note, warm-up, cost


@cache
def entries() -> tuple[Entry, ...]:
    """Everything with documentation, by name; an overloaded name has several entries."""
    found = [*_builtins(), *_threads(), *_orders(), *_account(), *_limits(), *_settings()]
    for section, rows in {**line_words.SECTIONS, **words.SECTIONS}.items():
        found += [_word(section, name, row) for name, row in rows.items()]
    for path in sorted(STD.glob("*.qdsl")):
        space = path.stem.partition("_")[0]
        if ALIASES.get(space, space) in NAMESPACES:
            found += _documented(path, ALIASES.get(space, space))
    return tuple(sorted(found, key=lambda entry: entry.name))


def find(name: str) -> list[Entry]:
    """The entries of one name, with or without its namespace; else those that are written with it,
    as tif is with ioc, but for functions, of which a hundred have a `len`. A handler is found as it
    is written, `on stale`, and so is an annotation, `@latency`."""
    if name.startswith("on "):
        event = re.findall(r"\w+", name)[1:2]
        return [e for e in find("on") if {*event} & {*re.findall(r"\w+", e.signature)}]
    if name.startswith("@"):
        noted = line_words.ANNOTATIONS.keys() & {name[1:]}
        return [entry for entry in entries() if entry.name in noted and entry.signature[0] == "@"]
    every = entries()
    exact = [entry for entry in every if entry.name == name]
    bare = [entry for entry in every if entry.name.rpartition(".")[2] == name]
    others = [entry for entry in every if not entry.signature.startswith(f"{entry.name}(")]
    return exact or bare or [one for one in others if name in re.findall(r"\w+", one.signature)]


def _builtins() -> list[Entry]:
    rows = [row for row in TABLE.values() if not row.std_only]
    return [
        Entry(
            KERNELS if row.in_kernels else EVERYWHERE,
            row.name,
            row.signature,
            row.text,
            {"example": row.example},
        )
        for row in rows
    ]


def _threads() -> list[Entry]:
    return [
        Entry(THREADS, name, row.signature, row.text, {"example": row.example})
        for name, row in HELP.items()
    ]


def _word(section: str, name: str, row: Word) -> Entry:
    details = {"example": row.example} if row.example else {}
    return Entry(section, name, row.signature, row.text, details)


def _orders() -> list[Entry]:
    return [
        Entry("orders", name, row.signature, row.text, {"example": row.example})
        for name, row in ORDERS.items()
    ]


def _account() -> list[Entry]:
    """Figures of the account; those of an instrument also follow its name: y.position."""
    return [
        Entry(
            "position and account",
            name,
            f"{name} -> {row.type(ONLY)}",
            row.text,
            {"example": name},
        )
        for name, row in {**OF_INSTRUMENT, **OF_ACCOUNT}.items()
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _limits() -> list[Entry]:
    return [
        Entry(
            "risk:",
            name,
            f"{name} = {unit} [-> action, ...]",
            _sentence(text),
            {"example": f"{name} = {words.LIMIT_EXAMPLES[unit]}"} if unit != "fn" else {},
        )
        for name, (unit, text) in RISK.items()
    ]


def _settings() -> list[Entry]:
    found = []
    for name, text in BACKTEST.items():
        forms = [words.SETTING_EXAMPLES.get(form, form) for form in FORMS[name]]
        forms = [words.USUAL[name]] if name in words.USUAL else forms
        shown = [*forms, "the name of a fn"] if name in MODELS else forms
        details = {"example": f"{name} = {forms[0]}"} if forms else {}
        signature = f"{name} = {' | '.join(shown)}"
        found.append(Entry("backtest:", name, signature, _sentence(text), details))
    return found


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
    details = {"warm-up": "1"} if isinstance(item, ast.Indicator) else {}
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
    name = prefix + item.name.id
    if prefix == "xs.":
        name, signature = name.removesuffix(IN_GROUPS), _across(signature)
    section = prefix.removesuffix(".") or EVERYWHERE
    return Entry(section, name, signature, docs[0] if docs else "", details)


def _across(signature: str) -> str:
    """A function of columns as a strategy calls it: on panels, its memory and result left out."""
    shown = signature.replace("inout w: Work, ", "").replace("array[float, N_INSTRUMENTS]", "panel")
    shown = shown.replace("group: array[int, N_INSTRUMENTS]", "by: groups")
    shown = shown.replace(f"{IN_GROUPS}(", "(")
    head, _, out = shown.partition(", inout out: ")
    result = out.removesuffix(")").replace("array[bool, N_INSTRUMENTS]", "panel of bool")
    return f"{head}) -> {result}" if out else shown
