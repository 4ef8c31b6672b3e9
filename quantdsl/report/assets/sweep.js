// The charts of a sweep, drawn on canvases from the JSON in #run. A chart is a function of its
// context and size, so a change of theme or width draws it again.

const scored = run.objective;

function shown(value, { unit, currency }) {
  if (Number.isNaN(value)) return "na";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (unit === "fraction") return `${(value * 100).toFixed(2)} %`;
  if (unit === "money") return `${money(value)} ${currency}`;
  if (unit === "count") return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  return value.toFixed(2);
}

// A canvas of full width that is drawn again whenever theme or width change.
function canvas(parent, height, draw) {
  const element = document.createElement("canvas");
  element.style.height = `${height}px`;
  parent.append(element);
  const context = element.getContext("2d");
  function repaint() {
    const width = parent.clientWidth;
    if (!width) return;
    const dense = devicePixelRatio || 1;
    element.width = width * dense;
    element.height = height * dense;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.font = "11px system-ui, sans-serif";
    draw(context, width, height);
  }
  repaints.push(repaint);
  new ResizeObserver(repaint).observe(parent);
  return { element, repaint };
}

// Round numbers between two bounds, about `most` of them.
function ticks(low, high, most) {
  const span = high - low || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

// Axes of a box with a linear scale on both sides; returns the functions from value to pixel.
function frame(context, box, x, y) {
  const { left, top, right, bottom } = box;
  const px = (value) => left + ((value - x.low) / (x.high - x.low || 1)) * (right - left);
  const py = (value) => bottom - ((value - y.low) / (y.high - y.low || 1)) * (bottom - top);
  context.strokeStyle = css("--plot-grid");
  context.fillStyle = css("--dim");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const value of ticks(y.low, y.high, 6)) {
    line(context, [[left, py(value)], [right, py(value)]]);
    context.fillText(tickText(value, y.unit), left - 6, py(value));
  }
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const value of ticks(x.low, x.high, Math.max(2, (right - left) / 80))) {
    line(context, [[px(value), top], [px(value), bottom]]);
    context.fillText(tickText(value, x.unit), px(value), bottom + 6);
  }
  if (x.title) context.fillText(x.title, (left + right) / 2, bottom + 21);
  if (y.title) {
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText(y.title, 2, top - 5);
  }
  return { px, py };
}
const tickText = (value, unit) =>
  unit === "fraction"
    ? `${+(value * 100).toPrecision(4)} %`
    : (+value.toPrecision(4)).toLocaleString("en-US");

function line(context, places) {
  context.beginPath();
  places.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}
function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
}

// Bounds of the finite values, a little wider.
function bounds(...arrays) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays)
    for (const value of values)
      if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return { low: 0, high: 1 };
  const pad = (high - low) * 0.04 || Math.abs(low) * 0.1 || 1;
  return { low: low - pad, high: high + pad };
}

// ---- colour ------------------------------------------------------------------------------------

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
function mix(from, to, share) {
  const [a, b] = [rgb(from), rgb(to)];
  return a.map((v, i) => Math.round(v + (b[i] - v) * share));
}
const ink = (color) => `rgb(${color.join(" ")})`;
const bright = ([red, green, blue]) => 0.3 * red + 0.59 * green + 0.11 * blue > 140;

// Value to colour: around 0 where there are gains and losses, else from the plainest to the best.
function shades(values) {
  const known = Array.from(values).filter(Number.isFinite).sort((a, b) => a - b);
  const at = (share) => known[Math.min(known.length - 1, Math.floor(share * known.length))] ?? 0;
  const [low, high] = [at(0.02), at(0.98)];
  const [neutral, good, bad] = [css("--wash"), css(run.lower ? "--loss" : "--gain"), css(run.lower ? "--gain" : "--loss")];
  const clamp = (share) => Math.min(1, Math.max(0, share));
  if (low < 0 && high > 0) {
    const most = Math.max(-low, high);
    return (value) => mix(neutral, value < 0 ? bad : good, clamp(Math.abs(value) / most));
  }
  const goodness = (value) => (run.lower ? high - value : value - low) / (high - low || 1);
  return (value) => mix(neutral, css("--accent"), 0.06 + 0.94 * clamp(goodness(value)));
}

// ---- heatmap -----------------------------------------------------------------------------------

// The words of the levels that share bin `place` of `bins`.
function levelText(axis, place, bins) {
  const first = Math.ceil((place * axis.n) / bins);
  const last = Math.ceil(((place + 1) * axis.n) / bins) - 1;
  const word = (level) => {
    let best = 0;
    axis.at.forEach((known, i) => {
      if (Math.abs(known - level) < Math.abs(axis.at[best] - level)) best = i;
    });
    return axis.text[best];
  };
  return last > first ? `${word(first)} to ${word(last)}` : word(first);
}
const bin = (level, axis, bins) => Math.floor((level * bins) / axis.n);

function choice(label, options, chosen, change) {
  const wrapper = document.createElement("label");
  const select = document.createElement("select");
  options.forEach(([value, text]) => {
    const option = new Option(text, value);
    option.selected = value === chosen;
    select.append(option);
  });
  select.setAttribute("aria-label", label);
  select.addEventListener("change", () => change(select.value));
  wrapper.append(label, " ", select);
  return wrapper;
}

// Cells of the chosen pair, turned so that the chosen x goes across.
function cellsOf(state) {
  const turned = state.x > state.y;
  const found = run.heat.pairs.find((pair) =>
    turned ? pair.x === state.y && pair.y === state.x : pair.x === state.x && pair.y === state.y);
  const values = f32(found[state.mode]);
  const [nx, ny] = turned ? [found.ny, found.nx] : [found.nx, found.ny];
  return { nx, ny, values, at: (i, j) => values[turned ? i * ny + j : j * nx + i] };
}

function drawHeat() {
  const parent = document.getElementById("heat");
  const hint = document.getElementById("heat-hint");
  if (!run.heat.pairs.length) {
    hint.textContent = "No point has a value.";
    return;
  }
  if (run.axes.length === 1) return drawAlone(parent, hint);
  const sampled = run.heat.sampled
    ? ` Medians are of ${run.heat.sampled.toLocaleString("en-US")} points drawn from all.` : "";
  const still = `The best point has a border.${sampled}`;
  const first = run.heat.pairs[0];
  const full = (packed) => f32(packed).filter(Number.isFinite).length;
  const sliced = 2 * full(first.best) >= full(first.median); // a subset has few points in a slice
  const state = { x: first.x, y: first.y, mode: sliced ? "best" : "median" };
  const box = { left: 78, top: 10, right: 0, bottom: 0 };
  const height = 420;
  const { element, repaint } = canvas(parent, height, (context, width) => {
    Object.assign(box, { right: width - 10, bottom: height - 42 });
    paintCells(context, box, state);
  });
  tools(state, repaint);
  element.addEventListener("pointermove", (event) => {
    const { nx, ny, at } = cellsOf(state);
    const i = Math.floor(((event.offsetX - box.left) / (box.right - box.left)) * nx);
    const j = Math.floor(((box.bottom - event.offsetY) / (box.bottom - box.top)) * ny);
    const inside = i >= 0 && i < nx && j >= 0 && j < ny;
    const [ax, ay] = [run.axes[state.x], run.axes[state.y]];
    hint.textContent = inside
      ? `${ax.name} ${levelText(ax, i, nx)}, ${ay.name} ${levelText(ay, j, ny)}: ${scored.title} ${shown(at(i, j), scored)}`
      : still;
  });
  element.addEventListener("pointerleave", () => (hint.textContent = still));
  hint.textContent = still;
}

function tools(state, repaint) {
  const place = document.getElementById("heat-tools");
  function set(key, value) {
    const other = key === "x" ? "y" : "x";
    if (state[other] === value) state[other] = state[key];
    state[key] = value;
    fill();
    repaint();
  }
  function fill() {
    const axes = run.axes.map((axis, i) => [i, axis.name]);
    const parts = [];
    if (axes.length > 2) {
      parts.push(choice("across", axes, state.x, (value) => set("x", Number(value))));
      parts.push(choice("up", axes, state.y, (value) => set("y", Number(value))));
      const modes = [["best", "at the best point"], ["median", "any, median"]];
      parts.push(choice("others", modes, state.mode, (value) => {
        state.mode = value;
        repaint();
      }));
    } else {
      const turn = document.createElement("button");
      turn.type = "button";
      turn.textContent = "Swap axes";
      turn.addEventListener("click", () => set("x", state.y));
      parts.push(turn);
    }
    place.replaceChildren(...parts);
  }
  fill();
}

function paintCells(context, box, state) {
  const { nx, ny, values, at } = cellsOf(state);
  const [ax, ay] = [run.axes[state.x], run.axes[state.y]];
  const [wide, tall] = [(box.right - box.left) / nx, (box.bottom - box.top) / ny];
  const color = shades(values);
  const [missing, text] = [css("--page"), css("--dim")];
  const gap = Math.min(wide, tall) > 12 ? 1 : -0.5; // small cells overlap, or seams show
  for (let j = 0; j < ny; j++)
    for (let i = 0; i < nx; i++) {
      const value = at(i, j);
      context.fillStyle = Number.isFinite(value) ? ink(color(value)) : missing;
      context.fillRect(box.left + i * wide, box.bottom - (j + 1) * tall, wide - gap, tall - gap);
    }
  if (wide > 44 && tall > 17) {
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let j = 0; j < ny; j++)
      for (let i = 0; i < nx; i++) {
        const value = at(i, j);
        if (!Number.isFinite(value)) continue;
        context.fillStyle = bright(color(value)) ? "#1b1f24" : "#ffffff";
        context.fillText(shown(value, { ...scored, currency: "" }), box.left + (i + 0.5) * wide, box.bottom - (j + 0.5) * tall);
      }
  }
  context.fillStyle = text;
  context.textAlign = "center";
  context.textBaseline = "top";
  labels(ax, nx, wide, 46, (i, word) => context.fillText(word, box.left + (i + 0.5) * wide, box.bottom + 6));
  context.fillText(ax.name, (box.left + box.right) / 2, box.bottom + 24);
  context.textAlign = "right";
  context.textBaseline = "middle";
  labels(ay, ny, tall, 18, (j, word) => context.fillText(word, box.left - 6, box.bottom - (j + 0.5) * tall));
  context.save();
  context.translate(10, (box.top + box.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(ay.name, 0, 0);
  context.restore();
  const [i, j] = [bin(run.best[state.x], ax, nx), bin(run.best[state.y], ay, ny)];
  context.strokeStyle = css("--text");
  context.lineWidth = 2;
  if (Math.min(wide, tall) > 12) {
    context.strokeRect(box.left + i * wide, box.bottom - (j + 1) * tall, wide - gap, tall - gap);
    return;
  }
  context.beginPath();
  context.arc(box.left + (i + 0.5) * wide, box.bottom - (j + 0.5) * tall, 7, 0, 7);
  context.stroke();
}

// Every so many levels get their word, so that words stand `room` pixels apart.
function labels(axis, bins, size, room, put) {
  const words = [...Array(bins).keys()].map((place) => levelText(axis, place, bins));
  const longest = room > 20 ? Math.max(...words.map((word) => word.length)) * 7 : 0;
  const each = Math.max(1, Math.ceil(Math.max(room, longest) / size));
  for (let place = 0; place < bins; place += each) put(place, words[place]);
}

// One swept param: the objective along it.
function drawAlone(parent, hint) {
  const [axis] = run.axes;
  const pair = run.heat.pairs[0];
  const values = f32(pair.best);
  const y = { ...bounds(values), unit: scored.unit, title: scored.title };
  hint.textContent = "The larger dot is the best point.";
  canvas(parent, 320, (context, width, height) => {
    const box = { left: 70, top: 24, right: width - 14, bottom: height - 42 };
    const wide = (box.right - box.left) / pair.nx;
    const { py } = frame(context, box, { low: 0, high: 0, title: axis.name }, y);
    context.clearRect(0, box.bottom + 1, width, 17);
    context.fillStyle = css("--dim");
    context.textAlign = "center";
    context.textBaseline = "top";
    const px = (i) => box.left + (i + 0.5) * wide;
    labels(axis, pair.nx, wide, 46, (i, word) => context.fillText(word, px(i), box.bottom + 6));
    context.strokeStyle = context.fillStyle = css("--accent");
    context.lineWidth = 2;
    line(context, Array.from(values, (v, i) => [px(i), py(v)]).filter(([, place]) => Number.isFinite(place)));
    values.forEach((value, i) => {
      const best = i === bin(run.best[0], axis, pair.nx);
      if (Number.isFinite(value) && (best || pair.nx <= 60)) dot(context, px(i), py(value), best ? 6 : 3);
    });
  });
}

// ---- parallel coordinates ----------------------------------------------------------------------

function drawLines() {
  const places = run.lines.places.map(f32);
  const values = f32(run.lines.value);
  const span = bounds(values);
  const across = [...run.axes.map((axis) => axis.name), scored.title];
  canvas(document.getElementById("lines"), 340, (context, width, height) => {
    const [top, bottom, side] = [34, height - 24, Math.min(60, width / 8)];
    const px = (i) => side + (i / (across.length - 1)) * (width - 2 * side);
    const py = (share) => bottom - share * (bottom - top);
    const color = shades(values);
    const faint = Math.min(0.35, Math.max(0.08, 20 / values.length));
    const last = (value) => (value - span.low) / (span.high - span.low);
    for (let i = 0; i < values.length; i++) {
      const share = last(values[i]);
      if (!Number.isFinite(share)) continue;
      const best = i === values.length - 1;
      context.globalAlpha = best ? 1 : faint + 0.5 * (run.lower ? 1 - share : share) ** 3;
      context.lineWidth = best ? 2.5 : 1;
      context.strokeStyle = best ? css("--text") : ink(color(values[i]));
      line(context, [...places.map((place, axis) => [px(axis), py(place[i])]), [px(across.length - 1), py(share)]]);
    }
    context.globalAlpha = 1;
    context.lineWidth = 1;
    across.forEach((name, i) => {
      context.strokeStyle = css("--dim");
      line(context, [[px(i), top], [px(i), bottom]]);
      context.textAlign = i === 0 ? "left" : i === across.length - 1 ? "right" : "center";
      const shift = i === 0 ? -side + 6 : i === across.length - 1 ? side - 6 : 0;
      context.fillStyle = css("--text");
      context.textBaseline = "top";
      context.fillText(name, px(i) + shift, 2);
      context.fillStyle = css("--dim");
      const axis = run.axes[i];
      const [low, high] = axis
        ? [axis.text[0], axis.text[axis.text.length - 1]]
        : [shown(span.low, scored), shown(span.high, scored)];
      context.fillText(low, px(i) + shift, bottom + 6);
      context.fillText(high, px(i) + shift, 18);
    });
  });
}

// ---- scatter and bars --------------------------------------------------------------------------

function scatter(id, xs, ys, x, y, alpha, best) {
  const [across, up, both] = [bounds(xs), bounds(ys), bounds(xs, ys)];
  canvas(document.getElementById(id), 340, (context, width, height) => {
    const box = { left: 62, top: 24, right: width - 10, bottom: height - 40 };
    const { px, py } = frame(context, box, { ...across, ...x }, { ...up, ...y });
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.clip();
    context.strokeStyle = css("--dim");
    context.setLineDash([4, 4]);
    line(context, [[px(both.low), py(both.low)], [px(both.high), py(both.high)]]);
    context.restore();
    context.fillStyle = css("--accent");
    context.globalAlpha = alpha;
    for (let i = 0; i < xs.length; i++) dot(context, px(xs[i]), py(ys[i]), 2);
    context.globalAlpha = 1;
    if (!best) return;
    context.strokeStyle = css("--text");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(px(xs[xs.length - 1]), py(ys[ys.length - 1]), 7, 0, 7);
    context.stroke();
  });
}

function drawBars(bars) {
  const parent = document.createElement("div");
  document.getElementById("bars").append(parent);
  canvas(parent, 260, (context, width, height) => {
    const box = { left: 52, top: 28 + 14 * bars.marks.length, right: width - 10, bottom: height - 40 };
    const marked = bars.marks.map(([, value]) => value);
    const across = { low: Math.min(bars.low, ...marked), high: Math.max(bars.high, ...marked) };
    const { px, py } = frame(context, box, { ...across, unit: bars.unit, title: bars.title },
      { low: 0, high: Math.max(...bars.counts) });
    const step = (bars.high - bars.low) / bars.counts.length;
    context.fillStyle = css("--accent");
    bars.counts.forEach((count, i) => {
      const left = px(bars.low + i * step);
      context.fillRect(left, py(count), Math.max(1, px(bars.low + (i + 1) * step) - left - 1), py(0) - py(count));
    });
    bars.marks.forEach(([word, value], i) => {
      const tone = css(word === "best by luck" ? "--loss" : word === "best point" ? "--gain" : "--dim");
      context.strokeStyle = context.fillStyle = tone;
      context.lineWidth = 2;
      const top = 8 + i * 14;
      line(context, [[px(value), top], [px(value), box.bottom]]);
      const right = px(value) > (box.left + box.right) / 2;
      context.textAlign = right ? "right" : "left";
      context.textBaseline = "middle";
      context.fillText(`${word} ${shown(value, bars)}`, px(value) + (right ? -5 : 5), top + 5);
    });
  });
}

// ---- tables ------------------------------------------------------------------------------------

function followRows() {
  const command = document.getElementById("command");
  const copy = document.getElementById("copy");
  const rows = document.querySelectorAll("tr[data-command]");
  function choose(row) {
    for (const other of rows) other.classList.toggle("chosen", other === row);
    command.textContent = row.dataset.command;
  }
  for (const row of rows) row.addEventListener("click", () => choose(row));
  if (rows.length) choose(rows[0]);
  copy.addEventListener("click", () => {
    getSelection().selectAllChildren(command);
    navigator.clipboard?.writeText(command.textContent).then(() => (copy.textContent = copy.dataset.copied));
  });
}

// ---- start -------------------------------------------------------------------------------------

drawHeat();
if (f32(run.lines.value).length) drawLines();
else document.getElementById("lines").parentElement.remove();
const around = [f32(run.around.own), f32(run.around.median)];
if (around[0].length) {
  scatter("around", ...around, { unit: scored.unit, title: scored.title },
    { unit: scored.unit, title: "median of the neighbours" }, around[0].length > 500 ? 0.35 : 0.7, run.around.best);
}
if (run.splits) {
  scatter("splits", f32(run.splits.inside), f32(run.splits.outside),
    { title: "Sharpe ratio in sample" }, { title: "out of sample" }, 0.12, false);
}
run.bars.forEach(drawBars);
if (run.equity) drawEquity("equity", run.equity, run.currency);
else document.getElementById("equity-section").remove();
if (run.walk) drawEquity("walk", run.walk, run.currency);
followRows();
setTheme(darkWanted.matches ? "dark" : "light");
