"""Events and records as Arrow tables and back: every word of them, so nothing is lost on the way.

The columns are the fields of the head and the five words of the payload, `a` to `e`; times are
timestamps in ns, UTC. An Arrow table is what Parquet, DuckDB, pandas and polars take.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.errors import DataError
from quantdsl.events.layout import HEAD, RECORD

PAYLOAD = "abcde"


def table_of(events: npt.NDArray[np.void]) -> Any:
    """A pyarrow table of events or records; its rows are theirs, in order."""
    import pyarrow as pa

    rows = np.ascontiguousarray(events).view(RECORD)
    columns = {}
    for name, _ in HEAD:
        column = pa.array(np.ascontiguousarray(rows[name]))
        columns[name] = column.cast(pa.timestamp("ns", "UTC")) if name.startswith("ts_") else column
    for name in PAYLOAD:
        columns[name] = pa.array(np.ascontiguousarray(rows[name]))
    return pa.table(columns)


def rows_of(table: Any) -> npt.NDArray[np.void]:
    """The rows of a table that `table_of` made, as layout.RECORD; `.view(EVENT)` makes them events.

    DataError where a column is missing, or holds a null or a value that its field does not.
    """
    import pyarrow as pa

    rows = np.zeros(table.num_rows, RECORD)
    for name in (*(name for name, _ in HEAD), *PAYLOAD):
        if name not in table.column_names:
            raise DataError(f"a table of events has no column {name!r}")
        field = RECORD.fields
        assert field is not None
        column = table.column(name)
        if column.null_count:
            raise DataError(f"a table of events has an empty cell in the column {name!r}")
        wanted = pa.from_numpy_dtype(field[name][0])
        try:
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
            rows[name] = column.cast(wanted).combine_chunks().to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"the column {name!r} is not one of events: {error}") from None
    return rows
