"""What the machine code of a hot path does and does not, read back from the object that is loaded.

Nothing here trusts the IR: the bytes are disassembled by capstone, every one of them, and the
control flow is followed from what they say. x86-64 only.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quantdsl.codegen import elf
from quantdsl.codegen.cycles import cycles
from quantdsl.codegen.text import entry_symbol
from quantdsl.errors import InternalError, UnavailableError

STACK_BYTES_MAX = 65_536
"""More than this and the deepest of a path may touch a page that was never mapped."""
WORD_BYTES = 8
ALIGNMENT = 16
"""Of the place where a turn of a loop begins anew: a fetch of instructions."""
SYSTEM = {"syscall", "sysenter", "int", "int3", "int1", "into", "hlt", "in", "out", "cpuid"}
REGISTER_BYTES = {"xmm": 16, "ymm": 32, "zmm": 64}


HELD = "no system call, no lock, no trap, no symbol of another object"


class Instruction(NamedTuple):
    """One instruction."""

    address: int
    size: int
    mnemonic: str
    operands: str

    @property
    def loads(self) -> bool:
        """Whether an operand is read from memory; a move to memory only writes."""
        first, _, rest = self.operands.partition(", ")
        if self.mnemonic in ("lea", "nop") or self.mnemonic.startswith("prefetch"):
            return False
        moves = self.mnemonic.startswith(("mov", "vmov", "set"))
        return "[" in rest or ("[" in first and not moves)

    @property
    def cycles(self) -> int:
        """The estimate of the table."""
        return cycles(self.mnemonic, loads=self.loads)

    @property
    def width(self) -> int:
        """Bytes of the widest vector register it names; 8 for none."""
        return max((n for kind, n in REGISTER_BYTES.items() if kind in self.operands), default=8)


class Loop(NamedTuple):
    """A loop of the machine code."""

    head: int
    instructions: int
    width_bytes: int
    """Of the widest registers that it computes in."""
    aligned: bool
    """Whether a jump to its next turn lands on a fetch. LLVM lets many a loop fall into its head,
    the test, and jump to what stands above it: that place is the one that counts."""


class Proof(NamedTuple):
    """What was found; `faults` are what a hot path must not have, one line each."""

    symbol: str
    code_bytes: int
    instructions: int
    calls: int
    """Places that call a function of the same object; each of those is proven like the rest."""
    callees: int
    stack_bytes: int
    """Of the deepest chain of its functions."""
    path_instructions: int
    path_cycles: int
    """Estimate, of the longest path on which each loop turns once."""
    loops: tuple[Loop, ...]
    prefetches: int
    constants: int
    """Places that name the object's own tables and functions; filled in as it is loaded."""
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether there is no fault; the object may call its own functions."""
        return not self.faults

    def lines(self) -> list[str]:
        """The proof for people."""
        aligned = sum(loop.aligned for loop in self.loops)
        wide = sum(loop.width_bytes > 16 for loop in self.loops)
        calls = "no call, " if not self.calls else ""
        own = f"  calls      {self.calls:,}, all to {self.callees} functions of its own"
        return [
            f"{self.symbol}: {self.instructions:,} instructions, {self.code_bytes:,} bytes, "
            "all disassembled",
            *(f"  FAULT      {fault}" for fault in self.faults),
            *([] if self.faults else [f"  holds      {calls}{HELD}"]),
            *([own] if self.calls else []),
            f"  constants  {self.constants:,} addresses of its own, filled in at loading",
            f"  stack      {self.stack_bytes:,} bytes",
            f"  path       {self.path_instructions:,} instructions, about {self.path_cycles:,} "
            "cycles, on the longest way, each loop once: an estimate",
            f"  loops      {len(self.loops)}, {aligned} whose turns begin aligned, {wide} in "
            "registers of 32 bytes or more",
            f"  prefetch   {self.prefetches} of what comes next",
        ]


class Unit(NamedTuple):
    """One function of an object: its code and whom it calls, by the address of each call."""

    name: str
    flow: "Flow"
    calls: dict[int, int]
    faults: tuple[str, ...]


def prove(code: bytes, entry: str) -> Proof:
    """The proof of one entry function of an object file, with all that it calls.

    Raises UnavailableError for an object that is not of x86-64.
    """
    if code[18:20] != b"\x3e\0":
        raise UnavailableError("machine code is proven on x86-64 only")
    found = elf.read(code)
    symbol = entry_symbol(entry)
    section, start, _ = found.function(symbol)
    units = _units(found, section)
    reached = _reached(units, start)
    faults = [f"{name} is left to others to define" for name in found.undefined]
    faults += [fault for one in reached for fault in units[one].faults]
    costs: dict[int, Cost] = {}
    for one in reached:  # callees first
        costs[one] = _cost(units[one], costs)
    if costs[start].stack_bytes > STACK_BYTES_MAX:
        faults.append(f"{costs[start].stack_bytes:,} bytes of stack, {STACK_BYTES_MAX:,} at most")
    instructions = [one for unit in reached for one in units[unit].flow.instructions]
    relocated = sum(place.section == section for place in found.relocations)
    return Proof(
        symbol, sum(one.size for one in instructions), len(instructions),
        sum(len(units[one].calls) for one in reached), len(reached) - 1,
        costs[start].stack_bytes, costs[start].instructions, costs[start].cycles,
        tuple(loop for one in reached for loop in units[one].flow.loops()),
        sum(one.mnemonic.startswith("prefetch") for one in instructions), relocated,
        tuple(faults),
    )  # fmt: skip


def _units(found: elf.Object, section: int) -> dict[int, Unit]:
    """The functions of a section by their start."""
    functions = {
        s.value: s for s in found.symbols if s.section == section and s.kind == elf.FUNCTION
    }
    places = {r.offset: r for r in found.relocations if r.section == section}
    units = {}
    for start, symbol in functions.items():
        flow = Flow(list(disassembled(found.function(symbol.name)[2], start)))
        if sum(one.size for one in flow.instructions) != symbol.size:
            raise InternalError(f"QD9511 codegen: {symbol.name}: not every byte is an instruction")
        calls = _calls(flow, places, section, functions)
        faults = tuple(
            fault for one in flow.instructions if one.address not in calls
            for fault in forbidden([one])
        )  # fmt: skip
        units[start] = Unit(symbol.name, flow, calls, faults)
    return units


def _calls(
    flow: "Flow",
    places: Mapping[int, elf.Relocation],
    section: int,
    functions: Mapping[int, elf.Symbol],
) -> dict[int, int]:
    """Address of a call -> start of the function of this object that it calls.

    A call goes to an address in the code, or through a register that holds such an address on every
    way that leads there. What is neither is left out, and so a fault.
    """
    before: dict[int, Held | None] = dict.fromkeys(flow.blocks)
    waiting = [flow.instructions[0].address]
    before[waiting[0]] = {}
    found: dict[int, int] = {}
    while waiting:
        head = waiting.pop()
        held = dict(before[head] or {})
        for one in flow.blocks[head]:
            if one.mnemonic == "call":
                relocated = one.address + one.size - 4 in places
                direct = one.operands.startswith("0x") and not relocated
                target = int(one.operands, 0) if direct else held.get(one.operands, -1)
                found[one.address] = target
            copied = held.get(one.operands.partition(", ")[2]) if one.mnemonic == "mov" else None
            for register in CLOBBERED if one.mnemonic == "call" else _written(one):
                held.pop(register, None)
            if copied is not None and one.operands.partition(", ")[0] in WHOLE:
                held[one.operands.partition(", ")[0]] = copied
            if one.mnemonic == "movabs":
                place = places.get(one.address + one.size - WORD_BYTES)
                if place is not None and place.target[0] == section:
                    held[one.operands.partition(",")[0]] = place.target[1]
        for after in flow.next[head]:
            known = before[after]
            both = held if known is None else dict(known.items() & held.items())
            if both != known:
                before[after] = both
                waiting.append(after)
    return {address: target for address, target in found.items() if target in functions}


Held = dict[str, int]
"""Registers that are known to hold the address of a place in the code."""


def _written(one: Instruction) -> set[str]:
    """The 64-bit names of the general registers that an instruction may write, or more."""
    first, _, rest = one.operands.partition(", ")
    written = {first}
    if one.mnemonic in ("xchg", "xadd", "mulx"):
        written.add(rest.partition(", ")[0])
    if one.mnemonic.split()[-1].startswith(IMPLICIT):
        written |= IMPLIED
    if one.mnemonic in ("push", "cmp", "test"):
        return set()
    return {full for name in written if (full := _FULL.get(name))}


def _families() -> Iterator[tuple[str, str]]:
    for letter in "abcd":
        yield from ((name, f"r{letter}x") for name in (
            f"r{letter}x", f"e{letter}x", f"{letter}x", f"{letter}l", f"{letter}h"))  # fmt: skip
    for name in ("si", "di", "bp", "sp"):
        yield from ((one, f"r{name}") for one in (f"r{name}", f"e{name}", name, f"{name}l"))
    for number in range(8, 16):
        yield from ((f"r{number}{end}", f"r{number}") for end in ("", "d", "w", "b"))


_FULL = dict(_families())
CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
"""Registers that a call need not keep."""
IMPLICIT = ("mul", "imul", "div", "idiv", "cq", "cd", "cw", "movs", "stos", "lods", "rdtsc", "xlat")
IMPLIED = {"rax", "rcx", "rdx", "rsi", "rdi"}
"""Instructions that begin so write some of these without naming them."""
WHOLE = set(_FULL.values())


def _reached(units: Mapping[int, Unit], start: int) -> list[int]:
    """The functions that one leads to, callees before their callers."""
    order: list[int] = []
    state: dict[int, int] = {start: 1}
    stack = [(start, iter(units[start].calls.values()))]
    while stack:
        one, rest = stack[-1]
        callee = next(rest, None)
        if callee is None:
            stack.pop()
            state[one] = 2
            order.append(one)
        elif state.get(callee) == 1:
            raise InternalError("QD9511 codegen: a function that calls itself")
        elif callee not in state:
            state[callee] = 1
            stack.append((callee, iter(units[callee].calls.values())))
    return order


class Cost(NamedTuple):
    """What a function takes at most, its callees counted; cycles are an estimate."""

    stack_bytes: int
    instructions: int
    cycles: int


def _cost(unit: Unit, costs: Mapping[int, Cost]) -> Cost:
    called = {address: costs[callee] for address, callee in unit.calls.items()}
    deepest = max((cost.stack_bytes for cost in called.values()), default=0)
    length, cycles_most = unit.flow.longest(called)
    return Cost(stack_bytes(unit.flow.instructions) + deepest, length, cycles_most)


def require(proof: Proof) -> None:
    """Raise InternalError where a proof does not hold."""
    if not proof.holds:
        raise InternalError(f"QD9512 codegen: {proof.symbol}: {'; '.join(proof.faults)}")


def disassembled(code: bytes, address: int) -> Iterator[Instruction]:
    """The instructions of some bytes, as far as they are any."""
    import capstone  # here alone: who proves nothing needs no disassembler

    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for found in machine.disasm_lite(code, address):
        yield Instruction(*found)


def forbidden(instructions: Iterable[Instruction]) -> Iterator[str]:
    """What no hot path may have, each with its address."""
    for one in instructions:
        name = one.mnemonic.split()[-1]
        where = f"at +{one.address:#x}: {one.mnemonic} {one.operands}".rstrip()
        if "call" in name and name not in SYSTEM:
            yield f"a call {where}"
        elif name in SYSTEM or name.startswith("int"):
            yield f"a call of the system {where}"
        elif one.mnemonic.startswith("lock") or (name == "xchg" and "[" in one.operands):
            yield f"a lock {where}"
        elif name == "jmp" and not one.operands.startswith("0x") and not one.operands.isdigit():
            yield f"a jump through a pointer {where}"
        elif name in ("ud2", "ud1"):
            yield f"a trap {where}"


def stack_bytes(instructions: Iterable[Instruction]) -> int:
    """How deep the function's own stack gets."""
    depth = WORD_BYTES  # the address it returns to
    for one in instructions:
        if one.mnemonic == "push":
            depth += WORD_BYTES
        elif one.mnemonic == "sub" and one.operands.startswith("rsp, "):
            size = one.operands.removeprefix("rsp, ")
            if not size.startswith("0x") and not size.isdigit():
                raise InternalError("QD9511 codegen: a stack of no fixed size")
            depth += int(size, 0)
        elif one.mnemonic.startswith("j"):
            break  # the frame is complete before the first branch
    return depth


class Flow:
    """The blocks of a function and where each may go."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self.instructions = instructions
        known = {one.address for one in instructions}
        heads = {instructions[0].address}
        targets: dict[int, int] = {}
        for one, after in zip(instructions, [*instructions[1:], None], strict=True):
            if not one.mnemonic.startswith("j"):
                if one.mnemonic.startswith("ret") and after is not None:
                    heads.add(after.address)
                continue
            if one.operands.startswith("0x") or one.operands.isdigit():
                target = int(one.operands, 0)
                if target not in known:
                    raise InternalError("QD9511 codegen: a jump out of the function")
                targets[one.address] = target
                heads.add(target)
            if after is not None:
                heads.add(after.address)
        self.blocks = _blocks(instructions, heads)
        self.next = {
            head: self._after(block, targets, heads) for head, block in self.blocks.items()
        }

    def _after(
        self, block: list[Instruction], targets: Mapping[int, int], heads: set[int]
    ) -> list[int]:
        last = block[-1]
        falls = last.address + last.size
        if last.mnemonic.startswith(("ret", "ud")):
            return []
        if last.mnemonic == "jmp":
            if last.address in targets:
                return [targets[last.address]]
            return []  # through a pointer: a fault
        found = [targets[last.address]] if last.address in targets else []
        return [*found, falls] if falls in heads else found

    def _order(self) -> tuple[list[int], set[tuple[int, int]]]:
        """Blocks so that each comes after those it leads to, and the edges that go back."""
        order: list[int] = []
        back: set[tuple[int, int]] = set()
        state: dict[int, int] = {}
        for root in self.blocks:
            if root in state:
                continue
            stack: list[tuple[int, Iterator[int]]] = [(root, iter(self.next[root]))]
            state[root] = 1
            while stack:
                head, rest = stack[-1]
                successor = next(rest, None)
                if successor is None:
                    stack.pop()
                    state[head] = 2
                    order.append(head)
                elif state.get(successor) == 1:
                    back.add((head, successor))
                elif successor not in state:
                    state[successor] = 1
                    stack.append((successor, iter(self.next[successor])))
        return order, back

    def longest(self, called: Mapping[int, Cost]) -> tuple[int, int]:
        """(instructions, cycles) of the way that costs most, each loop turned once; `called` is
        what a call costs, by its address.
        """
        order, back = self._order()
        best: dict[int, tuple[int, int]] = {}
        for head in order:
            block = self.blocks[head]
            after = max(
                (best[s] for s in self.next[head] if (head, s) not in back),
                key=lambda way: way[1],
                default=(0, 0),
            )
            callees = [called[one.address] for one in block if one.address in called]
            best[head] = (
                len(block) + sum(cost.instructions for cost in callees) + after[0],
                sum(one.cycles for one in block) + sum(c.cycles for c in callees) + after[1],
            )
        return max(best.values(), key=lambda way: way[1])

    def loops(self) -> Iterator[Loop]:
        """Each loop, by its head."""
        insides = self._insides()
        landings = self._landings(insides)
        for head, inside in sorted(insides.items()):
            body = [one for block in inside for one in self.blocks[block]]
            aligned = any(landing % ALIGNMENT == 0 for landing in landings[head])
            yield Loop(head, len(body), _computed(body), aligned)

    def _insides(self) -> dict[int, set[int]]:
        """The head of each loop -> the blocks that lead back to it."""
        before: dict[int, list[int]] = {}
        for head, successors in self.next.items():
            for successor in successors:
                before.setdefault(successor, []).append(head)
        _, back = self._order()
        ends: dict[int, list[int]] = {}
        for tail, head in back:
            ends.setdefault(head, []).append(tail)
        insides = {}
        for head, waiting in ends.items():
            inside = insides[head] = {head}
            while waiting:
                block = waiting.pop()
                if block not in inside:
                    inside.add(block)
                    waiting += before.get(block, [])
        return insides

    def _landings(self, insides: Mapping[int, set[int]]) -> dict[int, set[int]]:
        """The head of each loop -> where its jumps backwards land; those of loops in it are not
        its own.
        """
        smallest_first = sorted(insides, key=lambda head: len(insides[head]))
        landings: dict[int, set[int]] = {head: set() for head in insides}
        for block, successors in self.next.items():
            for landing in successors:
                around = (head for head in smallest_first if {block, landing} <= insides[head])
                if landing <= block and (own := next(around, None)) is not None:
                    landings[own].add(landing)
        return landings


def _blocks(instructions: list[Instruction], heads: set[int]) -> dict[int, list[Instruction]]:
    blocks: dict[int, list[Instruction]] = {}
    current: list[Instruction] = []
    for one in instructions:
        if one.address in heads:
            current = blocks.setdefault(one.address, [])
        current.append(one)
    return blocks


def _computed(body: Iterable[Instruction]) -> int:
    """Bytes of the widest registers in which a loop computes: moves alone are no computation."""
    moves = ("vmov", "mov", "vpxor", "vxorp", "vzero")
    return max((one.width for one in body if not one.mnemonic.startswith(moves)), default=8)
