"""What a real GPU left is what the CPU leaves, to the bit.

The GPU's side was recorded by tests/gpu/record.py on a machine that has one; where there is a GPU
the test marked `gpu` runs it again.
"""

import json
from pathlib import Path

import pytest

from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import UnavailableError
from tests.gpu.works import NAMES, digest_of, ptx_digest, work_named

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
    if digest != RECORDED["results"][name]["ptx"]:
        pytest.skip(f"not run on a GPU since {RECORDED['commit'][:7]}: its PTX has changed")


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_of_this_machine_leaves_what_the_cpu_leaves(name):
    try:
        gpu = runner("cuda:0", print)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert digest_of(work_named(name), gpu) == digest_of(work_named(name), CpuRunner(1))
