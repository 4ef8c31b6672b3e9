"""The text of a kernel for a GPU, or for the simulated device (simulated.py)."""

from quantdsl.codegen.primitives import DECLARED, on_ptx


def for_gpu(text: str) -> str:
    """A kernel's text for NVPTX: `define void` of an entry becomes a kernel of the device."""
    return on_ptx() + text.replace("define void @", "define ptx_kernel void @")


def for_cpu(text: str) -> str:
    """A kernel's text for the simulated device."""
    return f"{text}\n{DECLARED}"
