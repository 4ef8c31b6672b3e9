"""Lanes along time ask for the rows of columns long before they load them.

A load is a tile ahead (check/panel_tiles.py): time enough for what lies in a GPU's cache, but not
for what lies in its memory while others use that too. To ask earlier for a row takes no register.
"""

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.own import EARLY, OWN, ROW
from quantdsl.ir.walk import rebuild_blocks

SOON = "soon@"
"""The function that asks: it does nothing by itself, a target says how."""


def ask_early(module: ops.Module, entry: str) -> ops.Module:
    """The module whose entry asks, with each word of its columns, for one EARLY rows further on."""
    rows = ops.i64(EARLY * dict(module.sizes)[ROW])

    def asked(stmt: ops.Stmt) -> tuple[ops.Stmt, ...]:
        match stmt:
            case ops.Let(value=ops.Elem(ops.Var(name), index)) if name == OWN:
                later = ops.Binary("iadd", index, rows)
                return stmt, ops.Do(ops.Call(SOON, (ops.Var(OWN), later)))
        return (rebuild_blocks(stmt, block),)

    def block(body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
        return tuple(new for stmt in body for new in asked(stmt))

    params = ops.ParamDecl(OWN, ops.BufferType(ops.I64_T)), ops.ParamDecl("at", ops.I64_T)
    soon = ops.Func(SOON, params, None, (), inline=True)
    funcs = (
        msgspec.structs.replace(func, body=block(func.body)) if func.name == entry else func
        for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=(soon, *funcs))
