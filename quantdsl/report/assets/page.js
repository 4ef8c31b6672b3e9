// What all reports share: data, formats, the equity chart.

const run = JSON.parse(document.getElementById("run").textContent);

function floats(packed, Type) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Type(bytes.buffer);
}
const f32 = (packed) => floats(packed, Float32Array);
const f64 = (packed) => floats(packed, Float64Array);
const money = (value) =>
  value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const when = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

function points(time, values) {
  return Array.from(time, (t, i) => (Number.isFinite(values[i]) ? { time: t, value: values[i] } : { time: t }));
}

// ---- equity and drawdown -----------------------------------------------------------------------

function drawEquity(id, curve, currency) {
  const time = f64(curve.time);
  if (!time.length) return;
  const chart = newChart(id);
  const inMoney = { type: "custom", minMove: 0.01, formatter: (v) => `${money(v)} ${currency}` };
  const inPercent = { type: "custom", minMove: 0.01, formatter: (v) => `${v.toFixed(2)} %` };
  const level = chart.addSeries(L.BaselineSeries, {
    baseValue: { type: "price", price: curve.start }, lineWidth: time.length > 500 ? 1 : 2, priceFormat: inMoney,
    priceLineVisible: false, title: "equity",
  });
  level.setData(points(time, f64(curve.equity)));
  let benchmark = null;
  if (curve.benchmark) {
    benchmark = chart.addSeries(L.LineSeries, {
      lineWidth: 1, priceFormat: inMoney, priceLineVisible: false, title: curve.benchmark.name,
    });
    benchmark.setData(points(f64(curve.benchmark.time), f64(curve.benchmark.value)));
  }
  const under = chart.addSeries(L.BaselineSeries, {
    baseValue: { type: "price", price: 0 }, lineWidth: 1, priceFormat: inPercent,
    priceLineVisible: false, title: "drawdown",
  }, 1);
  under.setData(points(time, f32(curve.drawdown)));
  chart.panes()[0].setStretchFactor(3);
  chart.panes()[1].setStretchFactor(1);
  repaints.push(() => {
    const [gain, loss] = [css("--gain"), css("--loss")];
    level.applyOptions({
      topLineColor: gain, topFillColor1: `${gain}40`, topFillColor2: `${gain}08`,
      bottomLineColor: loss, bottomFillColor1: `${loss}08`, bottomFillColor2: `${loss}40`,
    });
    under.applyOptions({
      topLineColor: loss, bottomLineColor: loss,
      bottomFillColor1: `${loss}18`, bottomFillColor2: `${loss}50`,
    });
    benchmark?.applyOptions({ color: css("--dim") });
  });
  chart.timeScale().fitContent();
}
