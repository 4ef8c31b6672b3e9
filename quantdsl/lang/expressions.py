"""Expressions: precedence climbing over the token stream.

Loosest first: `if else`, or, and, not, comparisons, `..`, `??`, `+ -`, `* / mod of`, sign, `^`,
then calls, fields and indices. Depth is bounded twice: `depth` counts open recursion, `height`
the tree just built, so that no later stage can be made to recurse without bound.
"""

from quantdsl import limits
from quantdsl.lang import ast, words
from quantdsl.lang.ast import Expr
from quantdsl.lang.cursor import CLOSERS, Abandon, Cursor
from quantdsl.lang.diagnostics import Edit
from quantdsl.lang.spelling import nearest
from quantdsl.lang.tree import NAME, NUMBER, STRING, TIME

_DIRECTIONS = {"over": "above", "up": "above", "under": "below", "down": "below"}
"""What follows `crosses` in other languages."""
_OR, _AND, _NOT, _COMPARE, _RANGE, _COALESCE, _SUM, _TERM, _SIGN = range(1, 10)
_BINARY = {
    "or": _OR,
    "and": _AND,
    "??": _COALESCE,
    "+": _SUM,
    "-": _SUM,
    "*": _TERM,
    "/": _TERM,
    "mod": _TERM,
    "of": _TERM,
}
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_POWER = {
    **_BINARY,
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    "crosses": _COMPARE,
    "is": _COMPARE,
    "..": _RANGE,
    "..<": _RANGE,
}
_SEPARATORS = frozenset(",")
_NOTHING: frozenset[str] = frozenset()
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}


class ExpressionParser(Cursor):
    depth = 0
    height = 0

    # ---- entry points: never raise ----------------------------------------------------------

    def expr(self) -> Expr:
        """One expression; if it does not parse, `Bad` and the rest of the line skipped."""
        start = self.start
        try:
            return self.expression()
        except Abandon:
            self.skip_line()
            return ast.Bad(self.span_from(start))

    def pipe(self) -> Expr:
        """An expression followed by any number of `|> call(...)`."""
        start = self.start
        try:
            return self.piped()
        except Abandon:
            self.skip_line()
            return ast.Bad(self.span_from(start))

    def expr_list(self) -> tuple[Expr, ...]:
        """One or more expressions with commas between."""
        items = [self.expr()]
        while self.take(","):
            items.append(self.expr())
        return tuple(items)

    # ---- depth ------------------------------------------------------------------------------

    def deeper(self, height: int) -> None:
        """Set the height of the node just built and hold it to the limit."""
        self.height = height
        if height > limits.EXPRESSION_DEPTH:
            self.too_deep()

    def too_deep(self) -> None:
        self.error(
            "QD0109",
            "this expression is nested too deeply",
            reason=f"the limit is {limits.EXPRESSION_DEPTH}.",
            help="name parts of it with 'let'",
        )
        raise Abandon

    def fail(self, what: str, help: str = "") -> Abandon:
        self.error("QD0113", f"expected {what}, found {self.shown()}", help=help)
        return Abandon()

    def unexpected(self) -> None:
        """Report a token that cannot follow the complete expression before it, in brackets."""
        advice = self.leftover_advice(in_brackets=True)
        self.error("QD0114", f"unexpected {self.shown()}", help=advice)

    # ---- operators --------------------------------------------------------------------------

    def piped(self) -> Expr:
        start = self.start
        value = self.expression()
        while self.kind == "|>":
            height = self.height
            self.advance()
            place = self.start
            call = self.postfix()
            if not isinstance(call, ast.Call):
                self.error(
                    "QD0116",
                    "a pipe leads into a call",
                    (place, self.end_before),
                    help="write name(...); the piped value becomes its first argument",
                )
                self.quiet = False
            self.deeper(max(height, self.height) + 1)
            value = ast.Pipe(self.span_from(start), value, call)
        return value

    def expression(self) -> Expr:
        start = self.start
        then = self.binary(_OR)
        if self.kind != "if":
            return then
        height = self.height
        self.advance()
        cond = self.binary(_OR)
        height = max(height, self.height)
        if self.kind != "else":
            raise self.fail("'else'", help="a conditional value has two sides: a if x else b")
        self.advance()
        self.depth += 1
        try:
            if self.depth > limits.EXPRESSION_DEPTH:
                self.too_deep()
            otherwise = self.expression()
        finally:
            self.depth -= 1
        self.deeper(max(height, self.height) + 1)
        return ast.Cond(self.span_from(start), then, cond, otherwise)

    def binary(self, weakest: int) -> Expr:
        """An expression of operators that bind at least as tightly as `weakest`."""
        self.depth += 1
        try:
            if self.depth > limits.EXPRESSION_DEPTH:
                self.too_deep()
            start = self.start
            left = self.negation() if self.kind == "not" and weakest <= _NOT else self.unary()
            power = _POWER.get(self.kind, 0)
            while power >= weakest:
                if power == _COMPARE:
                    left = self.comparison(start, left)
                elif power == _RANGE:
                    left = self.range(start, left)
                else:
                    left = self.operation(start, left, power)
                power = _POWER.get(self.kind, 0)
            return left
        finally:
            self.depth -= 1

    def operation(self, start: int, left: Expr, power: int) -> Expr:
        op, op_span, height = self.kind, self.here(), self.height
        self.advance()
        right = self.binary(power + 1)
        self.deeper(max(height, self.height) + 1)
        return ast.Binary((start, self.end_before), op, left, right, op_span)

    def negation(self) -> Expr:
        start = self.start
        self.advance()
        operand = self.binary(_NOT)
        self.deeper(self.height + 1)
        return ast.Unary(self.span_from(start), "not", operand)

    def comparison(self, start: int, left: Expr) -> Expr:
        """What follows the first operand: a chain, `crosses above x`, or `is [not] na`."""
        height = self.height
        node: Expr
        if self.kind == "crosses":
            node = self.crosses(start, left)
        elif self.kind == "is":
            node = self.is_na(start, left)
        else:
            operands, ops = [left], []
            while self.kind in _COMPARISONS:
                ops.append(self.kind)
                self.advance()
                operands.append(self.binary(_RANGE))
                height = max(height, self.height)
            node = ast.Compare(self.span_from(start), tuple(operands), tuple(ops))
        self.deeper(max(height, self.height) + 1)
        if _POWER.get(self.kind, 0) >= _COMPARE:
            self.error(
                "QD0117",
                f"'{self.kind}' cannot follow a comparison here",
                help="join the two with 'and', or set parentheses",
            )
            raise Abandon
        return node

    def crosses(self, start: int, left: Expr) -> Expr:
        self.advance()
        direction = self.texts[self.at]
        if direction not in ("above", "below"):
            meant = _DIRECTIONS.get(direction) or nearest(direction, ("above", "below"))
            self.error(
                "QD0113",
                f"expected 'above' or 'below', found {self.shown()}",
                help=f"did you mean {meant}?" if meant else "write 'a crosses above b'",
                edit=Edit(self.here(), meant) if meant else None,
            )
            raise Abandon
        self.keywords.add(self.at)
        self.advance()
        right = self.binary(_RANGE)
        return ast.Crosses(self.span_from(start), left, direction, right)

    def is_na(self, start: int, left: Expr) -> Expr:
        self.advance()
        negated = self.take("not")
        if self.kind != "na":
            raise self.fail("'na'", help="'is' tests for a missing value only; compare with '=='")
        self.advance()
        return ast.IsNa(self.span_from(start), left, negated)

    def range(self, start: int, low: Expr) -> Expr:
        inclusive, height = self.kind == "..", self.height
        self.advance()
        high = self.binary(_COALESCE)
        self.deeper(max(height, self.height) + 1)
        if _POWER.get(self.kind) == _RANGE:
            raise self.fail("the end of the range", help="a range has two ends: low..high")
        return ast.Range(self.span_from(start), low, high, inclusive)

    def unary(self) -> Expr:
        """A sign, or a power: `-x ^ 2` is -(x ^ 2), and `2 ^ -x` is fine."""
        start = self.start
        if self.kind == "-" or self.kind == "+":
            op = self.kind
            self.advance()
            operand = self.nested_unary()
            self.deeper(self.height + 1)
            return ast.Unary(self.span_from(start), op, operand)
        base = self.postfix()
        if self.kind != "^":
            return base
        op_span, height = self.here(), self.height
        self.advance()
        exponent = self.nested_unary()
        self.deeper(max(height, self.height) + 1)
        return ast.Binary(self.span_from(start), "^", base, exponent, op_span)

    def nested_unary(self) -> Expr:
        self.depth += 1
        try:
            if self.depth > limits.EXPRESSION_DEPTH:
                self.too_deep()
            return self.unary()
        finally:
            self.depth -= 1

    # ---- calls, fields, indices -------------------------------------------------------------

    def postfix(self) -> Expr:
        start = self.start
        value = self.atom()
        kind = self.kind
        while kind == "." or kind == "(" or kind == "[":
            height = self.height
            if kind == ".":
                value = self.attribute(start, value)
            elif kind == "(":
                args = self.args()
                value = ast.Call(self.span_from(start), value, args)
            else:
                value = self.element(start, value)
            self.deeper(max(height, self.height) + 1)
            kind = self.kind
        return value

    def attribute(self, start: int, value: Expr) -> Expr:
        self.advance()
        if self.kind != NAME and self.kind not in words.RESERVED:
            raise self.fail("a name after '.'")
        name, span = self.texts[self.at], self.here()
        self.advance()
        return ast.Attr((start, span[1]), value, name, span)

    def element(self, start: int, value: Expr) -> Expr:
        self.advance()
        index = self.guarded(_SEPARATORS)
        more: list[Expr] = []
        height = self.height
        while self.kind == ",":
            self.advance()
            more.append(self.guarded(_SEPARATORS))
            height = max(height, self.height)
        self.height = height
        self.close("]")
        return ast.Index(self.span_from(start), value, index, tuple(more))

    def args(self) -> tuple[ast.Arg, ...]:
        """`(` arguments `)`; the cursor stands on the opening bracket."""
        self.advance()
        args: list[ast.Arg] = []
        height = 0
        while self.kind != ")":
            start, name = self.start, None
            if self.kind == NAME and self.kinds[self.at + 1] == "=":
                name = self.texts[self.at]
                self.advance()
                self.advance()
            value = self.guarded(_SEPARATORS)
            height = max(height, self.height)
            args.append(ast.Arg(self.span_from(start), name, value))
            if self.kind != ",":
                break
            self.advance()
        self.close(")")
        self.height = height
        return tuple(args)

    def guarded(self, stops: frozenset[str]) -> Expr:
        """An expression inside brackets; if it does not parse, `Bad`, and on at its end."""
        start = self.start
        try:
            value = self.expression()
            if self.kind not in stops and self.kind not in CLOSERS:
                self.unexpected()
                raise Abandon
            return value
        except Abandon:
            self.skip_to(stops)
            self.quiet = False
            self.height = 0
            return ast.Bad(self.span_from(start))

    def close(self, closer: str) -> None:
        """Step over the closer. The lexer balanced the brackets, so it comes on this line."""
        if self.kind != closer:
            self.error("QD0114", f"unexpected {self.shown()}", help=f"'{closer}' belongs here")
            self.skip_to(_NOTHING)
            self.quiet = False
        self.take(closer)

    # ---- atoms ------------------------------------------------------------------------------

    def atom(self) -> Expr:
        at, kind = self.at, self.kind
        self.height = 0
        if kind == NAME:
            self.advance()
            return ast.Name((self.starts[at], self.ends[at]), self.texts[at])
        if kind == NUMBER:
            return self.number()
        if kind == "(":
            return self.parenthesised()
        if kind == "[":
            return self.array()
        span = (self.starts[at], self.ends[at])
        node: Expr
        if kind == "true" or kind == "false":
            node = ast.Bool(span, kind == "true")
        elif kind == "na":
            node = ast.Na(span)
        elif kind == STRING:
            node = ast.Str(span, string_value(self.texts[at]))
        elif kind == TIME:
            node = ast.Time(span, seconds_of_day(self.texts[at]))
        else:
            raise self.no_value()
        self.advance()
        return node

    def number(self) -> Expr:
        at = self.at
        text, start, end = self.texts[at].replace("_", ""), self.starts[at], self.ends[at]
        self.advance()
        unit = self.texts[self.at]
        if unit in words.UNITS and (self.kind == NAME or self.kind == "%"):
            span = self.here()
            self.advance()
            return ast.Num((start, span[1]), text, unit, span)
        return ast.Num((start, end), text)

    def parenthesised(self) -> Expr:
        """`( pipe )`: the node is the inner one; its span leaves the parentheses out."""
        start = self.start
        self.advance()
        try:
            value = self.piped()
            if self.kind != ")":
                self.unexpected()
                raise Abandon
        except Abandon:
            self.skip_to(_NOTHING)
            self.quiet = False
            self.height = 0
            value = ast.Bad(self.span_from(start))
        self.close(")")
        return value

    def array(self) -> Expr:
        start = self.start
        self.advance()
        items: list[Expr] = []
        height = 0
        while self.kind != "]":
            items.append(self.guarded(_SEPARATORS))
            height = max(height, self.height)
            if self.kind != ",":
                break
            self.advance()
        self.close("]")
        self.deeper(height + 1)
        return ast.Array(self.span_from(start), tuple(items))

    def no_value(self) -> Abandon:
        """Report that an expression should begin here."""
        kind = self.kind
        if kind == "." and self.next_kind == NUMBER:
            return self.fail("a value", help="write a digit before the point: 0.5")
        if kind == "not":
            return self.fail("a value", help="set parentheses: (not x)")
        before = self.kinds[self.at - 1] if self.at else ""
        if kind == "=" and before in ("=", "<", ">"):
            return self.fail("a value", help="write '==', '<=' or '>='")
        if before in ("+", "-") and self.texts[self.at - 2] == before:
            return self.fail("a value", help=f"write 'x {before}= 1'")
        return self.fail("a value")


def seconds_of_day(text: str) -> int:
    """Seconds after midnight of `15:50` or `15:50:30`; the lexer has checked the range."""
    hours, minutes, *seconds = map(int, text.split(":"))
    return hours * 3600 + minutes * 60 + sum(seconds)


def string_value(literal: str) -> str:
    """What a string literal with its quotes stands for."""
    content = literal[1:-1]
    if "\\" not in content:
        return content
    pieces, at = [], 0
    while at < len(content):
        width = 2 if content[at] == "\\" else 1
        piece = content[at : at + width]
        pieces.append(_ESCAPES.get(piece, piece))
        at += width
    return "".join(pieces)
