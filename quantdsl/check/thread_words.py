"""What `quantdsl help` says of the words of a kernel of threads."""

from typing import NamedTuple


class ThreadWord(NamedTuple):
    """A row of the table; the example stands in a kernel with `var s: shared[int, 64]`."""

    signature: str
    text: str
    example: str


def _atomic(name: str, text: str, more: str = "x") -> tuple[str, ThreadWord]:
    word = f"atomic_{name}"
    given = more.replace("expected", "1").replace("x", "2")
    row = ThreadWord(f"{word}(s[i], {more}) -> int", text, f"{word}(s[0], {given})")
    return word, row


HELP: dict[str, ThreadWord] = {
    "thread": ThreadWord(
        "thread.x, .y, .z -> int", "The thread's number along each dimension.", "thread.x"
    ),
    "block": ThreadWord(
        "block.x, .y, .z -> int", "The block's number; 0 where a call is one block.", "block.x"
    ),
    "block_size": ThreadWord(
        "block_size.x, .y, .z -> int", "The threads along each dimension.", "block_size.x"
    ),
    "grid": ThreadWord(
        "grid.x, .y, .z -> int", "The blocks that @grid says; 1 where a call is one.", "grid.x"
    ),
    "lane": ThreadWord("lane -> int", "The thread's number in its warp, 0 to 31.", "lane"),
    "warp": ThreadWord("warp -> int", "The number of its warp in the block.", "warp"),
    "barrier": ThreadWord("barrier()", "Waits for all threads of the block.", "barrier()"),
    "warp_barrier": ThreadWord(
        "warp_barrier(lanes = all)",
        "Waits for all threads of the warp, or for the lanes that have a bit in a constant.",
        "warp_barrier()",
    ),
    "named_barrier": ThreadWord(
        "named_barrier(number, threads)",
        "Waits for so many threads, whole warps, at the barrier of this number, 1 to 15.",
        "named_barrier(1, 64)",
    ),
    "grid_barrier": ThreadWord(
        "grid_barrier()", "Waits for all blocks, in a kernel over tensors.", "grid_barrier()"
    ),
    "async_copy": ThreadWord(
        "async_copy(s[i], x[j])",
        "Copies an element of a tensor to shared memory, beside what follows.",
        "async_copy(s[0], x[0])",
    ),
    "wait_copies": ThreadWord(
        "wait_copies()", "Waits for the thread's own copies; a barrier, for all.", "wait_copies()"
    ),
    "fence": ThreadWord(
        "fence(thread | block | device | system)",
        "Orders what the thread did to memory before and after; waits for nobody.",
        "fence(block)",
    ),
    "shuffle": ThreadWord(
        "shuffle(x, lane, width = 32)", "x of another lane of the warp.", "shuffle(thread.x, 3)"
    ),
    "shuffle_up": ThreadWord(
        "shuffle_up(x, n, width = 32)", "x of the lane n below, or one's own.",
        "shuffle_up(thread.x, 1)",
    ),
    "shuffle_down": ThreadWord(
        "shuffle_down(x, n, width = 32)", "x of the lane n above, or one's own.",
        "shuffle_down(thread.x, 1)",
    ),
    "shuffle_xor": ThreadWord(
        "shuffle_xor(x, bits, width = 32)", "x of the lane whose number differs in these bits.",
        "shuffle_xor(thread.x, 1)",
    ),
    "vote_any": ThreadWord(
        "vote_any(b: bool) -> bool", "Whether b holds in any lane.", "vote_any(thread.x > 3)"
    ),
    "vote_all": ThreadWord(
        "vote_all(b: bool) -> bool", "Whether b holds in all lanes.", "vote_all(thread.x > 3)"
    ),
    "ballot": ThreadWord(
        "ballot(b: bool) -> int", "A bit for each lane in which b holds.", "ballot(thread.x > 3)"
    ),
    "match_any": ThreadWord(
        "match_any(x) -> int", "A bit for each lane with the same x.", "match_any(thread.x mod 3)"
    ),
    **dict(
        (
            _atomic("add", "s[i] + x; like all atomics it gives what was there."),
            _atomic("sub", "s[i] - x."),
            _atomic("min", "The smaller of s[i] and x."),
            _atomic("max", "The larger of s[i] and x."),
            _atomic("and", "The bits that s[i] and x have in common."),
            _atomic("or", "The bits of s[i] and those of x."),
            _atomic("xor", "The bits that either s[i] or x has."),
            _atomic("exchange", "x in place of s[i]."),
            _atomic("inc", "s[i] + 1, and 0 from x on."),
            _atomic("dec", "s[i] - 1, and x behind 0."),
            _atomic("compare_swap", "x where s[i] is what is expected.", "expected, x"),
        )
    ),
}  # fmt: skip
