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

PROGRAMS = {
    "analog": ANALOG,
    "sums of f32": SUMS.format(type="f32"),
    "sums of float": SUMS.format(type="float"),
    "the rest": REST,
}
