"""Proof that an index is not negative, where it depends on loop counters.

`len - 1 - k` with k in 0..<len is at least 0 whatever len is at run time, which no interval of
constants can show. The expression is brought into linear form; a counter with a minus sign is
replaced by its last value, one with a plus sign by its first, and what is left must not be
negative when every other term is at its known least.
"""

from msgspec import Struct, field

from quantdsl.ir import ops

Terms = dict[ops.Expr, int]


class Ranges(Struct):
    """What is known about names: first and last value of counters, least value of others."""

    counters: dict[ops.Expr, tuple[ops.Expr, ops.Expr]] = field(default_factory=dict)
    least: dict[ops.Expr, int] = field(default_factory=dict)
    relied_on: set[ops.Expr] = field(default_factory=set)  # counters that a proof made use of
    open: list[ops.Expr] = field(default_factory=list)  # counters of the loops around this point

    def never_negative(self, expr: ops.Expr) -> bool:
        """True when expr >= 0 is proven; in a loop its last value is not below its first."""
        if self._proven(expr):
            return True
        for counter in self.open:
            first, last = self.counters[counter]
            turns = ops.Binary("isub", last, first)
            if self._proven(ops.Binary("isub", expr, turns)):
                self.relied_on.add(counter)
                return True
        return False

    def _proven(self, expr: ops.Expr) -> bool:
        terms, constant = linear(expr)
        for _ in range(len(self.counters) + 1):
            counter = next((atom for atom in terms if atom in self.counters), None)
            if counter is None:
                break
            self.relied_on.add(counter)
            factor = terms.pop(counter)
            first, last = self.counters[counter]
            more, offset = linear(first if factor > 0 else last)
            constant += factor * offset
            for atom, count in more.items():
                terms[atom] = terms.get(atom, 0) + factor * count
        for atom, factor in terms.items():
            if factor == 0:
                continue
            least = 1 if isinstance(atom, ops.SizeOf) else self.least.get(atom)
            if factor < 0 or least is None:
                return False
            constant += factor * least
        return constant >= 0


def linear(expr: ops.Expr) -> tuple[Terms, int]:
    """The expression as a sum of atoms times integers, plus a constant."""
    if isinstance(expr, ops.Const):
        return {}, int(expr.bits)
    if isinstance(expr, ops.Binary) and expr.op in ("iadd", "isub"):
        terms, constant = linear(expr.x)
        more, offset = linear(expr.y)
        sign = 1 if expr.op == "iadd" else -1
        total = dict(terms)
        for atom, factor in more.items():
            total[atom] = total.get(atom, 0) + sign * factor
        return total, constant + sign * offset
    return {expr: 1}, 0
