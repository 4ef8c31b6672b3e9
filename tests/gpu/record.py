"""Run every comparison on the first GPU and on the CPU; write what the GPU left.

    python -m tests.gpu.record OUT COMMIT

A run on a real GPU is recorded in recorded.json, which test_recorded.py holds against the CPU.
Works are compared in several processes, since most of the time goes into compiling for both; OUT
is written after each, so that a run that is cut short keeps what it has.
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from quantdsl.codegen.ptx import Bounds, architecture_of
from quantdsl.devices.batches import on_core, on_gpu
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.cuda.driver import shown
from quantdsl.devices.cuda.lanes import CudaRunner, compiled
from tests.backtest.tensor_programs import TENSOR_PROGRAMS
from tests.gpu.works import (
    KERNELS,
    NAMES,
    PANELS,
    bounds_of,
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

PROCESSES = 12


def gpu(bounds: Bounds) -> CudaRunner:
    """The first GPU, which runs lanes under these bounds."""
    device = open_device(0)
    return CudaRunner(device, load=lambda work: compiled(device, work, bounds))


def lanes(name: str) -> tuple[Any, bool]:
    """What is recorded of a sweep's lanes, and whether the CPU leaves the same."""
    work = work_named(name)
    left = {digest_of(work, gpu(bounds)) for bounds in bounds_of(work)}
    code = ptx_digest(work, architecture_of(open_device(0).capability))
    cpu = digest_of(work, CpuRunner(1))
    return {"results": min(left), "ptx": code}, left == {cpu}


def kernel(name: str) -> tuple[Any, bool]:
    """The same of a kernel of threads and blocks."""
    work = kernel_named(name)
    words, _ = on_gpu(work, open_device(0))
    left = words_digest(words)
    code = kernel_digest(work, architecture_of(open_device(0).capability))
    return {"results": left, "ptx": code}, left == words_digest(on_core(work))


def panel(name: str) -> tuple[Any, bool]:
    """The same of signals over a universe."""
    left = panel_digest(name, "cuda:0")
    code = panel_ptx_digest(name, architecture_of(open_device(0).capability))
    return {"results": left, "ptx": code}, left == panel_digest(name, "cpu")


def tensors(name: str) -> tuple[Any, bool]:
    """The same of a kernel of tensors."""
    left = tensors_digest(name, "cuda:0")
    code = tensors_ptx_digest(name, architecture_of(open_device(0).capability))
    return {"results": left, "ptx": code}, left == tensors_digest(name, "cpu")


KINDS: dict[str, tuple[Callable[[str], tuple[Any, bool]], list[str]]] = {
    "results": (lanes, list(NAMES)),
    "kernels": (kernel, list(KERNELS)),
    "panels": (panel, list(PANELS)),
    "tensors": (tensors, list(TENSOR_PROGRAMS)),
}
"""What is compared, and how, by its name in the record."""


def compared(work: tuple[str, str]) -> tuple[Any, bool]:
    """What is recorded of a work of some kind, and whether the CPU leaves the same."""
    kind, name = work
    return KINDS[kind][0](name)


def main(out: Path, commit: str) -> int:
    """Write the digests of the GPU; the number of comparisons that failed."""
    device, different = open_device(0), list[str]()
    record: dict[str, Any] = {
        "device": device.model,
        "architecture": architecture_of(device.capability),
        "driver": f"CUDA {shown(device.driver.version())}",
        "commit": commit,
        "different": different,
        **{kind: {} for kind in KINDS},
    }
    works = [(kind, name) for kind, (_, names) in KINDS.items() for name in names]
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for (kind, name), (entry, same) in zip(works, pool.map(compared, works), strict=True):
            record[kind][name] = entry
            if not same:
                different.append(f"{kind} {name}")
            out.write_text(json.dumps(record, indent=1) + "\n")
    sys.stdout.write(f"{len(works)} compared, {len(different)} different: {different}\n")
    return len(different)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
