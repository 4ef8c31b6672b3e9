"""Arrow columns from numpy arrays, buffer by buffer.

`pyarrow.array` and `to_numpy` import pandas where it is installed, and `take` all of
`pyarrow.compute`, which costs a short backtest more time than the backtest itself takes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TIME = pa.timestamp("ns", tz="UTC")

Flags = npt.NDArray[np.bool_]


def numbers(values: npt.NDArray[Any], missing: Flags | None = None) -> pa.Array:
    """A column of the array's own type, null where `missing`."""
    return _primitive(pa.from_numpy_dtype(values.dtype), values, missing)


def values_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """What a column of numbers without nulls holds."""
    kind = column.type.to_pandas_dtype()
    pieces = [
        np.frombuffer(piece.buffers()[1], kind, len(piece), piece.offset * np.dtype(kind).itemsize)
        for piece in column.chunks
    ]
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, kind), *pieces])


def flags(values: Flags, missing: Flags | None = None) -> pa.Array:
    """A column of truth values, null where `missing`."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [_there(missing), bits])


def times(ts_ns: npt.NDArray[np.int64], missing: Flags | None = None) -> pa.Array:
    """ns since 1970 as timestamp[ns, UTC], null where `missing`."""
    return _primitive(TIME, ts_ns, missing)


def texts(values: Sequence[str]) -> pa.Array:
    """A column of strings."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def choices(
    which: npt.NDArray[Any], words: Sequence[str], missing: Flags | None = None
) -> pa.Array:
    """A column of strings, each one of a few words by its index; null where `missing`."""
    which = which.astype(np.int64)
    encoded = [word.encode() for word in words]
    chosen = which.tolist() if missing is None else which[~missing].tolist()
    lengths = np.array([0, *map(len, encoded)], np.int64)[1:][which]
    ends = np.zeros(len(which) + 1, np.int32)
    np.cumsum(lengths if missing is None else lengths * ~missing, out=ends[1:])
    content = b"".join([encoded[at] for at in chosen])
    buffers = [_there(missing), pa.py_buffer(ends), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(which), buffers)


def _primitive(kind: pa.DataType, values: npt.NDArray[Any], missing: Flags | None) -> pa.Array:
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [_there(missing), content])


def _there(missing: Flags | None) -> pa.Buffer | None:
    """The bits of those that are not missing; None where all are there."""
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))
