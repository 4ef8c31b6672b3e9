"""Orders whose life is more than one look: replaced, linked, timed, tagged."""

from typing import Any

import pytest

from quantdsl.events import layout
from tests.std.core.core import FAULT, HOUR, NONE, Core, members
from tests.std.core.play import set_limits

Bar = tuple[int, int, int, int, int]
FLAT: Bar = (1000, 1000, 1000, 1000, 1000)


class Desk:
    """A core that is stepped bar by bar and remembers what happened."""

    def __init__(self, **config: Any) -> None:
        self.core = Core(config)
        self.steps = 0

    def bar(self, bar: Bar, *intents: dict[str, Any], session: str = "") -> list[tuple[str, int]]:
        """One bar; fills as (price, lots) and ends as (reason, lots)."""
        self.steps += 1
        ts = self.steps * HOUR
        if session == "open":
            self.core.ingest(ts - HOUR, ts - HOUR, 0, layout.Kind.SESSION, 0)
        records = self.core.step(ts, ts - HOUR, {0: bar}, list(intents), session == "close")
        reasons = members("risk.Reason")
        ends = [(reasons[r[1]], r[4]) for r in records if r[0] in ("CANCEL", "REJECT")]
        return [(str(r[5]), r[4]) for r in records if r[0] == "FILL"] + ends


def order(verb: str, lots: int = 0, **more: Any) -> dict[str, Any]:
    return {"verb": verb, "lots": lots, "line": 1, **more}


def test_replace_moves_the_order_and_the_exits_with_its_tag() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, limit=990, tag=7, stop_loss=950, take_profit=1050))
    desk.bar(FLAT, order("replace", NONE, limit=995, stop_loss=980, tag=7))
    assert desk.bar((1000, 1000, 994, 996, 9)) == [("995", 10)]
    desk.bar(FLAT, order("replace", NONE, take_profit=1010, tag=7))
    assert desk.bar((1000, 1020, 1000, 1020, 9)) == [("1010", -10), ("oco", 0)]


@pytest.mark.parametrize("stop", [1010, 1020])
def test_a_stop_that_stands_at_its_limit_is_replaced_as_a_stop(stop: int) -> None:
    """Told by prices alone it was a limit order: new stops were ignored, new limits moved both."""
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, stop=stop, limit=stop, tag=7))
    assert desk.bar(FLAT, order("replace", NONE, stop=1015, limit=1016, tag=7)) == []
    assert desk.bar((1000, 1014, 1000, 1000, 9)) == []
    assert desk.bar((1000, 1020, 1000, 1020, 9)) == [("1015", 10)]


def test_a_stop_at_its_limit_that_waits_for_another_order_is_a_stop_when_it_wakes() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, tag=1), order("buy", 5, stop=1005, limit=1005, after=1))
    assert desk.bar(FLAT) == [("1000", 10)]
    assert desk.bar((1000, 1010, 1000, 1000, 9)) == [("1005", 5)]


@pytest.mark.parametrize(("verb", "level", "out"), [("buy", 985, -10), ("short", 1015, 10)])
def test_a_trail_that_waits_for_its_entry_takes_a_level(verb: str, level: int, out: int) -> None:
    """The trail of a long took one, that of a short, which lies above, ignored it."""
    desk = Desk()
    limit = {"buy": 990, "short": 1010}[verb]
    desk.bar(FLAT, order(verb, 10, limit=limit, trail=50, tag=7))
    desk.bar(FLAT, order("replace", NONE, stop_loss=level, tag=7))
    desk.bar((limit, limit, limit, limit, 9))
    assert desk.bar((level, level, level, level, 9)) == [(str(level), out)]


def test_replace_beyond_the_price_band_leaves_the_order_as_it_was() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, limit=990, tag=7))
    set_limits(desk.core, {"price_band": 0.02})
    assert desk.bar(FLAT, order("replace", NONE, limit=1100, tag=7)) == [("price_band", 10)]
    assert desk.bar((1000, 1000, 985, 1000, 9)) == [("990", 10)]


def test_replace_changes_the_size_that_is_still_to_fill() -> None:
    desk = Desk(volume_share=0.5)
    desk.bar(FLAT, order("buy", 10, limit=990, tag=7, stop_loss=950))
    assert desk.bar((1000, 1000, 990, 1000, 8)) == [("990", 4)]
    assert desk.bar(FLAT, order("replace", 20, tag=7)) == []
    assert desk.core.get("positions[0].working_buy") == 20
    assert desk.bar((1000, 1000, 985, 1000, 80)) == [("990", 20)]
    assert desk.bar((950, 950, 950, 950, 80)) == [("950", -24)]


def test_a_larger_size_passes_the_gate_without_the_old_one_beside_it() -> None:
    desk = Desk()
    set_limits(desk.core, {"max_position": 30, "max_entries": 1})
    desk.bar(FLAT, order("buy", 20, limit=990, tag=7))
    assert desk.bar(FLAT, order("replace", 30, tag=7)) == []
    assert desk.bar(FLAT, order("replace", 31, tag=7)) == [("max_position", 30)]
    assert desk.bar(FLAT, order("replace", 0, tag=7)) == [("zero_size", 30)]
    assert desk.bar(FLAT, order("replace", -5, tag=7)) == [("zero_size", 30)]
    assert desk.core.get("positions[0].working_buy") == 30
    assert desk.bar((1000, 1000, 985, 1000, 80)) == [("990", 30)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"limit": FAULT}, "not_a_number"),
        ({"limit": 0}, "out_of_range"),
        ({"lots": FAULT}, "not_a_number"),
        ({"lots": 10**7}, "out_of_range"),
    ],
)
def test_replace_takes_only_what_an_order_may_be(change: dict[str, int], why: str) -> None:
    desk = Desk()
    desk.bar(FLAT, order("short", 10, limit=1010, tag=7))
    assert desk.bar(FLAT, order("replace", **{"lots": NONE, **change}, tag=7)) == [(why, -10)]
    assert desk.bar(FLAT) == []


def test_a_replaced_limit_that_fills_at_once_pays_as_a_taker() -> None:
    desk = Desk(fee_rate=0.01, maker_rate=0.0)
    desk.bar(FLAT, order("buy", 10, limit=990, tag=7))
    desk.bar(FLAT, order("replace", NONE, limit=1005, tag=7))
    assert desk.bar(FLAT) == [("1000", 10)]
    assert desk.core.get("metrics.fees_paid") == 10 * 1000 * 10_000 // 100


def test_an_order_after_another_wakes_with_its_fill() -> None:
    desk = Desk()
    desk.bar(
        FLAT,
        order("buy", 10, limit=990, tag=1),
        order("buy", 5, stop=1005, after=1, tag=2),
    )
    assert desk.bar((1000, 1010, 1000, 1000, 9)) == []
    assert desk.bar((1000, 1000, 990, 1000, 9)) == [("990", 10)]
    assert desk.bar((1000, 1010, 1000, 1000, 9)) == [("1005", 5)]


def test_an_order_after_another_ends_with_it() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, limit=990, tag=1), order("buy", 5, after=1, tag=2))
    assert desk.bar(FLAT, order("cancel", tag=1)) == [("cancelled", 10), ("entry_cancelled", 5)]


def test_an_order_never_waits_for_itself_and_a_chain_ends_with_its_first_order() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 5, after=1, tag=1))
    assert desk.bar(FLAT) == [("1000", 5)]
    desk.bar(
        FLAT,
        order("buy", 10, limit=900, tag=2),
        order("buy", 10, limit=900, after=2, tag=3),
        order("buy", 10, limit=900, after=3, tag=4),
    )
    ends = [("cancelled", 10), ("entry_cancelled", 10), ("entry_cancelled", 10)]
    assert desk.bar(FLAT, order("cancel", tag=2)) == ends


def test_a_cancel_by_tag_takes_the_entry_and_leaves_the_guard_of_what_it_filled() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, stop_loss=980, tag=1))
    desk.bar(FLAT, order("cancel", tag=1))
    assert desk.bar((1000, 1000, 970, 970, 9)) == [("980", -10)]


def test_several_targets_by_tag_leave_a_position_piece_by_piece() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 30, stop_loss=980, tag=1))
    desk.bar(
        FLAT,
        order("sell", 10, limit=1010, tag=2),
        order("sell", 10, limit=1020, tag=3),
        order("sell", 10, limit=1030, tag=4),
    )
    assert desk.bar((1000, 1012, 1000, 1012, 9)) == [("1010", -10)]
    assert desk.bar((1012, 1022, 1012, 1012, 9), order("cancel", tag=4)) == [
        ("1020", -10),
        ("cancelled", -10),
    ]
    assert desk.bar((1000, 1000, 970, 970, 9))[0] == ("980", -10)
    assert desk.core.get("positions[0].lots") == 0


def test_a_good_till_date_order_meets_only_bars_that_end_by_then() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, limit=990, tif="gtd", expire_ts=2 * HOUR))
    assert desk.bar(FLAT) == []
    assert desk.bar((1000, 1000, 980, 980, 9)) == [("expired", 10)]


def test_orders_for_the_open_and_the_close_of_a_session() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, when="open"), order("buy", 5, when="close", limit=995))
    assert desk.bar((1001, 1002, 990, 1000, 9)) == []
    assert desk.bar((1003, 1003, 990, 994, 9), session="close") == [("994", 5)]
    assert desk.bar((1004, 1009, 990, 1000, 9), session="open") == [("1004", 10)]
    desk.bar(FLAT, order("buy", 10, when="open", limit=990))
    assert desk.bar((991, 999, 980, 999, 9), session="open") == [("unfilled", 10)]


def test_a_day_order_sent_at_the_close_lives_through_the_next_day() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, limit=990, tif="day"), session="close")
    assert desk.bar(FLAT) == []
    assert desk.bar(FLAT, session="close") == [("expired", 10)]


SIZES = [("buy", -5), ("short", -5), ("sell", -5), ("cover", -5)]


@pytest.mark.parametrize(("verb", "lots"), SIZES)
@pytest.mark.parametrize("held", [-20, 0, 20])
def test_a_size_below_zero_turns_no_order_around(verb: str, lots: int, held: int) -> None:
    desk = Desk(volume_share=1.0)
    desk.bar(FLAT, order("target", held))
    bar = (1000, 1000, 1000, 1000, 100)
    desk.bar(bar)
    ((reason, _),) = desk.bar(bar, order(verb, lots))
    assert reason == "negative_size"
    assert desk.bar(bar) == []
    assert desk.core.get("positions[0].lots") == held


@pytest.mark.parametrize("verb", ["buy", "short"])
def test_an_amount_below_zero_turns_no_order_around(verb: str) -> None:
    desk = Desk()
    desk.bar(FLAT)
    asked = order(verb, size_by="value", value=-50_000_000)
    ((reason, _),) = desk.bar(FLAT, asked)
    assert reason == "negative_size"
    asked = order(verb, size_by="fraction", fraction=-0.1)
    ((reason, _),) = desk.bar(FLAT, asked)
    assert reason == "negative_size"


def test_a_trailing_stop_by_share_of_price_only_tightens() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, trail_fraction=0.01))
    desk.bar((1000, 1000, 1000, 1000, 9))
    desk.bar((1000, 1100, 1000, 1100, 9))
    assert desk.bar((1100, 1100, 1050, 1050, 9)) == [("1089", -10)]


def test_a_half_filled_atomic_block_is_flattened_when_the_gap_grows_old() -> None:
    desk = Desk()
    desk.bar(
        FLAT,
        order("buy", 10, atomic=1),
        order("buy", 10, limit=900, atomic=1),
    )
    desk.bar(FLAT)
    set_limits(desk.core, {"max_leg_gap": HOUR, "max_leg_gap_does": 3})
    assert desk.bar(FLAT) == []
    assert desk.bar(FLAT) == [("flattened", 10)]
    assert desk.bar(FLAT, session="close") == [("1000", -10)]
    # Once: what is opened the next day is another matter.
    assert desk.bar(FLAT, order("buy", 5)) == []
    assert desk.bar(FLAT) == [("1000", 5)]
    assert desk.bar(FLAT) == []


def test_the_end_of_a_run_closes_at_the_last_price_and_cancels_the_rest() -> None:
    desk = Desk(close_at_end=1, slip_ticks=3.0, fee_rate=0.001)
    desk.bar(FLAT, order("buy", 10), order("buy", 10, limit=900))
    desk.bar((1000, 1000, 1000, 1020, 9))
    desk.core.ingest(3 * HOUR, 3 * HOUR, 0, layout.Kind.SESSION, 2)
    for entry in ("market", "submit", "finish"):
        desk.core.run(entry)
    kinds = [
        (r[0], r[5] if r[0] == "FILL" else r[1])
        for r in desk.core.drain()
        if r[0] in ("FILL", "CANCEL")
    ]
    assert kinds == [("CANCEL", members("risk.Reason").index("run_end")), ("FILL", 1020)]
    assert desk.core.get("positions[0].lots") == 0


def test_a_stop_that_turns_a_position_never_opens_more_than_was_asked() -> None:
    """Short 10 with a stop, and a buy of 20 to turn: when the stop closes first, 10 are left."""
    desk = Desk()
    desk.bar(FLAT, order("short", 10, stop_loss=1005))
    desk.bar(FLAT, order("target", 10))
    assert desk.bar((1010, 1010, 1010, 1010, 9)) == [("1010", 10), ("1010", 10)]
    assert desk.core.get("positions[0].lots") == 10


def test_what_befell_orders_is_kept_for_the_handlers() -> None:
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, tag=3), order("sell", 5))
    desk.bar(FLAT)
    core = desk.core
    kinds = [core.get(f"news[{k}].head") >> 32 & 255 for k in range(core.get("news_count"))]
    assert kinds == [layout.Kind.REJECT, layout.Kind.FILL]
    assert (core.get("news[1].b"), core.get("news[1].c")) == (10, 1000)


def part(verb: str, lots: int = 0, **more: Any) -> dict[str, Any]:
    return order(verb, lots, limit=990, tag=7, **more)


def test_what_is_left_of_an_entry_ends_with_the_exit_that_took_out_the_rest() -> None:
    """It filled later on, with neither stop nor target."""
    desk = Desk(volume_share=0.5)
    desk.bar(FLAT, part("buy", 10, stop_loss=950, take_profit=1010))
    assert desk.bar((1000, 1000, 990, 1000, 8)) == [("990", 4)]
    assert desk.bar((1000, 1010, 1000, 1010, 80)) == [("1010", -4), ("oco", 6), ("oco", -4)]
    assert desk.bar((1000, 1000, 900, 900, 80)) == []


def test_exits_stay_while_their_entry_is_yet_to_fill_more() -> None:
    """Closed by another order, the position was flat: they ended, and the rest was unguarded."""
    desk = Desk(volume_share=0.5)
    desk.bar(FLAT, part("buy", 10, stop_loss=950))
    assert desk.bar((1000, 1000, 990, 1000, 8), order("close")) == [("990", 4)]
    assert desk.bar((1000, 1000, 1000, 1000, 80)) == [("1000", -4)]
    assert desk.bar((1000, 1000, 990, 1000, 80)) == [("990", 6)]
    assert desk.bar((1000, 1000, 950, 950, 80)) == [("950", -6)]


def test_exits_of_nothing_end_with_what_is_left_of_their_entry() -> None:
    desk = Desk(volume_share=0.5)
    desk.bar(FLAT, part("buy", 10, stop_loss=950))
    desk.bar((1000, 1000, 990, 1000, 8), order("close"))
    desk.bar((1000, 1000, 1000, 1000, 80))
    ends = desk.bar(FLAT, order("cancel"))
    assert ends == [("cancelled", 6), ("entry_cancelled", -4)]
    desk.bar(FLAT, order("buy", 5))
    assert desk.bar((1000, 1000, 940, 940, 80)) == [("1000", 5)]


def test_a_position_leaves_in_parts_by_orders_that_wait_for_its_entry() -> None:
    desk = Desk(volume_share=0.5)
    desk.bar(
        FLAT,
        part("buy", 10, stop_loss=950),
        order("sell", 4, limit=1010, after=7),
        order("sell", 9, limit=1020, after=7),
    )
    assert desk.bar((1000, 1000, 990, 1000, 6)) == [("990", 3)]
    assert desk.bar((1000, 1010, 1000, 1000, 80)) == [("1010", -3)]
    assert desk.bar((1000, 1000, 990, 1000, 80)) == [("990", 7)]
    assert desk.bar((1010, 1020, 1010, 1020, 80)) == [
        ("1010", -1),
        ("1020", -6),
        ("position_closed", -10),
    ]


def test_an_order_for_an_auction_that_its_instrument_misses_ends() -> None:
    """It filled at the close of the next day on which there was one."""
    desk = Desk()
    desk.bar(FLAT, order("buy", 10, when="close"), session="open")
    desk.steps += 1
    desk.core.ingest(desk.steps * HOUR, desk.steps * HOUR, 0, layout.Kind.SESSION, 1)
    desk.core.step(desk.steps * HOUR, desk.steps * HOUR, {}, [])
    assert desk.bar(FLAT, session="open") == []
    assert desk.bar(FLAT, session="close") == []
    assert desk.core.get("positions[0].lots") == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_target_by_value_that_is_met_is_left_alone(sign: int) -> None:
    """What a price on one side only would trade: it went to and fro, and paid for slippage."""
    desk = Desk(slip_ticks=1.0)
    money = sign * 100_100 * int(desk.core.get("instruments[0].money_per_tick_lot"))
    target = {"verb": "target", "value": money, "line": 1}
    desk.bar(FLAT, target)
    assert [lots for _, lots in desk.bar(FLAT, target)] == [sign * 100]
    assert [desk.bar(FLAT, target) for _ in range(5)] == [[]] * 5


def test_an_exit_whose_share_is_left_when_all_is_out_ends() -> None:
    """A stop for 10 outlived the 10 that left in parts, and sold of the next position."""
    desk = Desk()
    exits = {"take_profit": 1020, "stop_loss": 950}
    desk.bar(FLAT, order("buy", 10, tag=7, **exits), order("sell", 5, limit=1010, after=7))
    assert desk.bar(FLAT) == [("1000", 10)]
    assert desk.bar((1000, 1010, 1000, 1010, 9)) == [("1010", -5)]
    assert desk.bar((1010, 1020, 1010, 1020, 9)) == [("1020", -5), ("position_closed", -5)]
    desk.bar(FLAT, order("buy", 3))
    assert desk.bar((1000, 1000, 940, 940, 9)) == [("1000", 3)]


def test_a_target_by_value_is_sized_at_the_price_that_it_would_pay() -> None:
    """It was sized as if it sold, and cost more than it may."""
    for slip, value, lots in ((10.0, 1_000, 9), (0.0, 1_000, 10)):
        desk = Desk(slip_ticks=slip)
        money = value * 10 * int(desk.core.get("instruments[0].money_per_tick_lot"))
        desk.bar(FLAT, {"verb": "target", "value": money, "line": 1})
        assert desk.bar(FLAT) == [(str(1000 + int(slip)), lots)]
