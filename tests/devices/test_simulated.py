"""The simulated GPU: kernels with barriers, shuffles, shared memory; lanes of a sweep."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.primitives import for_gpu
from quantdsl.devices.simulated import SimulatedKernel, SimulatedRunner, kernel_of
from quantdsl.errors import InternalError
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


HALF = """\
define void @half(ptr %words) {
  %t = call i32 @quantdsl.thread()
  %odd = and i32 %t, 1
  %waits = icmp ne i32 %odd, 0
  br i1 %waits, label %wait, label %end
wait:
  call void @quantdsl.barrier()
  br label %end
end:
  ret void
}
"""


def test_threads_that_wait_for_others_that_are_done_are_told_of():
    with pytest.raises(InternalError, match="20 threads wait for others that never come"):
        kernel_of(HALF, "half", 1).launch(1, 40, [0])


DEEP = """\
define i64 @below(i64 %depth) noinline {
  %room = alloca [4096 x i64]
  %at = getelementptr i64, ptr %room, i64 %depth
  store volatile i64 %depth, ptr %at
  %done = icmp eq i64 %depth, 0
  br i1 %done, label %end, label %more
more:
  %less = sub i64 %depth, 1
  %found = call i64 @below(i64 %less)
  call void @quantdsl.warp_barrier()
  %own = load volatile i64, ptr %at
  %sum = add i64 %found, %own
  ret i64 %sum
end:
  ret i64 0
}
define void @deep(ptr %words, i64 %bits, i64 %depth) {
  %scale = bitcast i64 %bits to double
  %t = call i32 @quantdsl.thread()
  %place = sext i32 %t to i64
  %half = fmul double %scale, 5.000000e-01
  %sum = call i64 @below(i64 %depth)
  %more = add i64 %sum, %place
  %float = sitofp i64 %more to double
  %found = fmul double %float, %half
  %to = getelementptr double, ptr %words, i64 %place
  store double %found, ptr %to
  ret void
}
"""


def test_a_thread_keeps_its_own_stack_and_registers_while_it_waits():
    """A megabyte deep, with a float that is held over every wait."""
    out, depth = np.zeros(70), 30
    kernel_of(DEEP, "deep", 3).launch(1, 70, [out.ctypes.data, np.float64(3.0).view(int), depth])
    assert out.tolist() == [(depth * (depth + 1) / 2 + t) * 1.5 for t in range(70)]


def test_launches_of_several_threads_of_the_process_do_not_meet():
    kernels = [kernel_of(REVERSE, "reverse", 1) for _ in range(4)]
    words = np.arange(4 * 5 * 64).reshape(4, 5, 64)

    def launch(number):
        kernels[number].launch(5, 64, [words[number].ctypes.data], shared_bytes=8 * 64)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(launch, range(4)))
    assert np.array_equal(words, np.arange(4 * 5 * 64).reshape(4, 5, 64)[:, :, ::-1])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("lanes", "launches"), [(1, [(1, 1)]), (130, [(4, 32), (1, 2)])])
def test_lanes_run_the_gpus_kernel_to_the_same_bits(seed, lanes, launches, monkeypatch):
    """Few of them in as few threads: those without a lane would run the last one once more."""
    work, real, made = random_work(seed, lanes=lanes), SimulatedKernel.launch, []

    def launch(kernel, grid, block, *rest):
        made.append((grid, block))
        real(kernel, grid, block, *rest)

    monkeypatch.setattr(SimulatedKernel, "launch", launch)
    assert np.array_equal(run(SimulatedRunner(), work), expected(work))
    assert made == launches
