// What one would write by hand for bench/strategies/bracket.qdsl: one thread is one parameter point,
// bars pass through a tile in shared memory.
//
// The same work as the strategy: a limit order of a fifth of equity below the market when the
// averages cross, held to a limit on its value; once it fills, a target and a stop that trails,
// along the same four points of each bar (see the page of fill rules); fees in basis points,
// rounded half to even. It returns, to the last digit, the strategy's trades, fees, cash, equity,
// drawdown and daily returns. Ticks, lots and money are whole numbers held in doubles.

#include <cuda_runtime.h>

struct Bar {  // ticks
    double open, high, low, close;
};

struct Seen {  // a bar as the tile holds it
    Bar bar;
    double price, pad;  // of the close
};

struct Costs {
    double cash, rate, scale, money;  // money of one tick of one lot; scale: money of one unit
    double tick_num, tick_den, lots_max, size, most;  // size, most: shares of equity
};

struct Result {   // everything but counts is money, or a sum of daily returns
    double trades, wins, gross_profit, gross_loss, fees, cash, equity;
    double peak, dd_drop, dd_peak, days, returns, squares, bars_in_market;
};

const int TILE = 256;

struct Lane {
    double fast, slow, weight_fast, weight_slow;
    double dip, above, below;
    bool over, under;                       // fast against slow at the last bar
    bool working, held;
    double limit, target, trail, stop, seen;  // ticks
    double lots, entry, entry_fee, entry_bar;
    double cash, equity, peak, trough, dd_drop, dd_peak;
    double trades, wins, profit, loss, fees, in_market;
    double day_equity, days, returns, squares;
};

__device__ __forceinline__ double fee_of(const Costs& c, double notional) {
    return rint(c.scale * (notional / c.scale * c.rate));
}

__device__ __forceinline__ double cost_of(const Costs& c, double lots, double ticks) {
    double notional = lots * ticks * c.money;
    return lots > 0 ? ceil(notional) + fee_of(c, notional) : 0;
}

// The most lots that `budget` buys at `ticks`, fees included.
__device__ __forceinline__ double fit(const Costs& c, double budget, double ticks) {
    double lots = fmin(fmax(floor(budget / (fmax(ticks, 1.0) * c.money)), 0.0), c.lots_max);
    double over = cost_of(c, lots, ticks) - budget;
    while (lots > 0 && over > 0) {
        lots -= fmax(floor(over / ((over + budget) / lots)), 1.0);
        over = cost_of(c, lots, ticks) - budget;
    }
    return lots;
}

const double SLACK = 1.4210854715202004e-14;  // of a price, before it is snapped to a tick

__device__ __forceinline__ void send(Lane& s, const Costs& c, double close) {
    double price = close * c.tick_num / c.tick_den;
    double low = price * (1.0 - s.dip / 100.0) * c.tick_den / c.tick_num;
    double high = price * (1.0 + s.above / 100.0) * c.tick_den / c.tick_num;
    double limit = floor(low + fabs(low) * SLACK);
    double lots = fit(c, rint(c.size * (s.equity / c.scale) * c.scale), limit);
    double most = rint(c.most * (s.equity / c.scale) * c.scale);
    if (lots == 0 || lots * limit * c.money > most) return;
    s.limit = limit;
    s.target = ceil(high - fabs(high) * SLACK);
    s.trail = rint(price * s.below / 100.0 * c.tick_den / c.tick_num);
    s.lots = lots;
    s.working = true;
}

__device__ __forceinline__ void leave(Lane& s, const Costs& c, double ticks, double bar) {
    double money = s.lots * ticks * c.money, fee = fee_of(c, money);
    double net = (ticks - s.entry) * s.lots * c.money - s.entry_fee - fee;
    s.fees += fee;
    s.cash += money - fee;
    s.trades += 1;
    s.wins += net > 0;
    s.profit += fmax(net, 0.0);
    s.loss += fmax(-net, 0.0);
    s.in_market += bar - s.entry_bar + 1;
    s.held = false;
}

// The exits look at one point of the bar's path; the target was sent first.
__device__ __forceinline__ void look(Lane& s, const Costs& c, double start, double price,
                                     double bar) {
    if (!s.held) return;
    if (fmax(start, price) >= s.target) {
        leave(s, c, fmax(start, s.target), bar);
    } else if (fmin(start, price) <= s.stop) {
        leave(s, c, fmin(start, s.stop), bar);
    } else {
        s.stop = fmax(s.stop, price - s.trail);
    }
    s.seen = price;
}

// The entry fills at `ticks` where the path has come to `price`; its exits look from there.
__device__ __forceinline__ void enter(Lane& s, const Costs& c, double ticks, double price,
                                      double bar) {
    double money = s.lots * ticks * c.money, fee = fee_of(c, money);
    s.working = false;
    if (money + fee > s.cash) return;
    s.fees += fee;
    s.cash -= money + fee;
    s.entry = ticks;
    s.entry_fee = fee;
    s.entry_bar = bar;
    s.held = true;
    s.stop = ticks - s.trail;
    look(s, c, ticks, price, bar);
}

// The path of a bar in which something fills.
__device__ __forceinline__ void trade(Lane& s, const Costs& c, const Bar& b, double bar) {
    if (s.held || b.open <= s.limit) {
        if (s.held) look(s, c, b.open, b.open, bar);
        else enter(s, c, b.open, b.open, bar);
        look(s, c, s.seen, b.low, bar);
        look(s, c, s.seen, b.high, bar);
        look(s, c, s.seen, b.close, bar);
    } else {
        enter(s, c, s.limit, b.low, bar);
        look(s, c, s.seen, b.close, bar);
    }
}

// Most bars fill nothing. Then the stop only rises, with the open and the high, and stays below
// every price that comes after.
__device__ __forceinline__ void meet(Lane& s, const Costs& c, const Bar& b, double bar) {
    double at_open = fmax(s.stop, b.open - s.trail), at_high = fmax(at_open, b.high - s.trail);
    bool leaves = (b.open <= s.stop) | (b.low <= at_open) | (b.close <= at_high)
                | (b.high >= s.target);
    if ((s.held & leaves) | (s.working & (b.low <= s.limit))) trade(s, c, b, bar);
    else s.stop = at_high;  // of no meaning while nothing is held
}

__device__ __forceinline__ void settle_drawdown(Lane& s) {
    double drop = s.peak - s.trough;
    if (drop * s.dd_peak > s.dd_drop * s.peak) {
        s.dd_drop = drop;
        s.dd_peak = s.peak;
    }
}

__device__ __forceinline__ void mark(Lane& s, const Costs& c, double close) {
    s.equity = s.cash + (s.held ? s.lots * close * c.money : 0.0);
    if (s.equity > s.peak) {
        settle_drawdown(s);
        s.peak = s.trough = s.equity;
    }
    s.trough = s.equity < s.trough ? s.equity : s.trough;
}

__device__ __forceinline__ void end_day(Lane& s) {
    double r = (s.equity - s.day_equity) / s.day_equity;
    s.days += 1;
    s.returns += r;
    s.squares += r * r;
    s.day_equity = s.equity;
}

__device__ __forceinline__ void step(Lane& s, const Costs& c, const Bar& b, double price,
                                     int k) {
    meet(s, c, b, k);
    mark(s, c, b.close);
    s.fast = fma(s.weight_fast, price - s.fast, s.fast);
    s.slow = fma(s.weight_slow, price - s.slow, s.slow);
    bool over = s.fast > s.slow, under = s.fast < s.slow;
    if (!s.held) {
        if (over && !s.over) send(s, c, b.close);
        else if (under && !s.under) s.working = false;
    }
    s.over = over;
    s.under = under;
}

// `seeds[n - 1]` is the mean of the first n closes. Trading starts with bar `warm` (from 0).
// day_ends[d] is the number of bars of days 0 to d. points: fast, dip, above, below of every lane.
__global__ __launch_bounds__(256) void bracket(const Bar* __restrict__ bars, int n,
        const double* __restrict__ seeds, const int* __restrict__ day_ends, int n_days,
        const double* __restrict__ points, int lanes, int warm, Costs c,
        Result* __restrict__ results) {
    __shared__ Seen tile[TILE];
    int lane = blockIdx.x * blockDim.x + threadIdx.x, at = lane < lanes ? lane : 0;
    int fast = int(points[at]), slow = 4 * fast;
    Lane s = {};
    s.dip = points[lanes + at];
    s.above = points[2 * lanes + at];
    s.below = points[3 * lanes + at];
    s.weight_fast = 2.0 / (fast + 1);
    s.weight_slow = 2.0 / (slow + 1);
    s.cash = s.equity = s.peak = s.trough = s.dd_peak = s.day_equity = c.cash;
    s.fast = seeds[fast - 1];
    s.slow = seeds[slow - 1];
    for (int k = fast; k < warm; k++)
        s.fast = fma(s.weight_fast, bars[k].close * c.tick_num / c.tick_den - s.fast, s.fast);
    for (int k = slow; k < warm; k++)
        s.slow = fma(s.weight_slow, bars[k].close * c.tick_num / c.tick_den - s.slow, s.slow);
    s.over = s.fast > s.slow;
    s.under = s.fast < s.slow;
    int day = 0;
    while (day < n_days && day_ends[day] <= warm) day++;  // days count from the start of trading on
    for (int k = warm; k < n;) {
        int from = k / TILE * TILE;
        __syncthreads();
        for (int i = threadIdx.x; i < TILE && from + i < n; i += blockDim.x)
            tile[i] = {bars[from + i], bars[from + i].close * c.tick_num / c.tick_den, 0};
        __syncthreads();
        int tile_end = min(from + TILE, n);
        while (k < tile_end) {
            int end = day < n_days ? min(day_ends[day], tile_end) : tile_end;
#pragma unroll 2
            for (; k < end; k++) step(s, c, tile[k - from].bar, tile[k - from].price, k);
            if (day < n_days && k == day_ends[day]) {
                end_day(s);
                day++;
            }
        }
    }
    if (s.held) s.in_market += n - s.entry_bar;
    settle_drawdown(s);
    if (lane < lanes)
        results[lane] = {s.trades, s.wins, s.profit, s.loss, s.fees, s.cash, s.equity, s.peak,
                         s.dd_drop, s.dd_peak, s.days, s.returns, s.squares, s.in_market};
}

// Runs the kernel `rounds` times over host arrays; seconds[r] is the kernel's time of round r.
// Returns 0 or the CUDA error code.
extern "C" int run_bracket(const Bar* bars, int n, const double* seeds, int n_seeds,
        const int* day_ends, int n_days, const double* points, int lanes, int warm,
        const Costs* costs, Result* results, int block, int rounds, double* seconds) {
    Bar* d_bars; double *d_seeds, *d_points; int* d_days; Result* d_results;
    cudaMalloc(&d_bars, n * sizeof(Bar));
    cudaMalloc(&d_seeds, n_seeds * sizeof(double));
    cudaMalloc(&d_days, n_days * sizeof(int));
    cudaMalloc(&d_points, 4 * lanes * sizeof(double));
    cudaMalloc(&d_results, lanes * sizeof(Result));
    cudaMemcpy(d_bars, bars, n * sizeof(Bar), cudaMemcpyHostToDevice);
    cudaMemcpy(d_seeds, seeds, n_seeds * sizeof(double), cudaMemcpyHostToDevice);
    cudaMemcpy(d_days, day_ends, n_days * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_points, points, 4 * lanes * sizeof(double), cudaMemcpyHostToDevice);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int r = 0; r < rounds; r++) {
        cudaEventRecord(start);
        bracket<<<(lanes + block - 1) / block, block>>>(d_bars, n, d_seeds, d_days, n_days,
            d_points, lanes, warm, *costs, d_results);
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        float ms = 0;
        cudaEventElapsedTime(&ms, start, stop);
        seconds[r] = ms * 1e-3;
    }
    cudaMemcpy(results, d_results, lanes * sizeof(Result), cudaMemcpyDeviceToHost);
    int code = cudaGetLastError();
    cudaFree(d_bars); cudaFree(d_seeds); cudaFree(d_days); cudaFree(d_points); cudaFree(d_results);
    return code;
}
