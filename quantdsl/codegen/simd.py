"""The kernel on the SIMD lanes of a CPU: W lanes at a time, each element of a vector one lane.

The entry `lane` becomes vector code, and what it calls: a function that works on a lane's State
out of line has a vector form, and a scalar form where few lanes are active. `init` is scalar code.
States are interleaved, but where lanes have memory in common: there they stand one after the other,
for scalar code alone. A last group that is not full repeats its last lane, whose results are then
stored once.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import ColdForm, Form, load, plain_cold
from quantdsl.codegen.emit import COMMON, import_text, signatures, tables, tables_text
from quantdsl.codegen.function import FunctionEmitter, Shared
from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.lanes import (
    INTERFACE,
    KERNEL,
    begin_text,
    common_argument,
    common_text,
    end_text,
    kernel_args,
    kernel_params,
    state_words,
)
from quantdsl.codegen.rows import kernel_form, kernel_part, split_lanes
from quantdsl.codegen.simd_called import CalledEmitter
from quantdsl.codegen.simd_forms import VectorForm, Wanted, import_form, varying_params
from quantdsl.codegen.simd_function import VectorEmitter
from quantdsl.codegen.simd_strides import StrideEmitter
from quantdsl.codegen.simd_text import LINE_WORDS, METADATA, VectorText, declaration
from quantdsl.codegen.target import Target
from quantdsl.codegen.tbaa import AliasTags
from quantdsl.codegen.text import Text, entry_symbol
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Call, Module
from quantdsl.ir.own import WIDTH, Steps, own_steps
from quantdsl.ir.walk import expressions
from quantdsl.passes import LANE, panel_passes
from quantdsl.passes.common import takes_common
from quantdsl.passes.effects import Analysis
from quantdsl.passes.row_strides import row_strides
from quantdsl.passes.row_turn import row_turn
from quantdsl.passes.rows import ROW_WORDS
from quantdsl.passes.uniform import Uniform, uniform, uniform_called

REGISTER_BITS_MAX = 512
LEVEL = 2
"""LLVM's O2: half as long again as O1, 50 ms, and lanes run a twentieth faster. Their cold code is
as fast at O1, which takes half of the time: that is twice as long as the lanes, or more."""

GROUP = """\
define internal void @begin({params}, ptr %s, i64 %lane{taken}) #1 {{
entry:
  br label %begin
{begin}
  ret void
}}
define internal void @end({params}, ptr %s, i64 %lane) #1 {{
entry:
{end}
done:
  ret void
}}
define void @{symbol}({params}) #3 {{
entry:
{common}
  %states.of.group = alloca [{group_words} x i64], align 64
  %last = sub i64 %lane_hi, 1
  br label %next
next:
  %first = phi i64 [ %lane_lo, %entry ], [ %first.next, %ended ]
  %more = icmp slt i64 %first, %lane_hi
  br i1 %more, label %ready, label %out
ready:
{before}
  br label %fill
fill:
  %l = phi i64 [ 0, %ready ], [ %l.next, %fill ]
  %l.state = getelementptr [{lane_step} x i64], ptr %states.of.group, i64 %l
  %l.number = add i64 %first, %l
  %l.past = icmp sgt i64 %l.number, %last
  %l.lane = select i1 %l.past, i64 %last, i64 %l.number
  call void @begin({args}, ptr %l.state, i64 %l.lane{given})
  %l.next = add nsw i64 %l, 1
  %l.more = icmp slt i64 %l.next, {lanes}
  br i1 %l.more, label %fill, label %filled
filled:
{own}
  call void @lanes(ptr %states.of.group, ptr {read}, i64 %n_events, ptr {written}{given})
  br label %store
store:
  %k = phi i64 [ 0, %filled ], [ %k.next, %store ]
  %k.state = getelementptr [{lane_step} x i64], ptr %states.of.group, i64 %k
  %k.lane = add i64 %first, %k
  call void @end({args}, ptr %k.state, i64 %k.lane)
  %k.next = add nsw i64 %k, 1
  %k.full = icmp slt i64 %k.next, {lanes}
  %k.real = icmp slt i64 %k.lane, %last
  %k.more = and i1 %k.full, %k.real
  br i1 %k.more, label %store, label %ended
ended:
  %first.next = add nsw i64 %first, {lanes}
  br label %next
out:
{after}
  ret void
}}"""


def simd_program(
    module: Module,
    kept: frozenset[str],
    target: Target,
    cache: Cache | None,
    varying: frozenset[str],
) -> Program:
    """The kernel of a linked module with entries init and lane, `target.lanes` lanes at a time.

    As load_lanes of codegen/lanes.py, and the same results: `kept` are the paths of State that
    are read, `varying` those that lanes differ in, and its events are rows if there are any.
    """

    def passed(whole: Module) -> Module:
        return kernel_part(split_lanes(whole, kept, varying, None, False))

    name = f"simd {kernel_form(kept, varying)}"
    return load(module, target, cache, _Steps(passed, varying).form(name))


class Asked(NamedTuple):
    """What lanes ask of the cold code that programs share."""

    forms: tuple[VectorForm, ...]
    scalars: tuple[str, ...]
    word_step: int
    """Words from one word of a lane's State to the next."""


class Lanes(NamedTuple):
    """The kernel."""

    text: str
    asked: Asked


class _Steps:
    """The steps to the code of lanes, which the text of both of its parts takes."""

    def __init__(self, passes: Callable[[Module], Module], varying: frozenset[str]) -> None:
        self.passes, self.varying = passes, varying
        self.same: Uniform | None = None
        self.asked = Asked((), (), 1)

    def form(self, name: str) -> Form:
        """How the compiler makes them."""
        return Form(name, self.passed, self.text, INTERFACE, LEVEL, self.cold)

    def passed(self, whole: Module) -> Module:
        part = self.passes(whole)
        self.same = uniform(part, LANE, self.varying)  # cold code tells too, and is about to part
        return part

    def text(self, own: Module, target: Target) -> str:
        assert self.same is not None
        text, self.asked = emit_lanes(own, target, self.same)
        return text

    def cold(self) -> ColdForm:
        if self.asked.word_step == 1 and not self.asked.forms:
            return plain_cold()

        def text(shared: Module, target: Target) -> str:
            return emit_cold(shared, target, self.asked)

        return ColdForm(f"lanes {self.asked}", text, assemble)


OWN_COLUMNS = """\
  %own.ahead = and i64 %first, {before}
  %own.groups = mul i64 %own.ahead, {steps.group}
  %own.beside = and i64 %first, {inside}
  %own.lanes = mul i64 %own.beside, {steps.lane}
  %own.first = add i64 %own.groups, %own.lanes
  %own.read = getelementptr i64, ptr %events, i64 %own.first
  %made.first = mul i64 %first, {steps.made}
  %own.written = getelementptr i64, ptr %columns, i64 %made.first"""


def own_program(
    module: Module, target: Target, cache: Cache | None, varying: frozenset[str]
) -> Program:
    """The kernel of lanes that go through columns of their own (ir/own.py).

    `events` and `columns` of the call are the columns of lane 0, `states` those of its group before
    those of the next: i64[group, word, lane]. Lanes are called in whole vectors.
    """
    return load(module, target, cache, _Steps(panel_passes, varying).form(f"own {sorted(varying)}"))


def emit_lanes(module: Module, target: Target, same: Uniform) -> Lanes:
    """LLVM IR of the kernel; the same arguments give the same text."""
    common = takes_common(signatures(module)[LANE].decl)
    wanted = _wanted(module, target, 1 if common else target.lanes, {"init"})
    words = state_words(wanted.shared)
    lane_step = 1
    if common:
        # An odd number of lines apart, so that equal words of the lanes fall into different sets.
        lane_step = LINE_WORDS * (-(-words // LINE_WORDS) | 1)
    called: set[str] = set()
    code = list(_lane(module, wanted, target, lane_step, same, called))
    code += _vectors(module, wanted, target, same.called, called)
    code += _scalars(module, wanted, target, called)
    code += _group(wanted, target, words, lane_step, own_steps(module))
    forms = sorted(
        (form for form in wanted.vectors if form.func in module.imports),
        key=lambda form: (form.func, str(form)),
    )
    scalars = sorted(wanted.scalars & set(module.imports))
    asked = Asked(tuple(forms), tuple(scalars), wanted.shared.word_step)
    return Lanes(_module_text(module, target, wanted, code, called), asked)


def emit_cold(module: Module, target: Target, asked: Asked) -> str:
    """LLVM IR of what programs share."""
    wanted = _wanted(module, target, asked.word_step, set(asked.scalars))
    for form in asked.forms:
        wanted.vector(form)
    called: set[str] = set()
    same = functools.partial(uniform_called, module, analysis=Analysis(module))
    code = list(_vectors(module, wanted, target, same, called))
    code += _scalars(module, wanted, target, called)
    return _module_text(module, target, wanted, code, called)


def _wanted(module: Module, target: Target, word_step: int, scalars: set[str]) -> Wanted:
    layout, found = Layout(module.structs), signatures(module)
    shared = Shared(layout, found, tables(module, target), AliasTags(), word_step)
    return Wanted(shared, scalars, {})


def _module_text(
    module: Module, target: Target, wanted: Wanted, code: list[str], called: set[str]
) -> str:
    head = [f'target triple = "{target.triple}"']
    head += tables_text(module, target)
    head += map(declaration, sorted(called))
    tags = wanted.shared.tags.lines
    return "\n".join([*head, *code, *_attributes(target), *tags, METADATA]) + "\n"


def _attributes(target: Target) -> Iterator[str]:
    width = f'"prefer-vector-width"="{min(64 * target.lanes, REGISTER_BITS_MAX)}"'
    for number, inlining in enumerate(("alwaysinline", "noinline")):
        yield f"attributes #{number} = {{ {inlining} {COMMON} }}"
        yield f"attributes #{number + 2} = {{ {inlining} {COMMON} {width} }}"
    yield f"attributes #4 = {{ optsize {COMMON} {width} }}"


def _lane(
    module: Module, wanted: Wanted, target: Target, lane_step: int, same: Uniform, called: set[str]
) -> Iterator[str]:
    """The lane function."""
    text = VectorText(target)
    rows = dict(module.sizes).get(ROW_WORDS)
    decl = wanted.shared.signatures[LANE].decl
    turn = None if rows is None else row_turn(decl, rows)
    strides = None if turn is None else row_strides(module, LANE)
    if strides is None:
        emitter = VectorEmitter(wanted, decl, text, same, None)
    else:
        emitter = StrideEmitter(wanted, decl, text, same, strides)
    yield from emitter.lane_function("lanes", lane_step, turn, own_steps(module))
    called |= text.called


def _vectors(
    module: Module,
    wanted: Wanted,
    target: Target,
    same: Callable[[str, frozenset[str]], Uniform],
    called: set[str],
) -> Iterator[str]:
    """The vector forms that are asked for, and those that these ask for."""
    done = 0
    while done < len(wanted.vectors):
        form, symbol = list(wanted.vectors.items())[done]
        done += 1
        decl, text = wanted.shared.signatures[form.func].decl, VectorText(target)
        if form.func in module.imports:
            yield import_form(text, decl, form, symbol)
            continue
        inner = same(form.func, varying_params(decl, form))
        yield from CalledEmitter(wanted, decl, text, inner, form).function(symbol)
        called |= text.called


def _scalars(module: Module, wanted: Wanted, target: Target, called: set[str]) -> Iterator[str]:
    """The functions that run for one lane at a time, with all that they call."""
    needed = wanted.scalars
    for func in reversed(module.funcs):  # callers stand after their callees
        if func.name in needed and func.name not in module.imports:
            needed |= {e.func for e in expressions(func.body) if isinstance(e, Call)}
    for func in module.funcs:
        if func.name not in needed:
            continue
        signature = wanted.shared.signatures[func.name]
        if func.name in module.imports:
            yield import_text(signature)
            continue
        text = Text(target.intrinsics)
        yield from FunctionEmitter(wanted.shared, signature, text).lines()
        called |= text.called


def _group(
    wanted: Wanted, target: Target, words: int, lane_step: int, own: Steps | None
) -> Iterator[str]:
    signatures = wanted.shared.signatures
    params, args = kernel_params(signatures["lane"].decl), kernel_args()
    common = common_text(words, wanted.shared, params, args)
    given = common_argument(signatures["lane"])
    group = 0 if own is None else WIDTH
    yield from common.functions
    yield GROUP.format(
        symbol=entry_symbol(KERNEL.name),
        params=params,
        args=args,
        taken=given,
        given=given,
        own="" if own is None else OWN_COLUMNS.format(before=-WIDTH, inside=WIDTH - 1, steps=own),
        read="%events" if own is None else "%own.read",
        written="%columns" if own is None else "%own.written",
        common=common.place,
        before=common.before,
        after=common.after,
        begin=begin_text(words, signatures, common.apart, group, wanted.shared.word_step),
        end=end_text(words, common.apart, group, wanted.shared.word_step),
        lanes=target.lanes,
        lane_step=lane_step,
        group_words=max(words, lane_step) * target.lanes,
    )
