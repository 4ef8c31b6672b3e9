"""Run every comparison on the first GPU and on the CPU; write what the GPU left.

    python -m tests.gpu.record OUT COMMIT

A run on a real GPU is recorded in recorded.json, which test_recorded.py holds against the CPU.
"""

import json
import sys
from pathlib import Path

from quantdsl.codegen.ptx import architecture_of
from quantdsl.devices.batches import on_core, on_gpu
from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.cuda.driver import shown
from tests.backtest.tensor_programs import TENSOR_PROGRAMS
from tests.gpu.works import (
    KERNELS,
    NAMES,
    PANELS,
    digest_of,
    kernel_digest,
    kernel_named,
    panel_digest,
    ptx_digest,
    tensors_digest,
    words_digest,
    work_named,
)


def main(out: Path, commit: str) -> int:
    """Write the digests of the GPU; the number of comparisons that failed."""
    device, gpu, cpu = open_device(0), runner("cuda:0", print), CpuRunner()
    architecture = architecture_of(device.capability)
    results, different = {}, []
    for name in NAMES:
        work = work_named(name)
        left, right = digest_of(work, gpu), digest_of(work, cpu)
        if left != right:
            different.append(name)
        results[name] = {"results": left, "ptx": ptx_digest(work, architecture)}
    kernels = {}
    for name in KERNELS:
        kernel = kernel_named(name)
        words, _ = on_gpu(kernel, device)
        if words_digest(words) != words_digest(on_core(kernel)):
            different.append(f"kernel {name}")
        code = kernel_digest(kernel, architecture)
        kernels[name] = {"results": words_digest(words), "ptx": code}
    panels = {}
    for name in PANELS:
        panels[name] = panel_digest(name, "cuda:0")
        if panels[name] != panel_digest(name, "cpu"):
            different.append(f"panel {name}")
    tensors = {}
    for name in TENSOR_PROGRAMS:
        tensors[name] = tensors_digest(name, "cuda:0")
        if tensors[name] != tensors_digest(name, "cpu"):
            different.append(f"tensors {name}")
    record = {
        "device": device.model,
        "architecture": architecture,
        "driver": f"CUDA {shown(device.driver.version())}",
        "commit": commit,
        "different": different,
        "results": results,
        "kernels": kernels,
        "panels": panels,
        "tensors": tensors,
    }
    out.write_text(json.dumps(record, indent=1) + "\n")
    compared = len(results) + len(kernels) + len(panels) + len(tensors)
    sys.stdout.write(f"{compared} compared, {len(different)} different: {different}\n")
    return len(different)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
