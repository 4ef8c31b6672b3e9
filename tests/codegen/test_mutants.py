"""The differential test notices a broken compiler: each of these breaks it in one way.

A mutant may send a program out of its memory, so each runs in a process of its own; an end by a
signal counts as noticed too.
"""

import faulthandler
import multiprocessing
import re
import sys
from collections.abc import Callable

import msgspec
import pytest

from quantdsl.codegen import function, held, scalar, tbaa
from quantdsl.codegen.emit import emit
from quantdsl.ir.ops import Binary, Expr, Stmt
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt
from quantdsl.passes import PASSES, constants
from tests.codegen.differential import difference

V = r"(\S+)"
TEXT_MUTANTS = {
    "subtract the wrong way round": (rf"sub i64 {V}, (%\S+)", r"sub i64 \2, \1"),
    "divide the wrong way round": (rf"fdiv double {V}, {V}", r"fdiv double \2, \1"),
    "contract multiply and add": (r"(fmul|fadd|fsub) double", r"\1 contract double"),
    "leave NaN bits as they are": (
        rf"select i1 {V}, i64 {0x7FF8 << 48}, i64 {V}", r"add i64 \2, 0"),
    "not equal is false with NaN": ("fcmp une", "fcmp one"),
    "equal is true with NaN": ("fcmp oeq", "fcmp ueq"),
    "less is true with NaN": ("fcmp olt", "fcmp ult"),
    "minimum keeps the first of equals": (
        rf"fcmp olt double {V}, {V}(\n.*= select)", r"fcmp ole double \1, \2\3"),
    "2^63 fits an i64": (r"fcmp olt (double \S+, 0x43E0)", r"fcmp ole \1"),
    "logical shift keeps the sign": ("lshr i64", "ashr i64"),
    "shift counts modulo 32": (r"and i64 (\S+), 63", r"and i64 \1, 31"),
    "high product is signed": (r"zext i64 (\S+) to i128", r"sext i64 \1 to i128"),
    "one turn too many": (r"icmp slt i64 (%i\d+),", r"icmp sle i64 \1,"),
    "step by two": (r"add nsw i64 (\S+), 1", r"add nsw i64 \1, 2"),
    "negate as 0 - x": (r"fneg double", "fsub double 0.0,"),
    "true is -1": (r"zext i1 (\S+) to i64", r"sext i1 \1 to i64"),
    "truncate downwards": (r"call double @llvm.trunc.f64", "call double @llvm.floor.f64"),
    "round half down": (r"call double @llvm.roundeven.f64", "call double @llvm.floor.f64"),
    "unsigned integer order": ("icmp slt i64", "icmp ult i64"),
    "adding zero does nothing": (r"fadd double (\S+), 0x0+\n", r"fadd double \1, -0.0\n"),
}  # fmt: skip


def _reassociate(expr: Expr) -> Expr:
    new = rebuild_expr(expr, _reassociate)
    match new:
        case Binary("fadd", Binary("fadd", x, y), z):
            return Binary("fadd", x, Binary("fadd", y, z))
    return new


def _reassociated(stmt: Stmt) -> Stmt:
    return rebuild_stmt(stmt, _reassociate, _reassociated)


def reassociate(patch: pytest.MonkeyPatch) -> None:
    def apply(module):
        funcs = (
            msgspec.structs.replace(func, body=rebuild_body(func.body, _reassociated))
            for func in module.funcs
        )
        return msgspec.structs.replace(module, funcs=tuple(funcs))

    patch.setattr("quantdsl.passes.PASSES", (*PASSES, ("reassociate", apply)))


def forget_array_aliases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tbaa.AliasTags, "field", lambda self, s, f, _: tbaa_field(self, s, f, "f64"))


tbaa_field = tbaa.AliasTags.field


def truncate_quotients(patch: pytest.MonkeyPatch) -> None:
    def emit(text, x, y):
        return text.value(f"sdiv i64 {x}, {scalar._safe_divisor(text, y)}")

    patch.setitem(scalar.SPELLED, "idiv", emit)


def keep_signed_remainders(patch: pytest.MonkeyPatch) -> None:
    def emit(text, x, y):
        return text.value(f"srem i64 {x}, {scalar._safe_divisor(text, y)}")

    patch.setitem(scalar.SPELLED, "imod", emit)


def copy_one_word_less(patch: pytest.MonkeyPatch) -> None:
    tags = function.FunctionEmitter.word_tags

    def fewer(self, type_, tag=""):
        words = list(tags(self, type_, tag))
        return iter(words[:-1] if len(words) == 3 else words)

    patch.setattr(function.FunctionEmitter, "word_tags", fewer)


def place_before_value(patch: pytest.MonkeyPatch) -> None:
    def assign(self, stmt):
        spot = self.spot(stmt.place)
        self.store_struct(spot, stmt.value)

    patch.setattr(function.FunctionEmitter, "assign_struct", assign)


def fold_to_the_next_integer(patch: pytest.MonkeyPatch) -> None:
    wrapped = constants.wrapped
    patch.setattr(constants, "wrapped", lambda type_, bits: wrapped(type_, bits) ^ (type_ == "i64"))


def keep_what_a_call_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(held.Held, "call", lambda *_: None)


def keep_what_a_store_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(held.Held, "_forget", lambda *_: None)


def keep_what_one_branch_changes(patch: pytest.MonkeyPatch) -> None:
    meet = held.Held.meet
    patch.setattr(held.Held, "meet", lambda self, before, _: meet(self, before, ()))


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    reassociate, forget_array_aliases, truncate_quotients, keep_signed_remainders,
    copy_one_word_less, place_before_value, fold_to_the_next_integer,
    keep_what_a_call_changes, keep_what_a_store_changes, keep_what_one_branch_changes,
]  # fmt: skip


def rewrite(pattern: str, replacement: str) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        def emit_wrongly(module, target):
            text, count = re.subn(pattern, replacement, emit(module, target))
            assert count, "the mutant changes nothing"
            return text

        patch.setattr("quantdsl.codegen.emit.emit", emit_wrongly)

    return mutate


def notices() -> None:
    """Exit with 0 once the differential test finds a difference."""
    faulthandler.disable()  # an end by a signal is expected, its report is not
    sys.exit(0 if any(difference(seed, 20) for seed in range(20)) else 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside pytest's own threads
@pytest.mark.parametrize(
    "mutate",
    [pytest.param(rewrite(*change), id=name) for name, change in TEXT_MUTANTS.items()]
    + [pytest.param(mutate, id=mutate.__name__.replace("_", " ")) for mutate in MUTANTS],
)
def test_a_broken_compiler_is_noticed(mutate, monkeypatch):
    mutate(monkeypatch)
    process = multiprocessing.get_context("fork").Process(target=notices)
    process.start()
    process.join()
    assert process.exitcode != 1, "the differential test does not see this mutant"
