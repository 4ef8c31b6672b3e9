"""Drop functions and tables that no entry reaches any more, before LLVM has to read them.

Structs stay: the host finds fields in them, called or not.
"""

import msgspec

from quantdsl.ir.ops import Call, Module, Table
from quantdsl.ir.walk import nodes


def drop_unused(module: Module) -> Module:
    """The module without unreachable functions and tables."""
    functions, tables = set(module.entries), set()
    for func in reversed(module.funcs):  # callers stand after their callees
        if func.name not in functions:
            continue
        for expr in nodes(func.body):
            if type(expr) is Call:
                functions.add(expr.func)
            elif type(expr) is Table:
                tables.add(expr.name)
    return msgspec.structs.replace(
        module,
        funcs=tuple(func for func in module.funcs if func.name in functions),
        tables=tuple(table for table in module.tables if table.name in tables),
    )
