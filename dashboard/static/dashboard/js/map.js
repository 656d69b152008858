// The ownership map: a canvas drawn from typed arrays. Colour = owner, outline = state, a striped
// band = its learner with what it has restored, hatched edges = standbys, a notch = its owner is
// leaving. Nothing moves but a partition that changes hands: a short fade from the old owner's
// colour.
import {STATES} from "./live.js";
import {HUES, css, mix, pattern, readColours, readHues} from "./paint.js";
import {Pixels} from "./pixels.js";
import {number, short, span} from "./show.js";

const FADE_MS = 900;
const WIDTHS = [200, 120, 88, 56, 40, 28, 20, 14, 10, 8, 6, 5, 4, 3];
const SMALL = 8; // cells below that have no room for a line or a pattern
const STANDBYS_SHOWN = 3; // of one partition; the card and the table name all
// Of a partition's state: colour, width, dashes.
const OUTLINES = {
  acquiring: ["accent", 2, [4, 3]],
  restoring: ["accent", 2, [8, 3]],
  releasing: ["accent", 2, [1, 3]],
  unowned: ["warn", 2, [6, 3]],
  conflict: ["alarm", 4, []],
  unknown: ["muted", 1.5, [2, 2]],
  halted: ["alarm", 3, [2, 3]],
  paused: ["muted", 3, []],
  pausing: ["muted", 3, [8, 3]],
  unserved: ["warn", 3, [1, 3]],
};
const height = (width) => (width >= 56 ? 56 : width >= 28 ? 28 : width);
const still = matchMedia("(prefers-reduced-motion: reduce)");

const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
// Whichever of the two inks stands out more (WCAG's relative luminance).
const ink = (c) =>
  0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]) > 0.18
    ? "#0b0f13"
    : "#ffffff";

export class OwnershipMap {
  constructor(canvas, live) {
    this.canvas = canvas;
    this.live = live;
    this.cells = live.cells;
    this.overlay = "owner";
    this.arrange = "number";
    this.lit = null;
    this.focus = -1;
    this.moves = new Map();
    this.readColours();
    new ResizeObserver(() => this.layout()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.readColours();
      this.draw();
    });
    this.layout();
  }

  readColours() {
    this.hues = readHues();
    this.colours = readColours([
      "nobody",
      "ink",
      "muted",
      "accent",
      "alarm",
      "warn",
      "surface",
      "line-strong",
      "sunk",
    ]);
  }

  layout() {
    const size = this.cells.size,
      wide = this.canvas.parentElement.clientWidth;
    if (!size || !wide) return;
    const tall = Math.max(320, innerHeight * 0.6);
    let width =
      WIDTHS.find(
        (w) =>
          w <= wide &&
          Math.ceil(size / Math.floor(wide / w)) * height(w) <= (w >= 120 ? 240 : tall),
      ) ?? 3;
    const rows = Math.ceil(size / Math.floor(wide / width));
    this.columns = width >= 28 ? Math.ceil(size / rows) : Math.floor(wide / width);
    this.width = wide / this.columns;
    this.height = height(width);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${rows * this.height}px`;
    this.ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(wide * this.ratio);
    this.canvas.height = Math.round(rows * this.height * this.ratio);
    this.order();
    this.draw();
  }

  // place -> partition, and back
  order() {
    const size = this.cells.size;
    this.at = Int32Array.from({length: size}, (_, n) => n);
    if (this.arrange === "member") {
      const {owner} = this.cells;
      this.at = this.at.sort((a, b) => owner[a] - owner[b] || a - b);
    }
  }

  colourOf(ownerIndex) {
    if (ownerIndex < 0) return this.colours.nobody;
    return this.shades[ownerIndex];
  }

  // Of each name: its colour, and whether it is leaving. Once per picture, not once per cell.
  readMembers() {
    const members = this.cells.names.map((name) => this.live.members.get(name));
    this.leaving = Uint8Array.from(members, (member) => (member?.leaving ? 1 : 0));
    this.shades = members.map((member) =>
      member?.colour === null || member?.colour === undefined
        ? this.colours["line-strong"]
        : this.hues[member.colour % HUES],
    );
  }

  change(detail) {
    if (this.cells.size !== this.at?.length) {
      this.layout();
      return;
    }
    if (this.arrange === "member" && detail.moved.length) this.order();
    this.draw();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      if (this.paint(now)) this.draw();
    });
  }

  // Returns whether something still fades.
  paint(now) {
    const context = this.canvas.getContext("2d"),
      {cells} = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const scale = this.scale(), pen = this.pen(context);
    this.readMembers();
    let fading = false;
    const fades = !still.matches; // asked once: for each cell it costs what drawing does
    for (let place = 0; place < this.at.length; place++) {
      const n = this.at[place];
      const x = Math.round((place % this.columns) * this.width),
        y = Math.floor(place / this.columns) * this.height;
      const right = Math.round(((place % this.columns) + 1) * this.width);
      const t = fades ? Math.min(1, (now - cells.movedAt[n]) / FADE_MS) : 1;
      if (t < 1) fading = true;
      const owner = this.colourOf(cells.owner[n]);
      const shade = t < 1 ? mix(this.colourOf(cells.before[n]), owner, Math.max(0, t)) : owner;
      this.cell(pen, n, x, y, right - x, shade, scale);
    }
    pen.end?.();
    this.ring(context);
    return fading;
  }

  // What cells are drawn with.
  pen(context) {
    if (this.width >= SMALL) return context;
    if (!this.pixels?.fits(context, this.ratio)) this.pixels = new Pixels(context, this.ratio);
    this.pixels.begin();
    return this.pixels;
  }

  ring(context) {
    const place = this.at.indexOf(this.focus);
    if (place < 0) return;
    const {x, y} = this.placeOf(this.focus),
      less = this.gap + 2;
    context.lineWidth = 2;
    context.strokeStyle = css(this.colours.ink);
    context.strokeRect(Math.round(x) + 1, y + 1, this.width - less, this.height - less);
  }

  get gap() {
    return this.width >= 12 ? 1 : this.width >= 5 ? 0.5 : 0;
  }

  // What the overlay shows of each partition: a value and its share of the greatest; null without
  // overlay.
  scale() {
    const {cells, overlay} = this;
    if (overlay === "owner") return null;
    const value = {
      lag: (n) => cells.lag[n],
      age: (n) => (cells.since[n] ? Math.max(0, this.live.atMs - cells.since[n]) : NaN),
      moves: (n) => this.moves.get(n) ?? 0,
    }[overlay];
    let most = 1;
    for (let n = 0; n < cells.size; n++) {
      const v = value(n);
      if (v > most) most = v;
    }
    return {value, most, text: overlay === "age" ? span : number};
  }

  cell(context, n, x, y, w, shade, scale) {
    w -= this.gap;
    const h = this.height - this.gap;
    const state = STATES[this.cells.state[n]];
    let fill = shade;
    if (scale) {
      const v = scale.value(n),
        share = Number.isNaN(v) ? 0 : Math.sqrt(v / scale.most);
      fill = mix(this.colours.sunk, this.colours.accent, share);
    }
    context.globalAlpha =
      this.lit !== null && this.cells.ownerOf(n) !== this.lit
        ? 0.25
        : state === "unknown"
          ? 0.45
          : 1;
    context.fillStyle = css(fill);
    context.fillRect(x, y, w, h);
    if (scale) {
      context.fillStyle = css(shade);
      context.fillRect(x, y + h - Math.max(1, h * 0.12), w, Math.max(1, h * 0.12));
    } else this.replicas(context, n, x, y, w, h);
    if (this.isLeaving(n)) {
      this.notch(context, x, y, this.width < SMALL ? w / 2 : Math.min(10, w / 3));
    }
    this.outline(context, state, x, y, w, h);
    if (this.width >= 28) this.label(context, n, state, x, y, w, h, fill, scale);
    context.globalAlpha = 1;
  }

  isLeaving(n) {
    const owner = this.cells.owner[n];
    return owner >= 0 && this.leaving?.[owner] === 1;
  }

  notch(context, x, y, side) {
    context.fillStyle = css(this.colours.warn);
    if (this.width < SMALL) {
      context.fillRect(x, y, side, side);
      return;
    }
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + side, y);
    context.lineTo(x, y + side);
    context.fill();
  }

  // Standbys: edges at the right, hatched. A learner: a band below, striped as far as it has
  // restored. In cells of a few pixels there is room for the learner's colour only.
  replicas(context, n, x, y, w, h) {
    const {cells} = this,
      learner = cells.learner[n];
    if (learner < 0 && !cells.standbys.has(n)) return;
    if (this.width < SMALL) {
      if (learner >= 0) {
        context.fillStyle = css(this.colourOf(learner));
        context.fillRect(x, y + h - Math.ceil(h / 3), w, Math.ceil(h / 3));
      }
      return;
    }
    const thick = h >= 56 ? 9 : h >= 28 ? 6 : Math.max(2, Math.round(h / 4));
    const band = learner < 0 ? 0 : thick;
    const keepers = cells.standbys.get(n) ?? [];
    for (let i = 0; i < keepers.length && i < STANDBYS_SHOWN; i++) {
      this.edged(
        context,
        x + w - (i + 1) * (thick + 1) + 1,
        y,
        thick,
        h - band,
        this.pattern(context, this.colourOf(keepers[i]), "hatch"),
      );
    }
    if (!band) return;
    const done = cells.ready[n] ? 1 : (cells.percent[n] || 0) / 100;
    this.edged(context, x, y + h - band, w, band, css(this.colours.sunk));
    context.fillStyle = this.pattern(context, this.colourOf(learner), "stripe");
    context.fillRect(x, y + h - band + 1, Math.round(w * done), band - 1);
  }

  edged(context, x, y, w, h, fill) {
    context.fillStyle = css(this.colours.surface);
    context.fillRect(x - 1, y - 1, w + 1, h + 1);
    context.fillStyle = fill;
    context.fillRect(x, y, w, h);
  }

  pattern(context, colour, kind) {
    return pattern(context, colour, kind, this.colours.surface);
  }

  outline(context, state, x, y, w, h) {
    const form = OUTLINES[state];
    if (!form) return;
    const [colour, width, dash] = form;
    if (this.width < SMALL) {
      context.fillStyle = css(this.colours[colour]);
      context.fillRect(x + w / 4, y + h / 4, w / 2, h / 2);
      return;
    }
    context.setLineDash(dash);
    context.lineWidth = width;
    context.strokeStyle = css(this.colours[colour]);
    context.strokeRect(x + width / 2 + 0.5, y + width / 2 + 0.5, w - width - 1, h - width - 1);
    context.setLineDash([]);
  }

  label(context, n, state, x, y, w, h, fill, scale) {
    context.fillStyle = ink(fill);
    context.textBaseline = "middle";
    context.textAlign = "left";
    if (this.height < 56 || w < 84) {
      context.textAlign = "center";
      context.font = "11px system-ui, sans-serif";
      context.fillText(scale ? scale.text(scale.value(n)) : String(n), x + w / 2, y + h / 2, w - 4);
      return;
    }
    context.font = "600 16px system-ui, sans-serif";
    context.fillText(String(n), x + 10, y + 19);
    context.font = "12px system-ui, sans-serif";
    const owner = this.cells.ownerOf(n),
      edge = scale ? 0 : Math.min(STANDBYS_SHOWN, this.cells.standbys.get(n)?.length ?? 0) * 10;
    const word =
      state === "owned"
        ? this.isLeaving(n)
          ? "leaving"
          : ""
        : ["unowned", "unserved"].includes(state)
          ? ""
          : state;
    const learned = scale ? "" : this.learned(n),
      roomy = w - edge >= 150;
    const [above, beside] = scale
      ? [scale.text(scale.value(n)), ""]
      : roomy || !learned
        ? [word, learned]
        : [learned, ""];
    context.globalAlpha *= 0.9;
    context.fillText(
      this.fitting(context, owner ? short(owner) : state, w - 20 - edge - (beside ? 44 : 0)),
      x + 10,
      y + (learned ? 35 : 39),
    );
    context.textAlign = "right";
    context.fillText(above, x + w - 8 - edge, y + 19, w - 44 - edge);
    context.fillText(beside, x + w - 8 - edge, y + 35);
  }

  // What the learner has restored, in a few signs; "" without one.
  learned(n) {
    const {cells} = this;
    if (cells.learner[n] < 0) return "";
    return cells.ready[n]
      ? "ready"
      : Number.isNaN(cells.percent[n])
        ? "—"
        : `${cells.percent[n]}\u202f%`;
  }

  // The end of a member's id tells it from the others: where there is no room, the beginning goes.
  fitting(context, text, room) {
    let shown = text;
    while (shown.length > 4 && context.measureText(shown).width > room)
      shown = `…${shown.slice(shown[0] === "…" ? 2 : 1)}`;
    return shown;
  }

  partitionAt(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((clientX - box.left) / this.width),
      row = Math.floor((clientY - box.top) / this.height);
    const place = row * this.columns + column;
    return column >= 0 && column < this.columns && row >= 0 && place < (this.at?.length ?? 0)
      ? this.at[place]
      : -1;
  }

  placeOf(n) {
    const place = this.at.indexOf(n);
    return {
      x: (place % this.columns) * this.width,
      y: Math.floor(place / this.columns) * this.height,
    };
  }

  step(key) {
    const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns}[key];
    if (!by) return false;
    const from = this.focus < 0 ? 0 : this.at.indexOf(this.focus) + by;
    if (from >= 0 && from < this.at.length) this.focus = this.at[from];
    this.draw();
    return true;
  }
}
