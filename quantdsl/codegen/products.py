"""A matrix product on a grid of blocks: LLVM IR over primitives.py, for a GPU or a simulated one.

A block computes a tile of the product. It goes along the chain a piece at a time: while its threads
multiply one piece out of shared memory, what they loaded of the next one waits in registers, and
is put into the other half. A thread has some rows and columns of the tile, in runs as long as a
load is wide, and one chain of fused multiply-adds for each: the order is that of the language, so
the bits are those of every target.

Nothing is loaded beyond an operand: at an edge a thread loads what lies before it once more, and
what comes of that is not stored.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.codegen.instructions import Instructions
from quantdsl.codegen.primitives import on_ptx
from quantdsl.passes.nests import Operand, Product

ENTRY = "quantdsl_product"
LOAD_BYTES = 16
"""The widest load of a thread."""
WARP_SIDE = 8
"""Threads of a warp along the columns: each quarter of it reads 128 bytes in a row."""
THREADS_SIDE = 16
"""Threads of a block along the rows, and along the columns."""
THREADS = THREADS_SIDE * THREADS_SIDE
NAN = "0x7FF8000000000000"


class Tiles(NamedTuple):
    """What a block does: a tile of `side` x `side` elements, `depth` links of the chain at a time.

    A thread has `own` x `own` of them.
    """

    own: int
    depth: int
    blocks: int
    """On a multiprocessor at a time, at least: what a thread may take of its registers."""

    @property
    def side(self) -> int:
        """Rows of a tile, and columns."""
        return self.own * THREADS_SIDE


SINGLE, DOUBLE = Tiles(8, 8, 2), Tiles(4, 8, 2)


class Launch(NamedTuple):
    """A kernel as text, and how it is started: with the addresses of a, b and c."""

    text: str
    grid: int
    threads: int
    shared_bytes: int


def product_launch(product: Product, *, gpu: bool, tiles: Tiles | None = None) -> Launch:
    """The product as a kernel."""
    tiles = tiles or (SINGLE if product.single else DOUBLE)
    made = _Maker(product, tiles, aligned=gpu)
    words = made.shared_elements * made.bytes // 8
    bounds = f' "nvvm.maxntid"="{THREADS}" "nvvm.minctasm"="{tiles.blocks}"' if gpu else ""
    text = "\n".join(
        [
            *made.lines(gpu=gpu),
            f'attributes #2 = {{ nounwind "no-builtins"{bounds} }}',
            on_ptx(words) if gpu else "",
        ]
    )
    return Launch(text, made.grid_rows * made.grid_columns, THREADS, 8 * words)


class _Side(NamedTuple):
    """How the block's threads load one operand's piece: `runs` of `width` elements each."""

    operand: Operand
    size: int
    """Rows or columns of the product that it has one for."""
    width: int
    along: bool
    """Whether a run goes along the chain."""
    runs: int
    letter: str


class _Maker(Instructions):
    """Writes the text of one product."""

    def __init__(self, product: Product, tiles: Tiles, *, aligned: bool) -> None:
        super().__init__()
        self.product, self.tiles, self.aligned = product, tiles, aligned
        self.type, self.bytes = ("float", 4) if product.single else ("double", 8)
        self.fma = "llvm.fma.f32" if product.single else "llvm.fma.f64"
        self.run = LOAD_BYTES // self.bytes
        self.grid_rows = -(-product.rows // tiles.side)
        self.grid_columns = -(-product.columns // tiles.side)
        self.pitch = tiles.side + self.run  # the next link's row begins in other banks
        self.half = 2 * tiles.depth * self.pitch
        self.shared_elements = 2 * self.half
        self.a = self._side(product.a, product.rows, "a")
        self.b = self._side(product.b, product.columns, "b")

    def _side(self, operand: Operand, size: int, letter: str) -> _Side:
        """Runs go along what lies in a row in memory; odd sizes are loaded one by one."""
        tiles, run, depth = self.tiles, self.run, self.product.depth
        along = operand.along == 1
        step, extent = (operand.side, depth) if along else (operand.along, size)
        straight = (along or operand.side == 1) and extent >= run
        whole = straight and not (step % run or extent % run or operand.first % run)
        width = run if whole else 1
        return _Side(operand, size, width, along, tiles.side * tiles.depth // width // THREADS,
                     letter)  # fmt: skip

    # ---- text ----

    def alignment(self, width: int) -> int:
        """Of so many elements in a row: arrays of this process begin anywhere."""
        return width * self.bytes if self.aligned else self.bytes

    def load(self, base: str, index: str, width: int) -> list[str]:
        """So many elements in a row, one by one in registers."""
        at = self.value(f"getelementptr {self.type}, ptr {base}, i64 {index}")
        if width == 1:
            return [self.value(f"load {self.type}, ptr {at}, align {self.bytes}")]
        vector = f"<{width} x {self.type}>"
        whole = self.value(f"load {vector}, ptr {at}, align {self.alignment(width)}")
        return [self.value(f"extractelement {vector} {whole}, i64 {k}") for k in range(width)]

    def store(self, base: str, index: str, values: list[str]) -> None:
        """Elements in a row."""
        at = self.value(f"getelementptr {self.type}, ptr {base}, i64 {index}")
        if len(values) == 1:
            self.do(f"store {self.type} {values[0]}, ptr {at}, align {self.bytes}")
            return
        vector, whole = f"<{len(values)} x {self.type}>", "poison"
        for k, value in enumerate(values):
            whole = self.value(f"insertelement {vector} {whole}, {self.type} {value}, i64 {k}")
        self.do(f"store {vector} {whole}, ptr {at}, align {self.alignment(len(values))}")

    # ---- the kernel ----

    def lines(self, *, gpu: bool) -> Iterator[str]:
        """Everything but primitives and attributes."""
        self._begin()
        self._main_loop()
        self._end()
        convention = "ptx_kernel " if gpu else ""
        yield f"declare {self.type} @{self.fma}({', '.join([self.type] * 3)})"
        params = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c"
        yield f"define {convention}void @{ENTRY}({params}) #2 {{"
        yield "entry:"
        own = self.tiles.own
        kept = [f"%c.{i}.{j}" for i in range(own) for j in range(own)]
        kept += [f"%{s.letter}.{k}" for s in (self.a, self.b) for k in range(s.runs * s.width)]
        yield from (f"  {name} = alloca {self.type}" for name in kept)
        yield from self.body
        yield "}"

    def _begin(self) -> None:
        """Where this thread is, what its chains begin with, and the first piece."""
        thread, block = self.thread(), self.of_grid()
        self.shared = self.value("call ptr @quantdsl.shared()")
        side = self.tiles.side
        down, across = (
            self.number(op, block, self.grid_columns) for op in ("udiv", "urem")
        )
        self.row0, self.column0 = (self.number("mul", x, side) for x in (down, across))
        lane, warp = self.number("and", thread, 31), self.number("lshr", thread, 5)
        right = THREADS_SIDE // WARP_SIDE
        x = self.sum(
            self.number("mul", self.number("urem", warp, right), WARP_SIDE),
            self.number("urem", lane, WARP_SIDE),
        )
        y = self.sum(
            self.number("mul", self.number("udiv", warp, right), 32 // WARP_SIDE),
            self.number("udiv", lane, WARP_SIDE),
        )
        self.x, self.y = (self.number("mul", place, self.run) for place in (x, y))
        self.spots = {s.letter: self._spots(s, thread) for s in (self.a, self.b)}
        self._chains_begin()
        self._fetch("0")
        self._stash("0")
        self.do("call void @quantdsl.barrier()")

    def _spots(self, side: _Side, thread: str) -> list[tuple[str, str, str]]:
        """Of each run of this thread: where it begins in memory, its link, its place in shared."""
        found = []
        runs_along, runs_side = self.tiles.depth, self.tiles.side
        fast = (runs_along if side.along else runs_side) // side.width
        for k in range(side.runs):
            which = self.number("add", thread, k * THREADS)
            quick = self.number("mul", self.number("urem", which, fast), side.width)
            slow = self.number("udiv", which, fast)
            link, place = (quick, slow) if side.along else (slow, quick)
            begin = self.row0 if side.letter == "a" else self.column0
            last = side.size - (1 if side.along else side.width)
            where = self.least(self.sum(begin, place), last)
            step = self.number("mul", where, side.operand.side)
            base = self.number("add", step, side.operand.first)
            spot = self.sum(self.number("mul", link, self.pitch), place)
            if side.letter == "b":
                spot = self.number("add", spot, self.tiles.depth * self.pitch)
            found.append((base, link, spot))
        return found

    def _fetch(self, piece: str) -> None:
        """A piece from memory into registers."""
        first = self.number("mul", piece, self.tiles.depth)
        for side in (self.a, self.b):
            for k, (base, link, _) in enumerate(self.spots[side.letter]):
                last = self.product.depth - (side.width if side.along else 1)
                at = self.least(self.sum(first, link), last)
                index = self.sum(base, self.number("mul", at, side.operand.along))
                for n, value in enumerate(self.load(f"%{side.letter}", index, side.width)):
                    self.do(f"store {self.type} {value}, ptr %{side.letter}.{k * side.width + n}")

    def _stash(self, half: str) -> None:
        """From registers into one half of shared memory, links one below the other."""
        ahead = self.number("mul", half, self.half)
        for side in (self.a, self.b):
            for k, (_, _, spot) in enumerate(self.spots[side.letter]):
                names = [f"%{side.letter}.{k * side.width + n}" for n in range(side.width)]
                values = [self.value(f"load {self.type}, ptr {name}") for name in names]
                at = self.sum(ahead, spot)
                if not side.along:
                    self.store(self.shared, at, values)
                    continue
                for n, value in enumerate(values):
                    self.store(self.shared, self.number("add", at, n * self.pitch), [value])

    def _multiply(self, half: str, links: int) -> None:
        """So many links of every chain."""
        own, run, apart = self.tiles.own, self.run, self.tiles.side // (self.tiles.own // self.run)
        ahead = self.number("mul", half, self.half)
        left, right = self.sum(ahead, self.y), self.sum(ahead, self.x)
        right = self.number("add", right, self.tiles.depth * self.pitch)
        for link in range(links):
            a, b = (
                [
                    value
                    for group in range(own // run)
                    for value in self.load(
                        self.shared,
                        self.number("add", begin, link * self.pitch + group * apart),
                        run,
                    )
                ]
                for begin in (left, right)
            )
            for i in range(own):
                for j in range(own):
                    old = self.value(f"load {self.type}, ptr %c.{i}.{j}")
                    args = ", ".join(f"{self.type} {x}" for x in (a[i], b[j], old))
                    new = self.value(f"call {self.type} @{self.fma}({args})")
                    self.do(f"store {self.type} {new}, ptr %c.{i}.{j}")

    def _main_loop(self) -> None:
        """The whole pieces, then what is left of the chain."""
        whole, left = divmod(self.product.depth, self.tiles.depth)
        if whole:
            self.do("br label %piece")
            self.label("piece")
            self.do("%at = phi i64 [ 0, %entry ], [ %next, %piece ]")
            self.do("%next = add i64 %at, 1")
            self._fetch(self.least("%next", whole if left else whole - 1))
            self._multiply(self.number("and", "%at", 1), self.tiles.depth)
            self._stash(self.number("and", "%next", 1))
            self.do("call void @quantdsl.barrier()")
            more = self.value(f"icmp slt i64 %next, {whole}")
            self.do(f"br i1 {more}, label %piece, label %left")
            self.label("left")
        if left:
            self._multiply(str(whole & 1), left)

    # ---- the product itself ----

    @property
    def wide(self) -> int:
        """How many elements of a row of the product are loaded and stored at once."""
        c, run = self.product.c, self.run
        odd = c.along != 1 or c.side % run or c.first % run or self.product.columns % run
        return 1 if odd else run

    def _runs(self) -> Iterator[tuple[int, int, str, str]]:
        """This thread's runs: row and column of the first element, in its own tile and in all."""
        own, run, apart = self.tiles.own, self.run, self.tiles.side // (self.tiles.own // self.run)
        for i in range(own):
            at = self.sum(self.row0, self.y)
            row = self.number("add", at, i // run * apart + i % run)
            for j in range(0, own, self.wide):
                at = self.sum(self.column0, self.x)
                yield i, j, row, self.number("add", at, j // run * apart + j % run)

    def _index(self, row: str, column: str) -> str:
        c = self.product.c
        down = self.number("mul", row, c.side)
        return self.number("add", self.sum(down, self.number("mul", column, c.along)), c.first)

    def _chains_begin(self) -> None:
        """Each chain begins with what stands in its place."""
        rows, columns = self.product.rows, self.product.columns
        for i, j, row, column in self._runs():
            inside = self._index(self.least(row, rows - 1), self.least(column, columns - self.wide))
            for k, value in enumerate(self.load("%c", inside, self.wide)):
                self.do(f"store {self.type} {value}, ptr %c.{i}.{j + k}")

    def _end(self) -> None:
        """Store what is inside of the product; NaN is one value."""
        product, side = self.product, self.tiles.side
        for i, j, row, column in list(self._runs()):
            values = []
            for k in range(self.wide):
                value = self.value(f"load {self.type}, ptr %c.{i}.{j + k}")
                nan = self.value(f"fcmp uno {self.type} {value}, 0.0")
                values.append(
                    self.value(f"select i1 {nan}, {self.type} {NAN}, {self.type} {value}")
                )
            if not product.rows % side and not product.columns % side:
                self.store("%c", self._index(row, column), values)
                continue
            above = self.value(f"icmp slt i64 {row}, {product.rows}")
            before = self.value(f"icmp slt i64 {column}, {product.columns}")
            inside = self.value(f"and i1 {above}, {before}")
            self.do(f"br i1 {inside}, label %in.{i}.{j}, label %out.{i}.{j}")
            self.label(f"in.{i}.{j}")
            self.store("%c", self._index(row, column), values)
            self.do(f"br label %out.{i}.{j}")
            self.label(f"out.{i}.{j}")
        self.do("ret void")
