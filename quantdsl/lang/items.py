"""Items: what stands in a file and directly in a strategy."""

from collections.abc import Callable
from typing import Any

from quantdsl.lang import ast, spelling, words
from quantdsl.lang.cursor import LINE_ENDS
from quantdsl.lang.diagnostics import Edit
from quantdsl.lang.expressions import string_value
from quantdsl.lang.statements import Annotations, StatementParser
from quantdsl.lang.tree import DEDENT, END, INDENT, NAME, NEWLINE, NUMBER, STRING

LANGUAGE_VERSIONS = ("1",)

Method = Callable[..., Any]

_ANNOTATED = (
    ast.Fn,
    ast.Indicator,
    ast.Kernel,
    ast.Strategy,
    ast.Let,
    ast.State,
    ast.On,
    ast.Every,
    ast.At,
    ast.Action,
    ast.ParamDecl,
)


class ItemParser(StatementParser):
    # ---- files and strategies ---------------------------------------------------------------

    def file(self) -> ast.File:
        items: list[ast.Top] = []
        while self.kind != END:
            if self.kind == INDENT:
                self.unexpected_indent()
            elif self.kind in (DEDENT, NEWLINE):
                self.advance()
            else:
                self.item(items, _TOP, "a file")
        return ast.File((0, len(self.source.text)), tuple(items))

    def strategy(self, start: int, annotations: Annotations) -> ast.Strategy:
        self.advance()
        name = self.name("the strategy's name")
        items: list[ast.Item] = []
        self.block("the strategy's body", lambda: self.item(items, _ITEMS, "a strategy"))
        return ast.Strategy(self.span_from(start), name, tuple(items), annotations)

    def item(self, items: list[Any], methods: dict[str, Method], place: str) -> None:
        """Parse one item of a file or a strategy; always consumes something."""
        annotations = self.annotations() if self.kind == "@" else ()
        start = self.start
        if self.kind in LINE_ENDS:
            if annotations:
                self.misplaced_annotation(annotations)
            return
        method = self.item_method(methods)
        self.bodiless &= method is None
        if self.bodiless:
            self.statement([])
            return
        if method is not None:
            node = method(self, start, annotations)
        else:
            node = self.other_item(methods, place, annotations)
        if annotations and not isinstance(node, (*_ANNOTATED, ast.Bad)):
            self.misplaced_annotation(annotations)
        items.append(node)

    def item_method(self, methods: dict[str, Method]) -> Method | None:
        word = self.texts[self.at] if self.kind == NAME or self.kind == "let" else ""
        method = methods.get(word)
        if method is None or (self.kind == NAME and not self.is_header()):
            return None
        return method

    def other_item(
        self, methods: dict[str, Method], place: str, annotations: Annotations
    ) -> ast.Item:
        """A line that begins with none of the words for this place."""
        start = self.start
        in_strategy = methods is _ITEMS
        word = self.texts[self.at]
        following = self.kinds[self.at + 1]
        if in_strategy and self.kind == STRING and following == NEWLINE:
            return self.doc()
        known = word in _ITEMS or word in _TOP
        if self.statement_method() is not None or (known and self.is_header()):
            return self.wrong_place(start, word, place)
        if self.kind == NAME and following in (NAME, NUMBER, STRING, ":"):
            return self.unknown_item(start, word, methods, place, annotations)
        if not in_strategy:
            self.error(
                "QD0120",
                f"{self.shown()} begins no part of a file",
                help="trading rules stand inside 'strategy Name:'",
            )
        value = self.expr()
        node = ast.ExprStmt(self.span_from(start), value)
        if self.kind == "=":
            declare = "write 'let', 'state' or 'param' before the name"
            self.error(
                "QD0120",
                "only a body assigns; here names are declared",
                help=words.ELSEWHERE.get(word, declare),
            )
        self.end_line()
        self.orphaned_block()
        return node if in_strategy else ast.Bad(node.span)

    def wrong_place(self, start: int, word: str, place: str) -> ast.Bad:
        """A known word that may not stand here: report it, and read it for its own errors."""
        if word in _TOP or word in _ITEMS:
            where = "directly in the strategy" if word in _ITEMS else "at the left margin"
            advice = f"'{word}' belongs {where}"
        else:
            advice = words.ELSEWHERE.get(word, "statements belong in a handler, such as 'on bar:'")
        self.error("QD0120", f"'{word}' cannot stand directly in {place}", help=advice)
        self.quiet = False
        method = _ITEMS.get(word) or _TOP.get(word)
        if method is not None:
            method(self, start, ())
        else:
            self.statement([])
        return ast.Bad(self.span_from(start))

    def unknown_item(
        self,
        start: int,
        word: str,
        methods: dict[str, Method],
        place: str,
        annotations: Annotations,
    ) -> ast.Item:
        """A line that begins with an unknown word: perhaps a misspelt one, then read it so."""
        near = None if word in words.ELSEWHERE else spelling.nearest(word, methods)
        advice = words.ELSEWHERE.get(word, "")
        if word.startswith("on_") and not near:
            advice = f"write 'on {word[3:]}:'"
        self.error(
            "QD0121",
            f"'{word}' begins no part of {place}",
            help=f"did you mean '{near}'?" if near else advice,
            edit=Edit(self.here(), near) if near else None,
        )
        if near:
            self.quiet = False
            self.texts[self.at] = near
            item: ast.Item = methods[near](self, start, annotations)
            return item
        self.skip_line()
        self.end_line()
        if methods is _ITEMS:
            self.orphaned_block()
        else:
            self.skip_block()
        return ast.Bad(self.span_from(start))

    def skip_block(self) -> None:
        """Step over the block below an unknown header: anything may stand there."""
        depth = 0
        while self.kind == INDENT or depth:
            depth += (self.kind == INDENT) - (self.kind == DEDENT)
            self.advance()

    # ---- one-line items ---------------------------------------------------------------------

    def language(self, start: int, _annotations: Annotations) -> ast.Language:
        self.advance()
        here, version = self.here(), self.texts[self.at]
        if self.expect(NUMBER, "the version of the language, such as 1"):
            if version not in LANGUAGE_VERSIONS:
                self.error(
                    "QD0125",
                    f"this quantdsl does not know language {version}",
                    here,
                    help="it knows language 1; a newer quantdsl may know more",
                )
                self.quiet = False
            elif start != self.starts[0]:
                self.error(
                    "QD0125",
                    "'language' is not the first line",
                    (start, here[1]),
                    help="move it above everything else",
                )
                self.quiet = False
        node = ast.Language(self.span_from(start), version)
        self.end_line()
        return node

    def import_(self, start: int, _annotations: Annotations) -> ast.Import:
        self.advance()
        path = self.path()
        alias = self.name("a name after 'as'") if self.take_word("as") else None
        node = ast.Import(self.span_from(start), path, alias)
        self.end_line()
        return node

    def from_(self, start: int, _annotations: Annotations) -> ast.Import:
        self.advance()
        path = self.path()
        names: list[ast.Ident] = []
        if not self.quiet and self.take_word("import"):
            names.append(self.name("a name to import"))
            while self.take(","):
                names.append(self.name("a name to import"))
        else:
            self.error("QD0113", f"expected 'import', found {self.shown()}")
        node = ast.Import(self.span_from(start), path, None, tuple(names))
        self.end_line()
        return node

    def path(self) -> tuple[str, ...]:
        parts = [self.name("a module").id]
        while self.take("."):
            parts.append(self.name("a module").id)
        return tuple(parts)

    def const(self, start: int, _annotations: Annotations) -> ast.Const:
        name, type_ = self.declared()
        value = self.bound_value()
        node = ast.Const(self.span_from(start), name, type_, value)
        self.end_line()
        return node

    def data(self, start: int, _annotations: Annotations) -> ast.Data:
        """`bars 5m, sync = all as y`."""
        kind = self.texts[self.at]
        self.advance()
        args: list[ast.Arg] = []
        while self.kind not in LINE_ENDS and not self.at_word("as"):
            place, name = self.start, None
            if self.kind == NAME and self.next_kind == "=":
                name = self.texts[self.at]
                self.advance()
                self.advance()
            value = self.expr()
            args.append(ast.Arg(self.span_from(place), name, value))
            if not self.take(","):
                break
        alias = self.name("a name after 'as'") if self.take_word("as") else None
        node = ast.Data(self.span_from(start), kind, tuple(args), alias)
        self.end_line()
        return node

    def param_decl(self, start: int, annotations: Annotations) -> ast.ParamDecl:
        name, type_ = self.declared()
        default = self.bound_value()
        domain, step, log = None, None, None
        if self.take("in"):
            domain = self.choices() if self.kind == "{" else self.expr()
        if self.take_word("step"):
            step = self.expr()
        elif self.take_word("log"):
            count = self.texts[self.at].replace("_", "")
            log = count if self.expect(NUMBER, "a number of points") else None
        node = ast.ParamDecl(
            self.span_from(start), name, type_, default, domain, step, log, annotations
        )
        self.end_line()
        return node

    def choices(self) -> tuple[ast.Expr, ...]:
        """`{a, b, c}`."""
        self.advance()
        found = [self.guarded(frozenset(","))]
        while self.take(","):
            found.append(self.guarded(frozenset(",")))
        self.close("}")
        return tuple(found)

    def require(self, start: int, _annotations: Annotations) -> ast.Item:
        kind = ast.Require if self.texts[self.at] == "require" else ast.Invariant
        self.advance()
        cond, message = self.expr(), self.message()
        node = kind(self.span_from(start), cond, message)
        self.end_line()
        return node

    # ---- types ------------------------------------------------------------------------------

    def enum(self, start: int, _annotations: Annotations) -> ast.Enum:
        """`enum Side: buy, sell`, or the members on indented lines of their own."""
        self.advance()
        name = self.name("the enum's name")
        members: list[ast.Ident] = []
        if self.kind == ":" and self.next_kind not in LINE_ENDS:
            self.advance()
            self.members(members)
        else:
            self.block("the list of members", lambda: self.members(members))
        return ast.Enum(self.span_from(start), name, tuple(members))

    def members(self, members: list[ast.Ident]) -> None:
        """A line of names with commas between; in a block the last comma may stay."""
        members.append(self.name("a member's name"))
        while not self.quiet and self.take(","):
            if self.kind in LINE_ENDS:
                break
            members.append(self.name("a member's name"))
        self.end_line()

    def struct(self, start: int, _annotations: Annotations) -> ast.Struct:
        self.advance()
        name = self.name("the struct's name")
        fields: list[ast.Field] = []
        self.block("the list of fields", lambda: self.field(fields))
        return ast.Struct(self.span_from(start), name, tuple(fields))

    def field(self, fields: list[ast.Field]) -> None:
        start = self.start
        name = self.name("a field's name")
        if not self.quiet and self.expect(":", "':' and the field's type"):
            type_ = self.type()
            fields.append(ast.Field(self.span_from(start), name, type_))
        self.end_line()

    # ---- functions --------------------------------------------------------------------------

    def signature(self) -> tuple[ast.Ident, tuple[ast.Param, ...], ast.Type | None]:
        self.advance()
        name = self.name("a name")
        params = self.params()
        returns = self.type() if self.take("->") else None
        return name, params, returns

    def fn(self, start: int, annotations: Annotations) -> ast.Fn:
        name, params, returns = self.signature()
        body: ast.Suite | ast.Expr
        if self.take("="):
            body = self.pipe()
            node = ast.Fn(self.span_from(start), name, params, returns, body, annotations)
            self.end_line()
            return node
        body = self.suite("the body of the function")
        return ast.Fn(self.span_from(start), name, params, returns, body, annotations)

    def indicator(self, start: int, annotations: Annotations) -> ast.Indicator:
        name, params, returns = self.signature()
        body = self.below("the body of the indicator")
        return ast.Indicator(self.span_from(start), name, params, returns, body, annotations)

    def kernel(self, start: int, annotations: Annotations) -> ast.Kernel:
        name, params, returns = self.signature()
        body = self.below("the body of the kernel")
        return ast.Kernel(self.span_from(start), name, params, returns, body, annotations)

    def below(self, what: str) -> ast.Suite:
        """A body that cannot be one expression, as that of a fn may be."""
        if self.kind == "=":
            found = f"expected ':' and {what}, found '='"
            self.error("QD0113", found, help="write ':', and below it 'return ...'")
        return self.suite(what)

    def action(self, start: int, annotations: Annotations) -> ast.Action:
        self.advance()
        name = self.name("the action's name")
        params = self.params()
        body = self.suite("the body of the action")
        return ast.Action(self.span_from(start), name, params, body, annotations)

    # ---- handlers and blocks ----------------------------------------------------------------

    def on(self, start: int, annotations: Annotations) -> ast.On:
        self.advance()
        event = self.name("an event, such as bar")
        arg = when = None
        if self.kind == "(":
            self.advance()
            arg = self.guarded(frozenset())
            self.close(")")
        if self.take_word("when"):
            when = self.expr()
        elif self.texts[self.at] == "on":
            self.error(
                "QD0113",
                f"expected ':', found {self.shown()}",
                help="days have a handler of their own: 'at session_close on month_end:'",
            )
        body = self.suite("the body of the handler")
        return ast.On(self.span_from(start), event, arg, when, body, annotations)

    def every(self, start: int, annotations: Annotations) -> ast.Every:
        self.advance()
        period = self.expr()
        body = self.suite("the body of the handler")
        return ast.Every(self.span_from(start), period, body, annotations)

    def at_time(self, start: int, annotations: Annotations) -> ast.At:
        self.advance()
        time = self.expr()
        day = self.expr() if self.take_word("on") else None
        body = self.suite("the body of the handler")
        return ast.At(self.span_from(start), time, day, body, annotations)

    def settings(self, start: int, _annotations: Annotations) -> ast.Block:
        kind = self.texts[self.at]
        self.advance()
        found: list[ast.Setting] = []
        self.block(f"the list of {kind} settings", lambda: self.setting(found))
        return ast.Block(self.span_from(start), kind, tuple(found))

    def setting(self, found: list[ast.Setting]) -> None:
        start = self.start
        name = self.name("the name of a setting")
        value = self.bound_value()
        actions = self.expr_list() if self.take("->") else ()
        found.append(ast.Setting(self.span_from(start), name, value, actions))
        self.end_line()

    # ---- tests ------------------------------------------------------------------------------

    def test(self, start: int, _annotations: Annotations) -> ast.Test:
        self.advance()
        name = string_value(self.texts[self.at])
        if not self.expect(STRING, "the test's name in quotes"):
            name = ""
        steps: list[ast.TestStep] = []
        self.block("the list of steps", lambda: self.step(steps))
        return ast.Test(self.span_from(start), name, tuple(steps))

    def step(self, steps: list[ast.TestStep]) -> None:
        start, kind = self.start, self.texts[self.at]
        if kind not in words.TEST_WORDS:
            self.error("QD0113", f"expected set, feed, given or expect, found {self.shown()}")
            self.skip_line()
            self.end_line()
            self.orphaned_block()
            return
        self.keywords.add(self.at)
        self.advance()
        if kind == "expect":
            cond = self.expr()
            steps.append(ast.TestStep(self.span_from(start), kind, cond=cond))
        else:
            bindings = [self.binding()]
            while self.take(","):
                bindings.append(self.binding())
            steps.append(ast.TestStep(self.span_from(start), kind, tuple(bindings)))
        self.end_line()

    def binding(self) -> ast.Binding:
        start = self.start
        name = self.name("a name")
        value: ast.Expr = self.missing()
        if not self.quiet and self.expect("=", "'=' and a value"):
            value = self.expr()
        return ast.Binding(self.span_from(start), name, value)


_SHARED: dict[str, Method] = {
    "const": ItemParser.const,
    "fn": ItemParser.fn,
    "test": ItemParser.test,
}
_TOP: dict[str, Method] = {
    **_SHARED,
    "language": ItemParser.language,
    "import": ItemParser.import_,
    "from": ItemParser.from_,
    "enum": ItemParser.enum,
    "struct": ItemParser.struct,
    "indicator": ItemParser.indicator,
    "kernel": ItemParser.kernel,
    "strategy": ItemParser.strategy,
}
_ITEMS: dict[str, Method] = {
    **_SHARED,
    **dict.fromkeys(words.DATA_WORDS, ItemParser.data),
    "param": ItemParser.param_decl,
    "require": ItemParser.require,
    "invariant": ItemParser.require,
    "let": ItemParser.let,
    "state": ItemParser.state,
    "on": ItemParser.on,
    "every": ItemParser.every,
    "at": ItemParser.at_time,
    "action": ItemParser.action,
    "risk": ItemParser.settings,
    "backtest": ItemParser.settings,
}
