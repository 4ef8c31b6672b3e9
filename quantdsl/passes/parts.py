"""An entry taken apart: what it loads before its loop over events, and what it stores behind it."""

from typing import NamedTuple

from quantdsl.ir.ops import Assign, For, Func, Let, Return, Var
from quantdsl.ir.walk import statements
from quantdsl.passes.scopes import promoted


class Parts(NamedTuple):
    """An entry: words are loaded, turns are made, words are stored."""

    head: tuple[Let, ...]
    loop: For
    tail: tuple[tuple[str, Assign], ...]
    """The local that is stored, and how."""


def parts_of(func: Func) -> Parts | None:
    """The parts of an entry; None where it is more than one loop over words held in locals."""
    loops = [(at, stmt) for at, stmt in enumerate(func.body) if isinstance(stmt, For)]
    if len(loops) != 1 or any(isinstance(stmt, Return) for stmt in statements(func.body)):
        return None
    at, loop = loops[0]
    held = promoted(func)
    head = tuple(stmt for stmt in func.body[:at] if isinstance(stmt, Let) and stmt.name in held)
    tail = tuple(
        (stmt.value.name, stmt)
        for stmt in func.body[at + 1 :]
        if isinstance(stmt, Assign) and isinstance(stmt.value, Var) and stmt.value.name in held
    )
    inner = [stmt for stmt in statements((loop,)) if isinstance(stmt, Let)]
    if len(head) + 1 + len(tail) != len(func.body):
        return None
    return Parts(head, loop, tail) if all(isinstance(let.type, str) for let in inner) else None
