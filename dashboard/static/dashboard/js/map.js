// The ownership map: a canvas drawn from typed arrays. Colour = owner, outline = state, a striped
// band = its learner with what it has restored, hatched edges = standbys, a notch = its owner is
// leaving. Nothing moves but a partition that changes hands: a short fade from the old owner's
// colour. Of many partitions a window is shown: `count` places of the order from `first` on.
import {STATES} from "./live.js";
import {FORMS, LABELLED, MARKED, Marks} from "./map_marks.js";
import {HUES, css, mix, readColours, readHues} from "./paint.js";
import {Pixels, word} from "./pixels.js";
import {number, span} from "./show.js";

const FADE_MS = 900;
const FADE_STEP_MS = 50; // more often it takes the browser longer than what changes
const WIDTHS = [200, 120, 88, 56, 40, 28, 20, 14, 10, 8, 6, 5, 4, 3];
const FEWEST = 24; // in a window
const OWNED = STATES.indexOf("owned"),
  UNKNOWN = STATES.indexOf("unknown");
const height = (width) => (width >= 56 ? 56 : width >= 28 ? 28 : width);
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class OwnershipMap extends Marks {
  constructor(canvas, live) {
    super();
    this.canvas = canvas;
    this.live = live;
    this.cells = live.cells;
    this.overlay = "owner";
    this.arrange = "number";
    this.lit = null;
    this.focus = -1;
    this.first = 0;
    this.count = Infinity;
    this.moves = new Map();
    this.due = new Set();
    this.fading = new Set(); // partitions; due null: all
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
    const size = Math.min(this.count, this.cells.size),
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
    const all = Int32Array.from({length: size}, (_, n) => n);
    if (this.arrange === "member") {
      const {owner} = this.cells;
      all.sort((a, b) => owner[a] - owner[b] || a - b);
    }
    const shown = Math.min(this.count, size);
    this.first = Math.max(0, Math.min(this.first, size - shown));
    this.at = all.subarray(this.first, this.first + shown);
    this.places = new Int32Array(size).fill(-1); // not in the window
    for (let place = 0; place < shown; place++) this.places[this.at[place]] = place;
  }

  // As near as can be; all when `count` is as much.
  window(first, count) {
    this.count = count >= this.cells.size ? Infinity : Math.max(FEWEST, Math.round(count));
    this.first = Math.round(first);
    this.layout();
  }

  // What lies under partition n, or in the middle, stays where it is.
  zoom(factor, n = this.focus) {
    const shown = this.at.length,
      place = n >= 0 && this.places[n] >= 0 ? this.places[n] : shown / 2;
    this.window(this.first + place * (1 - factor), shown * factor);
  }

  // By a share of the window.
  pan(share) {
    this.window(this.first + this.at.length * share, this.count);
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
    const look = (member) => `${member?.colour ?? ""}${member?.leaving ? "!" : ""}`;
    this.looks = members.map(look).join();
  }

  change(detail) {
    const before = this.looks;
    this.readMembers();
    if (this.cells.size !== this.places?.length) {
      this.layout();
      return;
    }
    const again = this.arrange === "member" && detail.moved.length > 0;
    if (again) this.order();
    const all = again || before !== this.looks || this.overlay !== "owner";
    if (all || !Number.isInteger(this.ratio)) this.draw();
    else this.touch([...detail.changed, ...(detail.replicated ?? [])]);
  }

  draw() {
    this.due = null;
    this.schedule();
  }

  touch(numbers) {
    if (this.due) for (const n of numbers) this.due.add(n);
    if (!this.due || this.due.size) this.schedule();
  }

  schedule() {
    this.frame ||= requestAnimationFrame((now) => {
      this.frame = 0;
      if (this.paint(now)) this.fade ||= setTimeout(() => this.fadeOn(), FADE_STEP_MS);
    });
  }

  fadeOn() {
    this.fade = 0;
    this.touch(this.fading);
  }

  // What is due; all when nothing is. Returns whether something still fades.
  paint(now) {
    const context = this.canvas.getContext("2d"),
      some = this.due?.size ? this.due : null;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const scale = this.scale();
    this.readMembers();
    this.due = new Set();
    if (!some) this.fading.clear();
    if (!some && this.width < LABELLED) this.paintSmall(context, now, scale);
    else this.paintCells(context, now, scale, some ?? this.at);
    return this.fading.size > 0;
  }

  paintCells(context, now, scale, numbers) {
    for (const n of numbers) {
      if (!(this.places[n] >= 0)) continue;
      const [x, y, right] = this.box(this.places[n]);
      context.clearRect(x, y, right - x, this.height);
      this.cell(context, n, x, y, right - x, this.shadeOf(n, now), scale);
    }
  }

  box(place) {
    const column = place % this.columns;
    const y = Math.floor(place / this.columns) * this.height;
    return [Math.round(column * this.width), y, Math.round((column + 1) * this.width)];
  }

  // The owner's colour, or on the way there.
  shadeOf(n, now) {
    const {cells} = this,
      owner = this.colourOf(cells.owner[n]);
    const t = still.matches ? 1 : Math.min(1, (now - cells.movedAt[n]) / FADE_MS);
    if (t >= 1) {
      this.fading.delete(n);
      return owner;
    }
    this.fading.add(n);
    return mix(this.colourOf(cells.before[n]), owner, Math.max(0, t));
  }

  opacityOf(n) {
    if (this.lit !== null && this.cells.ownerOf(n) !== this.lit) return 0.25;
    return STATES[this.cells.state[n]] === "unknown" ? 0.45 : 1;
  }

  // All cells, which have no text: as pixels, then what needs a pen.
  paintSmall(context, now, scale) {
    const {ratio} = this,
      {width, height: tall} = this.canvas;
    const fits = this.pixels?.width === width && this.pixels.height === tall;
    if (!fits) this.pixels = new Pixels(width, tall);
    const {pixels} = this,
      gap = this.gap() * ratio,
      penned = [];
    const edge = (_, column) => Math.round(Math.round(column * this.width) * ratio);
    const edges = Int32Array.from({length: this.columns + 1}, edge);
    // nobody's is the last
    const owners = [...this.shades, this.colours.nobody].map((c) => word(c));
    pixels.clear();
    for (let first = 0; first < this.at.length; first += this.columns) {
      const end = Math.min(first + this.columns, this.at.length);
      const top = Math.round(this.box(first)[1] * ratio);
      const bottom = Math.round((this.box(first)[1] + this.height) * ratio);
      const foot = bottom - gap - Math.max(1, this.height * 0.12) * ratio; // the owner's colour
      const lines = scale ? [top, Math.round(foot)] : [top];
      for (let place = first; place < end; place++) {
        const n = this.at[place],
          x = edges[place - first],
          right = edges[place - first + 1];
        if (this.isPenned(n)) penned.push(n);
        if (!scale && this.isPlain(n, now)) {
          pixels.stroke(top, x, right, owners.at(this.cells.owner[n]), gap);
          continue;
        }
        const shade = this.shadeOf(n, now),
          alpha = this.opacityOf(n);
        const fill = scale ? this.shareOf(n, scale) : shade;
        lines.forEach((y, i) => pixels.stroke(y, x, right, word(i ? shade : fill, alpha), gap));
      }
      lines.forEach((y, i) => pixels.extend(y, lines[i + 1] ?? bottom, lines[i + 1] ? 0 : gap));
    }
    const left = this.width < MARKED ? penned.filter((n) => this.markSmall(n, scale)) : penned;
    context.putImageData(pixels.image, 0, 0);
    for (const n of left) this.marks(context, n, ...this.inside(n), scale);
  }

  // As `replicas` and `outline` draw it in cells of a few pixels; whether a pen is needed besides.
  markSmall(n, scale) {
    const [x, y, w, h] = this.inside(n),
      alpha = this.opacityOf(n),
      learner = this.cells.learner[n];
    const band = Math.ceil(h / 3),
      form = FORMS[STATES[this.cells.state[n]]];
    const rectangle = (colour, ...box) =>
      this.pixels.rectangle(...box.map((v) => Math.round(v * this.ratio)), word(colour, alpha));
    if (learner >= 0 && !scale) rectangle(this.colourOf(learner), x, y + h - band, w, band);
    if (form) rectangle(this.colours[form[0]], x + w / 4, y + h / 4, w / 2, h / 2);
    return n === this.focus || this.isLeaving(n);
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

  gap() {
    return this.width >= 12 ? 1 : this.width >= 5 ? 0.5 : 0;
  }

  inside(n) {
    const [x, y, right] = this.box(this.places[n]);
    return [x, y, right - x - this.gap(), this.height - this.gap()];
  }

  shareOf(n, scale) {
    const v = scale.value(n),
      share = Number.isNaN(v) ? 0 : Math.sqrt(v / scale.most);
    return mix(this.colours.sunk, this.colours.accent, share);
  }

  // Whether there is more of it than its colour.
  isPenned(n) {
    const {cells} = this;
    if (n === this.focus || cells.state[n] !== OWNED || this.isLeaving(n)) return true;
    return cells.learner[n] >= 0 || (cells.standbys.size > 0 && cells.standbys.has(n));
  }

  // Whether its owner's colour is all of it.
  isPlain(n, now) {
    const {cells} = this,
      fades = now - cells.movedAt[n] < FADE_MS && !still.matches;
    return !fades && this.lit === null && cells.state[n] !== UNKNOWN;
  }

  cell(context, n, x, y, w, shade, scale) {
    const gap = this.gap();
    w -= gap;
    const h = this.height - gap,
      fill = scale ? this.shareOf(n, scale) : shade;
    context.globalAlpha = this.opacityOf(n);
    context.fillStyle = css(fill);
    context.fillRect(x, y, w, h);
    if (scale) {
      context.fillStyle = css(shade);
      context.fillRect(x, y + h - Math.max(1, h * 0.12), w, Math.max(1, h * 0.12));
    }
    this.marks(context, n, x, y, w, h, scale, fill);
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
    const place = this.places[n];
    return {
      x: (place % this.columns) * this.width,
      y: Math.floor(place / this.columns) * this.height,
    };
  }

  step(key) {
    const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns}[key];
    if (!by) return false;
    let from = this.focus < 0 ? 0 : this.places[this.focus] + by;
    if (from < 0 || from >= this.at.length) {
      const before = this.first;
      this.window(this.first + by, this.count);
      from -= this.first - before;
    }
    if (from >= 0 && from < this.at.length) this.focus = this.at[from];
    this.draw();
    return true;
  }
}
