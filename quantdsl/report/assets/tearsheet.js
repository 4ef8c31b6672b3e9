// The charts and the trade list of one run, from the JSON in #run.

const PALETTE = ["#f28e2b", "#4e79a7", "#b07aa1", "#59a14f", "#edc948", "#9c755f"];
// The colour names of the language in tones that can be read on light and on dark.
const TONES = {
  blue: "#4878d0", orange: "#ee9b3a", red: "#d65f5f", green: "#4aa564", purple: "#9673c6",
  yellow: "#d8b83f", teal: "#3aa6a0", pink: "#d87fb0", brown: "#9a7153", gray: "#8a93a0",
  grey: "#8a93a0", black: "#5b6570", white: "#aeb6c0",
};
const MARKERS_MAX = 400; // more arrows than this in view hide the price
const PAGE_ROWS = 25;

// ---- price, entries and exits ------------------------------------------------------------------

const trades = {
  entry: f64(run.trades.entry), exit: f64(run.trades.exit),
  side: run.trades.side, instrument: run.trades.instrument,
  quantity: f64(run.trades.quantity), bars: f64(run.trades.bars),
  entry_price: f64(run.trades.entry_price), exit_price: f64(run.trades.exit_price),
  profit: f64(run.trades.profit), return: f64(run.trades.return), fees: f64(run.trades.fees),
  mae: f64(run.trades.mae), mfe: f64(run.trades.mfe),
};
const priceDigits = Math.min(8, Math.max(0, Math.ceil(-Math.log10(run.price.tick) - 1e-9)));

function drawPrice() {
  const price = run.price;
  const time = f64(price.time);
  if (!time.length) return null;
  const chart = newChart("price");
  const [open, high, low, close] = [price.open, price.high, price.low, price.close].map(f32);
  const format = { type: "price", precision: priceDigits, minMove: 10 ** -priceDigits };
  const candles = chart.addSeries(L.CandlestickSeries, {
    priceFormat: format, priceLineVisible: false, borderVisible: false,
  });
  candles.setData(Array.from(time, (t, i) =>
    ({ time: t, open: open[i], high: high[i], low: low[i], close: close[i] })));
  const legend = document.getElementById("legend");
  let panes = 0;
  price.plots.forEach((plot, i) => {
    const color = TONES[plot.color] || plot.color || PALETTE[i % PALETTE.length];
    const pane = plot.on_price ? 0 : ++panes;
    const line = chart.addSeries(L.LineSeries, {
      color, lineWidth: 2, priceLineVisible: false, lastValueVisible: !plot.on_price,
      crosshairMarkerVisible: false, title: plot.on_price ? "" : plot.name,
    }, pane);
    line.setData(points(time, f32(plot.value)));
    const swatch = document.createElement("i");
    swatch.style.background = color;
    legend.append(swatch, plot.name);
  });
  chart.panes().forEach((pane, i) => pane.setStretchFactor(i ? 1 : 4));
  repaints.push(() => candles.applyOptions({
    upColor: css("--gain"), downColor: css("--loss"),
    wickUpColor: css("--gain"), wickDownColor: css("--loss"),
  }));
  return { chart, candles, time };
}

// The candle in which a moment lies: the last that opened at or before it.
function candleAt(time, seconds) {
  let [low, high] = [0, time.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle] <= seconds) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function followMarkers({ chart, candles, time }) {
  const plugin = L.createSeriesMarkers(candles, []);
  const hint = document.getElementById("price-hint");
  const about = run.price.bars_each > 1 ? `Each candle is ${run.price.bars_each} bars. ` : "";
  const all = [];
  for (let i = 0; i < trades.entry.length; i++) {
    if (trades.instrument[i] !== run.price.symbol) continue;
    const long = trades.side[i] === "long";
    const [entered, left] = [candleAt(time, trades.entry[i]), candleAt(time, trades.exit[i])];
    const arrow = (buys) => (buys ? "arrowUp" : "arrowDown");
    const side = (buys) => (buys ? "belowBar" : "aboveBar");
    all.push({ at: entered, shape: arrow(long), position: side(long), entry: true, i });
    all.push({ at: left, shape: arrow(!long), position: side(!long), entry: false, i });
  }
  all.sort((a, b) => a.at - b.at);
  function update() {
    const range = chart.timeScale().getVisibleLogicalRange();
    if (!range) return;
    const seen = all.filter((marker) => marker.at >= range.from && marker.at <= range.to);
    const few = seen.length <= MARKERS_MAX;
    hint.textContent = about + (few
      ? "Scroll to zoom, drag to move, or choose a trade below. Times are UTC."
      : "Zoom in to see entries and exits.");
    plugin.setMarkers((few ? seen : []).map((marker) => ({
      time: time[marker.at], position: marker.position, shape: marker.shape, size: 1,
      color: marker.entry ? css("--accent") : css(trades.profit[marker.i] >= 0 ? "--gain" : "--loss"),
      text: seen.length <= 60 && !marker.entry ? money(trades.profit[marker.i]) : undefined,
    })));
  }
  let pending = 0;
  chart.timeScale().subscribeVisibleLogicalRangeChange(() => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(update);
  });
  repaints.push(update);
}

function spanButtons({ chart, time }) {
  document.getElementById("price-tools").addEventListener("click", (event) => {
    const span = event.target.dataset.span;
    if (!span) return;
    if (span === "fit") chart.timeScale().fitContent();
    else {
      const range = chart.timeScale().getVisibleLogicalRange();
      const end = Math.min(time.length + 2, Math.max(Number(span), Math.round(range.to)));
      chart.timeScale().setVisibleLogicalRange({ from: end - Number(span), to: end });
    }
  });
  const end = time.length + 2;
  chart.timeScale().setVisibleLogicalRange({ from: Math.max(-2, end - 250), to: end });
}

// ---- trade list --------------------------------------------------------------------------------

const COLUMNS = [
  ["#", (i) => String(i + 1), (i) => i],
  ["Entry", (i) => when(trades.entry[i]), (i) => trades.entry[i], "text"],
  ["Exit", (i) => when(trades.exit[i]), (i) => trades.exit[i], "text"],
  ["Instrument", (i) => trades.instrument[i], (i) => trades.instrument[i], "text"],
  ["Side", (i) => trades.side[i], (i) => trades.side[i], "text"],
  ["Quantity", (i) => trades.quantity[i].toLocaleString("en-US"), (i) => trades.quantity[i]],
  ["Entry price", (i) => trades.entry_price[i].toFixed(priceDigits), (i) => trades.entry_price[i]],
  ["Exit price", (i) => trades.exit_price[i].toFixed(priceDigits), (i) => trades.exit_price[i]],
  ["Profit", (i) => money(trades.profit[i]), (i) => trades.profit[i], "signed"],
  ["Return", (i) => `${(trades.return[i] * 100).toFixed(2)} %`, (i) => trades.return[i], "signed"],
  ["Fees", (i) => money(trades.fees[i]), (i) => trades.fees[i]],
  ["MAE", (i) => money(trades.mae[i]), (i) => trades.mae[i]],
  ["MFE", (i) => money(trades.mfe[i]), (i) => trades.mfe[i]],
  ["Bars", (i) => String(trades.bars[i]), (i) => trades.bars[i]],
];

function tradeList(priceChart) {
  const table = document.getElementById("trades");
  const order = Array.from(trades.entry.keys());
  const state = { page: 0, column: 0, descending: false };
  const pages = Math.max(1, Math.ceil(order.length / PAGE_ROWS));

  function cell(tag, text, kind, value) {
    const element = document.createElement(tag);
    element.textContent = text;
    if (kind === "text") element.className = "text";
    if (kind === "signed" && tag === "td") element.className = value >= 0 ? "gain" : "loss";
    return element;
  }
  function header() {
    const row = document.createElement("tr");
    COLUMNS.forEach(([title, , , kind], c) => {
      const th = cell("th", title, kind);
      if (c === state.column) th.ariaSort = state.descending ? "descending" : "ascending";
      th.addEventListener("click", () => sortBy(c));
      row.append(th);
    });
    return row;
  }
  function sortBy(column) {
    state.descending = column === state.column && !state.descending;
    state.column = column;
    const [, , key] = COLUMNS[column];
    const sign = state.descending ? -1 : 1;
    order.sort((a, b) => (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : a - b));
    turnTo(0);
  }
  function body() {
    return order.slice(state.page * PAGE_ROWS, (state.page + 1) * PAGE_ROWS).map((i) => {
      const row = document.createElement("tr");
      for (const [, text, value, kind] of COLUMNS) row.append(cell("td", text(i), kind, value(i)));
      row.addEventListener("click", () => choose(row, i));
      return row;
    });
  }
  function choose(row, i) {
    table.querySelector(".chosen")?.classList.remove("chosen");
    row.classList.add("chosen");
    if (!priceChart || trades.instrument[i] !== run.price.symbol) return;
    const { chart, time } = priceChart;
    const [from, to] = [candleAt(time, trades.entry[i]), candleAt(time, trades.exit[i])];
    const margin = Math.max(30, Math.round((to - from) / 2));
    chart.timeScale().setVisibleLogicalRange({ from: from - margin, to: to + margin });
    document.getElementById("price").scrollIntoView({ behavior: "smooth", block: "center" });
  }
  function turnTo(page) {
    state.page = Math.min(pages - 1, Math.max(0, page));
    const head = document.createElement("thead");
    const rows = document.createElement("tbody");
    head.append(header());
    rows.append(...body());
    table.replaceChildren(head, rows);
    pager();
  }
  function pager() {
    const button = (text, page, off) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = text;
      element.disabled = off;
      element.addEventListener("click", () => turnTo(page));
      return element;
    };
    const { page } = state;
    document.getElementById("pager").replaceChildren(
      button("«", 0, page === 0), button("‹", page - 1, page === 0),
      ` page ${page + 1} of ${pages} `,
      button("›", page + 1, page === pages - 1), button("»", pages - 1, page === pages - 1));
  }
  if (!order.length) {
    document.getElementById("trades-hint").textContent = "No trade was closed.";
    return;
  }
  if (run.trades.total > order.length) {
    document.getElementById("trades-hint").textContent =
      `The first ${order.length.toLocaleString("en-US")} of ${run.trades.total.toLocaleString("en-US")} trades; trades.parquet has all.`;
  }
  turnTo(0);
}

// ---- start -------------------------------------------------------------------------------------

drawEquity("equity", run.equity, run.currency);
const priceChart = drawPrice();
if (priceChart) {
  followMarkers(priceChart);
  spanButtons(priceChart);
}
tradeList(priceChart);
setTheme(darkWanted.matches ? "dark" : "light");
