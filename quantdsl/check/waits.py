"""Where the threads of a kernel wait, while its body is that of one thread: calls of names that no
function has, until phases.py makes of them what every target runs."""

from msgspec import Struct

from quantdsl.ir import ops
from quantdsl.lang.ast import Span

ID = ops.Var("thread.id")
"""The number of the thread, until a loop over the threads has a name for it."""
BLOCK = ops.Var("block.id")
"""The number of the block, until the loop over the blocks of a grid has one (grid_phases.py)."""
WAITS = "waits."
"""A call of this that ends so is a place where threads wait; its first argument is a mark."""
WIDE = "wide."
"""What is in order and begins so is it over all blocks of a grid, one after the other."""
Body = tuple[ops.Stmt, ...]


class Mark(Struct, frozen=True):
    """A place where threads wait for each other, and as what it is written."""

    span: Span
    word: str


def waiting(kind: str, mark: int, *args: ops.Expr) -> ops.Call:
    """Where threads wait: a barrier, something of the warp, or an atomic in order."""
    return ops.Call(WAITS + kind, (ops.i64(mark), *args))


def wait_of(stmt: ops.Stmt) -> ops.Call | None:
    """The call by which a statement makes threads wait, if it does."""
    call = stmt.value if isinstance(stmt, ops.Let) else None
    call = stmt.call if isinstance(stmt, ops.Do) else call
    return call if isinstance(call, ops.Call) and call.func.startswith(WAITS) else None


def mark_of(call: ops.Call) -> int:
    """The mark of a place where threads wait."""
    assert isinstance(call.args[0], ops.Const)
    return call.args[0].bits
