"""The kernel: one function that runs the lanes of a sweep, the same signature on every target.

A lane is one point of the parameters with a State of its own. The kernel writes a lane's params
over the template, calls `init`, hands all events to `lane` and stores the result words; with
`mode` it can also stop and go on between two chunks of events. Memory is words, and what there
is one of per lane lies interleaved, so that neighbouring lanes read neighbouring words.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared, Signature
from quantdsl.codegen.jit import Program
from quantdsl.codegen.rows import kernel_form, kernel_part, split_lanes
from quantdsl.codegen.target import Target
from quantdsl.codegen.text import LLVM_TYPE, alloca, entry_symbol
from quantdsl.errors import LimitError
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import I64_T, BufferType, Call, Func, Let, Module, ParamDecl
from quantdsl.ir.own import OWN
from quantdsl.ir.walk import expressions, statements
from quantdsl.limits import LANE_STATE_BYTES, LANES_STACK_BYTES
from quantdsl.passes.common import COMMON, COMMON_TYPE, takes_common
from quantdsl.passes.row_turn import usual_beside_any

START, FINISH = 1, 2
"""Bits of `mode`: the chunk is a run's first; it is its last."""

WORDS = BufferType(I64_T)
KERNEL = Func(
    "lanes",
    (
        ParamDecl("template", WORDS),  # a State as the host prepared it for every lane
        ParamDecl("points", WORDS),  # points[j * n_lanes + lane]
        ParamDecl("param_offsets", WORDS),  # the word of State that param j overwrites
        ParamDecl("n_params", I64_T),
        ParamDecl("results", WORDS, inout=True),  # results[r * n_lanes + lane]
        ParamDecl("result_offsets", WORDS),  # the word of State that is result r
        ParamDecl("n_results", I64_T),
        ParamDecl("events", WORDS),
        ParamDecl("n_events", I64_T),
        ParamDecl("columns", WORDS),  # hoisted equations, a row an event
        # Between chunks: states[word * n_lanes + lane], behind the words of a large State at work.
        ParamDecl("states", WORDS, inout=True),
        ParamDecl("n_lanes", I64_T),
        ParamDecl("lane_lo", I64_T),
        ParamDecl("lane_hi", I64_T),
        ParamDecl("mode", I64_T),
    ),
    None,
    (),
)
INTERFACE = Module((), (), (KERNEL,), (KERNEL.name,))

# One lane, `%lane`, on the State at `%s`: control comes in at `begin` and goes on to `run`, and
# after the run to `done`.
BEGIN = """\
begin:
  %start = and i64 %mode, {start}
  %starts = icmp ne i64 %start, 0
  br i1 %starts, label %fill, label %resume
fill:
{fill}
{points}
  call void @{init}(ptr %s{common})
  br label %run
resume:
  %kept = getelementptr i64, ptr %states, i64 {apart}
{resume}
  br label %run
run:"""

END = """\
  %finish = and i64 %mode, {finish}
  %finishes = icmp ne i64 %finish, 0
  br i1 %finishes, label %tell, label %keep
tell:
{tell}
  br label %done
keep:
  %left = getelementptr i64, ptr %states, i64 {apart}
{keep}
  br label %done"""

LOOP = """\
  br label %{name}.head
{name}.head:
  %{name} = phi i64 [ 0, %{before} ], [ %{name}.next, %{name}.body ]
  %{name}.more = icmp slt i64 %{name}, {count}
  br i1 %{name}.more, label %{name}.body, label %{name}.end
{name}.body:
{body}
  %{name}.next = add nsw i64 %{name}, 1
  br label %{name}.head
{name}.end:"""

# What lanes have in common lies in front of their words in `states`: as it was when the chunk
# began, and as it is now.
COMMON_COPY = """\
define internal void @common.{name}({params}) #1 {{
entry:
  %first = and i64 %mode, {start}
  %starts = icmp ne i64 %first, 0
  %begun = getelementptr i64, ptr %template, i64 {words}
  %now = getelementptr i64, ptr %states, i64 {common}
  %before = select i1 %starts, ptr %begun, ptr %states
{copy}
  ret void
}}"""

ON_A_CPU = """\
define void @{symbol}({params}) #1 {{
entry:
{state}
{common}
  br label %next
next:
  %lane = phi i64 [ %lane_lo, %entry ], [ %lane.next, %done ]
  %more = icmp slt i64 %lane, %lane_hi
  br i1 %more, label %ready, label %out
ready:
{before}
  br label %begin
{lane}
done:
  %lane.next = add nsw i64 %lane, 1
  br label %next
out:
{after}
  ret void
}}"""


ON_A_GPU = """\
define {convention} void @{symbol}({params}) #2 {{
entry:
{state}
{number}
  %lane = add i64 %lane_lo, %number
  %exists = icmp slt i64 %lane, %lane_hi
  br i1 %exists, label %begin, label %done
{lane}
done:
  ret void
}}"""


def load_lanes(
    module: Module,
    kept: frozenset[str],
    target: Target,
    cache: Cache | None,
    varying: frozenset[str] | None = None,
) -> Program:
    """The kernel of a linked module with entries init and lane, one lane at a time on a CPU.

    `kept` are the paths of State that are read as results. Call it by the name "lanes" with the
    arguments of KERNEL; with `varying`, the paths that lanes differ in, its events are the rows of
    codegen/rows.py if there are any.
    """

    def passed(whole: Module) -> Module:
        part = kernel_part(split_lanes(whole, kept, varying, None, False))
        return usual_beside_any(part, "lane")

    form = Form(f"lanes {kernel_form(kept, varying)}", passed, _text, INTERFACE)
    return load(module, target, cache, form)


def state_words(shared: Shared) -> int:
    """Words of a lane's State; raises LimitError above LANE_STATE_BYTES."""
    words = shared.layout.words(shared.signatures["init"].decl.params[0].type)
    if is_large(words):
        raise LimitError(
            f"a lane of this sweep needs {8 * words:,} bytes of state, more than "
            f"{LANE_STATE_BYTES} of a GPU's thread\n"
            "help: run it on cores (--device cpu), with a smaller universe or shorter windows"
        )
    return words


def is_large(words: int) -> bool:
    """Whether a State is too large for a stack; a CPU has it in memory, one lane at a time."""
    return 8 * words > LANE_STATE_BYTES


def stack_bytes(module: Module, words: int, lanes: int) -> int:
    """About what lanes side by side take on a thread's stack: `words` each, and the arrays and
    structs of `lane` and of all that it calls, each call for itself."""
    layout, known = Layout(module.structs), dict[str, int]()
    for func in module.funcs:  # callers stand after their callees
        lets = (stmt.type for stmt in statements(func.body) if isinstance(stmt, Let))
        kept = sum(layout.words(type_) for type_ in lets if not isinstance(type_, str))
        calls = (expr.func for expr in expressions(func.body) if isinstance(expr, Call))
        known[func.name] = kept + sum(known[name] for name in calls)
    return 8 * lanes * (words + known["lane"])


def require_stack(needed: int) -> int:
    """The same bytes; raises LimitError above LANES_STACK_BYTES."""
    if needed > LANES_STACK_BYTES:
        raise LimitError(
            f"lanes side by side keep {needed:,} bytes in arrays, more than {LANES_STACK_BYTES}\n"
            "help: make the arrays of its kernels smaller"
        )
    return needed


def kernel_params(lane: Func) -> str:
    """The parameters of the kernel in LLVM; no buffer overlaps another that is written.

    Columns are written where the module is one that computes them, as its `lane` declares, and
    what lanes see their own of in place of events.
    """
    columns = [param for param in lane.params if param.name != COMMON][-1]
    written = {param.name for param in KERNEL.params if param.inout and param.name != "columns"}
    written |= {"columns"} if columns.inout else set()
    written |= {"events"} if any(one.name == OWN and one.inout for one in lane.params) else set()
    return ", ".join(
        f"{LLVM_TYPE[param.type]} %{param.name}"
        if isinstance(param.type, str)
        else f"ptr noalias {'' if param.name in written else 'readonly '}%{param.name}"
        for param in KERNEL.params
    )


def lane_text(words: int, signatures: dict[str, Signature], apart: str = "0") -> str:
    """What is done for one lane, on every target that runs one lane at a time."""
    symbol, common = signatures["lane"].symbol, common_argument(signatures["lane"])
    run = f"  call void @{symbol}(ptr %s, ptr %events, i64 %n_events, ptr %columns{common})"
    begin = begin_text(words, signatures, apart)
    return "\n".join([begin, run, end_text(words, apart)])


def common_argument(signature: Signature) -> str:
    """The argument that hands on what lanes have in common, to a function that takes it."""
    return ", ptr %common" if takes_common(signature.decl) else ""


class CommonText(NamedTuple):
    """What a kernel of a CPU does about what lanes have in common; nothing where there is none."""

    functions: tuple[str, ...]
    place: str
    """Where it lies as it is now."""
    before: str
    """Lines in front of the lanes that go through a chunk together."""
    after: str
    """Lines behind the last lane."""
    apart: str


def common_text(
    words: int, shared: Shared, params: str, args: str, working: int = 0
) -> CommonText:
    """It lies in front of the lanes' own words in `states`: as it was before the chunk, as it is.

    So that each lane finds it as it was, whichever lane comes first. A lane has `words` of its own;
    `working` of them lie behind what is in common, for the lane that runs.
    """
    if not takes_common(shared.signatures["lane"].decl):
        return CommonText((), "", "", "", str(working))
    size = shared.layout.words(COMMON_TYPE)
    made = tuple(
        COMMON_COPY.format(
            name=name,
            params=params,
            start=START,
            words=words,
            common=size,
            copy=loop_text("c", "entry", str(size), copy_text(source, "%c", target, "%c")),
        )
        for name, source, target in (("begin", "before", "now"), ("end", "now", "states"))
    )
    place = f"  %common = getelementptr i64, ptr %states, i64 {size}"
    begin, end = (f"  call void @common.{name}({args})" for name in ("begin", "end"))
    return CommonText(made, place, begin, end, str(2 * size + working))


def kernel_args() -> str:
    """The parameters of the kernel as it hands them on."""
    return ", ".join(
        f"{LLVM_TYPE[param.type] if isinstance(param.type, str) else 'ptr'} %{param.name}"
        for param in KERNEL.params
    )


def thread_text(convention: str, number: str, shared: Shared, stack: int | None = None) -> str:
    """The kernel where each thread runs one lane; `number` are the lines that number it."""
    words = state_words(shared)
    return ON_A_GPU.format(
        convention=convention,
        symbol=entry_symbol(KERNEL.name),
        params=kernel_params(shared.signatures["lane"].decl),
        state="\n".join(alloca("%s", f"[{words} x i64]", 16, stack)),
        number=number,
        lane=lane_text(words, shared.signatures),
    )


def begin_text(
    words: int, signatures: dict[str, Signature], apart: str = "0", group: int = 0, step: int = 1
) -> str:
    """What makes a lane's State ready for a chunk of events.

    The words of lanes stand `apart` words behind the begin of `states`: each word of all lanes in a
    row, or of each `group` of them. Those of the State at work stand `step` words from each other.
    """
    return BEGIN.format(
        start=START,
        init=signatures["init"].symbol,
        common=common_argument(signatures["init"]),
        apart=apart,
        fill=loop_text("w", "fill", str(words), copy_text("template", "%w", "s", "%w", step)),
        points=loop_text(
            "j", "w.end", "%n_params", _moved("j", "points", "s", "param_offsets", step)
        ),
        resume=loop_text("r", "resume", str(words), _kept("r", "kept", "s", words, group, step)),
    )


def end_text(words: int, apart: str = "0", group: int = 0, step: int = 1) -> str:
    """What becomes of a lane's State after a chunk of events; as begin_text."""
    return END.format(
        finish=FINISH,
        apart=apart,
        tell=loop_text(
            "q", "tell", "%n_results", _moved("q", "s", "results", "result_offsets", step)
        ),
        keep=loop_text("k", "keep", str(words), _kept("k", "s", "left", words, group, step)),
    )


def _text(module: Module, target: Target) -> str:
    return emit(module, target, on_a_cpu)


def on_a_cpu(_: Module, shared: Shared) -> Iterator[str]:
    """The kernel of one thread of a CPU: a loop over its lanes."""
    words = shared.layout.words(shared.signatures["init"].decl.params[0].type)
    working = words if is_large(words) else 0
    params = kernel_params(shared.signatures["lane"].decl)
    common = common_text(words, shared, params, kernel_args(), working)
    state = f"alloca [{words} x i64], align 16"
    if working:
        state = f"getelementptr i64, ptr %states, i64 {int(common.apart) - working}"
    yield from common.functions
    yield ON_A_CPU.format(
        symbol=entry_symbol(KERNEL.name),
        params=params,
        state=f"  %s = {state}",
        common=common.place,
        before=common.before,
        after=common.after,
        lane=lane_text(words, shared.signatures, common.apart),
    )


def loop_text(name: str, before: str, count: str, body: list[str]) -> str:
    """`body` for %name = 0, 1, ... below `count`; `before` is the block that it follows."""
    lines = "\n".join(f"  {line}" for line in body)
    return LOOP.format(name=name, before=before, count=count, body=lines)


def copy_text(source: str, at: str, target: str, to: str, step: int = 1) -> list[str]:
    """Move one word; those of the State `%s` stand `step` words from each other."""
    name = f"%{source}.{at[1:]}"
    steps = {"s": "i64" if step == 1 else f"[{step} x i64]"}
    return [
        f"{name}.from = getelementptr {steps.get(source, 'i64')}, ptr %{source}, i64 {at}",
        f"{name}.to = getelementptr {steps.get(target, 'i64')}, ptr %{target}, i64 {to}",
        f"{name}.word = load i64, ptr {name}.from, align 8",
        f"store i64 {name}.word, ptr {name}.to, align 8",
    ]


def _moved(index: str, source: str, target: str, offsets: str, step: int) -> list[str]:
    """Move word `index` between State and its place among all lanes' words."""
    lines, word = [], f"%{index}"
    if offsets:
        word = f"%{index}.word"
        lines = [
            f"%{index}.offset = getelementptr i64, ptr %{offsets}, i64 %{index}",
            f"{word} = load i64, ptr %{index}.offset, align 8",
        ]
    lines += [
        f"%{index}.row = mul i64 %{index}, %n_lanes",
        f"%{index}.at = add i64 %{index}.row, %lane",
    ]
    if source == "s":
        return lines + copy_text(source, word, target, f"%{index}.at", step)
    return lines + copy_text(source, f"%{index}.at", target, word, step)


def _kept(index: str, source: str, target: str, words: int, group: int, step: int) -> list[str]:
    """As `_moved`, of words that stand by groups of lanes, each of which is near in memory."""
    if not group:
        return _moved(index, source, target, "", step)
    lines = [
        f"%{index}.ahead = and i64 %lane, {-group}",
        f"%{index}.groups = mul i64 %{index}.ahead, {words}",
        f"%{index}.beside = and i64 %lane, {group - 1}",
        f"%{index}.first = add i64 %{index}.groups, %{index}.beside",
        f"%{index}.row = mul i64 %{index}, {group}",
        f"%{index}.at = add i64 %{index}.row, %{index}.first",
    ]
    word, at = f"%{index}", f"%{index}.at"
    places = (word, target, at) if source == "s" else (at, target, word)
    return lines + copy_text(source, *places, step)


class InterpretedLanes:
    """The kernel as the interpreter runs it: the oracle of every other."""

    def __init__(self, module: Module) -> None:
        self._interpreter = Interpreter(module)

    def call(
        self,
        entry: str,
        template: npt.NDArray[np.int64],
        points: npt.NDArray[np.int64],
        param_offsets: npt.NDArray[np.int64],
        n_params: int,
        results: npt.NDArray[np.int64],
        result_offsets: npt.NDArray[np.int64],
        n_results: int,
        events: npt.NDArray[np.int64],
        n_events: int,
        columns: npt.NDArray[np.int64],
        states: npt.NDArray[np.int64],
        n_lanes: int,
        lane_lo: int,
        lane_hi: int,
        mode: int,
    ) -> None:
        """As the machine code of KERNEL does it."""
        assert entry == KERNEL.name
        for lane in range(lane_lo, lane_hi):
            words: Any = template.copy()
            if mode & START:
                words[param_offsets[:n_params]] = points[lane::n_lanes][:n_params]
                self._interpreter.call("init", words)
            else:
                words[:] = states[lane::n_lanes][: len(words)]
            self._interpreter.call("lane", words, events, n_events, columns)
            if mode & FINISH:
                results[lane::n_lanes][:n_results] = words[result_offsets[:n_results]]
            else:
                states[lane::n_lanes][: len(words)] = words
