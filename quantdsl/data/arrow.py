"""Arrow columns as numpy arrays, without pandas.

pyarrow's own conversion imports pandas wherever that is installed, which takes a tenth of a second
and 35 MB of a short run. A buffer of numbers needs no conversion.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def plain(column: Any, null: float = 0) -> npt.NDArray[Any]:
    """The numbers or truths of an Arrow array, `null` where one is missing; may be read-only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_boolean(column.type):
        return plain(column.cast(pa.uint8()), null).view(np.bool_)
    if column.null_count:
        column = pc.fill_null(column, null)
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype)
    values = np.frombuffer(column.buffers()[1], dtype)
    return values[column.offset : column.offset + len(column)]
