"""A small program of lanes that is no strategy: the statistics of a sweep, on its own device."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from quantdsl.devices.work import LaneWork, Runner
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    I64_T,
    BufferType,
    Field,
    FieldDecl,
    For,
    Func,
    Module,
    ParamDecl,
    Stmt,
    StructDecl,
    StructType,
    Var,
    i64,
)

Int64s = npt.NDArray[np.int64]

STATE = StructType("State")
S = ParamDecl("s", STATE, inout=True)
EVENT = StructDecl("Turn", (FieldDecl("number", I64_T),))


def state(name: str) -> Field:
    """A field of the lane's state."""
    return Field(Var(S.name), name)


def program(
    fields: tuple[FieldDecl, ...], started: tuple[Stmt, ...], turn: tuple[Stmt, ...]
) -> Module:
    """Lanes that do `started` once and then `turn` for k = 0, 1, ... with `columns` to read."""
    params = (
        S,
        ParamDecl("events", BufferType(StructType(EVENT.name))),
        ParamDecl("n", I64_T),
        ParamDecl("columns", BufferType(I64_T)),
    )
    init = Func("init", (S,), None, started)
    lane = Func("lane", params, None, (For("k", i64(0), Var("n"), turn),))
    decls = {one.name: one for one in (StructDecl(STATE.name, fields), EVENT, init, lane)}
    return link(decls.get, ("init", "lane"), {})


def run_lanes(
    runner: Runner,
    module: Module,
    points: Mapping[str, Int64s],
    found: tuple[str, ...],
    columns: Int64s,
) -> dict[str, Int64s]:
    """The words `found` of every lane; `points` are its own words, columns[turn, column] all's."""
    layout = Layout(module.structs)
    offsets = {leaf.path: leaf.offset_words for leaf in layout.leaves(STATE)}
    work = LaneWork(
        module=module,
        kept=frozenset(found),
        template=np.zeros(layout.words(STATE), np.int64),
        params=np.array([offsets[name] for name in points]),
        results=np.array([offsets[name] for name in found]),
        points=np.stack(list(points.values())),
        events=np.arange(len(columns), dtype=np.int64)[:, None],
        columns=columns,
    )
    words = np.empty((len(found), work.n_lanes), np.int64)

    def finished(lo: int, hi: int, done: Int64s) -> None:
        words[:, lo:hi] = done

    runner.run(work, 0, work.n_lanes, finished)
    return dict(zip(found, words, strict=True))
