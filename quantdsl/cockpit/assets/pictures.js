"use strict";
// What is drawn: price with orders and fills, equity and drawdown, the book, the latency.

// ---- price -------------------------------------------------------------------------------------

const MARKERS_MAX = 300;
const priceChart = newChart("chart");
const candles = priceChart.addSeries(L.CandlestickSeries, { priceLineVisible: true, borderVisible: false });
const marks = L.createSeriesMarkers(candles, []);
priceChart.timeScale().applyOptions({ rightOffset: 6, barSpacing: 7, secondsVisible: true });
repaints.push(() => candles.applyOptions({
  upColor: css("--gain"), downColor: css("--loss"), wickUpColor: css("--gain"), wickDownColor: css("--loss"),
}));
// Rows as they came by their second, and the candles that are drawn of them: `each` seconds wide.
const bars = { rows: new Map(), times: [], native: 60, each: 60 };
const WIDTHS = { 5: "5 s", 15: "15 s", 60: "1 min", 300: "5 min", 900: "15 min", 3600: "1 h" };
const opening = (time) => Math.floor(time / bars.each) * bars.each;

function candle(rows) {
  return {
    time: opening(rows[0].time), open: rows[0].open, high: Math.max(...rows.map((row) => row.high)),
    low: Math.min(...rows.map((row) => row.low)), close: rows.at(-1).close,
  };
}
function drawAll() {
  const groups = new Map();
  for (const row of [...bars.rows.values()].sort((a, b) => a.time - b.time)) {
    const time = opening(row.time);
    if (!groups.has(time)) groups.set(time, []);
    groups.get(time).push(row);
  }
  bars.times = [...groups.keys()];
  candles.setData([...groups.values()].map(candle));
}
function drawBars(rows, whole, symbol) {
  const ordered = rows.map((row) => ({ ...row, time: Math.floor(row.ts / 1e9) })).sort((a, b) => a.time - b.time);
  if (whole) {
    bars.rows = new Map(ordered.map((row) => [row.time, row]));
    const digits = instrument(symbol).price_digits;
    candles.applyOptions({ priceFormat: { type: "custom", minMove: 10 ** -digits, formatter: (value) => fixed(value, digits) } });
    offerWidths();
    drawAll();
    priceChart.timeScale().scrollToRealTime();
    return;
  }
  const latest = bars.times.at(-1) ?? 0;
  for (const row of ordered) bars.rows.set(row.time, row);
  const wider = bars.rows.size < 100 && offerWidths();
  if (wider || ordered.some((row) => row.time < latest)) return drawAll();
  for (const time of new Set(ordered.map((row) => opening(row.time)))) {
    const inside = [];
    for (let second = time; second < time + bars.each; second++) {
      const row = bars.rows.get(second);
      if (row) inside.push(row);
    }
    candles.update(candle(inside));
    if (time !== bars.times.at(-1)) bars.times.push(time);
  }
}
// Bars of a second are made for no eye: they are drawn wider unless somebody chooses otherwise.
// True if the bars turned out to be of another width than they seemed.
function offerWidths() {
  const times = [...bars.rows.keys()].sort((a, b) => a - b);
  const steps = times.slice(1).map((time, i) => time - times[i]);
  const least = steps.length ? Math.min(...steps) : bars.native;
  const native = least < 5 ? 1 : least; // some seconds may have no bar
  const select = at("width");
  if (native === bars.native && select.options.length) return false;
  bars.native = native;
  bars.each = native < 5 ? 15 : native;
  const wider = Object.entries(WIDTHS).filter(([seconds]) => Number(seconds) > native && seconds % native === 0);
  const name = WIDTHS[native] ?? (native < 60 ? `${native} s` : `${fixed(native / 60, 0)} min`);
  select.replaceChildren(new Option(name, native), ...wider.map(([seconds, text]) => new Option(text, seconds)));
  select.value = String(bars.each);
  select.disabled = select.options.length < 2;
  return true;
}
at("width").addEventListener("change", () => {
  bars.each = Number(at("width").value);
  drawAll();
  if (session) drawFills(fills, symbol);
  priceChart.timeScale().scrollToRealTime();
});
// The bar in which a moment lies: the last that opened at or before it.
function barAt(seconds) {
  let [low, high] = [0, bars.times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars.times[middle] <= seconds) low = middle + 1;
    else high = middle;
  }
  return bars.times[Math.max(0, low - 1)];
}
function drawFills(fills, symbol) {
  const first = bars.times[0];
  const seen = fills.filter((fill) => fill.symbol === symbol && fill.ts / 1e9 >= first).slice(-MARKERS_MAX);
  marks.setMarkers(seen.map((fill) => {
    const buys = fill.side === "buy";
    return {
      time: barAt(fill.ts / 1e9), position: buys ? "belowBar" : "aboveBar", shape: buys ? "arrowUp" : "arrowDown",
      color: css(buys ? "--accent" : "--warn"), size: 1,
    };
  }));
}
const lines = new Map();
function drawLines(working, positions, symbol) {
  const wanted = new Map();
  for (const order of working) {
    if (order.symbol !== symbol || !known(order.price)) continue;
    wanted.set(`o${order.strategy} ${order.id}`, {
      price: order.price, color: css(order.side === "buy" ? "--accent" : "--warn"), lineStyle: 2, lineWidth: 1,
      title: `${order.side} ${left(order)}`, axisLabelVisible: true,
    });
  }
  for (const held of positions) {
    if (held.symbol !== symbol || !held.quantity) continue;
    wanted.set(`p${held.strategy}`, {
      price: held.price, color: css("--dim"), lineStyle: 0, lineWidth: 1,
      title: `${held.quantity > 0 ? "long" : "short"} ${units(symbol, Math.abs(held.quantity))}`, axisLabelVisible: true,
    });
  }
  for (const [key, line] of lines) {
    if (wanted.has(key)) continue;
    candles.removePriceLine(line.drawn);
    lines.delete(key);
  }
  for (const [key, options] of wanted) {
    const text = JSON.stringify(options);
    const line = lines.get(key);
    if (!line) lines.set(key, { drawn: candles.createPriceLine(options), text });
    else if (line.text !== text) {
      line.drawn.applyOptions(options);
      line.text = text;
    }
  }
}
at("follow").addEventListener("click", () => priceChart.timeScale().scrollToRealTime());
priceChart.subscribeCrosshairMove((move) => {
  const row = move.seriesData.get(candles);
  const write = candles.options().priceFormat.formatter;
  const text = row ? ["open", "high", "low", "close"].map((name) => `${name} ${write(row[name])}`).join("  ") : "";
  put(at("legend"), text);
});

// ---- equity and drawdown -----------------------------------------------------------------------

const moneyChart = newChart("money");
moneyChart.applyOptions({ rightPriceScale: { minimumWidth: 62 }, handleScroll: false, handleScale: false });
const level = moneyChart.addSeries(L.BaselineSeries, {
  lineWidth: 2, priceLineVisible: false, priceFormat: { type: "custom", minMove: 0.01, formatter: (v) => fixed(v, 0) },
});
const under = moneyChart.addSeries(L.BaselineSeries, {
  baseValue: { type: "price", price: 0 }, lineWidth: 1, priceLineVisible: false,
  priceFormat: { type: "custom", minMove: 0.001, formatter: (v) => `${fixed(v, v && Math.abs(v) < 0.1 ? 4 : 2)} %` },
}, 1);
moneyChart.panes()[0].setStretchFactor(2.2);
moneyChart.panes()[1].setStretchFactor(1);
repaints.push(() => {
  const [gain, loss] = [css("--gain"), css("--loss")];
  level.applyOptions({
    topLineColor: gain, topFillColor1: `${gain}40`, topFillColor2: `${gain}08`,
    bottomLineColor: loss, bottomFillColor1: `${loss}08`, bottomFillColor2: `${loss}40`,
  });
  under.applyOptions({ topLineColor: loss, bottomLineColor: loss, bottomFillColor1: `${loss}18`, bottomFillColor2: `${loss}50` });
});
let lastPoint = 0;
function drawMoney(points, whole, start) {
  const rows = new Map(points.filter((p) => known(p[1])).map(([t, equity, lost]) => [Math.floor(t), [equity, -100 * lost]]));
  if (whole) {
    level.applyOptions({ baseValue: { type: "price", price: start } });
    level.setData([...rows].map(([time, [value]]) => ({ time, value })));
    under.setData([...rows].map(([time, [, value]]) => ({ time, value })));
  } else {
    for (const [time, [equity, lost]] of rows) {
      if (time < lastPoint) continue;
      level.update({ time, value: equity });
      under.update({ time, value: lost });
    }
  }
  lastPoint = Math.max(whole ? 0 : lastPoint, ...rows.keys());
  moneyChart.timeScale().fitContent();
}

// ---- book --------------------------------------------------------------------------------------

const ROW_PX = 19;
const ladder = at("book");
let depth = 0;
function layLadder() {
  const wanted = Math.max(3, Math.min(12, Math.floor((ladder.clientHeight / ROW_PX - 1) / 2)));
  if (wanted === depth) return;
  depth = wanted;
  const rows = [];
  for (let i = 0; i < 2 * depth; i++) {
    const row = make("div", i < depth ? "ask" : "bid");
    row.append(make("i"), make("span", "mine"), make("b"), make("span"), make("span", "dim"));
    rows.push(row);
  }
  const middle = make("div", "middle");
  middle.append(make("span"), make("span"));
  ladder.replaceChildren(...rows.slice(0, depth), middle, ...rows.slice(depth));
}
new ResizeObserver(layLadder).observe(ladder);
function drawBook(book, working, symbol) {
  at("top").classList.toggle("bookless", !book);
  layLadder();
  ladder.classList.toggle("invalid", Boolean(book) && !book.valid);
  const asks = (book?.asks ?? []).slice(0, depth);
  const bids = (book?.bids ?? []).slice(0, depth);
  const mine = new Map();
  for (const order of working) {
    if (order.symbol !== symbol || !known(order.price)) continue;
    const key = `${order.side} ${price(symbol, order.price)}`;
    mine.set(key, (mine.get(key) ?? 0) + order.quantity - order.filled);
  }
  const totals = (levels) => levels.reduce((sums, [, quantity]) => [...sums, (sums.at(-1) ?? 0) + quantity], []);
  const [askTotals, bidTotals] = [totals(asks), totals(bids)];
  const most = Math.max(askTotals.at(-1) ?? 0, bidTotals.at(-1) ?? 0, 1e-12);
  const row = (element, level, total, side) => {
    const [bar, own, priced, quantity, sum] = element.children;
    bar.style.transform = `scaleX(${level ? total / most : 0})`;
    const ours = level && mine.get(`${side} ${price(symbol, level[0])}`);
    put(own, ours ? `◆${units(symbol, ours)}` : "");
    put(priced, level ? price(symbol, level[0]) : "");
    put(quantity, level ? units(symbol, level[1]) : "");
    put(sum, level ? units(symbol, total) : "");
  };
  for (let i = 0; i < depth; i++) {
    row(ladder.children[depth - 1 - i], asks[i], askTotals[i], "sell");
    row(ladder.children[depth + 1 + i], bids[i], bidTotals[i], "buy");
  }
  const both = asks.length && bids.length;
  const wide = both ? asks[0][0] - bids[0][0] : NaN;
  const middle = both ? (asks[0][0] + bids[0][0]) / 2 : NaN;
  put(ladder.children[depth].children[0], both ? `mid ${price(symbol, middle)}` : "");
  put(ladder.children[depth].children[1], both ? `spread ${price(symbol, wide)} · ${fixed((wide / middle) * 1e4, 2)} bp` : "");
  put(at("book-note"), book?.valid ?? true ? "price · size · sum" : "invalid: waits for a snapshot");
  ladder.setAttribute("aria-label", both ? `Order book: bid ${price(symbol, bids[0][0])}, ask ${price(symbol, asks[0][0])}` : "Order book: empty");
}

// ---- latency -----------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const histogram = document.createElementNS(SVG, "svg");
histogram.setAttribute("preserveAspectRatio", "none");
at("latency").append(histogram);
function drawLatency(view) {
  const first = view ? view.counts.findIndex((n) => n > 0) : -1;
  const percentiles = at("percentiles");
  if (first < 0) {
    histogram.replaceChildren();
    put(percentiles, "nothing measured yet");
    return;
  }
  let last = view.counts.length - 1;
  while (view.counts[last] === 0) last--;
  const counts = view.counts.slice(first, last + 1);
  const most = Math.log1p(Math.max(...counts));
  histogram.setAttribute("viewBox", `0 0 ${counts.length} 1`);
  while (histogram.children.length > counts.length) histogram.lastChild.remove();
  while (histogram.children.length < counts.length) {
    const bar = document.createElementNS(SVG, "rect");
    bar.append(document.createElementNS(SVG, "title"));
    histogram.append(bar);
  }
  counts.forEach((n, i) => {
    const bar = histogram.children[i];
    const high = Math.log1p(n) / most;
    for (const [name, value] of [["x", i + 0.08], ["width", 0.84], ["y", 1 - high], ["height", high]]) bar.setAttribute(name, value);
    put(bar.firstChild, `up to ${span(view.upto_ns[first + i])}: ${count(n)}`);
  });
  if (!percentiles.querySelector("b")) {
    percentiles.replaceChildren(...["median", "99 %", "99.9 %", "max"].map((name) => {
      const part = make("span", "", name);
      part.append(make("b"));
      return part;
    }));
  }
  [view.p50_ns, view.p99_ns, view.p999_ns, view.max_ns].forEach((ns, i) => put(percentiles.children[i].lastChild, span(ns)));
  at("latency").setAttribute("aria-label", `Latency, ${view.name}: median ${span(view.p50_ns)}, 99 % ${span(view.p99_ns)}, most ${span(view.max_ns)}`);
}
