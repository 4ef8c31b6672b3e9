"""Kernels of tensors: the same bits on every target, and arguments that do not fit."""

import numpy as np
import pytest

import quantdsl
from quantdsl.check import check_source
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.grids import launches_of, ptx_of
from quantdsl.errors import ConfigError, UnavailableError
from quantdsl.ir.interp import Interpreter
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.source import Source
from quantdsl.passes import scans, sorts
from quantdsl.passes.grids import on_core
from tests.backtest.tensor_programs import (
    COUNTED,
    FAST,
    LINE,
    PRODUCT,
    RANKS,
    RUNNING,
    SUMS,
    TENSOR_PROGRAMS,
    drawn,
)


def kernel_of(text, tmp_path, name=None):
    path = tmp_path / "kernels.qdsl"
    path.write_text(text)
    return quantdsl.kernel(path, name)


def words_of(array):
    """An array as the interpreter's memory has it: a word an element."""
    if array.dtype.kind == "f":
        return array.astype(np.float64).ravel().view(np.int64).copy()
    return array.astype(np.int64).ravel().copy()


def interpreted(kernel, arguments, sizes):
    """What the oracle leaves in the arrays, and returns."""
    work = kernel.work(sizes)
    memory = {n: words_of(a) for n, a in arguments.items() if isinstance(a, np.ndarray)}
    args = [memory.get(p.name, arguments[p.name]) for p in kernel.facts.params]
    result = Interpreter(work.module).call(work.kernel, *args)
    for name, words in memory.items():
        array = arguments[name]
        values = words.view(np.float64) if array.dtype.kind == "f" else words
        array[...] = values.astype(array.dtype).reshape(array.shape)
    return result


@pytest.mark.parametrize("name", TENSOR_PROGRAMS)
def test_every_target_has_the_same_bits(name, tmp_path):
    text, sizes = TENSOR_PROGRAMS[name]
    kernel = kernel_of(text, tmp_path)
    wanted = drawn(kernel.facts, sizes)
    result = interpreted(kernel, wanted, sizes)
    for device in ("cpu", "simulated"):
        found = drawn(kernel.facts, sizes)
        left = kernel(**found, device=device)
        for param in kernel.facts.tensors:
            one, other = wanted[param.name], found[param.name]
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, f"{device} {param.name}")
            if one.dtype.kind == "f":
                kept = np.isnan(one) | (np.signbit(one) == np.signbit(other))
                assert kept.all()
        assert left == result or (result != result and left != left)
    moved = [p.name for p in kernel.facts.tensors if p.inout]
    fresh = drawn(kernel.facts, sizes)
    assert all((words_of(wanted[n]) != words_of(fresh[n])).any() for n in moved)


def test_pieces_of_a_reduction_are_reduced_as_the_docs_say(tmp_path):
    """Written from docs/kernels.md; with more than one piece the order is another."""
    text = SUM.format(type="float")
    values = np.random.default_rng(5).normal(size=40_000)
    kernel = kernel_of(text, tmp_path)
    pieces = [tree(values[at : at + 16_384]) for at in range(0, len(values), 16_384)]
    assert kernel(values) == 0.5 + tree(np.array(pieces))
    assert kernel(values) != 0.5 + tree(values)
    assert kernel(values[:16_384]) == 0.5 + tree(values[:16_384])


SUM = """language 1

@kernel(reduce)
kernel total(x: tensor[{type}, n]) -> {type}:
    var s: {type} = 0.5
    parallel for i in 0..<n reduce(s: +):
        s += x[i]
    return s
"""


def tree(values):
    strands = np.full(256, -0.0)
    for at in range(0, len(values), 256):
        part = values[at : at + 256]
        strands[: len(part)] += part
    while len(strands) > 1:
        half = len(strands) // 2
        strands = strands[:half] + strands[half:]
    return strands[0]


def test_arrays_may_begin_anywhere_and_come_by_dlpack(tmp_path):
    class Lent:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    kernel = kernel_of(PRODUCT.format(type="f32"), tmp_path)
    a, b, c = (np.ones(n, np.float32) for n in (13, 13, 10))
    shaped = a[1:].reshape(3, 4), Lent(b[1:].reshape(4, 3)), c[1:].reshape(3, 3)
    for device in ("cpu", "simulated"):
        kernel(*shaped, device=device)
    assert c.tolist() == [1.0] + [9.0] * 9


class Kept:
    """Memory that is not lent, as that of torch or pyarrow at times."""

    def __dlpack__(self, **_):
        raise BufferError("it needs a gradient")

    def __dlpack_device__(self):
        return (1, 0)


LINE_F32 = LINE.format(type="f32")
ONES, WIDE = np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)
OUT = np.zeros((3, 3), np.float32)
LOCKED = np.zeros((3, 3), np.float32)
LOCKED.setflags(write=False)
SQUARE = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("args", "named", "told"),
    [
        ((ONES, WIDE), {}, "call it as product(a, b, c)"),
        ((ONES, WIDE, OUT), {"d": OUT}, "call it as product(a, b, c)"),
        ((ONES, WIDE), {"a": OUT}, "call it as product(a, b, c)"),
        ((ONES, WIDE[0], WIDE), {}, "b is float32[3], tensor[f32, k, m] takes float32 values in 2"),
        ((ONES, WIDE, 3.0), {}, "c is no array, tensor[f32, n, m] takes float32 values"),
        ((ONES.astype(float), WIDE, OUT), {}, "a is float64[3, 4], tensor[f32, n, k] takes"),
        ((ONES[0], WIDE, OUT), {}, "a is float32[4]"),
        ((ONES, ONES, OUT), {}, "b has the shape [3, 4], tensor[f32, k, m] with n = 3"),
        ((ONES[:0], WIDE, OUT[:0]), {}, "a has the shape [0, 4]"),
        ((ONES, ONES.T, OUT), {}, "b does not lie row after row: pass a copy of it"),
        ((ONES, WIDE, LOCKED), {}, "c is written to, and the array is read-only"),
        ((np.ma.array(ONES), WIDE, OUT), {}, "a has a mask, and a kernel would read what lies"),
        ((ONES, WIDE, np.ma.array(OUT)), {}, "c has a mask"),
        ((Kept(), WIDE, OUT), {}, "a does not lend its memory: it needs a gradient"),
        ((SQUARE, SQUARE, SQUARE), {}, "c and a share memory: pass a copy"),
        ((ONES, WIDE, OUT), {"device": "tpu"}, "runs on auto, cpu, simulated or cuda:N"),
        ((ONES, WIDE, OUT), {"device": 3}, "device 3: a kernel of tensors runs on auto, cpu,"),
        ((ONES, WIDE, OUT), {"device": None}, "device None: a kernel of tensors runs on"),
    ],
)
def test_what_does_not_fit_is_told(args, named, told, tmp_path):
    kernel = kernel_of(PRODUCT.format(type="f32"), tmp_path)
    with pytest.raises(ConfigError) as error:
        kernel(*args, **named)
    assert told in str(error.value)


def test_a_shape_of_numbers_alone_is_told(tmp_path):
    kernel = kernel_of("kernel k(x: tensor[float, 5]) -> float:\n    return x[4]\n", tmp_path)
    with pytest.raises(ConfigError, match=r"shape \[4\], tensor\[float, 5\] is \[5\]"):
        kernel(np.ones(4))


def test_a_list_of_durations_holds_seconds(tmp_path):
    kernel = kernel_of(
        "const waits = [90s, 1.5]\nkernel k(x: tensor[float, n]) -> float:\n"
        "    return waits[0] + waits[1]\n", tmp_path,
    )  # fmt: skip
    assert kernel(np.ones(4)) == 91.5


@pytest.mark.parametrize(
    ("slope", "told"), [("steep", "slope is 'steep', and no f32"), (True, "slope is True")]
)
def test_numbers_are_held_to_their_type(slope, told, tmp_path):
    kernel = kernel_of(LINE.format(type="f32"), tmp_path)
    with pytest.raises(ConfigError, match=told):
        kernel(np.ones(3, np.float32), slope, np.ones(3, np.float32))


def test_arrays_of_a_gpu_are_told_from_those_of_the_host(tmp_path):
    class There:
        def __init__(self, array):
            place = (array.ctypes.data, False)
            self.__cuda_array_interface__ = {
                "shape": array.shape, "typestr": array.dtype.str, "data": place, "version": 3
            }  # fmt: skip

    kernel = kernel_of(LINE.format(type="float"), tmp_path)
    x, y = np.ones(4), np.ones(4)
    with pytest.raises(ConfigError, match="some of its arrays are on a GPU and some are not"):
        kernel(There(x), 1.0, y)
    with pytest.raises(ConfigError, match="its arrays are on a GPU, and the device is cpu"):
        kernel(There(x), 1.0, There(y), device="cpu")
    with pytest.raises(ConfigError, match="from a multiple of 16 bytes on"):
        kernel(There(x[1:]), 1.0, There(y[1:]))


def test_which_kernel_is_meant(tmp_path):
    path = tmp_path / "two.qdsl"
    path.write_text(SUM.format(type="float") + LINE.format(type="f32").removeprefix("language 1\n"))
    assert quantdsl.kernel(path, "line").facts.name == "line"
    with pytest.raises(ConfigError, match="which kernel: it has total, line"):
        quantdsl.kernel(path)
    with pytest.raises(ConfigError, match="no kernel of tensors 'sum': it has total, line"):
        quantdsl.kernel(path, "sum")


def test_what_is_no_parallel_loop_runs_on_a_core_alone(tmp_path):
    kernel = kernel_of(IN_ORDER, tmp_path)
    x, y = np.arange(1.0, 6.0), np.zeros(5)
    kernel(x, y)
    assert y.tolist() == [1.0, 2.5, 4.25, 6.125, 8.0625]
    with pytest.raises(UnavailableError, match="kernel decay, line 5: on a device"):
        kernel(x, y, device="simulated")


IN_ORDER = """language 1

kernel decay(x: tensor[float, n], inout y: tensor[float, n]):
    var s = 0.0
    for i in 0..<n:
        s = s / 2.0 + x[i]
        y[i] = s
"""

OWN = """language 1

kernel own(x: tensor[float, n]) -> float:
    var kept: array[float, n] = 0
    parallel for i in 0..<n:
        kept[i] = x[i]
    return kept[0]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s += x[i]", "s += x[i] + y[i]"),
        ("s += x[i]", "s = 2 * s + x[i]"),
        ("s += x[i]", "s = s - x[i]"),
        ("        s += x[i]", "        if x[i] > 0:\n            s += x[i]"),
    ],
)
def test_a_scan_that_is_a_little_else_runs_on_a_core_alone(old, new, tmp_path):
    text = RUNNING.replace(old, new).replace("@kernel(scan)\n", "")
    kernel = kernel_of(text, tmp_path)
    x, y = np.arange(9), np.zeros(9, np.int64)
    kernel(x, y, 1)
    assert y.any()
    with pytest.raises(UnavailableError, match="on a device"):
        kernel(x, y, 1, device="simulated")


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_running_sum_is_that_of_numpy(device, tmp_path):
    """Which wraps around as the language does: it is exact modulo 2^64."""
    kernel = kernel_of(RUNNING, tmp_path)
    x = np.random.default_rng(8).integers(-(2**62), 2**62, 4_097)
    y = np.zeros_like(x)
    assert kernel(x, y, 7, device=device) == 7 + x.sum()
    assert (y == 7 + np.cumsum(x) - x).all()


@pytest.mark.parametrize("size", [1, 5, 2_047, 4_099])
def test_a_running_sum_of_floats_may_be_in_any_order(size, tmp_path):
    """Said of it, threads share its turns; each sum of theirs is as near as its roundings."""
    kernel = kernel_of(SUMS, tmp_path)
    assert repr(kernel).endswith("summed up in any order on a device>")
    x = np.random.default_rng(8).standard_normal(size)
    exact, found = np.zeros_like(x), np.zeros_like(x)
    assert kernel(x, exact, 0.25) == exact[-1]
    assert kernel(x, found, 0.25, device="simulated") == found[-1]
    assert np.abs(found - exact).max() <= 1e-13 * size
    assert size < 100 or found.tobytes() != exact.tobytes()
    work = kernel.work({"n": size})
    texts = ptx_of(launches_of(work, target_of("sm_90"), gpu=True), work, "sm_90")
    assert [assembled(text, "sm_90")[:4] for text in texts] == [b"\x7fELF"] * 4
    with pytest.raises(UnavailableError, match="on a device"):
        kernel_of(SUMS.replace("@fast(order)\n", ""), tmp_path)(x, found, 0.25, device="simulated")


NO_TURNS = """language 1

kernel none(
    a: tensor[float, n, k], b: tensor[float, k, m], inout c: tensor[float, n, m],
    x: tensor[float, r],
) -> float:
    "Loops that say how many turns they have by a size that is too small for one."
    var sum = 2.0
    parallel for i in 0..<n:
        for j in 0..<m:
            for l in 0..<(k - 5):
                c[i, j] = fma(a[i, l], b[l, j], c[i, j])
    parallel for i in 0..<(n - 300):
        c[i, 0] = 1
    parallel for i in 0..<(r - 40_000) reduce(sum: +):
        sum += x[i]
    return sum
"""


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_loop_of_fewer_than_no_turns_has_none(size, tmp_path):
    """On a device the product read and wrote anywhere, and a sum began no block, or fewer."""
    kernel = kernel_of(NO_TURNS, tmp_path)
    a, b, c = (np.random.default_rng(1).random(shape) for shape in ((7, 3), (3, 6), (7, 6)))
    for device in ("cpu", "simulated"):
        found = c.copy()
        assert kernel(a, b, found, np.ones(size), device=device) == 2.0
        np.testing.assert_array_equal(found, c)
    work = kernel.work({"n": 7, "k": 3, "m": 6, "r": size})
    starts = launches_of(work, target_of("sm_90"), gpu=True).starts
    assert all(start.grid > 0 for start in starts)


def test_memory_of_its_own_has_a_limit(tmp_path):
    kernel = kernel_of(OWN, tmp_path)
    assert kernel(np.full(9, 3.5)) == 3.5
    with pytest.raises(ConfigError, match="its own 'kept' is larger than 262,144 bytes"):
        kernel(np.ones(40_000))


KEPT = """language 1

@workgroup(256)
@grid(ceil(n / 256))
kernel kept(inout y: tensor[float, n], m: const int):
    "The sum of m numbers that each thread keeps, other ones in each."
    var own: array[float, m] = 0
    let i = block.x * block_size.x + thread.x
    for k in 0..<m:
        own[k] = float(k + thread.x)
    barrier()
    var sum = 0.0
    for k in 0..<m:
        sum += own[k]
    if i < n:
        y[i] = sum
"""


def test_what_threads_keep_fits_the_stack_of_a_core(tmp_path):
    """Of 256 threads with 30,000 numbers each it ended the process."""
    kernel = kernel_of(KEPT, tmp_path)
    y = np.zeros(3)
    kernel(y, 1_000)
    assert y.tolist() == [499_500, 500_500, 501_500]
    with pytest.raises(ConfigError, match="threads keep 61,442,048 bytes, and a core has"):
        kernel(y, 30_000)
    kernel(y, 2_000, device="simulated")
    assert y.tolist() == [1_999_000, 2_001_000, 2_003_000]


SHARED = """language 1

@workgroup(64)
@grid(ceil(n / 64))
kernel shared_sum(inout y: tensor[float, n], m: const int):
    "The first and the last of m numbers of the block."
    var s: shared[float, m] = 0
    var t: shared[int, 64]  = 0
    let i = block.x * block_size.x + thread.x
    if thread.x == 0:
        s[m - 1] = 3.0
    t[thread.x] = thread.x
    barrier()
    if i < n:
        y[i] = s[0] + s[m - 1] + float(t[0])
"""


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_block_shares_no_more_than_every_gpu_has(tmp_path, device):
    """The sizes of a call decide: on a core any number ran, and no GPU would have."""
    kernel = kernel_of(SHARED, tmp_path)
    y = np.zeros(3)
    kernel(y, 6_080, device=device)
    assert (y == 3).all()
    with pytest.raises(ConfigError, match="a block shares 49,160 bytes with these sizes"):
        kernel(y, 6_081, device=device)
    with pytest.raises(ConfigError, match="a block shares 400,512 bytes"):
        kernel(y, 50_000, device=device)
    with pytest.raises(ConfigError, match="a block shares 400,512 bytes"):
        kernel.work({"n": 3, "m": 50_000})  # as 'explain --stage kernels' shows it


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (COUNTED.replace("on: bool", "on: window[float, 8]"), "QD0905"),
        (LINE_F32.replace("x[i] + y[i]", "x[i] + y[i + 1]"), "QD0601"),
        (LINE_F32.replace("y[i] = ", "y[0] = "), "QD0903"),
        (LINE_F32.replace("inout ", ""), "QD0607"),
    ],
)
def test_what_the_checker_refuses(text, code):
    checked, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    assert checked is None
    assert code in {one.code for one in diagnostics}, [one.code for one in diagnostics]


def test_a_strategy_has_no_tensors(tmp_path):
    path = tmp_path / "strategy.qdsl"
    path.write_text(
        SUM.format(type="float") + "\nstrategy S:\n    bars 5m\n    let t = total(close)\n"
        "    on bar:\n        flatten()\n    risk:\n        max_order = 1 share\n"
    )
    with pytest.raises(SourceError, match="is a kernel of tensors, which a strategy has none of"):
        quantdsl.compile(path)


ORDER = """language 1

@kernel(sort)
kernel order(inout x: tensor[{type}, n], inout places: tensor[int, n]):
    sort(x, places)
"""


@pytest.mark.parametrize("size", [1, 2, 3, 31, 64, 100])
@pytest.mark.parametrize("kind", ["float", "f32", "int"])
def test_a_sort_is_that_of_numpy(kind, size, tmp_path):
    kernel = kernel_of(ORDER.format(type=kind), tmp_path)
    drawn_ints = np.random.default_rng(size).integers(-3, 4, size)
    x = drawn_ints.astype({"float": "f8", "f32": "f4", "int": "i8"}[kind])
    if kind != "int":
        x[::7], x[3::11] = np.nan, -np.inf
        x /= 2
    wanted, places = np.argsort(x, kind="stable"), np.zeros(size, np.int64)
    found = x.copy()
    memory = {"x": x.copy(), "places": places.copy()}
    interpreted(kernel, memory, {"n": size})
    kernel(found, places)
    assert places.tolist() == memory["places"].tolist() == wanted.tolist()
    np.testing.assert_array_equal(found, x[wanted])
    np.testing.assert_array_equal(memory["x"], x[wanted])


def test_a_sort_of_many_is_that_of_numpy(tmp_path):
    kernel = kernel_of(ORDER.format(type="int"), tmp_path)
    x = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000)
    x[::3], x[1::7] = x[0], 2**63 - 1
    found, places = x.copy(), np.zeros(len(x), np.int64)
    kernel(found, places)
    assert places.tolist() == np.argsort(x, kind="stable").tolist()
    assert found.tolist() == np.sort(x).tolist()


@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize("how", ["<", "<=", ">", ">="])
def test_a_rank_is_what_comparisons_say(kind, how, tmp_path):
    """Whether it is found in order (< and <=) or by comparing (the others)."""
    text = RANKS.format(type=kind).replace("x[k] < y[i]", f"x[k] {how} y[i]")
    kernel = kernel_of(text.replace("y[i] / 3", "y[i]"), tmp_path)
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-9, 9, size).astype(kind) for size in (1_200, 90))
    if kind == "float":
        x[::7], x[1::9], y[::8], y[3] = np.nan, -0.0, np.nan, np.inf
        y[y == 0] = 0.0
    less, most = np.zeros(90, np.int64), np.zeros(90, np.int64)
    kernel(x, y, less, most)
    compared = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[how]
    assert less.tolist() == (2 + compared(x[None], y[:, None]).sum(1)).tolist()
    assert most.tolist() == (x[None] <= y[:, None]).sum(1).tolist()
    for size, words in ((99, 1), (1_200, 1 + 2 * 1_200)):
        func = kernel.work({"n": size, "m": 90}).func
        assert on_core(func, ELEMENTS).scratch_words >= words
        assert size > 99 or on_core(func, ELEMENTS).scratch_words == words


ELEMENTS = {"p.x": "float", "p.y": "float", "p.less": "int", "p.most": "int"}


@pytest.mark.parametrize("name", ["order of ints", "ranks of f32"])
def test_a_sort_is_machine_code_of_a_gpu(name, tmp_path):
    text, sizes = TENSOR_PROGRAMS[name]
    work, target = kernel_of(text, tmp_path).work(sizes), target_of("sm_90")
    made = launches_of(work, target, gpu=True)
    whats = ["digits", "along", "across", "sorted"] * (8 if "ints" in name else 5)
    loops = ["loop"] * 2
    assert [one.what for one in made.starts] == (loops + whats if "ints" in name else whats + loops)
    texts = ptx_of(made, work, "sm_90")
    assert "vote.sync.ballot.b32" in texts[-3 if "ranks" in name else -1]
    assert all(assembled(text, "sm_90").startswith(b"\x7fELF") for text in texts)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_a_fast_product_is_packed_where_there_are_tensor_cores(architecture, tmp_path):
    path = tmp_path / "fast.qdsl"
    path.write_text(FAST.format(rounded="tf32"))
    kernel = quantdsl.kernel(path)
    assert repr(kernel).endswith("factors rounded to tf32 on tensor cores>")
    work, target = kernel.work({"n": 37, "k": 21, "m": 140}), target_of(architecture)
    made = launches_of(work, target, gpu=True)
    whats = ["rows, tf32", "columns, tf32", "tensor cores, tf32"]
    assert [one.what for one in made.starts] == (["product"] if "75" in architecture else whats)
    texts = ptx_of(made, work, architecture)
    assert all(assembled(text, architecture).startswith(b"\x7fELF") for text in texts)
    if made.scratch_words > 1:
        steps, strips = 3, 1 + 2
        assert made.scratch_words == 2 + steps * (strips * 8 * 512 + 8 * 512) // 8


def test_a_sort_of_groups_of_tiles_and_a_scan_of_longer_rows_leave_the_same(tmp_path, monkeypatch):
    """As a great many elements have them, which the simulated device would take minutes for."""
    monkeypatch.setattr(scans, "BLOCKS_MAX", 2)
    for text, size in ((ORDER.format(type="float"), 8_200), (RUNNING, 5_000)):
        kernel = kernel_of(text, tmp_path)
        here, there = (drawn(kernel.facts, {"n": size}) for _ in range(2))
        assert kernel(**here) == kernel(**there, device="simulated")
        for name in here.keys() - {"s", "first"}:
            assert np.array_equal(here[name], there[name], equal_nan=True)
    sort = sorts.Sort("p.x", "float", "p.places", 8_200)
    assert (sort.blocks, sort.group, sort.groups) == (5, 2, 3)
    assert scans.blocks_of(5_000) == 2


@pytest.mark.parametrize(("places", "tile"), [("", 4_096), ("p.places", 2_048)])
def test_the_tiles_of_a_sort_are_in_groups(places, tile):
    for size, tiles, groups in ((1, 1, 1), (tile + 1, 2, 2), (11 * tile, 11, 4)):
        sort = sorts.Sort("p.x", "float", places, size)
        assert (sort.blocks, sort.groups) == (tiles, groups)
        assert sort.group * groups >= tiles > sort.group * (groups - 1)


def test_a_zero_below_zero_comes_first(tmp_path):
    kernel = kernel_of(ORDER.format(type="float"), tmp_path)
    x, places = np.array([0.0, -0.0, np.nan, -0.0]), np.zeros(4, np.int64)
    kernel(x, places)
    assert places.tolist() == [1, 3, 0, 2]
    assert np.signbit(x).tolist()[:3] == [True, True, False]
    inside = ORDER.format(type="float").replace("    sort", "    for k in 0..<2:\n        sort")
    with pytest.raises(UnavailableError, match="kernel order, line 5: on a device"):
        kernel_of(inside, tmp_path)(x, places, device="simulated")
