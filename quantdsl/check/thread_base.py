"""What the words of a kernel of threads have in common (threads.py, atomics.py)."""

from collections.abc import Callable

from msgspec import Struct, field

from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context
from quantdsl.check.types import INT, VOID
from quantdsl.check.values import Value
from quantdsl.check.waits import Mark
from quantdsl.ir import ops
from quantdsl.lang import ast

AXES = ("x", "y", "z")


class Threads(Struct):
    """What a kernel says of its threads; `used` is the first word that only threads have."""

    dims: tuple[int, int, int]
    said: bool  # whether @workgroup says so
    grid: tuple[Value, ...] = ()  # blocks along x, y and z; none where a call is one block
    marks: list[Mark] = field(default_factory=list)
    returns: dict[int, ast.Span] = field(default_factory=dict)  # by the identity of the statement
    used: ast.Node | None = None
    sorts: ast.Call | None = None  # the last sort

    @property
    def count(self) -> int:
        """Threads of a block."""
        x, y, z = self.dims
        return x * y * z

    def use(self, node: ast.Node) -> None:
        """Note that this is a kernel of threads."""
        if self.used is None:
            self.used = node

    def wait(self, node: ast.Call) -> int:
        """A mark for a place where threads wait."""
        assert isinstance(node.func, ast.Name)
        self.use(node)
        self.marks.append(Mark(node.span, node.func.id))
        return len(self.marks) - 1


Maker = Callable[["Word", Context, ast.Call], Value]


class Word(Binding):
    """A function of a kernel of threads."""

    what = "a function"
    builtin = "free"

    def __init__(self, name: str, shape: str, make: Maker) -> None:
        self.name, self.shape, self.make = name, shape, make

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The value of a call."""
        return self.make(self, cx, node)

    def args(self, cx: Context, node: ast.Call, few: int, many: int) -> list[ast.Expr] | None:
        """The arguments, by position; None where their number is wrong."""
        given = [arg.value for arg in node.args if arg.name is None]
        if len(given) != len(node.args) or not few <= len(given) <= many:
            cx.error("QD0308", f"this is no '{self.name}'", node.span, help=f"write {self.shape}")
            return None
        return given


def number(value: ops.Expr, node: ast.Node, most: ops.Size) -> Value:
    """An int from 0 on."""
    return Value(INT, value, node.span, low=0, high=most)


def nothing(node: ast.Call) -> Value:
    """What a call has that is made for its effects."""
    return Value(VOID, ops.i64(0), node.span)
