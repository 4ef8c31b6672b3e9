"use strict";
// Lists and tables: strategies, limits, feeds, positions, working orders, fills, log.

const DOTS = { active: "good", live: "good", starting: "soso", reducing: "soso", connecting: "soso", stale: "bad", halted: "bad", lost: "bad", down: "bad" };
const dot = (state) => `dot ${DOTS[state] ?? ""}`;
const ROWS_MAX = 300;

// ---- tables ------------------------------------------------------------------------------------

// Columns: [title, text of a row, class or class of a row]: text is set to the left, wide is left
// out where there is no room, wider before it.
const POSITIONS = [
  ["Symbol", (p) => p.symbol, "text"],
  ["Quantity", (p) => units(p.symbol, p.quantity), (p) => tone(p.quantity)],
  ["Entry", (p) => price(p.symbol, p.price)],
  ["Mark", (p) => price(p.symbol, p.mark), "wide"],
  ["Unrealised", (p) => signed(p.unrealised), (p) => tone(p.unrealised)],
];
const WORKING = [
  ["Symbol", (o) => o.symbol, "text"],
  ["Side", (o) => o.side, (o) => `text ${o.side === "buy" ? "gain" : "loss"}`],
  ["Type", (o) => o.type, "text wide"],
  ["Left", left],
  ["Price", (o) => price(o.symbol, o.price)],
  ["Ahead", (o) => (known(o.ahead) ? units(o.symbol, o.ahead) : "")],
  ["Since", (o) => moment(o.ts), "wider"],
];
const SIGNALS = [
  ["Signal", (s) => s.name, "text"],
  ["Asked", (s) => count(s.asked)],
  ["Ready", (s) => count(s.ready)],
  ["Stale", (s) => count(s.stale), (s) => (s.stale ? "loss" : "")],
  ["Dropped", (s) => count(s.dropped), (s) => (s.dropped ? "loss" : "")],
  ["Age", (s) => (s.ready ? span(s.age_mean_us * 1e3) : "")],
  ["Oldest", (s) => (s.ready ? span(s.age_most_us * 1e3) : ""), "wide"],
  ["Answer", (s) => (s.answer_us ? span(s.answer_us * 1e3) : ""), "wide"],
  ["On", (s) => s.device || "nothing", (s) => (s.device ? "text wide" : "text loss")],
];
const FILLS = [
  ["Time", (f) => moment(f.ts), "text"],
  ["Symbol", (f) => f.symbol, "text"],
  ["Side", (f) => f.side, (f) => `text ${f.side === "buy" ? "gain" : "loss"}`],
  ["Quantity", (f) => units(f.symbol, f.quantity)],
  ["Price", (f) => price(f.symbol, f.price)],
  ["Fee", (f) => money(f.fee), "wide"],
  ["Profit", (f) => (f.profit ? signed(f.profit) : ""), (f) => tone(f.profit)],
];
const LOG = [
  ["Time", (l) => moment(l.ts), "text"],
  ["From", (l) => l.source, "text"],
  ["What", (l) => l.text, (l) => `text words ${{ error: "loss", warning: "warn" }[l.level] ?? ""}`],
];

function table(id, columns, empty) {
  const element = make("table");
  const head = make("tr");
  for (const [title, , kind] of columns) {
    const th = make("th", typeof kind === "string" ? kind : title === "Side" || title === "What" ? "text" : "", title);
    th.scope = "col";
    head.append(th);
  }
  const body = make("tbody");
  element.append(make("thead"), body);
  element.firstChild.append(head);
  const none = make("p", "none", empty);
  at(id).append(element, none);
  let drawn = false;
  return (rows, key, hint) => {
    element.hidden = !rows.length;
    none.hidden = rows.length > 0;
    keyed(body, rows, key, () => {
      const row = make("tr", drawn ? "new" : "");
      for (let i = 0; i < columns.length; i++) row.append(make("td"));
      return row;
    }, (row, item) => {
      columns.forEach(([, text, kind], i) => put(row.children[i], text(item), typeof kind === "function" ? kind(item) : kind ?? ""));
      const title = hint?.(item) ?? "";
      if (row.title !== title) row.title = title;
    });
    drawn = true;
  };
}
const showPositions = table("positions", POSITIONS, "No position is open.");
const showWorking = table("working", WORKING, "No order is working.");
const showSignals = table("signals", SIGNALS, "No strategy asks for signals.");
const showFills = table("fills", FILLS, "Nothing has filled yet.");
const showLog = table("log", LOG, "Nothing has happened yet.");

const fills = [];
const log = [];
function add(kept, rows, whole) {
  if (whole) kept.length = 0;
  kept.push(...rows);
  if (kept.length > ROWS_MAX) kept.splice(0, kept.length - ROWS_MAX);
}
const newestFirst = (rows) => rows.slice().reverse();
let unread = 0;
function listFills(rows, whole) {
  if (!rows.length && fills.length && !whole) return;
  add(fills, rows, whole);
  showFills(newestFirst(fills), (f) => f.seq, (f) => `${f.strategy}, order ${f.order}, ${f.maker ? "maker" : "taker"}\n${dated(f.ts)} UTC`);
}
function listLog(rows, whole) {
  if (!rows.length && log.length && !whole) return;
  add(log, rows, whole);
  showLog(newestFirst(log), (l) => l.seq, (l) => `${dated(l.ts)} UTC`);
  if (whole) unread = 0;
  if (at("log").hidden) unread += rows.filter((line) => line.level !== "info").length;
  else unread = 0;
  put(at("n-log"), unread ? String(unread) : "", unread ? "alarm" : "");
}
function listPositions(session) {
  const held = session.positions.filter((p) => p.quantity);
  showPositions(held, (p) => `${p.strategy} ${p.symbol}`, (p) => `${p.strategy}: worth ${money(p.value)} ${session.currency}, realised ${signed(p.realised)}`);
  put(at("n-positions"), String(held.length));
  showWorking(session.working, (o) => `${o.strategy} ${o.id}`, (o) => `${o.strategy}, order ${o.id}`);
  put(at("n-working"), String(session.working.length));
  put(at("n-fills"), count(session.strategies.reduce((sum, strategy) => sum + strategy.fills, 0)));
}
function listSignals(session) {
  const signals = session.strategies.flatMap((strategy) => (strategy.signals ?? []).map((s) => ({ ...s, strategy: strategy.name })));
  at("tab-signals").hidden = !signals.length;
  showSignals(signals, (s) => `${s.strategy} ${s.name}`, (s) => `${s.strategy}: ready by their deadline ${share(s.asked ? s.ready / s.asked : NaN)}`);
  const late = signals.reduce((sum, s) => sum + s.stale + s.dropped, 0);
  put(at("n-signals"), late ? count(late) : "", late ? "alarm" : "");
}

// ---- strategies, limits, feeds -----------------------------------------------------------------

function listStrategies(session) {
  keyed(at("strategies"), session.strategies, (s) => s.name, () => {
    const item = make("li");
    item.append(make("span", "dot"), make("span", "of"), make("span", "dim"), make("span"), make("small"));
    return item;
  }, (item, s) => {
    const [mark, name, state, profit, more] = item.children;
    put(mark, "", dot(s.state));
    put(name, s.name);
    put(state, s.state, s.state === "active" ? "dim" : DOTS[s.state] === "bad" ? "loss" : "warn");
    put(profit, signed(s.profit), tone(s.profit));
    put(more, s.reason || `${count(s.orders)} orders · ${count(s.fills)} fills · ${count(s.rejected)} refused`);
    item.title = `${more.textContent}\nequity ${money(s.equity)}, drawdown ${share(s.drawdown)}, at most ${share(s.drawdown_max)}\n${s.symbols.join(", ")}`;
  });
}
function listGauges(session) {
  const several = session.strategies.length > 1;
  keyed(at("gauges"), session.gauges, (g) => `${g.strategy} ${g.name}`, () => {
    const item = make("div", "gauge");
    const words = make("p");
    words.append(make("span"), make("span"));
    const bar = make("div", "bar");
    bar.append(make("i"));
    bar.setAttribute("role", "meter");
    bar.setAttribute("aria-valuemin", "0");
    item.append(words, bar);
    return item;
  }, (item, g) => {
    const used = g.limit > 0 ? Math.min(1, Math.max(0, g.value / g.limit)) : 0;
    const [name, amount] = item.firstChild.children;
    put(name, spoken(g.name) + (several && g.strategy ? ` · ${g.strategy}` : ""));
    const figure = (v) => (Number.isInteger(v) || Math.abs(v) >= 1000 ? fixed(v, 0) : money(v));
    put(amount, `${g.tripped ? "tripped · " : ""}${figure(g.value)} of ${figure(g.limit)} ${g.unit}`.trim());
    const bar = item.lastChild;
    bar.firstChild.style.transform = `scaleX(${used})`;
    bar.setAttribute("aria-label", name.textContent);
    bar.setAttribute("aria-valuemax", String(g.limit));
    bar.setAttribute("aria-valuenow", String(g.value));
    bar.setAttribute("aria-valuetext", amount.textContent);
    put(item.firstChild.firstChild, name.textContent);
    const className = `gauge${g.tripped || used >= 0.9 ? " full" : used >= 0.7 ? " near" : ""}`;
    if (item.className !== className) item.className = className;
  });
}
const rates = new Map();
// Messages a second of the clock on the wall, for a session's own time may run faster.
function rate(feed) {
  const now = performance.now();
  const before = rates.get(feed.name);
  if (!before || now - before.now > 1000 || feed.messages < before.messages) {
    const since = before && feed.messages >= before.messages ? ((feed.messages - before.messages) * 1e3) / (now - before.now) : NaN;
    rates.set(feed.name, { now, messages: feed.messages, rate: since });
  }
  return rates.get(feed.name).rate;
}
function listFeeds(session) {
  keyed(at("feeds"), session.feeds, (f) => f.name, () => {
    const item = make("li");
    item.append(make("span", "dot"), make("span", "of"), make("span", "dim"), make("small"));
    return item;
  }, (item, f) => {
    const [mark, name, speed, more] = item.children;
    put(mark, "", dot(f.state));
    put(name, f.name);
    const each = rate(f);
    put(speed, f.state === "live" ? `${known(each) ? `${count(Math.max(0, each))} msg/s` : "live"}${f.delay_ns ? ` · ${span(f.delay_ns)}` : ""}` : f.state);
    const faults = ["gaps", "resyncs", "reconnects", "bad", "rejected", "dropped"].filter((key) => f[key]).map((key) => `${key} ${count(f[key])}`);
    put(more, f.state !== "live" && f.why ? f.why : `${count(f.messages)} messages${faults.length ? ` · ${faults.join(" · ")}` : " · no faults"}`);
    item.title = `${f.symbols.join(", ")}${f.why ? `\n${f.why}` : ""}`;
  });
}

// ---- tabs --------------------------------------------------------------------------------------

for (const list of document.querySelectorAll(".tabs")) {
  const tabs = [...list.children];
  const choose = (tab) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      at(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (tab.id === "tab-log") {
      unread = 0;
      put(at("n-log"), "", "");
    }
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = tabs.filter((tab) => !tab.hidden);
    const next = shown[(shown.indexOf(document.activeElement) + step + shown.length) % shown.length];
    choose(next);
    next.focus();
  });
}
