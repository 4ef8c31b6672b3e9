"""Keep cold functions, and large ones that are called from many places, out of line.

Inlining everything would copy them once a call, and chains of such calls would double at each
link: a small program could ask for more code than the machine can hold. With this pass the code
is never larger than the functions as written plus INLINE_NODES for each call.
"""

from collections import Counter
from collections.abc import Set

import msgspec

from quantdsl.ir.ops import Call, Func, Module
from quantdsl.ir.walk import nodes

INLINE_NODES = 80
"""A function of more expressions than this, its inlined callees included, is copied only once."""
COLD_NODES = 400
"""The same where cold functions are copied too."""
ROOMY_NODES = 2_000
"""The same where no copy takes registers that others need."""


def outline_large(module: Module) -> Module:
    """The module with `inline` taken from functions that are cold or too large to copy."""
    inlined, _ = inlined_up_to(module, INLINE_NODES, as_asked=True)
    funcs = tuple(_with_inline(func, inlined[func.name]) for func in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def inline_cold(module: Module, limit: int = COLD_NODES, called: Set[str] = frozenset()) -> Module:
    """The module without cold functions: those with one caller, and smaller ones, are copied.

    A call costs a GPU the registers that it saves, and what is known of memory around it. Those
    that are to be `called` are not copied: they would take registers of what surrounds them.
    """
    inlined, _ = inlined_up_to(module, limit)
    funcs = tuple(
        msgspec.structs.replace(
            func, inline=inlined[func.name] and func.name not in called, cold=False
        )
        for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


def inlined_up_to(
    module: Module, limit: int, *, as_asked: bool = False
) -> tuple[dict[str, bool], int]:
    """Which functions are copied into their callers, and how many expressions there are then.

    Those of at most `limit` expressions, inlined callees included, and those with one caller; where
    it is to be `as_asked`, none that is cold or not marked `inline`.
    """
    calls, own = {}, {}
    for func in module.funcs:
        inside = nodes(func.body)
        own[func.name] = len(inside)
        calls[func.name] = Counter(node.func for node in inside if type(node) is Call)
    callers = Counter[str]()
    for counted in calls.values():
        callers.update(counted)
    sizes: dict[str, int] = {}
    inlined: dict[str, bool] = {}
    for func in module.funcs:  # callees stand before their callers
        sizes[func.name] = own[func.name] + sum(
            sizes[name] * count for name, count in calls[func.name].items() if inlined[name]
        )
        small = sizes[func.name] <= limit or callers[func.name] <= 1
        inlined[func.name] = small and (not as_asked or (func.inline and not func.cold))
    size = sum(count for name, count in sizes.items() if not inlined[name] or not callers[name])
    return inlined, size


def _with_inline(func: Func, inline: bool) -> Func:
    return func if func.inline == inline else msgspec.structs.replace(func, inline=inline)
