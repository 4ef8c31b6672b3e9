"""Kernels of threads: the interpreter's bits on the simulated device, and races found there."""

import re

import msgspec
import numpy as np
import pytest

from quantdsl import cli
from quantdsl.check import check_source
from quantdsl.codegen.blocks import batch, batch_text
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import optimised
from quantdsl.devices.watch import Thread, Watch
from quantdsl.ir.ops import Stmt, bits_to_f64
from quantdsl.lang.source import Source
from quantdsl.passes.touches import ADD, READ, WRITE
from tests.backtest.kernel_programs import THREADED
from tests.backtest.test_lane_entry import checked_text
from tests.counting import calls
from tests.devices.test_blocks import INSTRUMENTS, SCALARS, SM_90, interpreted, left_by, rings_of

SIZES = {"threads of floats": 64, "threads of f32": 64, "warps": 128, "groups": 96, "lanes": 64}


def launched(text, scalars, *, watched=False, changed=None):
    """What a kernel of threads leaves on the simulated device, what the interpreter leaves."""
    checked = checked_text(text)
    ((name, facts),) = checked.library.kernels.items()
    module = checked.module()
    decl = next(func for func in module.funcs if func.name.partition("[")[0] == name)
    made = batch(module, decl.name, facts.threads, watched=watched)
    if changed is not None:
        made = made._replace(module=changed(made.module))
    rings = rings_of(made, decl, np.random.default_rng(7))
    kernel, out = left_by(made, decl, rings, scalars, facts.threads)
    wanted = [interpreted(module, decl, rings, scalars, k) for k in range(INSTRUMENTS)]
    return kernel, [bits_to_f64(int(word)) for word in out], wanted


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("name", THREADED)
def test_threads_have_the_bits_of_the_interpreter(name, watched):
    kernel, found, wanted = launched(THREADED[name], SCALARS | {"n": 3}, watched=watched)
    assert found == wanted
    assert len(set(wanted)) == INSTRUMENTS
    assert kernel.waited
    assert kernel.faults == []


@pytest.mark.parametrize("name", THREADED)
def test_they_are_machine_code_of_a_gpu(name):
    checked = checked_text(THREADED[name])
    ((kernel, facts),) = checked.library.kernels.items()
    module = checked.module()
    decl = next(func for func in module.funcs if func.name.partition("[")[0] == kernel)
    assert facts.kind == "threads"
    assert facts.threads == SIZES[name]
    made = batch(module, decl.name, facts.threads)
    parsed, machine = optimised(batch_text(made, SM_90, gpu=True), SM_90)
    ptx = str(machine.emit_assembly(parsed))
    wanted = ["bar.sync", "shfl.sync.idx", "vote.sync.ballot", "atom.shared.add"]
    if name == "warps":
        wanted = [*wanted[:3], "match.any.sync.b64", "bar.warp.sync", "atom.shared.max.s64"]
        assert re.search(r"fence\.(sc|acq_rel)\.cta|membar\.cta", ptx)
    if name == "groups":
        shapes = sorted(set(re.findall(r"barrier\.sync\s+(\d+, \d+);", ptx)))
        assert shapes == ["1, 96", "2, 32", "3, 64", "4, 96"]
    if name == "lanes":
        shapes = set(re.findall(r"bar\.warp\.sync\s+(-?\d+);", ptx))
        assert shapes == {"255", "65535", "-65536", "-1"}
        wanted = []
    assert [word for word in wanted if word not in ptx] == []
    assert "call" not in ptx
    assert assembled(ptx, "sm_90").startswith(b"\x7fELF")


RACE = """language 1

@workgroup(64)
kernel racy(r: window[float, 64]) -> float:
    var s: shared[float, 64] = 0
    var n: shared[int, 2] = 0
    s[thread.x] = r[thread.x]
    {first}
    let x = {second}
    {third}
    return x + s[0] + float(n[0])

strategy Racy:
    bars 5m
    plot(racy(close / close[1]))
    on bar:
        flatten()
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
NEXT = "s[(thread.x + 1) mod 64]"
FAULTS = {
    "no barrier": (("", NEXT, ""), [(7, 9)]),
    "a barrier": (("barrier()", NEXT, ""), []),
    "a barrier of the warp is too little": (("warp_barrier()", NEXT, ""), [(7, 9)]),
    "a barrier of the warp": (("warp_barrier()", "s[warp * 32]", ""), []),
    "all write to one": (("barrier()", "1.0", "s[0] = r[thread.x]"), [(10, 10)]),
    "one writes and returns": (("barrier()", "1.0", "if thread.x == 0:\n        s[0] = 2.0"), []),
    "another writes": (("barrier()", "1.0", "if thread.x == 9:\n        s[0] = 2.0"), [(11, 12)]),
    "additions meet": (("atomic_add(n[0], 1)", "1.0", "barrier()"), []),
    "sums and bits": (("atomic_add(n[0], 1)\n    atomic_or(n[0], 2)", "1.0", ""), [(8, 9)]),
    "read beside an addition": (("atomic_add(n[1], 1)", "float(n[1])", "barrier()"), [(8, 9)]),
}


ROLES = """language 1

@workgroup(96)
kernel roles(r: window[float, 96]) -> float:
    var s: shared[float, 96] = 0
    let k = thread.x
    if {cond}:
        s[k] = r[k]
        {first}
        s[k] += 1
    else:
        s[k] = 2
        {second}
        s[k] += s[95 - k]
    {third}
    return s[0] + s[95]

strategy Roles:
    bars 5m
    plot(roles(close / close[1]))
    on bar:
        flatten()
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
ALL = "named_barrier(1, 96)"
TWICE = f"{ALL}\n        named_barrier(2, 96)"
GROUPED = {
    "nobody waits": ("fence(block)", "fence(block)", "barrier()", {(8, 14), (10, 14)}),
    "each by itself": (
        "named_barrier(1, 64)", "named_barrier(2, 32)", "barrier()", {(8, 14), (10, 14)}
    ),
    "met": (ALL, ALL, "barrier()", {(10, 14)}),
    "met twice": (
        f"{ALL}\n        let x = s[k]\n        named_barrier(2, 96)", TWICE, "barrier()", {(12, 17)}
    ),
    "met behind": (
        f"{ALL}\n        s[k] += 1\n        named_barrier(2, 96)\n        let x = 2",
        TWICE, ALL.replace("1", "3", 1), {(13, 18)}
    ),
}


@pytest.mark.parametrize("name", GROUPED)
def test_what_a_named_barrier_puts_in_order_is_no_race(name):
    first, second, third, wanted = GROUPED[name]
    text = ROLES.format(cond="k < 64", first=first, second=second, third=third)
    kernel, _, _ = launched(text, SCALARS, watched=True)
    assert {fault.lines for fault in kernel.faults} == wanted


HALF = "warp_barrier(65_535)"
WHOLE = "warp_barrier()"
OF_LANES = {
    "each by itself": (HALF, "warp_barrier(4_294_901_760)", "barrier()", {(8, 14)}),
    "met": (WHOLE, WHOLE, "barrier()", set()),
    "met too early": (WHOLE, f"s[k] = 3\n        {WHOLE}", "barrier()", set()),
    "one side met": (f"{HALF}\n        {HALF}", "fence(block)", "barrier()", {(8, 15)}),
}


@pytest.mark.parametrize("name", OF_LANES)
def test_what_lanes_of_a_warp_put_in_order_is_no_race(name):
    """The upper lanes read what the lower ones wrote; whoever else meets puts nothing between."""
    first, second, third, wanted = OF_LANES[name]
    text = ROLES.format(cond="lane < 16", first=first, second=second, third=third)
    text = text.replace("s[k] += 1\n", "fence(block)\n").replace("95 - k", "warp * 32 + 31 - lane")
    kernel, _, _ = launched(text, SCALARS, watched=True)
    assert {fault.lines for fault in kernel.faults} == wanted


OWN = ("k < 64", "named_barrier(1, 64)", "fence(block)")
LOOP = f"for i in 0..<2:\n            {ALL}"
NO_MEETINGS = {
    "more than come": ("k < 64", ALL, "fence(block)", "barrier()", "96 threads, and 64 come"),
    "fewer than come": (*OWN[:2], "named_barrier(1, 64)", "barrier()", "64 threads, and 32 come"),
    "a part of all": (*OWN, "named_barrier(2, 64)", "waits for 64 threads, and 96 come"),
    "of other warps": (*OWN, ALL, "barrier 1 is that of other warps"),
    "once and twice": (
        "k < 64", ALL, f"{ALL}\n        {ALL}", "barrier()", "do not come to barrier 1 now"
    ),
    "in another order": (
        "k < 64", TWICE, f"named_barrier(2, 96)\n        {ALL}", "barrier()",
        "do not come to barrier 1 now",
    ),
    "in a loop": ("k < 64", LOOP, LOOP, "barrier()", "do not come to barrier 1 now"),
    "half a mask": ("lane < 16", WHOLE, OWN[2], "barrier()", "lane 31 does not come to this"),
    "beyond a mask": ("k < 64", HALF, OWN[2], "barrier()", "lane 31 comes to this"),
    "a mask for all": (OWN[0], OWN[2], OWN[2], HALF, "lane 31 comes to this"),
    "lanes in a loop": (
        "lane < 16", LOOP.replace(ALL, WHOLE), LOOP.replace(ALL, WHOLE), "barrier()",
        "the others do not come to this warp_barrier now"
    ),
    "lanes once and twice": (
        "lane < 16", WHOLE, f"{WHOLE}\n        {WHOLE}", "barrier()",
        "the others do not come to this warp_barrier now"
    ),
    "lanes that differ": ("k < 48", HALF, OWN[2], "barrier()", "not every thread comes to"),
    "lanes of the data": ("r[k] > 1", HALF, OWN[2], "barrier()", "not every thread comes"),
    "a warp's word": ("lane < 16", "let q = ballot(true)", OWN[2], "barrier()", "not every"),
    "a number of lanes": ("lane < 16", ALL, ALL, "barrier()", "not every thread comes to this"),
    "no mask": (OWN[0], "warp_barrier(0)", OWN[2], "barrier()", "a mask is a constant of"),
    "a mask of threads": (OWN[0], "warp_barrier(k)", OWN[2], "barrier()", "a mask is a constant"),
    "half a warp": ("k < 48", *OWN[1:], "barrier()", "not every thread comes to this 'named_bar"),
    "who the data say": ("r[k] > 1", *OWN[1:], "barrier()", "not every thread comes to this"),
    "the block's": ("k < 64", "barrier()", OWN[2], "barrier()", "not every thread comes to this"),
    "no number": (*OWN, "named_barrier(0, 96)", "a number is 1 to 15, and whole warps"),
    "no warps": (*OWN, "named_barrier(1, 40)", "a number is 1 to 15, and whole warps"),
    "too many": (*OWN, "named_barrier(1, 128)", "a number is 1 to 15, and whole warps"),
}


@pytest.mark.parametrize("name", NO_MEETINGS)
def test_warps_that_would_not_meet_are_refused(name):
    cond, first, second, third, told = NO_MEETINGS[name]
    text = ROLES.format(cond=cond, first=first, second=second, third=third)
    checked, diagnostics = check_source(Source(text, "roles.qdsl"))
    assert checked is None
    assert told in next(one for one in diagnostics if one.severity == "error").message


@pytest.mark.parametrize("name", FAULTS)
def test_a_race_is_found_and_its_lines_named(name):
    (first, second, third), wanted = FAULTS[name]
    text = RACE.format(first=first, second=second, third=third)
    kernel, _, _ = launched(text, SCALARS, watched=True)
    lines = {fault.lines for fault in kernel.faults}
    assert set(wanted) <= lines
    assert bool(lines) == bool(wanted)


SCOPES = {"thread": None, "block": r"\.cta", "device": r"\.(gpu|gl)", "system": r"\.sys"}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_fence_has_its_scope(scope):
    text = RACE.format(first=f"fence({scope})", second="1.0", third="barrier()")
    module = checked_text(text).module()
    decl = next(func for func in module.funcs if func.name.startswith("user.racy"))
    parsed, machine = optimised(batch_text(batch(module, decl.name, 64), SM_90, gpu=True), SM_90)
    found = re.findall(r"(?:fence\.\w+|membar)(\.\w+);", str(machine.emit_assembly(parsed)))
    assert len(found) == (0 if SCOPES[scope] is None else 1)
    assert all(re.fullmatch(SCOPES[scope], one) for one in found)


def test_an_access_out_of_bounds_is_found_and_its_line_named():
    """The compiler lets none through, so the index is changed behind it."""

    def changed(module):
        funcs = []
        for func in module.funcs:
            text = msgspec.json.encode(func.body)
            if b"device.touch" in text and func.name.startswith("user."):
                assert text.count(b'"op":"imod"') == 2  # what is told of and what is done
                text = text.replace(b'"op":"imod"', b'"op":"imul"', 1)
                body = msgspec.json.decode(text, type=type_of_body)
                func = msgspec.structs.replace(func, body=body)
            funcs.append(func)
        return msgspec.structs.replace(module, funcs=tuple(funcs))

    text = RACE.format(first="barrier()", second=NEXT, third="")
    kernel, _, _ = launched(text, SCALARS, watched=True, changed=changed)
    outside = [fault for fault in kernel.faults if "reaches word" in fault.what]
    assert {fault.lines for fault in outside} == {(9,)}
    assert "of 66" in str(outside[0])


type_of_body = tuple[Stmt, ...]


def test_the_command_tells_of_races(tmp_path, capsys):
    path = tmp_path / "racy.qdsl"
    path.write_text(RACE.format(first="", second=NEXT, third="barrier()"))
    assert cli.run(["check", str(path), "--races"]) == 1
    assert "race in kernel racy: one thread writes a word" in capsys.readouterr().out
    path.write_text(THREADED["warps"])
    assert cli.run(["check", str(path), "--races"]) == 0
    assert "kernel warps: no race was seen among 128 threads" in capsys.readouterr().out


ALONE = """language 1

@workgroup(64)
kernel racy(r: window[float, 64]) -> float:
    var s: shared[float, 64] = 0
    s[thread.x] = r[thread.x]
    return s[(thread.x + 1) mod 64]

kernel sized(r: window[float, 64], n: const int) -> float:
    return r[min(n, 63)]
"""


def test_races_of_a_kernel_that_nothing_calls_are_found(tmp_path, capsys):
    """It has no call that says its const ints: who has some is named."""
    path = tmp_path / "alone.qdsl"
    path.write_text(ALONE)
    assert cli.run(["check", str(path), "--races"]) == 1
    said = capsys.readouterr().out
    assert "race in kernel racy: one thread writes a word" in said
    assert "kernel sized: not run, for only a call says its const ints" in said
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 0
    assert "// racy: threads" in capsys.readouterr().out


@pytest.mark.parametrize(("how", "found"), [(READ, 0), (WRITE, 2), (ADD, 0)])
def test_a_word_that_a_whole_grid_comes_to_is_not_looked_at_pair_by_pair(how, found):
    """So `check --races` of 8,192 threads that read one coefficient took two minutes."""
    watch = Watch()

    def touched():
        for number in range(4_096):
            who = Thread(*divmod(number, 256), 0, (), (0,) * 32)
            watch.touch(who, (0, 0), how, 7, 1)

    _, many = calls(touched)
    assert many < 4_096 * 50
    assert len(watch.faults()) == found
