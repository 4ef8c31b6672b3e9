"""Columns are taken by NumPy where they lie, and tell a GPU's libraries where they lie there."""

import gc
import weakref

import numpy as np
import pytest

from quantdsl.devices import columns
from quantdsl.devices.columns import CPU, CUDA, HOST, Column, Matrices, Place


class Owner:
    """Keeps the memory of an array; it can be seen to be gone."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words


def on_host(rows: int = 5, words: int = 32, shape: tuple[int, int] = (5, 3)) -> Matrices:
    """Two columns of words, of which a few are seen."""
    owner = Owner(np.arange(2 * rows * words, dtype=np.int64))
    return Matrices(Place(owner, owner.words.ctypes.data, HOST), shape, rows, words)


def words_of(made: Matrices) -> np.ndarray:
    owner = made.place.owner
    assert isinstance(owner, Owner)
    return owner.words.reshape(2, made.rows, made.words)


def test_numpy_takes_a_column_without_a_copy() -> None:
    made = on_host()
    column = made.column(1, "<i8")
    assert column.__dlpack_device__() == (CPU, 0)
    for taken in (np.from_dlpack(column), np.asarray(column)):
        assert taken.ctypes.data == column.address
        assert taken.strides == (8 * 32, 8)
        assert np.array_equal(taken, words_of(made)[1, :, :3])
        words_of(made)[1, 4, 2] += 1
        assert taken[4, 2] == words_of(made)[1, 4, 2]


def test_floats_are_the_bits_of_the_words() -> None:
    made = on_host()
    words_of(made)[0] = np.arange(160.0).reshape(5, 32).view(np.int64)
    assert np.array_equal(
        np.from_dlpack(made.column(0, "<f8")), np.arange(160.0).reshape(5, 32)[:, :3]
    )


def test_rows_before_a_time_are_left_out() -> None:
    made = on_host()
    left = made.after(2)
    assert left.shape == (3, 3)
    assert np.array_equal(np.from_dlpack(left.column(1, "<i8")), words_of(made)[1, 2:, :3])


def test_memory_lives_as_long_as_what_was_taken() -> None:
    made = on_host()
    gone = weakref.ref(made.place.owner)
    taken = np.from_dlpack(made.column(0, "<i8"))
    copied = words_of(made)[0, :, :3].copy()
    del made
    gc.collect()
    assert gone() is not None
    assert np.array_equal(taken, copied)
    del taken
    gc.collect()
    assert gone() is None
    assert not columns._LENT


def test_a_capsule_that_nobody_takes_keeps_nothing() -> None:
    made = on_host()
    gone = weakref.ref(made.place.owner)
    capsule = made.column(0, "<i8").__dlpack__(max_version=(1, 0))
    del made
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None


def test_it_is_lent_where_it_lies() -> None:
    with pytest.raises(BufferError, match="lent where it lies"):
        on_host().column(0, "<i8").__dlpack__(dl_device=(CUDA, 0))
    of_gpu = Matrices(Place(object(), 0x7F00_0000_0000, (CUDA, 1)), (100, 50), 120, 64)
    with pytest.raises(BufferError, match="of a GPU is lent where it lies"):
        of_gpu.column(3, "<f8").__dlpack__(copy=True)


def test_a_copy_is_made_where_one_is_asked_for() -> None:
    """It was refused."""
    made = on_host()
    column = made.column(1, "<i8")
    taken = np.from_dlpack(column, copy=True)
    before = taken.copy()
    words_of(made)[1] += 1
    assert taken.ctypes.data != column.address
    assert taken.flags.writeable
    assert np.array_equal(taken, before)


def test_a_column_of_a_gpu_says_where_it_is() -> None:
    """Never read here: its memory is a GPU's. No GPU has run this."""
    place = Place(object(), 0x7F00_0000_0000, (CUDA, 1))
    column = Matrices(place, (100, 50), 120, 64).column(3, "<f8")
    first = 0x7F00_0000_0000 + 8 * 3 * 120 * 64
    assert column.__dlpack_device__() == (CUDA, 1)
    assert column.__cuda_array_interface__ == {
        "shape": (100, 50),
        "typestr": "<f8",
        "data": (first, False),
        "strides": (8 * 64, 8),
        "version": 3,
        "stream": None,
    }
    assert not hasattr(column, "__array_interface__")
    assert "cuda:1" in repr(column)
    capsule = column.__dlpack__(stream=1)
    address = columns._capsule_pointer(id(capsule), columns.NAME)
    tensor = columns._Managed.from_address(address).tensor
    assert (tensor.data, tensor.device.type, tensor.device.number) == (first, CUDA, 1)
    assert (tensor.ndim, tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (2, 2, 64, 1)
    assert [tensor.shape[n] for n in range(2)] == [100, 50]
    assert [tensor.strides[n] for n in range(2)] == [64, 1]
    del capsule
    assert address not in columns._LENT


def test_a_column_of_the_host_is_none_of_a_gpu() -> None:
    column = on_host().column(0, "<i8")
    assert not hasattr(column, "__cuda_array_interface__")
    assert isinstance(column, Column)
