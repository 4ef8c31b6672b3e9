"""Type names and parameter lists."""

from msgspec import Struct

from quantdsl.check import naming, rings, tensors
from quantdsl.check.bindings import Binding, EnumBinding, StructBinding
from quantdsl.check.context import Context
from quantdsl.check.types import (
    BOOL,
    DURATION,
    ERROR,
    F32,
    FLOAT,
    INT,
    TIME,
    Type,
    money,
    price,
    qty,
)
from quantdsl.ir import ops
from quantdsl.lang import ast

PLAIN = {
    "bool": BOOL,
    "int": INT,
    "float": FLOAT,
    "pct": FLOAT,
    "duration": DURATION,
    "time": TIME,
}
SCALED = {"price": price, "qty": qty}
OF_KERNELS = {
    "f32": "write float",
    "window": "write series[float], in an indicator",
    "tensor": "write array[float, 64], with the index row * 8 + column",
    "shared": "write a 'state', to keep a value between bars",
}
"""Types that stand in kernels alone -> what to write elsewhere."""
LATER = frozenset({"panel", "order", "instrument", "i32", "u8", "u32"})


class Parameter(Struct, frozen=True):
    """A parameter with its resolved type; `default` is elaborated where it is declared."""

    name: str
    type: Type
    node: ast.Param
    const: bool = False
    inout: bool = False
    series: bool = False


def resolve(cx: Context, node: ast.Type, of: str = "") -> Type:
    """The type that a type expression names; `of` is the instrument a bare price counts."""
    type_ = _plain(cx, node, of)
    return type_.missing() if node.optional and type_ != ERROR else type_


def _plain(cx: Context, node: ast.Type, of: str) -> Type:
    if node.name in PLAIN:
        return PLAIN[node.name]
    if node.name in SCALED:
        return SCALED[node.name](of)
    if node.name in ("money", "USD", "EUR", "GBP", "JPY", "USDT"):
        return money("" if node.name == "money" else node.name)
    if node.name == "bars":
        return Type("bars", of)
    if node.name == "series" and node.args and isinstance(node.args[0], ast.Type):
        return resolve(cx, node.args[0], of)
    if node.name in ("array", "ring"):
        return _container(cx, node, of)
    if node.name in OF_KERNELS:
        return _of_kernels(cx, node)
    if node.name == "constant":
        cx.error(
            "QD0202",
            "constant memory is that of a const",
            node.span,
            help="write const weights: constant[float, 3] = [0.25, 0.5, 0.25], in the file",
        )
        return ERROR
    if node.name in LATER:
        cx.error("QD0216", f"the type {node.name!r} is not available yet", node.span)
        return ERROR
    found = _declared(cx, node.name)
    if isinstance(found, EnumBinding | StructBinding):
        return found.type
    cx.error("QD0202", f"there is no type {node.name!r}", node.span)
    return ERROR


def _of_kernels(cx: Context, node: ast.Type) -> Type:
    """`f32`, `window[T, N]` as a parameter, and memory of several dimensions: in kernels alone."""
    if not cx.kernel:
        cx.error(
            "QD0902",
            f"the type {node.name!r} stands in a kernel",
            node.span,
            help=OF_KERNELS[node.name],
        )
        return ERROR
    if node.name == "f32":
        return F32
    if node.name != "window":
        return _of_dimensions(cx, node)
    if len(node.args) != 2 or not isinstance(node.args[0], ast.Type):
        cx.error(
            "QD0202", "window needs a type and a length: window[f32, 1024]", node.span
        )
        return ERROR
    elem = resolve(cx, node.args[0])
    if elem != ERROR and elem not in (FLOAT, F32, INT):
        cx.error("QD0202", "a window is of float, f32 or int", node.args[0].span)
        return ERROR
    size = size_of(cx, node.args[1], node.span)
    if size is not None and not isinstance(size, int):
        cx.error(
            "QD0905",
            "the length of a window is a constant",
            node.span,
            reason="memory and warm-up follow from it",
            help="write the longest that is needed, and loop to min(n, r.len)",
        )
        return ERROR
    return ERROR if elem == ERROR or size is None else Type("window", elem=elem, size=size)


SHOWN = {
    "tensor": "tensor[float, 8, 8]",
    "shared": "shared[float, 256]",
    "constant": "constant[float, 5]",
}


def constant(cx: Context, node: ast.Type) -> Type:
    """`constant[T, N]`, the type of a const that holds several numbers."""
    type_ = _of_dimensions(cx, node)
    if type_ != ERROR and type_.elem == BOOL:
        cx.error("QD0202", "constant memory is of float, f32 or int", node.span)
        return ERROR
    return type_


def _of_dimensions(cx: Context, node: ast.Type, *, given: bool = False) -> Type:
    """Memory with sizes, such as `shared[T, N]`; what is `given` lies in the caller's."""
    least, shown = 2 if node.name == "tensor" and not given else 1, SHOWN[node.name]
    count = len(node.args) - 1
    if not least <= count <= tensors.DIMENSIONS_MAX or not isinstance(node.args[0], ast.Type):
        sizes = f"{least} to {tensors.DIMENSIONS_MAX} sizes"
        cx.error("QD0202", f"{node.name} needs a type and {sizes}: {shown}", node.span)
        return ERROR
    single = node.name == "constant" and node.args[0].name == "f32"  # kernels alone read that
    elem = F32 if single else resolve(cx, node.args[0])
    if elem == ERROR:
        return ERROR
    if elem not in tensors.ELEMENTS:
        text = f"a {node.name} is of float, f32, int or bool"
        cx.error("QD0202", text, node.args[0].span)
        return ERROR
    dims = [size_of(cx, arg, node.span) for arg in node.args[1:]]
    known = tuple(size for size in dims if size is not None)
    if len(known) < count:
        return ERROR
    type_ = tensors.make(node.name, elem, known)
    return type_ if given or tensors.fits(cx, node, type_) else ERROR


def _declared(cx: Context, name: str) -> object:
    """What a type name, perhaps behind a namespace (`sums.Joint`), is declared as."""
    first, *rest = name.split(".")
    found = cx.scope.find(first)
    for part in rest:
        found = found.member(part) if isinstance(found, Binding) else None
    return found or cx.library.find_type(cx.module, name)


def _container(cx: Context, node: ast.Type, of: str) -> Type:
    if len(node.args) != 2 or not isinstance(node.args[0], ast.Type):
        cx.error(
            "QD0202", f"{node.name} needs a type and a size: {node.name}[float, 64]", node.span
        )
        return ERROR
    elem = resolve(cx, node.args[0], of)
    size = size_of(cx, node.args[1], node.span)
    if elem.kind in ("array", "ring"):
        cx.error(
            "QD0608",
            "an array of arrays is not available yet",
            node.span,
            help="use one array and the index row * width + column",
        )
        return ERROR
    if elem == ERROR or size is None:
        return ERROR
    type_ = Type(node.name, elem=elem, size=size)
    if node.name == "ring":
        if not isinstance(size, int):
            cx.error("QD0603", "the length of a ring is a constant", node.span)
            return ERROR
        rings.declare(cx, type_)
    return type_


def size_of(cx: Context, node: "ast.Type | int", span: ast.Span) -> ops.Size | None:
    """A size argument: a number, a constant, a const parameter or a size of the module."""
    if isinstance(node, int):
        if node >= 1:
            return node
        cx.error("QD0603", "a size is at least 1", span)
        return None
    value = cx.library.size_value(cx, node.name)
    if value is None:
        cx.error(
            "QD0603",
            f"the size {node.name!r} is not known when compiling",
            node.span,
            help="use a number, a const or a 'const int' parameter",
        )
    return value


def parameters(cx: Context, nodes: tuple[ast.Param, ...]) -> list[Parameter]:
    """The parameter list of a fn, indicator or action."""
    naming.distinct(cx, tuple(node.name for node in nodes))
    return [_parameter(cx, node) for node in nodes]


def _parameter(cx: Context, node: ast.Param) -> Parameter:
    name = node.name.id
    if node.type is None:
        cx.error(
            "QD0202", f"the parameter {name!r} needs a type", node.span, help=f"write {name}: float"
        )
        return Parameter(name, ERROR, node)
    if cx.kernel and node.type.name == "tensor":
        type_ = _of_dimensions(cx, node.type, given=True)
    else:
        type_ = resolve(cx, node.type, of=f"'{name}")
    if node.inout and not cx.module.std and type_.kind not in ("tensor", "error"):
        cx.error(
            "QD0207",
            "'inout' is for the standard library, and for the tensors of a kernel",
            node.span,
        )
    return Parameter(name, type_, node, node.const, node.inout, node.type.name == "series")


def least_of(param: Parameter) -> int:
    """A `const int` parameter is at least 1, or 0 where its default says that 0 is meant."""
    default = param.node.default
    return 0 if isinstance(default, ast.Num) and default.text == "0" else 1
