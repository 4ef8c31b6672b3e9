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

_IN_PAIRS = """\
define internal void @quantdsl.open_copies(ptr %marks, i64 %spans, i64 %thread) alwaysinline {
  ret void
}
define internal void @quantdsl.copy(ptr %mark, ptr %to, ptr %from, i64 %words, i64 %thread, \
i64 %threads) alwaysinline {
entry:
  %first = shl i64 %thread, 1
  %step = shl i64 %threads, 1
  br label %next
next:
  %at = phi i64 [ %first, %entry ], [ %at.next, %pair ]
  %some = icmp slt i64 %at, %words
  br i1 %some, label %pair, label %done
pair:
  %to.at = getelementptr i64, ptr %to, i64 %at
  %from.at = getelementptr i64, ptr %from, i64 %at
  call void @quantdsl.copy_pair(ptr %to.at, ptr %from.at)
  %at.next = add nsw i64 %at, %step
  br label %next
done:
  ret void
}
"""

COPIES_AT_ONCE = f"""\
{_IN_PAIRS}define internal void @quantdsl.copy_pair(ptr %to, ptr %from) alwaysinline {{
  %pair = load <2 x i64>, ptr %from, align 16
  store <2 x i64> %pair, ptr %to, align 16
  ret void
}}
define internal void @quantdsl.copied(ptr %mark, i64 %turn) alwaysinline {{
  ret void
}}
"""
"""How the threads of a block copy words from memory to shared memory: `copy` begins to, and behind
`copied` and a barrier they are there. `marks` are two words of shared memory, of which a copy of so
many `spans` has one and the next copy the other; `turn` says how often a mark has been used before.
"""

COPIES_BESIDE = f"""\
{_IN_PAIRS}define internal void @quantdsl.copy_pair(ptr %to, ptr %from) alwaysinline {{
  %near = addrspacecast ptr %to to ptr addrspace(3)
  %far = addrspacecast ptr %from to ptr addrspace(1)
  call void asm sideeffect "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{{memory}}"(
    ptr addrspace(3) %near, ptr addrspace(1) %far)
  ret void
}}
define internal void @quantdsl.copied(ptr %mark, i64 %turn) alwaysinline {{
  call void asm sideeffect "cp.async.wait_all;", "~{{memory}}"()
  ret void
}}
"""
"""The same on a GPU whose copies run beside what the thread does next; they leave the cache of a
multiprocessor alone."""

COPIES_IN_BULK = """\
define internal void @quantdsl.open_copies(ptr %marks, i64 %spans, i64 %thread) alwaysinline \
convergent {
entry:
  %leads = icmp eq i64 %thread, 0
  br i1 %leads, label %open, label %opened
open:
  %near = addrspacecast ptr %marks to ptr addrspace(3)
  %other = getelementptr i64, ptr addrspace(3) %near, i64 1
  %count = trunc i64 %spans to i32
  call void asm sideeffect "mbarrier.init.shared.b64 [$0], $1;", "r,r,~{memory}"(
    ptr addrspace(3) %near, i32 %count)
  call void asm sideeffect "mbarrier.init.shared.b64 [$0], $1;", "r,r,~{memory}"(
    ptr addrspace(3) %other, i32 %count)
  call void asm sideeffect "fence.mbarrier_init.release.cluster;", "~{memory}"()
  br label %opened
opened:
  call void @quantdsl.barrier()
  ret void
}
define internal void @quantdsl.copy(ptr %mark, ptr %to, ptr %from, i64 %words, i64 %thread, \
i64 %threads) alwaysinline {
entry:
  %leads = icmp eq i64 %thread, 0
  %some = icmp sgt i64 %words, 0
  %acts = and i1 %leads, %some
  br i1 %acts, label %act, label %done
act:
  %near = addrspacecast ptr %to to ptr addrspace(3)
  %far = addrspacecast ptr %from to ptr addrspace(1)
  %near.mark = addrspacecast ptr %mark to ptr addrspace(3)
  %size = shl i64 %words, 3
  %bytes = trunc i64 %size to i32
  call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()
  %state = call i64 asm sideeffect "mbarrier.arrive.expect_tx.shared.b64 $0, [$1], $2;", \
"=l,r,r,~{memory}"(ptr addrspace(3) %near.mark, i32 %bytes)
  call void asm sideeffect "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
[$0], [$1], $2, [$3];", "r,l,r,r,~{memory}"(
    ptr addrspace(3) %near, ptr addrspace(1) %far, i32 %bytes, ptr addrspace(3) %near.mark)
  br label %done
done:
  ret void
}
define internal void @quantdsl.copied(ptr %mark, i64 %turn) alwaysinline convergent {
entry:
  %near = addrspacecast ptr %mark to ptr addrspace(3)
  %turn.32 = trunc i64 %turn to i32
  %parity = and i32 %turn.32, 1
  br label %wait
wait:
  %there = call i32 asm sideeffect "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [$1], \
$2; selp.b32 $0, 1, 0, p; }", "=r,r,r,~{memory}"(ptr addrspace(3) %near, i32 %parity)
  %done = icmp ne i32 %there, 0
  br i1 %done, label %out, label %wait
out:
  ret void
}
"""
"""The same where a GPU copies whole spans by itself, once one thread has asked it to."""


def on_ptx(shared_words: int | None = None) -> str:
    """The primitives for NVPTX; shared memory of so many words, or as many as a launch says."""
    if shared_words is None:
        memory = "external addrspace(3) global [0 x i64]"
    else:
        memory = f"internal addrspace(3) global [{shared_words} x i64] undef"
    return f"@quantdsl_memory = {memory}, align 16\n{_ON_PTX}"
