"""Random modules whose `lane` is one large body, and kernels of them at every width."""

import random

import msgspec
import numpy as np

from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.lanes import FINISH, INTERFACE, START
from quantdsl.codegen.simd import LEVEL, emit_lanes
from quantdsl.codegen.target import Target, avx2, avx512, native, native_lanes, neon
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    BOOL_T,
    CANONICAL_NAN_BITS,
    F64_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Do,
    Elem,
    Expr,
    Field,
    FieldDecl,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Stmt,
    StructDecl,
    StructType,
    Type,
    Unary,
    Var,
    i64,
)
from quantdsl.passes.uniform import uniform
from tests.codegen.lane_programs import EVENT, every_path
from tests.codegen.programs import SCALARS, STRUCTS, TABLES, ProgramWriter, S

NARROW = Target(avx2().triple, avx2().cpu, "", lanes=2, intrinsics=neon().intrinsics, few=1)
"""Two lanes on x86-64: the code that NEON runs, on the machine at hand."""


def runnable() -> tuple[Target, ...]:
    """The targets whose code this machine runs, the widest first."""
    if not native().triple.startswith("x86_64"):
        return (native_lanes(),)
    return (*(avx512(),) * (native_lanes().lanes == 8), avx2(), NARROW)


TARGETS = runnable()
AT_ONCE, ONE_BY_ONE = (
    msgspec.structs.replace(TARGETS[0], few=few) for few in (0, TARGETS[0].lanes)
)
"""Both ways of calling what works on lanes' memory, however many lanes are active."""
EVERY_WAY = {f"{target.lanes} lanes": target for target in TARGETS} | {
    "at once": AT_ONCE,
    "one by one": ONE_BY_ONE,
}


def kernel(module: Module, target: Target, varying: frozenset[str] | None = None) -> Program:
    """The kernel of a module as it stands, without any pass; unless told, any word may vary."""
    return Program(assemble(text(module, target, varying), target, LEVEL), INTERFACE, target)


def text(module: Module, target: Target, varying: frozenset[str] | None = None) -> str:
    """LLVM IR of the kernel of a module as it stands."""
    same = uniform(module, "lane", every_path(module) if varying is None else varying)
    return emit_lanes(module, target, same).text


def whole_results(runner, module: Module, points: np.ndarray) -> np.ndarray:
    """Every word of every lane after one event; the first words of State come from `points`."""
    leaves = Layout(module.structs).leaves(module.funcs[-1].params[0].type)
    kinds = [leaf.type for leaf in leaves for _ in range(leaf.words)]
    n_params, n_lanes = points.shape
    results = np.full((len(kinds), n_lanes), -1, np.int64)
    nothing = np.zeros(1, np.int64)
    runner.call(
        "lanes", np.zeros(len(kinds), np.int64), points.reshape(-1), np.arange(n_params), n_params,
        results.reshape(-1), np.arange(len(kinds)), len(kinds), nothing, 0, nothing, nothing,
        n_lanes, 0, n_lanes, START | FINISH,
    )  # fmt: skip
    floats = np.array([kind == F64_T for kind in kinds])[:, None]
    return np.where(floats & np.isnan(results.view(np.float64)), CANONICAL_NAN_BITS, results)


def vector_lanes(seed: int) -> Module:
    """`lane` does random things an event, breaks off, goes on and returns where lanes differ."""
    rng = random.Random(seed)
    helpers = [ProgramWriter(rng, []).scalar_helper(f"h{k}", rng.choice(SCALARS)) for k in range(2)]
    helpers += [ProgramWriter(rng, helpers[:2]).struct_helper("h2")]
    helpers += [ProgramWriter(rng, helpers[:2]).inout_helper("h3")]
    helpers += [ProgramWriter(rng, helpers[:2]).array_helper("h4")]
    helpers += [pure_helper(rng, f"h{k}") for k in (5, 6)]
    state = ParamDecl("s", S, inout=True)
    init = ProgramWriter(rng, helpers).function("init", (state,), None, size=4)
    decls = {d.name: d for d in (*STRUCTS, *TABLES, EVENT, *helpers, init, lane(rng, helpers))}
    return link(decls.get, ["init", "lane"], {})


def returning() -> Module:
    """Lanes return together from a loop that others of them have left before."""
    turns, made, ended = (Field(Var("s"), name) for name in ("turns", "made", "ended"))
    loop = (
        Assign(made, Binary("iadd", made, i64(1))),
        If(Binary("ieq", Var("j"), i64(2)), (Return(),)),
    )
    return _small(
        ("turns", "made", "ended"), (For("j", i64(0), turns, loop), Assign(ended, i64(1)))
    )


def calling() -> Module:
    """Calls one after the other, each with what the one before has written, and one for nothing."""
    s, x, v = Var("s"), Field(Var("s"), "x"), Var("v")
    idle = Func("idle", (ParamDecl("v", I64_T),), I64_T, (Return(v),), cold=True)
    up = Func("up", (STATE,), I64_T, (Assign(x, Binary("iadd", x, i64(1))), Return(x)))
    body = (Do(Call("idle", (v,))), Assign(Field(s, "y"), v))
    put = Func("put", (STATE, ParamDecl("v", I64_T)), None, body)
    add = Binary("iadd", Field(s, "z"), v)
    sum_ = Func("sum", (STATE, ParamDecl("v", I64_T)), None, (Assign(Field(s, "z"), add),))
    body = (
        Let("a", I64_T, Call("up", (s,))),
        Do(Call("sum", (s, Var("a")))),
        Do(Call("put", (s, x))),
        Assign(Var("a"), Call("up", (s,))),
        Assign(Field(s, "w"), Var("a")),
    )
    return _small(("x", "y", "z", "w"), body, idle, up, put, sum_)


def elements() -> Module:
    """A function that goes on in one of three elements, which lanes leave in different ways."""
    s, x, k = Var("s"), Field(Var("s"), "x"), Var("k")
    mine = Elem(Field(s, "a"), k)
    some = Binary("iand", x, i64(3))
    turn = (
        If(Binary("igt", Var("j"), k), (Break(),)),
        Assign(mine, Binary("iadd", mine, x)),
        If(Binary("ieq", mine, i64(6)), (Return(i64(-1)),)),
    )
    body = (
        Let("k", I64_T, Binary("imin", some, i64(2))),
        Assign(mine, Binary("iadd", mine, i64(1))),
        If(Binary("ieq", some, i64(3)), (Return(mine),)),
        For("j", i64(0), i64(4), turn),
        Return(Binary("imul", mine, i64(100))),
    )
    visit = Func("visit", (STATE,), I64_T, body)
    fields = (("x", I64_T), ("a", ArrayType(I64_T, 3)), ("y", I64_T), ("z", I64_T))
    again = Assign(Field(s, "z"), Call("visit", (s,)))
    return _small(fields, (Assign(Field(s, "y"), Call("visit", (s,))), again), visit)


def parting() -> Module:
    """A function with a struct of its own, whose words come to differ after they have been read."""
    s, x, kept = Var("s"), Field(Var("s"), "x"), Field(Var("t"), "x")
    read = Func("read", (ParamDecl("t", StructType("S")),), I64_T, (Return(kept),))
    put = Func("put", (TAKEN, ParamDecl("v", I64_T)), None, (Assign(kept, Var("v")),))

    def summed(name: str, more: Expr) -> Assign:
        return Assign(Field(s, name), Binary("iadd", Field(s, name), more))

    turn = (Let("c", I64_T, Field(Var("u"), "x")), summed("z", Var("c")))
    body = (
        Let("t", StructType("S"), None),
        Let("a", I64_T, Call("read", (Var("t"),))),
        Do(Call("put", (Var("t"), x))),
        Let("b", I64_T, Call("read", (Var("t"),))),
        summed("y", Binary("iadd", Var("a"), Var("b"))),
        Let("u", StructType("S"), None),
        For("j", i64(0), i64(3), (*turn, Do(Call("put", (Var("u"), x))))),
    )
    visit = Func("visit", (STATE,), None, body)
    return _small(("x", "y", "z"), (Do(Call("visit", (s,))),), read, put, visit)


STATE, TAKEN = (ParamDecl(name, StructType("S"), inout=True) for name in "st")


def _small(
    fields: tuple[str | tuple[str, Type], ...], body: tuple[Stmt, ...], *called: Func
) -> Module:
    """A module with an empty `init`; a field is an integer if not told otherwise."""
    named = (one if isinstance(one, tuple) else (one, I64_T) for one in fields)
    declared, words = tuple(FieldDecl(*one) for one in named), BufferType(I64_T)
    params = (STATE, ParamDecl("e", words), ParamDecl("n", I64_T), ParamDecl("c", words))
    funcs = (*called, Func("init", (STATE,), None, ()), Func("lane", params, None, body))
    return Module((StructDecl("S", declared),), (), funcs, ("init", "lane"))


def whole_events() -> Module:
    """`lane` hands on whole events: with its State, and by themselves, which is once for all."""
    s, e, event = Var("s"), Var("e"), Elem(Var("events"), Var("k"))
    given, state = ParamDecl("e", StructType("E")), LANE_PARAMS[0]
    count = Func("count", (given,), I64_T, (Return(Field(e, "n")),))
    total = Binary("fadd", Field(s, "x"), Field(e, "x"))
    sums = Assign(Field(s, "x"), total), Assign(Field(s, "i"), Field(e, "n"))
    add = Func("add", (state, given), None, sums)
    init = Func("init", (state,), None, ())
    body = (Do(Call("add", (s, event))), Assign(Field(s, "j"), Call("count", (event,))))
    lane = Func("lane", LANE_PARAMS, None, (For("k", i64(0), Var("n"), body),))
    decls = {d.name: d for d in (*STRUCTS, EVENT, count, add, init, lane)}
    return link(decls.get, ["init", "lane"], {})


def pure_helper(rng: random.Random, name: str) -> Func:
    """A function of scalars alone, which has a vector form."""
    params = (ParamDecl("x", F64_T), ParamDecl("n", I64_T), ParamDecl("c", BOOL_T))
    return ProgramWriter(rng, []).function(name, params, rng.choice(SCALARS), size=5)


LANE_PARAMS = (
    ParamDecl("s", S, inout=True),
    ParamDecl("events", BufferType(StructType("E"))),
    ParamDecl("n", I64_T),
    ParamDecl("columns", BufferType(I64_T)),
)


def lane(rng: random.Random, helpers: list[Func]) -> Func:
    event, column = Elem(Var("events"), Var("k")), Elem(Var("columns"), Var("k"))
    odd = Binary("ine", Binary("iand", Field(event, "n"), i64(1)), i64(0))
    head = (
        Let("x", F64_T, Field(event, "x")),
        Let("m", I64_T, column),
        Let("odd", BOOL_T, odd),
        Let("u", F64_T, Unary("i64_to_f64", Var("m"))),
    )
    writer = ProgramWriter(rng, helpers)
    writer.names = {
        "s": S, "n": I64_T, "k": I64_T, "x": F64_T, "m": I64_T, "odd": BOOL_T, "u": F64_T,
    }  # fmt: skip
    writer.fixed, writer.loops = {"n", "k"}, 1
    body = writer.block(16)
    last = If(writer.expr(BOOL_T, 2), (Return(),))
    return Func("lane", LANE_PARAMS, None, (For("k", i64(0), Var("n"), (*head, *body, last)),))
