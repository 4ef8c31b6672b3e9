"""What a name can stand for."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, structs

from quantdsl.check import elsewhere
from quantdsl.check.types import Type
from quantdsl.check.values import TIMELESS, Value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.ast import Span
from quantdsl.lang.spelling import nearest

if TYPE_CHECKING:
    from quantdsl.check.context import Context


class Binding:
    """A name that is not a plain value: subclasses say what may be done with it."""

    what: ClassVar[str] = "a name"
    has_members: ClassVar[bool] = False
    builtin: str = ""  # value, function or namespace for a name of the language itself

    def read(self, cx: "Context", node: ast.Expr) -> Value:
        """The value of the name standing alone."""
        return cx.error("QD0203", f"this is {self.what}, not a value", node.span)

    def call(self, cx: "Context", node: ast.Call) -> Value:
        """The value of a call of it."""
        return cx.error("QD0203", f"this is {self.what}, it cannot be called", node.func.span)

    def member(self, name: str) -> "Binding | Local | None":
        """What `binding.name` stands for, or None."""
        return None

    def members(self) -> list[str]:
        """The names that may follow the dot."""
        return []

    def attr(self, cx: "Context", node: ast.Attr) -> Value:
        """The value of `binding.name`."""
        found = self.member(node.name)
        if found is None:
            return unknown(cx, node.name, node.name_span, self.members(), f"in {self.what}")
        return found.read(cx, node)


class Indexed(Binding, ABC):
    """What has no value by itself, but one for each number in square brackets."""

    @abstractmethod
    def at(self, cx: "Context", node: ast.Index) -> Value:
        """The value of `binding[i]`."""


class Local(Struct):
    """A name bound to a value: let, var, parameter, const, state."""

    value: Value
    span: Span = (0, 0)
    used: bool = False
    assigned: bool = False
    has_members: ClassVar[bool] = False

    def read(self, cx: "Context", node: ast.Expr) -> Value:
        """The value; reading it counts as use."""
        self.used = True
        v = self.value
        return structs.replace(v, span=node.span)

    def call(self, cx: "Context", node: ast.Call) -> Value:
        """A value is never callable."""
        if self.value.bad:
            return self.read(cx, node.func)
        return cx.error("QD0203", "this is a value, it cannot be called", node.func.span)


class EnumBinding(Binding):
    """An enum; its members are constants of its type."""

    what = "an enum"
    has_members = True

    def __init__(self, key: str, members: tuple[str, ...]) -> None:
        self.type = Type("enum", key)
        self.names = members

    def member(self, name: str) -> Local | None:
        """A member as a compile-time constant."""
        if name not in self.names:
            return None
        number = self.names.index(name)
        return Local(
            Value(
                self.type, ops.i64(number), low=number, high=number, series=TIMELESS, const=number
            )
        )

    def members(self) -> list[str]:
        """The members in declared order."""
        return list(self.names)


class StructField(Struct, frozen=True):
    """A field with its type."""

    name: str
    type: Type


class StructBinding(Binding):
    """A struct; calling it with every field by name makes a value."""

    what = "a struct"

    def __init__(self, key: str, fields: tuple[StructField, ...]) -> None:
        self.type = Type("struct", key)
        self.fields = fields

    def call(self, cx: "Context", node: ast.Call) -> Value:
        """A value with every field given by name."""
        return cx.library.construct(cx, self, node)


NAMED_MAX = 8
"""As many names as a line of help takes."""


def unknown(
    cx: "Context", name: str, span: Span, known: list[str], where: str, help: str | None = None
) -> Value:
    """Report an unknown name, with the nearest known one as an edit.

    Where none is near it says `help`, or what there is if that is little.
    """
    near = name.lower() if name.lower() in known else nearest(name, known)
    if help is None and 0 < len(known) <= NAMED_MAX:
        help = f"there is {', '.join(known)}"
    return cx.error(
        "QD0201",
        f"there is no {name!r} {where}",
        span,
        help=f"did you mean {near}?" if near else help,
        edit=(span, near) if near else None,
    )


WINDOWED = {
    "mean": "ts.mean",
    "average": "ts.mean",
    "avg": "ts.mean",
    "std": "ts.std",
    "stdev": "ts.std",
    "median": "ta.median",
    "sum": "ts.sum",
    "variance": "ts.variance",
    "zscore": "ts.zscore",
    "rank": "ts.rank",
}
"""Statistics by the names that other tools give them without a window."""


def find_name(cx: "Context", node: ast.Name) -> "Binding | Local | None":
    """What the name stands for; reports an unknown one."""
    found: Binding | Local | None = cx.scope.find(node.id)
    own = isinstance(found, EnumBinding) or cx.library.of_kernels(node.id)
    if cx.module.std and isinstance(found, Binding) and not own:
        # `ta` declares max and min of its own; unprefixed, std means the language's.
        found = cx.library.globals.names.get(node.id, found)
    if found is None and node.id in WINDOWED:
        cx.error(
            "QD0403",
            f"'{node.id}' needs a window",
            node.span,
            reason="a statistic of all data would know the future",
            help=f"such as {WINDOWED[node.id]}(close, 20)",
        )
    elif found is None and cx.library.of_kernels(node.id):
        cx.error("QD0902", f"{node.id!r} stands in a kernel", node.span)
    elif found is None:
        visible = list(cx.scope.visible())
        near = _in_a_namespace(cx, node.id, exact=True)
        if node.id in elsewhere.NAMES:
            visible = []
        elif near is None and not nearest(node.id, visible):
            near = _in_a_namespace(cx, node.id, exact=False)
        if near is None:
            unknown(cx, node.id, node.span, visible, "here", elsewhere.NAMES.get(node.id))
        else:
            help = f"did you mean {near}?"
            cx.error(
                "QD0201",
                f"there is no {node.id!r} here",
                node.span,
                help=help,
                edit=(node.span, near),
            )
    return found


NAMESPACES = ("ta", "ts", "vol", "size", "xs")


def _in_a_namespace(cx: "Context", name: str, *, exact: bool) -> str | None:
    """What other tools have without a prefix, such as SMA or cross_over, and the language with one:
    by that name, or by the nearest."""
    if len(name) < 3:
        return None
    for space in NAMESPACES:
        binding = cx.library.globals.names.get(space)
        known = binding.members() if isinstance(binding, Binding) else []
        near = name.lower() if name.lower() in known else None if exact else nearest(name, known)
        if near is not None:
            return f"{space}.{near}"
    return None
