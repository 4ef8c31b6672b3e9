"""The promise of `@critical_path`, held against the machine code of the handler that makes it."""

from quantdsl.check import Checked
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.proof import Proof
from quantdsl.codegen.target import native
from quantdsl.codegen.turn import function_proof
from quantdsl.ir.ops import Module
from quantdsl.lang.diagnostics import ERROR, Diagnostic, SourceError


def prove_critical(checked: Checked, module: Module, cache: Cache | None) -> None:
    """Raise SourceError at each `@critical_path` whose handler's machine code does not keep it.

    Nothing is said on a machine whose code cannot be read back.
    """
    target = native()
    if not target.triple.startswith("x86_64"):
        return
    found = [
        _broken(handler.promises.span, proof)
        for handler in checked.strategy.handlers
        if handler.promises.critical
        and not kept(proof := function_proof(module, handler.func, target, cache))
    ]
    if found:
        raise SourceError(checked.source, found)


def kept(proof: Proof) -> bool:
    """No fault and no call at all, not even of a function of the same object."""
    return proof.holds and not proof.calls


def _broken(span: tuple[int, int], proof: Proof) -> Diagnostic:
    first = proof.faults[0] if proof.faults else f"{proof.calls} calls of its own functions"
    return Diagnostic(
        "QD0901",
        ERROR,
        "the machine code of this handler does not keep '@critical_path'",
        span,
        note=first,
        reason="a critical path calls nothing and waits for nothing; all of it is inlined, as far "
        "as there is room",
        help="do less in this handler: what is repeated many times belongs in a loop",
    )
