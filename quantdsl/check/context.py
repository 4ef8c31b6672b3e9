"""The state of elaboration: scopes, the block being filled, and where errors go.

One `Context` lives as long as one function is being built (a fn, an indicator, a handler, or the
equations of a strategy). What differs between these is its `home`; the rules of expressions and
statements are the same in all of them.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from quantdsl import limits
from quantdsl.check.bindings import Local
from quantdsl.check.changes import changed, mentions
from quantdsl.check.proofs import Ranges
from quantdsl.check.values import Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.ast import Span
from quantdsl.lang.diagnostics import Diagnostic, Edit, Label

if TYPE_CHECKING:
    from quantdsl.check.library import Library
    from quantdsl.check.modules import Module


class LimitExceeded(Exception):  # noqa: N818 - it is caught, never shown
    """Elaboration cannot go on: what it builds would exceed a limit of limits.py."""

    def __init__(self, limit: limits.Limit, message: str, span: Span) -> None:
        super().__init__(message)
        self.limit = limit
        self.message = message
        self.span = span


class Scope:
    """Names visible at one point; an inner scope hides an outer one."""

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent
        self.names: MutableMapping[str, Any] = {}

    def find(self, name: str) -> Any | None:
        """What the name means here, or None."""
        if name in self.names:
            return self.names[name]
        return self.parent.find(name) if self.parent is not None else None

    def visible(self) -> Iterator[str]:
        """Every name that can be written here, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent


class Report:
    """Collects the diagnostics of one file."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._seen: set[tuple[str, Span]] = set()

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic, once per code and place."""
        key = (diagnostic.code, diagnostic.span)
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)


class Context(Struct):
    """What elaboration needs to know around the node at hand.

    `home` is the builder that owns states, histories and instances here, or None in a plain fn;
    `units` knows tick, lot and money sizes; `strategy` is the one whose handler this is, if any.
    `facts` are the IR expressions known to be present (not na) at this point.
    """

    library: "Library"
    module: "Module"
    scope: Scope
    home: Any = None
    units: Any = None
    strategy: Any = None
    block: list[ops.Stmt] = field(default_factory=list)
    facts: frozenset[ops.Expr] = frozenset()
    depth: int = 0  # of nested suites: 0 is the top level of the body
    loops: int = 0
    counter: list[int] = field(default_factory=lambda: [0])
    spent: list[int] = field(default_factory=lambda: [0])
    turns: int = 1  # of all enclosing loops together, at most
    kernel: bool = False  # whether this is the body of a kernel
    pieces: bool = False  # whether its reductions are cut into pieces: those of a kernel of tensors
    parallel: Any = None  # the parallel loop whose turn this is, if any
    threads: Any = None  # what is known of the threads of this kernel
    unused: Any = None  # the call whose value is not used
    counted: dict[Span, int | None] = field(default_factory=dict)  # turns of each loop, if known
    arrays: dict[str, tuple[str, Any]] = field(default_factory=dict)  # in IR -> name and type
    alone: bool = False  # on a universe: no instrument is the one that is looked at
    meant: str = ""  # of several instruments the one whose lots a bare quantity counts
    returns: list[Value] = field(default_factory=list)
    size_names: frozenset[str] = frozenset()
    expected: Any = None  # the declared result type, if any
    ranges: Ranges = field(default_factory=Ranges)
    reads: dict[int, Warm] = field(default_factory=dict)  # what must be warm, by clock

    # ---- naming and emitting ----

    def fresh(self, stem: str) -> str:
        """A name that nothing else in this function has."""
        self.counter[0] += 1
        return f"{stem}.{self.counter[0]}"

    def emit(self, stmt: ops.Stmt) -> None:
        """Append a statement to the block being built; what it may change is no fact any more."""
        self.spent[0] += 1
        self.block.append(stmt)
        if self.facts:
            places = changed((stmt,))
            self.facts = frozenset(fact for fact in self.facts if not mentions(fact, places))

    def spend(self, span: Span) -> None:
        """Count a statement or a call of what is being built against its limit.

        Actions stand in place of their calls, so a few lines can ask for any number of steps.
        """
        self.spent[0] += 1
        if self.spent[0] > limits.STATEMENTS and not self.module.std:
            raise LimitExceeded(limits.STATEMENTS, "this has too many steps", span)

    def line(self, node: ast.Node) -> int:
        """The source line of a node, 1-based."""
        return self.module.source.position(node.span[0])[0]

    @contextmanager
    def nested(self, *, loop: bool = False) -> Iterator[list[ops.Stmt]]:
        """A suite: its own scope and block."""
        scope, block, facts = self.scope, self.block, self.facts
        self.scope, self.block = Scope(scope), []
        self.depth += 1
        self.loops += loop
        try:
            yield self.block
        finally:
            self.report_unused(self.scope)
            self.scope, self.block, self.facts = scope, block, facts
            self.depth -= 1
            self.loops -= loop

    @contextmanager
    def meaning(self, instrument: str) -> Iterator[None]:
        """Where a quantity that does not say of which instrument it is means this one."""
        outer, self.meant = self.meant, instrument or self.meant
        try:
            yield
        finally:
            self.meant = outer

    def report_unused(self, scope: Scope) -> None:
        """Warn about each local of a scope that nothing reads."""
        for name, binding in scope.names.items():
            if isinstance(binding, Local) and binding.span != (0, 0) and name[:1] != "_":
                self.report_unread(name, binding)

    def report_unread(self, name: str, binding: Local) -> None:
        """Warn where nothing reads the name."""
        if not binding.used:
            what = "is assigned but never read" if binding.assigned else "is never read"
            self.warn(
                "QD0204",
                f"{name!r} {what}",
                binding.span,
                help="delete it, or use it where it was meant",
            )

    # ---- dispatch ----

    def expr(self, node: ast.Expr) -> Value:
        """Elaborate an expression; on an error report it and return an error value."""
        value = EXPRESSIONS[type(node)](self, node)
        value.span = node.span
        if value.series is not None and value.series.warm:
            self.need(value.series.warm)
        if self.alone and value.series is not None and value.series.panel:
            return self.error(
                "QD0307",
                "of which instrument? There is one value for each here",
                node.span,
                help="this handler runs once for the universe: rebalance(weight) takes them all, "
                "and what looks across them, as xs.mean(x), is a 'let' of the strategy",
            )
        return value

    def need(self, warm: Iterable[tuple[int, Warm]]) -> None:
        """Note that what is being built reads something that is defined only from then on."""
        for clock, count in warm:
            known = self.reads.get(clock)
            self.reads[clock] = count if known is None else known.latest(count)

    def stmt(self, node: ast.Stmt) -> None:
        """Elaborate a statement into the current block."""
        self.spend(node.span)
        STATEMENTS[type(node)](self, node)

    # ---- errors ----

    def error(self, code: str, message: str, span: Span, **more: Any) -> Value:
        """Report an error and return the value that silences its consequences."""
        self.module.report.add(_diagnostic(code, "error", message, span, **more))
        return error_value(span)

    def warn(self, code: str, message: str, span: Span, **more: Any) -> None:
        """Report a warning."""
        self.module.report.add(_diagnostic(code, "warning", message, span, **more))


def _diagnostic(
    code: str,
    severity: str,
    message: str,
    span: Span,
    *,
    reason: str = "",
    help: str | None = None,
    note: str = "",
    labels: tuple[Label, ...] = (),
    edit: tuple[Span, str] | None = None,
) -> Diagnostic:
    return Diagnostic(
        code,
        severity,
        message,
        span,
        note=note,
        labels=labels,
        reason=reason,
        help=help or "",
        edit=Edit(*edit) if edit else None,
    )


EXPRESSIONS: dict[type, Callable[[Context, Any], Value]] = {}
STATEMENTS: dict[type, Callable[[Context, Any], None]] = {}


def elaborates(*nodes: type) -> Callable[[Any], Any]:
    """Register the elaborator of expression nodes."""

    def register(function: Any) -> Any:
        EXPRESSIONS.update(dict.fromkeys(nodes, function))
        return function

    return register


def executes(*nodes: type) -> Callable[[Any], Any]:
    """Register the elaborator of statement nodes."""

    def register(function: Any) -> Any:
        STATEMENTS.update(dict.fromkeys(nodes, function))
        return function

    return register


def any_bad(values: Sequence[Value]) -> bool:
    """True when one of the values is an error already reported."""
    return any(value.bad for value in values)
