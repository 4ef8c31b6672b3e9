"""The kernel where each thread runs one lane, and the threads of a block share what they read.

The rows pass through a tile in shared memory (passes/usual.py says what it holds), which is copied
there as it lies behind the rows (tiles.py). In a tile each
lane makes its usual turns at its own pace; the lanes of a warp wait for each other only where they
come to a turn that is not usual, or to a lap's end, and make those turns together. Threads
beyond the last lane run that lane once more, so that all threads of a block meet at its barriers;
where there is none they end.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.codegen.function import Shared, Signature
from quantdsl.codegen.lanes import (
    KERNEL,
    START,
    begin_text,
    common_argument,
    copy_text,
    end_text,
    kernel_params,
    state_words,
)
from quantdsl.codegen.text import alloca, entry_symbol
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Module
from quantdsl.ir.own import own_steps
from quantdsl.ir.threads import WARP
from quantdsl.passes.common import COMMON_TYPE, takes_common
from quantdsl.passes.held import HELD_WORDS
from quantdsl.passes.hot import GIVE, HOT_SIZES, TAKE
from quantdsl.passes.messages import MESSAGE_WORDS
from quantdsl.passes.past import takes_past
from quantdsl.passes.rows import ROW_WORDS
from quantdsl.passes.stride import LONG_STRIDE_BITS
from quantdsl.passes.tile import STEP_WORDS
from quantdsl.passes.usual import GROUP_WORDS, HOLD, IDLE, IMAGE_WORDS, LAST, SLOW, USUAL

HALTS, SLOW_ROWS = 4, 4
"""Behind so many rows that were not usual idle turns are tried, or so many others made at once."""

THREAD = """\
define {convention}void @{symbol}({params}) #2 {{
entry:
{state}
  %thread.32 = call i32 @quantdsl.thread()
  %block.32 = call i32 @quantdsl.block()
  %threads.32 = call i32 @quantdsl.threads()
  %thread = zext i32 %thread.32 to i64
  %block = zext i32 %block.32 to i64
  %threads = zext i32 %threads.32 to i64
  %ahead = mul i64 %block, %threads
  %number = add i64 %ahead, %thread
  %own = add i64 %lane_lo, %number
{near}  %greatest = sub i64 %lane_hi, 1
  %exists = icmp slt i64 %own, %greatest
  %lane = select i1 %exists, i64 %own, i64 %greatest
{ready}
{begin}
{run}
{end}
done:
  ret void
}}"""

NEAR = """\
  %shared = call ptr @quantdsl.shared()
  %s.first = mul i64 %thread, {words}
  %s = getelementptr i64, ptr %shared, i64 %s.first
"""
ALONE = "  call void @{lane}(ptr %s, ptr {read}, i64 %n_events, ptr {written}{common})"
OWN_COLUMNS = """\
  %own.first = mul i64 %lane, {step}
  %own.read = getelementptr i64, ptr %events, i64 %own.first
  %own.written = getelementptr i64, ptr %columns, i64 %own.first
"""
READY = "  br label %begin"

# Where threads never wait, one without a lane ends: the last lane's State is stored once.
READY_ALONE = """\
  %real = icmp slt i64 %own, %lane_hi
  br i1 %real, label %begin, label %done"""

# What lanes have in common as it was lies behind the rows and what is made of them.
PAST = """\
  %past.made = add i64 %n_events, 1
  %past.rows = mul i64 %past.made, {row_words}
  %past.up = add i64 %n_events, {more}
  %past.times = sdiv i64 %past.up, {rows}
  %past.behind = mul i64 %past.times, {words}
  %past.at = add i64 %past.rows, %past.behind
  %common = getelementptr i64, ptr %events, i64 %past.at
"""

# Each lane goes through the events by itself, and the lanes of a group have one of what all have in
# common, in front of all lanes' words in `states`. A group with no lane left has nothing to do.
ALL_ALONE = """\
  %group = lshr i64 %number, {shift}
  %group.begins = shl i64 %group, {shift}
  %group.lane = add i64 %lane_lo, %group.begins
  %real = icmp slt i64 %group.lane, %lane_hi
  br i1 %real, label %ready, label %done
ready:
  %common.at = mul i64 %group, {size}
  %common = getelementptr i64, ptr %states, i64 %common.at
  %groups.up = add i64 %n_lanes, {mask}
  %groups = lshr i64 %groups.up, {shift}
  %apart = mul i64 %groups, {size}
  %first.chunk = and i64 %mode, {start}
  %fresh = icmp ne i64 %first.chunk, 0
  br i1 %fresh, label %fresh.common, label %begin
fresh.common:
  %begun = getelementptr i64, ptr %template, i64 {words}
  %in.group = and i64 %number, {mask}
  br label %copy
copy:
  %c = phi i64 [ %in.group, %fresh.common ], [ %c.next, %copied ]
  %c.more = icmp slt i64 %c, {size}
  br i1 %c.more, label %copied, label %whole
copied:
{copy}
  %c.next = add nsw i64 %c, {lanes}
  br label %copy
whole:
{wait}
  br label %begin"""

# What is held stands behind the State: in registers it would cost more than it spares.
HOLDING = """\
  %held = getelementptr i64, ptr %s, i64 {words}
  call void @{hold}(ptr %s, ptr %held)
"""
# Words that turns change are in registers, for nothing takes the address of their place.
TAKING = "  call void @{take}(ptr %s{hot})\n"
GIVING = "  call void @{give}(ptr %s{hot})\n"
TOGETHER = """\
{hold}{take}  %shared = call ptr @quantdsl.shared()
  call void @llvm.assume(i1 true) ["align"(ptr %shared, i64 16)]
  %rows.made = add i64 %n_events, 1
  %rows.words = mul i64 %rows.made, {row_words}
  %images = getelementptr i64, ptr %events, i64 %rows.words
  %marks = getelementptr i64, ptr %shared, i64 {marks}
  call void @quantdsl.open_copies(ptr %marks, i64 {spans}, i64 %thread)
  %some = icmp sgt i64 %n_events, 0
  %words.some = select i1 %some, i64 {size}, i64 0
  call void @quantdsl.copy(ptr %marks, ptr %shared, ptr %images, i64 %words.some, i64 %thread, \
i64 %threads)
{first_rows}  br label %stretch
stretch:
  %first = phi i64 [ 0, %run ], [ %tile.to, %stretched ]
  %image = phi ptr [ %images, %run ], [ %image.next, %stretched ]
  %side = phi i64 [ 0, %run ], [ %side.next, %stretched ]
  %tile.number = phi i64 [ 0, %run ], [ %tile.number.next, %stretched ]
  %halts.before = phi i64 [ 0, %run ], [ %halts, %stretched ]
  %more = icmp slt i64 %first, %n_events
  br i1 %more, label %fetched, label %turned
fetched:
  %which = and i64 %tile.number, 1
  %mark = getelementptr i64, ptr %marks, i64 %which
  %used = lshr i64 %tile.number, 1
  %tile.number.next = add i64 %tile.number, 1
  %which.next = xor i64 %which, 1
  %mark.next = getelementptr i64, ptr %marks, i64 %which.next
  call void @quantdsl.copied(ptr %mark, i64 %used)
  call void @quantdsl.barrier()
  %tile = getelementptr i64, ptr %shared, i64 %side
  %groups = getelementptr i64, ptr %tile, i64 {groups}
  %end = add i64 %first, {rows}
  %behind.it = icmp slt i64 %end, %n_events
  %tile.to = select i1 %behind.it, i64 %end, i64 %n_events
  %words.ahead = select i1 %behind.it, i64 {size}, i64 0
  %image.next = getelementptr i64, ptr %image, i64 {size}
  %side.next = sub i64 {side}, %side
  %tile.next = getelementptr i64, ptr %shared, i64 %side.next
  call void @quantdsl.copy(ptr %mark.next, ptr %tile.next, ptr %image.next, i64 %words.ahead, \
i64 %thread, i64 %threads)
{next_rows}{lap}
pace:
  %from = phi i64 [ %lap.from, %lap ], [ %from.next, %paced ]
  %halts = phi i64 [ %halts.lap, %lap ], [ %halts.next, %paced ]
  %reached = call i64 @{usual}(ptr %s, ptr %tile, ptr %groups, i64 %first, i64 %from, \
i64 %to, ptr %columns{common}{held})
  %waits = icmp slt i64 %reached, %to
  %waits.32 = zext i1 %waits to i32
  %waiting = call i32 @quantdsl.any(i32 %waits.32)
  %any = icmp ne i32 %waiting, 0
  br i1 %any, label %aside, label %lapped
aside:
  br i1 %waits, label %slowly, label %paced
slowly:
  %halted = icmp eq i64 %reached, %from
  %halts.now = select i1 %halted, i64 %halts, i64 0
  %patient = icmp slt i64 %halts.now, {halts}
  br i1 %patient, label %slower, label %idly
idly:
  %idled = call i64 @{idle}(ptr %s, ptr {rows_here}, i64 %reached, i64 %to, \
ptr %columns{common}{held})
  %stuck = icmp eq i64 %idled, %reached
  br i1 %stuck, label %slower, label %paced
slower:
  %run.rows = select i1 %patient, i64 1, i64 {long}
  %far = add i64 %reached, %run.rows
  %inside = icmp slt i64 %far, %to
  %behind = select i1 %inside, i64 %far, i64 %to
  %slowed = call i64 @{slow}(ptr %s, ptr {rows_here}, i64 %reached, i64 %behind, i64 %to, \
ptr %columns{common}{held})
  %slow.rows = sub i64 %slowed, %reached
  %halts.more = add i64 %halts.now, %slow.rows
  br label %paced
paced:
  %from.next = phi i64 [ %slowed, %slower ], [ %idled, %idly ], [ %reached, %aside ]
  %halts.next = phi i64 [ %halts.more, %slower ], [ %halts.now, %idly ], [ 0, %aside ]
  br label %pace
{lapped}
stretched:
  br label %stretch
turned:
{give}  call void @{last}(ptr %s, ptr %events, i64 %n_events)"""

# Whole rows lie behind what usual turns read of them, with one that is read ahead.
FIRST_ROWS = """\
  %some.rows = icmp slt i64 %rows.made, {rows}
  %first.rows = select i1 %some.rows, i64 %rows.made, i64 {rows}
  %rows.some = select i1 %some, i64 %first.rows, i64 0
  %first.words = mul i64 %rows.some, {row_words}
  %first.to = getelementptr i64, ptr %shared, i64 {size}
  call void @quantdsl.copy(ptr %marks, ptr %first.to, ptr %events, i64 %first.words, i64 %thread, \
i64 %threads)
"""
NEXT_ROWS = """\
  %left.rows = sub i64 %rows.made, %tile.to
  %few.rows = icmp slt i64 %left.rows, {rows}
  %next.rows = select i1 %few.rows, i64 %left.rows, i64 {rows}
  %next.some = select i1 %behind.it, i64 %next.rows, i64 0
  %next.words = mul i64 %next.some, {row_words}
  %next.to = getelementptr i64, ptr %tile.next, i64 {size}
  %next.at = mul i64 %tile.to, {row_words}
  %next.from = getelementptr i64, ptr %events, i64 %next.at
  call void @quantdsl.copy(ptr %mark.next, ptr %next.to, ptr %next.from, i64 %next.words, \
i64 %thread, i64 %threads)
  %rows.ahead = mul i64 %first, {row_words}
  %rows.before = sub i64 {size}, %rows.ahead
  %rows.here = getelementptr i64, ptr %tile, i64 %rows.before
"""

# The lanes of a warp come together behind each lap of a tile, the warps of a block behind the tile.
LAP = """\
  br label %lap
lap:
  %lap.from = phi i64 [ %first, %fetched ], [ %to, %lapped ]
  %halts.lap = phi i64 [ %halts.before, %fetched ], [ %halts, %lapped ]
  %lap.end = add i64 %lap.from, {rows}
  %lap.inside = icmp slt i64 %lap.end, %tile.to
  %to = select i1 %lap.inside, i64 %lap.end, i64 %tile.to
  br label %pace"""
LAPPED = """\
lapped:
  %another = icmp slt i64 %to, %tile.to
  br i1 %another, label %lap, label %stretched"""
ONE_LAP = """\
  br label %lap
lap:
  %lap.from = phi i64 [ %first, %fetched ]
  %halts.lap = phi i64 [ %halts.before, %fetched ]
  %to = phi i64 [ %tile.to, %fetched ]
  br label %pace"""
LAPPED_ONCE = """\
lapped:
  br label %stretched"""

SIDES = 2
"""Tiles that a block has room for: while its threads are at one, the next comes from memory."""

LONGER = 4
"""So many times the rows has a lap of strides: what a lap costs counts for more beside them."""
SHORTER = 3
"""Halvings, less one, that a lap is tried with where whole rows have no room beside it."""
SHARED_WORDS = 2048
"""Of shared memory that a longer lap may take: a multiprocessor has room for many blocks then."""
SHARED_WORDS_MAX = 6144
"""Of shared memory that a kernel gets without asking the driver for more, 48 KB."""


class Tiling(NamedTuple):
    """How rows pass through shared memory."""

    rows: int
    """Of a lap without strides: longer ones let lanes drift apart, shorter ones make them wait."""
    laps: int = 1
    """Of a tile at most: more let the warps of a block drift apart, and take shared memory."""
    whole: bool = False
    """Whether turns that are not usual find their rows there, too."""


def lap_rows(module: Module, tiling: Tiling) -> int:
    """Rows of a lap: so many without strides, with them as many times as have room; fewer where
    whole rows lie beside them, or where a kernel would not get the memory.
    """
    sizes, rows = dict(module.sizes), tiling.rows
    longest = rows * LONGER if GROUP_WORDS in sizes else rows
    while longest > rows and SIDES * _words(sizes, longest) > SHARED_WORDS:
        longest //= 2
    while longest > 1 and SIDES * _words(sizes, longest) > _most(tiling):
        longest //= 2
    if tiling.whole:
        shorter = (longest >> bits for bits in range(SHORTER))
        longest = next((lap for lap in shorter if _has_room(sizes, lap)), longest)
    return longest


def whole_rows(module: Module, tiling: Tiling) -> bool:
    """Whether turns that are not usual find their rows in shared memory: it is wanted, and there
    is room.
    """
    return tiling.whole and _has_room(dict(module.sizes), tile_rows(module, tiling))


def _has_room(sizes: dict[str, int], rows: int) -> bool:
    """For the whole rows of tiles, too."""
    side = _words(sizes, rows) + (rows + 1) * sizes.get(ROW_WORDS, 0)
    return SIDES * (side + 1) <= SHARED_WORDS_MAX


def tile_rows(module: Module, tiling: Tiling) -> int:
    """Rows of a tile: as many laps as have room."""
    sizes, rows, laps = dict(module.sizes), lap_rows(module, tiling), tiling.laps
    while laps > 1 and SIDES * _words(sizes, rows * laps) > _most(tiling):
        laps -= 1
    return rows * laps


def tile_size(module: Module, tiling: Tiling) -> int:
    """Words of a tile, with one row read ahead, and of strides."""
    return _words(dict(module.sizes), tile_rows(module, tiling))


def shared_words(module: Module, tiling: Tiling) -> int:
    """Words of shared memory that a block needs: for the tile at hand and the next, or for the
    States of its lanes.
    """
    side = _side_words(module, tiling)
    return SIDES * (side + tiling.whole) + WARP * near_words(module)


def _side_words(module: Module, tiling: Tiling) -> int:
    """Words of one of the tiles in shared memory, with whole rows if it has them."""
    size, rows = tile_size(module, tiling), tile_rows(module, tiling) + 1
    near = size > 0 and whole_rows(module, tiling)
    return size + (rows * dict(module.sizes)[ROW_WORDS] if near else 0)


def near_words(module: Module) -> int:
    """Words from a lane's State to that of the next in shared memory, 0 where it is the thread's.

    Of lanes that go along columns of their own, a block has a warp: their windows would drive each
    other out of the cache. An odd number, so that lanes' equal words lie in different banks.
    """
    if own_steps(module) is None:
        return 0
    (init,) = (func for func in module.funcs if func.name == "init")
    return apart_words(Layout(module.structs).words(init.params[0].type))


def apart_words(words: int) -> int:
    """The same for a State of so many words."""
    apart = words | 1
    return apart if WARP * apart <= SHARED_WORDS_MAX else 0


def behind_rows(module: Module, tiling: Tiling) -> tuple[int, int]:
    """For how many rows something stands behind all rows, and how many words of it; 0 if nothing.

    Tiles, as `tile_rows` and `tile_size` tell of them, or what messages.py gathers.
    """
    messages = dict(module.sizes).get(MESSAGE_WORDS)
    if messages is not None:
        return 1, messages
    return tile_rows(module, tiling), tile_size(module, tiling)


def _most(tiling: Tiling) -> int:
    """Words that the tiles of a block may have."""
    return SHARED_WORDS_MAX - SIDES * tiling.whole


def _words(sizes: dict[str, int], rows: int) -> int:
    words = (rows + 1) * sizes.get(IMAGE_WORDS, 0)
    words += (rows >> LONG_STRIDE_BITS) * sizes.get(GROUP_WORDS, 0)
    return -(-words // STEP_WORDS) * STEP_WORDS


def warp_text(
    convention: str, module: Module, shared: Shared, tiling: Tiling, group: int = 1
) -> str:
    """The kernel over tiles; its text calls primitives.py.

    `group` lanes have one of what all have in common, where there is such a thing: a warp of them,
    which waits before each write (passes/meet.py), or one.
    """
    words, symbols = state_words(shared), shared.signatures
    tiled, (most, behind) = tile_size(module, tiling) > 0, behind_rows(module, tiling)
    sizes = dict(module.sizes)
    held = sizes[HELD_WORDS] if tiled else 0
    if tiled:
        turns, run = symbols[SLOW], _together(module, symbols, tiling, words)
    else:
        turns, run = symbols["lane"], ""
        own, names = own_steps(module), ("%events", "%columns")
        if own is not None:
            assert own.lane == own.group == own.made  # flat columns
            run, names = OWN_COLUMNS.format(step=own.lane), ("%own.read", "%own.written")
        read, written = names
        common = common_argument(turns)
        run += ALONE.format(lane=turns.symbol, common=common, read=read, written=written)
    ready, apart = READY if tiled else READY_ALONE, "0"
    if takes_past(turns.decl):
        past = PAST.format(row_words=sizes[ROW_WORDS], more=most - 1, rows=most, words=behind)
        ready = past + ready
    elif takes_common(turns.decl):
        size = shared.layout.words(COMMON_TYPE)
        ready = ALL_ALONE.format(
            size=size,
            start=START,
            words=words,
            lanes=group,
            mask=group - 1,
            shift=group.bit_length() - 1,
            copy="\n".join(f"  {line}" for line in copy_text("begun", "%c", "common", "%c")),
            wait="  call void @quantdsl.warp_barrier()" if group > 1 else "",
        )
        apart = "%apart"
    params = kernel_params(turns.decl)
    near = near_words(module)
    places = [] if near else [("%s", words + held)]
    if group > 1 and takes_common(turns.decl) and not takes_past(turns.decl):
        params = params.replace("noalias %states", "%states")  # other lanes write to it too
    return THREAD.format(
        convention=convention,
        symbol=entry_symbol(KERNEL.name),
        params=params,
        state="\n".join(
            line
            for name, size in (*places, *_hot_places(sizes))
            for line in alloca(name, f"[{size} x i64]", 16, None)
        ),
        near=NEAR.format(words=near) if near else "",
        ready=ready,
        begin=begin_text(words, symbols, apart),
        run=run,
        end=end_text(words, apart),
    )


def _together(module: Module, symbols: dict[str, Signature], tiling: Tiling, words: int) -> str:
    """The turns of all rows, which pass in tiles; a State has so many words."""
    sizes, size = dict(module.sizes), tile_size(module, tiling)
    lap, rows, held = lap_rows(module, tiling), tile_rows(module, tiling), sizes[HELD_WORDS]
    hot = "".join(f", ptr {name}" for name, _ in _hot_places(sizes))
    side, near = _side_words(module, tiling), whole_rows(module, tiling)
    of_rows = {"rows": rows + 1, "row_words": sizes[ROW_WORDS], "size": size}
    return TOGETHER.format(
        marks=SIDES * side,
        spans=1 + near,
        side=side,
        first_rows=FIRST_ROWS.format(**of_rows) if near else "",
        next_rows=NEXT_ROWS.format(**of_rows) if near else "",
        rows_here="%rows.here" if near else "%events",
        rows=rows,
        lap=LAP.format(rows=lap) if lap < rows else ONE_LAP,
        lapped=LAPPED if lap < rows else LAPPED_ONCE,
        halts=HALTS,
        long=SLOW_ROWS,
        row_words=sizes[ROW_WORDS],
        size=size,
        groups=(rows + 1) * sizes[IMAGE_WORDS],
        common=common_argument(symbols[SLOW]),
        hold=HOLDING.format(hold=symbols[HOLD].symbol, words=words) if held else "",
        held=(", ptr %held" if held else "") + hot,
        take=TAKING.format(take=symbols[TAKE].symbol, hot=hot) if hot else "",
        give=GIVING.format(give=symbols[GIVE].symbol, hot=hot) if hot else "",
        **{name: symbols[name].symbol for name in (USUAL, SLOW, IDLE, LAST)},
    )


def _hot_places(sizes: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Where a thread has the words of hot.py, and how many, if its turns have them apart."""
    for param, size in HOT_SIZES.items():
        if size in sizes:
            yield f"%{param.removesuffix('@')}", max(sizes[size], 1)
