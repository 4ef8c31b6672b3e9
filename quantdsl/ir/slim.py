"""A struct without the fields that no function names.

What lanes keep lies near their threads, where there is little room: a word less may let one more
warp in beside them.
"""

from msgspec.structs import replace

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Field, Module, StructOf, StructType
from quantdsl.ir.walk import nodes


def slim(module: Module, struct: str, state: StructType) -> Module:
    """The linked module whose `struct` has what its functions name of it; no function makes one.

    The host writes no path of the state that is gone.
    """
    every = [expr for func in module.funcs for expr in nodes(func.body)]
    assert not any(type(expr) is StructOf and expr.type.name == struct for expr in every)
    named = {expr.name for expr in every if type(expr) is Field}
    structs = tuple(
        replace(one, fields=tuple(part for part in one.fields if part.name in named))
        if one.name == struct
        else one
        for one in module.structs
    )
    before, left = (
        {leaf.path for leaf in Layout(some).leaves(state)} for some in (module.structs, structs)
    )
    assert module.given is not None
    paths = tuple(path for path in module.given.paths if path not in before - left)
    return replace(module, structs=structs, given=replace(module.given, paths=paths))
