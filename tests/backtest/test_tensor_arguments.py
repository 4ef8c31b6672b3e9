"""What is passed to a kernel of tensors: where arrays lie, and numbers that do not fit."""

import numpy as np
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.backtest import tensor_kernel
from quantdsl.errors import ConfigError
from tests.backtest.tensor_programs import LINE


@pytest.fixture
def line(tmp_path):
    return kernel_of(tmp_path, "f32")


def kernel_of(folder, kind):
    path = folder / "line.qdsl"
    path.write_text(LINE.format(type=kind))
    return quantdsl.kernel(path)


class There:
    """Memory of a GPU, as libraries tell of it; `number` by DLPack, if at all."""

    def __init__(self, number=None, **changed):
        told = {"shape": (3,), "typestr": "<f4", "data": (1 << 20, False), "version": 3}
        self.__cuda_array_interface__ = {k: v for k, v in (told | changed).items() if v is not None}
        if number is not None:
            self.__dlpack_device__ = lambda: (2, number)


class Differentiated:
    """As torch has it: an array of a GPU that needs a gradient tells nothing of itself."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("it needs a gradient")


ONES = np.ones(3, np.float32)


def test_a_number_that_no_float_holds_is_told(line):
    with pytest.raises(ConfigError, match="slope is larger than any f32"):
        line(ONES, 10**400, ONES.copy())


def test_a_number_beyond_f32_is_infinite_as_in_the_language(line):
    y = ONES.copy()
    line(ONES, 1e300, y)
    assert np.isposinf(y).all()


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (Differentiated(), "x does not lend its memory: it needs a gradient"),
        (There(data=None), "x does not lend its memory: 'data'"),
    ],
)
def test_memory_that_is_not_lent_is_told(line, array, told):
    with pytest.raises(ConfigError, match=told):
        line(array, 1.0, ONES.copy())


@pytest.mark.parametrize(
    ("numbers", "device", "told"),
    [
        ((1, 1), "cuda:0", "its arrays are on cuda:1, and the device is cuda:0"),
        ((1, 1), "cpu", "its arrays are on a GPU, and the device is cpu"),
        ((0, 1), "auto", "its arrays are on cuda:0 and cuda:1: pass arrays of one GPU"),
    ],
)
def test_arrays_of_another_gpu_are_told(line, numbers, device, told):
    """The one asked for cannot read them: its context was lost."""
    x, y = (There(number, data=((1 + n) << 20, False)) for n, number in enumerate(numbers))
    with pytest.raises(ConfigError, match=told):
        line(x, 1.0, y, device=device)


@pytest.mark.parametrize(("numbers", "opened"), [((2, 2), 2), ((None, None), 0), ((None, 1), 1)])
def test_a_kernel_runs_where_its_arrays_are(line, numbers, opened, monkeypatch):
    """Of several GPUs it was the first one, wherever they were."""

    class AskedError(Exception):
        pass

    def device(number):
        raise AskedError(number)

    monkeypatch.setattr(tensor_kernel, "open_device", device)
    x, y = (There(number, data=((1 + n) << 20, False)) for n, number in enumerate(numbers))
    with pytest.raises(AskedError) as asked:
        line(x, 1.0, y)
    assert asked.value.args == (opened,)


def test_drawn_arrays_of_more_than_any_memory_are_told(tmp_path, capsys):
    path = tmp_path / "wide.qdsl"
    path.write_text(
        "language 1\n\nkernel first(x: tensor[float, n, m]) -> float:\n    return x[0, 0]\n"
    )
    sizes = ["--size", "n=2147483648", "--size", "m=2147483648"]
    asked = ["bench", "kernels", str(path), "--device", "simulated", *sizes]
    with pytest.raises(SystemExit) as ended:
        cli.main(asked)
    assert ended.value.code == 2
    told = "kernel first: x of 2,147,483,648 x 2,147,483,648 elements has more than any memory"
    assert told in capsys.readouterr().err
