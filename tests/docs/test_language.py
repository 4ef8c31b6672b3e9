"""What is written about the language is true: every example compiles, and no name is missing."""

import re
import textwrap

import pytest

from quantdsl.backtest.testing import run_tests
from quantdsl.check import line_words
from quantdsl.check.annotations import AVAILABLE
from quantdsl.check.bindings import Local
from quantdsl.check.book import BookBinding
from quantdsl.check.checked import check_source
from quantdsl.check.market import Later
from quantdsl.check.tick_names import Absent, Tape, Working
from quantdsl.check.universe import NeedsUniverse
from quantdsl.cli.reference import EVERYWHERE, KERNELS, THREADS, Entry, entries, find
from quantdsl.lang import words
from quantdsl.lang.format import format_source
from quantdsl.lang.source import Source
from tests.docs import tour

STRATEGY = """language 1

strategy Example:
    "One line of it is an example."

    bars 1h
    session "XNYS"

    on {event}:
        {handler}

    risk:
        {risk}

    backtest:
        {backtest}
"""
TICKS = "quotes, trades and book"
"""The section of the names that a strategy on ticks alone can read."""

TICK_WORDS = {"quote", "display"}

PLAIN = {
    "event": "bar",
    "handler": "close_position()",
    "risk": "max_order = 1 share",
    "backtest": "fees = 1bps",
}
STATEMENTS = {"orders", "arguments of orders", "output"}
VALUES = {EVERYWHERE, "market", TICKS, "position and account", "news of orders", "size"}
UNIVERSE = """language 1

strategy Example:
    "One line of it is an example."

    bars 1d, adjust = all
    universe "ALL"

    let ret   = close / close[1] - 1
    let score = close / close[63] - 1
    let shown = {example}

    at 15:45:
        rebalance(xs.scale(score), via = moc)
"""
KERNEL = """language 1

kernel example(close: window[float, 4]) -> float:
    return {example}
"""
GRID_KERNEL = """language 1

@workgroup(64)
@grid(2)
kernel example(x: tensor[float, 128], inout y: tensor[float, 128]):
    var s: shared[float, 64] = 0.0
    {example}
    wait_copies()
    y[block.x * 64 + thread.x] = s[thread.x]
"""
ON_TENSORS = {"grid_barrier", "async_copy", "wait_copies"}
"""Words of kernels over tensors."""
THREAD_KERNEL = """language 1

@workgroup(64)
kernel example(close: window[float, 4]) -> float:
    var s: shared[int, 64] = 0
    {example}
    return close[0] + float(s[thread.x])
"""
NO_VALUE = ("barrier()", "barrier(1, 64)", "fence(block)")
"""Words of threads that wait and are nothing, by how they end."""
COMPILED_ELSEWHERE = {"ta", "ts", "vol"}
"""Indicators: tests/std/test_indicator_rules.py."""

RETURNING = {"floor_qty", "snap"}


def errors(text):
    """The messages of the errors of a file."""
    _, found = check_source(Source(text, "example.qdsl"))
    return [one.message for one in found if one.severity == "error"]


def in_a_strategy(entry: Entry) -> str:
    """The example of an entry where it belongs."""
    example = entry.details["example"]
    if entry.section == KERNELS and entry.name == "sort":
        head = "close[0]\n\nkernel other(close: window[float, 4]) -> float:"
        body = f"    var sorted: array[float, 4] = 0\n    {example}\n    return sorted[0]"
        example = f"{head}\n{body}"
    if entry.section == KERNELS:
        return f"{KERNEL.format(example=example)}\n{STRATEGY.format(**PLAIN)}".replace(
            "\nlanguage 1\n", ""
        )
    if entry.name in ON_TENSORS:
        return f"{GRID_KERNEL.format(example=example)}\n{STRATEGY.format(**PLAIN)}".replace(
            "\nlanguage 1\n", ""
        )
    if entry.section == THREADS:
        whole = example if example.endswith(NO_VALUE) else f"let shown = {example}"
        return f"{THREAD_KERNEL.format(example=whole)}\n{STRATEGY.format(**PLAIN)}".replace(
            "\nlanguage 1\n", ""
        )
    if entry.section in ("lines of a strategy", "annotations"):
        return with_line(entry.name, example)
    if entry.section == "lines of a handler":
        return STRATEGY.format(**{**PLAIN, "handler": textwrap.indent(example, " " * 8).strip()})
    if entry.section == "a file":
        return STRATEGY.format(**PLAIN).replace("language 1\n", f"language 1\n\n{example}\n")
    if entry.name == "rebalance":
        made = UNIVERSE.format(example="score")
        return made.replace("rebalance(xs.scale(score), via = moc)", example)
    if entry.section in ("xs", "universe"):
        return UNIVERSE.format(example=example)
    if entry.section == "risk:":
        return STRATEGY.format(**{**PLAIN, "risk": example})
    if entry.section == "backtest:":
        return STRATEGY.format(**{**PLAIN, "backtest": example})
    value = entry.section in VALUES or entry.name in RETURNING
    handler = f"let shown = {example}" if value else example
    event = entry.name.partition(".")[0] if entry.section == "news of orders" else "bar"
    text = STRATEGY.format(**{**PLAIN, "event": event, "handler": handler})
    return on_ticks(text) if entry.section == TICKS or entry.name in TICK_WORDS else text


def with_line(name: str, line: str) -> str:
    """A strategy that has this line of its own, in place of one of its kind."""
    found = STRATEGY.format(**PLAIN)
    if name == "universe":
        return UNIVERSE.format(example="score")
    if name in ("quotes", "trades", "book"):
        found = found.replace("bars 1h", line).replace("on bar:", f"on {name.removesuffix('s')}:")
    elif name == "instrument":
        found = found.replace("bars 1h", f"{line}\n    bars 1h").replace("n()", "n(y)")
    elif name in ("bars", "session", "risk", "backtest"):
        found = re.sub(rf"    {name}\b.*(\n     .*)*", textwrap.indent(line, "    "), found)
    else:
        found = found.rstrip() + "\n\n" + textwrap.indent(line, "    ") + "\n"
    assert textwrap.indent(line, "    ") in found
    return found


def on_ticks(text: str) -> str:
    """The strategy on ticks in place of bars."""
    return text.replace("    bars 1h\n", "    quotes\n    trades\n    book depth = 10\n").replace(
        "on bar:", "on trade:"
    )


def with_example() -> list[Entry]:
    found = [entry for entry in entries() if entry.section not in COMPILED_ELSEWHERE]
    return [entry for entry in found if "example" in entry.details]


@pytest.mark.parametrize("entry", with_example(), ids=lambda e: f"{e.section} {e.name}")
def test_the_example_of_help_compiles(entry):
    assert errors(in_a_strategy(entry)) == []


def test_every_entry_is_placed_and_says_what_it_does():
    sections = {entry.section for entry in entries()}
    others = {"risk:", "backtest:", "xs", "universe", KERNELS, THREADS, *line_words.SECTIONS}
    assert sections == STATEMENTS | VALUES | COMPILED_ELSEWHERE | others
    for entry in entries():
        assert entry.signature, entry.name
        assert entry.summary[-1:] in ".;)" or entry.section == "market", entry.name


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("@latency", ["latency"]),
        ("on stale", ["on"]),
        ("on stale(book)", ["on"]),
        ("on ready(fc)", ["on"]),
        ("@x", []),
        ("on x", []),
    ],
)
def test_help_finds_a_handler_and_an_annotation_as_they_are_written(asked, found):
    assert [entry.name for entry in find(asked)] == found


def test_help_finds_what_stands_in_a_form():
    asked = {"ready": "on", "tensor": "kernel", "filter": "universe"}
    assert {name: entry.name for name in asked for entry in find(name)} == asked


def test_help_knows_every_word_that_begins_a_line():
    opening = words.TOP_WORDS | words.ITEM_WORDS | words.STATEMENT_WORDS - {"assert"}  # not yet
    told = [entry for entry in entries() if entry.section in {*line_words.SECTIONS, "orders"}]
    text = " ".join(f"{entry.name} {entry.signature}" for entry in told)
    assert opening - set(re.findall(r"\w+", text)) == set()


def test_help_knows_every_annotation():
    """Those of kernels, equations and indicators were left out."""
    assert line_words.ANNOTATIONS.keys() == AVAILABLE.keys()
    assert [entry.signature[0] for name in AVAILABLE for entry in find(f"@{name}")] == (
        ["@"] * len(AVAILABLE)
    )


@pytest.mark.parametrize("kind", [str, on_ticks])
def test_help_knows_every_name_that_a_strategy_can_read(kind):
    checked, _ = check_source(Source(kind(STRATEGY.format(**PLAIN)), "example.qdsl"))
    assert checked is not None
    known = {entry.name for entry in entries()}
    missing = set()
    for name, binding in checked.strategy.scope.names.items():
        own = isinstance(binding, Local) and binding.span[1]
        parts = binding.members() if isinstance(binding, BookBinding | Tape | Working) else ()
        if not isinstance(binding, Later | Absent | NeedsUniverse) and not own:
            missing |= {f"{name}.{part}" for part in parts} or {name}
    assert missing - known == set()


@pytest.mark.parametrize("text", tour.examples(), ids=lambda t: re.search(r"y (\w+):", t)[1])
def test_an_example_of_the_tour_is_a_clean_canonical_file(text, tmp_path):
    checked, found = check_source(Source(text, "tour.qdsl"))
    assert [one.message for one in found] == []
    assert checked is not None
    assert format_source(text, "tour.qdsl") == text
    path = tmp_path / "tour.qdsl"
    path.write_text(text, encoding="utf-8")
    assert [one for one in run_tests(path) if not one.passed] == []


def test_the_tables_of_the_tour_are_current():
    page = tour.TOUR.read_text(encoding="utf-8")
    assert tour.rewritten(page) == page, "run python -m tests.docs.tour"
