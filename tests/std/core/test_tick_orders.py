"""Changes of orders that cross fills, and each other, on their way: 2 ms there, 3 ms back."""

from typing import Any

from quantdsl.events.layout import Aggressor, BookSide, Feed, Kind
from tests.std.core.core import NONE, members
from tests.std.core.tick_core import BOOK, Event, TickCore, delta, snapshot, trade

MS = 1_000_000
START = 10**9
SELLS = Aggressor.SELLS


class Venue:
    """10 lots rest at the best bid, 999; what is told of a message is (what, lots, price)."""

    def __init__(self) -> None:
        latencies = {"latency_entry": 2 * MS, "latency_response": 3 * MS}
        self.core = TickCore({}, latencies, sizes=BOOK)
        self.core.message(START, snapshot({999: 10, 998: 20, 990: 5}, {1001: 5, 1002: 10}))

    def at(self, ms: int, *intents: dict[str, Any], event: Event | None = None) -> list[Any]:
        """One message, by itself one that concerns nobody, and what is sent after it."""
        message = [event or delta(BookSide.BID, 900, ms)]
        reasons = members("risk.Reason")
        told = []
        for kind, flags, _, _, b, c, d, *_ in self.core.message(START + ms * MS, message,
                                                                list(intents)):
            if kind in ("CANCEL", "REJECT"):
                told.append((reasons[flags], b, c))
            elif kind == "ORDER":
                told.append(("sent", b, c, d))
            elif kind in ("FILL", "ACK"):
                told.append((kind.lower(), b, c))
        return told

    @property
    def position(self) -> int:
        return int(self.core.get("positions[0].lots"))


def order(verb: str, lots: int = 0, **more: Any) -> dict[str, Any]:
    return {"verb": verb, "lots": lots, "line": 1, "tag": 7, **more}


def resting() -> Venue:
    """Behind the 10 lots at 999 we bid for 10, and know it."""
    venue = Venue()
    venue.at(1, order("buy", 10, limit=999))
    venue.at(4)
    assert venue.at(10) == [("ack", 10, 999)]
    return venue


def test_what_fills_while_a_new_size_travels_counts_in_it() -> None:
    venue = resting()
    venue.at(11, event=trade(999, 14, SELLS))
    assert venue.at(15) == [("fill", 4, 999)]
    assert venue.at(16, order("replace", 20)) == [("sent", 24, 999, 999)]
    venue.at(17, event=trade(999, 3, SELLS))
    assert venue.at(25) == [("fill", 3, 999), ("ack", 17, 999)]
    venue.at(26, event=trade(998, 1, SELLS))
    assert venue.at(40) == [("fill", 17, 999)]
    assert venue.position == 24


def test_a_new_price_takes_nothing_off_for_fills_that_are_not_heard_of() -> None:
    """It asked for the lots that the venue had left, and lost those that had filled once more."""
    venue = resting()
    venue.at(11, event=trade(999, 14, SELLS))
    assert venue.at(12, order("replace", NONE, limit=998)) == [("sent", 10, 998, 998)]
    assert venue.at(20) == [("fill", 4, 999), ("ack", 6, 998)]
    venue.at(21, event=trade(997, 1, SELLS))
    assert venue.at(40) == [("fill", 6, 998)]
    assert venue.position == 10


def test_nothing_shows_that_an_order_is_filled_before_that_is_heard() -> None:
    venue = resting()
    venue.at(11, event=trade(998, 1, SELLS))
    assert venue.at(12, order("replace", NONE, limit=998)) == [("sent", 10, 998, 998)]
    assert venue.at(20) == [("fill", 10, 999)]
    assert venue.at(30) == []


def test_a_size_below_what_has_filled_ends_the_order() -> None:
    """Where the venue had just as many left, the change was not sent at all."""
    venue = resting()
    changed = venue.at(11, order("replace", 2), event=trade(999, 18, SELLS))
    assert changed == [("sent", 2, 999, 999)]
    assert venue.at(20) == [("fill", 8, 999), ("replaced", 2, 0)]
    assert venue.position == 8


def test_a_change_back_before_the_first_one_arrives_is_sent() -> None:
    venue = resting()
    venue.at(11, order("replace", NONE, limit=998))
    assert venue.at(12, order("replace", NONE, limit=999)) == [("sent", 10, 999, 999)]
    assert venue.at(20)[-1] == ("ack", 10, 999)


def test_a_change_keeps_what_an_earlier_one_on_its_way_asked_for() -> None:
    venue = resting()
    assert venue.at(11, order("replace", 4)) == [("sent", 4, 999, 999)]
    assert venue.at(12, order("replace", NONE, limit=998)) == [("sent", 4, 998, 998)]
    assert venue.at(20) == [("ack", 4, 999), ("ack", 4, 998)]
    stop = Venue()
    stop.at(1, order("buy", 10, stop=1003, limit=1005))
    stop.at(10, order("replace", NONE, stop=1006))
    assert stop.at(11, order("replace", NONE, limit=1008)) == [("sent", 10, 1008, 1006)]
    stop.at(20, event=trade(1004, 1, Aggressor.BUYS))
    stop.at(30)
    assert stop.position == 0


def test_a_cancel_that_comes_too_late_changes_nothing() -> None:
    venue = resting()
    venue.at(11, order("cancel"))
    venue.at(12, event=trade(998, 1, SELLS))
    assert venue.at(20) == [("fill", 10, 999)]
    assert venue.at(30) == []
    assert venue.position == 10


FAR = [(1001, 5), (1400, 6), (2100, 7), (2900, 8)]
"""Asks of which the ladder of 256 ticks holds the first alone."""


def sparse() -> Venue:
    venue = Venue()
    venue.core.message(START + MS, snapshot({999: 10}, dict(FAR)))
    return venue


def fills(told: list[Any]) -> list[tuple[int, int]]:
    return [(price, lots) for what, lots, price in told if what == "fill"]


def test_an_order_takes_levels_that_lie_beyond_the_ladder() -> None:
    """It ended as one for which the book holds no more, after the levels within."""
    venue = sparse()
    venue.at(2, order("buy", 20))
    assert fills(venue.at(20)) == [*FAR[:3], (2900, 2)]


def test_all_or_nothing_counts_levels_beyond_the_ladder() -> None:
    venue = sparse()
    venue.at(2, order("buy", 19, limit=2100, tif="fok"))
    assert venue.at(20) == [("unfilled", 19, 0)]
    venue.at(21, order("buy", 18, limit=2100, tif="fok"))
    assert fills(venue.at(40)) == FAR[:3]


def halfway(**more: Any) -> Venue:
    """Of our bid for 10 at 999, behind the 10 lots there, 4 have filled, and we know it."""
    venue = Venue()
    venue.at(1, order("buy", 10, limit=999, **more))
    venue.at(4)
    venue.at(11, event=trade(999, 14, SELLS))
    assert fills(venue.at(15)) == [(999, 4)]
    return venue


def ends(told: list[Any]) -> list[tuple[str, int]]:
    return [(what, lots) for what, lots, _ in told if what not in ("sent", "fill", "ack")]


def test_what_is_left_of_an_entry_ends_at_the_venue_with_the_exit_that_took_out_the_rest() -> None:
    venue = halfway(take_profit=1000, stop_loss=990)
    venue.at(20, event=trade(1000, 9, Aggressor.BUYS))
    told = venue.at(30)
    assert fills(told) == [(1000, -4)]
    assert ends(told) == [("oco", 6), ("oco", 0)]
    venue.at(31, event=trade(998, 30, SELLS))
    venue.at(40)
    assert venue.position == 0


def test_exits_stay_at_the_venue_while_their_entry_is_yet_to_fill_more() -> None:
    venue = halfway(stop_loss=995)
    venue.at(16, order("sell", 4, limit=1000, tag=0))
    venue.at(20, event=trade(1001, 9, Aggressor.BUYS))
    assert fills(venue.at(30)) == [(1000, -4)]
    venue.at(31, event=trade(998, 30, SELLS))
    assert fills(venue.at(40)) == [(999, 6)]
    venue.at(41, event=trade(995, 1, SELLS))
    assert sum(lots for _, lots in fills(venue.at(60))) == -6
    assert venue.position == 0


def test_a_position_leaves_in_parts_at_the_venue() -> None:
    venue = Venue()
    venue.at(
        1,
        order("buy", 10, limit=999),
        order("sell", 4, limit=1000, after=7, tag=0),
        order("sell", 9, limit=1000, after=7, tag=0),
    )
    venue.at(4)
    venue.at(11, event=trade(998, 1, SELLS))
    venue.at(20, event=trade(1001, 30, Aggressor.BUYS))
    assert fills(venue.at(30)) == [(1000, -4), (1000, -6)]
    assert venue.position == 0


def long_with_stop(lots: int) -> Venue:
    """We are long, and a stop at 998 waits at the venue."""
    venue = Venue()
    venue.at(1, event=delta(BookSide.ASK, 1001, lots))
    venue.at(2, order("buy", lots, stop_loss=998))
    assert sum(n for _, n in fills(venue.at(20))) == lots
    return venue


def test_a_stop_that_is_met_while_the_book_is_lost_sells_when_there_is_one_again() -> None:
    """It ended for want of a book, and the position had none any more."""
    venue = long_with_stop(5)
    venue.at(21, event=(Kind.FEED, int(Feed.GAP)))
    venue.at(22, event=trade(997, 1, SELLS))
    assert venue.at(30) == []
    venue.core.message(START + 31 * MS, snapshot({996: 10}, {998: 5}))
    assert fills(venue.at(40)) == [(996, -5)]
    assert venue.position == 0


def test_a_target_that_wakes_while_the_book_is_lost_rests() -> None:
    venue = Venue()
    venue.at(1, order("buy", 5, limit=999, take_profit=1003))
    venue.at(4)
    venue.at(5, event=(Kind.FEED, int(Feed.GAP)))
    venue.at(6, event=trade(998, 1, SELLS))
    venue.at(7, event=trade(1004, 1, Aggressor.BUYS))
    assert fills(venue.at(20)) == [(999, 5), (1003, -5)]


def test_a_stop_takes_with_each_message_what_the_book_shows_until_all_is_out() -> None:
    """Its rest ended where the book held no more, and stayed without a stop."""
    venue = long_with_stop(80)
    venue.at(21, event=trade(998, 1, SELLS))
    far = delta(BookSide.ASK, 1400, 1)
    assert fills(venue.at(30, event=far)) == [(999, -10), (998, -20), (990, -5), (900, -20)]
    assert fills(venue.at(40, event=far)) == [(999, -10), (998, -15)]
    assert venue.position == 0
