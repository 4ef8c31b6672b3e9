"""Tables of bars as a user hands them over."""

import numpy as np
import pyarrow as pa


def hourly(count: int) -> pa.Table:
    """Bars of an hour that go up and down."""
    hours = np.arange(count)
    close = np.round(100 + 5 * np.sin(hours / 30) + 2 * np.sin(hours / 7), 2)
    columns = {"high": close + 0.5, "low": close - 0.5, "close": close}
    return pa.table({"time": hours * 3_600 + 1_700_000_000, "open": close, **columns})


class Streamed:
    """A table of some other library: all that is known of it is the Arrow C stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
