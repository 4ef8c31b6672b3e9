"""How elements of tensors are read and written on every target: LLVM IR of ir/tensors.py.

A NaN is stored with the same bits everywhere, since bits of memory can be seen.
"""

from quantdsl.ir.tensors import (
    AWAIT,
    GRID_MEET,
    LEAVE,
    MET_COUNT,
    MET_ROUND,
    TICKET,
    counted,
    load,
    store,
)
from quantdsl.ir.threads import ATOMIC_CALLS

NAN = "0x7FF8000000000000"
_SCOPES = {"": 'syncscope("device") ', "block": 'syncscope("block") ', "system": ""}
_SYSTEM = {
    "add": "add.u64",
    "sub": "add.u64",
    "min": "min.s64",
    "max": "max.s64",
    "and": "and.b64",
    "or": "or.b64",
    "xor": "xor.b64",
}
_AT = "  %at = getelementptr {memory}, ptr %tensor, i64 %index"


def _load(memory: str, result: str, *made: str) -> str:
    return "\n".join(
        [
            f"define internal {result} @{{0}}(ptr %tensor, i64 %index) alwaysinline {{{{",
            _AT.format(memory=memory),
            f"  %x = load {memory}, ptr %at",
            *(f"  {line}" for line in made),
            f"  ret {result} {'%x' if not made else '%made'}",
            "}}",
        ]
    )


def _store(memory: str, given: str, kept: str, *made: str) -> str:
    return "\n".join(
        [
            f"define internal void @{{0}}(ptr %tensor, i64 %index, {given} %value) "
            "alwaysinline {{",
            *(f"  {line}" for line in made),
            _AT.format(memory=memory),
            f"  store {memory} {kept}, ptr %at",
            "  ret void",
            "}}",
        ]
    )


BODIES = {
    load("f32"): _load("float", "double", "%made = fpext float %x to double"),
    load("float"): _load("double", "double"),
    load("int"): _load("i64", "i64"),
    load("bool"): _load("i8", "i1", "%made = icmp ne i8 %x, 0"),
    store("f32"): _store(
        "float",
        "double",
        "%kept",
        "%near = fptrunc double %value to float",
        "%nan = fcmp uno float %near, 0.0",
        f"%kept = select i1 %nan, float {NAN}, float %near",
    ),
    store("float"): _store(
        "double",
        "double",
        "%kept",
        "%nan = fcmp uno double %value, 0.0",
        f"%kept = select i1 %nan, double {NAN}, double %value",
    ),
    store("int"): _store("i64", "i64", "%value"),
    store("bool"): _store("i8", "i1", "%kept", "%kept = zext i1 %value to i8"),
    AWAIT: """\
define internal void @{0}(ptr %scratch, i64 %index, i64 %value) alwaysinline {{
  %at = getelementptr i64, ptr %scratch, i64 %index
  br label %again
again:
  %now = load atomic i64, ptr %at syncscope("device") acquire, align 8
  %there = icmp eq i64 %now, %value
  br i1 %there, label %done, label %again
done:
  ret void
}}""",
    LEAVE: """\
define internal void @{0}(ptr %scratch, i64 %index, i64 %value) alwaysinline {{
  %at = getelementptr i64, ptr %scratch, i64 %index
  fence syncscope("device") seq_cst
  store atomic i64 %value, ptr %at syncscope("device") release, align 8
  ret void
}}""",
    GRID_MEET: """\
define internal void @{0}(ptr %scratch, i64 %round, i64 %blocks) alwaysinline {{
  call void @quantdsl.grid_barrier()
  ret void
}}""",
    TICKET: """\
define internal i64 @{0}(ptr %scratch, i64 %index) alwaysinline {{
  %at = getelementptr i64, ptr %scratch, i64 %index
  %old = atomicrmw add ptr %at, i64 1 syncscope("device") monotonic
  ret i64 %old
}}""",
    **{
        counted(name, scope): f"""\
define internal void @{{0}}(ptr %tensor, i64 %index, i64 %value) alwaysinline {{{{
  %at = getelementptr i64, ptr %tensor, i64 %index
  %old = atomicrmw {name} ptr %at, i64 %value {_SCOPES[scope]}monotonic
  ret void
}}}}"""
        for name, scope in ATOMIC_CALLS.values()
    },
}
"""Function -> its definition, with a place for its symbol."""
ON_GPU = {
    GRID_MEET: f"""\
define internal void @{{0}}(ptr %scratch, i64 %round, i64 %blocks) alwaysinline {{{{
  %count = getelementptr i64, ptr %scratch, i64 {MET_COUNT}
  %over = getelementptr i64, ptr %scratch, i64 {MET_ROUND}
  %next = add i64 %round, 1
  %all = mul i64 %next, %blocks
  fence syncscope("device") seq_cst
  %before = atomicrmw add ptr %count, i64 1 syncscope("device") monotonic
  %come = add i64 %before, 1
  %last = icmp eq i64 %come, %all
  br i1 %last, label %open, label %again
open:
  fence syncscope("device") seq_cst
  store atomic i64 %next, ptr %over syncscope("device") release, align 8
  br label %done
again:
  %now = load atomic i64, ptr %over syncscope("device") acquire, align 8
  %there = icmp eq i64 %now, %next
  br i1 %there, label %done, label %again
done:
  ret void
}}}}""",
    **{
        counted(name, "system"): f"""\
define internal void @{{0}}(ptr %tensor, i64 %index, i64 %value) alwaysinline {{{{
  %at = getelementptr i64, ptr %tensor, i64 %index
  %by = {"sub i64 0, %value" if name == "sub" else "add i64 %value, 0"}
  call i64 asm sideeffect "atom.sys.{op} $0, [$1], $2;", "=l,l,l,~{{{{memory}}}}"(ptr %at, i64 %by)
  ret void
}}}}"""
        for name, op in _SYSTEM.items()
    },
}
"""In place of those: LLVM's code for NVPTX knows no scope of an atomic beyond the device."""
