// What one would write by hand for bench/strategies/ema_cross.qdsl: one thread is one parameter
// point, prices pass through a tile in shared memory, the loop is unrolled by four.
//
// It returns, to the last digit, what a sweep of the strategy returns for its trades, fees, cash,
// equity, drawdown and daily returns. It has no orders, no sizing, no gate and no other metric.
// Money is whole millionths, held in a double; prices are doubles, ticks / 100 000 or the like.

#include <cuda_runtime.h>

#ifndef REAL
#define REAL double  // of the averages: -DREAL=float for the single-precision anchor
#endif
typedef REAL real;

struct Bar {      // one bar, 32 bytes, as the tile holds it
    real close;   // price
    real pad;
    double open_money, close_money;  // money of one unit
};

struct Result {   // everything but counts is money, or a sum of daily returns
    double trades, wins, gross_profit, gross_loss, fees, cash, equity;
    double peak, dd_drop, dd_peak, days, returns, squares, bars_in_market;
};

#ifndef UNROLL
#define UNROLL 4  // bars loaded ahead: more hide latency, fewer leave registers for more lanes
#endif
const int TILE = 256;

struct Lane {
    real fast, slow, weight_fast, weight_slow;
    bool over, under;                        // fast against slow at the last bar
    bool pending;
    double held;                             // units: 0 or 1
    double cash, equity, spent, entry_fee;   // spent: money paid at entry
    double peak, trough, dd_drop, dd_peak;
    double trades, wins, profit, loss, fees, entry_bar, in_market;
    double day_equity, days, returns, squares;
    double rate, scale;
};

__device__ __forceinline__ void fill(Lane& s, double price, double bar) {
    double fee = rint(s.scale * (price / s.scale * s.rate));
    s.fees += fee;
    if (s.held == 0) {
        s.cash -= price + fee;
        s.spent = price;
        s.entry_fee = fee;
        s.entry_bar = bar;
    } else {
        s.cash += price - fee;
        double net = price - s.spent - s.entry_fee - fee;
        s.trades += 1;
        s.wins += net > 0;
        s.profit += fmax(net, 0.0);
        s.loss += fmax(-net, 0.0);
        s.in_market += bar - s.entry_bar + 1;
    }
    s.held = 1 - s.held;
}

// Within one stretch below a peak the peak is one number: its lowest point alone can be the worst.
__device__ __forceinline__ void settle_drawdown(Lane& s) {
    double drop = s.peak - s.trough;
    if (drop * s.dd_peak > s.dd_drop * s.peak) {
        s.dd_drop = drop;
        s.dd_peak = s.peak;
    }
}

__device__ __forceinline__ void mark(Lane& s, double close_money) {
    s.equity = fma(s.held, close_money, s.cash);
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

__device__ __forceinline__ void step(Lane& s, const Bar& bar, int k) {
    if (s.pending) fill(s, bar.open_money, k);
    mark(s, bar.close_money);
    s.fast = fma(s.weight_fast, bar.close - s.fast, s.fast);
    s.slow = fma(s.weight_slow, bar.close - s.slow, s.slow);
    bool over = s.fast > s.slow;
#ifdef NEVER_EQUAL  // the averages of these bars in double precision: what is not over is under
    s.pending = over != s.over && over != (s.held != 0);
#else
    bool under = s.fast < s.slow;
    s.pending = s.held != 0 ? under && !s.under : over && !s.over;
    s.under = under;
#endif
    s.over = over;
}

// `seeds[n - 1]` is the mean of the first n closes. Trading starts with bar `warm` (from 0); the
// bars before it only move the averages. day_ends[d] is the number of bars of days 0 to d.
__global__ __launch_bounds__(256) void ema_cross(const Bar* __restrict__ bars, int n,
        const real* __restrict__ seeds, const int* __restrict__ day_ends, int n_days,
        const int* __restrict__ points, int lanes, int warm, double cash, double rate,
        double scale, Result* __restrict__ results) {
    __shared__ Bar tile[TILE];
    int lane = blockIdx.x * blockDim.x + threadIdx.x;
    bool real_lane = lane < lanes;
    int fast = points[real_lane ? lane : 0], slow = points[lanes + (real_lane ? lane : 0)];
    Lane s = {};
    s.weight_fast = real(2.0 / (fast + 1));
    s.weight_slow = real(2.0 / (slow + 1));
    s.cash = s.equity = s.peak = s.trough = s.dd_peak = s.day_equity = cash;
    s.rate = rate;
    s.scale = scale;
    s.fast = seeds[fast - 1];
    s.slow = seeds[slow - 1];
    for (int k = fast; k < warm; k++) s.fast = fma(s.weight_fast, bars[k].close - s.fast, s.fast);
    for (int k = slow; k < warm; k++) s.slow = fma(s.weight_slow, bars[k].close - s.slow, s.slow);
    s.over = s.fast > s.slow;
    s.under = s.fast < s.slow;
    int day = 0;
    while (day < n_days && day_ends[day] <= warm) day++;  // days count from the start of trading on
    for (int k = warm; k < n;) {
        // A run of bars ends with the tile or the day, so the loop over bars tests neither.
        int from = k / TILE * TILE;
        __syncthreads();
        for (int i = threadIdx.x; i < TILE && from + i < n; i += blockDim.x)
            tile[i] = bars[from + i];
        __syncthreads();
        int tile_end = min(from + TILE, n);
        while (k < tile_end) {
            int end = day < n_days ? min(day_ends[day], tile_end) : tile_end;
            for (; k + UNROLL <= end; k += UNROLL) {
                Bar ahead[UNROLL];  // loaded together: a branch of a step holds no load up
#pragma unroll
                for (int u = 0; u < UNROLL; u++) ahead[u] = tile[k - from + u];
#pragma unroll
                for (int u = 0; u < UNROLL; u++) step(s, ahead[u], k + u);
            }
            for (; k < end; k++) step(s, tile[k - from], k);
            if (day < n_days && k == day_ends[day]) {
                end_day(s);
                day++;
            }
        }
    }
    if (s.held != 0) {  // the run closes what is open at the last price
        fill(s, bars[n - 1].close_money, n - 1);
        s.equity = s.cash;
        s.trough = fmin(s.trough, s.equity);
    }
    settle_drawdown(s);
    if (day_ends[n_days - 1] != n) end_day(s);
    if (real_lane)
        results[lane] = {s.trades, s.wins, s.profit, s.loss, s.fees, s.cash, s.equity, s.peak,
                         s.dd_drop, s.dd_peak, s.days, s.returns, s.squares, s.in_market};
}

// Runs the kernel `rounds` times over host arrays; seconds[r] is the kernel's time of round r.
// Returns 0 or the CUDA error code.
extern "C" int run_ema_cross(const Bar* bars, int n, const real* seeds, int n_seeds,
        const int* day_ends, int n_days, const int* points, int lanes, int warm, double cash,
        double rate, double scale, Result* results, int block, int rounds, double* seconds) {
    Bar* d_bars; real* d_seeds; int *d_days, *d_points; Result* d_results;
    cudaMalloc(&d_bars, n * sizeof(Bar));
    cudaMalloc(&d_seeds, n_seeds * sizeof(real));
    cudaMalloc(&d_days, n_days * sizeof(int));
    cudaMalloc(&d_points, 2 * lanes * sizeof(int));
    cudaMalloc(&d_results, lanes * sizeof(Result));
    cudaMemcpy(d_bars, bars, n * sizeof(Bar), cudaMemcpyHostToDevice);
    cudaMemcpy(d_seeds, seeds, n_seeds * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemcpy(d_days, day_ends, n_days * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_points, points, 2 * lanes * sizeof(int), cudaMemcpyHostToDevice);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int r = 0; r < rounds; r++) {
        cudaEventRecord(start);
        ema_cross<<<(lanes + block - 1) / block, block>>>(d_bars, n, d_seeds, d_days, n_days,
            d_points, lanes, warm, cash, rate, scale, d_results);
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
