"""What annotations say of machine code, held against the code of what they stand above."""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.check import Checked
from quantdsl.check.annotations import Mark
from quantdsl.codegen import wide
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.proof import Proof
from quantdsl.codegen.target import WIDE, Target, native
from quantdsl.codegen.turn import ALONE, alone, function_proof, whole
from quantdsl.ir.ops import Const, For, Module
from quantdsl.lang.diagnostics import ERROR, Diagnostic, SourceError
from quantdsl.lang.source import Source

CALLS_NOTHING = ("critical_path", "inline_always")
WORD_BYTES = 8
REASONS = {
    "critical_path": "a critical path calls nothing and waits for nothing; all of it is inlined, "
    "as far as there is room",
    "no_allocation": "what allocates has to ask the system or another object, and may wait for it",
    "inline_always": "a call costs registers and a jump; all is inlined, as far as there is room",
    "vectorizable": f"{WIDE} turns of a loop go at once where none of them needs another: each "
    "makes values of its own and adds them up as integers",
}
HELPS = {"vectorizable": "leave the annotation away: it changes no result"}
SMALLER = "do less in it: what is repeated many times belongs in a loop"


class Marked(NamedTuple):
    """Something with annotations that machine code is held against."""

    title: str
    func: str
    """Its name in the linked module."""
    source: Source
    marks: tuple[Mark, ...]


def marked(checked: Checked, module: Module) -> Iterator[Marked]:
    """The handlers and functions of a linked module of which something is said."""
    for handler in checked.strategy.handlers:
        if handler.promises.marks:
            title = f"on {handler.event}"
            yield Marked(title, handler.func, checked.source, handler.promises.marks)
    for func in module.funcs:
        found = checked.library.marked.get(func.name.partition("[")[0])
        if found is not None:
            yield Marked(f"fn {func.name}", func.name, found[0].source, found[1])


def prove_critical(checked: Checked, module: Module, cache: Cache | None) -> None:
    """Raise SourceError at each annotation that the machine code does not keep.

    Nothing is said on a machine whose code cannot be read back.
    """
    target = native()
    if not target.triple.startswith("x86_64"):
        return
    for one in marked(checked, module):
        proof = function_proof(module, one.func, target, cache)
        found = [told for mark in one.marks for told in broken(module, one, mark, proof)]
        if found:
            raise SourceError(one.source, found)


def kept(proof: Proof) -> bool:
    """No fault and no call at all, not even of a function of the same object."""
    return proof.holds and not proof.calls


def broken(module: Module, one: Marked, mark: Mark, proof: Proof) -> Iterator[Diagnostic]:
    """How machine code breaks what an annotation says."""
    if mark.name == "vectorizable":
        yield from _narrow(module, one, mark, proof)
    elif not proof.holds:
        yield _broken(mark, mark.span, proof.faults[0])
    elif mark.name in CALLS_NOTHING and not kept(proof):
        yield _broken(mark, mark.span, f"{proof.calls} calls of its own functions")


def _narrow(module: Module, one: Marked, mark: Mark, proof: Proof) -> Iterator[Diagnostic]:
    """The inner loops that are not in wide registers."""
    written = next(func for func in module.funcs if func.name == one.func)
    loops = list(wide.loops(written))
    same = len(loops) == len(mark.loops)  # else the text has loops that a size decided
    found = [(at, why) for at, loop in enumerate(loops) if (why := wide.obstacle(loop))]
    for at, why in found:
        yield _broken(mark, mark.loops[at] if same else mark.span, why)
    if found:
        return
    if not loops:
        yield _broken(mark, mark.span, "there is no loop in it")
    count = sum(loop.width_bytes >= WIDE * WORD_BYTES for loop in proof.loops)
    if count < (wanted := turning(module, one.func)):
        yield _broken(mark, mark.span, f"{count} of its {wanted} loops are in wide registers")


def turning(module: Module, name: str) -> int:
    """The inner loops of a function by itself that turn more than once in wide registers."""
    funcs = whole(alone(module, name), ALONE).funcs
    return sum(not _once(loop) for func in funcs if func.name == name for loop in wide.loops(func))


def _once(loop: object) -> bool:
    match loop:
        case For(_, Const(_, lo), Const(_, hi)):
            return hi - lo <= WIDE
    return False


def _broken(mark: Mark, span: tuple[int, int], note: str) -> Diagnostic:
    return Diagnostic(
        "QD0901",
        ERROR,
        f"the machine code does not keep '@{mark.name}'",
        span,
        note=note,
        reason=REASONS[mark.name],
        help=HELPS.get(mark.name, SMALLER),
    )


def proofs(
    checked: Checked, module: Module, target: Target, cache: Cache | None
) -> Iterator[tuple[str, Proof]]:
    """Each handler by itself, and each function of which something is said."""
    for handler in checked.strategy.handlers:
        yield f"on {handler.event}", function_proof(module, handler.func, target, cache)
    for one in marked(checked, module):
        if not one.func.startswith("handler."):
            yield one.title, function_proof(module, one.func, target, cache)
