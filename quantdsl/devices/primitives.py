"""The text of a kernel for a GPU, or for the simulated device (simulated.py)."""

import re

from quantdsl.codegen.primitives import DECLARED, on_ptx

PREFIX = "quantdsl."

TOGETHER = tuple(
    f"quantdsl.{name}"
    for name in (
        "barrier",
        "named_barrier",
        "warp_barrier",
        "lanes_barrier",
        "shuffle",
        "shuffle_from",
        "ballot",
        "match",
    )
)
"""A kernel that calls one of these needs the threads of its block at the same time."""


def for_gpu(text: str) -> str:
    """A kernel's text for NVPTX: `define void` of an entry becomes a kernel of the device."""
    return on_ptx() + text.replace("define void @", "define ptx_kernel void @")


def for_cpu(text: str) -> str:
    """A kernel's text for the simulated device."""
    return f"{text}\n{DECLARED}"


def needs_threads_together(text: str) -> bool:
    """Whether a kernel of this text waits for other threads of its block."""
    return any(re.search(rf"call \w+ @{re.escape(name)}\(", text) for name in TOGETHER)
