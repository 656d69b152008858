// Draws the figures; again when the system changes between light and dark.
const root = getComputedStyle(document.documentElement);
const figures = JSON.parse(document.getElementById("figures").textContent);
const LINE = 18; // pixels, of a legend

// Wherever a figure names a variable of page.css, its value.
function themed(given) {
  if (Array.isArray(given)) return given.map(themed);
  if (given && typeof given === "object")
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, themed(value)]));
  return typeof given === "string" && given.startsWith("--")
    ? root.getPropertyValue(given).trim()
    : given;
}

function layout(given) {
  const axis = (own) => ({
    gridcolor: "--line",
    linecolor: "--line-strong",
    zerolinecolor: "--line-strong",
    automargin: true,
    ...own,
    title: {...own?.title, font: {size: 12}},
  });
  return themed({
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    hovermode: "closest",
    font: {family: "--font", size: 12, color: "--muted"},
    legend: {
      orientation: "h",
      x: 0,
      yref: "container",
      y: 0,
      yanchor: "bottom",
      font: {size: 12},
      bgcolor: "transparent",
    },
    hoverlabel: {bgcolor: "--surface", bordercolor: "--line-strong", font: {color: "--ink"}},
    ...given,
    xaxis: axis(given.xaxis),
    yaxis: axis(given.yaxis),
    margin: {l: 56, r: 16, t: 24, b: 48 + 2 * LINE, ...given.margin},
  });
}

function draw() {
  for (const [place, figure] of Object.entries(figures)) {
    Plotly.react(place, themed(figure.data), layout(figure.layout), {
      displayModeBar: false,
      responsive: true,
    });
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
