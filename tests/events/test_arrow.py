"""Events and records survive the way to Arrow, to Parquet and back, whatever their words hold."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.errors import DataError
from quantdsl.events.arrow import rows_of, table_of
from quantdsl.events.layout import EVENT, RECORD, Kind

WORD = st.integers(-(2**63), 2**63 - 1)
PACKED = (st.integers(0, 2**32 - 1), st.sampled_from(list(Kind)), st.integers(0, 255))
ROW = st.tuples(WORD, WORD, *PACKED, st.integers(0, 2**16 - 1), WORD, WORD, WORD, WORD, WORD)


@given(st.lists(ROW, max_size=20))
def test_every_word_comes_back(rows):
    events = np.array(rows, RECORD)
    assert rows_of(table_of(events)).tobytes() == events.tobytes()


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_through_parquet(kind, tmp_path):
    events = np.zeros(3, EVENT)
    events["kind"], events["side"], events["flags"] = kind, (0, 1, 255), (0, 1, 65_535)
    events["ts_event"], events["ts_recv"] = (0, 1, 2**62), (-1, 5, 2**62 + 1)
    events["instrument"] = (0, 7, 2**32 - 1)
    events["payload"] = np.arange(15).reshape(3, 5) * (2**53 + 1)
    pq.write_table(table_of(events), tmp_path / "events.parquet")
    back = rows_of(pq.read_table(tmp_path / "events.parquet"))
    assert back.view(EVENT).tobytes() == events.tobytes()


def test_a_table_that_holds_no_events_is_refused():
    table = table_of(np.zeros(2, EVENT))
    with pytest.raises(DataError, match="no column 'kind'"):
        rows_of(table.drop_columns(["kind"]))
    with pytest.raises(DataError, match="empty cell in the column 'a'"):
        rows_of(table.set_column(6, "a", pa.array([1, None])))
    with pytest.raises(DataError, match="'kind' is not one of events"):
        rows_of(table.set_column(3, "kind", pa.array([300, 1])))
