"""docs/fill-rules.md says what the engine does."""

from tests.std.core import tick_truth, truth
from tests.std.core.core import members


def test_the_page_holds_the_generated_table() -> None:
    expected = truth.page_with(truth.table())
    assert truth.PAGE.read_text() == expected, "run: python -m tests.std.core.truth"


def test_the_page_holds_the_generated_table_of_ticks() -> None:
    expected = tick_truth.page_with(tick_truth.table())
    assert truth.PAGE.read_text() == expected, "run: python -m tests.std.core.tick_truth"


def test_the_page_names_every_reason() -> None:
    page = truth.PAGE.read_text().split("## Why an order did not fill")[1]
    limits = members("risk.Reason")
    between = set(limits[limits.index("max_order") : limits.index("max_leg_gap")])
    missing = [name for name in limits[1:] if f"`{name}`" not in page and name not in between]
    assert missing == []


def test_a_bar_with_stop_and_target_fills_the_stop() -> None:
    wide = truth.BARS["wide"]
    for verb, stop in (("buy", 995), ("short", 1005)):
        fills = truth.run(wide, verb, truth.BRACKETS["entry, stop, target"][verb])
        assert fills[1][1] == stop
