"""How the factors of a matrix product lie for tensor cores: as the threads of a warp take them.

A grid rounds each factor once, before the product, into words that lie side by side in the order
in which the product's threads load them: 16 bytes of each thread of a warp are one matrix of 16
rows, or of 16 columns. What is beyond the end of a factor is 0 there, so that the product needs no
bounds.
"""

from typing import NamedTuple

from quantdsl.passes.nests import Operand, Product

TILE = 16
"""Rows, or columns, of what one instruction or two take of a factor."""
ROWS, COLUMNS = 256, 128
"""Of the product, in a block."""
LINKS = {"bf16": 16, "f16": 16, "tf32": 8}
"""Type -> links of the chain that one instruction makes: 32 bytes of a row."""
TILE_BYTES = 512


class Pack(NamedTuple):
    """A factor as it is packed: strips of tiles, one tile for each of so many links."""

    operand: Operand
    size: int
    """Its rows or columns."""
    depth: int
    side: int
    """Of them in a strip: what a block takes."""
    links: int
    first: int
    """The word of scratch memory where it begins; an even one."""

    @property
    def tiles(self) -> int:
        """Of a strip, side by side."""
        return self.side // TILE

    @property
    def strips(self) -> int:
        """As many as cover it."""
        return -(-self.size // self.side)

    @property
    def steps(self) -> int:
        """As many tiles, one behind the other, as cover the chain."""
        return -(-self.depth // self.links)

    @property
    def step_bytes(self) -> int:
        """What a block takes of it at a time: these bytes lie side by side."""
        return TILE_BYTES * self.tiles

    @property
    def words(self) -> int:
        """Of scratch memory."""
        return self.strips * self.steps * self.step_bytes // 8


class Packs(NamedTuple):
    """Both factors of a product, and what their elements are rounded to."""

    product: Product
    rounded: str
    a: Pack
    b: Pack


def packed(product: Product, rounded: str, first: int) -> Packs:
    """Both factors, from this word of scratch memory on."""
    links, depth = LINKS[rounded], product.depth
    a = Pack(product.a, product.rows, depth, ROWS, links, first + first % 2)
    b = Pack(product.b, product.columns, depth, COLUMNS, links, a.first + a.words)
    return Packs(product, rounded, a, b)
