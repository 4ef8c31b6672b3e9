"""Kernels of threads in several blocks: machine code of GPUs, and races between blocks."""

import re

import numpy as np
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.grids import OnGpu, launches_of
from quantdsl.errors import ConfigError, DeviceError
from quantdsl.lang.diagnostics import SourceError
from tests.backtest.tensor_programs import KEPT, STENCIL, TENSOR_PROGRAMS
from tests.devices.fake_driver import FakeDriver

OF_THREADS = [name for name, (text, _) in TENSOR_PROGRAMS.items() if "@workgroup" in text]


def kernel_of(text, tmp_path):
    path = tmp_path / "kernels.qdsl"
    path.write_text(text)
    return quantdsl.kernel(path)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", OF_THREADS)
def test_they_are_machine_code_of_a_gpu(name, architecture, tmp_path):
    text, sizes = TENSOR_PROGRAMS[name]
    kernel = kernel_of(text, tmp_path)
    target = target_of(architecture)
    made = launches_of(kernel.work(sizes), target, gpu=True)
    for start in made.starts:
        parsed, machine = optimised(start.text, target)
        ptx = str(machine.emit_assembly(parsed))
        assert f".maxntid {start.threads}" in ptx
        assert "call" not in ptx
        assert assembled(ptx, architecture).startswith(b"\x7fELF")


def test_an_atomic_has_its_scope(tmp_path):
    text, sizes = TENSOR_PROGRAMS["tally"]
    made = launches_of(kernel_of(text, tmp_path).work(sizes), target_of("sm_90"), gpu=True)
    (start,) = made.starts
    parsed, machine = optimised(start.text, target_of("sm_90"))
    ptx = str(machine.emit_assembly(parsed))
    found = set(re.findall(r"(?:red|atom)\.\S*", ptx))
    relaxed = {"add.u64", "min.s64", "xor.b64"}
    assert found == {*(f"atom.global.{op}" for op in relaxed), "atom.sys.max.s64"}
    assert start.grid == 3 * 2 * 2


RACE = """language 1

@workgroup(32)
@grid(ceil(n / 32))
kernel racy(x: tensor[float, n], inout y: tensor[float, n], inout k: tensor[int, n]):
    let i = block.x * block_size.x + thread.x
    if i < n:
        y[i] = x[i]
    {first}
    {second}
"""
FAULTS = {
    "its own element": ("barrier()", "if i < n:\n        y[i] += 1.0", []),
    "another one's, behind a barrier": (
        "barrier()", "if i < n and thread.x == 3 and i > 0:\n        y[i] += y[i - 1]", []
    ),
    "another one's, with no barrier": (
        "", "if i < n and thread.x == 3 and i > 0:\n        y[i] += y[i - 1]", [(8, 11)]
    ),
    "that of another block": (
        "barrier()", "if i < n and thread.x == 0 and i > 0:\n        y[i] += y[i - 1]", [(8, 11)]
    ),
    "one element of all blocks": (
        "barrier()", "if thread.x == 5:\n        y[0] = 1.0", [(8, 11), (11, 11)]
    ),
    "additions of the device": ("barrier()", "atomic_add(k[0], 1)", []),
    "additions of a block": ("barrier()", "atomic_add(k[0], 1, scope = block)", [(10, 10)]),
    "additions and bits": (
        "atomic_add(k[0], 1)\n    barrier()", "atomic_or(k[0], 1)", [(9, 11)]
    ),
    "in order": ("let old = atomic_add(y[0], 1.0)", "if old > 1e9:\n        k[0] = 1", [(8, 9)]),
    "in order of the device": (
        "let old = atomic_exchange(k[0], lane)", "if old < 0:\n        y[0] = 1.0", []
    ),
    "in order of a block": (
        "let old = atomic_exchange(k[0], lane, scope = block)",
        "if old < -99:\n        y[0] = 1.0", [(9, 9)],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_race_between_blocks_is_found_and_its_lines_named(name, tmp_path):
    first, second, wanted = FAULTS[name]
    kernel = kernel_of(RACE.format(first=first, second=second), tmp_path)
    n = 70
    bound = kernel.bound((np.ones(n), np.zeros(n), np.arange(n)), {})
    lines = [fault.lines for fault in kernel.watched(bound)[0]]
    assert sorted(set(lines)) == wanted


MEETING = """language 1

@workgroup(32)
@grid({grid})
kernel met(x: tensor[float, n], inout y: tensor[float, n], inout k: tensor[int, n]):
    let i = block.x * block_size.x + thread.x
    if i < n:
        y[i] = x[i]
    {first}
    {second}
"""
BESIDE = "if thread.x == 0 and i > 0 and i < n:\n        k[i] = int(y[i - 1])"
CLASHES = {
    "they meet before it is read": ("grid_barrier()", BESIDE, []),
    "they do not meet": ("barrier()", BESIDE, [(8, 11)]),
    "they meet too late": (BESIDE, "grid_barrier()", [(8, 10)]),
    "both write behind it": (
        "grid_barrier()", "if i < n:\n        k[0] = 1", [(11, 11)]
    ),
}


@pytest.mark.parametrize("name", CLASHES)
def test_blocks_that_meet_do_not_race(name, tmp_path):
    first, second, wanted = CLASHES[name]
    kernel = kernel_of(MEETING.format(grid=3, first=first, second=second), tmp_path)
    bound = kernel.bound((np.ones(96), np.zeros(96), np.arange(96)), {})
    assert sorted({fault.lines for fault in kernel.watched(bound)[0]}) == wanted


REFUSED = {
    "a share of a size": ("ceil(n / 32)", "grid_barrier()", "", "are a fixed number"),
    "in some blocks": (3, "if block.x < 2:\n        grid_barrier()", "", "not every block comes"),
    "by a number made of a block's": (
        3, "var turns = block.x\n    turns += 1",
        "for t in 0..<4:\n        if t < turns:\n            grid_barrier()",
        "not every block comes",
    ),
    "left by a number of a block": (
        3, "for t in 0..<4:\n        if t == block.x:\n            break\n        grid_barrier()",
        "", "not every block comes",
    ),
    "in some threads": (
        3, "if thread.x < 2:\n        grid_barrier()", "", "not every thread comes to this 'grid_"
    ),
    "beside turns": (
        3, "let old = atomic_add(k[0], 1)\n    grid_barrier()",
        "if old > 3:\n        k[1 mod n] = 1", "blocks that take turns",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_blocks_that_would_not_all_meet_are_refused(name, tmp_path):
    grid, first, second, told = REFUSED[name]
    with pytest.raises(SourceError, match=told):
        kernel_of(MEETING.format(grid=grid, first=first, second=second), tmp_path)


def test_a_grid_meets_by_two_words_of_the_device(tmp_path):
    text, sizes = TENSOR_PROGRAMS["settle"]
    target = target_of("sm_90")
    made = launches_of(kernel_of(text, tmp_path).work(sizes), target, gpu=True)
    assert [start.together for start in made.starts] == [False, True]
    assert made.starts[1].grid == 3
    parsed, machine = optimised(made.starts[1].text, target)
    ptx = str(machine.emit_assembly(parsed))
    meetings = ptx.count("atom.relaxed.gpu.global.add.u64") or ptx.count("atom.global.add.u64")
    assert meetings >= 3
    assert "ld.acquire.gpu" in ptx
    assert "st.release.gpu" in ptx
    assert "fence.sc.gpu" in ptx


def test_a_grid_that_a_device_cannot_hold_is_refused(tmp_path):
    text = MEETING.format(grid=5, first="grid_barrier()", second="")
    kernel = kernel_of(text, tmp_path)
    given = np.ones(9), np.zeros(9), np.arange(9)
    work = kernel.work({"n": 9})
    device = CudaDevice(Driver(FakeDriver()), 0)
    with pytest.raises(DeviceError, match="5 blocks of 32 threads wait for each other, and 4 are"):
        OnGpu(work, device)
    assert OnGpu(kernel_of(text.replace("(5)", "(4)"), tmp_path).work({"n": 9}), device)
    wide = kernel_of(text.replace("(5)", "(65)"), tmp_path)
    with pytest.raises(DeviceError, match="64 are there at once: give the kernel a smaller @grid"):
        wide(*given, device="simulated")
    wide(*given)
    faults, seen = wide.watched(wide.bound(given, {}))
    assert not faults
    assert seen == "the first 64 of 65 blocks of 32 threads: 2,048 can wait for each other here"
    own = MEETING.format(grid=9_000, first="grid_barrier()", second=BESIDE)
    far = kernel_of(own, tmp_path)
    with pytest.raises(ConfigError, match="a core has 2,097,152: give it a smaller @grid"):
        far(*given)


COPY = """language 1

@workgroup(64)
@grid(3)
kernel staged(x: tensor[float, n], inout y: tensor[float, n]):
    var s: shared[float, 64] = 0
    let i = block.x * block_size.x + thread.x
    if i < n:
        async_copy(s[thread.x], x[i])
    {first}
    {second}
    let v = s[(thread.x + 1) mod 64]
    {third}
    if i < n:
        y[i] = v
"""
COPIES = {
    "waited for by all": ("wait_copies()", "barrier()", "", []),
    "waited for by none": ("barrier()", "", "", [(9, 12)]),
    "waited for behind the barrier": ("barrier()", "wait_copies()", "", [(11, 12)]),
    "waited for too late": ("barrier()", "", "wait_copies()", [(12, 13)]),
    "waited for by its own thread": ("wait_copies()", "", "", [(9, 12), (10, 12)]),
    "read by its own thread": (
        "let q = s[thread.x]", "wait_copies()\n    barrier()", "", [(9, 10)]
    ),
    "copied to twice": (
        "if i < n:\n        async_copy(s[thread.x], x[i])", "wait_copies()\n    barrier()",
        "", [(9, 11)],
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_nobody_waited_for_is_found_and_its_lines_named(name, tmp_path):
    first, second, third, wanted = COPIES[name]
    kernel = kernel_of(COPY.format(first=first, second=second, third=third), tmp_path)
    faults, _ = kernel.watched(kernel.bound((np.ones(150), np.zeros(150)), {}))
    assert sorted({fault.lines for fault in faults}) == wanted


NO_COPIES = {
    "of an f32": ("s[0]", "z[0]", "f32", "moves a float or an int"),
    "of another type": ("m[0]", "x[0]", "float", "moves a float or an int"),
    "to a tensor": ("y[0]", "x[0]", "float", "from an element of a tensor to one of shared"),
    "from shared memory": ("s[0]", "s[1]", "float", "from an element of a tensor to one of"),
    "of a number": ("s[0]", "1.0", "float", "from an element of a tensor to one of shared"),
}


@pytest.mark.parametrize("name", NO_COPIES)
def test_what_no_copy_moves_is_refused(name, tmp_path):
    to, source, type_, told = NO_COPIES[name]
    text = f"""language 1

@workgroup(32)
@grid(1)
kernel k(x: tensor[float, n], z: tensor[f32, n], inout y: tensor[float, n]):
    var s: shared[{type_}, 32] = 0
    var m: shared[int, 32] = 0
    async_copy({to}, {source})
    wait_copies()
"""
    with pytest.raises(SourceError, match=told):
        kernel_of(text, tmp_path)


def test_a_gpu_copies_beside(tmp_path):
    text, sizes = TENSOR_PROGRAMS["staged"]
    target = target_of("sm_80")
    (start,) = launches_of(kernel_of(text, tmp_path).work(sizes), target, gpu=True).starts
    parsed, machine = optimised(start.text, target)
    ptx = str(machine.emit_assembly(parsed))
    assert ptx.count("cp.async.ca.shared.global") >= 4
    assert ptx.count("cp.async.wait_all") >= 1


def test_each_thread_adds_though_all_add_the_same(tmp_path):
    second = "if i < n:\n        k[i] += 1"
    text = MEETING.format(grid=3, first="atomic_add(k[0], 1)", second=second)
    kernel = kernel_of(text, tmp_path)
    for device in ("cpu", "simulated"):
        found = np.zeros(70, np.int64)
        kernel(np.ones(70), np.zeros(70), found, device=device)
        assert found.tolist() == [97, *[1] * 69]


def test_the_command_tells_of_races_between_blocks(tmp_path, capsys):
    path = tmp_path / "racy.qdsl"
    path.write_text(RACE.format(first="", second="atomic_add(k[0], 1, scope = block)"))
    assert cli.run(["check", str(path), "--races"]) == 1
    assert "race in kernel racy: one block adds to an element that" in capsys.readouterr().out
    for second in ("atomic_max(k[0], 1)", "atomic_add(k[0], 1, scope = block)"):
        path.write_text(RACE.format(first="atomic_add(k[0], 1)", second=second))
        assert cli.run(["check", str(path), "--races"]) == 1
        told = "two blocks change an element by atomics of two kinds or scopes, and nothing"
        assert told in capsys.readouterr().out
    path.write_text(KEPT)
    assert cli.run(["check", str(path), "--races"]) == 0
    assert "kernel kept: no race was seen among 32 threads" in capsys.readouterr().out


def test_blocks_of_other_sizes_are_other_launches(tmp_path):
    kernel = kernel_of(STENCIL.format(type="float"), tmp_path)
    for n in (1, 64, 65, 300):
        x, y = np.arange(float(n)), np.zeros(n)
        for device in ("cpu", "simulated"):
            kernel(x, y, device=device)
            before = np.where(np.arange(n) % 64 == 0, 0.0, np.roll(x, 1))
            last = np.arange(n) % 64 == 0
            before[last] = [x[i + 63] if i + 63 < n else 0.0 for i in np.flatnonzero(last)]
            assert y.tolist() == ((before + x) / 2).tolist()


HUGE = """language 1

@workgroup(32)
@grid({grid})
kernel huge(inout x: tensor[float, n], a: const int, b: const int):
    let i = thread.x
    if i < n and block.x == 0 and block.y == 0:
        x[i] = 1.0
"""


def test_a_launch_beyond_every_gpu_is_refused(tmp_path):
    path = tmp_path / "huge.qdsl"
    path.write_text(HUGE.format(grid="65_536, 65_536"))
    with pytest.raises(SourceError, match="this launches 4,294,967,296 blocks"):
        quantdsl.kernel(path)
    path.write_text(HUGE.format(grid="100_000_000_000"))
    with pytest.raises(SourceError, match="this launches 100,000,000,000 blocks"):
        quantdsl.kernel(path)
    path.write_text(HUGE.format(grid="a, b"))
    huge, x = quantdsl.kernel(path), np.zeros(8)
    for device in ("simulated", "cpu"):  # a core went on for ever
        with pytest.raises(ConfigError, match=r"kernel huge: .* 4,294,967,296 blocks, .*GRID_B"):
            huge(x, 65_536, 65_536, device=device)
    huge(x, 2, 2, device="simulated")
    assert x.sum() == 8
