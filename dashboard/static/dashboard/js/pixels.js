// A picture of thousands of cells, written as pixels: a row of cells is one line of them, copied
// downwards; what is drawn cell by cell takes a canvas several times as long.
const OPAQUE = 255;

// As the picture stores a colour [red, green, blue] of an opacity from 0 to 1.
export const word = (c, alpha = 1) =>
  (Math.round(alpha * OPAQUE) * 2 ** 24 + (c[2] << 16) + (c[1] << 8) + c[0]) >>> 0;

const fainter = (w, alpha) => ((w & 0xffffff) + Math.round((w >>> 24) * alpha) * 2 ** 24) >>> 0;

export class Pixels {
  constructor(width, height) {
    this.image = new ImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer);
    this.width = width;
    this.height = height;
  }

  clear() { this.words.fill(0); }

  // From x to `right`, in line y. The last `gap` pixels, also of parts, stay as the ground is.
  stroke(y, x, right, colour, gap) {
    const clear = Math.floor(gap), end = Math.min(right, this.width) - clear, line = y * this.width;
    for (let i = x; i < end; i++) this.words[line + i] = colour;
    if (gap > clear && end > x) this.words[line + end - 1] = fainter(colour, 1 - gap + clear);
  }

  // The line is what the next ones are, down to `bottom`, but for the last `gap` of them.
  extend(y, bottom, gap) {
    const clear = Math.floor(gap), end = Math.min(bottom, this.height) - clear;
    const start = y * this.width, next = start + this.width;
    for (let to = y + 1; to < end; to++) this.words.copyWithin(to * this.width, start, next);
    if (gap === clear || end <= y + 1) return;
    const last = (end - 1) * this.width;
    for (let i = 0; i < this.width; i++) {
      this.words[last + i] = fainter(this.words[start + i], 1 - gap + clear);
    }
  }

  rectangle(x, y, w, h, colour) {
    const right = Math.min(x + w, this.width), bottom = Math.min(y + h, this.height);
    for (let line = y; line < bottom; line++) {
      for (let i = x; i < right; i++) this.words[line * this.width + i] = colour;
    }
  }
}
