// Maps of groups as strips: a pixel or more for each partition, in the colours of page.css.
import {HUES} from "./paint.js";
import {variable} from "./show.js";

const ROW = 24; // pixels of CSS, when all fit beside each other
const ROW_DENSE = 2;
const place = document.getElementById("overview");

function colours() {
  const found = {".": variable("--alarm"), "!": variable("--warn"), "?": variable("--line-strong")};
  for (let hue = 0; hue < HUES; hue++) found[hue] = variable(`--owner-${hue}`);
  return found;
}

function draw(canvas, colour) {
  const {cells} = canvas.dataset, ratio = devicePixelRatio || 1;
  const wide = Math.floor(canvas.parentElement.clientWidth - padding(canvas.parentElement)) * ratio;
  if (wide < 1) return;
  const rows = Math.ceil(cells.length / wide), columns = Math.ceil(cells.length / rows);
  const tall = Math.round((rows === 1 ? ROW : ROW_DENSE) * ratio);
  canvas.width = wide; canvas.height = rows * tall;
  const context = canvas.getContext("2d");
  for (let from = 0; from < cells.length;) {
    const row = Math.floor(from / columns), end = Math.min((row + 1) * columns, cells.length);
    let to = from + 1;
    while (to < end && cells[to] === cells[from]) to++;
    const left = Math.round(((from - row * columns) * wide) / columns);
    const right = Math.round(((to - row * columns) * wide) / columns);
    context.fillStyle = colour[cells[from]];
    context.fillRect(left, row * tall, right - left, tall);
    from = to;
  }
}

function padding(element) {
  const {paddingLeft, paddingRight} = getComputedStyle(element);
  return parseFloat(paddingLeft) + parseFloat(paddingRight);
}

function drawAll() {
  const colour = colours();
  for (const canvas of place.querySelectorAll("canvas[data-cells]")) draw(canvas, colour);
}

new MutationObserver(drawAll).observe(place, {childList: true}); // the fragment was fetched anew
new ResizeObserver(drawAll).observe(place);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
