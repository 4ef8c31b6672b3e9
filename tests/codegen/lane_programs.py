"""Random modules with the entries init and lane, and one sweep over each on any kernel."""

import random

import numpy as np

from quantdsl.codegen.lanes import FINISH, START
from quantdsl.ir.layout import Layout, Leaf
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    BOOL_T,
    CANONICAL_NAN_BITS,
    F64_T,
    I64_T,
    Binary,
    BufferType,
    Call,
    Do,
    Elem,
    Field,
    FieldDecl,
    For,
    Func,
    Module,
    ParamDecl,
    StructDecl,
    StructType,
    Var,
    i64,
)
from tests.codegen.programs import (
    STRUCTS,
    TABLES,
    ProgramWriter,
    S,
    random_float_bits,
    random_int,
    random_words,
)

EVENT = StructDecl("E", (FieldDecl("x", F64_T), FieldDecl("n", I64_T)))
LANES, EVENTS, PARAMS, CHUNKS = 13, 12, 12, 3


def random_lanes(seed: int) -> Module:
    """`lane` takes a random step an event; `init` is a random function too."""
    rng = random.Random(seed)
    helpers = [ProgramWriter(rng, []).scalar_helper(f"h{k}", F64_T) for k in range(2)]
    helpers += [ProgramWriter(rng, helpers[:2]).inout_helper("h2")]
    helpers += [ProgramWriter(rng, helpers[:2]).array_helper("h3")]
    state = ParamDecl("s", S, inout=True)
    scalars = (ParamDecl("x", F64_T), ParamDecl("n", I64_T), ParamDecl("c", BOOL_T))
    init = ProgramWriter(rng, helpers).function("init", (state,), None, size=4)
    step = ProgramWriter(rng, helpers).function("step", (state, *scalars), None, size=14)
    decls = {d.name: d for d in (*STRUCTS, *TABLES, EVENT, *helpers, init, step, _lane(state))}
    return link(decls.get, ["init", "lane"], {})


def _lane(state: ParamDecl) -> Func:
    event, column = Elem(Var("events"), Var("k")), Elem(Var("columns"), Var("k"))
    odd = Binary("ine", Binary("iand", Field(event, "n"), i64(1)), i64(0))
    step = Do(Call("step", (Var("s"), Field(event, "x"), column, odd)))
    params = (
        state,
        ParamDecl("events", BufferType(StructType("E"))),
        ParamDecl("n", I64_T),
        ParamDecl("columns", BufferType(I64_T)),
    )
    return Func("lane", params, None, (For("k", i64(0), Var("n"), (step,)),))


def every_path(module: Module) -> frozenset[str]:
    """All of the state as results."""
    return frozenset(leaf.path for leaf in Layout(module.structs).leaves(S))


def _leaves(module: Module) -> list[Leaf]:
    return list(Layout(module.structs).leaves(S))


def swept_words(module: Module, seed: int) -> np.ndarray:
    """The words of State in which the lanes of `swept` differ at the start."""
    count = sum(leaf.words for leaf in _leaves(module))
    return np.array(random.Random(f"{seed} params").sample(range(count), PARAMS), np.int64)


def swept_paths(module: Module, seed: int) -> frozenset[str]:
    """The same as paths; of an array, the whole."""
    paths = [leaf.path for leaf in _leaves(module) for _ in range(leaf.words)]
    return frozenset(paths[at] for at in swept_words(module, seed).tolist())


def swept(kernel, module: Module, seed: int, chunks: int = CHUNKS) -> np.ndarray:
    """Every word of every lane after a sweep in `chunks` chunks of events; NaN is one value."""
    rng = random.Random(seed)
    kinds = [leaf.type for leaf in _leaves(module) for _ in range(leaf.words)]
    template = random_words(rng, kinds)
    params = swept_words(module, seed)
    points = np.stack([random_words(rng, [kinds[at]] * LANES) for at in params])
    events = np.array([[random_float_bits(rng), random_int(rng)] for _ in range(EVENTS)], np.int64)
    columns = np.array([random_int(rng) for _ in range(EVENTS)], np.int64)
    results = np.full((len(kinds), LANES), -1, np.int64)
    states = np.full((len(kinds), LANES), -1, np.int64)
    every, size = np.arange(len(kinds)), EVENTS // chunks
    for chunk in range(chunks):
        mode = START * (chunk == 0) | FINISH * (chunk == chunks - 1)
        now = slice(chunk * size, (chunk + 1) * size)
        # The middle lanes come first, so that lanes before and after a range must stay untouched.
        for lo, hi in ((5, 9), (0, 5), (9, LANES)):
            kernel.call(
                "lanes", template, points.reshape(-1), params, PARAMS, results.reshape(-1), every,
                len(kinds), events[now].reshape(-1), size, columns[now], states.reshape(-1), LANES,
                lo, hi, mode,
            )  # fmt: skip
    floats = np.array([kind == F64_T for kind in kinds])[:, None]
    return np.where(floats & np.isnan(results.view(np.float64)), CANONICAL_NAN_BITS, results)
