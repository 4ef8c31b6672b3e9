"""The built-in market's events from disk: those that would be made, and nothing else."""

from collections.abc import Iterator

import numpy as np
import pytest

from quantdsl.data import kept
from quantdsl.data.events import Data, open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from tests.data.helpers import XNYS, events

PAIR = (SourceSpec(symbol="XNYS:KO"), SourceSpec(symbol="XNYS:PEP"))
SPEC = DataSpec(session=XNYS, clocks=("30m", "1d"), instruments=PAIR, sync_all=True)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))


def known(data: Data) -> tuple[object, ...]:
    """All that a run reads of its data."""
    stream = events(data).tobytes()
    limits = [data.limits(number) for number in range(len(data.instruments))]
    facts = (data.span, data.rows, data.clocks, data.instruments, data.sha256, data.counts)
    return stream, *facts, limits, data.notes, data.has_volume


def test_the_second_run_reads_what_the_first_made(monkeypatch):
    first = known(open_data(SPEC))
    monkeypatch.setattr("quantdsl.feeds.synthetic.market", not_asked)
    assert known(open_data(SPEC)) == first


def not_asked(*_: object) -> None:
    raise AssertionError("the market was made anew")


def test_it_can_be_read_again_and_cut_off():
    known(open_data(SPEC))
    read, made = open_data(SPEC), events(open_data(SPEC))
    assert events(read).tobytes() == events(read).tobytes() == made.tobytes()
    end = int(made["ts_event"][len(made) // 2])
    own = events(open_data(DataSpec(session=XNYS, clocks=("30m", "1d"), instruments=PAIR,
                                    sync_all=True, end=end)))  # fmt: skip
    assert events(read.until(end)).tobytes() == own.tobytes()


def test_what_a_run_changes_of_its_events_is_its_own():
    known(open_data(SPEC))
    for chunk in open_data(SPEC).chunks():
        chunk["instrument"] = 9
    assert not np.any(events(open_data(SPEC))["instrument"] == 9)


def test_other_data_are_other_entries():
    known(open_data(SPEC))
    other = DataSpec(session=XNYS, clocks=("30m",), instruments=PAIR, seed=2)
    keeper = kept.keeper(other)
    assert keeper is not None
    assert keeper.found is None


def test_a_file_of_the_users_is_read_each_time(tmp_path):
    assert kept.keeper(DataSpec(instruments=(SourceSpec(source="prices.csv"),))) is None
    assert kept.keeper(DataSpec(actions="splits.csv")) is None


def test_a_run_that_was_left_keeps_nothing():
    chunks: Iterator[object] = open_data(SPEC).chunks()
    next(chunks)
    del chunks
    keeper = kept.keeper(SPEC)
    assert keeper is not None
    assert keeper.found is None


def test_too_many_events_are_not_kept(monkeypatch):
    monkeypatch.setattr(kept, "BYTES_MAX", 1_000)
    events(open_data(SPEC))
    keeper = kept.keeper(SPEC)
    assert keeper is not None
    assert keeper.found is None
