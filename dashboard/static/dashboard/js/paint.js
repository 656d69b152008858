// What canvases are painted with: the hues of owners, which records/queries/colours.py deals, the
// colours of page.css, and the patterns of replicas.
import {rgb, variable} from "./show.js";

export const HUES = 10;

export const readHues = () => Array.from({length: HUES}, (_, i) => rgb(variable(`--owner-${i}`)));
export const readColours = (names) =>
  Object.fromEntries(names.map((name) => [name, rgb(variable(`--${name}`))]));

export const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
// Kept with the colour: thousands of cells share a few.
export const css = (c) => c.css ??= `rgb(${c[0]},${c[1]},${c[2]})`;

// Standby: a hatch; learner: stripes.
export function pattern(context, colour, kind, surface) {
  return colour[kind] ??= context.createPattern(tile(colour, kind, surface), "repeat");
}

// Hatch: thin lines that fall; stripe: broad ones that rise, on a lighter ground of that colour.
function tile(colour, kind, surface) {
  const side = kind === "hatch" ? 4 : 8, made = new OffscreenCanvas(side, side);
  const pen = made.getContext("2d");
  pen.fillStyle = css(kind === "hatch" ? surface : mix(colour, surface, 0.55));
  pen.fillRect(0, 0, side, side);
  pen.strokeStyle = css(colour); pen.lineWidth = kind === "hatch" ? 1.4 : 3;
  pen.beginPath();
  for (const shift of [-side, 0, side]) {
    if (kind === "hatch") { pen.moveTo(shift, 0); pen.lineTo(shift + side, side); }
    else { pen.moveTo(shift, side); pen.lineTo(shift + side, 0); }
  }
  pen.stroke();
  return made;
}
