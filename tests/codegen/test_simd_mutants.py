"""The tests of vector code notice a broken emitter: each of these breaks it in one way.

A mutant may send a program out of its memory or round for ever, so each runs in a process of its
own; an end by a signal, or code that LLVM refuses, counts as noticed too.
"""

import faulthandler
import functools
import multiprocessing
import re
import resource
import sys
from collections.abc import Callable

import numpy as np
import pytest

from quantdsl.codegen import (
    simd_called,
    simd_function,
    simd_memory,
    simd_ops,
    simd_text,
    simd_values,
)
from quantdsl.codegen.lanes import InterpretedLanes
from tests.codegen import simd_programs
from tests.codegen.simd_programs import AT_ONCE, ONE_BY_ONE, TARGETS, kernel, whole_results
from tests.codegen.test_simd import SMALL, difference, small_differs
from tests.codegen.test_simd_ops import module as every_operation
from tests.codegen.test_simd_ops import points

Patch = pytest.MonkeyPatch
WAYS = AT_ONCE, ONE_BY_ONE
CPU_S = 40
"""Of a mutant: four times what those take that nobody sees."""
V = r"(\S+)"
TEXT_MUTANTS = {
    "subtract the wrong way round": (rf"sub <(\d) x i64> {V}, (%\S+)", r"sub <\1 x i64> \3, \2"),
    "divide the wrong way round": (
        rf"fdiv <(\d) x double> {V}, {V}", r"fdiv <\1 x double> \3, \2"),
    "contract multiply and add": (r"(fmul|fadd|fsub) <", r"\1 contract <"),
    "not equal is false with NaN": ("fcmp une <", "fcmp one <"),
    "less is true with NaN": ("fcmp olt <", "fcmp ult <"),
    "leave NaN bits as they are": ("splat \\(i64 9221120237041090560\\)", "splat (i64 1)"),
    "shift counts modulo 32": (r"splat \(i64 63\)", "splat (i64 31)"),
    "true is -1": (r"zext <(\d) x i1>", r"sext <\1 x i1>"),
    "truncate downwards": (r"llvm\.trunc\.v", "llvm.floor.v"),
    "negate as 0 - x": (r"fneg (<\d x double>)", r"fsub \1 zeroinitializer,"),
    "unsigned integer order": ("icmp slt <", "icmp ult <"),
    "a short group stores a lane too many": (r"icmp slt i64 %k\.lane, %last",
                                             r"icmp sle i64 %k.lane, %last"),
    "a group starts a lane late": (r"%l = phi i64 \[ 0,", "%l = phi i64 [ 1,"),
    "lanes too far apart": (r"%l\.state = getelementptr \[(\d)",
                            r"%l.state = getelementptr [1\1"),
    "a function works for all lanes": (
        r"(call \S* ?(?:<\d x \w+> )?@v\d+\(<\d x i1>) %\w+", r"\1 splat (i1 true)"),
    "the next group leaves a lane out": (r"%first\.next = add nsw i64 %first, (\d)",
                                         r"%first.next = add nsw i64 %first, 1\1"),
}  # fmt: skip


def replace(patch: Patch, owner: object, name: str, value: object) -> None:
    """A function that gives one value, whatever it is asked."""
    patch.setattr(owner, name, lambda *_: value)


def blend_nothing(patch: Patch) -> None:
    patch.setattr(simd_text.VectorText, "blend", lambda *given: given[3])


def forget_the_outer_mask(patch: Patch) -> None:
    patch.setattr(simd_text.VectorText, "both", lambda *given: given[2])


def store_for_all_lanes(patch: Patch) -> None:
    store = simd_memory.Memory.store
    patch.setattr(simd_memory.Memory, "store", lambda *given: store(*given[:4], None))


def go_on_after_leaving(patch: Patch) -> None:
    replace(patch, simd_function.VectorEmitter, "refresh", None)


def leave_no_mask(patch: Patch) -> None:
    replace(patch, simd_function.VectorEmitter, "leave_mask", None)


def call_for_all_lanes(patch: Patch) -> None:
    each_lane = simd_values.ValueEmitter.each_lane

    def of_all(self, steps):
        mask, self.mask = self.mask, None
        each_lane(self, steps)
        self.mask = mask

    patch.setattr(simd_values.ValueEmitter, "each_lane", of_all)


def call_with_lane_0(patch: Patch) -> None:
    by_lane = simd_values.ValueEmitter.by_lane

    def first(self, value):
        load = by_lane(self, value)
        return lambda _: load("0")

    patch.setattr(simd_values.ValueEmitter, "by_lane", first)


def call_on_the_state_of_lane_0(patch: Patch) -> None:
    address = simd_memory.Memory.lane_address
    patch.setattr(simd_memory.Memory, "lane_address", lambda *given: address(*given[:2], "0"))


def all_lanes_in_one_element(patch: Patch) -> None:
    first = simd_called.CalledEmitter.first_element
    patch.setattr(
        simd_called.CalledEmitter, "first_element", lambda *given: (first(*given)[0], given[2])
    )


def no_lane_returns(patch: Patch) -> None:
    def ret(self, stmt):
        self.escapes += self.level > 0

    patch.setitem(simd_function.STATEMENTS, simd_function.Return, ret)


def nobody_parts_in_loops(patch: Patch) -> None:
    replace(patch, simd_function, "parts", False)


def continue_is_break(patch: Patch) -> None:
    patch.setitem(
        simd_function.STATEMENTS, simd_function.Continue, simd_function.VectorEmitter.leave
    )


def one_turn_too_many(patch: Patch) -> None:
    text = simd_programs.text
    change = re.compile(r"icmp slt (i64|<\d x i64>) (%i\d+|%t\d+), ")
    patch.setattr(
        simd_programs, "text", lambda *args: change.sub(r"icmp sle \1 \2, ", text(*args))
    )


def the_second_way_for_all(patch: Patch) -> None:
    negated = simd_text.VectorText.negated
    patch.setattr(
        simd_text.VectorText,
        "negated",
        lambda self, mask: negated(self, mask) and "splat (i1 true)",
    )


def merge_every_run(patch: Patch) -> None:
    replace(patch, simd_function.VectorEmitter, "independent", True)


def drop_the_carry(patch: Patch) -> None:
    patch.setattr(simd_ops, "LOW_HALF", 0x7FFFFFFF)


def truncate_quotients(patch: Patch) -> None:
    patch.setattr(
        simd_ops,
        "_rounds_down",
        lambda words, x, y: ("splat (i1 false)", words.op("srem", x, y)),
    )


def convert_with_a_wrong_offset(patch: Patch) -> None:
    """Only targets that convert by halves use it."""
    patch.setattr(simd_ops, "THEIR_SUM", simd_ops.THEIR_SUM + 1)


MUTANTS: list[Callable[[Patch], None]] = [
    blend_nothing, forget_the_outer_mask, store_for_all_lanes, go_on_after_leaving,
    leave_no_mask, call_for_all_lanes, call_with_lane_0, call_on_the_state_of_lane_0,
    all_lanes_in_one_element, no_lane_returns, nobody_parts_in_loops, continue_is_break,
    one_turn_too_many, the_second_way_for_all, merge_every_run, drop_the_carry, truncate_quotients,
    convert_with_a_wrong_offset,
]  # fmt: skip


def rewrite(pattern: str, replacement: str) -> Callable[[Patch], None]:
    def mutate(patch: Patch) -> None:
        text = simd_programs.text
        change = functools.partial(re.sub, pattern, replacement)
        patch.setattr(simd_programs, "text", lambda *args: change(text(*args)))

    return mutate


@functools.cache
def expected() -> np.ndarray:
    return whole_results(InterpretedLanes(every_operation()), every_operation(), points())


def operations_differ(target) -> bool:
    module = every_operation()
    return not np.array_equal(whole_results(kernel(module, target), module, points()), expected())


def notices() -> None:
    """Exit with 0 once a test of vector code finds a difference."""
    faulthandler.disable()  # an end by a signal is expected, its report is not
    if any(small_differs(*small, way) for small in SMALL.values() for way in WAYS):
        sys.exit(0)
    seen = any(map(operations_differ, TARGETS[-2:]))
    sys.exit(0 if seen or any(difference(seed, [WAYS[seed % 2]]) for seed in range(30)) else 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside pytest's own threads
@pytest.mark.parametrize(
    "mutate",
    [pytest.param(rewrite(*change), id=name) for name, change in TEXT_MUTANTS.items()]
    + [pytest.param(mutate, id=mutate.__name__.replace("_", " ")) for mutate in MUTANTS],
)
def test_a_broken_emitter_is_noticed(mutate, monkeypatch):
    assert expected().size  # once, before the processes part
    mutate(monkeypatch)
    process = multiprocessing.get_context("fork").Process(target=_quietly)
    process.start()
    process.join()
    assert process.exitcode != 1, "the tests of vector code do not see this mutant"


def _quietly() -> None:
    """An exception is as good as a difference, but for the exit code that says 'unseen'."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    try:
        notices()
    except Exception:
        sys.exit(2)
