"""How elements of tensors are read and written on every target: LLVM IR of ir/tensors.py.

A NaN is stored with the same bits everywhere, since bits of memory can be seen.
"""

from quantdsl.ir.tensors import counted, load, store
from quantdsl.ir.threads import ATOMICS

NAN = "0x7FF8000000000000"
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
    **{
        counted(name): f"""\
define internal void @{{0}}(ptr %tensor, i64 %index, i64 %value) alwaysinline {{{{
  %at = getelementptr i64, ptr %tensor, i64 %index
  %old = atomicrmw {name} ptr %at, i64 %value syncscope("device") monotonic
  ret void
}}}}"""
        for name in ATOMICS
    },
}
"""Function -> its definition, with a place for its symbol."""
