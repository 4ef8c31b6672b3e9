"""Columns that stay where they were computed, for other libraries to take without a copy.

Two protocols tell of them: DLPack (`numpy.from_dlpack`, `torch.from_dlpack`, CuPy, JAX) of memory
of the host and of a GPU, and `__cuda_array_interface__` (Numba, CuPy, PyTorch) of a GPU's alone.
What a column lies in lives as long as the column and whatever was taken from it.
"""

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np

CPU, CUDA = 1, 2
"""kDLCPU and kDLCUDA of dlpack.h."""
HOST = (CPU, 0)
WORD_BYTES = 8
CODES = {"i": 0, "u": 1, "f": 2}
"""kDLInt, kDLUInt and kDLFloat, by the kind of a dtype."""
NAME: Final = b"dltensor"
INTERFACE_VERSION = 3
"""Of `__cuda_array_interface__`: the first whose stream says who waits; None: nobody must."""


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor; `deleter` takes its address."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_LENT: dict[int, tuple[object, ...]] = {}
"""What is lent, by the address of its DLManagedTensor: until its deleter is called."""


def _give_back(address: int) -> None:
    _LENT.pop(address, None)


_GIVE_BACK = _Deleter(_give_back)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype = ctypes.c_int
_capsule_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def _drop(capsule: int) -> None:
    """A capsule that nobody took; who takes one renames it, and calls the deleter."""
    if _capsule_valid(capsule, NAME):
        _give_back(_capsule_pointer(capsule, NAME))


_DROP = _Destructor(_drop)


class Place(NamedTuple):
    """Memory of a column: `owner` keeps it, `device` is DLPack's (type, number)."""

    owner: object
    address: int
    device: tuple[int, int]


class Column:
    """One signal as a matrix: a row an instant, a column an instrument.

    `dtype` is float64, NaN where a value is missing, or int64 (whole numbers, truth values as 0 and
    1, times in ns), -2^63 where one is missing. `strides` are in bytes.
    """

    def __init__(
        self, place: Place, shape: tuple[int, int], strides: tuple[int, int], dtype: str
    ) -> None:
        self.shape, self.strides, self.dtype = shape, strides, np.dtype(dtype)
        self._place = place

    @property
    def address(self) -> int:
        """Where its first element is, in the memory of its device."""
        return self._place.address

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place.device

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule of this memory; all that computed it is done, so no `stream` need wait.

        Raises BufferError where another device is asked for, or a copy of what lies on a GPU.
        """
        if dl_device not in (None, self._place.device):
            raise BufferError("this column is lent where it lies; copy what you take of it")
        if copy:
            if self._place.device[0] != CPU:
                raise BufferError("a column of a GPU is lent where it lies; copy what you take")
            return np.asarray(self).__dlpack__(max_version=max_version, copy=True)
        shape = (ctypes.c_int64 * 2)(*self.shape)
        strides = (ctypes.c_int64 * 2)(*(step // self.dtype.itemsize for step in self.strides))
        kind = _DataType(CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1)
        device = _Device(*self._place.device)
        tensor = _Tensor(self.address, device, 2, kind, shape, strides, 0)
        managed = _Managed(tensor, None, _GIVE_BACK)
        address = ctypes.addressof(managed)
        _LENT[address] = (managed, shape, strides, self._place.owner)
        return _capsule_new(address, NAME, _DROP)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where it lies on its GPU; a column of the host has no such attribute."""
        if self._place.device[0] != CUDA:
            raise AttributeError("this column lies in memory of the host")
        return {**self._told(), "version": INTERFACE_VERSION, "stream": None}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Where it lies on the host, for NumPy; a column of a GPU has no such attribute."""
        if self._place.device[0] != CPU:
            raise AttributeError("this column lies in memory of a GPU")
        return {**self._told(), "version": 3}

    def _told(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
        }

    def __repr__(self) -> str:
        where = {CPU: "the host", CUDA: f"cuda:{self._place.device[1]}"}[self._place.device[0]]
        return f"<Column {self.dtype}{list(self.shape)} on {where}>"


class Matrices(NamedTuple):
    """Columns of words that lie one after the other: `rows` of each, `words` of a row.

    `shape` is what is seen of them, from the first row on that `place` names.
    """

    place: Place
    shape: tuple[int, int]
    rows: int
    words: int

    def column(self, number: int, dtype: str) -> Column:
        """One of them, as values of a type of 8 bytes."""
        owner, address, device = self.place
        first = address + WORD_BYTES * number * self.rows * self.words
        strides = WORD_BYTES * self.words, WORD_BYTES
        return Column(Place(owner, first, device), self.shape, strides, dtype)

    def after(self, rows: int) -> "Matrices":
        """Without the first rows."""
        owner, address, device = self.place
        place = Place(owner, address + WORD_BYTES * rows * self.words, device)
        return self._replace(place=place, shape=(self.shape[0] - rows, self.shape[1]))
