// What one would write by hand for bench/skewed_maker.qdsl: one thread is one parameter
// point. The book is built once, by the host: a thread gets the touch and the equations with each
// message, and looks a level's lots up in its history where an order of its own enters the market.
//
// It returns, to the last digit, what a sweep of the strategy returns for its trades, fills, fees,
// equity and drawdown. Orders travel to the venue and answers back, queue behind the lots that were
// there, are changed, recalled and filled in part; there is no gate, no other kind of order, no
// other metric. Prices are ticks, sizes lots, money whole millionths, times ns.

#include <cuda_runtime.h>
#include <stdint.h>

typedef long long i64;
typedef unsigned long long u64;

struct Message {   // one instant, 72 bytes
    i64 ts, now;         // at the venue, with us
    double base, var_h;  // fair price and lean; variance over the horizon, ticks squared
    u64 bids, asks;      // bit p & 63 of every price p whose level changes
    int first, count;    // of its levels among all
    int bid, ask;        // the touch after it; of a trade: price, lots
    int kind;            // bits: TRADE, BUYS, SELLS, VALID, BOOK (the handler runs), TRADING
    int wide;            // the spread is over 12 ticks
};

enum { TRADE = 1, BUYS = 2, SELLS = 4, VALID = 8, BOOK = 16, TRADING = 32 };

struct Delta { int price, lots; };   // ask levels: the price is negative

struct Past { int at, lots; };   // a level from the delta of this number on

struct Result {   // money, or counts; overflow: a lane had more under way than there is room for
    double trades, wins, gross_profit, gross_loss, fills, fees, equity, dd_drop, dd_peak;
    double bars_in_market, overflow;
};

struct Costs { double cash, scale, rate; i64 money, entry_ns, response_ns; int price_min, prices; };

const int SLOTS = 8, ERRANDS = 16, ANSWERS = 16, ENTRIES = 8;
const i64 NEVER = 4611686018427387904LL;
const int NONE = 2147483647, FAULT = -2147483647;

enum Stage { FREE, LIVE, SENT, OVER };
enum What { SEND, CHANGE, CANCEL };
enum News { FILL, RESTS, END };

struct Order {
    i64 id, fee_paid;
    double fee_due, ahead;
    int stage, lots, done, limit, opens;                 // as the venue has it
    int known, known_opens, asked, wanted, changing;     // as we know it
    int filled;
    bool exit, recalled, fresh;
};

struct Errand { i64 ts, id; int what, slot, lots, limit, opens; };
struct Answer { i64 due; int what, slot, lots, ticks; bool flag; };  // flag: the last; of new terms
struct Entry { int lots, ticks; i64 costs; };

struct Lane {
    i64 next_ts, due;                                    // what a usual message looks at
    u64 buy_marks, sell_marks;
    int buys_to, sells_from, bid, ask, was_bid, was_ask;
    bool valid;
    i64 now, ts, last_arrival, last_due, paused_until, next_id;
    int position, mark;                                  // as we know it
    int held;                                            // as the venue has it
    i64 equity, closing, before, exposed, in_market;     // before: instants that are over
    i64 peak, trough, surface, dd_drop, dd_peak;
    i64 trades, wins, profit, loss, fills, fees;
    double gamma, half_log, full, most;
    int clip, first_level;                               // first: of the message at hand
    bool restless, waking, filled, overflow;
    int working, first_errand, errands, first_answer, answers, first_entry, entries;
    int queue[SLOTS];
    i64 quoted_id[2];
    int quoted_slot[2];
    Order orders[SLOTS];
    Errand errand[ERRANDS];
    Answer answer[ANSWERS];
    Entry entry[ENTRIES];
};

struct Market {
    const Message* messages; const Delta* deltas;
    const Past* past; const int* starts;   // of each price, bids before asks, where its past begins
    int n;
};

__device__ inline int abs_of(int x) { return x < 0 ? -x : x; }
__device__ inline int sign_of(int x) { return (x > 0) - (x < 0); }
__device__ inline bool opposed(i64 a, i64 b) { return (a > 0 && b < 0) || (a < 0 && b > 0); }

// ---- what working orders reserve ----------------------------------------------------------------

__device__ __noinline__ void count_in(Lane& s, Order& o, int times) {
    int opens = min(o.known_opens, abs_of(o.known));
    if (opposed(o.known, s.position) && !(o.exit || o.recalled)) {
        i64 closes = i64(abs_of(o.known) - opens) * times;
        i64 most = abs_of(s.position), closing = s.closing + (o.known > 0 ? closes : -closes);
        s.closing = closing < -most ? -most : closing > most ? most : closing;
    }
}

__device__ __noinline__ void renew(Lane& s) {
    s.closing = 0;
    int kept = 0;
    for (int k = 0; k < s.working; k++) {
        int slot = s.queue[k];
        if (s.orders[slot].stage != FREE) {
            s.queue[k] = s.queue[kept];
            s.queue[kept++] = slot;
            count_in(s, s.orders[slot], 1);
        }
    }
    s.working = kept;
}

__device__ inline int opening(const Lane& s, int lots) {
    i64 left = s.position + s.closing;
    return opposed(lots, left) ? max(abs_of(lots) - abs_of(int(left)), 0) : abs_of(lots);
}

// ---- to the venue and back ----------------------------------------------------------------------

__device__ __noinline__ void post(Lane& s, const Costs& c, int what, int slot, int lots, int limit,
                                  int opens) {
    if (s.errands == ERRANDS) { s.overflow = true; return; }
    i64 ts = max(s.now + c.entry_ns, s.last_arrival);
    s.errand[(s.first_errand + s.errands++) % ERRANDS] =
        {ts, s.orders[slot].id, what, slot, lots, limit, opens};
    s.last_arrival = ts;
    s.next_ts = min(s.next_ts, ts);
}

__device__ __noinline__ void tell(Lane& s, const Costs& c, int what, int slot, int lots, int ticks,
                                  bool flag) {
    if (s.answers == ANSWERS) { s.overflow = true; return; }
    i64 due = max(s.ts + c.response_ns, s.last_due);
    s.answer[(s.first_answer + s.answers++) % ANSWERS] = {due, what, slot, lots, ticks, flag};
    s.last_due = due;
    s.due = min(s.due, due);
}

__device__ inline i64 first_arrival(const Lane& s) {
    return s.errands ? s.errand[s.first_errand % ERRANDS].ts : NEVER;
}

__device__ __noinline__ void watch(Lane& s) {
    s.restless = false;
    s.buys_to = FAULT;
    s.sells_from = NONE;
    s.buy_marks = s.sell_marks = 0;
    s.next_ts = first_arrival(s);
    for (int k = 0; k < s.working; k++) {
        const Order& o = s.orders[s.queue[k]];
        if (o.stage != LIVE) continue;
        if (o.lots > 0) {
            s.buys_to = max(s.buys_to, o.limit);
            s.buy_marks |= 1ull << (o.limit & 63);
        } else {
            s.sells_from = min(s.sells_from, o.limit);
            s.sell_marks |= 1ull << (o.limit & 63);
        }
    }
}

__device__ inline void over(Lane& s, const Costs& c, int slot) {
    Order& o = s.orders[slot];
    if (o.stage == OVER || o.stage == FREE) return;
    o.stage = OVER;
    tell(s, c, END, slot, 0, 0, true);
}

// Lots of others at a price, before the message at hand.
__device__ __noinline__ int level_lots(Lane& s, const Costs& c, const Market& m, bool buys,
                                       int price) {
    int at = (buys ? 0 : c.prices) + price - c.price_min;
    if (price < c.price_min || price >= c.price_min + c.prices) {
        s.overflow = true;
        return 0;
    }
    int low = m.starts[at], high = m.starts[at + 1];
    while (low < high) {  // the first that is not yet told
        int mid = (low + high) / 2;
        if (m.past[mid].at < s.first_level) low = mid + 1;
        else high = mid;
    }
    return low > m.starts[at] ? m.past[low - 1].lots : 0;
}

__device__ __noinline__ void enter(Lane& s, const Costs& c, const Market& m, int slot) {
    Order& o = s.orders[slot];
    s.restless = true;
    bool buys = o.lots > 0;
    if (!s.valid || (buys ? s.ask <= o.limit : s.bid >= o.limit)) {
        over(s, c, slot);
        return;
    }
    for (int k = 0; k < s.working; k++) {
        const Order& other = s.orders[s.queue[k]];
        if (other.stage == LIVE && (other.lots > 0) != buys
            && (buys ? other.limit <= o.limit : other.limit >= o.limit)) over(s, c, s.queue[k]);
    }
    o.ahead = level_lots(s, c, m, buys, o.limit);
    tell(s, c, RESTS, slot, o.lots, o.limit, false);
}

__device__ __noinline__ void calm(Lane& s, const Costs& c, const Market& m) {
    bool waking = s.waking;
    s.waking = false;
    for (int turn = 0; waking && turn < SLOTS; turn++) {
        waking = false;
        for (int k = 0; k < s.working; k++) {
            Order& o = s.orders[s.queue[k]];
            if (!o.fresh) continue;
            o.fresh = false;
            if (o.stage == LIVE) {
                enter(s, c, m, s.queue[k]);
                waking = true;
            }
        }
    }
    if (s.restless) watch(s);
}

__device__ __noinline__ void arrive(Lane& s, const Costs& c, const Errand& e) {
    Order& o = s.orders[e.slot];
    if (o.id != e.id || o.stage == OVER || o.stage == FREE) return;
    s.restless = true;
    if (e.what == CANCEL) {
        over(s, c, e.slot);
    } else if (e.what == CHANGE) {
        int left = e.lots - o.filled;
        if (left == 0 || opposed(left, o.lots)) {
            over(s, c, e.slot);
            return;
        }
        bool stays = e.limit == o.limit && abs_of(left) <= abs_of(o.lots);
        o.lots = left;
        o.limit = e.limit;
        o.opens = e.opens;
        if (o.stage == LIVE && !stays) o.fresh = s.waking = true;
        tell(s, c, RESTS, e.slot, o.lots, o.limit, true);
    } else if (!s.valid) {
        over(s, c, e.slot);
    } else {
        o.stage = LIVE;
        o.fresh = s.waking = true;
    }
}

__device__ __noinline__ void travel(Lane& s, const Costs& c, const Market& m, i64 ts) {
    while (first_arrival(s) < ts) {
        Errand e = s.errand[s.first_errand++ % ERRANDS];
        s.errands--;
        s.ts = e.ts;
        arrive(s, c, e);
        calm(s, c, m);
    }
    calm(s, c, m);
    watch(s);
}

// ---- fills --------------------------------------------------------------------------------------

__device__ __noinline__ int fill(Lane& s, const Costs& c, int slot, int lots, int ticks) {
    Order& o = s.orders[slot];
    int against = opposed(lots, s.held) ? abs_of(s.held) : 0;
    int opens = min(o.opens, abs_of(o.lots)), most = min(against + opens, abs_of(o.lots));
    if (most == 0) {
        over(s, c, slot);
        return 0;
    }
    int done = min(abs_of(lots), most), left = most - done, sign = sign_of(lots);
    o.lots = sign * left;
    o.opens = max(opens - max(done - against, 0), 0);
    o.filled += sign * done;
    s.held += sign * done;
    if (left == 0) o.stage = OVER;
    s.restless = true;
    tell(s, c, FILL, slot, sign * done, ticks, o.stage == OVER);
    for (int k = 0; k < s.working; k++) {
        int n = s.queue[k];
        const Order& other = s.orders[n];
        if (n != slot && other.stage != FREE && other.stage != OVER && other.exit
            && !opposed(other.lots, s.held)) over(s, c, n);
    }
    return done;
}

__device__ __noinline__ void traded(Lane& s, const Costs& c, const Market& m, int price, int lots,
                                    int kind) {
    int left = lots;
    for (int k = 0; k < s.working; k++) {
        int slot = s.queue[k];
        Order& o = s.orders[slot];
        bool buys = o.lots > 0;
        if (o.stage != LIVE || (kind & (buys ? BUYS : SELLS))) continue;
        if (o.limit == price) {
            double past = left - o.ahead;
            o.ahead = fmax(o.ahead - left, 0.0);
            if (past >= 1.0) {
                int lot = min(int(past), abs_of(o.lots));
                left -= fill(s, c, slot, buys ? lot : -lot, o.limit);
            }
        } else if ((price < o.limit) == buys) {
            fill(s, c, slot, o.lots, o.limit);
        }
    }
    calm(s, c, m);
}

__device__ __noinline__ void crossed(Lane& s, const Costs& c, const Market& m, bool fell,
                                     bool rose) {
    for (int k = 0; k < s.working; k++) {
        int slot = s.queue[k];
        const Order& o = s.orders[slot];
        if (o.stage != LIVE) continue;
        bool buys = o.lots > 0, met = buys ? s.ask <= o.limit : s.bid >= o.limit;
        if ((buys ? fell : rose) && met) fill(s, c, slot, o.lots, o.limit);
    }
    calm(s, c, m);
}

// A level of ours changes: who leaves it stood behind us.
__device__ __noinline__ void requeue(Lane& s, bool buys, int price, int lots) {
    for (int k = 0; k < s.working; k++) {
        Order& o = s.orders[s.queue[k]];
        bool here = o.stage == LIVE && o.limit == price && (o.lots > 0) == buys;
        if (here) o.ahead = fmin(o.ahead, double(lots));
    }
}

// ---- the account --------------------------------------------------------------------------------

__device__ __forceinline__ void mark(Lane& s, const Costs& c) {
    if (!s.valid) return;
    if (s.position == 0) {
        s.mark = (s.bid + s.ask) >> 1;
    } else {
        int ticks = s.position > 0 ? s.bid : s.ask;
        s.equity += i64(s.position) * (ticks - s.mark) * c.money;
        s.mark = ticks;
    }
}

__device__ inline i64 share(i64 money, int part, int whole) {
    if (part == whole || money == 0) return money;
    return i64(rint(double(money) * (double(part) / double(whole))));
}

__device__ __noinline__ void book(Lane& s, const Costs& c, int lots, int ticks, i64 fee) {
    int before = s.position, least = min(abs_of(lots), abs_of(before));
    int closing = opposed(lots, before) ? sign_of(lots) * least : 0;
    i64 closing_fee = share(fee, abs_of(closing), abs_of(lots));
    s.equity += i64(lots) * (s.mark - ticks) * c.money - fee;
    s.position += lots;
    int left = closing;
    i64 fee_left = closing_fee;
    while (left != 0) {
        Entry& e = s.entry[s.first_entry % ENTRIES];
        int closed = sign_of(e.lots) * min(abs_of(left), abs_of(e.lots));
        i64 exit_fee = share(fee_left, abs_of(closed), abs_of(left));
        i64 costs = share(e.costs, abs_of(closed), abs_of(e.lots));
        i64 net = i64(ticks - e.ticks) * closed * c.money - (costs + exit_fee);
        s.trades++;
        s.wins += net > 0;
        s.profit += net > 0 ? net : 0;
        s.loss += net < 0 ? -net : 0;
        fee_left -= exit_fee;
        left += closed;
        e.lots -= closed;
        e.costs -= costs;
        if (e.lots == 0) {
            s.first_entry++;
            s.entries--;
        }
    }
    if (lots == closing) return;
    fee -= closing_fee;
    lots -= closing;
    if (s.entries == ENTRIES) {
        Entry& e = s.entry[(s.first_entry + ENTRIES - 1) % ENTRIES];
        e.costs += fee + i64(ticks - e.ticks) * lots * c.money;
        e.lots += lots;
    } else {
        s.entry[(s.first_entry + s.entries++) % ENTRIES] = {lots, ticks, fee};
    }
}

__device__ __noinline__ void hear(Lane& s, const Costs& c) {
    Answer a = s.answer[s.first_answer++ % ANSWERS];
    s.answers--;
    s.due = s.answers ? s.answer[s.first_answer % ANSWERS].due : NEVER;
    Order& o = s.orders[a.slot];
    if (a.what == FILL) {
        int against = opposed(a.lots, s.position) ? abs_of(s.position) : 0;
        int opens = min(o.known_opens, abs_of(o.known));
        o.known_opens = max(opens - max(abs_of(a.lots) - against, 0), 0);
        o.known -= a.lots;
        double notional = double(i64(abs_of(a.lots)) * a.ticks * c.money);
        o.fee_due += c.scale * (notional / c.scale * c.rate);
        i64 fee = i64(rint(o.fee_due)) - o.fee_paid;
        o.fee_paid += fee;
        o.done += a.lots;
        if (s.before >= s.exposed) {
            s.in_market += (s.position != 0 ? s.before - s.exposed : 0) + 1;
            s.exposed = s.before + 1;
        }
        book(s, c, a.lots, a.ticks, fee);
        s.fills++;
        s.fees += fee;
        s.filled = true;
        mark(s, c);
        if (a.flag) o.stage = FREE;
    } else if (a.what == RESTS) {
        o.changing -= a.flag;
        if (o.changing == 0) o.known = a.lots;
    } else {
        o.stage = FREE;
    }
}

// ---- the strategy -------------------------------------------------------------------------------

__device__ inline int standing(const Lane& s, int side) {
    int slot = s.quoted_slot[side];
    const Order& o = s.orders[slot];
    bool ours = s.quoted_id[side] && o.id == s.quoted_id[side] && o.stage != FREE && !o.recalled;
    return ours ? slot : -1;
}

__device__ __noinline__ void recall(Lane& s, const Costs& c, int slot) {
    if (s.orders[slot].recalled) return;
    s.orders[slot].recalled = true;
    post(s, c, CANCEL, slot, 0, 0, 0);
}

__device__ __noinline__ void change(Lane& s, const Costs& c, int slot, int limit, int lots) {
    Order& o = s.orders[slot];
    int known = o.known;
    bool exit = o.exit;
    i64 closing = s.closing < 0 ? -s.closing : s.closing;
    bool apart = !(closing != 0 && closing == abs_of(s.position));
    if (apart) count_in(s, o, -1);
    o.known = 0;
    o.exit = true;
    if (!apart) renew(s);
    int opens = exit ? 0 : opening(s, lots);
    o.exit = exit;
    o.known = abs_of(lots) > abs_of(known) ? lots : known;
    o.asked = limit;
    o.changing++;
    o.known_opens = max(o.known_opens, opens);
    post(s, c, CHANGE, slot, lots + o.done, limit, opens);
    if (apart) count_in(s, o, 1);
    else renew(s);
    o.wanted = lots;
}

__device__ __noinline__ void send(Lane& s, const Costs& c, int side, int limit, int lots) {
    if (s.working == SLOTS) { s.overflow = true; return; }
    int opens = opening(s, lots), slot = s.queue[s.working++];
    Order& o = s.orders[slot];
    o = {};
    o.id = s.next_id++;
    o.stage = SENT;
    o.lots = o.known = o.wanted = lots;
    o.limit = o.asked = limit;
    o.opens = o.known_opens = opens;
    o.exit = opens == 0;
    s.quoted_id[side] = o.id;
    s.quoted_slot[side] = slot;
    post(s, c, SEND, slot, 0, 0, 0);
    count_in(s, o, 1);
}

__device__ __noinline__ void quote(Lane& s, const Costs& c, int side, int limit, int lots) {
    int slot = standing(s, side);
    if (slot < 0) {
        if (lots != 0) send(s, c, side, limit, lots);
    } else if (lots == 0) {
        recall(s, c, slot);
        renew(s);
    } else {
        change(s, c, slot, limit, lots);
    }
}

__device__ __forceinline__ bool moved(const Lane& s, int side, int limit, int lots) {
    int slot = standing(s, side);
    if (slot < 0) return lots != 0;
    return limit != s.orders[slot].asked || lots != s.orders[slot].wanted;
}

__device__ __forceinline__ void handle(Lane& s, const Costs& c, const Message& m) {
    if (s.now < s.paused_until || m.wide) {
        if (s.working == 0) return;
        for (int k = 0; k < s.working; k++)
            if (s.orders[s.queue[k]].stage != FREE) recall(s, c, s.queue[k]);
        renew(s);
        return;
    }
    double pull = s.gamma * m.var_h * (double(s.position) / 1000.0) / s.most;
    double centre = m.base - fmin(fmax(pull, -5.0), 5.0) * 0.1;
    double half = fmax(1.0, fmin(s.gamma * m.var_h / 2.0, 3.0) + s.half_log) * 0.1;
    double low = fmin(centre - half, double(s.ask) / 10.0 - 0.1) * 10.0;
    double high = fmax(centre + half, double(s.bid) / 10.0 + 0.1) * 10.0;
    int bid = int(floor(low + fabs(low) * 1.4210854715202004e-14));
    int ask = int(ceil(high - fabs(high) * 1.4210854715202004e-14));
    int buys = s.position < 100 ? s.clip : 0, sells = s.position > -100 ? -s.clip : 0;
    bool bid_moved = moved(s, 0, bid, buys), ask_moved = moved(s, 1, ask, sells);
    if (bid_moved) quote(s, c, 0, bid, buys);
    if (ask_moved) quote(s, c, 1, ask, sells);
}

__device__ __noinline__ void drawdown(Lane& s) {
    i64 drop = s.peak - s.trough;
    if (double(drop) * double(s.dd_peak) > double(s.dd_drop) * double(s.peak)) {
        s.dd_drop = drop;
        s.dd_peak = s.peak;
    }
}

__device__ __forceinline__ void count(Lane& s) {
    if (s.equity < s.trough) {
        if (s.trough == s.peak) s.surface = s.peak;
        s.trough = s.equity;
    } else if (s.equity >= s.surface) {
        if (s.trough < s.peak) drawdown(s);
        s.peak = s.trough = s.equity;
        s.surface = s.equity + 1;
    }
}

__device__ __noinline__ void hear_all(Lane& s, const Costs& c, i64 now, bool trading) {
    while (s.due <= now) hear(s, c);
    renew(s);
    if (s.filled && trading && fabs(double(abs_of(s.position)) / 1000.0) > 0.8 * s.full)
        s.paused_until = s.now + 250000000;
    s.filled = false;
}

__device__ __forceinline__ void step(Lane& s, const Costs& c, const Market& all, const Message& m) {
    s.first_level = m.first;
    if (m.ts > s.next_ts) travel(s, c, all, m.ts);
    s.now = m.now;
    s.ts = m.ts;
    if (m.kind & TRADE) {
        if ((!(m.kind & BUYS) && m.bid <= s.buys_to) || (!(m.kind & SELLS) && m.bid >= s.sells_from))
            traded(s, c, all, m.bid, m.ask, m.kind);
    } else {
        bool ours = (m.bids & s.buy_marks) | (m.asks & s.sell_marks);
        for (int k = m.first; ours && k < m.first + m.count; k++) {
            Delta d = all.deltas[k];
            bool buys = d.price > 0;
            int price = abs_of(d.price);
            if ((buys ? s.buy_marks : s.sell_marks) >> (price & 63) & 1) requeue(s, buys, price, d.lots);
        }
        s.bid = m.bid;
        s.ask = m.ask;
        s.valid = m.kind & VALID;
        if (s.valid) {
            bool fell = s.ask < s.was_ask, rose = s.bid > s.was_bid;
            s.was_bid = s.bid;
            s.was_ask = s.ask;
            if ((s.ask <= s.buys_to && fell) || (s.bid >= s.sells_from && rose)) crossed(s, c, all, fell, rose);
        }
    }
    if (s.now >= s.due) hear_all(s, c, s.now, m.kind & TRADING);
    mark(s, c);
    if (m.kind & BOOK) handle(s, c, m);
    count(s);
    s.before++;
}

__device__ void run_lane(const Market& m, const Costs& c, double gamma, double half_log, double clip,
                         Result& result) {
    Lane s = {};
    s.next_ts = s.due = NEVER;
    s.buys_to = s.was_bid = FAULT;
    s.sells_from = s.was_ask = NONE;
    s.equity = s.peak = s.trough = s.surface = s.dd_peak = i64(c.cash);
    s.gamma = gamma;
    s.half_log = half_log;
    s.clip = int(clip);
    s.full = s.most = 100.0 / 1000.0;
    s.next_id = 1;
    s.paused_until = -NEVER;
    for (int k = 0; k < SLOTS; k++) s.queue[k] = k;
    for (int k = 0; k < m.n; k++) step(s, c, m, m.messages[k]);
    while (s.due < NEVER) hear(s, c);
    if (s.trough < s.peak) drawdown(s);
    if (s.position != 0 || s.exposed > s.before) s.in_market += s.before - s.exposed;
    result = {double(s.trades), double(s.wins), double(s.profit), double(s.loss), double(s.fills),
              double(s.fees), double(s.equity), double(s.dd_drop), double(s.dd_peak),
              double(s.in_market), double(s.overflow)};
}

// points: gamma, log(1 + gamma / kappa) / gamma, clip of every lane.
__global__ __launch_bounds__(128) void skewed_maker(Market m, Costs c, const double* points, int lanes, Result* results) {
    int lane = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane < lanes)
        run_lane(m, c, points[lane], points[lanes + lane], points[2 * lanes + lane], results[lane]);
}

// Runs the kernel `rounds` times over host arrays; seconds[r] is the kernel's time of round r.
// Returns 0 or the CUDA error code.
extern "C" int run_skewed_maker(const Message* messages, int n, const Delta* deltas, int n_deltas,
        const Past* past, int n_past, const int* starts, int n_starts, const double* points,
        int lanes, const Costs* costs, Result* results, int block, int rounds, double* seconds) {
    Message* d_messages; Delta* d_deltas; Past* d_past; int* d_starts;
    double* d_points; Result* d_results;
    cudaMalloc(&d_messages, n * sizeof(Message));
    cudaMalloc(&d_deltas, n_deltas * sizeof(Delta));
    cudaMalloc(&d_past, n_past * sizeof(Past));
    cudaMalloc(&d_starts, n_starts * sizeof(int));
    cudaMalloc(&d_points, 3 * lanes * sizeof(double));
    cudaMalloc(&d_results, lanes * sizeof(Result));
    cudaMemcpy(d_messages, messages, n * sizeof(Message), cudaMemcpyHostToDevice);
    cudaMemcpy(d_deltas, deltas, n_deltas * sizeof(Delta), cudaMemcpyHostToDevice);
    cudaMemcpy(d_past, past, n_past * sizeof(Past), cudaMemcpyHostToDevice);
    cudaMemcpy(d_starts, starts, n_starts * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_points, points, 3 * lanes * sizeof(double), cudaMemcpyHostToDevice);
    Market market = {d_messages, d_deltas, d_past, d_starts, n};
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int r = 0; r < rounds; r++) {
        cudaEventRecord(start);
        skewed_maker<<<(lanes + block - 1) / block, block>>>(market, *costs, d_points, lanes,
                                                            d_results);
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        float ms = 0;
        cudaEventElapsedTime(&ms, start, stop);
        seconds[r] = ms * 1e-3;
    }
    cudaMemcpy(results, d_results, lanes * sizeof(Result), cudaMemcpyDeviceToHost);
    int code = cudaGetLastError();
    cudaFree(d_messages); cudaFree(d_deltas); cudaFree(d_past); cudaFree(d_starts);
    cudaFree(d_points); cudaFree(d_results);
    return code;
}
