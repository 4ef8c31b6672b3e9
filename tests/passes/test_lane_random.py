"""Random programs as loops of lanes: over rows that another lane made, they do what they did."""

import random

import msgspec
import numpy as np
import pytest

from quantdsl.ir.interp import Interpreter
from quantdsl.ir.kinds import Kinds
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Binary,
    BufferType,
    Call,
    Do,
    Elem,
    Field,
    For,
    Func,
    If,
    ParamDecl,
    StructType,
    Var,
    f64,
    i64,
)
from quantdsl.ir.verify import verify
from quantdsl.passes import lane_steps
from quantdsl.passes.rows import ROW_WORDS
from tests.codegen.programs import SCALARS, STRUCTS, TABLES, ProgramWriter, S, random_words

FOUND = [142, 315, 453, 736, 1050, 1094, 1168, 3740, 100_696, 101_257, 300_586]
"""Seeds that were wrong once."""
EVENTS, FIRST = 12, 7
STATE = StructType("S")
FIELDS = tuple(field.name for struct in STRUCTS if struct.name == "S" for field in struct.fields)
NO_COLUMNS = np.zeros(1, np.int64)


def lane_of(rng):
    """A loop over events that calls two random functions, some of what they call cold."""
    helpers = [ProgramWriter(rng, []).scalar_helper(f"h{k}", rng.choice(SCALARS)) for k in range(3)]
    helpers += [ProgramWriter(rng, helpers[:3]).struct_helper(f"h{k}") for k in (3, 4)]
    helpers += [ProgramWriter(rng, helpers[:5]).inout_helper(f"h{k}") for k in (5, 6)]
    helpers += [ProgramWriter(rng, helpers[:5]).array_helper(f"h{k}") for k in (7, 8)]
    state = ParamDecl("s", S, inout=True)
    params = (state, ParamDecl("x", F64_T), ParamDecl("n", I64_T), ParamDecl("c", BOOL_T))
    steps = [
        ProgramWriter(rng, helpers).function(f"g{k}", params, None, rng.choice([3, 6, 9]))
        for k in range(2)
    ]
    event = Elem(Var("events"), Var("k"))
    above = Binary("fgt", event, f64(0.0))
    asked = (
        Binary("fgt", event, f64(1.0)),
        Field(Var("s"), "c"),
        Binary("ilt", Field(Var("s"), "i"), i64(3)),
    )
    body = []
    for step in steps:
        call = Do(Call(step.name, (Var("s"), event, Var("k"), above)))
        body.append(call if rng.random() < 0.5 else If(rng.choice(asked), (call,)))
    buffers = ParamDecl("events", BufferType(F64_T)), ParamDecl("columns", BufferType(I64_T))
    loop = For("k", i64(0), Var("n"), tuple(body))
    entry = Func("lane", (state, buffers[0], ParamDecl("n", I64_T), buffers[1]), None, (loop,))
    some = [msgspec.structs.replace(f, cold=rng.random() < 0.3) for f in (*helpers, *steps)]
    decls = {decl.name: decl for decl in (*STRUCTS, *TABLES, *some, entry)}
    return link(decls.get, ["lane"], {})


def over_rows(module, maker, state, pieces):
    """A lane's state after the rows that the state `maker` makes of some pieces of events."""
    width, runner = dict(module.sizes)[ROW_WORDS], Interpreter(module)
    for piece in pieces:
        out = np.full((len(piece) + 1) * width, 0x1234567, np.int64)
        count = runner.call("rows", maker, piece, len(piece), out)
        runner.call("lane", state, out, count, NO_COLUMNS)
    return state


@pytest.mark.parametrize("seed", [*FOUND, *range(60)])
def test_random_lanes_over_rows_do_what_they_did_over_events(seed):
    rng = random.Random(seed)
    module = lane_of(rng)
    varying = frozenset(rng.sample([f for f in FIELDS if f in "xyzijc"], rng.randrange(3)))
    made = module
    for _, apply in lane_steps(frozenset(FIELDS), varying, depth=rng.choice([None, None, 0, 1])):
        made = apply(made)
        verify(made)
    if ROW_WORDS not in dict(made.sizes):
        return  # it hands whole events on
    layout = Layout(module.structs)
    kinds = Kinds(layout).of(STATE)
    start = random_words(rng, list(kinds))
    other = start.copy()
    for name in sorted(varying):
        slot = layout.locate(STATE, name)
        other[slot.offset_words] = random_words(rng, [slot.type])[0]
    events = random_words(rng, ["f64"] * EVENTS)
    pieces = events[:FIRST].copy(), events[FIRST:].copy()
    expected = start.copy()
    for piece in pieces:
        Interpreter(module).call("lane", expected, piece, len(piece), NO_COLUMNS)
    found = over_rows(made, other, start.copy(), pieces)
    for words in (expected, found):
        words[np.isnan(words.view(np.float64)) & (kinds == "f64")] = 0
    assert found.tolist() == expected.tolist()
