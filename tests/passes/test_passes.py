import random

import numpy as np
import pytest

from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    Binary,
    Call,
    Const,
    Do,
    Elem,
    Field,
    FieldDecl,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Select,
    StructDecl,
    StructType,
    Table,
    TableDecl,
    Unary,
    Var,
    boolean,
    f64,
    i64,
)
from quantdsl.ir.show import show, show_node
from quantdsl.ir.verify import verify
from quantdsl.passes import PASSES, run_passes
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.outline import INLINE_NODES, outline_large
from quantdsl.passes.unused import drop_unused
from tests.codegen.programs import BUFFER_WORDS, INTS, random_module, random_words
from tests.ir.samples import sample

n = Var("n")


def returns(expr, type_="i64"):
    return Module((), (), (Func("f", (ParamDecl("n", "i64"),), type_, (Return(expr),)),), ("f",))


def result(module):
    return show_node(module.funcs[0].body[0]).removeprefix("return ")


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_each_pass_keeps_the_rules_and_the_meaning(seed):
    module = random_module(seed, 20)
    expected = outcomes(module, seed)
    for name, apply in PASSES:
        module = apply(module)
        verify(module)
        assert outcomes(module, seed) == expected, name


def outcomes(module, seed):
    rng = random.Random(seed)
    leaves = Layout(module.structs).leaves(StructType("S"))
    kinds = [leaf.type for leaf in leaves for _ in range(leaf.words)]
    interpreter, found = Interpreter(module), []
    for entry in module.entries:
        words, buffer = random_words(rng, kinds), random_words(rng, ["f64"] * BUFFER_WORDS)
        value = interpreter.call(entry, words, buffer, 0.5, 3, True)
        floats = words.view(np.float64)
        words[np.isnan(floats) & (np.array(kinds) == "f64")] = 0
        found.append((repr(value), words.tobytes()))
    return found


def test_running_all_passes_twice_changes_nothing_more():
    once = run_passes(sample())
    assert show(run_passes(once)) == show(once)


@pytest.mark.parametrize(
    ("expr", "folded"),
    [
        (Binary("iadd", i64(2**63 - 1), i64(1)), str(-(2**63))),
        (Binary("imul", Binary("isub", i64(7), i64(3)), i64(5)), "20"),
        (Binary("imod", i64(-7), i64(0)), "0"),
        (Binary("shl", i64(1), i64(65)), "2"),
        (Select(Binary("ilt", i64(1), i64(2)), n, i64(0)), "n"),
        (Binary("iadd", n, Unary("bool_to_i64", boolean(True))), "iadd(n, 1)"),
    ],
)
def test_fold_computes_integers_and_truths(expr, folded):
    assert result(fold_constants(returns(expr))) == folded


def test_fold_agrees_with_the_interpreter_on_every_edge():
    for op in ("iadd", "isub", "imul", "idiv", "imod", "imin", "imax", "iand", "ior", "ixor",
               "shl", "lshr", "ashr", "umulh"):  # fmt: skip
        for x in INTS:
            for y in INTS:
                module = returns(Binary(op, i64(x), i64(y)))
                folded = fold_constants(module).funcs[0].body[0].value
                assert isinstance(folded, Const)
                assert folded.bits == Interpreter(module).call("f", 0), (op, x, y)


def test_fold_leaves_floats_alone_but_widens_integers():
    total, widened = Binary("fadd", f64(1.0), f64(2.0)), Unary("i64_to_f64", i64(2**53 + 1))
    assert result(fold_constants(returns(total, "f64"))) == "fadd(1.0, 2.0)"
    assert result(fold_constants(returns(widened, "f64"))) == str(2.0**53)


def test_fold_drops_what_multiplies_or_divides_by_one():
    x = Unary("i64_to_f64", n)
    for expr in (
        Binary("fmul", x, f64(1.0)),
        Binary("fmul", f64(1.0), x),
        Binary("fdiv", x, f64(1.0)),
    ):
        assert result(fold_constants(returns(expr, "f64"))) == "i64_to_f64(n)"
    left = Binary("fdiv", f64(1.0), x)
    assert result(fold_constants(returns(left, "f64"))) == "fdiv(1.0, i64_to_f64(n))"


def test_fold_keeps_only_the_branch_that_is_taken():
    decided = If(Binary("igt", i64(8), i64(4)), (Let("x", "i64", n),), (Let("y", "i64", n),))
    func = Func("f", (ParamDecl("n", "i64"),), None, (decided, Let("z", "i64", n)))
    module = fold_constants(Module((), (), (func,), ("f",)))
    assert [stmt.name for stmt in module.funcs[0].body] == ["x", "z"]
    verify(module)


def test_fold_returns_an_untouched_function_itself():
    module = returns(Binary("iadd", n, n))
    assert fold_constants(module).funcs[0] is module.funcs[0]


def test_unused_drops_what_no_entry_reaches():
    module = sample()
    tables = (*module.tables, TableDecl("spare", "i64", (1,)))
    funcs = (Func("spare.1", (), None, ()), *module.funcs)
    larger = Module(module.structs, tables, funcs, module.entries, module.sizes)
    assert drop_unused(larger) == module


def test_outline_bounds_what_inlining_can_make():
    """Twenty functions that each call the one below twice: 2^20 copies if all were inlined."""
    ten = Func("f0", (ParamDecl("x", "f64"),), "f64", (Return(sum_of(10)),))
    chain = [ten]
    for level in range(1, 21):
        call = Call(f"f{level - 1}", (Var("x"),))
        body = (Return(Binary("fadd", call, call)),)
        chain.append(Func(f"f{level}", (ParamDecl("x", "f64"),), "f64", body))
    module = link({f.name: f for f in chain}.get, ["f20"], {})
    outlined = outline_large(module)
    sizes = {}
    for func in outlined.funcs:
        body = 25 if func.name == "f0" else 5
        callee = f"f{int(func.name[1:]) - 1}"
        inline = any(f.name == callee and f.inline for f in outlined.funcs)
        sizes[func.name] = body + (2 * sizes[callee] if inline else 0)
    assert max(sizes.values()) <= 2 * INLINE_NODES + 5
    assert [f.name for f in outlined.funcs if not f.inline]


def sum_of(count):
    expr = Var("x")
    for _ in range(count):
        expr = Binary("fadd", expr, f64(1.0))
    return expr


def test_outline_leaves_what_is_called_once_inline():
    state = StructType("S")
    structs = (StructDecl("S", (FieldDecl("x", "f64"),)),)
    body = tuple(Let(f"v{k}", "f64", Field(Var("s"), "x")) for k in range(INLINE_NODES))
    large = Func("large", (ParamDecl("s", state),), None, body)
    call = Do(Call("large", (Var("s"),)))
    once = Func("f", (ParamDecl("s", state),), None, (call,))
    twice = Func("f", (ParamDecl("s", state),), None, (call, call))
    assert outline_large(Module(structs, (), (large, once), ("f",))).funcs[0].inline
    assert not outline_large(Module(structs, (), (large, twice), ("f",))).funcs[0].inline


def test_table_elements_keep_their_table():
    table = TableDecl("t", "i64", (4, 5))
    func = Func("f", (), "i64", (Return(Elem(Table("t"), i64(1))),))
    module = Module((), (table, TableDecl("u", "i64", (1,))), (func,), ("f",))
    assert run_passes(module).tables == (table,)
