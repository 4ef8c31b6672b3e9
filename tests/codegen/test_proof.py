"""The proof of machine code: what it must find on code made to have it, and what ours is like."""

import pytest

from quantdsl.codegen.cycles import LOAD, cycles
from quantdsl.codegen.jit import assemble
from quantdsl.codegen.proof import (
    ALIGNMENT,
    Flow,
    Proof,
    disassembled,
    forbidden,
    prove,
    require,
    stack_bytes,
)
from quantdsl.codegen.target import native
from quantdsl.codegen.text import entry_symbol
from quantdsl.codegen.turn import turn_text, whole
from quantdsl.errors import InternalError, UnavailableError
from tests.live.programs import checked

pytestmark = pytest.mark.skipif(
    not native().triple.startswith("x86_64"), reason="machine code is proven on x86-64 only"
)

HEAD = f"define i64 @{entry_symbol('f')}(i64 %x, ptr %p) #1 {{\n"
TAIL = 'attributes #1 = { noinline nounwind "no-builtins" }\n'


def proven(body: str, more: str = "") -> Proof:
    return prove(assemble(f"{HEAD}{body}}}\n{more}{TAIL}", native()), "f")


def test_plain_code_holds():
    proof = proven("  %y = mul i64 %x, %x\n  %z = add i64 %y, 7\n  ret i64 %z\n")
    assert proof.holds
    require(proof)
    assert proof.stack_bytes == 8
    assert proof.loops == ()
    assert proof.path_instructions == proof.instructions
    assert "holds" in "\n".join(proof.lines())


@pytest.mark.parametrize(
    ("body", "more", "fault"),
    [
        ("  %y = call i64 @g(i64 %x)\n  ret i64 %y\n", "declare i64 @g(i64)\n", "a call"),
        ("  %y = call i64 @g(i64 %x)\n  ret i64 %y\n", "declare i64 @g(i64)\n", "g is left to"),
        (
            "  %g = inttoptr i64 %x to ptr\n  %y = call i64 %g(i64 1)\n"
            "  %z = add i64 %y, 1\n  ret i64 %z\n",
            "",
            "a call",
        ),
        ("  %y = atomicrmw add ptr %p, i64 %x seq_cst\n  ret i64 %y\n", "", "a lock"),
        ("  %y = atomicrmw xchg ptr %p, i64 %x seq_cst\n  ret i64 %y\n", "", "a lock"),
        ("  store atomic i64 %x, ptr %p seq_cst, align 8\n  ret i64 %x\n", "", "a lock"),
        ("  call void @llvm.trap()\n  ret i64 %x\n", "declare void @llvm.trap()\n", "a trap"),
        (
            "  %a = alloca [9000 x i64], align 8\n  %b = getelementptr i64, ptr %a, i64 %x\n"
            "  store volatile i64 %x, ptr %b\n  %y = load volatile i64, ptr %a\n  ret i64 %y\n",
            "",
            "bytes of stack",
        ),
    ],
    ids="outside undefined indirect locked xchg fence trap stack".split(),
)
def test_each_fault_is_found(body, more, fault):
    proof = proven(body, more)
    assert any(fault in found for found in proof.faults)
    assert "FAULT" in "\n".join(proof.lines())
    with pytest.raises(InternalError, match="QD9512"):
        require(proof)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("0f05", "a call of the system at +0x0: syscall"),
        ("cd80", "a call of the system at +0x0: int 0x80"),
        ("0f34", "a call of the system"),
        ("cc", "a call of the system"),
        ("f3900f05", "a call of the system at +0x2"),
        ("e800000000", "a call at +0x0"),
        ("ffd0", "a call at +0x0: call rax"),
        ("ff1500000000", "a call"),
        ("f0ff07", "a lock at +0x0: lock inc"),
        ("4887070f0b", "a lock at +0x0: xchg"),
    ],
)
def test_instructions_that_no_hot_path_may_have(code, fault):
    assert fault in next(forbidden(disassembled(bytes.fromhex(code), 0)))


def test_a_function_of_the_same_object_is_proven_with_it():
    proof = proven(
        "  %y = call i64 @g(i64 %x)\n  %z = add i64 %y, 1\n  ret i64 %z\n",
        "define internal i64 @g(i64 %x) noinline {\n  %y = mul i64 %x, %x\n"
        "  %p = inttoptr i64 %y to ptr\n  %z = load volatile i64, ptr %p\n  ret i64 %z\n}\n",
    )
    assert proof.holds
    assert (proof.calls, proof.callees) == (1, 1)
    assert proof.stack_bytes >= 2 * 8
    assert "calls      1, all to 1 functions of its own" in "\n".join(proof.lines())


def test_a_fault_in_a_callee_is_the_caller_s_fault():
    proof = proven(
        "  %y = call i64 @g(i64 %x)\n  %z = add i64 %y, 1\n  ret i64 %z\n",
        "define internal i64 @g(i64 %x) noinline {\n  %p = inttoptr i64 %x to ptr\n"
        "  %y = atomicrmw add ptr %p, i64 1 seq_cst\n  ret i64 %y\n}\n",
    )
    assert any("a lock" in fault for fault in proof.faults)


def test_acquire_and_release_are_no_locks():
    assert proven(
        "  %y = load atomic i64, ptr %p acquire, align 8\n"
        "  store atomic i64 %x, ptr %p release, align 8\n  ret i64 %y\n"
    ).holds


LOOP = """\
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %n, %head ]
  %s = phi {type} [ {zero}, %0 ], [ %t, %head ]
  %q = getelementptr {type}, ptr %p, i64 %i
  %v = load {type}, ptr %q, align 8
  %t = {op} {type} %s, %v
  %n = add i64 %i, 1
  %more = icmp slt i64 %n, %x
  br i1 %more, label %head, label %out
out:
  {result}
"""
WIDE = "%e = extractelement <4 x double> %t, i64 0\n  %r = bitcast double %e to i64\n  ret i64 %r"


def test_loops_with_their_registers_and_their_heads():
    narrow = proven(LOOP.format(type="i64", zero="0", op="add", result="ret i64 %t"))
    wide = proven(LOOP.format(type="<4 x double>", zero="zeroinitializer", op="fadd", result=WIDE))
    assert [loop.width_bytes for loop in narrow.loops] == [8]
    assert [loop.width_bytes for loop in wide.loops] == [32]
    assert all(loop.aligned == (loop.head % ALIGNMENT == 0) for loop in narrow.loops)


@pytest.mark.parametrize(("start", "aligned"), [(0x1E, True), (0x1F, False)])
def test_a_turn_begins_where_its_jump_lands(start: int, aligned: bool) -> None:
    """The head is the test at the end: entered by a jump, then only fallen into."""
    test_at_end = "eb 03 48 ff c0 48 39 c8 7c f8 c3"  # jmp +3; inc rax; cmp rax, rcx; jl -8; ret
    (loop,) = Flow(list(disassembled(bytes.fromhex(test_at_end), start))).loops()
    assert loop.head == start + 5
    assert loop.head % ALIGNMENT
    assert loop.aligned == aligned


def test_an_inner_loop_aligns_none_around_it() -> None:
    nested = "90 48 ff c0 48 39 c8 7c f8 48 ff c2 48 39 ca 7c ef c3"  # both begin at the inc
    loops = [*Flow(list(disassembled(bytes.fromhex(nested), 0x1F))).loops()]
    assert [(loop.head, loop.aligned) for loop in loops] == [(0x1F, False), (0x20, True)]


def test_the_longest_way_is_the_one_that_costs_most():
    """A division on one side, a few additions on the other."""
    proof = proven(
        "  %c = icmp sgt i64 %x, 0\n  br i1 %c, label %a, label %b\na:\n"
        "  %d = load volatile i64, ptr %p\n  %e = sdiv i64 %d, %x\n  ret i64 %e\n"
        "b:\n  %f = load volatile i64, ptr %p\n  ret i64 %f\n"
    )
    assert proof.path_cycles > cycles("idiv", loads=False)
    assert proof.path_instructions < proof.instructions


def test_the_table_of_cycles():
    assert cycles("add", loads=False) == 1
    assert cycles("add", loads=True) == 1 + LOAD
    assert cycles("vfmadd213sd", loads=False) == 4
    assert cycles("idiv", loads=False) > cycles("imul", loads=False) > cycles("mov", loads=False)


def test_the_stack_of_a_frame():
    code = bytes.fromhex("55 41 57 48 81 ec 00 02 00 00 75 00 50 c3".replace(" ", ""))
    assert stack_bytes(disassembled(code, 0)) == 8 + 2 * 8 + 0x200


def test_the_turn_of_a_strategy_holds():
    """All of it, cold code too: thousands of instructions without one call."""
    module = checked("buy_and_hold").module()
    proof = prove(assemble(turn_text(whole(module), native()), native()), "turn")
    assert proof.holds
    assert proof.instructions > 1000
    assert proof.prefetches == 1
    assert proof.stack_bytes < 4096
    waiting = min(proof.loops, key=lambda loop: loop.instructions)
    assert waiting.aligned, "the loop that looks at the ring"
    assert sum(loop.aligned for loop in proof.loops) >= 0.85 * len(proof.loops)


def test_other_machines_are_not_proven():
    from quantdsl.codegen.backends import AARCH64

    code = assemble(f"{HEAD}  ret i64 %x\n}}\n{TAIL}", AARCH64)
    with pytest.raises(UnavailableError, match="x86-64 only"):
        prove(code, "f")


def test_a_target_is_followed_from_register_to_register_and_no_further():
    """A copy, a loop and a multiplication keep it; memory and what may write it do not."""
    loop = (
        "  br label %head\nhead:\n  %i = phi i64 [ 0, %0 ], [ %n, %head ]\n"
        "  %s = phi i64 [ 0, %0 ], [ %t, %head ]\n  %y = call i64 @g(i64 %i)\n"
        "  %m = mul i64 %y, %x\n  %t = add i64 %s, %m\n  %n = add i64 %i, 1\n"
        "  %more = icmp slt i64 %n, %x\n  br i1 %more, label %head, label %out\n"
        "out:\n  ret i64 %t\n"
    )
    inside = "define internal i64 @g(i64 %x) noinline {{\n  %p = inttoptr i64 %x to ptr\n  {}\n}}\n"
    own = "%y = load volatile i64, ptr %p\n  ret i64 %y"
    assert proven(loop, inside.format(own)).holds
    through = "%f = load volatile ptr, ptr %p\n  %y = call i64 %f(i64 1)\n  ret i64 %y"
    assert any("a call" in fault for fault in proven(loop, inside.format(through)).faults)
