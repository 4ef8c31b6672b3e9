"""A GPU's machine code as text, by NVIDIA's disassembler.

The one program that the product starts, and only to show its output: there is no library of it.
It is named by a full path inside a Python package, gets no shell and a time limit, and reads a
file that we wrote.
"""

import importlib.util
import subprocess
import tempfile
from pathlib import Path

from quantdsl.errors import InternalError, UnavailableError

SECONDS_MAX = 60
PLACES = ("cu13/bin/nvdisasm", "cuda_nvdisasm/bin/nvdisasm")
"""In the package `nvidia`, which every wheel of NVIDIA's adds to."""


def disassembled(code: bytes) -> str:
    """The instructions of a cubin. Raises UnavailableError where nvdisasm is not installed."""
    program = _program()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lanes.cubin"
        path.write_bytes(code)
        done = subprocess.run(
            [program, "-c", path],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        raise InternalError(f"QD9509 codegen: nvdisasm: {done.stderr}")
    return done.stdout


def _program() -> Path:
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or []) if package else []:
        for place in PLACES:
            if (found := Path(folder) / place).is_file():
                return found
    raise UnavailableError(
        "NVIDIA's disassembler is not here\nhelp: pip install nvidia-cuda-nvdisasm"
    )
