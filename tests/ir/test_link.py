import msgspec
import pytest

from quantdsl.errors import InternalError
from quantdsl.ir.link import combine_sizes, link
from quantdsl.ir.ops import (
    ArrayType,
    Binary,
    Call,
    Do,
    FieldDecl,
    Func,
    If,
    Let,
    ParamDecl,
    Return,
    SizeName,
    SizeOf,
    SizeOp,
    StructDecl,
    StructType,
    i64,
)
from quantdsl.ir.verify import verify
from tests.ir.samples import DECLS, sample


def caller(name, *callees):
    return Func(name, (), None, tuple(Do(Call(callee, ())) for callee in callees))


def lookup(*decls):
    return {decl.name: decl for decl in decls}.get


def test_only_what_the_entries_reach_is_looked_up():
    asked = []
    table = {decl.name: decl for decl in DECLS}

    def find(name):
        asked.append(name)
        return table.get(name)

    module = link(find, ["halve"], {"N_POINTS": 2})
    assert [func.name for func in module.funcs] == ["halve"]
    assert set(asked) == {"halve", "State", "Ring", "Point"}


def test_callees_stand_before_callers_and_parts_before_wholes():
    module = sample()
    assert [func.name for func in module.funcs] == ["push[4]", "point", "halve", "run"]
    assert [struct.name for struct in module.structs] == ["Ring[4]", "Point", "State"]
    verify(module)


def test_each_binding_of_sizes_is_one_instance():
    n = SizeName("N")
    inner = Func("inner", (), None, (Let("xs", ArrayType("f64", n), None),), ("N",))
    outer = Func("outer", (), None, (
        Do(Call("inner", (), (3,))),
        Do(Call("inner", (), (SizeOp("+", SizeName("WIDE"), 1),))),
        Do(Call("inner", (), (SizeOp("-", 4, 1),))),
    ))  # fmt: skip
    module = link(lookup(inner, outer), ["outer"], {"WIDE": 4})
    assert [func.name for func in module.funcs] == ["inner[3]", "inner[5]", "outer"]
    verify(module)


def test_size_of_becomes_a_number():
    size = SizeOp("pow2", SizeOp("*", SizeName("N"), 3), 0)
    func = Func("f", (), None, (Let("n", "i64", SizeOf(size)),))
    module = link(lookup(func), ["f"], {"N": 7})
    assert module.funcs[0].body == (Let("n", "i64", i64(32)),)


@pytest.mark.parametrize(("left", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_pow2_is_the_smallest_power_not_below(left, power):
    assert combine_sizes("pow2", left, 0) == power


def test_recursion_is_refused_and_the_cycle_named():
    decls = lookup(caller("a", "b"), caller("b", "c"), caller("c", "b"))
    with pytest.raises(InternalError, match="b -> c -> b is a cycle"):
        link(decls, ["a"], {})


def test_a_struct_that_holds_itself_is_refused():
    loop = StructDecl("L", (FieldDecl("next", StructType("L")),))
    func = Func("f", (ParamDecl("l", StructType("L")),), None, ())
    with pytest.raises(InternalError, match="L -> L is a cycle"):
        link(lookup(loop, func), ["f"], {})


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (caller("f", "gone"), "'gone' should be a Func, is nothing"),
        (caller("f", "Point"), "'Point' should be a Func, is StructDecl"),
        (Func("f", (), None, (Do(Call("push", ())),)), "takes sizes"),
        (Func("f", (), None, (Let("n", "i64", SizeOf(SizeName("M"))),)), "no size named 'M'"),
    ],
)
def test_what_is_not_there_is_named(func, message):
    with pytest.raises(InternalError, match=message):
        link(lookup(*DECLS, func), ["f"], {"N_POINTS": 2})


@pytest.mark.parametrize(("op", "seen"), [("igt", "two"), ("ieq", "one")])
def test_what_sizes_decide_is_settled_and_what_it_hides_is_never_read(op, seen):
    uses = Binary(op, SizeOf(SizeName("USES_X")), i64(0))
    cond = Binary("and", uses, Binary("ile", i64(1), i64(2)))
    chosen = If(cond, (Return(Call("one", ())),), (Return(Call("two", ())),))
    one = Func("one", (), "i64", (Return(i64(1)),))
    two = msgspec.structs.replace(one, name="two")
    entry = Func("f", (), "i64", (chosen, Return(Call("absent", ()))))
    module = link(lookup(entry, one, two), ["f"], {"USES_X": 0})
    assert [func.name for func in module.funcs] == [seen, "f"]
    assert module.funcs[-1].body == (Return(Call(seen, ())),)
