"""The IR as text for people: golden files, `explain --stage`, messages of the verifier.

One line a statement, four spaces a level, operations written as calls: `fadd(x.1, 2.0)`. The text
is exact (floats print so that they read back to the same bits) but is never parsed.
"""

from collections.abc import Iterator

from quantdsl.ir.ops import (
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    If,
    Let,
    Module,
    Node,
    ParamDecl,
    Return,
    Select,
    Size,
    SizeName,
    SizeOf,
    SizeOp,
    Stmt,
    StructDecl,
    StructOf,
    StructType,
    Table,
    TableDecl,
    Type,
    Unary,
    Var,
    While,
    bits_to_f64,
)

INDENT = "    "


def show(module: Module) -> str:
    """The whole module; ends with a newline."""
    parts = [f"entries {', '.join(module.entries)}"]
    if module.sizes:
        parts[0] += "\nsizes " + ", ".join(f"{name} = {value}" for name, value in module.sizes)
    parts += [show_node(node) for node in (*module.structs, *module.tables, *module.funcs)]
    return "\n\n".join(parts) + "\n"


def show_node(node: Node) -> str:
    """Any one node, for messages; a statement or declaration may take several lines."""
    match node:
        case Module():
            return f"module of {', '.join(node.entries)}"
        case Func():
            return "\n".join(_func_lines(node))
        case StructDecl():
            fields = (f"{INDENT}{field.name}: {_type(field.type)}" for field in node.fields)
            return "\n".join([f"struct {node.name}{_names(node.sizes)}", *fields])
        case TableDecl():
            values = ", ".join(_literal(node.type, bits) for bits in node.bits)
            return f"table {node.name}: {node.type} = {values}"
        case ParamDecl():
            return _param(node)
        case Let() | Assign() | Do() | If() | For() | While() | Break() | Continue() | Return():
            return "\n".join(_stmt_lines(node, ""))
        case ArrayType() | BufferType() | StructType():
            return _type(node)
        case _:
            return _expr(node)  # type: ignore[arg-type]


def _func_lines(func: Func) -> Iterator[str]:
    params = ", ".join(map(_param, func.params))
    result = "" if func.result is None else f" -> {_type(func.result)}"
    inline = " inline" if func.inline else ""
    yield f"fn {func.name}{_names(func.sizes)}({params}){result}{inline}"
    yield from _body_lines(func.body, INDENT)


def _body_lines(body: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    for stmt in body:
        yield from _stmt_lines(stmt, indent)


def _stmt_lines(stmt: Stmt, indent: str) -> Iterator[str]:
    inner = indent + INDENT
    match stmt:
        case Let():
            value = "" if stmt.value is None else f" = {_expr(stmt.value)}"
            yield f"{indent}let {stmt.name}: {_type(stmt.type)}{value}"
        case Assign():
            yield f"{indent}{_expr(stmt.place)} = {_expr(stmt.value)}"
        case Do():
            yield f"{indent}do {_expr(stmt.call)}"
        case If():
            yield f"{indent}if {_expr(stmt.cond)}"
            yield from _body_lines(stmt.then, inner)
            if stmt.otherwise:
                yield f"{indent}else"
                yield from _body_lines(stmt.otherwise, inner)
        case For():
            yield f"{indent}for {stmt.name} in {_expr(stmt.lo)} ..< {_expr(stmt.hi)}"
            yield from _body_lines(stmt.body, inner)
        case While():
            yield f"{indent}while {_expr(stmt.cond)} max {_expr(stmt.max)}"
            yield from _body_lines(stmt.body, inner)
        case Break():
            yield f"{indent}break"
        case Continue():
            yield f"{indent}continue"
        case Return():
            value = "" if stmt.value is None else f" {_expr(stmt.value)}"
            yield f"{indent}return{value}"


def _expr(expr: Expr) -> str:
    match expr:
        case Const():
            return _literal(expr.type, expr.bits)
        case SizeOf():
            return f"sizeof({_size(expr.size)})"
        case Var() | Table():
            return expr.name
        case Field():
            return f"{_expr(expr.base)}.{expr.name}"
        case Elem():
            return f"{_expr(expr.base)}[{_expr(expr.index)}]"
        case Unary():
            return f"{expr.op}({_expr(expr.x)})"
        case Binary():
            return f"{expr.op}({_expr(expr.x)}, {_expr(expr.y)})"
        case Fma():
            name = "fma32" if expr.single else "fma"
            return f"{name}({_expr(expr.x)}, {_expr(expr.y)}, {_expr(expr.z)})"
        case Select():
            return f"select({_expr(expr.cond)}, {_expr(expr.x)}, {_expr(expr.y)})"
        case Call():
            return f"{expr.func}{_sizes(expr.sizes)}({', '.join(map(_expr, expr.args))})"
        case StructOf():
            return f"{_type(expr.type)}{{{', '.join(map(_expr, expr.values))}}}"


def _literal(type_: str, bits: int) -> str:
    """Shows wrong bits too: the verifier calls this to say that they are wrong."""
    if type_ == "f64" and 0 <= bits < 2**64:
        return repr(bits_to_f64(bits))
    return {0: "false", 1: "true"}.get(bits, str(bits)) if type_ == "bool" else str(bits)


def _type(type_: Type) -> str:
    if isinstance(type_, str):
        return type_
    if isinstance(type_, ArrayType):
        return f"{_type(type_.elem)}[{_size(type_.size)}]"
    if isinstance(type_, BufferType):
        return f"buffer[{_type(type_.elem)}]"
    return f"{type_.name}{_sizes(type_.sizes)}"


def _param(param: ParamDecl) -> str:
    return f"{'inout ' if param.inout else ''}{param.name}: {_type(param.type)}"


def _size(size: Size) -> str:
    if isinstance(size, SizeName):
        return size.name
    if isinstance(size, SizeOp):
        if size.op == "pow2":
            return f"pow2({_size(size.left)})"
        if size.op == "max":
            return f"max({_size(size.left)}, {_size(size.right)})"
        return f"({_size(size.left)} {size.op} {_size(size.right)})"
    return str(size)


def _sizes(sizes: tuple[Size, ...]) -> str:
    return f"<{', '.join(map(_size, sizes))}>" if sizes else ""


def _names(names: tuple[str, ...]) -> str:
    return f"<{', '.join(names)}>" if names else ""
