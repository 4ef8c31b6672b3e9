"""Statements: from the syntax tree to IR."""

from quantdsl.check import arith, naming, tensors, threads
from quantdsl.check.arith import an, coerce, returns_nothing
from quantdsl.check.bindings import EnumBinding, Local, unknown
from quantdsl.check.context import Context, executes
from quantdsl.check.expr import facts, truth
from quantdsl.check.narrowing import narrow
from quantdsl.check.signatures import resolve
from quantdsl.check.types import SCALAR, VOID, Type, ir_type
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.ir.threads import RESULT
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label


def body(cx: Context, suite: ast.Suite) -> None:
    """Every statement of a suite, into the current block."""
    ended: ast.Stmt | None = None
    for stmt in suite.body:
        if ended is not None:
            cx.warn("QD0605", "this is never reached", stmt.span)
            ended = None
        cx.stmt(stmt)
        if isinstance(stmt, ast.Return | ast.Break | ast.Continue):
            ended = stmt


def bind(cx: Context, name: ast.Ident, value: Value) -> None:
    """Make a name visible from here on."""
    local = Local(value, name.span, used=value.bad)
    naming.enter(cx, cx.scope.names, name, cx.scope.find(name.id), local)


@executes(ast.Doc, ast.Bad)
def _nothing(cx: Context, node: ast.Stmt) -> None:
    """Documentation, or a statement whose syntax error is reported."""


@executes(ast.Let)
def _let(cx: Context, node: ast.Let) -> None:
    _local(cx, node, mutable=False)


@executes(ast.Var)
def _var(cx: Context, node: ast.Var) -> None:
    _local(cx, node, mutable=True)


def _local(cx: Context, node: ast.Let | ast.Var, *, mutable: bool) -> None:
    value = cx.expr(node.value)
    if node.type is not None and not value.bad:
        wanted = resolve(cx, node.type)
        if wanted.kind == "error":
            bind(cx, node.name, error_value(node.span))
            return
        if wanted.kind in ("array", "tensor") and cx.kernel and mutable:
            _array(cx, node, wanted, value)
            return
        if wanted.kind == "shared":
            threads.shared(cx, node, wanted, value)
            return
        value = coerce(cx, value, wanted)
    if value.bad:
        bind(cx, node.name, value)
        return
    if value.type.kind == "na":
        value = cx.error(
            "QD0502",
            "na alone has no type",
            node.value.span,
            help=f"write the type: {node.name.id}: float? = na",
        )
        bind(cx, node.name, value)
        return
    if value.type == VOID:
        bind(cx, node.name, returns_nothing(cx, node.value.span))
        return
    if value.type.kind not in SCALAR and value.type.kind != "struct":
        cx.error("QD0301", f"{an(value.type)} cannot be kept in a local", node.value.span)
        bind(cx, node.name, error_value(node.span))
        return
    name = cx.fresh("x")
    cx.emit(ops.Let(name, ir_type(value.type), value.ir, cx.line(node)))
    kept = Value(
        value.type, ops.Var(name), node.span, unit=value.unit, writable=mutable, names=value.names
    )
    kept.percent = value.percent  # a var that begins as 5% holds percentages
    if not mutable:
        kept.low, kept.high, kept.const = value.low, value.high, value.const
        if value.ir in cx.facts:
            cx.facts |= {kept.ir}
    if cx.home is not None:
        cx.home.note_local(cx, name, kept, value)
    bind(cx, node.name, kept)


def _array(cx: Context, node: ast.Let | ast.Var, type_: Type, value: Value) -> None:
    """`var a: array[float, 8] = 0`: an array of a kernel, every element the value."""
    assert type_.elem is not None
    value = coerce(cx, value, type_.elem)
    if value.bad:
        bind(cx, node.name, value)
        return
    array, index = cx.fresh("x"), cx.fresh("i")
    cx.emit(ops.Let(array, ir_type(type_), None, cx.line(node)))
    if not isinstance(value.ir, ops.Const) or value.ir.bits:
        fill = ops.Assign(ops.Elem(ops.Var(array), ops.Var(index)), value.ir)
        cx.emit(ops.For(index, ops.i64(0), ops.SizeOf(type_.size), (fill,)))
    cx.arrays[array] = node.name.id, type_
    bind(cx, node.name, Value(type_, ops.Var(array), node.span, writable=True))


@executes(ast.State)
def _state(cx: Context, node: ast.State) -> None:
    if cx.home is None:
        cx.error("QD0606", "a fn keeps no state", node.span, help="make it an indicator")
        return
    cx.home.declare_state(cx, node)


def _target(cx: Context, node: ast.Expr) -> Value:
    """The place that is assigned to; assigning does not count as reading its name."""
    root = node
    while isinstance(root, ast.Attr | ast.Index):
        root = root.value
    found = cx.scope.find(root.id) if isinstance(root, ast.Name) else None
    used = isinstance(found, Local) and found.used
    target = cx.expr(node)
    if isinstance(found, Local):
        found.used = used
        found.assigned = True
    return target


def _undeclared(cx: Context, node: ast.Name) -> None:
    """Report an assignment to a name that nothing declares: it may be a misspelt variable."""
    variables = [
        name
        for name in cx.scope.visible()
        if isinstance(found := cx.scope.find(name), Local) and found.value.writable
    ]
    help = f"write 'let {node.id} = ...', or declare a 'state' for what lasts from bar to bar"
    unknown(cx, node.id, node.span, variables, "here", help)


def _fixed_name(cx: Context, node: ast.Expr) -> None:
    """Report an assignment to what never changes; a local 'let' can become a 'var'."""
    root = node.value if isinstance(node, ast.Index) else node
    found = cx.scope.find(root.id) if isinstance(root, ast.Name) else None
    text = cx.module.source.text
    if tensors.only_read(cx, root, node.span):
        return
    if root is node and isinstance(found, Local) and found.span != (0, 0):
        start = text.rfind("let", 0, found.span[0])
        if start >= 0 and text[start + 3 : found.span[0]].isspace():
            cx.error(
                "QD0607",
                f"{text[slice(*node.span)]!r} never changes",
                node.span,
                labels=(Label(found.span, "named by 'let' here"),),
                help="declare it with 'var' (or a 'state', to keep it between bars)",
                edit=((start, start + 3), "var"),
            )
            return
    cx.error(
        "QD0607",
        "this cannot be assigned to",
        node.span,
        help="keep the value in a 'var' or a 'state' of your own",
    )


@executes(ast.Assign)
def _assign(cx: Context, node: ast.Assign) -> None:
    if cx.parallel is not None and cx.parallel.assign(cx, node):
        return
    if isinstance(node.target, ast.Name) and cx.scope.find(node.target.id) is None:
        _undeclared(cx, node.target)
        return
    target = _target(cx, node.target)
    value = cx.expr(node.value)
    if target.bad or value.bad:
        return
    if not target.writable:
        _fixed_name(cx, node.target)
        return
    if node.op != "=":
        value = arith.binary(cx, node.op[0], arith.plain(cx, target), value, node.span)
    present = not value.type.optional and value.type.kind != "na"
    value = coerce(cx, value, target.type)
    if value.bad:
        return
    cx.emit(ops.Assign(target.place, value.ir, cx.line(node)))
    if target.type.optional and present:
        cx.facts |= {target.ir}


@executes(ast.ExprStmt)
def _expr(cx: Context, node: ast.ExprStmt) -> None:
    cx.unused = node.value
    value = cx.expr(node.value)
    if not value.bad and value.type != VOID and not isinstance(node.value, ast.Call):
        cx.warn("QD0204", "the value of this expression is not used", node.span)


@executes(ast.If)
def _if(cx: Context, node: ast.If) -> None:
    _branch(cx, node.branches, node.otherwise)


def _branch(
    cx: Context, branches: tuple[tuple[ast.Expr, ast.Suite], ...], otherwise: ast.Suite | None
) -> None:
    (cond_node, suite), rest = branches[0], branches[1:]
    cond = truth(cx, cx.expr(cond_node))
    line = cx.line(cond_node)
    outer = cx.facts
    with cx.nested() as then:
        cx.facts = outer | facts(cond.ir, holds=True)
        if cx.kernel:
            narrow(cx, cond_node)
        body(cx, suite)
        after_then = cx.facts
    with cx.nested() as other:
        cx.facts = outer | facts(cond.ir, holds=False)
        if rest:
            _branch(cx, rest, otherwise)
        elif otherwise is not None:
            body(cx, otherwise)
        after_other = cx.facts
    cx.emit(ops.If(cond.ir, tuple(then), tuple(other), line))
    if leaves(tuple(then)):
        cx.facts = after_other
    elif leaves(tuple(other)):
        cx.facts = after_then
    else:
        cx.facts = after_then & after_other


def leaves(block: tuple[ops.Stmt, ...]) -> bool:
    """True when control never falls out of the end of the block."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ops.Return | ops.Break | ops.Continue):
        return True
    return isinstance(last, ops.If) and leaves(last.then) and leaves(last.otherwise)


@executes(ast.Match)
def _match(cx: Context, node: ast.Match) -> None:
    subject = cx.expr(node.subject)
    if subject.bad:
        return
    if subject.type.kind not in ("enum", "int"):
        cx.error(
            "QD0301",
            f"match needs an enum or an int, this is {an(subject.type)}",
            node.subject.span,
        )
        return
    cx.emit(ops.Let(name := cx.fresh("m"), ops.I64_T, subject.ir, cx.line(node)))
    arms: list[tuple[ops.Expr, tuple[ops.Stmt, ...], int]] = []
    covered: set[object] = set()
    for case in node.cases:
        test, catches_all = _patterns(cx, case, subject, ops.Var(name), covered)
        with cx.nested() as block:
            body(cx, case.body)
        arms.append((test, tuple(block), cx.line(case)))
        if catches_all:
            covered.add("_")
    _require_exhaustive(cx, node, subject, covered)
    chain: tuple[ops.Stmt, ...] = ()
    for test, block_, line in reversed(arms):
        chain = (ops.If(test, block_, chain, line),)
    if chain and (subject.type.kind == "enum" or "_" in covered):
        # The cases cover the enum, so the last one needs no test; leaving it unconditional lets
        # a match that returns in every case end the function.
        chain = _last_unconditional(chain[0])
    for stmt in chain:
        cx.emit(stmt)


def _last_unconditional(stmt: ops.Stmt) -> tuple[ops.Stmt, ...]:
    assert isinstance(stmt, ops.If)
    if not stmt.otherwise:
        return stmt.then
    return (ops.If(stmt.cond, stmt.then, _last_unconditional(stmt.otherwise[0]), stmt.line),)


def _patterns(
    cx: Context, case: ast.Case, subject: Value, var: ops.Expr, covered: set[object]
) -> tuple[ops.Expr, bool]:
    tests: list[ops.Expr] = []
    for pattern in case.patterns:
        if isinstance(pattern, ast.Name) and pattern.id == "_":
            return ops.boolean(True), True
        value = _pattern(cx, pattern, subject)
        if value.bad:
            continue
        if value.const in covered:
            cx.warn("QD0605", "this case is covered above", pattern.span)
        covered.add(value.const)
        tests.append(ops.Binary("ieq", var, value.ir))
    total: ops.Expr = tests[0] if tests else ops.boolean(False)
    for test in tests[1:]:
        total = ops.Binary("or", total, test)
    return total, False


def _pattern(cx: Context, pattern: ast.Expr, subject: Value) -> Value:
    """A case label: a member of the subject's enum by its bare name, or a constant."""
    if subject.type.kind == "enum" and isinstance(pattern, ast.Name):
        enum = cx.library.enum(subject.type.of)
        member = enum.member(pattern.id)
        if member is None:
            return unknown(cx, pattern.id, pattern.span, enum.members(), f"in {subject.type}")
        return member.read(cx, pattern)
    value = cx.expr(pattern)
    if value.bad:
        return value
    if value.type != subject.type:
        return cx.error(
            "QD0301", f"{an(subject.type)} is matched, this is {an(value.type)}", pattern.span
        )
    if value.const is None:
        return cx.error("QD0609", "a case is a constant", pattern.span)
    return value


def _require_exhaustive(cx: Context, node: ast.Match, subject: Value, covered: set[object]) -> None:
    if subject.type.kind != "enum" or "_" in covered:
        return
    enum: EnumBinding = cx.library.enum(subject.type.of)
    missing = [name for n, name in enumerate(enum.members()) if n not in covered]
    if missing:
        cx.error(
            "QD0609",
            f"no case for {', '.join(missing)}",
            node.subject.span,
            help="add the cases, or 'case _:' for the rest",
        )


@executes(ast.Break)
def _break(cx: Context, node: ast.Break) -> None:
    if not cx.loops:
        cx.error("QD0610", "'break' stands only in a loop", node.span)
        return
    if cx.parallel is not None and not cx.parallel.leave(cx, node, "break"):
        return
    cx.emit(ops.Break())


@executes(ast.Continue)
def _continue(cx: Context, node: ast.Continue) -> None:
    if not cx.loops:
        cx.error("QD0610", "'continue' stands only in a loop", node.span)
        return
    cx.emit(ops.Continue())


@executes(ast.Return)
def _return(cx: Context, node: ast.Return) -> None:
    if cx.parallel is not None and not cx.parallel.leave(cx, node, "return"):
        return
    if node.value is None:
        if cx.expected not in (None, VOID):
            cx.error("QD0209", f"{an(cx.expected)} must be returned here", node.span)
        _leave(cx, ops.Return(), node)
        return
    value = cx.expr(node.value)
    if value.bad:
        return
    if cx.expected == VOID:
        cx.error("QD0209", "nothing can be returned here", node.value.span)
        return
    if cx.expected is not None:
        value = coerce(cx, value, cx.expected)
    elif cx.returns:
        value = coerce(cx, value, cx.returns[0].type)
    cx.returns.append(value)
    if cx.threads is None:
        cx.emit(ops.Return(value.ir))
        return
    name = cx.fresh(RESULT)
    cx.emit(ops.Let(name, ir_type(value.type), value.ir, cx.line(node)))
    _leave(cx, ops.Return(ops.Var(name)), node)


def _leave(cx: Context, stmt: ops.Return, node: ast.Return) -> None:
    """Emit a return; where threads are, its place in the text is kept."""
    if cx.threads is not None:
        cx.threads.returns[id(stmt)] = node.span
    cx.emit(stmt)


@executes(ast.Assert)
def _assert(cx: Context, node: ast.Assert) -> None:
    cx.error(
        "QD0216",
        "'assert' is not available yet",
        node.span,
        help="write an 'invariant' at the level of the strategy",
    )
