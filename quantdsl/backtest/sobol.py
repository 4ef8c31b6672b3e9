"""Sobol's sequence: points that fill a box of many dimensions evenly, however many are taken.

The direction numbers are those of S. Joe and F. Y. Kuo (new-joe-kuo-6, 2008), which need no more
than this table for as many params as a strategy may have; a library of 35 MB is not asked for
it. A seed shifts all points by one random pattern of bits, which keeps their evenness.
"""

import numpy as np
import numpy.typing as npt

from quantdsl import limits

BITS = 32

DIRECTIONS = """
    3:1 7:1,3 11:1,3,1 13:1,1,1 19:1,1,3,3 25:1,3,5,13 37:1,1,5,5,17 41:1,1,5,5,5 47:1,1,7,11,19
    55:1,1,5,1,1 59:1,1,1,3,11 61:1,3,5,5,31 67:1,3,3,9,7,49 91:1,1,1,15,21,21 97:1,3,1,13,27,49
    103:1,1,1,15,7,5 109:1,3,1,15,13,25 115:1,1,5,5,19,61 131:1,3,7,11,23,15,103
    137:1,3,7,13,13,15,69 143:1,1,3,13,7,35,63 145:1,3,5,9,1,25,53 157:1,3,1,13,9,35,107
    167:1,3,1,5,27,61,31 171:1,1,5,11,19,41,61 185:1,3,5,3,3,13,69 191:1,1,7,13,1,19,1
    193:1,3,7,5,13,19,59 203:1,1,3,9,25,29,41 211:1,3,5,13,23,1,55 213:1,3,7,3,13,59,17
    229:1,3,1,3,5,53,69 239:1,1,5,5,23,33,13 241:1,1,7,7,1,61,123 247:1,1,7,9,13,61,49
    253:1,3,3,5,3,55,33 285:1,3,1,15,31,13,49,245 299:1,3,5,15,31,59,63,97
    301:1,3,1,11,11,11,77,249 333:1,3,1,11,27,43,71,9 351:1,1,7,15,21,11,81,45
    355:1,3,7,3,25,31,65,79 357:1,3,1,1,19,11,3,205 361:1,1,5,9,19,21,29,157
    369:1,3,7,11,1,33,89,185 391:1,3,3,3,15,9,79,71 397:1,3,7,11,15,39,119,27
    425:1,1,3,1,11,31,97,225 451:1,1,1,3,23,43,57,177 463:1,3,7,7,17,17,37,71
    487:1,3,1,5,27,63,123,213 501:1,1,3,5,11,43,53,133 529:1,3,5,5,29,17,47,173,479
    539:1,3,3,11,3,1,109,9,69 545:1,1,1,5,17,39,23,5,343 557:1,3,1,5,25,15,31,103,499
    563:1,1,1,11,11,17,63,105,183 601:1,1,5,11,9,29,97,231,363 607:1,1,5,15,19,45,41,7,383
    617:1,3,7,7,31,19,83,137,221 623:1,1,1,3,23,15,111,223,83 631:1,1,5,13,31,15,55,25,161
    637:1,1,3,13,25,47,39,87,257
""".split()
"""Of each dimension after the first: its polynomial's bits, then its first numbers."""

assert len(DIRECTIONS) == limits.PARAMS - 1


class Sobol:
    """The sequence in `dimensions`, drawn piece by piece."""

    def __init__(self, dimensions: int, seed: int) -> None:
        self._columns = np.array([_direction(row) for row in range(dimensions)], np.uint32)
        rng = np.random.default_rng(seed)
        self._shift = rng.integers(0, 2**BITS, dimensions, np.uint32)
        self._drawn = 0

    def draw(self, count: int) -> npt.NDArray[np.float64]:
        """The next points: [dimension, point], each from 0 up to 1."""
        numbers = np.arange(self._drawn, self._drawn + count, dtype=np.uint32)
        self._drawn += count
        gray = numbers ^ (numbers >> 1)
        found = np.repeat(self._shift[:, None], count, axis=1)
        for bit in range(BITS):
            found ^= self._columns[:, bit, None] * ((gray >> bit) & 1)
        return found / 2.0**BITS


def _direction(row: int) -> list[int]:
    """What each bit of a point's number adds to this coordinate."""
    if row == 0:
        return [1 << (BITS - 1 - bit) for bit in range(BITS)]
    polynomial, _, first = DIRECTIONS[row - 1].partition(":")
    bits = int(polynomial)
    degree = bits.bit_length() - 1
    numbers = [int(number) for number in first.split(",")]
    for k in range(degree, BITS):
        number = numbers[k - degree] ^ (numbers[k - degree] << degree)
        for j in range(1, degree):
            if (bits >> (degree - j)) & 1:
                number ^= numbers[k - j] << j
        numbers.append(number)
    return [number << (BITS - 1 - bit) for bit, number in enumerate(numbers)]
