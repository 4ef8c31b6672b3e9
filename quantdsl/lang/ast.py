"""The syntax tree: what a file says, before any name or type is known.

Every node carries `span`, the half-open range of character offsets into the source. A node that
the parser had to invent while recovering is `Bad`; later stages skip it silently, because its
error has been reported already.
"""

import msgspec

Span = tuple[int, int]


class Node(msgspec.Struct, frozen=True, tag_field="node", tag=True, gc=False):
    span: Span


# ---- expressions ----------------------------------------------------------------------------


class Bad(Node, frozen=True):
    """An expression or item that did not parse; its diagnostic exists."""


class Num(Node, frozen=True):
    """A number as written (`text` keeps the digits, underscores removed) with its unit or None."""

    text: str
    unit: str | None = None
    unit_span: Span | None = None


class Time(Node, frozen=True):
    """A time of day, `15:50` or `15:50:30`, in seconds after midnight."""

    seconds: int


class Str(Node, frozen=True):
    """A string literal with escapes resolved."""

    value: str


class Name(Node, frozen=True):
    id: str


class Bool(Node, frozen=True):
    value: bool


class Na(Node, frozen=True):
    pass


class Array(Node, frozen=True):
    items: tuple["Expr", ...]


class Attr(Node, frozen=True):
    value: "Expr"
    name: str
    name_span: Span


class Arg(Node, frozen=True):
    """One argument of a call; `name` is None for a positional one."""

    name: str | None
    value: "Expr"


class Call(Node, frozen=True):
    func: "Expr"
    args: tuple[Arg, ...]


class Index(Node, frozen=True):
    """`value[index]`; of a tensor `more` are the indices behind the first."""

    value: "Expr"
    index: "Expr"
    more: tuple["Expr", ...] = ()


class Unary(Node, frozen=True):
    """`op` is one of + - not."""

    op: str
    operand: "Expr"


class Binary(Node, frozen=True):
    """`op` is one of + - * / mod of ^ ?? and or."""

    op: str
    left: "Expr"
    right: "Expr"
    op_span: Span


class Compare(Node, frozen=True):
    """A chain `a < b <= c`: len(ops) + 1 operands; each pair must hold."""

    operands: tuple["Expr", ...]
    ops: tuple[str, ...]


class Crosses(Node, frozen=True):
    """`left crosses above right`; `direction` is above or below."""

    left: "Expr"
    direction: str
    right: "Expr"


class IsNa(Node, frozen=True):
    value: "Expr"
    negated: bool


class Cond(Node, frozen=True):
    """`then if cond else otherwise`."""

    then: "Expr"
    cond: "Expr"
    otherwise: "Expr"


class Range(Node, frozen=True):
    """`low..high` (inclusive) or `low..<high`."""

    low: "Expr"
    high: "Expr"
    inclusive: bool


class Pipe(Node, frozen=True):
    """`value |> func(args)`: value becomes the first argument."""

    value: "Expr"
    call: "Expr"


Expr = (
    Bad
    | Num
    | Time
    | Str
    | Name
    | Bool
    | Na
    | Array
    | Attr
    | Call
    | Index
    | Unary
    | Binary
    | Compare
    | Crosses
    | IsNa
    | Cond
    | Range
    | Pipe
)


# ---- shared parts ---------------------------------------------------------------------------


class Ident(Node, frozen=True):
    """A name where it is declared."""

    id: str


class Type(Node, frozen=True):
    """`name[args]?`, the name perhaps behind a namespace; an argument is a type or an integer."""

    name: str
    args: tuple["Type | int", ...] = ()
    optional: bool = False


class Param(Node, frozen=True):
    """A parameter of a fn, indicator, kernel or action."""

    name: Ident
    type: Type | None
    const: bool = False
    inout: bool = False
    default: Expr | None = None


class Annotation(Node, frozen=True):
    name: str
    args: tuple[Arg, ...] = ()


class Suite(Node, frozen=True):
    body: tuple["Stmt", ...]


# ---- statements -----------------------------------------------------------------------------


class Let(Node, frozen=True):
    """An immutable local, or at strategy level an equation."""

    name: Ident
    type: Type | None
    value: Expr
    annotations: tuple[Annotation, ...] = ()


class Var(Node, frozen=True):
    name: Ident
    type: Type | None
    value: Expr


class State(Node, frozen=True):
    name: Ident
    type: Type | None
    value: Expr | None
    annotations: tuple[Annotation, ...] = ()


class Assign(Node, frozen=True):
    """`target op value`; `op` is = += -= *= or /=."""

    target: Expr
    op: str
    value: Expr


class ExprStmt(Node, frozen=True):
    value: Expr


class Doc(Node, frozen=True):
    """A string standing alone as a statement: documentation."""

    value: str


class If(Node, frozen=True):
    """`branches` are (condition, suite) of if and each elif, in order."""

    branches: tuple[tuple[Expr, Suite], ...]
    otherwise: Suite | None


class Case(Node, frozen=True):
    patterns: tuple[Expr, ...]
    body: Suite


class Match(Node, frozen=True):
    subject: Expr
    cases: tuple[Case, ...]


class For(Node, frozen=True):
    """`reduce` holds (name, op) pairs; `parallel` stands only in kernels."""

    name: Ident
    over: Expr
    body: Suite
    parallel: bool = False
    reduce: tuple[tuple[str, str], ...] = ()


class While(Node, frozen=True):
    cond: Expr
    max: Expr
    body: Suite


class Atomic(Node, frozen=True):
    body: Suite


class Return(Node, frozen=True):
    value: Expr | None


class Break(Node, frozen=True):
    pass


class Continue(Node, frozen=True):
    pass


class Assert(Node, frozen=True):
    cond: Expr
    message: str | None


Stmt = (
    Bad
    | Let
    | Var
    | State
    | Assign
    | ExprStmt
    | Doc
    | If
    | Match
    | For
    | While
    | Atomic
    | Return
    | Break
    | Continue
    | Assert
)


# ---- items ----------------------------------------------------------------------------------


def suites(stmt: Stmt) -> tuple[Suite, ...]:
    """The blocks that stand inside a statement, in the order of the text."""
    match stmt:
        case If():
            otherwise = () if stmt.otherwise is None else (stmt.otherwise,)
            return (*(suite for _, suite in stmt.branches), *otherwise)
        case Match():
            return tuple(case.body for case in stmt.cases)
        case For() | While() | Atomic():
            return (stmt.body,)
    return ()


class Language(Node, frozen=True):
    version: str


class Import(Node, frozen=True):
    """`import a.b as c` (names empty) or `from a.b import x, y`."""

    path: tuple[str, ...]
    alias: Ident | None
    names: tuple[Ident, ...] = ()


class Const(Node, frozen=True):
    name: Ident
    type: Type | None
    value: Expr


class Enum(Node, frozen=True):
    name: Ident
    members: tuple[Ident, ...]


class Field(Node, frozen=True):
    name: Ident
    type: Type


class Struct(Node, frozen=True):
    name: Ident
    fields: tuple[Field, ...]


class Fn(Node, frozen=True):
    """`body` is a Suite, or an expression for the `= expr` form."""

    name: Ident
    params: tuple[Param, ...]
    returns: Type | None
    body: Suite | Expr
    annotations: tuple[Annotation, ...] = ()


class Indicator(Node, frozen=True):
    name: Ident
    params: tuple[Param, ...]
    returns: Type | None
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class Kernel(Node, frozen=True):
    name: Ident
    params: tuple[Param, ...]
    returns: Type | None
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class Data(Node, frozen=True):
    """`bars 5m, settle = 1e-6 as x`; `kind` is one of words.DATA_WORDS."""

    kind: str
    args: tuple[Arg, ...]
    alias: Ident | None


class ParamDecl(Node, frozen=True):
    """`domain` is a Range, a tuple of choices, or None; `step` or `log` count at most one."""

    name: Ident
    type: Type | None
    default: Expr
    domain: "Expr | tuple[Expr, ...] | None" = None
    step: Expr | None = None
    log: str | None = None
    annotations: tuple[Annotation, ...] = ()


class Require(Node, frozen=True):
    cond: Expr
    message: str | None


class Invariant(Node, frozen=True):
    cond: Expr
    message: str | None


class On(Node, frozen=True):
    """`on event(arg) when guard:`."""

    event: Ident
    arg: Expr | None
    when: Expr | None
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class Every(Node, frozen=True):
    period: Expr
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class At(Node, frozen=True):
    """`at time on day:`."""

    time: Expr
    day: Expr | None
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class Action(Node, frozen=True):
    name: Ident
    params: tuple[Param, ...]
    body: Suite
    annotations: tuple[Annotation, ...] = ()


class Setting(Node, frozen=True):
    """A line `name = value -> action, action` of a risk or backtest block."""

    name: Ident
    value: Expr
    actions: tuple[Expr, ...] = ()


class Block(Node, frozen=True):
    """`kind` is risk or backtest."""

    kind: str
    settings: tuple[Setting, ...]


class Binding(Node, frozen=True):
    name: Ident
    value: Expr


class TestStep(Node, frozen=True):
    """`kind` is set, feed or given (bindings) or expect (cond)."""

    kind: str
    bindings: tuple[Binding, ...] = ()
    cond: Expr | None = None


class Test(Node, frozen=True):
    name: str
    steps: tuple[TestStep, ...]


class Strategy(Node, frozen=True):
    name: Ident
    items: tuple["Item", ...]
    annotations: tuple[Annotation, ...] = ()


Item = (
    Bad
    | Doc
    | Data
    | ParamDecl
    | Require
    | Const
    | Let
    | State
    | On
    | Every
    | At
    | Block
    | Action
    | Fn
    | Invariant
    | ExprStmt
    | Test
)
Top = Bad | Language | Import | Const | Enum | Struct | Fn | Indicator | Kernel | Strategy | Test


class File(Node, frozen=True):
    items: tuple[Top, ...]
