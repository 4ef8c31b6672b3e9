"""Arrow columns become numpy arrays, and pandas stays out of it."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.data.arrow import plain


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
