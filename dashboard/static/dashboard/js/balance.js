// The Balance tab: Plotly.react with a constant uirevision. One zoom for all charts over time.
import {live} from "./group.js";
import {rgb, variable, written} from "./show.js";

const charts = document.getElementById("charts");
const EVERY_MS = 2000;
const SAMPLES_MS = 10000;
const SETTLE_MS = 4000;
const MOMENT = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
// Moments in the zone chosen: Plotly knows none, and shows what is written.
const read = (text) =>
  JSON.parse(text, (_, value) => (MOMENT.test(value) ? written(Date.parse(value)) : value));
let figures = read(document.getElementById("figures").textContent);
let held = false; // somebody drags: to draw anew would end it
let zoom = null; // [from, to] that somebody chose; else each figure's own range

// Plotly knows neither variables nor color-mix.
const faint = (colour) => `rgba(${rgb(colour)},0.16)`;

const coloured = (trace) => ({
  ...trace,
  line: {color: variable(`--${trace.colour}`), width: 1.5, shape: trace.shape},
  marker: {
    color: trace.colours
      ? trace.colours.map((name) => variable(`--${name}`))
      : variable(`--${trace.colour}`),
    size: trace.symbol ? 10 : 6,
    symbol: trace.symbol,
  },
  fillcolor: trace.fill ? faint(variable(`--${trace.colour}`)) : undefined,
  cliponaxis: trace.type === "scatter" && !zoom ? false : undefined,
});

const isOverTime = (given) => given.xaxis.type === "date";

function layout(given) {
  const axis = (own) => ({
    gridcolor: variable("--line"),
    linecolor: variable("--line-strong"),
    zerolinecolor: variable("--line-strong"),
    zeroline: false,
    // The margin below changes how many ticks axes beside have, so how wide their labels are, so
    // how many moments fit below: Plotly goes round in that and gives up.
    automargin: own.type !== "date",
    fixedrange: own.type !== "date",
    ...own,
    title: {...own.title, font: {size: 11}},
  });
  const axes = Object.fromEntries(
    Object.entries(given)
      .filter(([name]) => /^[xy]axis/.test(name))
      .map(([name, own]) => [name, axis(own)]),
  );
  if (isOverTime(given) && zoom) axes.xaxis.range = zoom;
  return {
    ...given,
    ...axes,
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    bargap: 0.4,
    hovermode: "closest",
    font: {family: variable("--font"), size: 12, color: variable("--muted")},
    margin: {l: 56, r: 16, t: 12, b: 44},
    legend: {
      orientation: "h",
      traceorder: "normal",
      x: 0,
      y: 0.505,
      yanchor: "middle",
      font: {size: 11},
      bgcolor: "transparent",
      itemwidth: 30,
    },
    hoverlabel: {
      bgcolor: variable("--surface"),
      bordercolor: variable("--line-strong"),
      font: {color: variable("--ink")},
    },
    shapes: (given.shapes ?? []).map((shape) => ({
      ...shape,
      line: {...shape.line, color: variable(`--${shape.colour}`)},
    })),
  };
}

function draw() {
  for (const place of charts.querySelectorAll("[data-figure]")) {
    const {data, layout: given} = figures[place.dataset.figure];
    Plotly.react(place, data.map(coloured), layout(given), {
      displayModeBar: false,
      responsive: true,
      doubleClick: false,
    });
    if (isOverTime(given) && !place.dataset.linked) link(place);
  }
}

// By relayout: Plotly.react keeps a range that was chosen in the chart where the given one is as
// before.
function showAll() {
  zoom = null;
  for (const place of charts.querySelectorAll("[data-linked]"))
    Plotly.relayout(place, {"xaxis.range": figures[place.dataset.figure].layout.xaxis.range});
  draw();
}

function link(place) {
  place.dataset.linked = "yes";
  place.on("plotly_relayout", (change) => {
    const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (range[0] !== undefined) {
      zoom = range;
      draw();
    }
  });
  place.on("plotly_doubleclick", showAll);
  place.on("plotly_click", ({points}) => {
    if (points[0].customdata) location.assign(charts.dataset.history + points[0].customdata);
  });
  place.on("plotly_hover", ({points}) =>
    place.classList.toggle("over", Boolean(points[0].customdata)),
  );
  place.on("plotly_unhover", () => place.classList.remove("over"));
}

async function fetchAgain() {
  if (document.hidden) return;
  const answer = await fetch(charts.dataset.url, {signal: AbortSignal.timeout(10000)}).catch(
    () => null,
  );
  if (!answer?.ok || answer.redirected) return;
  figures = read(await answer.text());
  if (held) soon();
  else draw();
}

let timer = 0,
  last = 0,
  settle = 0;
function soon() {
  if (timer) return;
  timer = setTimeout(
    () => {
      timer = 0;
      last = Date.now();
      fetchAgain();
    },
    Math.max(200, last + EVERY_MS - Date.now()),
  );
}

live.addEventListener("change", ({detail}) => {
  if (!detail.rebalanced && !detail.moved.length && !detail.members) return;
  soon();
  clearTimeout(settle);
  settle = setTimeout(soon, SETTLE_MS);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
charts.addEventListener(
  "pointerdown",
  () => {
    held = true;
  },
  true,
);
for (const end of ["pointerup", "pointercancel"])
  addEventListener(
    end,
    () => {
      held = false;
    },
    true,
  );
if (charts.dataset.url) setInterval(fetchAgain, SAMPLES_MS);
draw();
