"""The kernel on the SIMD lanes of a CPU: W lanes at a time, each element of a vector one lane.

The entry `lane` and the pure functions it calls become vector code; `init` and what works on a
lane's State out of line stay scalar code, called for one lane after the other. A last group that
is not full repeats its last lane, whose results are then stored once.
"""

from collections.abc import Iterator

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import COMMON, import_text, signatures, tables, tables_text
from quantdsl.codegen.function import FunctionEmitter, Shared
from quantdsl.codegen.jit import Program
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
from quantdsl.codegen.simd_function import VectorEmitter
from quantdsl.codegen.simd_strides import StrideEmitter
from quantdsl.codegen.simd_text import LINE_WORDS, METADATA, VectorText, declaration
from quantdsl.codegen.simd_values import Wanted
from quantdsl.codegen.target import Target
from quantdsl.codegen.tbaa import AliasTags
from quantdsl.codegen.text import Text, entry_symbol
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Call, Module
from quantdsl.ir.own import WIDTH, Steps, own_steps
from quantdsl.ir.walk import expressions
from quantdsl.passes import LANE, panel_passes
from quantdsl.passes.row_strides import row_strides
from quantdsl.passes.row_turn import row_turn
from quantdsl.passes.rows import ROW_WORDS
from quantdsl.passes.uniform import Uniform, uniform, uniform_scalars

REGISTER_BITS_MAX = 512
LEVEL = 2
"""LLVM's O2: half as long again as O1, 50 ms, and lanes run a twentieth faster."""

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
  %l.state = getelementptr [{stride} x i64], ptr %states.of.group, i64 %l
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
  %k.state = getelementptr [{stride} x i64], ptr %states.of.group, i64 %k
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
    same: list[Uniform] = []

    def passed(whole: Module) -> Module:
        part = kernel_part(split_lanes(whole, kept, varying))
        same.append(uniform(part, LANE, varying))  # cold code tells too, and is about to part
        return part

    def text(own: Module, target: Target) -> str:
        return emit_lanes(own, target, same[0])

    name = f"simd {kernel_form(kept, varying)}"
    return load(module, target, cache, Form(name, passed, text, INTERFACE, LEVEL))


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
    same: list[Uniform] = []

    def passed(whole: Module) -> Module:
        part = panel_passes(whole)
        same.append(uniform(part, LANE, varying))
        return part

    def text(own: Module, target: Target) -> str:
        return emit_lanes(own, target, same[0])

    name = f"own {sorted(varying)}"
    return load(module, target, cache, Form(name, passed, text, INTERFACE, LEVEL))


def emit_lanes(module: Module, target: Target, same: Uniform) -> str:
    """LLVM IR of the kernel; the same arguments give the same text."""
    shared = Shared(
        Layout(module.structs),
        signatures(module),
        tables(module, target),
        AliasTags(),
    )
    wanted = Wanted(shared, {"init"}, {})
    words = state_words(shared)
    # An odd number of lines apart, so that equal words of the lanes fall into different sets.
    stride = LINE_WORDS * (-(-words // LINE_WORDS) | 1)
    called: set[str] = set()
    code = list(_vectors(module, wanted, target, stride, same, called))
    code += _scalars(module, wanted, target, called)
    code += _group(wanted, target, words, stride, own_steps(module))
    head = [f'target triple = "{target.triple}"']
    head += tables_text(module, target)
    head += map(declaration, sorted(called))
    return "\n".join([*head, *code, *_attributes(target), *shared.tags.lines, METADATA]) + "\n"


def _attributes(target: Target) -> Iterator[str]:
    width = f'"prefer-vector-width"="{min(64 * target.lanes, REGISTER_BITS_MAX)}"'
    for number, inlining in enumerate(("alwaysinline", "noinline")):
        yield f"attributes #{number} = {{ {inlining} {COMMON} }}"
        yield f"attributes #{number + 2} = {{ {inlining} {COMMON} {width} }}"


def _vectors(
    module: Module, wanted: Wanted, target: Target, stride: int, same: Uniform, called: set[str]
) -> Iterator[str]:
    """The lane function and, as they come up, the vector forms of what it calls."""
    found = wanted.shared.signatures
    text = VectorText(target)
    rows = dict(module.sizes).get(ROW_WORDS)
    decl = found[LANE].decl
    turn = None if rows is None else row_turn(decl, rows)
    strides = None if turn is None else row_strides(module, LANE)
    if strides is None:
        emitter = VectorEmitter(wanted, decl, text, same, None)
    else:
        emitter = StrideEmitter(wanted, decl, text, same, strides)
    yield from emitter.lane_function("lanes", stride, turn, own_steps(module))
    called |= text.called
    done = 0
    while done < len(wanted.vectors):
        (name, masked), symbol = list(wanted.vectors.items())[done]
        done += 1
        decl, text = found[name].decl, VectorText(target)
        inner = uniform_scalars(module, name)
        emitter = VectorEmitter(wanted, decl, text, inner, "%mask" if masked else None)
        yield from emitter.pure_function(symbol)
        called |= text.called


def _scalars(module: Module, wanted: Wanted, target: Target, called: set[str]) -> Iterator[str]:
    """The functions that run for one lane at a time, with all that they call."""
    needed = set(wanted.scalars)
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
    wanted: Wanted, target: Target, words: int, stride: int, own: Steps | None
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
        begin=begin_text(words, signatures, common.apart, group),
        end=end_text(words, common.apart, group),
        lanes=target.lanes,
        stride=stride,
        group_words=stride * target.lanes,
    )
