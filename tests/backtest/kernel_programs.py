"""Strategies with kernels, for comparing ways to run them."""

TAIL = """
    on bar:
        if flat and {buys}:
            buy(100 shares)
        elif long and bars_since(entry) >= 3:
            close_position()

    backtest:
        fees = 1bps

    risk:
        max_position = 1_000 shares
"""

ANALOG = """language 1

@kernel(reduce)
@device(auto)
@workgroup(64)
kernel analog(r: window[f32, 40], pat: const int, ahead: const int, bw: f32) -> f32?:
    "Nadaraya-Watson: average what followed past stretches that look like the last `pat` bars."
    var num: f32 = 0
    var den: f32 = 0
    parallel for i in ahead..<(r.len - pat) reduce(num: +, den: +):
        var d2: f32 = 0
        for k in 0..<pat:
            d2 += (r[k] - r[i + k]) ^ 2
        var fwd: f32 = 0
        for j in 1..ahead:
            fwd += r[i - j]
        let w = exp(-d2 / (2 * bw ^ 2))
        num += w * fwd
        den += w
    return num / den if den > 1e-6 else na

strategy Analog:
    bars 5m

    param pat = 3     in 2..6 step 1
    param bw  = 0.004 in 0.001..0.020 log 8

    let ret = log(close / close[1])
    let fc  = analog(ret, pat = pat, ahead = 2, bw = bw)
""" + TAIL.format(buys="fc is not na and fc > 0.0")

SUMS = """language 1

kernel totals(r: window[{type}, 300], n: const int) -> {type}:
    var plus: {type} = 0.25
    var least: {type} = inf
    var most: {type} = -inf
    parallel for i in 0..<min(n, r.len) reduce(plus: +, least: min, most: max):
        plus += r[i] * 1.1
        least = min(least, r[i] / 3)
        most = max(sqrt(r[i]), most)
    return plus + least - most

strategy Sums:
    bars 5m

    param n = 290 in 1..300 step 1

    let s = totals(log(close), n)
    plot(s, "s")
""" + TAIL.format(buys="s > 0.0")

REST = """language 1

fn half(x: float) -> float = x / 2.0

@kernel(general)
kernel rest(r: window[float, 24], side: window[int, 16], n: const int, on: bool) -> float?:
    "All else that a kernel may do."
    var squares: array[float, 24] = 1.0
    parallel for i in 0..<r.len:
        if r[i] > r[0]:
            squares[i] = half(r[i]) ^ 2
        squares[i] += float(i)
    var product = 1
    var rises = 0
    var any = false
    var all = true
    parallel for i in 1..<side.len reduce(product: *, rises: +, any: or, all: and):
        if side[i] == 0:
            continue
        product *= 3 * side[i]
        rises += 1
        any = any or side[i] > 0
        all = side[i] > 0 and all
    var best = -inf
    parallel for i in 0..<min(n, r.len) reduce(best: max):
        var x = r[i]
        for k in 0..i:
            if k > 5:
                break
            x += squares[k] / 1024.0
        best = max(best, x if on else r[i])
    var left = r[0]
    var turns = 0
    while left > 1.0 max 12:
        left = half(left)
        turns += 1
    if not any and all:
        return na
    return best + float(product) / 1e6 + float(rises) + left * float(turns)

strategy Rest:
    bars 5m

    param n = 5 in 1..24 step 1

    let ret  = close / close[1] - 1.0
    let side = sign(ret)
    let x    = rest(float(close), side, n, ret > 0.0)
""" + TAIL.format(buys="(x ?? 0.0) > 0.0")

PRODUCT = """language 1

@kernel(matmul)
kernel product(r: window[{type}, 48], n: const int) -> {type}:
    "Two matrices of a window, their product, and the trace of its first n rows."
    var a: tensor[{type}, 6, 8] = 0
    var b: tensor[{type}, 8, 6] = 0.5
    var c: tensor[{type}, 6, 6] = 0
    parallel for i in 0..<a.len:
        for k in 0..<8:
            a[i, k] = r[i * 8 + k]
    parallel for k in 0..<8:
        for j in 0..<min(n, 6):
            b[k, j] += r[j * 8 + k]
    parallel for i in 0..<6:
        for j in 0..<6:
            for k in 0..<8:
                c[i, j] = fma(a[i, k], b[k, j], c[i, j])
    var trace: {type} = 0
    for i in 0..<min(n, 6):
        trace += c[i, i] + c[0, i]
    return trace if c[1, 2] > 0 else 0

strategy Products:
    bars 5m

    let p = product(close / close[1], 5)
    plot(p, "p")
""" + TAIL.format(buys="p > 3.0")

RANKS = """language 1

@kernel(rank)
kernel ranks(r: window[float, 40], n: const int) -> float:
    "The rank of each value by tensors of two sizes that the call says, and how they cluster."
    var rank: array[int, 40] = 0
    var table: tensor[float, n, 40] = 1
    parallel for i in 0..<r.len:
        for k in 0..<r.len:
            if r[k] < r[i]:
                rank[i] += 1
    parallel for i in 0..<n:
        for k in 0..<40:
            table[i, k] = r[k] * float(rank[k] + i)
    var sum = 0.0
    for i in 0..<n:
        sum += table[i, 3]
    return sum + float(rank[0])

strategy Ranks:
    bars 5m

    let p = ranks(float(close), 3)
    plot(p, "p")
""" + TAIL.format(buys="p > 3.0")

PROGRAMS = {
    "product of floats": PRODUCT.format(type="float"),
    "product of f32": PRODUCT.format(type="f32"),
    "ranks": RANKS,
    "analog": ANALOG,
    "sums of f32": SUMS.format(type="f32"),
    "sums of float": SUMS.format(type="float"),
    "the rest": REST,
}

TOTAL = """language 1

@workgroup(64)
kernel total(r: window[{type}, 200], n: const int) -> {type}:
    "A sum through shared memory, a histogram by atomics, and what a warp may ask."
    var s: shared[{type}, 64] = 0
    var hist: shared[int, 8] = 0
    var own: {type} = 0
    for turn in 0..<4:
        let at = min(turn * 64 + thread.x, r.len - 1)
        own += r[at] if turn * 64 + thread.x < r.len else 0
        atomic_add(hist[at mod 8], at)
    s[thread.x] = own
    barrier()
    var half = 32
    while half > 0 max 6:
        if thread.x < half:
            s[thread.x] += s[(thread.x + half) mod 64]
        barrier()
        half = int(float(half) / 2.0)
    let before = shuffle_up(own, 1)
    let bits = ballot(own > before)
    let rank = atomic_add(hist[0], lane)
    let mean = s[0] / r.len
    own = own - mean + rank
    let some = vote_any(own > 3)
    return own + bits + hist[3] + (1 if some else 0) + n

strategy Totals:
    bars 5m

    param n = 3 in 1..9 step 1

    let p = total(close / close[1], n)
    plot(p, "p")
""" + TAIL.format(buys="p > 3.0")

WARPS = """language 1

@kernel(threads)
@workgroup(16, 4, 2)
kernel warps(r: window[float, 32], side: window[int, 16], n: const int) -> float?:
    "Three dimensions, arrays of each thread, and every word that there is."
    var tile: shared[float, 8, 16] = 0.5
    var last: shared[int, 4] = 1
    var flags: shared[bool, 2] = false
    let row = thread.y + 4 * thread.z
    var mine: array[float, 3] = 0.25
    var grid_of: tensor[int, 2, 2] = 0
    tile[row, thread.x] = r[thread.x + row]
    mine[thread.x mod 3] += r[row]
    grid_of[thread.y mod 2, 1] = thread.x
    if thread.x == 3 and row == 1:
        flags[1] = true
    warp_barrier()
    barrier()
    var turns = 0
    for turn in 0..<min(n, 3):
        if turn == 2:
            break
        let other = tile[(row + 1) mod 8, (thread.x + turn) mod 16]
        fence(block)
        barrier()
        if flags[1]:
            tile[row, thread.x] += other / 3.0
        mine[turn mod 3] += other
        turns += 1
        barrier()
    let from = shuffle(mine[0], 5) + shuffle(mine[1], lane + 3, 8)
    let down = shuffle_down(side[thread.x], 2) + shuffle_xor(lane, 1, 4)
    let same = match_any(down mod 3)
    let all = vote_all(down > -9)
    atomic_max(last[1], down + same)
    atomic_xor(last[2], lane * row)
    let old = atomic_exchange(last[3], lane + warp)
    let swapped = atomic_compare_swap(last[0], 1, row)
    let wraps = atomic_inc(last[0], 6) + atomic_dec(last[0], 2)
    let sum = atomic_add(tile[0, 0], r[lane])
    barrier()
    var x = from + float(old + swapped + wraps + grid_of[0, 1] + turns)
    for k in 0..<3:
        if mine[k] > 1.0e9:
            continue
        x += mine[k]
    x += float(last[0] + last[1] + last[2] + last[3]) + sum + tile[0, 0]
    let most = shuffle(x, 31)
    if n == 1:
        return na
    return x + most + float(block.x + grid.x + block_size.y) + (1.0 if all else 0.0)

strategy Warps:
    bars 5m

    param n = 3 in 1..9 step 1

    let ret  = close / close[1] - 1.0
    let x    = warps(float(close), sign(ret), n)
    plot(x, "x")
""" + TAIL.format(buys="(x ?? 0.0) > 0.0")

COUNTS = """language 1

@kernel(histogram)
kernel counts(r: window[float, 300], n: const int) -> float:
    "A histogram by a parallel loop, and the rest of the atomics in it."
    var bins: array[int, 16] = 0
    var least: array[int, 3] = 99
    var marks: array[int, 2] = 8
    parallel for i in 0..<r.len:
        let bin = int(r[i] * 700.0) mod 16
        atomic_add(bins[bin], 1)
        atomic_min(least[i mod 3], bin)
        atomic_sub(bins[bin], i mod 2)
        atomic_or(marks[i mod 2], i mod 5)
    var most = 0
    for k in 0..<16:
        most = max(most, bins[k])
    var rest: array[int, 2] = 7
    atomic_and(rest[1], 6 + n)
    let left = bins[min(n, 15)] + least[0] - least[1] + least[2]
    return float(rest[1] + marks[0] * marks[1] + most * 1000 + left)

strategy Counts:
    bars 5m

    param n = 3 in 1..9 step 1

    let x = counts(float(close), n)
    plot(x, "x")
""" + TAIL.format(buys="x > 0.0")

SORTED = """language 1

@kernel(sort)
@workgroup(64)
kernel sorted(r: window[{type}, 37], n: const int) -> float:
    "The order of a window with many equal values, and of ints."
    var a: array[{type}, 37] = 0
    var places: array[int, 37] = 0
    var own: array[int, n] = 3
    parallel for i in 0..<r.len:
        a[i] = float(int(r[i] * 800.0)) * r[0] if i mod 5 > 0 else r[i]
    parallel for i in 0..<n:
        own[i] = 7 * i mod 5
    sort(a, places)
    sort(own)
    var sum = 0.0
    for i in 0..<r.len:
        sum = sum * 0.75 + a[i] * float(places[i])
    return sum + float(own[0] - places[36]) + 100.0

strategy Sorted:
    bars 5m

    let p = sorted(close / close[1], 9)
    plot(p, "p")
""" + TAIL.format(buys="p > 3.0")

GROUPS = """language 1

@workgroup(96)
kernel groups(r: window[float, 192], n: const int) -> float:
    "Warps that go ways of their own, and meet where a number says."
    var s: shared[float, 96] = 0
    var bits: shared[int, 3] = 0
    let k = thread.x
    var own = r[k] * 3
    if warp mod 2 == 0:
        var sum = own
        for step in 0..<3:
            sum += shuffle_xor(sum, 1) / float(step + n)
            named_barrier(3, 64)
            s[(k + 32 * step) mod 96] = sum
            named_barrier(3, 64)
        own = sum + s[64 - 64 * (warp mod 2)]
        named_barrier(1, 96)
        own += float(bits[1])
    else:
        let up = ballot(own > r[k + 96] * 3)
        if lane == 0:
            bits[1] = up
        atomic_add(bits[2], k)
        named_barrier(1, 96)
        named_barrier(2, 32)
        own += float(match_any(bits[2] mod 3 + lane mod 4))
    s[k] = own
    named_barrier(4, 96)
    return s[95] + s[3] * s[32]

strategy Groups:
    bars 5m
    plot(groups(close / close[1], 3))
    on bar:
        flatten()
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
LANES = """language 1

@workgroup(64)
kernel lanes(r: window[float, 128], n: const int) -> float:
    "Lanes that hand over to others of their warp, and the rest of it goes on meanwhile."
    var s: shared[float, 64] = 0
    var t: shared[float, 64] = 0
    let k = thread.x
    if lane < 8:
        s[k] = r[k] * float(n)
        for step in 0..<3:
            warp_barrier(255)
            let next = s[warp * 32 + (lane + 1) mod 8]
            warp_barrier(255)
            s[k] = s[k] / 2 + next
        warp_barrier(65_535)
        t[k] = s[k] + 1
    elif lane < 16:
        let own = r[k + 64] * 5
        warp_barrier(65_535)
        t[k] = own + s[(k + 56) mod 64]
    elif warp == 1:
        t[k] = float(k)
        warp_barrier(4_294_901_760)
        s[k] = t[(111 - k) mod 64]
    warp_barrier()
    let sum = t[warp * 32 + (lane + n) mod 32] + s[warp * 32 + 31 - lane]
    barrier()
    s[k] = sum
    barrier()
    var total = 0.0
    for i in 0..<64:
        total = total * 0.5 + s[i]
    return total

strategy Lanes:
    bars 5m
    plot(lanes(close / close[1], 3))
    on bar:
        flatten()
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""
THREADED = {
    "threads of floats": TOTAL.format(type="float"),
    "threads of f32": TOTAL.format(type="f32"),
    "warps": WARPS,
    "groups": GROUPS,
    "lanes": LANES,
}
"""Kernels that say what each thread of a block does, and how many there are."""
PROGRAMS["counts"] = COUNTS
PROGRAMS["sorted floats"] = SORTED.format(type="float")
PROGRAMS["sorted f32"] = SORTED.format(type="f32")
