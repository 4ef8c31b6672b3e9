"""Kernels in the checker: their kinds, what is printed of them, and what is proven of an index."""

import re

import pytest

from quantdsl import cli
from quantdsl.check import check_source
from quantdsl.lang.diagnostics import apply_edits
from quantdsl.lang.source import Source
from tests.check.kernel_cases import kernel

KINDS = {
    "elementwise": "return r[0] - r[1]",
    "reduce": (
        "var s = 0.0\nparallel for i in 0..<r.len reduce(s: +):\n    for k in 0..<3:\n"
        "        s += r[i]\nfor k in 0..<n:\n    s = s / 2.0\nreturn s"
    ),
    "scan": "var s = 0.0\nfor i in 0..<r.len:\n    s = s / 2.0 + r[i]\nreturn s",
    "general": (
        "var s = 0.0\nparallel for i in 0..<r.len reduce(s: +):\n    s += r[i]\n"
        "for i in 0..<r.len:\n    s = s / 2.0 + r[i]\nreturn s"
    ),
}
KINDS |= {
    "matmul": (
        "var a: tensor[float, 4, 4] = 0\nvar c: tensor[float, 4, 4] = 0\nparallel for i in 0..<4:\n"
        "    for j in 0..<4:\n        for m in 0..<4:\n"
        "            c[i, j] = fma(a[i, m], r[m * 4 + j], c[i, j])\nreturn c[0, 0]"
    ),
    "rank": (
        "var c: array[int, 8] = 0\nfor i in 0..<8:\n    for j in 0..<8:\n"
        "        if r[j] > r[i]:\n            c[i] += 1\nreturn float(c[0])"
    ),
    "histogram": (
        "var c: array[int, 8] = 0\nparallel for i in 0..<r.len:\n"
        "    atomic_add(c[int(r[i]) mod 8], 1)\nreturn float(c[0])"
    ),
}
NEARLY = {
    "a sum of rounded products": (KINDS["matmul"].replace(
        "c[i, j] = fma(a[i, m], r[m * 4 + j], c[i, j])", "c[i, j] += a[i, m] * r[m * 4 + j]"
    ), "general"),
    "a product of one operand": (
        KINDS["matmul"].replace("r[m * 4 + j]", "r[m * 4 + i]"), "general"
    ),
    "a chain into another element": (
        KINDS["matmul"].replace("c[i, j])", "c[i, 0])"), "general"
    ),
    "a count of all": (KINDS["rank"].replace("r[j] > r[i]", "r[3] > r[0]"), "scan"),
    "a count at the counter": (
        KINDS["histogram"].replace("int(r[i]) mod 8", "i mod 8"), "elementwise"
    ),
}
MET = {
    "r[i]": "coalesced",
    "r[63 - i]": "coalesced",
    "r[i * 2 + 1]": "words 2 apart: 2 times",
    "r[min(n, 63)]": "broadcast",
    "r[clamp(i + int(r[0]), 0, 63)]": "coalesced",
    "r[clamp(int(r[i]), 0, 63)]": "not known",
}
PROVEN = {
    "the window's own length": "for i in 0..<r.len:\n    s += r[i]",
    "a loop to the smaller of two": "for i in 0..<min(n, r.len):\n    s += r[i]",
    "two counters": "for i in 0..<(r.len - n):\n    for k in 0..<n:\n        s += r[i + k]",
    "a loop with turns": "for i in 0..<(r.len - n):\n    for k in 0..<n:\n        s += r[k]",
    "a branch beside a loop": (
        "var a: array[float, 40] = 0\nfor i in 0..<40:\n    if i < n:\n        s += a[i] + r[i]"
    ),
    "a branch that says more": (
        "for i in 0..<99:\n    if i < n and i < 30:\n        s += r[i * 2 + 3]"
    ),
    "back from a counter": "for i in n..<r.len:\n    for k in 1..n:\n        s += r[i - k]",
}
NOT_PROVEN = {
    "a branch that says less": "for i in 0..<99:\n    if i < n:\n        s += r[i]",
    "one too far": "for i in 0..r.len:\n    s += r[i]",
    "behind a loop with turns": (
        "for i in 0..<(r.len - n):\n    s += r[i]\nfor k in 0..<n:\n    s += r[k]"
    ),
    "two counters too far": "for i in 0..<(r.len - n):\n    for k in 0..n:\n        s += r[i + k]",
    "before the start": "for i in 0..<r.len:\n    for k in 1..n:\n        s += r[i - k]",
    "a changed end": (
        "var m = n\nfor i in 0..<(r.len - m):\n    m = 0\n    for k in 0..<m:\n        s += r[k]"
    ),
}


def checked(body, head="k(r: window[float, 64], n: const int) -> float"):
    return check_source(Source(kernel(body, head), "example.qdsl"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_recognised_and_printed(kind):
    found, diagnostics = checked(KINDS[kind])
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    assert facts.kind == kind
    assert ("kernel k", str(facts)) in found.facts
    assert str(facts).startswith(f"{kind}, over 64 values")


@pytest.mark.parametrize("name", PROVEN)
def test_an_index_is_proven(name):
    found, diagnostics = checked(f"var s = 0.0\n{PROVEN[name]}\nreturn s")
    assert [d.code for d in diagnostics if d.severity == "error"] == []
    assert found is not None


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_an_index_is_not_proven(name):
    _, diagnostics = checked(f"var s = 0.0\n{NOT_PROVEN[name]}\nreturn s")
    assert {d.code for d in diagnostics if d.severity == "error"} <= {"QD0601", "QD0602"}
    assert diagnostics


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("parallel for i in 0..<m:\n        y[m - 1 - i] = 0.0", "y: tensor"),
        ("parallel for i in 0..<m:\n        m = 3", "m], k"),
        ("parallel for i in 0..<9 reduce(k: +):\n        k += i", "k: int"),
    ],
    ids=["a tensor", "a size", "a number"],
)
def test_a_message_shows_where_a_parameter_is_declared(body, at):
    """It showed the first letter of the file."""
    text = f"kernel act(inout y: tensor[float, m], k: int):\n    {body}\n"
    _, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    ((label,),) = [one.labels for one in diagnostics if one.severity == "error"]
    assert label.text == "declared here"
    assert label.span == (text.index(at), text.index(at) + 1)


def test_an_index_that_the_data_choose_is_told_both_of_its_ends():
    """The help led to 'if i < n', and from there to a second error."""
    text = (
        "kernel k(at: tensor[int, n], x: tensor[float, n]) -> float:\n    var s = 0.0\n"
        "    for j in 0..<n:\n        let i = at[j]\n        s += x[i]\n    return s\n"
    )
    _, (wrong,) = check_source(Source(text, "k.qdsl"), library_too=True)
    assert "'if i >= 0 and i < n:'" in wrong.help
    mended = text.replace("s += x[i]", "if i >= 0 and i < n:\n            s += x[i]")
    assert not check_source(Source(mended, "k.qdsl"), library_too=True)[1]


def test_a_fn_of_a_tensor_is_one_message_where_a_kernel_calls_it():
    """The call failed for the size that no argument had given."""
    text = (
        "fn total(x: tensor[float, n]) -> float:\n    return x[0]\n\n"
        "kernel k(x: tensor[float, n]) -> float:\n    return total(x)\n"
    )
    _, (wrong,) = check_source(Source(text, "k.qdsl"), library_too=True)
    assert (wrong.code, wrong.message) == ("QD0902", "the type 'tensor' stands in a kernel")


@pytest.mark.parametrize(
    ("param", "call"),
    [("r: window[float, 8]", "own(r)"), ("r: window[float, 8]", "own(r[0])"),
     ("r: tensor[float, n]", "own(r)")],
)  # fmt: skip
def test_a_kernel_in_a_kernel_is_told_what_stands_there(param, call):
    """It was told that a number is needed, or to run the other one from Python."""
    text = f"kernel own({param}) -> float:\n    return r[0]\n\nkernel k({param}) -> float:\n"
    _, (wrong,) = check_source(Source(f"{text}    return {call}\n", "k.qdsl"), library_too=True)
    assert (wrong.code, wrong.message) == ("QD0907", "a kernel calls no other kernel")
    assert "a fn of numbers" in wrong.help


SHARES = """@workgroup(64)
kernel k(r: window[float, 64], m: const int) -> float:
    var a: shared[float, 4000] = 0
    var b: shared[float, {size}] = 0
    a[thread.x] = r[thread.x]
    return a[0] + b[0]
"""
CALLED = "\nstrategy Shares:\n    bars 1m\n    let x = k(close, 4000)\n    plot(x)\n"


@pytest.mark.parametrize(
    ("size", "after", "told", "at"),
    [
        ("4000", "", "64,000 bytes", "k(r"),
        ("4000", CALLED, "64,000 bytes", "k(r"),
        ("m", CALLED, "64,000 bytes here", "k(close"),
    ],
    ids=["alone", "called", "sized by its call"],
)
def test_what_threads_share_together_is_held_to_its_limit_once(size, after, told, at):
    """Only a call of a strategy was told: a library's kernel went on to the driver."""
    text = SHARES.format(size=size) + after
    _, found = check_source(Source(text, "k.qdsl"), library_too=True)
    (wrong,) = [one for one in found if one.severity == "error"]
    assert (wrong.code, wrong.message) == ("QD0908", f"the shared memory of 'k' is {told}")
    assert wrong.span[0] == text.index(at)


def test_a_variable_is_reduced_once():
    """The first operation was left out without a word."""
    _, (wrong,) = checked(KINDS["reduce"].replace("(s: +)", "(s: +, s: +)"))
    assert (wrong.code, wrong.message) == ("QD0904", "'s' is reduced twice")


OWN = """language 1

{threads}
kernel k({params}:
    var a: array[float, 900_000] = 0
    let at = clamp(int(x[0]), 0, 899_999)
    a[at] = x[at mod 8]
    {ends}
"""


@pytest.mark.parametrize(
    ("threads", "params", "ends", "told"),
    [
        ("", "x: window[float, 8]) -> float", "return a[at]", "the own memory of 'k' is 7,200,000"),
        (
            "@workgroup(32)\n@grid(2)", "x: tensor[float, 8], inout y: tensor[float, 8])",
            "y[thread.x mod 8] = a[at]", "its own 'a' is larger than 262,144 bytes",
        ),
    ],
    ids=["of a window", "of threads over tensors"],
)  # fmt: skip
def test_what_a_stack_does_not_hold_is_never_run(threads, params, ends, told, tmp_path, capsys):
    """Without a call to tell its sizes such a kernel ended the process, where it was looked at."""
    path = tmp_path / "own.qdsl"
    path.write_text(OWN.format(threads=threads, params=params, ends=ends))
    assert cli.run(["check", "--races", str(path)]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("head", "call", "code", "told", "help"),
    [
        # It was said to be a number of bars, without which it would see the future.
        ("r: window[float, 8], n: const int", "k(close)", "QD0308", "k needs 'n'", "k(r, n)"),
        # The help was that of a 'var' which begins as 0.
        (
            "r: window[int, 8]", "k(close)", "QD0301", "this window is of ints, this is a price",
            "declare it as window[float, 8], in which a price is a float",
        ),
    ],
    ids=["a number is missing", "prices for ints"],
)  # fmt: skip
def test_what_a_call_does_not_fit_is_told_in_words_of_kernels(head, call, code, told, help):
    text = f"kernel k({head}) -> float:\n    return 1.0\n\nstrategy Calls:\n    bars 1m\n"
    _, found = check_source(Source(f"{text}    let x = {call}\n    plot(x)\n", "k.qdsl"))
    (wrong,) = [one for one in found if one.severity == "error"]
    assert (wrong.code, wrong.message, wrong.help) == (code, told, help)


@pytest.mark.parametrize(
    "line", ["sort(h)", "parallel for i in 0..<n:\n        atomic_add(h[i], 1)", "h[0] = 1"]
)
def test_what_changes_a_tensor_that_is_only_read_says_inout(line):
    """A sort was told to take an array of numbers, an atomic an element of an array."""
    text = f"kernel act(h: tensor[int, n]):\n    {line}\n"
    _, (wrong,) = check_source(Source(text, "k.qdsl"), library_too=True)
    assert (wrong.code, wrong.message) == ("QD0607", "'h' is only read by this kernel")
    assert wrong.help.startswith("write 'inout' before its name there")


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("s[0] += x[i]", "a turn's own element is s[i]; what turns make together is reduced"),
        ("y[0, 1] = x[i]", "a turn's own element is y[i, ...]; what turns make together"),
        ("bins[3] += 1", "a turn's own element is bins[i]; to any one it adds by atomic_add(bins["),
        ("p.x = 1.0", "declare it in the loop"),
        ("t = 1.0", "reduce it: 'parallel for ... reduce(t: +)', or declare it in the loop"),
    ],
)
def test_what_a_turn_does_in_place_of_writing_to_what_is_shared(line, help):
    """An element of a tensor was to be reduced, which no loop does."""
    text = (
        "struct P:\n    x: float\n\nkernel act(x: tensor[float, n], inout s: tensor[float, n],\n"
        "           inout y: tensor[float, n, 2], inout bins: tensor[int, 9]):\n"
        "    var p = P(x = 0.0)\n    var t = p.x\n    parallel for i in 0..<n:\n"
        f"        s[i] = t\n        y[i, 0] = 0.0\n        {line}\n"
    )
    _, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    (found,) = [one for one in diagnostics if one.severity == "error"]
    assert found.code == "QD0903"
    assert found.help.startswith(help)


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("let i = blockIdx.x", "write block.x"),
        ("let i = threadIdx.x", "write thread.x"),
        ("__syncthreads()", "write barrier()"),
        ("let y = __shfl_down_sync(x[0], 1)", "write shuffle_down(x, k)"),
        ("atomicCAS(x[0], 1, 2)", "write atomic_compare_swap(s[i], expected, x)"),
    ],
)
def test_words_of_cuda_are_told_as_they_are_said_here(line, help):
    text = f"@workgroup(64)\nkernel k(inout x: tensor[int, 64]):\n    {line}\n"
    _, (found, *_) = check_source(Source(text, "k.qdsl"), library_too=True)
    assert found.help == help


def test_a_tensor_that_is_written_to_is_told_to_be_inout():
    text = "kernel act(y: tensor[float, m]):\n    parallel for i in 0..<m:\n        y[i] = 0.0\n"
    _, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    (found,) = diagnostics
    assert found.message == "'y' is only read by this kernel"
    mended = apply_edits(text, [found.edit])
    assert mended.startswith("kernel act(inout y: tensor")
    assert not check_source(Source(mended, "k.qdsl"), library_too=True)[1]


def test_the_warm_up_is_that_of_the_window():
    found, _ = checked("return r[0]")
    assert found is not None
    (plot,) = found.strategy.plots
    assert plot.value.series is not None
    assert [warm.most for _, warm in plot.value.series.warm] == [64]


THREAD = r"// thread: \d+ of 255 registers, 0 bytes of stack, 0 bytes spilled\n"


def test_explain_shows_a_kernel_as_ptx(tmp_path, capsys):
    path = tmp_path / "example.qdsl"
    path.write_text(kernel(KINDS["reduce"]))
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// k: reduce, over 64 values")
    assert re.search(THREAD, text)
    assert "shfl.sync" in text
    path.write_text("strategy S:\n    bars 5m\n    on bar:\n        buy(1 shares)\n")
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 2
    assert "calls no kernel" in capsys.readouterr().err


CONSTANT = """language 1

const weights: {type} = {values}

@workgroup(32)
@grid(2)
kernel k(inout x: tensor[float, n]):
    x[{at}] = weights[{index}] + float(thread.x)
"""


def test_a_kernel_of_a_core_alone_does_not_hide_those_of_a_device(tmp_path, capsys):
    path = tmp_path / "example.qdsl"
    path.write_text(
        "language 1\n\nkernel first(inout x: tensor[float, n]):\n    x[0] = 1.0\n\n"
        "kernel second(inout x: tensor[float, n]):\n    parallel for i in 0..<n:\n"
        "        x[i] = 1.0\n"
    )
    assert cli.run(["check", str(path)]) == 0
    assert "kernel second  elementwise, over tensor[float, n]\n" in capsys.readouterr().out
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 0
    text = capsys.readouterr().out
    assert "\n// kernel first, line 4: on a device a kernel of tensors is parallel loops" in text
    assert "// launch 'loop': 1 block of 256 threads" in text[text.index("// second") :]


def test_explain_shows_kernels_of_a_file_without_a_strategy(tmp_path, capsys):
    path = tmp_path / "example.qdsl"
    text = CONSTANT.format(type="constant[f32, 3]", values="[1, 2, 3]", at=0, index="block.x")
    path.write_text(text)
    assert cli.run(["explain", str(path), "--stage", "kernels", "--size", "n=700"]) == 0
    text = capsys.readouterr().out
    assert "here n = 700" in text.splitlines()[0]
    assert "// memory: x: tensor[float, n], the caller's, of the device, written to" in text
    assert "// access in line 8: x[0], broadcast: one word a warp" in text
    assert "// memory: weights: constant[f32, 3], 24 bytes, constant memory" in text
    assert "// launch 'threads': 2 blocks of 32 threads, 0 bytes shared" in text
    assert re.search(THREAD, text)
    assert ".const .align 8 .b8 c0[24]" in text
    assert "ld.const" in text
    assert cli.run(["explain", str(path), "--stage", "kernels", "--size", "m=700"]) == 2
    assert "no tensor has such a size; there is n" in capsys.readouterr().err
    assert cli.run(["explain", str(path), "--stage", "ir", "--size", "n=700"]) == 2
    assert "--size belongs to --stage kernels" in capsys.readouterr().err


NO_CONSTANTS = {
    "another number of values": (("constant[float, 2]", "[1, 2, 3]", "0"), "3 numbers are no con"),
    "of another type": (("ring[float, 3]", "[1, 2, 3]", "0"), "3 numbers are no ring"),
    "of nothing": (("constant[float, 1]", "[]", "0"), "a list holds one number at least"),
    "of truth values": (("constant[bool, 1]", "[1]", "0"), "is of float, f32 or int"),
    "of a part": (("constant[int, 2]", "[1, 0.5]", "0"), "an int is needed here"),
    "too large": (
        ("constant[int, 8193]", f"[{', '.join(['7'] * 8193)}]", "0"), "are 65,544 bytes"
    ),
    "read beyond": (("constant[int, 2]", "[1, 2]", "2"), "not proven to lie in 0 .. 1"),
    "of one dimension": (("constant[int, 2]", "[1, 2]", "1, 0"), "has 1 index, not 2"),
}


@pytest.mark.parametrize("name", NO_CONSTANTS)
def test_what_is_no_constant_memory_is_refused(name):
    (type_, values, index), told = NO_CONSTANTS[name]
    text = CONSTANT.format(type=type_, values=values, at=0, index=index)
    found, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    assert found is None
    (one,) = diagnostics  # where it is read, nothing more is wrong
    assert told in one.message


def test_constant_memory_is_read_alone():
    text = CONSTANT.format(type="constant[int, 2]", values="[1, 2]", at=0, index=0)
    text += "    weights[0] = 1\n\nfn f(x: constant[int, 2]) -> int:\n    return 1\n"
    _, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    assert [one.code for one in diagnostics] == ["QD0607", "QD0202"]


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_a_kind_is_none(name):
    body, kind = NEARLY[name]
    found, diagnostics = checked(body)
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    assert facts.kind == kind


@pytest.mark.parametrize("load", MET)
def test_how_a_warp_meets_in_a_load_is_told(load):
    turns = "0..<31" if "* 2" in load else "0..<64"
    found, diagnostics = checked(
        f"var s = 0.0\nparallel for i in {turns} reduce(s: +):\n    s += {load}\nreturn s"
    )
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    line, text, how = facts.loads[0]
    assert (line, text) == (4, load)
    assert how.startswith(MET[load])


OVER_TENSORS = {
    "x[i, j]": "coalesced: 128 bytes in a row",
    "x[j mod n, i mod m]": "not known",
    "x[i, 0]": "broadcast",
    "x[0, j * 2 mod m]": "words 2 apart: 2 times",
    "y[j mod n]": "coalesced: 256 bytes in a row",
}


@pytest.mark.parametrize("access", OVER_TENSORS)
def test_how_a_warp_meets_in_a_tensor_is_told(access):
    text = f"""language 1

kernel k(x: tensor[f32, n, m], y: tensor[float, n], inout z: tensor[float, n, m]):
    parallel for i in 0..<n:
        for j in 0..<m:
            z[i, j] = float({access})
"""
    found, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    told = {text: how for _, text, how in facts.loads}
    assert told["z[i, j]"].startswith("coalesced: 256 bytes")
    assert told[access].startswith(OVER_TENSORS[access])


@pytest.mark.parametrize(
    ("kernel", "access", "how"),
    [
        (
            "k(x: tensor[f32, n, m]) -> float:\n    var s = 0.0\n"
            "    parallel for i in 0..<n reduce(s: +):\n        for j in 0..<m:\n"
            "            s += x[i, j]\n    return s",
            "x[i, j]",
            "not known",
        ),
        (
            "k(x: tensor[f32, n, m], inout y: tensor[f32, n]):\n"
            "    parallel for i in 0..<n:\n        for j in 0..<m:\n"
            "            y[i] = max(y[i], x[i, j])",
            "x[i, j]",
            "not known",
        ),
        (
            "k(r: window[float, 64]) -> float:\n    var s = 0.0\n"
            "    parallel for i in 0..<8 reduce(s: +):\n        for j in 0..<8:\n"
            "            s += r[i * 8 + j]\n    return s",
            "r[i * 8 + j]",
            "words 8 apart",
        ),
    ],
)
def test_a_loop_that_a_thread_makes_alone_is_not_shared(kernel, access, how):
    """They were told to be coalesced, as though neighbouring threads had its turns."""
    found, diagnostics = check_source(
        Source(f"language 1\n\nkernel {kernel}\n", "k.qdsl"), library_too=True
    )
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    told = {text: how for _, text, how in facts.loads}
    assert told[access].startswith(how)


CAPPED = """language 1

@shared({most})
@workgroup(32)
@grid(2)
kernel k(inout x: tensor[float, n], m: const int):
    {memory}
    x[0] = float(thread.x)
"""
CAPS = {
    "enough": ("256", "var s: shared[float, 32] = 0", ""),
    "too few": ("255", "var s: shared[float, 32] = 0", "shares 256 bytes"),
    "of a call": ("999", "var s: shared[float, m] = 0", "the size of 's' is that of a call"),
    "of none": ("999", "fence(block)", "declares none"),
    "no number": ("many", "var s: shared[float, 32] = 0", "this is no '@shared'"),
}


@pytest.mark.parametrize("name", CAPS)
def test_shared_memory_is_held_to_what_is_said(name):
    most, memory, told = CAPS[name]
    text = CAPPED.format(most=most, memory=memory)
    _, diagnostics = check_source(Source(text, "k.qdsl"), library_too=True)
    messages = [one.message for one in diagnostics if one.severity == "error"]
    assert told in messages[0] if told else not messages


def test_annotations_that_are_true_are_kept():
    turns = "parallel for i in 0..<64 reduce(s: +):\n    for j in 0..<8:\n        s += r[j]"
    body = f"var s = 0.0\n{turns}\nreturn s"
    text = kernel(body, "k(r: window[float, 64], n: const int) -> float")
    found, diagnostics = check_source(Source(f"@lanes(16)\n@unroll(8)\n{text}", "example.qdsl"))
    assert found is not None, diagnostics
