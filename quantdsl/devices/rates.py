"""Small kernels that measure what a device can do: copies, arithmetic, shared memory, waiting.

Written once over primitives.py, for GPUs and for the simulated device, which checks their results.
"""

import struct

CHAINS = 8
"""Independent fused multiply-adds of a thread, more than the latency of one hides."""
STEPS = 8
"""Of each chain in one turn, so that the turn's own cost does not show."""
SHARED_LOADS = 8
"""16-byte loads of a thread in one turn, SHARED_ROW bytes apart."""
SHARED_ROW = 4096
SHARED_BYTES = (SHARED_LOADS + 1) * SHARED_ROW

HEAD = """\
  %t = call i32 @quantdsl.thread()
  %b = call i32 @quantdsl.block()
  %n.threads = call i32 @quantdsl.threads()
  %n.blocks = call i32 @quantdsl.blocks()
  %first = mul i32 %b, %n.threads
  %number.32 = add i32 %first, %t
  %number = zext i32 %number.32 to i64
"""

EMPTY = """\
define void @empty(i64 %nothing) {
  ret void
}
"""

COPY = f"""\
define void @copy(ptr noalias %source, ptr noalias %target, i64 %n) {{
entry:
{HEAD}
  %all = mul i32 %n.threads, %n.blocks
  %step = zext i32 %all to i64
  br label %next
next:
  %k = phi i64 [ %number, %entry ], [ %k.next, %body ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %body, label %out
body:
  %from = getelementptr <2 x i64>, ptr %source, i64 %k
  %to = getelementptr <2 x i64>, ptr %target, i64 %k
  %words = load <2 x i64>, ptr %from, align 16
  store <2 x i64> %words, ptr %to, align 16
  %k.next = add i64 %k, %step
  br label %next
out:
  ret void
}}
"""
"""n times 16 bytes from source to target."""

GRID_WAIT = f"""\
define void @grid_wait(ptr %arrived, i64 %n) {{
entry:
{HEAD}
  %all = zext i32 %n.blocks to i64
  %leads = icmp eq i32 %t, 0
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %go.on ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %body, label %out
body:
  %k.next = add i64 %k, 1
  call void @quantdsl.barrier()
  br i1 %leads, label %arrive, label %go.on
arrive:
  %before = atomicrmw add ptr %arrived, i64 1 syncscope("device") acq_rel
  %wanted = mul i64 %k.next, %all
  br label %look
look:
  %now = load atomic i64, ptr %arrived syncscope("device") acquire, align 8
  %there = icmp uge i64 %now, %wanted
  br i1 %there, label %go.on, label %look
go.on:
  call void @quantdsl.barrier()
  br label %next
out:
  ret void
}}
"""
"""All blocks wait for one another n times; `arrived` starts at 0 and counts the blocks."""


def rate(kind: str) -> str:
    """`rate_KIND(out, n)`: n turns of CHAINS * STEPS fused multiply-adds; out: a thread's sum."""
    one_and_a_bit, little = _constant(kind, 1.0000001), _constant(kind, 1e-7)
    lines = [f"declare {kind} @llvm.fma.{_short(kind)}({kind}, {kind}, {kind})"]
    lines += [f"define void @rate_{_short(kind)}(ptr %out, i64 %n) {{", "entry:", HEAD]
    lines += [f"  %start.0 = uitofp i32 %number.32 to {kind}"]
    lines += [
        f"  %start.{c} = fadd {kind} %start.0, {_constant(kind, float(c))}"
        for c in range(1, CHAINS)
    ]
    lines += ["  br label %next", "next:", "  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]"]
    lines += [
        f"  %x.{c}.0 = phi {kind} [ %start.{c}, %entry ], [ %x.{c}.{STEPS}, %next ]"
        for c in range(CHAINS)
    ]
    lines += [
        f"  %x.{c}.{s + 1} = call {kind} @llvm.fma.{_short(kind)}({kind} %x.{c}.{s}, "
        f"{kind} {one_and_a_bit}, {kind} {little})"
        for s in range(STEPS)
        for c in range(CHAINS)
    ]
    lines += ["  %k.next = add i64 %k, 1", "  %more = icmp ult i64 %k.next, %n"]
    lines += ["  br i1 %more, label %next, label %out.of", "out.of:"]
    lines += [f"  %sum.0 = fadd {kind} %x.0.{STEPS}, {_constant(kind, 0.0)}"]
    lines += [f"  %sum.{c} = fadd {kind} %sum.{c - 1}, %x.{c}.{STEPS}" for c in range(1, CHAINS)]
    lines += [f"  %to = getelementptr {kind}, ptr %out, i64 %number"]
    lines += [f"  store {kind} %sum.{CHAINS - 1}, ptr %to", "  ret void", "}"]
    return "\n".join(lines) + "\n"


def shared() -> str:
    """`shared(out, n)`: n turns of SHARED_LOADS 16-byte loads of a thread; out: their words."""
    lines = ["define void @shared(ptr %out, i64 %n) {", "entry:", HEAD]
    lines += ["  %memory = call ptr @quantdsl.shared()", "  %t.64 = zext i32 %t to i64"]
    lines += ["  %mine = getelementptr i64, ptr %memory, i64 %t.64", "  store i64 %t.64, ptr %mine"]
    lines += ["  call void @quantdsl.barrier()", "  br label %next", "next:"]
    lines += ["  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]"]
    lines += [f"  %sum = phi <2 x i64> [ zeroinitializer, %entry ], [ %sum.{SHARED_LOADS}, %next ]"]
    lines += ["  %place = add i64 %k, %t.64", f"  %row = and i64 %place, {SHARED_ROW // 16 - 1}"]
    lines += ["  %from.0 = getelementptr <2 x i64>, ptr %memory, i64 %row"]
    lines += [
        f"  %from.{j} = getelementptr i8, ptr %from.0, i64 {j * SHARED_ROW}"
        for j in range(1, SHARED_LOADS)
    ]
    for j in range(SHARED_LOADS):
        before = f"%sum.{j}" if j else "%sum"
        lines += [f"  %words.{j} = load <2 x i64>, ptr %from.{j}, align 16"]
        lines += [f"  %sum.{j + 1} = xor <2 x i64> {before}, %words.{j}"]
    lines += ["  %k.next = add i64 %k, 1", "  %more = icmp ult i64 %k.next, %n"]
    lines += ["  br i1 %more, label %next, label %out.of", "out.of:"]
    lines += ["  %to = getelementptr <2 x i64>, ptr %out, i64 %number"]
    lines += [f"  store <2 x i64> %sum.{SHARED_LOADS}, ptr %to, align 16", "  ret void", "}"]
    return "\n".join(lines) + "\n"


def _short(kind: str) -> str:
    return {"double": "f64", "float": "f32"}[kind]


def _constant(kind: str, value: float) -> str:
    """A float as LLVM takes it: the bits of a double that is one of the kind exactly."""
    if kind == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


KERNELS = {
    "empty": EMPTY,
    "copy": COPY,
    "grid_wait": GRID_WAIT,
    "rate_f64": rate("double"),
    "rate_f32": rate("float"),
    "shared": shared(),
}
"""Entry -> its text."""
