// Ownership over time as the server sends it (pages/picture.py), and as an image: a pixel across is
// a piece of time, a line down a partition.
import {HUES, mix} from "./paint.js";

const [, GAP, OVERLAP, OWNER] = [0, 1, 2, 3], JOINED = 64; // as pages/pixels.py has them
const SEPARATED = 4; // pixels of a run, from which on it is told from the one before by a line

export const isOwned = (code) => (code & ~JOINED) >= OWNER;
export const isGap = (code) => (code & ~JOINED) === GAP;
export const isJoined = (code) => (code & JOINED) !== 0;
export const hueOf = (code) => (code & ~JOINED) - OWNER;

export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const next = (Kind, count) => {
    const part = new Kind(buffer, at, count);
    at += part.byteLength;
    return part;
  };
  const ends = head.layers.map(([, runs]) => next(Uint16Array, runs));
  const codes = head.layers.map(([, runs]) => next(Uint8Array, runs));
  const [owners, learners, standbys] = head.layers.map(([width], i) => (
    {width, ends: ends[i], codes: codes[i]}
  ));
  const marks = head.marks.map(([kind, at, count, what, address]) => (
    {kind, at, count, what, address}
  ));
  return {...head, owners, learners, standbys, marks};
}

// Calls back with (line, first pixel, pixel after the last, code) of each run.
export function eachRun({width, ends, codes}, call) {
  for (let i = 0, line = 0, x = 0; i < ends.length; i++) {
    call(line, x, ends[i], codes[i]);
    x = ends[i];
    if (x === width) { line++; x = 0; }
  }
}

export function codeAt({width, ends, codes}, line, share) {
  const pixel = Math.min(width - 1, Math.floor(share * width));
  for (let i = 0, at = 0; i < ends.length; i++) {
    if (at === line && ends[i] > pixel) return codes[i];
    if (ends[i] === width) at++;
  }
  return 0;
}

const packed = ([r, g, b], alpha = 255) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;

// Colours of all codes, as ImageData has them.
function table(hues, colours) {
  const found = new Uint32Array(256);
  const owners = [...hues, colours["line-strong"]];
  const put = (code, colour) => {
    found[code] = packed(colour);
    found[code | JOINED] = packed(mix(colour, colours.ink, 0.35));
  };
  put(GAP, colours.alarm); put(OVERLAP, colours.alarm);
  for (let hue = 0; hue <= HUES; hue++) put(OWNER + hue, owners[hue]);
  return found;
}

// The owners as an image of one pixel a line; nothing to paint is null.
export function image(picture, hues, colours) {
  const {owners, lines} = picture;
  if (!lines.length) return null;
  const made = new OffscreenCanvas(owners.width, lines.length);
  const data = new ImageData(owners.width, lines.length);
  const pixels = new Uint32Array(data.data.buffer), shades = table(hues, colours);
  const surface = packed(colours.surface);
  let before = 0;
  eachRun(owners, (line, x, end, code) => {
    const start = line * owners.width;
    if (code) pixels.fill(shades[code], start + x, start + end);
    if ((code & ~JOINED) === OVERLAP) {
      for (let i = x; i < end; i++) if ((i >> 1) & 1) pixels[start + i] = surface;
    } else if (x > 0 && end - x >= SEPARATED && isOwned(code) && isOwned(before)) {
      pixels[start + x] = surface;
    }
    before = code;
  });
  made.getContext("2d").putImageData(data, 0, 0);
  return made;
}
