// A picture of tens of thousands of small rectangles, put into pixels directly: a call of the
// canvas for each would take longer than a frame lasts. Has what small cells use of its context.
const COLOURS_MAX = 10000; // known ones; what fades passes through many
const COLOUR = /^rgb\((\d+), ?(\d+), ?(\d+)\)$/;

export class Pixels {
  constructor(context, ratio) {
    const {width, height} = context.canvas;
    this.context = context; this.ratio = ratio;
    this.image = context.createImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer); // one a pixel
    this.colours = new Map(); // as CSS writes it -> blue, green, red
  }

  fits({canvas}, ratio) {
    const {width, height} = this.image;
    return canvas.width === width && canvas.height === height && ratio === this.ratio;
  }

  begin() {
    this.words.fill(0); this.globalAlpha = 1;
    if (this.colours.size > COLOURS_MAX) this.colours.clear();
  }

  end() { this.context.putImageData(this.image, 0, 0); }

  set fillStyle(text) {
    let colour = this.colours.get(text);
    if (colour === undefined) {
      const [, red, green, blue] = COLOUR.exec(text);
      colour = blue << 16 | green << 8 | red;
      this.colours.set(text, colour);
    }
    this.colour = colour;
  }

  word(alpha) { return (Math.round(alpha * 255) << 24 | this.colour) >>> 0; }

  // Of pixels at the right and below that it covers in part those are drawn, paler, that have
  // nothing yet: they are the gaps between cells.
  fillRect(x, y, w, h) {
    const {ratio, words, globalAlpha: alpha} = this, {width, height} = this.image;
    const left = Math.round(x * ratio), top = Math.round(y * ratio);
    const toRight = Math.min(width, (x + w) * ratio), right = Math.floor(toRight);
    const toBottom = Math.min(height, (y + h) * ratio), bottom = Math.floor(toBottom);
    const word = this.word(alpha);
    for (let row = top; row < bottom; row++) {
      for (let i = row * width + left; i < row * width + right; i++) words[i] = word;
    }
    if (toRight > right) this.pale(right, top, right + 1, bottom, alpha * (toRight - right));
    if (toBottom > bottom) this.pale(left, bottom, right, bottom + 1, alpha * (toBottom - bottom));
  }

  pale(left, top, right, bottom, alpha) {
    const {words} = this, {width} = this.image, word = this.word(alpha);
    for (let row = top; row < bottom; row++) {
      for (let i = row * width + left; i < row * width + right; i++) if (!words[i]) words[i] = word;
    }
  }
}
