"""Statements: what stands in the body of a handler, function, indicator or kernel."""

from collections.abc import Callable

from quantdsl.lang import ast, spelling, words
from quantdsl.lang.cursor import LINE_ENDS
from quantdsl.lang.diagnostics import Edit
from quantdsl.lang.expressions import ExpressionParser, string_value
from quantdsl.lang.tree import DEDENT, END, INDENT, NAME, NEWLINE, NUMBER, STRING

_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/="))
_NOT_A_HEADER = _ASSIGNMENTS | {"."}
"""After these a contextual word is an ordinary name: `state = 1`, `match.fill(e)`."""
_TARGETS = (ast.Name, ast.Attr, ast.Index)
_REDUCTIONS = frozenset(("+", "*", "min", "max", "and", "or"))

Annotations = tuple[ast.Annotation, ...]


class StatementParser(ExpressionParser):
    bodiless = False
    """The last header lacks its body (reported): statements right below were meant to be it."""

    # ---- blocks -----------------------------------------------------------------------------

    def block(self, what: str, line: Callable[[], None]) -> None:
        """`: NEWLINE INDENT line... DEDENT`; `line` must consume at least one token.

        The cursor stands on the colon. A header in doubt still has its block read.
        """
        doubtful = self.quiet
        if doubtful:
            self.skip_line()
        elif not self.take(":"):
            doubtful = True
            self.no_colon()
            self.skip_line()
        opener = max(0, self.at - 1)
        same_line = self.kind not in LINE_ENDS
        if same_line:
            self.error("QD0119", f"{what} stands on its own lines, indented below the ':'")
            self.skip_line()
        self.take(NEWLINE)
        self.quiet = False
        if self.kind == INDENT:
            self.advance()
            self.lines(line)
        elif not same_line and not doubtful:
            self.error(
                "QD0119",
                f"{what} is missing",
                (self.starts[opener], self.ends[opener]),
                note="no indented line follows",
                help="indent its lines by four spaces",
            )
            self.quiet = False
            self.bodiless = True

    def no_colon(self) -> None:
        if self.kind == "=":
            self.error(
                "QD0114",
                "'=' assigns; this compares",
                help="write '=='",
                edit=Edit(self.here(), "=="),
            )
        elif self.kind in LINE_ENDS:
            place = self.end_before
            self.error(
                "QD0118",
                "this line opens a block and ends without ':'",
                (place, place),
                note="':' is missing",
                help="add ':'",
                edit=Edit((place, place), ":"),
            )
        else:
            advice = self.leftover_advice()
            self.error("QD0113", f"expected ':', found {self.shown()}", help=advice)

    def lines(self, line: Callable[[], None]) -> None:
        """Lines up to the matching DEDENT, which is consumed."""
        stray = 0
        while self.kind != END:
            if self.kind == INDENT:
                self.unexpected_indent()
                stray += 1
            elif self.kind == DEDENT:
                self.advance()
                if not stray:
                    return
                stray -= 1
            else:
                line()

    def unexpected_indent(self) -> None:
        self.advance()
        self.error(
            "QD0108",
            "this line is indented without a reason",
            self.here(),
            help="only a line that ends in ':' opens a block",
        )
        self.quiet = False

    def suite(self, what: str = "the body") -> ast.Suite:
        start = self.start
        body: list[ast.Stmt] = []
        self.block(what, lambda: self.statement(body))
        return ast.Suite(self.span_from(start), tuple(body))

    # ---- dispatch ---------------------------------------------------------------------------

    def statement(self, body: list[ast.Stmt]) -> None:
        """Parse one statement into `body`; always consumes something."""
        annotations = self.annotations() if self.kind == "@" else ()
        start = self.start
        method = self.statement_method()
        if annotations and method not in (StatementParser.let, StatementParser.state):
            self.misplaced_annotation(annotations)
        if method is not None:
            body.append(method(self, start, annotations))
        elif self.kind not in LINE_ENDS:
            body.append(self.simple(start))

    def statement_method(self) -> "Callable[..., ast.Stmt] | None":
        """The method for a statement that its first word announces, or None."""
        kind = self.kind
        if kind != NAME:
            return _RESERVED_STATEMENTS.get(kind)
        method = _WORD_STATEMENTS.get(self.texts[self.at])
        return method if method is not None and self.is_header() else None

    def is_header(self) -> bool:
        """Is the contextual word at the cursor a keyword here, not a name being used?"""
        following = self.kinds[self.at + 1]
        if following in _NOT_A_HEADER:
            return False
        word = self.texts[self.at]
        if word in ("risk", "backtest", "atomic"):
            known = following == ":" or self.kinds[self.at + 1 : self.at + 3] == [NEWLINE, INDENT]
        else:
            known = following != "(" or word in _TAKES_EXPRESSION
        if known:
            self.keywords.add(self.at)
        return known

    def simple(self, start: int) -> ast.Stmt:
        """An assignment, a call, or a documentation string."""
        if self.kind == STRING and self.kinds[self.at + 1] == NEWLINE:
            return self.doc()
        misplaced = self.kind == NAME and self.misplaced()
        value = self.expr()
        if self.kind in _ASSIGNMENTS:
            return self.assignment(start, value)
        node = ast.ExprStmt(self.span_from(start), value)
        self.end_line()
        if misplaced or isinstance(value, ast.Bad):
            self.orphaned_block()
            return ast.Bad(node.span)
        return node

    def doc(self) -> ast.Doc:
        node = ast.Doc(self.here(), string_value(self.texts[self.at]))
        self.advance()
        self.end_line()
        return node

    def misplaced(self) -> bool:
        """Report a line whose first word announces nothing that may stand here."""
        word, following = self.texts[self.at], self.kinds[self.at + 1]
        if following not in (NAME, NUMBER, STRING) and following not in words.RESERVED - _INFIX:
            return False
        if word in words.ITEM_WORDS | words.TOP_WORDS:
            self.error(
                "QD0120",
                f"'{word}' cannot stand in a body",
                help=f"'{word}' belongs {home_of(word)}",
            )
        else:
            known = words.STATEMENT_WORDS
            near = None if word in words.ELSEWHERE else spelling.nearest(word, known)
            self.error(
                "QD0121",
                f"'{word}' begins no statement",
                help=f"did you mean '{near}'?" if near else words.ELSEWHERE.get(word, ""),
                edit=Edit(self.here(), near) if near else None,
            )
        return True

    def orphaned_block(self) -> None:
        """Read the block below a line that was not understood, for the errors inside it."""
        if self.kind == INDENT:
            self.advance()
            dropped: list[ast.Stmt] = []
            self.lines(lambda: self.statement(dropped))

    def assignment(self, start: int, target: ast.Expr) -> ast.Stmt:
        op = self.kind
        if not isinstance(target, _TARGETS):
            self.error(
                "QD0122",
                "only a name, a field or an element can be assigned",
                (start, self.end_before),
                help="'==' compares" if op == "=" else "",
            )
        self.advance()
        value = self.pipe()
        node = ast.Assign(self.span_from(start), target, op, value)
        self.end_line()
        return node

    # ---- annotations ------------------------------------------------------------------------

    def annotations(self) -> Annotations:
        """One or more `@name(args)` lines."""
        found: list[ast.Annotation] = []
        while self.kind == "@":
            start = self.start
            self.advance()
            name = self.name("the name of an annotation")
            args = self.args() if self.kind == "(" else ()
            found.append(ast.Annotation(self.span_from(start), name.id, args))
            self.end_line()
        return tuple(found)

    def misplaced_annotation(self, annotations: Annotations) -> None:
        self.error(
            "QD0123",
            "this annotation belongs to nothing",
            annotations[-1].span,
            reason="an annotation stands right above the declaration that it is about.",
        )
        self.quiet = False

    # ---- declarations -----------------------------------------------------------------------

    def declared(self) -> tuple[ast.Ident, ast.Type | None]:
        """The name after the word at the cursor, and its type if there is one."""
        self.advance()
        if self.kind in ("[", "("):
            self.error("QD0113", f"expected a name, found {self.shown()}", help=_WHOLE)
        name = self.name("a name")
        return name, self.type() if self.take(":") else None

    def bound_value(self) -> ast.Expr:
        """`= value` of a declaration."""
        if self.kind == "," and not self.quiet:
            what = f"expected '=' and a value, found {self.shown()}"
            self.error("QD0113", what, help=_WHOLE)
        if self.quiet or not self.expect("=", "'=' and a value"):
            start = self.start
            self.skip_line()
            return ast.Bad(self.span_from(start))
        return self.pipe()

    def let(self, start: int, annotations: Annotations) -> ast.Let:
        name, type_ = self.declared()
        value = self.bound_value()
        node = ast.Let(self.span_from(start), name, type_, value, annotations)
        self.end_line()
        return node

    def var(self, start: int, _annotations: Annotations) -> ast.Var:
        name, type_ = self.declared()
        value = self.bound_value()
        node = ast.Var(self.span_from(start), name, type_, value)
        self.end_line()
        return node

    def state(self, start: int, annotations: Annotations) -> ast.State:
        name, type_ = self.declared()
        value = self.bound_value() if self.kind == "=" or type_ is None else None
        node = ast.State(self.span_from(start), name, type_, value, annotations)
        self.end_line()
        return node

    # ---- types and parameters ---------------------------------------------------------------

    def type(self) -> ast.Type:
        start = self.start
        name = self.name("a type")
        path = [name.id]
        while name.id and not self.quiet and self.take("."):
            path.append(self.name("a type").id)
        args: list[ast.Type | int] = []
        if name.id and self.kind == "[":
            self.advance()
            args.append(self.type_argument())
            while not self.quiet and self.take(","):
                args.append(self.type_argument())
            self.close("]")
        optional = self.take("?")
        return ast.Type(self.span_from(start), ".".join(path), tuple(args), optional)

    def type_argument(self) -> ast.Type | int:
        if self.kind != NUMBER:
            return self.type()
        text = self.texts[self.at].replace("_", "")
        if not text.isdecimal():
            self.error("QD0113", f"expected a whole number or a type, found {self.shown()}")
            return 0
        self.advance()
        return int(text)

    def params(self) -> tuple[ast.Param, ...]:
        """`( inout name: const type = default, ... )`."""
        if self.quiet or not self.expect("(", "'(' and the parameters"):
            return ()
        params: list[ast.Param] = []
        while self.kind != ")":
            params.append(self.param())
            if self.quiet:
                self.skip_to(frozenset(","))
                self.quiet = False
            if not self.take(","):
                break
        self.close(")")
        return tuple(params)

    def param(self) -> ast.Param:
        start = self.start
        inout = self.next_kind == NAME and self.take_word("inout")
        name = self.name("the name of a parameter")
        type_, const = None, False
        if self.take(":"):
            const = self.next_kind == NAME and self.take_word("const")
            type_ = self.type()
        default = self.guarded(frozenset(",")) if self.take("=") else None
        return ast.Param(self.span_from(start), name, type_, const, inout, default)

    # ---- control ----------------------------------------------------------------------------

    def if_(self, start: int, _annotations: Annotations) -> ast.If:
        self.advance()
        branches = [(self.expr(), self.suite())]
        otherwise = None
        while otherwise is None and self.kind in ("elif", "else"):
            if self.kind == "else" and self.next_kind == "if":
                self.else_if()
            word = self.kind
            self.advance()
            if word == "else":
                otherwise = self.suite()
            else:
                branches.append((self.expr(), self.suite()))
        return ast.If(self.span_from(start), tuple(branches), otherwise)

    def else_if(self) -> None:
        """Report `else if` and step to its `if`, which is then read as `elif`."""
        start = self.start
        self.advance()
        span = (start, self.here()[1])
        self.error(
            "QD0121",
            "'else if' is one word here",
            span,
            help="write 'elif'",
            edit=Edit(span, "elif"),
        )
        self.quiet = False

    def stray_branch(self, start: int, _annotations: Annotations) -> ast.Bad:
        """`elif` or `else` without an `if` above it."""
        word = self.kind
        self.error("QD0121", f"'{word}' without an 'if' above it at this indentation")
        self.advance()
        self.skip_line()
        self.take(NEWLINE)
        self.quiet = False
        self.orphaned_block()
        return ast.Bad(self.span_from(start))

    def match(self, start: int, _annotations: Annotations) -> ast.Match:
        self.advance()
        subject = self.expr()
        cases: list[ast.Case] = []
        self.block("the list of cases", lambda: self.case(cases))
        return ast.Match(self.span_from(start), subject, tuple(cases))

    def case(self, cases: list[ast.Case]) -> None:
        start = self.start
        if not self.take_word("case"):
            self.error("QD0113", f"expected 'case', found {self.shown()}")
            self.skip_line()
            self.take(NEWLINE)
            self.quiet = False
            self.orphaned_block()
            return
        patterns = self.expr_list()
        body = self.suite()
        cases.append(ast.Case(self.span_from(start), patterns, body))

    def for_(self, start: int, _annotations: Annotations) -> ast.For:
        parallel = self.take_word("parallel")
        name = ast.Ident(self.missing().span, "")
        if self.expect("for", "'for'"):
            name = self.name("a name for the loop's counter")
        over: ast.Expr = self.missing()
        if self.kind == "=":
            what = f"expected 'in' and a range, found {self.shown()}"
            self.error("QD0113", what, help=f"write 'for {name.id} in 0..10:'")
        if not self.quiet and self.expect("in", "'in' and a range"):
            over = self.expr()
        if self.at_word("step"):
            what = "a loop goes on one by one"
            self.error("QD0113", what, help="count its turns, and multiply: let i = 2 * turn")
        reduce = self.reductions() if self.at_word("reduce") else ()
        body = self.suite()
        return ast.For(self.span_from(start), name, over, body, parallel, reduce)

    def reductions(self) -> tuple[tuple[str, str], ...]:
        """`reduce(name: +, name: max)`."""
        self.advance()
        found: list[tuple[str, str]] = []
        if self.expect("(", "'(' after 'reduce'"):
            while not self.quiet:
                name = self.name("the variable to reduce")
                if self.quiet or not self.expect(":", "':' and an operation"):
                    break
                if self.texts[self.at] not in _REDUCTIONS:
                    what = f"expected one of + * min max and or, found {self.shown()}"
                    self.error("QD0113", what, help=f"such as reduce({name.id}: +)")
                    break
                found.append((name.id, self.texts[self.at]))
                self.advance()
                if not self.take(","):
                    break
            self.close(")")
        return tuple(found)

    def while_(self, start: int, _annotations: Annotations) -> ast.While:
        self.advance()
        cond = self.expr()
        bound: ast.Expr = self.missing()
        if self.take_word("max"):
            bound = self.expr()
        else:
            self.error(
                "QD0124",
                "a 'while' without its largest number of turns",
                note="'max n' is missing",
                help="write: while condition max 64:",
                reason="every handler must end in a time known before it starts.",
            )
        body = self.suite()
        return ast.While(self.span_from(start), cond, bound, body)

    def atomic(self, start: int, _annotations: Annotations) -> ast.Atomic:
        self.advance()
        body = self.suite()
        return ast.Atomic(self.span_from(start), body)

    def return_(self, start: int, _annotations: Annotations) -> ast.Return:
        self.advance()
        value = None if self.kind in LINE_ENDS else self.pipe()
        node = ast.Return(self.span_from(start), value)
        self.end_line()
        return node

    def break_(self, start: int, _annotations: Annotations) -> ast.Stmt:
        kind = self.kind
        self.advance()
        node = (ast.Break if kind == "break" else ast.Continue)(self.span_from(start))
        self.end_line()
        return node

    def assert_(self, start: int, _annotations: Annotations) -> ast.Assert:
        self.advance()
        cond, message = self.expr(), self.message()
        node = ast.Assert(self.span_from(start), cond, message)
        self.end_line()
        return node

    def message(self) -> str | None:
        """`, "text"` after a condition."""
        if not self.take(","):
            return None
        text = self.texts[self.at]
        return string_value(text) if self.expect(STRING, "a message in quotes") else None


def home_of(word: str) -> str:
    """Where a misplaced word belongs."""
    if word in words.TOP_WORDS - words.ITEM_WORDS:
        return "at the left margin, outside the strategy"
    if word in words.TOP_WORDS:
        return "at the left margin or directly in the strategy"
    return "directly in the strategy, one level below its name"


_WHOLE = "give the whole one name, b; its parts are b.upper, b.lower and so on"
_INFIX = frozenset("and or not is mod of crosses in if else".split())
_TAKES_EXPRESSION = frozenset("require invariant every at assert match expect".split())
_RESERVED_STATEMENTS: dict[str, Callable[..., ast.Stmt]] = {
    "let": StatementParser.let,
    "var": StatementParser.var,
    "if": StatementParser.if_,
    "elif": StatementParser.stray_branch,
    "else": StatementParser.stray_branch,
    "for": StatementParser.for_,
    "while": StatementParser.while_,
    "return": StatementParser.return_,
    "break": StatementParser.break_,
    "continue": StatementParser.break_,
}
_WORD_STATEMENTS: dict[str, Callable[..., ast.Stmt]] = {
    "state": StatementParser.state,
    "match": StatementParser.match,
    "parallel": StatementParser.for_,
    "atomic": StatementParser.atomic,
    "assert": StatementParser.assert_,
}
