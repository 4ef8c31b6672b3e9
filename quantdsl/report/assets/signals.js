// The rank correlations over time, from the JSON in #run.

const TONES = [
  "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#e15759",
];

function drawPath() {
  if (!run.lines.length) return;
  const chart = newChart("path");
  const legend = document.getElementById("legend");
  run.lines.forEach(({ name, time, value }, i) => {
    const line = chart.addSeries(L.LineSeries, {
      color: TONES[i], lineWidth: 2, priceLineVisible: false, lastValueVisible: false,
    });
    line.setData(points(f64(time), f32(value)));
    const swatch = document.createElement("i");
    swatch.style.background = TONES[i];
    legend.append(swatch, name);
  });
  chart.timeScale().fitContent();
}

drawPath();
setTheme(darkWanted.matches ? "dark" : "light");
