"""The simulated GPU: kernels with barriers, shuffles, shared memory; lanes of a sweep."""

import numpy as np
import pytest

from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.primitives import for_gpu, needs_threads_together
from quantdsl.devices.simulated import SimulatedRunner, kernel_of
from tests.devices.lane_work import expected, random_work, run

WARP_SUM = """\
define void @warp_sum(ptr %out) {
  %t = call i32 @quantdsl.thread()
  br label %step
step:
  %bits = phi i32 [ 16, %0 ], [ %half, %step ]
  %sum = phi i32 [ %t, %0 ], [ %more, %step ]
  %other = call i32 @quantdsl.shuffle(i32 %sum, i32 %bits)
  %more = add i32 %sum, %other
  %half = lshr i32 %bits, 1
  %again = icmp ne i32 %half, 0
  br i1 %again, label %step, label %out.of
out.of:
  %odd = and i32 %t, 1
  %votes = call i32 @quantdsl.ballot(i32 %odd)
  %b = call i32 @quantdsl.block()
  %n = call i32 @quantdsl.threads()
  %first = mul i32 %b, %n
  %at = add i32 %first, %t
  %wide = sext i32 %at to i64
  %to = getelementptr {i32, i32}, ptr %out, i64 %wide
  store i32 %more, ptr %to
  %next = getelementptr i32, ptr %to, i64 1
  store i32 %votes, ptr %next
  ret void
}
"""

REVERSE = """\
define void @reverse(ptr %words) {
  %t = call i32 @quantdsl.thread()
  %b = call i32 @quantdsl.block()
  %n = call i32 @quantdsl.threads()
  %shared = call ptr @quantdsl.shared()
  %first = mul i32 %b, %n
  %at = add i32 %first, %t
  %wide = sext i32 %at to i64
  %mine = getelementptr i64, ptr %words, i64 %wide
  %word = load i64, ptr %mine
  %place = sext i32 %t to i64
  %here = getelementptr i64, ptr %shared, i64 %place
  store i64 %word, ptr %here
  call void @quantdsl.barrier()
  %last = sub i32 %n, 1
  %back = sub i32 %last, %t
  %far = sext i32 %back to i64
  %there = getelementptr i64, ptr %shared, i64 %far
  %other = load i64, ptr %there
  store i64 %other, ptr %mine
  ret void
}
"""


def test_a_block_reverses_its_words_through_shared_memory_and_a_barrier():
    kernel = kernel_of(REVERSE, "reverse", 1)
    words = np.arange(3 * 40, dtype=np.int64)
    kernel.launch(3, 40, [words.ctypes.data], shared_bytes=8 * 40)
    assert np.array_equal(words.reshape(3, 40), np.arange(120).reshape(3, 40)[:, ::-1])


def test_warps_sum_by_shuffles_and_vote():
    kernel = kernel_of(WARP_SUM, "warp_sum", 1)
    out = np.zeros((2 * 64, 2), np.int32)
    kernel.launch(2, 64, [out.ctypes.data])
    sums = out[:, 0].reshape(4, 32)
    assert np.array_equal(sums, np.repeat([[sum(range(32))], [sum(range(32, 64))]] * 2, 32, axis=1))
    assert set(out[:, 1].view(np.uint32)) == {0xAAAAAAAA}


@pytest.mark.parametrize(
    ("text", "instruction"), [(WARP_SUM, "shfl.sync.bfly.b32"), (REVERSE, "bar")]
)
def test_the_same_text_becomes_ptx(text, instruction):
    parsed, machine = optimised(for_gpu(text), target_of("sm_90"))
    assert instruction in str(machine.emit_assembly(parsed))
    assert needs_threads_together(text)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("lanes", [1, 130])
def test_lanes_run_the_gpus_kernel_to_the_same_bits(seed, lanes):
    work = random_work(seed, lanes=lanes)
    assert np.array_equal(run(SimulatedRunner(), work), expected(work))
