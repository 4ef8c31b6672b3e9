"""What a kernel of tensors does to the memory of its caller, as functions of the IR.

Until a kernel is made for a target its tensors are arrays of words; there each element is as the
caller keeps it. A target gives the functions their bodies (codegen/tensors.py).
"""

from quantdsl.ir import ops
from quantdsl.ir.threads import ATOMIC_CALLS, atomic

ELEMENTS: dict[str, ops.ScalarType] = {
    "f32": ops.F64_T,
    "float": ops.F64_T,
    "int": ops.I64_T,
    "bool": ops.BOOL_T,
}
"""How an element is called -> what it is in a register."""
ROUNDED = ("bf16", "f16", "tf32")
"""What @fast lets the factors of a product be rounded to, on tensor cores."""
ORDER = "order"
"""@fast(order): the sums of a scan may be put together in any."""
BUFFER = ops.BufferType(ops.I64_T)


def load(element: str) -> str:
    """The function that reads an element."""
    return f"tensor.load.{element}"


def store(element: str) -> str:
    """The function that writes one."""
    return f"tensor.store.{element}"


def counted(operation: str, scope: str = "") -> str:
    """The function that does an atomic to an int; the device is the usual scope."""
    return f"tensor.{atomic(operation, scope)}"


def _params(element: str, *, inout: bool) -> tuple[ops.ParamDecl, ...]:
    params = (ops.ParamDecl("tensor", BUFFER, inout), ops.ParamDecl("index", ops.I64_T))
    return (*params, ops.ParamDecl("value", ELEMENTS[element])) if inout else params


def _zero(type_: ops.ScalarType) -> tuple[ops.Stmt, ...]:
    return (ops.Return(ops.Const(type_, 0)),)


AWAIT, LEAVE, TICKET = "scratch.await", "scratch.leave", "scratch.ticket"
"""Waits until a word of scratch memory is a value; puts a value there, behind all that this thread
has seen done; takes the number of a word that counts."""
GRID_MEET = "scratch.meet"
"""Waits until one thread of each of so many blocks has come, `round` such meetings being over."""
MET_COUNT, MET_ROUND = 1, 2
"""Words of scratch memory, behind the result: who has come so far, and meetings that are over."""
_SCRATCH = (ops.ParamDecl("scratch", BUFFER, inout=True), ops.ParamDecl("index", ops.I64_T))

FUNCTIONS = (
    *(ops.Func(load(e), _params(e, inout=False), t, _zero(t)) for e, t in ELEMENTS.items()),
    *(ops.Func(store(e), _params(e, inout=True), None, ()) for e in ELEMENTS),
    *(
        ops.Func(name, (*_SCRATCH, ops.ParamDecl("value", ops.I64_T)), None, ())
        for name in (AWAIT, LEAVE)
    ),
    ops.Func(
        GRID_MEET,
        (_SCRATCH[0], ops.ParamDecl("round", ops.I64_T), ops.ParamDecl("blocks", ops.I64_T)),
        None,
        (),
    ),
    ops.Func(TICKET, _SCRATCH, ops.I64_T, _zero(ops.I64_T)),
    *(
        ops.Func(counted(*which), _params("int", inout=True), None, ())
        for which in ATOMIC_CALLS.values()
    ),
)
