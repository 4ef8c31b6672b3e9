"""Lanes of a warp with one order book meet before each write to it."""

from pathlib import Path

import pytest

from quantdsl.backtest.lane_code import lane_code
from quantdsl.check import compile_file
from quantdsl.codegen import ptx
from quantdsl.codegen.ptx import Bounds, gpu_part, ptx_text, target_of
from quantdsl.errors import InternalError
from quantdsl.ir.ops import Assign, Call, Const, Do, Elem, Expr, Let, Module, Stmt, Var
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import nested, operands
from quantdsl.passes.meet import MEET, meet_to_write
from quantdsl.passes.places import path_of
from quantdsl.shipped import shipped

BY_EVENTS = shipped("strategies/imbalance_taker.qdsl")
"""Its lanes differ in how many levels they sum, and walk the book by themselves."""


def part_of(path: Path) -> Module:
    checked = compile_file(path)
    lanes = lane_code(checked, frozenset(), 1)
    params = frozenset(param.field for param in checked.strategy.params)
    return gpu_part(lanes.module, lanes.words.kept, params)


def blocks(body: tuple[Stmt, ...]):
    yield body
    for stmt in body:
        for inner in nested(stmt) if hasattr(stmt, "then") or hasattr(stmt, "body") else ():
            yield from blocks(inner)


def settled(place: Expr) -> bool:
    """Whether a place is found without reading memory."""
    if isinstance(place, Elem) and not isinstance(place.index, Var | Const):
        return False
    return all(map(settled, operands(place)))


def test_every_write_to_a_book_is_met_and_reads_nothing_after() -> None:
    part = part_of(BY_EVENTS)
    verify(part)
    written = 0
    for func in part.funcs:
        for body in blocks(func.body):
            for before, stmt in zip((None, *body), body, strict=False):
                if before != Do(Call(MEET, ())):
                    continue
                assert isinstance(stmt, Assign)
                assert isinstance(stmt.value, Var)
                assert settled(stmt.place)
                written += 1
            for stmt in body:
                of_book = isinstance(stmt, Assign) and "books" in (path_of(stmt.place) or ())
                assert not of_book or Do(Call(MEET, ())) in body
    assert written > 50


def test_a_warp_waits_where_its_lanes_meet() -> None:
    part = part_of(BY_EVENTS)
    text = ptx_text(part, target_of("sm_90"), Bounds())
    assert "bar.warp.sync" in text
    assert any(isinstance(stmt, Let) and stmt.name.startswith(MEET)
               for func in part.funcs for body in blocks(func.body) for stmt in body)  # fmt: skip


def test_without_a_book_nobody_waits() -> None:
    module = lane_code(compile_file(shipped("strategies/sma_cross.qdsl")), frozenset(), 1).module
    assert meet_to_write(module, "lane", frozenset()) is module


def test_a_book_that_lanes_would_write_differently_is_refused(monkeypatch) -> None:
    class Differing:
        def expr(self, _: Expr) -> bool:
            return False

    monkeypatch.setattr("quantdsl.passes.meet.uniform", lambda *_: Differing())
    monkeypatch.setattr(ptx, "_gpu_part", ptx._gpu_part.__wrapped__)  # made anew, not remembered
    with pytest.raises(InternalError, match="QD9518"):
        part_of(BY_EVENTS)
