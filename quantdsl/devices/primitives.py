"""What a kernel may ask of the device it runs on, and how each target gives it.

Kernels are LLVM IR that calls these names; nothing else of a target stands in their text. A GPU
gets each as an inlined function over LLVM's NVPTX intrinsics, the simulated device as a function
of simulated.py. Numbers and values are i32.
"""

import re

PREFIX = "quantdsl."

DECLARED = """\
declare i32 @quantdsl.thread()
declare i32 @quantdsl.block()
declare i32 @quantdsl.threads()
declare i32 @quantdsl.blocks()
declare void @quantdsl.barrier()
declare i32 @quantdsl.shuffle(i32, i32)
declare i32 @quantdsl.ballot(i32)
declare ptr @quantdsl.shared()
"""
"""thread of its block, block of the grid, threads of a block, blocks of the grid; barrier of a
block; the value of the thread of the warp whose number differs in the bits given; a bit for each
thread of the warp whose value is not 0; the block's shared memory."""

ON_PTX = """\
@quantdsl_memory = external addrspace(3) global [0 x i64], align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
define internal i32 @quantdsl.thread() alwaysinline {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %x
}
define internal i32 @quantdsl.block() alwaysinline {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  ret i32 %x
}
define internal i32 @quantdsl.threads() alwaysinline {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  ret i32 %x
}
define internal i32 @quantdsl.blocks() alwaysinline {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  ret i32 %x
}
define internal void @quantdsl.barrier() alwaysinline convergent {
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}
define internal i32 @quantdsl.shuffle(i32 %value, i32 %bits) alwaysinline convergent {
  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %value, i32 %bits, i32 31)
  ret i32 %x
}
define internal i32 @quantdsl.ballot(i32 %value) alwaysinline convergent {
  %on = icmp ne i32 %value, 0
  %x = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %on)
  ret i32 %x
}
define internal ptr @quantdsl.shared() alwaysinline {
  %x = addrspacecast ptr addrspace(3) @quantdsl_memory to ptr
  ret ptr %x
}
"""

_SIMULATED = {
    "llvm.nvvm.read.ptx.sreg.tid.x": "quantdsl.thread",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "quantdsl.block",
    "llvm.nvvm.read.ptx.sreg.ntid.x": "quantdsl.threads",
    "ptx_kernel void": "void",
}
"""What stands in a kernel made for a GPU -> its form for the simulated device."""

TOGETHER = ("quantdsl.barrier", "quantdsl.shuffle", "quantdsl.ballot")
"""A kernel that calls one of these needs the threads of its block at the same time."""


def for_gpu(text: str) -> str:
    """A kernel's text for NVPTX: `define void` of an entry becomes a kernel of the device."""
    return ON_PTX + text.replace("define void @", "define ptx_kernel void @")


def for_cpu(text: str) -> str:
    """A kernel's text for the simulated device."""
    return DECLARED + text


def simulated(text: str) -> str:
    """The text of a kernel that was emitted for NVPTX, for the simulated device."""
    for there, here in _SIMULATED.items():
        text = text.replace(there, here)
    return text


def needs_threads_together(text: str) -> bool:
    """Whether a kernel of this text waits for other threads of its block."""
    return any(re.search(rf"call \w+ @{re.escape(name)}\(", text) for name in TOGETHER)
