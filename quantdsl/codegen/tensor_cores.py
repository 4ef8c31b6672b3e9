"""A matrix product on the tensor cores of a GPU, where `@fast` lets its factors be rounded.

A grid packs each factor (passes/packs.py). Then a block computes 256 x 128 elements. It goes along
the chain a step at a time: its threads multiply one out of shared memory while those behind it are
on their way there. What a step takes lies in a row in memory as it is to lie in shared memory,
where each thread of a warp loads 16 bytes of each tile; so nothing is moved between threads. A warp
has 64 x 64 elements, in registers of single precision.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.codegen.instructions import Instructions
from quantdsl.codegen.primitives import on_ptx
from quantdsl.codegen.products import NAN, Launch
from quantdsl.codegen.ptx import WITHOUT_COPIES
from quantdsl.codegen.target import Target
from quantdsl.passes.packs import COLUMNS, ROWS, TILE, TILE_BYTES, Pack, Packs

PACK_ENTRY, ENTRY = "quantdsl_pack", "quantdsl_tensor_cores"
THREADS = 256
WARP_SIDE = 64
WARP_TILES = WARP_SIDE // TILE
WARPS_DOWN = ROWS // WARP_SIDE
RUN_BYTES = 16
"""Of a thread: what it copies at a time, and takes of a tile."""
AHEAD = 4
"""Steps in shared memory: one is multiplied, the others are on their way."""
PAIR = TILE // 2


class _Type(NamedTuple):
    """What an element is rounded to, and the instruction that multiplies tiles of it."""

    each: int
    """Elements of a word of 32 bits."""
    word: str
    multiply: str


TYPES = {
    "bf16": _Type(2, "i32", "llvm.nvvm.mma.m16n8k16.row.col.bf16"),
    "f16": _Type(2, "<2 x half>", "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"),
    "tf32": _Type(1, "i32", "llvm.nvvm.mma.m16n8k8.row.col.tf32"),
}
HALVES = {"bf16": "bfloat", "f16": "half"}
COPY = "llvm.nvvm.cp.async.cg.shared.global.16"
FOUR = "{ float, float, float, float }"


def has_tensor_cores(target: Target) -> bool:
    """Whether they are there with instructions of bfloat16 and tf32, and copies that threads do
    not wait for: on NVIDIA's GPUs from Ampere on."""
    return target.triple.startswith("nvptx") and target.cpu != WITHOUT_COPIES


def pack_launch(pack: Pack, rounded: str, *, across: bool) -> Launch:
    """The grid that packs a factor, started with the addresses of it and of scratch memory.

    `across` says that it is the one of the columns.
    """
    made = _Packer(pack, rounded, across=across)
    made.write()
    text = "\n".join([
        "declare i32 @llvm.nvvm.f2tf32.rna(float)",
        f"define ptx_kernel void @{PACK_ENTRY}(ptr noalias readonly %from, ptr noalias %to) #2 {{",
        *made.body,
        "}",
        f'attributes #2 = {{ nounwind "no-builtins" "nvvm.maxntid"="{THREADS}" }}',
        on_ptx(0),
    ])  # fmt: skip
    return Launch(text, -(-8 * pack.words // RUN_BYTES // THREADS), THREADS, 0)


class _Packer(Instructions):
    """A thread rounds what a thread of the product takes of a tile: four words."""

    def __init__(self, pack: Pack, rounded: str, *, across: bool) -> None:
        super().__init__()
        self.pack, self.rounded, self.across = pack, rounded, across
        self.each = TYPES[rounded].each

    def write(self) -> None:
        """The whole body."""
        pack = self.pack
        number = self.sum(self.number("mul", self.of_grid(), THREADS), self.thread())
        last = 8 * pack.words // RUN_BYTES
        inside = self.value(f"icmp slt i64 {number}, {last}")
        self.do(f"br i1 {inside}, label %in, label %out")
        self.label("in")
        lane, tile = self.number("and", number, 31), self.number("lshr", number, 5)
        place, behind = (self.number(op, tile, pack.tiles) for op in ("urem", "udiv"))
        step, strip = (self.number(op, behind, pack.steps) for op in ("urem", "udiv"))
        row = self.sum(
            self.number("mul", strip, pack.side),
            self.number("mul", place, TILE),
            self.number("lshr", lane, 2),
        )
        link = self.sum(
            self.number("mul", step, pack.links),
            self.number("mul", self.number("and", lane, 3), self.each),
        )
        down, along = PAIR, pack.links // 2
        parts = [(0, 0), (0, along), (down, 0), (down, along)]
        if not self.across:  # rows come before links
            parts[1], parts[2] = parts[2], parts[1]
        words = "poison"
        for k, (more, later) in enumerate(parts):
            word = self._word(self.number("add", row, more), self.number("add", link, later))
            words = self.value(f"insertelement <4 x i32> {words}, i32 {word}, i64 {k}")
        bytes_ = self.sum(self.number("mul", number, RUN_BYTES), str(8 * pack.first))
        at = self.value(f"getelementptr i8, ptr %to, i64 {bytes_}")
        self.do(f"store <4 x i32> {words}, ptr {at}, align {RUN_BYTES}")
        self.do("br label %out")
        self.label("out")
        self.do("ret void")

    def _word(self, row: str, link: str) -> str:
        """So many links of a row, rounded."""
        values = [self._element(row, self.number("add", link, k)) for k in range(self.each)]
        if self.rounded not in HALVES:
            return self.value(f"call i32 @llvm.nvvm.f2tf32.rna(float {values[0]})")
        half, pair = HALVES[self.rounded], "poison"
        for k, value in enumerate(values):
            near = self.value(f"fptrunc float {value} to {half}")
            pair = self.value(f"insertelement <2 x {half}> {pair}, {half} {near}, i64 {k}")
        return self.value(f"bitcast <2 x {half}> {pair} to i32")

    def _element(self, row: str, link: str) -> str:
        """An element, or 0 beyond the end: what lies before it is loaded once more."""
        pack = self.pack
        there = self.value(
            f"and i1 {self.value(f'icmp slt i64 {row}, {pack.size}')}, "
            f"{self.value(f'icmp slt i64 {link}, {pack.depth}')}"
        )
        side = self.number("mul", self.least(row, pack.size - 1), pack.operand.side)
        along = self.number("mul", self.least(link, pack.depth - 1), pack.operand.along)
        index = self.number("add", self.sum(side, along), pack.operand.first)
        at = self.value(f"getelementptr float, ptr %from, i64 {index}")
        found = self.value(f"load float, ptr {at}, align 4")
        return self.value(f"select i1 {there}, float {found}, float 0.0")


def multiply_launch(packs: Packs) -> Launch:
    """The product of packed factors, started with the addresses of scratch memory and of c."""
    made = _Multiplier(packs)
    shared = AHEAD * made.step_bytes
    bounds = f'"nvvm.maxntid"="{THREADS}" "nvvm.minctasm"="1"'
    text = "\n".join([
        *made.lines(),
        f'attributes #2 = {{ nounwind "no-builtins" {bounds} }}',
        on_ptx(shared // 8),
    ])  # fmt: skip
    return Launch(text, packs.a.strips * packs.b.strips, THREADS, shared)


class _Multiplier(Instructions):
    """Writes the product of packed factors."""

    def __init__(self, packs: Packs) -> None:
        super().__init__()
        self.packs, self.type = packs, TYPES[packs.rounded]
        self.step_bytes = packs.a.step_bytes + packs.b.step_bytes
        self.steps = packs.a.steps
        self.down, self.across = WARP_TILES, WARP_SIDE // PAIR
        """Results of instructions that a warp has below, and beside, each other."""

    def lines(self) -> Iterator[str]:
        """Everything but primitives and attributes."""
        self._begin()
        self._main_loop()
        self._end()
        word = self.type.word
        args = ", ".join([*[word] * 6, *["float"] * 4])
        yield f"declare {FOUR} @{self.type.multiply}({args})"
        yield f"declare void @{COPY}(ptr addrspace(3), ptr addrspace(1))"
        yield "declare void @llvm.nvvm.cp.async.commit.group()"
        yield "declare void @llvm.nvvm.cp.async.wait.group(i32)"
        params = "ptr noalias readonly %scratch, ptr noalias %c"
        yield f"define ptx_kernel void @{ENTRY}({params}) #2 {{"
        yield "entry:"
        yield from (f"  {self._chain(*place)} = alloca float" for place in self._chains())
        yield from (f"  {name} = alloca i32" for name in self._taken())
        yield from self.body
        yield "}"

    def _chains(self) -> Iterator[tuple[int, int, int]]:
        """The elements that a thread has: of each instruction's result four."""
        for i in range(self.down):
            for j in range(self.across):
                yield from ((i, j, k) for k in range(4))

    def _chain(self, i: int, j: int, k: int) -> str:
        return f"%c.{i}.{j}.{k}"

    def _begin(self) -> None:
        """Where this thread is, what its chains begin with, and the first steps on their way."""
        thread, block = self.thread(), self.of_grid()
        lane, warp = self.number("and", thread, 31), self.number("lshr", thread, 5)
        self.shared = self.value("call ptr @quantdsl.shared()")
        a, b = self.packs.a, self.packs.b
        down, across = (self.number(op, block, b.strips) for op in ("udiv", "urem"))
        below, beside = (self.number(op, warp, WARPS_DOWN) for op in ("urem", "udiv"))
        self.run = self.number("mul", thread, RUN_BYTES)
        self.from_a, self.from_b = (
            self.sum(
                self.number("mul", strip, pack.steps * pack.step_bytes),
                str(8 * pack.first),
                self.run,
            )
            for strip, pack in ((down, a), (across, b))
        )
        own = self.number("mul", lane, RUN_BYTES)
        warp_bytes = WARP_TILES * TILE_BYTES
        self.left = self.sum(self.number("mul", below, warp_bytes), own)
        right = self.sum(self.number("mul", beside, warp_bytes), own)
        self.right = self.number("add", right, a.step_bytes)
        self.row = self.sum(
            self.number("mul", down, ROWS),
            self.number("mul", below, WARP_SIDE),
            self.number("lshr", lane, 2),
        )
        self.column = self.sum(
            self.number("mul", across, COLUMNS),
            self.number("mul", beside, WARP_SIDE),
            self.number("shl", self.number("and", lane, 3), 1),
        )
        for step in range(AHEAD - 1):
            if step < self.steps:
                self._copy(str(step), str(step))
            self.do("call void @llvm.nvvm.cp.async.commit.group()")
        self._chains_begin()

    def _copy(self, step: str, slot: str) -> None:
        """This thread's part of a step, on its way to shared memory."""
        at = self.sum(self.number("mul", slot, self.step_bytes), self.run)
        for pack, begin in ((self.packs.a, self.from_a), (self.packs.b, self.from_b)):
            source = self.sum(begin, self.number("mul", step, pack.step_bytes))
            for ahead in range(0, pack.step_bytes, THREADS * RUN_BYTES):
                to = self.value(
                    f"getelementptr i8, ptr {self.shared}, i64 {self.number('add', at, ahead)}"
                )
                from_ = self.value(
                    f"getelementptr i8, ptr %scratch, i64 {self.number('add', source, ahead)}"
                )
                near = self.value(f"addrspacecast ptr {to} to ptr addrspace(3)")
                far = self.value(f"addrspacecast ptr {from_} to ptr addrspace(1)")
                self.do(
                    f"call void @{COPY}(ptr addrspace(3) {near}, ptr addrspace(1) {far})"
                )
            at = self.number("add", at, pack.step_bytes)

    def _main_loop(self) -> None:
        """All steps: while one is multiplied, threads take their parts of the next one, and the
        last to come is copied over the one before, with which all have done."""
        self._arrived()
        self._take("0")
        self.do("br label %step")
        self.label("step")
        self.do("%at = phi i64 [ 0, %entry ], [ %next, %on ]")
        later = self.number("add", "%at", AHEAD - 1)
        more = self.value(f"icmp slt i64 {later}, {self.steps}")
        self.do(f"br i1 {more}, label %copy, label %on")
        self.label("copy")
        self._copy(later, self.number("urem", later, AHEAD))
        self.do("br label %on")
        self.label("on")
        self.do("call void @llvm.nvvm.cp.async.commit.group()")
        self._arrived()
        taken = {name: self.value(f"load i32, ptr {name}") for name in self._taken()}
        self.do("%next = add i64 %at, 1")
        self._take(self.number("urem", "%next", AHEAD))
        self._multiply(taken)
        again = self.value(f"icmp slt i64 %next, {self.steps}")
        self.do(f"br i1 {again}, label %step, label %left")
        self.label("left")

    def _arrived(self) -> None:
        """What all threads copied for the next step is there, and they have done with the last."""
        self.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {AHEAD - 2})")
        self.do("call void @quantdsl.barrier()")

    def _taken(self) -> Iterator[str]:
        """Where the words are kept that a thread takes of a step: four of each tile."""
        for letter in "ab":
            for tile in range(WARP_TILES):
                yield from (f"%{letter}.{tile}.{k}" for k in range(4))

    def _take(self, slot: str) -> None:
        """A thread's words of a step, from shared memory."""
        ahead, names = self.number("mul", slot, self.step_bytes), self._taken()
        for begin in (self.left, self.right):
            at = self.sum(ahead, begin)
            for tile in range(WARP_TILES):
                place = self.number("add", at, tile * TILE_BYTES)
                address = self.value(f"getelementptr i8, ptr {self.shared}, i64 {place}")
                words = self.value(f"load <4 x i32>, ptr {address}, align {RUN_BYTES}")
                for k in range(4):
                    word = self.value(f"extractelement <4 x i32> {words}, i64 {k}")
                    self.do(f"store i32 {word}, ptr {next(names)}")

    def _multiply(self, taken: dict[str, str]) -> None:
        """A step of every chain."""
        word = self.type.word
        given = {
            name: one if word == "i32" else self.value(f"bitcast i32 {one} to {word}")
            for name, one in taken.items()
        }
        for i in range(self.down):
            for j in range(self.across):
                a = [given[f"%a.{i}.{k}"] for k in range(4)]
                b = [given[f"%b.{j // 2}.{2 * (j % 2) + k}"] for k in range(2)]
                old = [self.value(f"load float, ptr {self._chain(i, j, k)}") for k in range(4)]
                args = [f"{word} {x}" for x in (*a, *b)] + [f"float {x}" for x in old]
                new = self.value(f"call {FOUR} @{self.type.multiply}({', '.join(args)})")
                for k in range(4):
                    one = self.value(f"extractvalue {FOUR} {new}, {k}")
                    self.do(f"store float {one}, ptr {self._chain(i, j, k)}")

    # ---- the product itself ----

    @property
    def wide(self) -> int:
        """How many elements of a row of the product are loaded and stored at once."""
        c = self.packs.product.c
        odd = c.along != 1 or c.side % 2 or c.first % 2 or self.packs.product.columns % 2
        return 1 if odd else 2

    def _runs(self) -> Iterator[tuple[str, str, list[str]]]:
        """This thread's elements: row, column, and where they are kept."""
        for i in range(self.down):
            for j in range(self.across):
                for k in range(0, 4, self.wide):
                    row = self.number("add", self.row, i * TILE + k // 2 * PAIR)
                    column = self.number("add", self.column, j * PAIR + k % 2)
                    yield row, column, [self._chain(i, j, k + n) for n in range(self.wide)]

    def _place(self, row: str, column: str) -> str:
        c = self.packs.product.c
        along = self.number("mul", column, c.along)
        index = self.number("add", self.sum(self.number("mul", row, c.side), along), c.first)
        return self.value(f"getelementptr float, ptr %c, i64 {index}")

    def _chains_begin(self) -> None:
        """Each chain begins with what stands in its place."""
        product, vector = self.packs.product, f"<{self.wide} x float>"
        for row, column, kept in self._runs():
            inside = self.least(row, product.rows - 1)
            at = self._place(inside, self.least(column, product.columns - self.wide))
            whole = self.value(f"load {vector}, ptr {at}, align {4 * self.wide}")
            for n, name in enumerate(kept):
                one = self.value(f"extractelement {vector} {whole}, i64 {n}")
                self.do(f"store float {one}, ptr {name}")

    def _end(self) -> None:
        """Store what is inside of the product; NaN is one value."""
        product, vector = self.packs.product, f"<{self.wide} x float>"
        bounded = product.rows % ROWS or product.columns % COLUMNS
        for number, (row, column, kept) in enumerate(self._runs()):
            whole = "poison"
            for n, name in enumerate(kept):
                value = self.value(f"load float, ptr {name}")
                nan = self.value(f"fcmp uno float {value}, 0.0")
                one = self.value(f"select i1 {nan}, float {NAN}, float {value}")
                whole = self.value(f"insertelement {vector} {whole}, float {one}, i64 {n}")
            if bounded:
                above = self.value(f"icmp slt i64 {row}, {product.rows}")
                before = self.value(f"icmp slt i64 {column}, {product.columns}")
                inside = self.value(f"and i1 {above}, {before}")
                self.do(f"br i1 {inside}, label %in.{number}, label %out.{number}")
                self.label(f"in.{number}")
            store = f"store {vector} {whole}, ptr {self._place(row, column)}"
            self.do(f"{store}, align {4 * self.wide}")
            if bounded:
                self.do(f"br label %out.{number}")
                self.label(f"out.{number}")
        self.do("ret void")
