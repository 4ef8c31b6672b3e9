"""Walking the syntax tree."""

from collections.abc import Iterator

from quantdsl.lang import ast


def inside(node: ast.Node) -> Iterator[ast.Node]:
    """The node and all that it holds, as written."""
    yield node
    for name in node.__struct_fields__:
        part = getattr(node, name)
        yield from _nodes(part)


def _nodes(part: object) -> Iterator[ast.Node]:
    if isinstance(part, ast.Node):
        yield from inside(part)
    elif isinstance(part, tuple):
        for one in part:
            yield from _nodes(one)


Declaration = ast.Let | ast.Var | ast.State | ast.ParamDecl | ast.Param | ast.For


def declared(node: ast.Node, name: str) -> list[Declaration]:
    """All in it that is given this name."""
    return [one for one in inside(node) if isinstance(one, Declaration) and one.name.id == name]
