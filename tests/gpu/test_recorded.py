"""What a real GPU left is what the CPU leaves, to the bit.

The GPU's side was recorded by tests/gpu/record.py on a machine that has one; where there is a GPU
the test marked `gpu` runs it again.
"""

import json
from pathlib import Path

import pytest

from quantdsl.devices.batches import on_core, on_gpu
from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda.device import open_device
from quantdsl.errors import UnavailableError
from tests.backtest.tensor_programs import TENSOR_PROGRAMS
from tests.gpu.works import (
    KERNELS,
    NAMES,
    PANELS,
    digest_of,
    kernel_digest,
    kernel_named,
    panel_digest,
    panel_ptx_digest,
    ptx_digest,
    tensors_digest,
    tensors_ptx_digest,
    words_digest,
    work_named,
)

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


def test_the_record_is_of_a_real_gpu_and_of_everything():
    assert RECORDED["device"].startswith("NVIDIA")
    assert RECORDED["driver"].startswith("CUDA ")
    assert len(RECORDED["commit"]) == 40
    assert RECORDED["different"] == []
    assert list(RECORDED["results"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_cpu_leaves_what_the_gpu_left(name):
    assert digest_of(work_named(name), CpuRunner(1)) == RECORDED["results"][name]["results"]


@pytest.mark.parametrize("name", NAMES[::4])
def test_the_code_is_that_which_a_gpu_ran(name):
    digest = ptx_digest(work_named(name), RECORDED["architecture"])
    hold_code(RECORDED["results"][name], digest)


def recorded(kind, name):
    """What was recorded of a work of another kind; skips where none was yet."""
    found = RECORDED.get(kind, {}).get(name)
    if found is None:
        pytest.skip(f"no {kind} {name!r} were run on a GPU up to {RECORDED['commit'][:7]}")
    return found


def hold_code(found, digest):
    """Skips, and is counted, where a GPU ran other code than there is now."""
    if digest != found["ptx"]:
        pytest.skip(f"not run on a GPU since {RECORDED['commit'][:7]}: its PTX has changed")


@pytest.mark.parametrize("name", KERNELS)
def test_one_core_leaves_what_the_kernel_left_on_the_gpu(name):
    found = recorded("kernels", name)
    assert words_digest(on_core(kernel_named(name))) == found["results"]


@pytest.mark.parametrize("name", list(KERNELS)[::4])
def test_the_kernel_is_that_which_a_gpu_ran(name):
    digest = kernel_digest(kernel_named(name), RECORDED["architecture"])
    hold_code(recorded("kernels", name), digest)


@pytest.mark.parametrize("name", PANELS)
def test_cores_leave_the_signals_that_the_gpu_left(name):
    assert panel_digest(name, "cpu") == recorded("panels", name)["results"]


@pytest.mark.parametrize("name", PANELS)
def test_the_signals_are_computed_by_the_code_that_a_gpu_ran(name):
    digest = panel_ptx_digest(name, RECORDED["architecture"])
    hold_code(recorded("panels", name), digest)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PANELS)
def test_a_gpu_of_this_machine_computes_signals_as_cores_do(name):
    try:
        open_device(0)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert panel_digest(name, "cuda:0") == panel_digest(name, "cpu")


@pytest.mark.parametrize("name", TENSOR_PROGRAMS)
def test_one_core_leaves_what_the_kernel_of_tensors_left_on_the_gpu(name):
    assert tensors_digest(name, "cpu") == recorded("tensors", name)["results"]


@pytest.mark.parametrize("name", list(TENSOR_PROGRAMS)[::4])
def test_the_kernel_of_tensors_is_that_which_a_gpu_ran(name):
    digest = tensors_ptx_digest(name, RECORDED["architecture"])
    hold_code(recorded("tensors", name), digest)


@pytest.mark.gpu
@pytest.mark.parametrize("name", TENSOR_PROGRAMS)
def test_a_gpu_of_this_machine_runs_tensors_as_one_core_does(name):
    try:
        open_device(0)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert tensors_digest(name, "cuda:0") == tensors_digest(name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_a_gpu_of_this_machine_runs_kernels_as_one_core_does(name):
    try:
        device = open_device(0)
    except UnavailableError as error:
        pytest.skip(str(error))
    words, _ = on_gpu(kernel_named(name), device)
    assert words.tolist() == on_core(kernel_named(name)).tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_of_this_machine_leaves_what_the_cpu_leaves(name):
    try:
        gpu = runner("cuda:0", print)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert digest_of(work_named(name), gpu) == digest_of(work_named(name), CpuRunner(1))
