"""Matrix products on a GPU, in order and on tensor cores, beside cuBLAS in the same process.

    python -m bench.gpu_products OUT.json [SIZE]

Needs a GPU, and PyTorch for cuBLAS and for arrays on the GPU. The product of f32 is held to the
bits of one core on some of its rows, one that is @fast to how far off rounded factors may be. Times
are medians by the GPU's own clock. cuBLAS gets its factors rounded; ours rounds them in its time.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from quantdsl.backtest.kernel_bench import APART_MOST
from quantdsl.backtest.tensor_kernel import TensorKernel, kernel
from quantdsl.ir.tensors import ROUNDED

SIZE, ROUNDS, ROWS = 4_096, 11, 2
PRODUCT = """language 1

@kernel(matmul){fast}
kernel product(a: tensor[f32, n, k], b: tensor[f32, k, m], inout c: tensor[f32, n, m]):
    "c + a b."
    parallel for i in 0..<n:
        for j in 0..<m:
            for l in 0..<k:
                c[i, j] = fma(a[i, l], b[l, j], c[i, j])
"""


def product(rounded: str = "") -> TensorKernel:
    """The product, its factors rounded where a type is said."""
    path = Path(tempfile.mkdtemp()) / "product.qdsl"
    path.write_text(PRODUCT.format(fast=f"\n@fast({rounded})" if rounded else ""))
    return kernel(path)


def rows(size: int = SIZE) -> list[dict[str, Any]]:
    """A row each for f32 in order and for what tensor cores round to."""
    import torch

    random = np.random.default_rng(1)
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    exact = np.zeros((ROWS, size), np.float32)
    product()(a[:ROWS], b, exact, device="cpu")
    on_gpu = [torch.from_numpy(one).cuda() for one in (a, b)]
    found = []
    for rounded in ("", *ROUNDED):
        made, c = product(rounded), torch.zeros((size, size), device="cuda")
        made(*on_gpu, c)
        off = float(np.abs(c[:ROWS].cpu().numpy() - exact).max() / np.abs(exact).max())
        assert off <= APART_MOST[rounded] if rounded else off == 0.0
        times = made.run(made.bound((*on_gpu, c), {}), "cuda:0", ROUNDS)[1]
        found.append({
            "factors": rounded or "f32",
            "size": size,
            "seconds": statistics.median(times),
            "cublas_seconds": _cublas(torch, on_gpu, rounded),
            "off": off,
        })  # fmt: skip
    return found


def _cublas(torch: Any, factors: list[Any], rounded: str) -> float:
    """The median of cuBLAS, its factors rounded already."""
    torch.backends.cuda.matmul.allow_tf32 = rounded == "tf32"
    kinds = {"bf16": torch.bfloat16, "f16": torch.float16}
    a, b = (one.to(kinds.get(rounded, torch.float32)) for one in factors)
    times = []
    for _ in range(ROUNDS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times[1:])


def main() -> None:
    found = rows(int(sys.argv[2]) if len(sys.argv) > 2 else SIZE)
    text = json.dumps(found, indent=1)
    sys.stdout.write(text + "\n")
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
