"use strict";
// What all pages share: theme and charts in its colours. Needs LightweightCharts, no network.

const L = LightweightCharts;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- theme -------------------------------------------------------------------------------------

const repaints = [];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  for (const repaint of repaints) repaint();
}
const darkWanted = matchMedia("(prefers-color-scheme: dark)");
document.getElementById("theme").addEventListener("click", () =>
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
darkWanted.addEventListener("change", () => setTheme(darkWanted.matches ? "dark" : "light"));
let themeBeforePrint = "light";
addEventListener("beforeprint", () => {
  themeBeforePrint = document.documentElement.dataset.theme;
  setTheme("light");
});
addEventListener("afterprint", () => setTheme(themeBeforePrint));

function newChart(id) {
  const element = document.getElementById(id);
  const chart = L.createChart(element, {
    autoSize: true,
    layout: { attributionLogo: false, fontSize: 11 },
    rightPriceScale: { borderVisible: false },
    timeScale: { borderVisible: false, timeVisible: true, secondsVisible: false, minBarSpacing: 0.001 },
    crosshair: { mode: L.CrosshairMode.Normal },
    localization: { locale: "en-US" },
  });
  repaints.push(() => chart.applyOptions({
    layout: {
      background: { color: css("--panel") }, textColor: css("--dim"),
      panes: { separatorColor: css("--line") },
    },
    grid: { vertLines: { color: css("--plot-grid") }, horzLines: { color: css("--plot-grid") } },
  }));
  return chart;
}
