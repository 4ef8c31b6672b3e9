"""The file of what a session's messages took: one row a feed and symbol, whole after a kill."""

from types import SimpleNamespace

from quantdsl.data.times import parse_instant
from quantdsl.live.feed import FeedSpec, Health
from quantdsl.live.measured import FILE, HEADER, Measured

SECOND = 1_000_000_000
START = parse_instant("2024-08-08T12:00:00Z")
TICKS = FeedSpec(feed="one", symbols=("AAA", "BBB"), ticks=frozenset({"quotes"}))
BARS = FeedSpec(feed="two", symbols=("CCC",), bars=("1m",))


def heard(spec: FeedSpec, latency_ns: int, count: int, second: float = 0.0) -> SimpleNamespace:
    """A feed that has had so many messages."""
    moment = START + round(second * SECOND)
    health = Health(name=spec.feed, received=count, latency_ns=latency_ns, last_recv_ns=moment,
                    last_event_ns=moment - latency_ns if count else 0)  # fmt: skip
    return SimpleNamespace(symbols=spec.symbols, health=health)


def test_a_row_for_each_symbol_of_a_feed_of_ticks_that_had_something_new(tmp_path):
    measured = Measured(tmp_path)
    bars = heard(BARS, 5_000, 9)
    for feed in (heard(TICKS, 0, 0), heard(TICKS, 1_500_250, 3), heard(TICKS, 9, 3),
                 heard(TICKS, -20, 4, 1.5)):  # fmt: skip
        measured.add([feed, bars], [TICKS, BARS])
    measured.close()
    rows = (tmp_path / FILE).read_text(encoding="ascii").splitlines(keepends=True)
    assert rows[0] == HEADER
    assert [row.strip().split(",", 1) for row in rows[1:]] == [
        ["2024-08-08T12:00:00.000000000Z", "AAA,1500.250,1500.250"],
        ["2024-08-08T12:00:00.000000000Z", "BBB,1500.250,1500.250"],
        ["2024-08-08T12:00:01.500000000Z", "AAA,0.000,0.000"],
        ["2024-08-08T12:00:01.500000000Z", "BBB,0.000,0.000"],
    ]


def test_a_row_that_a_kill_tore_goes_and_the_rest_stays(tmp_path):
    whole = HEADER + "2024-08-08T12:00:00.000000000Z,AAA,1.000,1.000\n"
    for torn in ("", "2024-08-08T12:00:01.5000"):
        (tmp_path / FILE).write_text(whole + torn, encoding="ascii")
        Measured(tmp_path).close()
        assert (tmp_path / FILE).read_text(encoding="ascii") == whole
    (tmp_path / FILE).write_text("time,sym", encoding="ascii")
    Measured(tmp_path).close()
    assert (tmp_path / FILE).read_text(encoding="ascii") == HEADER
