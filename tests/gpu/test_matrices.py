"""Libraries of a real GPU take the signals of a universe where they lie, and compute with them."""

import gc

import numpy as np
import pytest

import quantdsl
from quantdsl.devices.cuda.device import open_device
from quantdsl.errors import UnavailableError
from tests.backtest.test_panels import ACROSS, files
from tests.std.universe import table, walks

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory):
    """The matrices of one market with gaps, on the first GPU and on the host."""
    try:
        open_device(0)
    except UnavailableError as error:
        pytest.skip(str(error))
    closes = walks(40, 300)
    told = quantdsl.compile(ACROSS)
    config = files(tmp_path_factory.mktemp("files"), list(closes))
    return [told.panel(table(closes), config=config, device=one) for one in ("cuda:0", "cpu")]


def host_of(column) -> np.ndarray:
    return np.from_dlpack(column)


def test_pytorch_takes_them_by_dlpack(both):
    torch = pytest.importorskip("torch")
    there, here = both
    assert list(there) == list(here)
    for name in here:
        taken = torch.from_dlpack(there[name])
        assert (taken.device.type, taken.data_ptr()) == ("cuda", there[name].address)
        words = taken.cpu().numpy()
        assert words.tobytes() == np.ascontiguousarray(host_of(here[name])).tobytes(), name


def test_cupy_takes_them_by_the_interface_of_arrays(both):
    cupy = pytest.importorskip("cupy")
    there, here = both
    for name in here:
        taken = cupy.asarray(there[name])
        assert taken.data.ptr == there[name].address
        mine = host_of(here[name])
        assert cupy.asnumpy(taken).tobytes() == np.ascontiguousarray(mine).tobytes(), name
        assert int(cupy.isfinite(taken).sum()) == int(np.isfinite(mine).sum())


def test_what_was_taken_lives_on(both):
    torch = pytest.importorskip("torch")
    there, here = both
    name = list(here)[-1]
    taken = torch.from_dlpack(there[name])
    both.clear()
    del there
    gc.collect()
    torch.empty(1 << 28, device="cuda").fill_(7)  # takes memory that was given back
    mine = np.ascontiguousarray(host_of(here[name]))
    assert taken.cpu().numpy().tobytes() == mine.tobytes()
