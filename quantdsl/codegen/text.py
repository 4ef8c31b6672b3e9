"""LLVM IR text of one function in the making.

Text, not llvmlite.ir objects: it is built several times faster, and LLVM parses it at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from quantdsl.errors import InternalError
from quantdsl.ir.ops import BOOL_T, F64_T, I64_T, Const

LLVM_TYPE = {BOOL_T: "i1", I64_T: "i64", F64_T: "double"}


def entry_symbol(name: str) -> str:
    """The external symbol of an entry function."""
    if not (name.isascii() and name.isidentifier()):
        raise InternalError(f"QD9503 codegen: {name!r} cannot name an entry function")
    return f"quantdsl_{name}"


class Text:
    """Instructions in order; values are `%t1`, `%t2`, ..., blocks `b1`, `b2`, ..."""

    def __init__(self, intrinsics: frozenset[str], stack: int | None = None) -> None:
        self.head: list[str] = []
        """Allocas: they stand at the start of the entry block, where LLVM promotes them."""
        self.lines: list[str] = []
        self.called: set[str] = set()
        self.block = "entry"
        self.ended = False
        self._intrinsics, self._stack = intrinsics, stack
        self._names = 0
        self._known: dict[str, str] = {}
        """Instruction -> name, of the pure instructions that dominate this point."""
        self._order: list[str] = []

    def value(self, instruction: str) -> str:
        """Append an instruction; the name of its result."""
        self._names += 1
        name = f"%t{self._names}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def pure(self, instruction: str) -> str:
        """The value of an instruction that gives the same wherever it stands; emitted once.

        LLVM would find the repetitions too, but late: it reads half as much this way.
        """
        name = self._known.get(instruction)
        if name is None:
            name = self._known[instruction] = self.value(instruction)
            self._order.append(instruction)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is emitted inside `with` may not run, so its values are unknown after it."""
        start = len(self._order)
        yield
        for instruction in self._order[start:]:
            del self._known[instruction]
        del self._order[start:]

    def do(self, instruction: str) -> None:
        """Append an instruction without result."""
        self.lines.append(f"  {instruction}")

    def alloca(self, type_: str, align: int = 8) -> str:
        """Stack memory of the function, at a multiple of so many bytes; the name of its address."""
        self._names += 1
        name = f"%a{self._names}"
        self.head += alloca(name, type_, align, self._stack)
        return name

    def has(self, intrinsic: str) -> bool:
        """Whether the target is known to lower an intrinsic."""
        return intrinsic in self._intrinsics

    def intrinsic(self, name: str, *operands: str) -> str:
        """Call a float intrinsic that the target is known to lower."""
        if name not in self._intrinsics:
            raise InternalError(f"QD9501 codegen: {name} is not on the target's list")
        self.called.add(name)
        type_ = "float" if name.endswith("f32") else "double"
        return self.pure(f"call {type_} @{name}({', '.join(f'{type_} {x}' for x in operands)})")

    def label(self) -> str:
        """The name of a block to come."""
        self._names += 1
        return f"b{self._names}"

    def start(self, label: str) -> None:
        """Start a block; what came before must have ended."""
        self.lines.append(f"{label}:")
        self.block = label
        self.ended = False

    def end(self, terminator: str) -> None:
        """End the block."""
        self.lines.append(f"  {terminator}")
        self.ended = True

    def jump(self, label: str) -> None:
        """End the block with a jump, if it has not ended."""
        if not self.ended:
            self.end(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str, weights: str = "") -> None:
        """End the block with a choice."""
        self.end(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")


def alloca(name: str, type_: str, align: int, stack: int | None) -> list[str]:
    """Stack memory under a name; where it has an address space of its own, by a plain pointer."""
    if stack is None:
        return [f"  {name} = alloca {type_}, align {align}"]
    return [
        f"  {name}.own = alloca {type_}, align {align}, addrspace({stack})",
        f"  {name} = addrspacecast ptr addrspace({stack}) {name}.own to ptr",
    ]


def literal(const: Const) -> str:
    """A constant as LLVM reads it: floats as bit patterns."""
    if const.type == F64_T:
        return f"0x{const.bits:016X}"
    return ("false", "true")[const.bits] if const.type == BOOL_T else str(const.bits)
