"""Which names a declaration may take, and that an argument is named once."""

from collections.abc import MutableMapping
from typing import Any

from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context
from quantdsl.check.values import error_value
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

VALUE = "value"
FREE = "free"  # of a name that means something only in a later version


def _builtin(found: Binding | Local) -> str:
    """What kind of name of the language this is; empty for one of the user's own."""
    if isinstance(found, Local):
        return VALUE if found.span == (0, 0) else ""
    return found.builtin


def enter(
    cx: Context,
    names: MutableMapping[str, Any],
    name: ast.Ident,
    known: "Binding | Local | None",
    binding: "Binding | Local",
) -> None:
    """Make `name` mean `binding` in `names`, or report why it cannot; nothing follows from that."""
    if admit(cx, name, known, own=name.id in names):
        names[name.id] = binding
    elif known is not None and _builtin(known):
        names[name.id] = Local(error_value(name.span), name.span, used=True)


def admit(cx: Context, name: ast.Ident, known: "Binding | Local | None", *, own: bool) -> bool:
    """Whether `name` may be declared where `known` is what it has meant so far.

    A builtin value may be hidden, which is said; a namespace or function never, so that `ta.sma`
    and `buy(...)` mean the same in every file. `own` forbids a second declaration of the user's.
    """
    if known is None or cx.module.std or name.id == "_":
        return True
    kind = _builtin(known)
    if kind == FREE:
        return True
    if kind == VALUE:
        cx.warn(
            "QD0206",
            f"{name.id!r} hides what the language calls so",
            name.span,
            help="give it another name, unless that is meant",
        )
        return True
    if kind:
        cx.error(
            "QD0206",
            f"{name.id!r} is a {kind} of the language",
            name.span,
            help=f"give it another name, such as my_{name.id}",
            edit=(name.span, f"my_{name.id}"),
        )
        return False
    if own:
        place = getattr(known, "span", None)
        cx.error(
            "QD0208",
            f"{name.id!r} is defined already",
            name.span,
            labels=(Label(place, "here"),) if place else (),
        )
    return not own


def repeated(cx: Context, args: tuple[ast.Arg, ...]) -> bool:
    """True after reporting an argument that is given twice."""
    first: dict[str, ast.Arg] = {}
    for arg in args:
        if arg.name is None:
            continue
        if arg.name in first:
            cx.error(
                "QD0308",
                f"'{arg.name} =' is given twice",
                arg.span,
                labels=(Label(first[arg.name].span, "here already"),),
            )
            return True
        first[arg.name] = arg
    return False


def distinct(cx: Context, names: tuple[ast.Ident, ...]) -> None:
    """Report a name that stands twice in one list of members, fields or parameters."""
    first: dict[str, ast.Ident] = {}
    for name in names:
        if name.id in first:
            cx.error(
                "QD0208",
                f"{name.id!r} is defined already",
                name.span,
                labels=(Label(first[name.id].span, "here"),),
            )
        first.setdefault(name.id, name)
