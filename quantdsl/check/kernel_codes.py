"""The codes of family 09, of machine code and of kernels, for the registry."""

from quantdsl.lang.codes import define

_KERNEL = """\
{note}kernel drift(r: {window}) -> float:
    var sum = 0.0
    {loop}:
{turn}    return sum

"""
_STRATEGY = """\
strategy S:
    bars 5m
    let d = {call}
    on bar:
        if flat and d > 0.0:
            buy(100 shares)
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
_CRITICAL = """\
strategy S:
    quotes
{note}    on quote:
        if flat and spread < 2 ticks:
            buy(100 shares)
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
_LOOP = "parallel for i in 0..<(r.len - 1) reduce(sum: +)"
_TURN = "        sum += r[i] - r[i + 1]\n"


def _file(
    loop: str = _LOOP,
    turn: str = _TURN,
    window: str = "window[float, 64]",
    note: str = "",
    call: str = "drift(close)",
) -> str:
    """A whole strategy with a kernel, around what matters."""
    kernel = _KERNEL.format(note=note, window=window, loop=loop, turn=turn)
    return kernel + _STRATEGY.format(call=call)


def _of_kernel(code: str, title: str, why: str, wrong: str) -> None:
    define(code, title, why, wrong, _file())


define(
    "QD0901",
    "machine code is not as said",
    "Machine code is read back. '@critical_path' and '@inline_always': no call is left (of more\n"
    "than some forty thousand operations one is); '@no_allocation': nothing that another object\n"
    "must do; '@vectorizable': each inner loop is in wide registers, with no branch, call or\n"
    "division, and sums of integers alone, so that no turn needs another.",
    _CRITICAL.format(note="    @critical_path\n"),
    _CRITICAL.format(note=""),
)
_of_kernel(
    "QD0902",
    "belongs to a kernel",
    "'parallel for', windows and f32 stand in a kernel, and a parallel loop in no other one. The\n"
    "turns of a parallel loop may run at the same time; what is to happen in order is a 'for'.",
    _file().replace("kernel drift(r: window[float, 64])", "fn drift(r: window[float, 64])")
    .replace("    parallel for i in 0..<(r.len - 1) reduce(sum: +):\n" + _TURN, "")
    .replace("    let d = drift(close)\n", "    let d = log(close)\n"),
)
_of_kernel(
    "QD0903",
    "the turns of a parallel loop depend on each other",
    "The turns run in any order and many at a time. A turn writes to what it declares, to its\n"
    "own element a[i], and into what the loop reduces; it cannot end the others, nor see what\n"
    "they have made so far.",
    _file("parallel for i in 0..<(r.len - 1)"),
)
_of_kernel(
    "QD0904",
    "no such reduction",
    "A parallel loop reduces numbers by + * min and max, truth values by 'and' and 'or', each in\n"
    "one form: sum += x, low = min(low, x), any = any or x. The order is fixed (docs/kernels.md),\n"
    "so that every target has the same bits.",
    _file(turn="        sum -= r[i] - r[i + 1]\n"),
)
_of_kernel(
    "QD0905",
    "the length of a window",
    "A kernel runs over windows: the last values of a series, as many as its declaration says.\n"
    "The length is a constant, for the memory and the warm-up follow from it; what a param\n"
    "shortens loops to min(n, r.len).",
    _file(window="window[float, n], n: const int", call="drift(close, 64)"),
)
_of_kernel(
    "QD0906",
    "an annotation of a kernel is not true",
    "@kernel(KIND) says what kind of kernel this is: elementwise, reduce, scan, matmul, rank,\n"
    "histogram, sort, threads or general. @workgroup(n) says how many threads, in whole warps,\n"
    "share the strands of a parallel loop, or are a block; @grid(n) how many blocks there are, in\n"
    "a kernel of threads over tensors. @unroll(n) says that each innermost loop has n turns or a\n"
    "multiple, known when compiling; @lanes(n) says so of each parallel loop.\n"
    "@device(cpu) or @device(cuda) says where signals that call it are computed; those of one\n"
    "strategy lie together. They change no result; one that is not true is an error.\n"
    "@fast(bf16), @fast(f16) and @fast(tf32) stand above a product of f32 tensors, @fast(order)\n"
    "above a scan of tensors; those let a device's result be another one.",
    _file(note="@kernel(scan)\n"),
)
_of_kernel(
    "QD0907",
    "a window is the history of an equation",
    "A kernel is called in an equation: a 'let' of the strategy, or an expression of series\n"
    "alone. Its window is what the strategy keeps of that series; a value of a handler, a fn or\n"
    "an indicator has no history.",
    _file(call="drift(3.0)"),
)

_THREADS = """\
@workgroup(64)
kernel drift(r: window[float, 64]) -> float:
    var s: shared[float, {size}] = 0
    s[thread.x] = r[thread.x]
{turn}    return s[0] - s[63]

"""


def _of_threads(code: str, title: str, why: str, size: str, turn: str, mended: str) -> None:
    strategy = _STRATEGY.format(call="drift(close)")
    wrong = _THREADS.format(size=size, turn=turn)
    define(code, title, why, wrong + strategy, _THREADS.format(size="64", turn=mended) + strategy)


_of_threads(
    "QD0908",
    "more memory than a kernel has",
    "What a thread keeps lies on its stack, and what a block shares in memory of some tens of\n"
    "kilobytes. A kernel that needs more goes over its data in parts.",
    "100_000",
    "    barrier()\n",
    "    barrier()\n",
)
_of_threads(
    "QD0909",
    "threads would not meet",
    "A barrier, a shuffle, a vote and an atomic in order are places that every thread of the\n"
    "block comes to; one that only some come to would wait for ever. How often a loop turns and\n"
    "which branch is taken must be the same in all threads there: made of params and constants,\n"
    "not of a thread's number, nor of shared memory.",
    "64",
    "    if thread.x < 32:\n        barrier()\n",
    "    barrier()\n    if thread.x < 32:\n        s[thread.x] += 1.0\n    barrier()\n",
)
_of_threads(
    "QD0910",
    "the result depends on the order of the threads",
    "An atomic is done to one element of an array. In a parallel loop only those whose order\n"
    "nobody can see are: sums of ints, the smallest, bits. Elsewhere one of floats, or whose\n"
    "older value is used, is made in the order of the threads' numbers.",
    "64",
    "    var x = 1\n    atomic_add(x, 1)\n    barrier()\n",
    "    var n: shared[int, 1] = 0\n    atomic_add(n[0], 1)\n    barrier()\n",
)
