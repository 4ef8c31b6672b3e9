"""How much code a strategy makes LLVM work for: counts that may fall and must not rise."""

from pathlib import Path

import llvmlite.binding as llvm
import pytest

from quantdsl.check import compile_file
from quantdsl.codegen.emit import emit
from quantdsl.codegen.target import native
from quantdsl.codegen.units import split
from quantdsl.passes import run_passes
from quantdsl.shipped import shipped

# The strategy's own code, then the part of the core that all strategies like it share. The windows
# of pairs_z are as long as a param says, so it has the sums of short ones and of long ones.
MOST = {"sma_cross": (886, 3_120), "pairs_z": (2_010, 3_595)}


def instructions(text: str) -> int:
    parsed = llvm.parse_assembly(text, llvm.create_context())
    blocks = (block for function in parsed.functions for block in function.blocks)
    return sum(1 for block in blocks for _ in block.instructions)


@pytest.mark.parametrize("name", MOST)
def test_llvm_gets_only_what_the_strategy_reaches(name: str) -> None:
    path: Path = shipped(f"strategies/{name}.qdsl")
    own, shared = split(run_passes(compile_file(path).module()))
    assert shared is not None
    counts = tuple(instructions(emit(part, native())) for part in (own, shared))
    assert all(count <= most for count, most in zip(counts, MOST[name], strict=True)), counts
