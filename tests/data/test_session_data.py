"""The data of a live session before there are any: what its calendar covers, and what is said."""

from quantdsl.data.calendar import SessionSpec
from quantdsl.data.instrument import Instrument
from quantdsl.data.session_data import SessionData
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.times import DAY_NS, parse_instant

ONE = SourceSpec(symbol="KO", instrument=Instrument(symbol="KO"))


def test_the_calendar_goes_on_from_where_trading_begins() -> None:
    begin, trade = parse_instant("2021-01-31"), parse_instant("2023-03-16")
    spec = DataSpec(instruments=(ONE,), clocks=("1d",), session=SessionSpec(calendar="XNYS"))
    schedule = SessionData(spec, [100.0], begin, "s", trade_ns=trade).schedule
    assert schedule.open_ns[0] < begin  # a long warm-up
    assert schedule.close_ns[-1] > trade + 300 * DAY_NS
    assert SessionData(spec, [100.0], begin, "s").schedule.close_ns[-1] < trade


def test_what_holds_alike_of_many_instruments_is_one_line() -> None:
    many = tuple(
        SourceSpec(symbol=f"S{k}", instrument=Instrument(symbol=f"S{k}")) for k in range(16)
    )
    notes = SessionData(DataSpec(instruments=many, clocks=("1d",)), [100.0] * 16, 0, "s").notes
    assert len(notes) == 2
    assert notes[0].startswith("S0, S1, S2 and 13 more: ")
    few = SessionData(DataSpec(instruments=many[:2], clocks=("1d",)), [100.0] * 2, 0, "s").notes
    assert [note.partition(":")[0] for note in few[:2]] == ["S0", "S1"]
