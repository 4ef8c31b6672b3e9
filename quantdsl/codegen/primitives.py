"""What a kernel may ask of the device it runs on: LLVM IR of kernels calls these names.

Nothing else of a target stands in their text. A GPU gets each as an inlined function over LLVM's
NVPTX intrinsics, the simulated device as a function of its own. Numbers and values are i32.
"""

DECLARED = """\
declare i32 @quantdsl.thread()
declare i32 @quantdsl.block()
declare i32 @quantdsl.threads()
declare i32 @quantdsl.blocks()
declare void @quantdsl.barrier()
declare void @quantdsl.named_barrier(i32, i32)
declare i32 @quantdsl.shuffle(i32, i32)
declare i32 @quantdsl.ballot(i32)
declare i32 @quantdsl.any(i32)
declare void @quantdsl.warp_barrier()
declare void @quantdsl.lanes_barrier(i32)
declare i32 @quantdsl.shuffle_from(i32, i32)
declare i32 @quantdsl.match(i64)
declare void @quantdsl.grid_barrier()
declare void @quantdsl.touch(i64, i64, i64)
declare void @quantdsl.touch_tensor(i64, i64, i64, i64, i64)
declare ptr @quantdsl.shared()
declare void @llvm.assume(i1)
declare i32 @llvm.ctpop.i32(i32)
"""
"""thread of its block, block of the grid, threads of a block, blocks of the grid; barrier of a
block; the one of a number, for so many threads; the value of the thread of the warp whose number
differs in the bits given; a bit for each thread of the warp whose value is not 0; whether any of
them is, where a thread waits for the others (the simulated device does not wait, and tells of the
thread alone); barrier of a warp; of those of its threads that have a bit; the value of the thread
of the warp with the number given; a bit for each thread of the warp with the same value; what a
thread is about to do to a word of shared memory, in which line, and to an element of a tensor of so
many words, and the barrier of a grid for one thread of each block (of the simulated device alone);
the block's shared memory."""

_ON_PTX = """\
declare void @llvm.assume(i1)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.barrier.cta.sync.count(i32, i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.any.sync(i32, i1)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.match.any.sync.i64(i32, i64)
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
define internal void @quantdsl.named_barrier(i32 %number, i32 %threads) alwaysinline convergent {
  call void @llvm.nvvm.barrier.cta.sync.count(i32 %number, i32 %threads)
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
define internal i32 @quantdsl.any(i32 %value) alwaysinline convergent {
  %on = icmp ne i32 %value, 0
  %some = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %on)
  %x = zext i1 %some to i32
  ret i32 %x
}
define internal void @quantdsl.warp_barrier() alwaysinline convergent {
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  ret void
}
define internal void @quantdsl.lanes_barrier(i32 %lanes) alwaysinline convergent {
  call void @llvm.nvvm.bar.warp.sync(i32 %lanes)
  ret void
}
define internal i32 @quantdsl.shuffle_from(i32 %value, i32 %lane) alwaysinline convergent {
  %x = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %value, i32 %lane, i32 31)
  ret i32 %x
}
define internal i32 @quantdsl.match(i64 %value) alwaysinline convergent {
  %x = call i32 @llvm.nvvm.match.any.sync.i64(i32 -1, i64 %value)
  ret i32 %x
}
define internal ptr @quantdsl.shared() alwaysinline {
  %x = addrspacecast ptr addrspace(3) @quantdsl_memory to ptr
  ret ptr %x
}
"""

COPIES_AT_ONCE = """\
define internal void @quantdsl.copy_pair(ptr %to, ptr %from) alwaysinline {
  %pair = load <2 x i64>, ptr %from, align 16
  store <2 x i64> %pair, ptr %to, align 16
  ret void
}
define internal void @quantdsl.copied() alwaysinline {
  ret void
}
"""
"""Two words from memory to shared memory, and where the thread waits for all that it copies."""

COPIES_BESIDE = """\
define internal void @quantdsl.copy_pair(ptr %to, ptr %from) alwaysinline {
  %near = addrspacecast ptr %to to ptr addrspace(3)
  %far = addrspacecast ptr %from to ptr addrspace(1)
  call void asm sideeffect "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}"(
    ptr addrspace(3) %near, ptr addrspace(1) %far)
  ret void
}
define internal void @quantdsl.copied() alwaysinline {
  call void asm sideeffect "cp.async.wait_all;", "~{memory}"()
  ret void
}
"""
"""The same on a GPU whose copies run beside what the thread does next; they leave the cache of a
multiprocessor alone."""


def on_ptx(shared_words: int | None = None) -> str:
    """The primitives for NVPTX; shared memory of so many words, or as many as a launch says."""
    if shared_words is None:
        memory = "external addrspace(3) global [0 x i64]"
    else:
        memory = f"internal addrspace(3) global [{shared_words} x i64] undef"
    return f"@quantdsl_memory = {memory}, align 16\n{_ON_PTX}"
