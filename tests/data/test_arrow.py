"""Arrow columns become numpy arrays, and pandas stays out of it."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl.data.arrow import floats, plain, present
from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.time_columns import parse_times
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, None, 3]), [1, 0, 3]),
        (pa.array([1.5, None]), [1.5, 0.0]),
        (pa.array([True, None, False]), [True, False, False]),
        (pa.array([1, 2, 3, 4])[2:], [3, 4]),
        (pa.array([True] * 9 + [False])[8:], [True, False]),
        (pa.chunked_array([[1], [2, 3]]), [1, 2, 3]),
        (pa.array([], pa.float64()), []),
    ],
)
def test_the_values_of_a_column(column, expected):
    assert plain(column).tolist() == expected
    assert plain(column).dtype == np.asarray(column.drop_null()).dtype


def test_a_missing_number_is_na_where_that_is_asked():
    assert np.isnan(plain(pa.array([None, 1.0]), null=np.nan)).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "uint64"])
def test_whole_numbers_become_floats_as_pyarrow_makes_them(kind):
    most = np.iinfo(kind).max
    for column in (pa.array([1, None, most], kind), pa.array([1, 2, None, most], kind)[1:]):
        assert floats(column).equals(column.cast(pa.float64(), safe=False))
        assert present(column).tolist() == column.is_valid().to_pylist()
    assert floats(pa.array([], kind)).equals(pa.array([], pa.float64()))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_are_read_as_pyarrow_reads_them(unit, zone):
    column = pa.array([1_700_000_000, None, -1_600_000_000], pa.timestamp(unit, zone))
    for part in (column, column[1:], pa.chunked_array([column, column[:1]])):
        ns = part.cast(pa.timestamp("ns", zone)).cast(pa.int64()).fill_null(0)
        read = parse_times(part)
        assert read.ns.tolist() == ns.to_pylist()
        assert read.valid.tolist() == part.is_valid().to_pylist()
        assert read.zoned is (zone is not None)


@pytest.mark.parametrize("far", [2**60, -(2**63)])
def test_times_too_far_away_are_refused(far):
    with pytest.raises(DataError, match="outside the years 1678 to 2261"):
        parse_times(pa.array([far], pa.timestamp("s")))


def test_numbers_and_times_of_a_file_are_not_computed_on_by_pyarrow(tmp_path, monkeypatch):
    """To import what does takes as long as reading a file of a year of minutes."""
    minutes = np.arange(500)
    prices = dict.fromkeys(("open", "high", "low", "close"), 100.0 + minutes % 7)
    time = pa.array(minutes * 60_000_000, pa.timestamp("us", "UTC"))
    path = tmp_path / "bars.parquet"
    pq.write_table(pa.table({"time": time, **prices, "volume": minutes + 1}), path)
    monkeypatch.setitem(sys.modules, "pyarrow.compute", None)  # to import it is an error now
    data = open_data(DataSpec(instruments=(SourceSpec(source=str(path)),)))
    assert sum(int(np.sum(chunk["kind"] == Kind.BAR)) for chunk in data.chunks()) == 500


def test_reading_a_file_does_not_import_pandas(tmp_path):
    path = tmp_path / "bars.csv"
    rows = [f"2024-01-02T00:{minute:02}:00Z,10,11,9,10,5" for minute in range(30)]
    path.write_text("\n".join(["time,open,high,low,close,volume", *rows]))
    program = (
        "import sys\n"
        "from quantdsl.data.events import open_data\n"
        "from quantdsl.data.spec import DataSpec, SourceSpec\n"
        f"data = open_data(DataSpec(instruments=(SourceSpec(symbol='X', source={str(path)!r}),)))\n"
        "assert sum(map(len, data.chunks())) >= 30\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
