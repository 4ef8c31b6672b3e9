"""A program in two parts: its own code, and the cold code that it shares with other programs.

Most bars pass through a small part of the core; orders, fills and days are rare. The functions
that std marks `@cold` for that reason, with all that only they reach, become an object file of
their own. It is the same for every strategy that asks the same of the core, so it is compiled
once and then comes from the cache: a new strategy waits for its own code alone.
"""

import msgspec

from quantdsl.ir.link import Decl, link
from quantdsl.ir.ops import Call, Func, Module
from quantdsl.ir.walk import nodes


def split(module: Module) -> tuple[Module, Module | None]:
    """The program's own module and the shared one, None where it reaches nothing cold.

    What the shared module holds, and in which order, follows from its exports alone.
    """
    cold = {func.name for func in module.funcs if func.cold and not func.inline}
    own = set(module.entries)
    for func in reversed(module.funcs):  # callers stand after their callees
        if func.name in own - cold:
            own |= _callees(func)
    exports = tuple(sorted(own & cold))
    if not exports:
        return module, None
    funcs = tuple(
        msgspec.structs.replace(func, body=()) if func.name in cold else func
        for func in module.funcs
        if func.name in own
    )
    declared: dict[str, Decl] = {s.name: s for s in module.structs}
    declared |= {t.name: t for t in module.tables} | {f.name: f for f in module.funcs}
    linked = link(declared.get, exports, {})
    shared = msgspec.structs.replace(linked, entries=(), exports=exports)
    return msgspec.structs.replace(module, funcs=funcs, imports=exports), shared


def _callees(func: Func) -> set[str]:
    return {node.func for node in nodes(func.body) if type(node) is Call}
