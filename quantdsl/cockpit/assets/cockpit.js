"use strict";
// The stream from the session, the commands to it, and who may.

// The token came behind the # of the link, which no browser sends; it stays in this tab's memory.
const FOUND = location.hash.slice(1);
if (FOUND) {
  sessionStorage.setItem("token", FOUND);
  history.replaceState(null, "", location.pathname);
}
const token = () => sessionStorage.getItem("token") ?? "";
const asked = (path, options = {}) =>
  fetch(path, { ...options, headers: { ...options.headers, authorization: `Bearer ${token()}` }, credentials: "omit" });


let socket = null;
let symbol = "";
let chosen = "";
let heard = 0;
let delay = 500;

// ---- the stream --------------------------------------------------------------------------------

async function connect() {
  const status = token() ? await asked("/metrics", { method: "HEAD" }).then((answer) => answer.status, () => 0) : 401;
  if (status === 401) return openDoor(token() ? "That is not the token of this session." : "");
  at("door").close();
  socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/live`, ["quantdsl.cockpit", `token.${token()}`]);
  socket.addEventListener("open", () => {
    delay = 500;
    if (chosen) socket.send(JSON.stringify({ symbol: chosen }));
  });
  socket.addEventListener("message", (event) => show(JSON.parse(event.data)));
  socket.addEventListener("close", () => {
    setTimeout(connect, delay);
    delay = Math.min(5000, delay * 1.6);
  });
}

function show(frame) {
  heard = performance.now();
  frame.arrived = heard;
  const before = symbol;
  symbol = frame.symbol;
  session = frame.session ?? session;
  age = frame.age_s;
  listLog(frame.log, frame.rows_whole);
  if (!session) return head();
  instruments = new Map(session.instruments.map((one) => [one.symbol, one]));
  offerSymbols();
  if (frame.bars.length || frame.bars_whole) drawBars(frame.bars, frame.bars_whole || symbol !== before, symbol);
  listFills(frame.fills, frame.rows_whole);
  if (frame.fills.length || frame.bars_whole || (frame.bars.length && markedBars !== bars.times.length)) {
    markedBars = bars.times.length;
    drawFills(fills, symbol);
  }
  if (frame.points.length) drawMoney(frame.points, frame.points_whole, session.equity - session.profit);
  drawLines(session.working, session.positions, symbol);
  drawBook(frame.book, session.working, symbol);
  listPositions(session);
  listSignals(session);
  listStrategies(session);
  listGauges(session);
  listFeeds(session);
  offerSpans();
  head(frame.book);
}
let markedBars = 0;
let age = 0;
let lastPrice = NaN;

function offer(select, names, value) {
  const text = names.join("\n");
  if (select.dataset.names !== text) {
    select.dataset.names = text;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.disabled = names.length < 2;
  }
  if (value && select.value !== value && document.activeElement !== select) select.value = value;
}
function offerSymbols() {
  offer(at("symbol"), session.instruments.map((one) => one.symbol), symbol);
}
at("symbol").addEventListener("change", () => {
  chosen = at("symbol").value;
  socket?.send(JSON.stringify({ symbol: chosen }));
});
function offerSpans() {
  const select = at("span");
  offer(select, session.latency.map((view) => view.name));
  drawLatency(session.latency.find((view) => view.name === select.value) ?? session.latency[0]);
}

// ---- the head of the page ----------------------------------------------------------------------

const SILENT_MS = 2500;
function head(book) {
  const cut = performance.now() - heard > SILENT_MS;
  const silent = !cut && session && age > 1 && !["stopped", "lost"].includes(session.state);
  const state = cut ? "not connected" : silent ? "silent" : session?.state ?? "waiting";
  at("main").classList.toggle("old", cut || silent || !session);
  const pill = at("state");
  put(pill, state);
  pill.dataset.state = cut || silent ? "lost" : state;
  const since = session ? ` The figures are those of ${moment(session.ts)}.` : "";
  const why = cut ? `The session's page server does not answer; trying again.${since}`
    : silent ? `The session has not been heard for ${fixed(age, 0)} s.${since}`
    : session?.reason ?? "";
  put(at("why"), why);
  const strip = at("strip");
  strip.className = `strip${cut || silent || ["halted", "lost"].includes(state) ? " bad" : state === "reducing" ? " warned" : ""}`;
  for (const button of document.querySelectorAll("[data-command]")) button.disabled = cut || !session;
  if (!session) return;
  put(at("session"), session.session);
  put(at("equity"), money(session.equity));
  put(at("profit"), signed(session.profit), tone(session.profit));
  put(at("today"), signed(session.profit_today), tone(session.profit_today));
  put(at("drawdown"), share(session.drawdown), session.drawdown > 0 ? "loss" : "");
  at("drawdown").title = `at most ${share(session.drawdown_max)}`;
  const live = session.feeds.filter((feed) => feed.state === "live").length;
  put(at("facts"), [
    `${live} of ${session.feeds.length} feeds live`, `${count(session.events)} events`,
    `${count(session.committed)} on disk`, session.resumed ? "resumed" : "", `since ${dated(session.started)}`, session.currency,
  ].filter(Boolean).join(" · "));
  put(at("clock"), `${dated(session.ts)} UTC`);
  const last = book?.last ?? (book?.asks.length && book.bids.length ? (book.asks[0][0] + book.bids[0][0]) / 2 : [...bars.rows.values()].at(-1)?.close);
  if (known(last) && last !== lastPrice) {
    put(at("last"), price(symbol, last), `last ${tone(last - lastPrice)}`);
    lastPrice = last;
  }
  const title = `${state === "active" ? signed(session.profit_today) : state.toUpperCase()} · ${session.session}`;
  if (document.title !== title) document.title = title;
}
setInterval(() => head(), 500);

// ---- commands ----------------------------------------------------------------------------------

const COMMANDS = {
  halt: {
    title: "Halt trading?", yes: "Halt now",
    text: (s) => `No new order leaves and ${orders(s)} cancelled. Positions stay as they are. Only a person can re-arm.`,
  },
  cancel_all: {
    title: "Cancel all working orders?", yes: "Cancel orders",
    text: (s) => `${orders(s)} cancelled. The strategies go on and may send new ones.`,
  },
  flatten: {
    title: "Close all positions?", yes: "Flatten",
    text: (s) => `${orders(s)} cancelled and ${held(s)} closed at the market.`,
  },
  rearm: {
    title: "Re-arm?", yes: "Re-arm",
    text: () => "Latched limits and a halt are lifted, and the strategies may send orders again.",
  },
};
const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;
const ofStrategy = (rows, name) => rows.filter((row) => !name || row.strategy === name);
const orders = (name) => plural(ofStrategy(session.working, name).length, "working order is", "working orders are");
const held = (name) => plural(ofStrategy(session.positions, name).filter((p) => p.quantity).length, "position is", "positions are");

const dialog = at("confirm");
let asking = "";
function describe() {
  put(at("confirm-text"), COMMANDS[asking].text(at("confirm-strategy").value));
}
for (const button of document.querySelectorAll("[data-command]")) {
  button.addEventListener("click", () => {
    asking = button.dataset.command;
    const { title, yes } = COMMANDS[asking];
    put(at("confirm-title"), title);
    put(at("confirm-yes"), yes, asking === "rearm" ? "main" : "danger");
    at("confirm-strategy").replaceChildren(new Option("all strategies", ""), ...session.strategies.map((s) => new Option(s.name, s.name)));
    describe();
    dialog.showModal();
    at("confirm-no").focus();
  });
}
at("confirm-strategy").addEventListener("change", describe);
at("confirm-no").addEventListener("click", () => dialog.close());
at("confirm-yes").addEventListener("click", async () => {
  dialog.close();
  const order = { kind: asking, strategy: at("confirm-strategy").value, id: crypto.randomUUID() };
  const answer = await asked("/command", {
    method: "POST", body: JSON.stringify(order), headers: { "content-type": "application/json" },
  }).catch(() => null);
  const whom = order.strategy || "all strategies";
  toast(answer?.ok ? `Sent: ${spoken(order.kind)}, ${whom}` : `Not sent: ${answer ? (await answer.text()).trim() : "no answer"}`);
});
let toastTimer = 0;
function toast(text) {
  put(at("toast"), text, "toast shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => put(at("toast"), at("toast").textContent, "toast"), 4000);
}

// ---- the door ----------------------------------------------------------------------------------

function openDoor(wrong) {
  put(at("door-wrong"), wrong);
  if (!at("door").open) at("door").showModal();
}
at("door").addEventListener("cancel", (event) => event.preventDefault());
at("door").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  at("token").value = "";
  connect();
});

// ---- start -------------------------------------------------------------------------------------

const keptTheme = localStorage.getItem("theme");
setTheme(keptTheme ?? (darkWanted.matches ? "dark" : "light"));
repaints.push(() => localStorage.setItem("theme", document.documentElement.dataset.theme));
repaints.push(() => {
  if (session) {
    drawFills(fills, symbol);
    drawLines(session.working, session.positions, symbol);
  }
});
connect();
