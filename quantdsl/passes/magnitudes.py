"""How large the numbers of a straight line can be at most, where that is known.

Prices and sizes are counts of ticks and lots, so what is formed of them is never missing nor beyond
what sums are made of, nor is what lanes were asked about (tried.py); indicators ask it all the
same, at each bar.
"""

import math
from collections.abc import Mapping

from quantdsl.ir import ops
from quantdsl.passes.divide import RANGE

MOST = 1000
"""Beyond this nothing is known, nor of what is formed of it: results might be infinite."""
COUNT = 63
"""Of an i64."""
UNIT = 53
"""Of what turns counts into floats (divide.py)."""


class Magnitudes:
    """For each local of which it is known: it is not missing, and |value| <= 2^e."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known = {name: most for name, most in known.items() if most <= MOST}

    def assign(self, name: str, most: int | None) -> None:
        """A local has another value."""
        if most is None:
            self.known.pop(name, None)
        else:
            self.known[name] = most

    def most(self, expr: ops.Expr) -> int | None:
        """The e of a number."""
        found = self._formed(expr)
        return None if found is None or found > MOST else found

    def _formed(self, expr: ops.Expr) -> int | None:
        """The e of a number that is formed of others, if those are known."""
        match expr:
            case ops.Const(ops.F64_T):
                return exponent(expr)
            case ops.Var(name):
                return self.known.get(name)
            case ops.Unary("i64_to_f64"):
                return COUNT
            case ops.Unary("fneg" | "fabs", x):
                return self.most(x)
            case ops.Binary("fadd" | "fsub", x, y):
                return self._both(x, y, 1)
            case ops.Binary("fmax" | "fmin", x, y) | ops.Select(_, x, y):
                return self._both(x, y, 0)
            case ops.Binary("fmul", x, y):
                return self._product(x, y)
            case ops.Fma(x, y, z, single=False):  # a single one may be infinite
                product, more = self._product(x, y), self.most(z)
                return None if product is None or more is None else max(product, more) + 1
        return None

    def _both(self, x: ops.Expr, y: ops.Expr, more: int) -> int | None:
        a, b = self.most(x), self.most(y)
        return None if a is None or b is None else max(a, b) + more

    def _product(self, x: ops.Expr, y: ops.Expr) -> int | None:
        a, b = self.most(x), self.most(y)
        return None if a is None or b is None else a + b

    def quotient(self, x: ops.Expr, y: ops.Expr) -> int | None:
        """The e of x / y, where both fit (divide.py)."""
        most = self.most(x)
        if most is None or self.most(y) is None:
            return None
        whole = isinstance(y, ops.Unary) and y.op == "i64_to_f64"
        return min(most, RANGE) + (0 if whole else RANGE)

    def answer(self, asked: ops.Expr) -> bool | None:
        """What a comparison of a number's size says, or whether it is missing."""
        match asked:
            case ops.Unary("isnan", x):
                return None if self.most(x) is None else False
            case ops.Binary("fle" | "flt", ops.Unary("fabs", x), ops.Const() as bound):
                return True if self._below(x, bound) else None
            case ops.Binary("flt", ops.Const() as bound, ops.Unary("fabs", x)):
                return False if self._below(x, bound) else None
        return None

    def _below(self, x: ops.Expr, bound: ops.Const) -> bool:
        """Whether |x| is less than another number."""
        most = self.most(x)
        return most is not None and 2.0**most < bound.value


def exponent(number: ops.Const) -> int | None:
    """The e of one that is known."""
    return math.frexp(number.value)[1] if math.isfinite(number.value) else None
