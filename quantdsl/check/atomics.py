"""Atomics: on shared memory, on a caller's tensors, and in the turns of a parallel loop.

Those whose order nobody can see are the device's own. All others are made one thread after the
other in the order of the threads' numbers; on a tensor, block after block.
"""

from quantdsl.check import arith, single, tensors
from quantdsl.check.arith import coerce
from quantdsl.check.context import Context, any_bad
from quantdsl.check.thread_base import Word, nothing
from quantdsl.check.types import BOOL, F32, FLOAT, INT, ir_type
from quantdsl.check.values import Value, error_value
from quantdsl.check.waits import WIDE, waiting
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import called
from quantdsl.lang import ast


def _atomic(word: Word, cx: Context, node: ast.Call) -> Value:
    """`atomic_add(s[i], x)`; with the older value, or of floats, in the order of the threads."""
    args, scope = _given(word, cx, node)
    if not args:
        return error_value(node.span)
    if cx.parallel is not None:
        cx.parallel.counts(cx, args[0], word.name.removeprefix("atomic_"))
    place, values = cx.expr(args[0]), [cx.expr(arg) for arg in args[1:]]
    if place.bad or any_bad(values):
        return error_value(node.span)
    if isinstance(args[0], ast.Index) and tensors.only_read(cx, args[0].value, args[0].span):
        return error_value(node.span)
    array = place.ir.base if isinstance(place.ir, ops.Elem) else None
    if not isinstance(array, ops.Var) or not isinstance(place.ir, ops.Elem) or not place.writable:
        return cx.error(
            "QD0910",
            "an atomic is done to an element of an array",
            args[0].span,
            help=f"write {word.shape}",
        )
    given = cx.pieces and called(array.name, "p")
    threads = cx.parallel is None and (cx.threads.said or cx.threads.used is not None)
    if given and threads:
        cx.threads.use(node)
    alike = called(array.name, form.SHARED) or (given and threads) or cx.parallel is not None
    if not _reaches(cx, node, scope, given=given):
        return error_value(node.span)
    values = [coerce(cx, value, place.type) for value in values]
    if any_bad(values):
        return error_value(node.span)
    name = word.name.removeprefix("atomic_")
    unseen = name in form.ATOMICS and place.type == INT and cx.unused is node
    if unseen and alike:
        size = _size_of(cx, args[0])
        call = form.atomic(name, scope if given else "")
        done = ops.Call(call, (array, place.ir.index, values[0].ir), (size,))
        cx.emit(ops.Do(done, cx.line(node)))
        return nothing(node)
    kind = name if scope == "block" or not given else WIDE + name
    waits = called(array.name, form.SHARED) or (given and threads)
    return _in_order(word, cx, node, place, values, kind if waits else "")


def _size_of(cx: Context, node: ast.Expr) -> ops.Size:
    """How many elements the array of `s[i]` has."""
    assert isinstance(node, ast.Index)
    return cx.expr(node.value).type.size


def _given(word: Word, cx: Context, node: ast.Call) -> tuple[list[ast.Expr], str]:
    """The arguments less the scope, and that; no arguments where they do not fit."""
    few = 3 if word.name == "atomic_compare_swap" else 2
    given = [arg.value for arg in node.args if arg.name is None]
    named = [arg for arg in node.args if arg.name is not None]
    scope = named[0].value.id if named and isinstance(named[0].value, ast.Name) else ""
    odd = any(arg.name != "scope" for arg in named) or (named and scope not in form.SCOPES)
    if odd or len(named) > 1 or len(given) != few:
        cx.error("QD0308", f"this is no '{word.name}'", node.span, help=f"write {word.shape}")
        return [], ""
    return given, scope


def _reaches(cx: Context, node: ast.Call, scope: str, *, given: bool) -> bool:
    """Whether an atomic can be one of its scope; reports where it cannot."""
    if scope in ("device", "system") and not given:
        cx.error(
            "QD0910",
            f"no other block of the {scope} comes to this memory",
            node.span,
            reason="it is the block's, or the thread's; a tensor of the caller is the device's",
            help="leave the scope away, or write scope = block",
        )
        return False
    if scope == "block" and given and cx.parallel is not None:
        cx.error(
            "QD0910",
            "the turns of a parallel loop run in many blocks",
            node.span,
            reason="an atomic of one block's scope is none for the others",
            help="leave the scope away, or write scope = device",
        )
        return False
    return True


def _in_order(
    word: Word, cx: Context, node: ast.Call, place: Value, values: list[Value], waits: str
) -> Value:
    """An atomic whose result depends on the order: that of the threads' numbers.

    `waits` is how the threads wait there; empty where each has memory of its own.
    """
    if cx.parallel is not None:
        return cx.error(
            "QD0910",
            "the result of this depends on the order of the turns",
            node.span,
            reason="they run in any order; sums of ints and the like come out the same in each",
            help="leave its value unused, or reduce: 'parallel for ... reduce(x: +)'",
        )
    old = cx.fresh("x")
    before = Value(place.type, ops.Var(old), node.span)
    name = word.name.removeprefix("atomic_")
    made = _combined(cx, name, place, values, node)
    if made.bad:
        return made
    if waits:
        call = waiting(waits, cx.threads.wait(node), place.ir, made.ir)
        cx.emit(ops.Let(old, ir_type(place.type), call, cx.line(node)))
        return before
    cx.emit(ops.Let(old, ir_type(place.type), place.ir, cx.line(node)))
    cx.emit(ops.Assign(place.place, made.ir, cx.line(node)))
    return before


def _combined(cx: Context, name: str, old: Value, values: list[Value], node: ast.Call) -> Value:
    """What an atomic puts where `old` was."""
    value = values[0]
    whole = old.type == INT
    if name in ("and", "or", "xor", "inc", "dec") and not whole:
        return cx.error("QD0301", f"atomic_{name} needs ints, not {old.type}", node.span)
    if name not in ("exchange", "compare_swap") and old.type == BOOL:
        return cx.error("QD0301", f"atomic_{name} needs numbers, not {old.type}", node.span)
    if name == "exchange":
        return value
    if name == "compare_swap":
        same = arith.compare(cx, "==", old, value, node.span)
        return same if same.bad else arith.select(cx, same, values[1], old, node.span)
    zero, one = ops.i64(0), ops.i64(1)
    if name == "inc":  # from the limit on it begins again at 0
        over = ops.Binary("ige", old.ir, value.ir)
        return Value(INT, ops.Select(over, zero, ops.Binary("iadd", old.ir, one)))
    if name == "dec":  # from 0, and from above the limit, it begins again at the limit
        low, high = ops.Binary("ile", old.ir, zero), ops.Binary("igt", old.ir, value.ir)
        less = ops.Binary("isub", old.ir, one)
        return Value(INT, ops.Select(ops.Binary("or", low, high), value.ir, less))
    if whole:
        return Value(INT, ops.Binary(form.ATOMICS[name], old.ir, value.ir))
    made = Value(FLOAT, ops.Binary("f" + form.ATOMICS[name][1:], old.ir, value.ir))
    return single.rounded(made) if old.type == F32 else made


_NAMES = (*form.ATOMICS, "exchange", "inc", "dec")
WORDS: tuple[Word, ...] = (
    *(Word(f"atomic_{name}", f"atomic_{name}(s[i], x)", _atomic) for name in _NAMES),
    Word("atomic_compare_swap", "atomic_compare_swap(s[i], expected, x)", _atomic),
)
