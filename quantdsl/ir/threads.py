"""The form of a kernel of threads in IR, from which its meaning follows on every target.

    let shared.1: array[T, n]                 memory of the block
    let mine.2: array[T, THREADS]             a local that lives on while its thread waits
    for thread.3 in 0 .. THREADS: ...         what each thread does before it waits for others
    do device.barrier()                       where it waits; nothing where threads run in turn
    do device.named_barrier(1, 64)            the same within a thread of those that come there
    do device.lanes_barrier(255)              the same of lanes of a warp, a bit for each
    for ordered.4 in 0 .. THREADS: ...        what the threads do one after the other, everywhere
    let give.5: array[i64, THREADS]           what each thread shows the others of its warp
    ... warp.shuffle(give.5, thread.3, lane)  what it takes from them
    let result.6: T = ...                     what thread 0 returns
    for grid.7 in 0 .. BLOCKS: ...            what each block of a grid does, of a kernel of tensors
    do device.turn()                          waits until the blocks before this one have passed
    do device.pass()                          lets the next block do so; these two in order only
    do device.grid_barrier()                  where all blocks wait; between loops over the blocks
    let all_mine.8: array[T, n * BLOCKS]      what a block keeps from one of these loops to the next

What is the same in all threads stands outside these loops. A local is known by the first part of
its name; no other local has one of these. Threads that wait where this says may run in any order,
since a kernel in which one could see what another does meanwhile is a race, and no program.
"""

from quantdsl.ir.ops import (
    F64_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Call,
    Do,
    Elem,
    Expr,
    For,
    Func,
    Let,
    ParamDecl,
    Return,
    ScalarType,
    SizeName,
    Unary,
    Var,
    i64,
)

THREAD, ORDERED, SHARED, MINE, MINES, GIVE, RESULT, GRID = (
    "thread", "ordered", "shared", "mine", "mines", "give", "result", "grid"
)  # fmt: skip
ALL, EACH = "all_", "each_"
"""What a grid keeps of each block has one of these before its name: an array, a scalar."""
"""`mines` is an array of each thread: THREADS times as long, those of a thread in a row."""
WARP = 32
LANES = (1 << WARP) - 1
"""A bit for each thread of a warp."""
BARRIER, WARP_BARRIER = "device.barrier", "device.warp_barrier"
GRID_BARRIER = "device.grid_barrier"
NAMED_BARRIER, LANES_BARRIER = "device.named_barrier", "device.lanes_barrier"
FENCES = {scope: f"device.fence.{scope}" for scope in ("thread", "block", "device", "system")}
SCOPES = ("block", "device", "system")
"""Whom an atomic on a tensor is one operation for."""
SHUFFLE, BALLOT, MATCH = "warp.shuffle", "warp.ballot", "warp.match"
ATOMICS = {
    "add": "iadd",
    "sub": "isub",
    "min": "imin",
    "max": "imax",
    "and": "iand",
    "or": "ior",
    "xor": "ixor",
}
"""Those whose order cannot be seen where nobody asks for the older value -> their operation."""


def atomic(name: str, scope: str = "") -> str:
    """The function that does one of ATOMICS to an element of an array; the device is usual."""
    return f"atomic.{name}" + (f".{scope}" if scope not in ("", "device") else "")


ATOMIC_CALLS = {
    atomic(name, scope): (name, scope if scope != "device" else "")
    for name in ATOMICS
    for scope in SCOPES
}
"""Each of those functions -> its operation and scope."""


def of_element(call: Call) -> bool:
    """Whether a call is an atomic on an element of an array, or a copy to one."""
    name = call.func.partition("[")[0]
    return name in ATOMIC_CALLS or name in COPIES.values()


def kept_stem(let: Let) -> str:
    """The first part of the name of what a grid keeps of a local of each block."""
    kind = ALL if isinstance(let.type, ArrayType) else EACH
    return kind + let.name.partition(".")[0]


COPIES: dict[ScalarType, str] = {F64_T: "copy.float", I64_T: "copy.int"}
"""Copies an element of a tensor into shared memory, beside what the thread does next -> by type."""
COPIED = "copy.wait"
"""Waits until the copies of the thread are there."""
WAIT = Do(Call(BARRIER, ()))
GRID_WAIT = Do(Call(GRID_BARRIER, ()))
TURN, PASS = Do(Call("device.turn", ())), Do(Call("device.pass", ()))


def _warp(name: str, result: tuple[Let | For | Assign | Return, ...], *more: str) -> Func:
    words = ParamDecl("give", ArrayType(I64_T, SizeName("n")))
    others = tuple(ParamDecl(part, I64_T) for part in ("thread", *more))
    return Func(name, (words, *others), I64_T, result, sizes=("n",))


_FIRST = Let("first", I64_T, Binary("iand", Var("thread"), i64(-WARP)))


def _bits(test: Expr) -> tuple[Let | For | Return, ...]:
    """A bit for each thread of the warp for which the test holds."""
    bit = Binary("shl", Unary("bool_to_i64", test), Var("k"))
    put = Assign(Var("bits"), Binary("ior", Var("bits"), bit))
    return (_FIRST, Let("bits", I64_T, i64(0)), For("k", i64(0), i64(WARP), (put,)), Return(_SUM))


_SUM = Var("bits")
_OTHER = Elem(Var("give"), Binary("iadd", Var("first"), Var("k")))
_AT = Elem(Var("memory"), Var("index"))
_MEMORY = (
    ParamDecl("memory", ArrayType(I64_T, SizeName("n")), inout=True),
    ParamDecl("index", I64_T),
    ParamDecl("value", I64_T),
)
_LANE = Binary("iand", Var("lane"), i64(WARP - 1))
FUNCTIONS = (
    *(Func(name, (), None, ()) for name in (BARRIER, WARP_BARRIER, GRID_BARRIER)),
    *(Func(stmt.call.func, (), None, ()) for stmt in (TURN, PASS)),
    Func(NAMED_BARRIER, (ParamDecl("number", I64_T), ParamDecl("threads", I64_T)), None, ()),
    Func(LANES_BARRIER, (ParamDecl("lanes", I64_T),), None, ()),
    *(Func(name, (), None, ()) for name in FENCES.values()),
    _warp(
        SHUFFLE,
        (_FIRST, Return(Elem(Var("give"), Binary("iadd", Var("first"), _LANE)))),
        "lane",
    ),
    _warp(BALLOT, _bits(Binary("ine", _OTHER, i64(0)))),
    _warp(MATCH, _bits(Binary("ieq", _OTHER, Elem(Var("give"), Var("thread"))))),
    Func(COPIED, (), None, ()),
    *(
        Func(
            name,
            (
                ParamDecl("memory", ArrayType(type_, SizeName("n")), inout=True),
                ParamDecl("index", I64_T),
                ParamDecl("source", ArrayType(type_, SizeName("m"))),
                ParamDecl("at", I64_T),
            ),
            None,
            (Assign(_AT, Elem(Var("source"), Var("at"))),),
            sizes=("n", "m"),
        )
        for type_, name in COPIES.items()
    ),
    *(
        Func(
            name,
            _MEMORY,
            None,
            (Assign(_AT, Binary(ATOMICS[operation], _AT, Var("value"))),),
            sizes=("n",),
        )
        for name, (operation, _) in ATOMIC_CALLS.items()
    ),
)
"""What a kernel of threads calls, for a target whose threads run one after the other."""
