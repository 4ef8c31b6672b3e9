"""The form of a parallel loop in IR, from which its meaning follows on every target.

    let strands.1: array[T, 256]                      one for each variable that is reduced
    for strand.2 in 0 .. 256:                         the strands, in any order
        let own.3 = neutral
        for turn.4 in 0 .. turns of the strand: ...   its turns, in order
        strands.1[strand.2] = own.3
    for level.5 in 0 .. 8:                            the tree
        for half.6 in 0 .. 128 >> level.5:            the lower half takes the upper one
            strands.1[half.6] = strands.1[half.6] op strands.1[half.6 + (128 >> level.5)]

A local is known by the first part of its name; no other local has one of these.
"""

STRANDS = 256
"""More than one warp needs to keep a multiprocessor busy, and no more than a block may have."""
STRANDS_LOG2 = STRANDS.bit_length() - 1
STRAND, KEPT, LEVEL, HALF = "strand", "strands", "level", "half"
SORT = "sort"
"""The loop over the levels of a sorting network, in which one over steps has a parallel one."""


def called(name: str, part: str) -> bool:
    """Whether a local is one of those."""
    return name.partition(".")[0] == part

PIECE, ROOTS, BLANK = "piece", "roots", "blank"
"""The loop over the pieces of a reduction, the arrays of what they leave, and the loop that fills
those with neutral values."""
PIECE_LOG2 = 14
PIECE_TURNS = 1 << PIECE_LOG2
"""Turns of a piece: 64 a strand, so that a million of them make work for 61 blocks."""
