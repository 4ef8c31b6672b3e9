"""Kernels of tensors, and arguments to call them with, for comparing ways to run them."""

import numpy as np

PRODUCT = """language 1

@kernel(matmul)
kernel product(a: tensor[{type}, n, k], b: tensor[{type}, k, m], inout c: tensor[{type}, n, m]):
    "c + a b."
    parallel for i in 0..<n:
        for j in 0..<m:
            for l in 0..<k:
                c[i, j] = fma(a[i, l], b[l, j], c[i, j])
"""
FAST = PRODUCT.format(type="f32").replace("@kernel(matmul)", "@kernel(matmul)\n@fast({rounded})")
TRANSPOSED = """language 1

@kernel(matmul)
kernel product(a: tensor[{type}, k, n], b: tensor[{type}, m, k], inout c: tensor[{type}, m, n]):
    "c + (a' b')', its chain outside of its columns."
    parallel for j in 0..<m:
        for l in 0..<k:
            for i in 0..<n:
                c[j, i] = fma(b[j, l], a[l, i], c[j, i])
"""
LINE = """language 1

@kernel(elementwise)
kernel line(x: tensor[{type}, n], slope: {type}, inout y: tensor[{type}, n]):
    "y + slope x."
    parallel for i in 0..<n:
        y[i] = slope * x[i] + y[i]
"""
SPREAD = """language 1

kernel spread(x: tensor[{type}, n], inout y: tensor[{type}, n]) -> float:
    "What lies between the least and the largest becomes 0 to 1, but for the mean."
    var low: {type} = inf
    var high: {type} = -inf
    var total: {type} = 0
    parallel for i in 0..<n reduce(low: min, high: max, total: +):
        low = min(low, x[i])
        high = max(high, x[i])
        total += x[i]
    let mean = total / n
    parallel for i in 0..<n:
        y[i] = (x[i] - mean) / (high - low)
    var squares: {type} = 0
    parallel for i in 0..<n reduce(squares: +):
        squares += y[i] * y[i]
    return float(squares + mean)
"""
COUNTED = """language 1

kernel counted(
    x: tensor[f32, n, m], inout y: tensor[f32, n, m], inout up: tensor[bool, n, m],
    inout bins: tensor[int, 16], least: int, on: bool,
) -> int:
    "Every type of element, turns that go on early, and atomics."
    var count = 0
    parallel for i in 0..<n:
        for j in 0..<m:
            if x[i, j] < 0:
                continue
            y[i, j] = sqrt(x[i, j]) * 3 - 1
            up[i, j] = y[i, j] > 1 and on
    parallel for i in 0..<n reduce(count: +):
        for j in 0..<m:
            count += least if up[i, j] else 0
    parallel for i in 1..<n:
        for j in 0..<m:
            atomic_add(bins[int(x[i, j] * 3) mod 16], 1)
    parallel for i in 0..<n:
        var row: f32 = 0
        for j in 0..<m:
            row += y[i, j]
        y[i, 0] = row
    return count
"""
RUNNING = """language 1

@kernel(scan)
kernel running(x: tensor[int, n], inout y: tensor[int, n], first: int) -> int:
    "What lies before each element, and all of them."
    var s = first
    for i in 0..<n:
        y[i] = s
        s += x[i]
    return s
"""
SUMS = """language 1

@kernel(scan)
@fast(order)
kernel totals(x: tensor[float, n], inout y: tensor[float, n], first: float) -> float:
    "All up to each element, and all of them."
    var s = first
    for i in 0..<n:
        s += x[i]
        y[i] = s
    return s
"""
PEAKS = """language 1

@kernel(general)
kernel peaks(x: tensor[int, n], inout y: tensor[int, n], inout z: tensor[float, n]) -> float:
    "The largest so far of an array but its ends, and what a loop behind it makes of the last one."
    var s = -2
    for i in 1..<(n - 3):
        let twice = x[i] * 2
        s = {take}
        y[i] = s
        z[i] = float(s + i) / 3.0
    parallel for i in 0..<n:
        z[i] += float(s)
    return float(s)
"""
STENCIL = """language 1

@kernel(threads)
@workgroup(64)
@grid(ceil(n / 64))
kernel stencil(x: tensor[{type}, n], inout y: tensor[{type}, n]):
    "The mean of each element and the one before it in its block, by shared memory."
    var s: shared[{type}, 64] = 0
    let i = block.x * block_size.x + thread.x
    if i < n:
        s[thread.x] = x[i]
    barrier()
    let before = s[(thread.x + 63) mod 64]
    if i < n:
        y[i] = (before + s[thread.x]) / 2
"""
TALLY = """language 1

@workgroup(16, 4)
@grid(ceil(m / 16), ceil(n / 4), 2)
kernel tally(
    x: tensor[f32, n, m], inout bins: tensor[int, 16], inout ends: tensor[int, 2],
    inout rows: tensor[int, n],
):
    "Blocks of two dimensions, each twice, and atomics of the device and the system."
    let j = block.x * block_size.x + thread.x
    let i = block.y * block_size.y + thread.y
    if i < n and j < m:
        let bin = int(x[i, j] * 3) mod 16
        atomic_add(bins[bin], 1 + block.z)
        atomic_min(ends[0], bin - i, scope = device)
        atomic_max(ends[1], bin + i * j * grid.z, scope = system)
        atomic_xor(rows[i], (bin + grid.x * block.x) * (1 + block.z))
"""
KEPT = """language 1

@workgroup(32)
@grid(b)
kernel kept(
    x: tensor[float, n], inout y: tensor[float, n], inout count: tensor[int, 4],
    inout sums: tensor[float, b], share: float,
):
    "What is above 0 in order, and all else that an atomic may do, block after block."
    var own = 0.0
    for turn in 0..<3:
        let i = (turn * b + block.x) * block_size.x + thread.x
        if i < n:
            own = x[i]
        let at = atomic_add(count[0], 1 if own > 0.0 else 0)
        if own > 0.0 and at >= 0 and at < n:
            y[at] = own * share
        atomic_add(sums[block.x], own, scope = block)
    let turned = atomic_inc(count[1], 5) - atomic_dec(count[2], 3, scope = system)
    let swapped = atomic_compare_swap(count[3], turned, thread.x + block.x)
    let old = atomic_exchange(count[3], swapped + lane)
    if warp == 0 and lane == 3 and block.x < b:
        sums[block.x] += float(old)
"""
SETTLE = """language 1

@workgroup(32)
@grid(b)
kernel settle(
    x: tensor[float, n], inout y: tensor[float, n], inout part: tensor[float, b],
    inout seen: tensor[int, 8], turns: int,
):
    "Blocks that meet as often as the data say, and what each of them keeps meanwhile."
    var s: shared[float, 32] = 0
    var votes: shared[int, 2] = 0
    var mine: array[float, 3] = 0
    let own   = block.x * block_size.x + thread.x
    let first = block.x * 2
    var turn  = 0
    while turn < turns + 3 and seen[7] < 99 max 10:
        var sum = 0.0
        for k in 0..<4:
            let i = k * b * block_size.x + own
            if i < n:
                sum += x[i] if x[i] == x[i] else 0.5
        s[thread.x] += sum
        mine[turn mod 3] += sum * float(first)
        atomic_add(votes[turn mod 2], lane)
        barrier()
        if thread.x == 0:
            part[block.x] = s[3] + s[4] * float(first)
        grid_barrier()
        let beside = part[(block.x + 1) mod b]
        if turn == 2:
            atomic_add(seen[0], 1)
        else:
            grid_barrier()
            for k in 0..<4:
                let i = k * b * block_size.x + own
                if i < n:
                    y[i] += beside + mine[1]
        grid_barrier()
        turn += 1
        if turn > 4:
            break
    atomic_add(seen[1], votes[0] - votes[1] + turn)
"""
STAGED = """language 1

@workgroup(64)
@grid(ceil(n / 256))
kernel staged(x: tensor[float, n], marks: tensor[int, n], inout y: tensor[float, n]):
    "Sums of neighbours, a tile on its way while the one before it is summed."
    var s: shared[float, 128] = 0
    var m: shared[int, 128] = 0
    let first = block.x * 256 + thread.x
    if first < n:
        async_copy(s[thread.x], x[first])
        async_copy(m[thread.x], marks[first])
    for tile in 0..<4:
        wait_copies()
        barrier()
        let next = first + (tile + 1) * 64
        if tile < 3 and next < n:
            async_copy(s[(tile + 1) mod 2 * 64 + thread.x], x[next])
            async_copy(m[(tile + 1) mod 2 * 64 + thread.x], marks[next])
        let half   = tile mod 2 * 64
        let beside = s[half + (thread.x + 1) mod 64]
        let i      = first + tile * 64
        if i < n:
            y[i] = s[half + thread.x] + beside * float(m[half + thread.x])
        barrier()
"""
ORDER = """language 1

@kernel(sort)
kernel order(inout x: tensor[{type}, n], inout places: tensor[int, n], s: {type}):
    "Scaled, in order, and where each was before."
    parallel for i in 0..<n:
        x[i] = x[i] * s
    sort(x, places)
"""
RANKS = """language 1

kernel ranks(
    x: tensor[{type}, n], y: tensor[{type}, m], inout less: tensor[int, m],
    inout most: tensor[int, m],
):
    "How many are smaller than each of some others, and how many are not larger than a third of it."
    parallel for i in 0..<m:
        var count = 2
        for k in 0..<n:
            if x[k] < y[i]:
                count += 1
        less[i] = count
    parallel for i in 0..<m:
        var count = 0
        let share = y[i] / 3
        for k in 0..<n:
            if share >= x[k]:
                count += 1
        most[i] = count
"""
PIPED = """language 1

@workgroup(128)
@grid(ceil(n / 64))
kernel piped(x: tensor[float, n], inout y: tensor[float, n], inout sums: tensor[float, m]):
    "Two warps load, two warps add up what was loaded before."
    var s: shared[float, 2, 64] = 0
    var total: shared[float, 2] = 0
    let k = thread.x
    let b = block.x
    for turn in 0..<4:
        let half = turn mod 2
        if k < 64:
            let i = block.x * 64 + k
            if i < n:
                s[half, k] = x[i] * float(turn + 1)
            named_barrier(1, 128)
            if i < n:
                y[i] += s[half, 63 - k]
            named_barrier(2, 64)
        elif warp == 2:
            named_barrier(1, 128)
            var mine = s[half, lane] + s[half, lane + 32]
            for step in 0..<5:
                mine += shuffle_down(mine, 16)
            if lane == 0:
                total[half] += mine
        else:
            var other = float(turn)
            named_barrier(1, 128)
            other += s[half, lane]
            let both = ballot(other > 0)
            if lane == 0:
                total[1 - half] += float(both mod 8)
        barrier()
    if k == 0 and b < m:
        sums[b] = total[0] + total[1]
"""
CONSTANTS = """language 1

const weights: constant[f32, 2, 3] = [0.1, 0.7, 0.2, -0.3, 0.2, 0.9]
const places: constant[int, 4]     = [3, 1, 2, 0]
const scale: constant[float, 1]    = [1 / 3]

@workgroup(32)
@grid(ceil(n / 32))
kernel weighed(x: tensor[float, n], inout y: tensor[f32, n]):
    "Numbers of constant memory, at places that differ between threads and that do not."
    let i = block.x * block_size.x + thread.x
    if i < n:
        let k = places[block.x mod 4]
        y[i] = f32(x[i]) * weights[thread.x mod 2, k mod weights.len] + f32(scale[0])
"""
TENSOR_PROGRAMS = {
    "running sum": (RUNNING, {"n": 5_000}),
    "running sum of a few": (RUNNING, {"n": 3}),
    "running largest": (PEAKS.format(take="max(twice, s)"), {"n": 700}),
    "running least": (PEAKS.format(take="min(s, twice)"), {"n": 2_060}),
    "product of f32": (PRODUCT.format(type="f32"), {"n": 37, "k": 21, "m": 140}),
    "product of floats": (PRODUCT.format(type="float"), {"n": 66, "k": 9, "m": 35}),
    "product of whole tiles": (PRODUCT.format(type="f32"), {"n": 128, "k": 16, "m": 128}),
    "transposed product of f32": (TRANSPOSED.format(type="f32"), {"n": 36, "k": 24, "m": 130}),
    "transposed product of floats": (TRANSPOSED.format(type="float"), {"n": 5, "k": 30, "m": 7}),
    "line of f32": (LINE.format(type="f32"), {"n": 1000}),
    "line of floats": (LINE.format(type="float"), {"n": 300}),
    "spread of floats": (SPREAD.format(type="float"), {"n": 17_000}),
    "spread of f32": (SPREAD.format(type="f32"), {"n": 500}),
    "counted": (COUNTED, {"n": 23, "m": 31}),
    "stencil of floats": (STENCIL.format(type="float"), {"n": 200}),
    "stencil of f32": (STENCIL.format(type="f32"), {"n": 64}),
    "tally": (TALLY, {"n": 6, "m": 37}),
    "staged": (STAGED, {"n": 400}),
    "settle": (SETTLE, {"n": 300, "b": 3}),
    "settle in one block": (SETTLE, {"n": 70, "b": 1}),
    "kept": (KEPT, {"n": 170, "b": 3}),
    "constants": (CONSTANTS, {"n": 150}),
    "order of f32": (ORDER.format(type="f32"), {"n": 4_200}),
    "order of ints": (ORDER.format(type="int"), {"n": 150}),
    "ranks of f32": (RANKS.format(type="f32"), {"n": 1_100, "m": 70}),
    "ranks of a few": (RANKS.format(type="float"), {"n": 100, "m": 70}),
    "piped": (PIPED, {"n": 150, "m": 2}),
}
"""Name -> the file, and the sizes to run it with."""


def drawn(facts, sizes):
    """Arguments of a kernel by name: numbers around 0, of both signs, and NaN now and then."""
    rng = np.random.default_rng(3)
    made = {}
    for param in facts.params:
        if param.type.kind != "tensor":
            made[param.name] = {"int": 2, "bool": True}.get(str(param.type), 0.375)
            continue
        shape = [size if isinstance(size, int) else sizes[size.name] for size in param.type.dims]
        kind = str(param.type.elem)
        values = rng.normal(size=shape)
        if kind == "int":
            made[param.name] = rng.integers(-9, 9, shape)
        elif kind == "bool":
            made[param.name] = values > 0
        else:
            values.flat[:: max(values.size // 3, 7)] = -0.0
            values.flat[-1] = np.nan
            made[param.name] = values.astype(np.float32 if kind == "f32" else np.float64)
    return made
