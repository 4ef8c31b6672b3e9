"""Kernels with a mistake each."""

from textwrap import indent


def threads(body, size="64"):
    """A kernel of threads, as a kernel behind another one."""
    head = f"    return r[0]\n\n@workgroup({size})\nkernel l(r: window[float, 64], n: const int)"
    first = "k(r: window[float, 64], n: const int) -> float:\n"
    return body, {"head": f"{first}{head} -> float", "call": "k(close, 9) + l(close, 9)"}


def kernel(body, head="k(r: window[float, 64], n: const int) -> float", call="k(close, 9)"):
    """A strategy with a kernel."""
    return f"kernel {head}:\n{indent(body, '    ')}\nstrategy S:\n    bars 5m\n    plot({call})\n"


SUM = "var s = 0.0\nparallel for i in 0..<n reduce(s: +):\n    {}\nreturn s\n"
KERNELS = {
    "window past its end": ("return r[64]", {}),
    "window read by a loop that is too long": (
        "var s = 0.0\nfor i in 0..<n:\n    s += r[i]\nreturn s", {}
    ),
    "window of a handler's value": (
        "return r[0]", {"call": "k(close, 9))\n    on bar:\n        let x = k(equity, 9"}
    ),
    "window of prices": ("return 1.0", {"head": "k(r: window[price, 64], n: const int) -> float"}),
    "window without a length": ("return 1.0", {"head": "k(r: window[f32], n: const int) -> float"}),
    "window as long as a param": (
        "return 1.0", {"head": "k(r: window[float, n], n: const int) -> float"}
    ),
    "window too long": (
        "return 1.0", {"head": "k(r: window[float, 2_000_000], n: const int) -> float"}
    ),
    "size of a kernel that is 0": ("return r[0]", {"call": "k(close, 0)"}),
    "kernel without a window": ("return x", {"head": "k(x: float, n: const int) -> float"}),
    "kernel that orders": (
        "buy(9 shares)\nif r[0] > r[1]:\n    close_position()\nreturn r[0]",
        {"head": "k(r: window[float, 4], n: const int) -> float"},
    ),
    "kernel of a duration": (
        "return r[0]",
        {"head": "k(r: window[float, 4], n: duration) -> float", "call": "k(close, 5m)"},
    ),
    "write to what turns share": (SUM.format("r.len\n    s = r[0]"), {}),
    "write to what is not reduced": (
        "var s = 0.0\nvar t = 0.0\nparallel for i in 0..<min(n, 9) reduce(s: +):\n"
        "    s += r[i]\n    t += 1.0\nreturn s + t", {}
    ),
    "read what is being reduced": (SUM.format("s += s / 2.0"), {}),
    "return from a turn": (SUM.format("return 1.0"), {}),
    "break out of a turn": (SUM.format("break"), {}),
    "reduce in another way": (SUM.format("s -= 1.0"), {}),
    "reduce a number by and": (
        "var s = 0.0\nparallel for i in 0..<n reduce(s: and):\n    s = s and true\nreturn s", {}
    ),
    "reduce what is fixed": (
        "let s = 0.0\nparallel for i in 0..<n reduce(s: +):\n    s += 1.0\nreturn s", {}
    ),
    "reduce what is not there": (
        "parallel for i in 0..<n reduce(s: +):\n    s += 1.0\nreturn r[0]", {}
    ),
    "reduce in order": (
        "var s = 0.0\nfor i in 0..<n reduce(s: +):\n    s += 1.0\nreturn s", {}
    ),
    "parallel in parallel": (
        SUM.format("parallel for j in 0..<n reduce(s: +):\n        s += 1.0"), {}
    ),
    "read another turn's element": (
        "var a: array[float, n] = 0.0\nparallel for i in 0..<n:\n    a[i] = a[0]\nreturn a[0]",
        {},
    ),
    "write another turn's element": (
        "var a: array[float, n] = 0.0\nparallel for i in 0..<n:\n    a[0] = 1.0\nreturn a[0]", {}
    ),
    "element by another counter": (
        "var a: array[float, n] = 0.0\nparallel for i in 0..<n:\n    if i > 0:\n"
        "        let i = 0\n        a[i] = 1.0\nreturn a[0]", {}
    ),
    "float into an f32": ("var s: f32 = 0.0\ns += r[0]\nreturn s", {}),
    "untrue kind": ("return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
    "    return r[0]\n\n@kernel(scan)\nkernel l(r: window[float, 4], n: const int) -> float"}),
    "kind that there is not": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@kernel(fast)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "kind that is misspelt": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@kernel(Redcue)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "fast where there is no product": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@fast(bf16)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "fast by a type that there is not": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@fast(fp8)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "sort of a window": ("sort(r)\nreturn r[0]", {}),
    "sort of places of another size": (
        "var a: array[float, 8] = 0\nvar b: array[int, 9] = 0\nsort(a, b)\nreturn a[0]", {}
    ),
    "sort in a turn": (
        "var a: array[float, 8] = 0\nparallel for i in 0..<8:\n    sort(a)\nreturn a[0]", {}
    ),
    "sort by threads": threads(
        "var s: shared[float, 64] = 0\nvar a: array[float, 8] = 0\nsort(a)\n"
        "return s[0] + a[thread.x mod 8]"
    ),
    "grid of a window": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@grid(8)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "grid of parts": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n"
        "@workgroup(32)\n@grid(m / 32)\nkernel l(inout x: tensor[int, m]):\n"
        "    let i = thread.x\n    if i < m:\n        x[i] = i\n\n"
        "kernel o(r: window[float, 4], n: const int) -> float"}
    ),
    "result of a grid": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n"
        "@workgroup(32)\nkernel l(inout x: tensor[int, 32]) -> int:\n"
        "    x[thread.x] = 1\n    return x[0]\n\n"
        "kernel o(r: window[float, 4], n: const int) -> float"}
    ),
    "block atomic in a parallel loop": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n"
        "kernel l(inout x: tensor[int, 32]):\n    parallel for i in 0..<32:\n"
        "        atomic_add(x[0], 1, scope = block)\n\n"
        "kernel o(r: window[float, 4], n: const int) -> float"}
    ),
    "workgroup of half a warp": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@workgroup(16)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "workgroup of words": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@workgroup(all)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "kernel on a gpu alone": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@device(gpu)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
    "index of a tensor": (
        "var a: tensor[float, 4, 8] = 0\nvar s = 0.0\nfor i in 0..<8:\n"
        "    s += a[i, 0] + a[1] + a[0, 0.5] + r[i, 1]\nreturn s + a.length", {}
    ),
    "tensors that there are not": (
        "var a: tensor[float, 4] = 0\nvar b: tensor[price, 4, 4] = 0\n"
        "var c: tensor[float, 400, 400] = 0\nvar d: shared[float] = 0\n"
        "var e: tensor[float, 4, m] = 0\nreturn r[0]", {}
    ),
    "atomics of turns": (
        "var a: array[int, 8] = 0\nvar b: array[float, 8] = 0\nvar x = 0\n"
        "parallel for i in 0..<8:\n    atomic_add(a[i], 1)\n    atomic_add(b[i], 1.0)\n"
        "    atomic_or(a[0], 1)\n    let old = atomic_max(a[0], i)\n    a[i] = old + a[1]\n"
        "    atomic_add(x, 1)\n"
        "    barrier()\nreturn r[0] + b[0]", {}
    ),
    "threads that do not say how many": (
        "var s: shared[float, 4] = 0\ns[thread.x mod 4] = r[0]\nbarrier()\nreturn s[0]", {}
    ),
    "threads that do not meet": threads(
        "var s: shared[float, 64] = 0\nif thread.x < 9:\n    barrier()\nif s[0] > 1.0:\n"
        "    s[thread.x] = shuffle(r[0], 3)\nfor i in 0..<lane:\n    let v = vote_all(i > 3)\n"
        "    if v:\n        warp_barrier()\nif n > 3:\n    barrier()\nreturn s[0]"
    ),
    "threads that no block has": threads(
        "if thread.x < 32:\n    warp_barrier()\nbarrier()\nreturn r[0]",
        "9007199254740993",
    ),
    "threads that stop": threads(
        "var s: shared[float, 64] = 0\nfor i in 0..<n:\n    if thread.x == i:\n        break\n"
        "    barrier()\nif s[lane] > 1.0:\n    return r[0]\nreturn s[0]"
    ),
    "threads in turns": threads(
        "var s: shared[float, 64] = 0\nparallel for i in 0..<n reduce(s: +):\n    s += 1.0\n"
        "return r[thread.x mod 9]"
    ),
    "words of threads": threads(
        "var s: shared[int, 64] = 0\nlet a = thread + thread.w\nlet b = shuffle(r[0], 1, 5)\n"
        "let c = ballot(3)\nfence(all)\nbarrier(1)\nlet d = shuffle_up(r[0])\n"
        "atomic_add(s[0], 1, scope = device)\natomic_and(s[0], 1.5)\natomic_add(n, 1)\n"
        "atomic_inc(s[0])\natomic_add(s[0], 1, scope = warp)\nlet e = shuffle(s, 1)\nreturn 1.0"
    ),
    "words that are not there yet": threads(
        "named_barrier(1, 63)\ngrid_barrier()\nasync_copy(r, 3)\nwait_copies(0)\n"
        "let c = mma(r, r)\nreturn r[0]"
    ),
    "too many threads": threads("return r[thread.x mod 9]", "2_048"),
    "a dimension too many": threads("return r[thread.x mod 9]", "4, 4, 4, 4"),
    "dimensions of a parallel loop": threads("return r[0]", "8, 8"),
    "memory of a kernel": (
        "var a: array[float, n] = 0\nfor i in 0..<n:\n    a[i] = r[0]\nreturn a[0]",
        {"call": "k(close, 99_999)"},
    ),
    "memory of threads": threads(
        "var a: array[float, 999] = 0\nvar s: shared[float, 4_000] = 0\n"
        "var t: shared[float, 4_000] = 0\nreturn a[thread.x] + s[0] + t[0]"
    ),
    "shared memory of a block": threads(
        "var s: shared[float, 9_999] = 0\nreturn r[0] + float(thread.x)"
    ),
    "kernel in lanes": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@lanes(4)\n@unroll(n)\nkernel l(r: window[float, 4], n: const int)"
        " -> float:\n    var s = 0.0\n    parallel for i in 0..<n reduce(s: +):\n"
        "        for k in 0..<6:\n            s += 1.0\n    return s\n\n@unroll(4)\n"
        "kernel m(r: window[float, 4], n: const int)"
        " -> float:\n    var s = 0.0\n    parallel for i in 0..<n reduce(s: +):\n"
        "        for k in 0..<6:\n            s += 1.0\n    return s\n\n"
        "kernel o(r: window[float, 4], n: const int) -> float",
        "call": "l(close, 3) + m(close, 3) + o(close, 3)"}
    ),
    "unrolled kernel": (
        "return r[0]", {"head": "k(r: window[float, 4], n: const int) -> float:\n"
        "    return r[0]\n\n@unroll(4)\nkernel l(r: window[float, 4], n: const int) -> float"}
    ),
}
