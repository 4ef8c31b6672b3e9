"""Arrow columns as numpy arrays and back, buffer by buffer.

pyarrow's own conversion imports pandas wherever that is installed, which takes a tenth of a second
and 35 MB of a short run, and what computes on columns imports nearly as much (pyarrow.compute). A
buffer of numbers needs neither.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def plain(column: Any, null: float = 0) -> npt.NDArray[Any]:
    """The numbers or truths of an Arrow array, `null` where one is missing; may be read-only."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_boolean(column.type):
        values = _bits(column, 1)
    else:
        values = stored(column, np.dtype(column.type.to_pandas_dtype()))
    if column.null_count:
        values = np.where(present(column), values, values.dtype.type(null))
    return values


def stored(column: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """What the buffer of an array of numbers or times holds; anything where it is null."""
    if len(column) == 0:
        return np.empty(0, dtype)
    values = np.frombuffer(column.buffers()[1], dtype)
    return values[column.offset : column.offset + len(column)]


def present(column: Any) -> npt.NDArray[np.bool_]:
    """Which elements of an Arrow array are not null."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    return np.zeros(len(column), bool) if column.buffers()[0] is None else _bits(column, 0)


def floats(column: Any) -> Any:
    """An array of integers as one of float64, null where it is null."""
    import pyarrow as pa

    values = plain(column).astype(np.float64)
    bits = np.packbits(present(column), bitorder="little") if column.null_count else None
    there = None if bits is None else pa.py_buffer(bits)
    return pa.Array.from_buffers(pa.float64(), len(values), [there, pa.py_buffer(values)])


def _bits(column: Any, buffer: int) -> npt.NDArray[np.bool_]:
    """One of an array's buffers of bits, as truths."""
    if len(column) == 0:
        return np.empty(0, bool)
    bits = np.unpackbits(np.frombuffer(column.buffers()[buffer], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].view(np.bool_)
