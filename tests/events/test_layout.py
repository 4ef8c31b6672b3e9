"""The event record is written down twice, here and in std: both say the same."""

import re

import pytest

from quantdsl.check.library import STD
from quantdsl.events import layout
from quantdsl.events.layout import Aggressor, BookSide, Feed, Kind

ENGINE = (STD / "engine.qdsl").read_text()
CONSTS = dict(re.findall(r"^const (\w+) += (\d+)", ENGINE, re.MULTILINE))


def test_every_kind_of_the_core_has_the_code_of_the_layout() -> None:
    shared = {kind.name: kind.value for kind in Kind if kind.name in CONSTS}
    assert {name: int(CONSTS[name]) for name in shared} == shared
    events = {"BAR", "QUOTE", "TRADE", "BOOK_DELTA", "BOOK_SNAPSHOT", "FEED", "SESSION"}
    assert events <= shared.keys()


@pytest.mark.parametrize(
    ("prefix", "enum"), [("TRADE", Aggressor), ("BOOK", BookSide), ("FEED", Feed)]
)
def test_every_side_of_the_core_has_the_code_of_the_layout(prefix: str, enum: type) -> None:
    sides = {f"{prefix}_{one.name}": one.value for one in enum}  # type: ignore[attr-defined]
    assert {name: int(CONSTS[name]) for name in sides} == sides


@pytest.mark.parametrize("struct", ["Event", "Record"])
def test_the_words_stand_in_one_order(struct: str) -> None:
    body = ENGINE.partition(f"struct {struct}:\n")[2].partition("\n\n")[0]
    words = re.findall(r"^    (\w+): int", body, re.MULTILINE)
    assert words == ["ts_event", "ts_recv", "head", "a", "b", "c", "d", "e"]
    assert len(words) == layout.WORDS


@pytest.mark.parametrize("name", ["BAR", "QUOTE", "TRADE", "DELTA", "RECORD"])
def test_a_named_view_lies_word_for_word_on_an_event(name: str) -> None:
    view = getattr(layout, name)
    offsets = [view.fields[field][1] for field in view.names]
    assert offsets == [0, 8, 16, 20, 21, 22, 24, 32, 40, 48, 56]
    assert view.itemsize == layout.EVENT.itemsize == 64


def test_no_price_is_none_of_the_core() -> None:
    orders = (STD / "orders.qdsl").read_text()
    found = re.search(r"^const NONE += ([\d_]+)", orders, re.MULTILINE)
    assert found is not None
    assert int(found[1]) == layout.NO_PRICE
