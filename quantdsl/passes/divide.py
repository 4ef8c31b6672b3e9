"""Divide by what a loop does not change with its reciprocal, to the same bits.

A GPU finds the reciprocal anew in each division: a chain of a dozen steps, which a lane that goes
along time has little beside to wait with. Where the divisor d stays, y = 1 / d is found once: a * y
is within two units of the quotient's last place, one correction brings it within one, and from
there a second one gives the rounded quotient (P. Markstein, Computation of elementary functions on
the IBM RISC System/6000 processor, 1990), as long as nothing on the way under- or overflows. Else
it divides.
"""

import math
from collections.abc import Iterable, Iterator

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.walk import nodes_in, rebuild_blocks, rebuild_expr, rebuild_stmt
from quantdsl.passes.places import path_of
from quantdsl.passes.scopes import assigned_names, names_in

RANGE = 400
LEAST, MOST = ops.f64(2.0**-RANGE), ops.f64(2.0**RANGE)
"""Of a and d: what is formed of them then keeps all its bits."""
COUNTED = "counted."
"""The beginning of the names of quotients of counts of ticks or lots by a unit."""


def divide_by_reciprocals(module: ops.Module, entry: str) -> ops.Module:
    """The module whose entry divides so in its loops."""
    funcs = (
        _Divider(f, units(module, f)).func() if f.name == entry else f for f in module.funcs
    )
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def units(module: ops.Module, func: ops.Func) -> frozenset[str]:
    """Locals of a function that turn counts of ticks or lots into floats, and stay.

    They are whole numbers above 0 and below 2^53.
    """
    structs = {struct.name: struct.fields for struct in module.structs}
    state = func.params[0]
    assert isinstance(state.type, ops.StructType)
    paths = frozenset(
        (state.name, outer.name, inner.name)
        for outer in structs[state.type.name]
        if isinstance(outer.type, ops.StructType)
        for inner in structs[outer.type.name]
        if inner.unit
    )
    lets = (one for one in func.body if isinstance(one, ops.Let) and one.type == ops.F64_T)
    found = {one.name for one in lets if one.value is not None and path_of(one.value) in paths}
    return frozenset(found - assigned_names(func.body))


class _Divider:
    def __init__(self, func: ops.Func, units: frozenset[str]) -> None:
        self.old, self.count, self.units = func, 0, units
        words = {s.name for s in func.body if isinstance(s, ops.Let) and s.type == ops.F64_T}
        self.steady = words - assigned_names(func.body)
        """Locals that are the same all the way."""
        self.lasting: dict[ops.Expr, ops.Let] = {}
        """What is computed before the first loop."""
        self.found: dict[tuple[ops.Expr, ops.Expr], ops.Var] = {}
        """Quotients of this block whose dividends are of locals and are still the same."""
        self.before: list[ops.Stmt] = []
        """What stands before the statement that is at work."""

    def func(self) -> ops.Func:
        """The function, with what lasts before its first loop."""
        body: list[ops.Stmt] = []
        for stmt in self.old.body:
            made = self.block((stmt,)) if isinstance(stmt, ops.For) else (stmt,)
            body += made
        first = next((n for n, stmt in enumerate(body) if isinstance(stmt, ops.For)), 0)
        body[first:first] = self.lasting.values()
        return msgspec.structs.replace(self.old, body=tuple(body))

    def block(self, body: Iterable[ops.Stmt]) -> tuple[ops.Stmt, ...]:
        outside, self.found = self.found, {}
        made = tuple(new for stmt in body for new in self.stmt(stmt))
        self.found = outside
        return made

    def stmt(self, stmt: ops.Stmt) -> Iterator[ops.Stmt]:
        if not isinstance(stmt, ops.Let | ops.Assign):
            yield rebuild_blocks(stmt, self.block)
        else:
            self.before = []
            made = rebuild_stmt(stmt, self.expr, lambda inner: inner)
            yield from self.before
            yield made
        changed = assigned_names((stmt,))
        self.found = {
            both: q for both, q in self.found.items() if not changed & names_in(both[0])
        }

    def expr(self, expr: ops.Expr) -> ops.Expr:
        made = rebuild_expr(expr, self.expr)
        match made:
            case ops.Binary("fdiv", ops.Const(), ops.Const()):
                return self.before_loops("constant", made)
            case ops.Binary("fdiv", ops.Const()):
                return made
            case ops.Binary("fdiv", dividend, divisor) if self.stays(divisor):
                return self.divided(dividend, divisor)
        return made

    def before_loops(self, what: str, value: ops.Expr) -> ops.Var:
        """A local that is the same all the way."""
        if value not in self.lasting:
            name = f"{what}.{len(self.lasting)}"
            self.lasting[value] = ops.Let(name, ops.F64_T, value)
        return ops.Var(self.lasting[value].name)

    def stays(self, divisor: ops.Expr) -> bool:
        """Whether it is the same all the way."""
        match divisor:
            case ops.Const(ops.F64_T):
                return True
            case ops.Unary("i64_to_f64", ops.Const()):
                return True
            case ops.Var(name):
                return name in self.steady
        return False

    def divided(self, a: ops.Expr, d: ops.Expr) -> ops.Var:
        """A local with the quotient."""
        if (a, d) in self.found:
            return self.found[a, d]
        self.count += 1
        counted = self.counted(a, d)
        name = f"{COUNTED if counted else 'quotient.'}{self.count}"
        y = self.before_loops("reciprocal", ops.Binary("fdiv", ops.f64(1.0), d))
        q, x = ops.Var(name), ops.Var(f"{name}.of")
        rest = ops.Fma(ops.Unary("fneg", d), q, x)
        nearer = ops.Assign(q, ops.Fma(rest, y, q))
        self.before += [
            ops.Let(x.name, ops.F64_T, a),
            ops.Let(name, ops.F64_T, ops.Binary("fmul", x, y)),
            nearer,
            nearer,
        ]
        if not counted:
            both = ops.Binary("and", fits(x), fits(d))
            self.before.append(ops.If(ops.Unary("not", both), _really(q, x, d), ()))
        if not any(isinstance(node, ops.Field | ops.Elem) for node in nodes_in(a)):
            self.found[a, d] = q
        return q

    def counted(self, a: ops.Expr, d: ops.Expr) -> bool:
        """Whether it is a count of ticks or lots as a float: 0, or neither large nor small."""
        match a, d:
            case ops.Binary("fmul", ops.Unary("i64_to_f64"), ops.Var(num)), ops.Var(den):
                return {num, den} <= self.units
        return False


def _really(q: ops.Var, x: ops.Var, d: ops.Expr) -> tuple[ops.Stmt, ...]:
    """Division, in more steps than LLVM would take ahead of the branch round them."""
    slow = ops.Var(_slow(q.name))
    missing = ops.Unary("isnan", slow)
    return (
        ops.Let(slow.name, ops.F64_T, ops.Binary("fdiv", x, d)),
        ops.Assign(q, ops.Select(missing, ops.f64(math.nan), slow)),
    )


def is_moderate(value: ops.Expr) -> bool:
    """Whether a number is 0, or neither small nor large: a count, or one in units."""
    match value:
        case ops.Unary("i64_to_f64"):
            return True
        case ops.Var(name):
            return name.startswith(COUNTED)
    return False


def fits(value: ops.Expr) -> ops.Expr:
    """Whether a number is neither so small nor so large that what a quotient or a root is formed of
    loses bits; one that is missing makes them missing."""
    size = ops.Unary("fabs", value)
    small, large = ops.Binary("flt", size, LEAST), ops.Binary("flt", MOST, size)
    return ops.Unary("not", ops.Binary("or", small, large))


def is_fallback(stmt: ops.If) -> bool:
    """Whether it divides where a quotient by a reciprocal does not do."""
    match stmt.then, stmt.otherwise:
        case (ops.Let(slow), ops.Assign(ops.Var(name))), ():
            return slow == _slow(name)
    return False


def _slow(name: str) -> str:
    """The name of a quotient that was divided for."""
    return f"{name}.slow"
