"""A linked module as LLVM IR text.

Functions and tables are numbered, so no name of a program stands in the text but the entries',
which the compiler makes. Each entry gets an external wrapper with a plain C signature: pointers,
i64 and double; a bool travels as an i64.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping

from quantdsl.codegen import wide
from quantdsl.codegen.function import FunctionEmitter, Shared, Signature
from quantdsl.codegen.simd_text import declaration
from quantdsl.codegen.target import Target
from quantdsl.codegen.tbaa import AliasTags
from quantdsl.codegen.text import LLVM_TYPE, Text, entry_symbol, literal
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import BOOL_T, BufferType, Const, Func, Module, TableDecl

# "no-builtins" keeps LLVM from making calls of memset and memcpy out of our loops: a hot path
# calls nothing outside its own code.
COMMON = 'mustprogress nofree norecurse nosync nounwind willreturn "no-builtins"'
ATTRIBUTES = [
    f"attributes #0 = {{ alwaysinline {COMMON} }}",
    # Left to itself LLVM would inline what the passes keep out of line to save compile time.
    f"attributes #1 = {{ noinline {COMMON} }}",
]


Body = Callable[[Shared, Signature], str]
"""The text of a function that says in LLVM IR what ours cannot."""
Outside = Callable[[Module, Shared], Iterator[str]]
"""What a module shows to its callers, as the lines of external functions."""


def entry_functions(module: Module, shared: Shared) -> Iterator[str]:
    """One wrapper for each entry."""
    for entry in module.entries:
        yield from _entry(shared.signatures[entry])


def emit(
    module: Module,
    target: Target,
    outside: Outside = entry_functions,
    *,
    weighed: bool = False,
    bodies: Mapping[str, Body] | None = None,
) -> str:
    """LLVM IR of a verified module; the same module and target give the same text.

    With `weighed` branches to copies of cold functions refer to metadata that the caller adds.
    Functions in `bodies` are written by those.
    """
    given = bodies or {}
    shared = Shared(
        Layout(module.structs),
        signatures(module),
        tables(module, target),
        AliasTags(),
    )
    called: set[str] = set()
    lines = [f'target triple = "{target.triple}"']
    lines += tables_text(module, target)
    parts: list[list[str]] = []
    for signature in shared.signatures.values():
        if signature.decl.name in module.imports:
            lines.append(import_text(signature))
            continue
        if signature.decl.name in given:
            parts.append([given[signature.decl.name](shared, signature)])
            continue
        text = (wide.text_of(target) if signature.decl.wide else None) or Text(
            target.intrinsics, target.stack
        )
        parts.append([*FunctionEmitter(shared, signature, text, weighed=weighed).lines()])
        called |= text.called
    # Callers first: LLVM inlines function by function in this order, so that each body is copied
    # into its last place at once, not up a chain of calls step by step.
    lines += itertools.chain.from_iterable(reversed(parts))
    lines += outside(module, shared)
    lines += (declaration(name) for name in sorted(called))
    return "\n".join([*lines, *ATTRIBUTES, *shared.tags.lines]) + "\n"


def signatures(module: Module) -> dict[str, Signature]:
    """Numbers for names; the two parts of a split program number what they share alike."""
    found = {f.name: Signature(f"f{index}", f) for index, f in enumerate(module.funcs)}
    for index, name in enumerate((*module.imports, *module.exports)):
        found[name] = Signature(f"quantdsl_shared_{index}", found[name].decl, True)
    return found


def import_text(signature: Signature) -> str:
    """The declaration of a function of the other part."""
    types = [param.type for param in signature.decl.params]
    params = ["ptr"] if signature.returns_struct else []
    params += (LLVM_TYPE[type_] if isinstance(type_, str) else "ptr" for type_ in types)
    return f"declare {signature.result} @{signature.symbol}({', '.join(params)}) #1"


def _entry(signature: Signature) -> Iterator[str]:
    text = Text(frozenset())
    params, args = [], []
    for index, param in enumerate(signature.decl.params):
        name = f"%p{index}"
        if isinstance(param.type, BufferType):
            # The host promises that a buffer shares no memory with anything else it passes.
            params.append(f"ptr noalias {name}")
            args.append(f"ptr {name}")
        elif not isinstance(param.type, str):
            params.append(f"ptr {name}")
            args.append(f"ptr {name}")
        elif param.type == BOOL_T:
            params.append(f"i64 {name}")
            args.append(f"i1 {text.value(f'icmp ne i64 {name}, 0')}")
        else:
            params.append(f"{LLVM_TYPE[param.type]} {name}")
            args.append(params[-1])
    call = f"call {signature.result} @{signature.symbol}({', '.join(args)})"
    result = _return(text, signature.decl, call)
    yield f"define {result} @{entry_symbol(signature.decl.name)}({', '.join(params)}) #1 {{"
    yield from text.lines
    yield "}"


def _return(text: Text, decl: Func, call: str) -> str:
    """Call and return the result; its C type."""
    if decl.result is None:
        text.do(call)
        text.end("ret void")
        return "void"
    assert isinstance(decl.result, str)
    value, type_ = text.value(call), LLVM_TYPE[decl.result]
    if decl.result == BOOL_T:
        value, type_ = text.value(f"zext i1 {value} to i64"), "i64"
    text.end(f"ret {type_} {value}")
    return type_


def tables(module: Module, target: Target) -> dict[str, tuple[str, TableDecl]]:
    """Each constant array: its address, as code of the target has it, and what it holds."""
    found = {}
    for index, table in enumerate(module.tables):
        address = f"@c{index}"
        if table.constant and target.constants is not None:
            address = f"addrspacecast (ptr addrspace({target.constants}) {address} to ptr)"
        found[table.name] = address, table
    return found


def tables_text(module: Module, target: Target) -> Iterator[str]:
    """The definitions of the constant arrays."""
    for index, table in enumerate(module.tables):
        apart = table.constant and target.constants is not None
        yield _table_text(index, table, f"addrspace({target.constants}) " if apart else "")


def _table_text(index: int, table: TableDecl, space: str) -> str:
    # A bool takes a word in a table too, as it does in all memory.
    scalar = "i64" if table.type == BOOL_T else table.type
    type_ = LLVM_TYPE[scalar]
    values = ", ".join(f"{type_} {literal(Const(scalar, bits))}" for bits in table.bits)
    head = f"@c{index} = internal unnamed_addr {space}constant"
    return f"{head} [{len(table.bits)} x {type_}] [{values}], align 8"
