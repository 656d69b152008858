// The ownership map: a canvas drawn from typed arrays. Colour = owner, outline = state, a striped
// band = its learner with what it has restored, hatched edges = standbys, a notch = its owner is
// leaving. Nothing moves but a partition that changes hands: a short fade from the old owner's
// colour.
import {STATES} from "./live.js";
import {HUES, css, mix, pattern, readColours, readHues} from "./paint.js";
import {Pixels, word} from "./pixels.js";
import {number, short, span} from "./show.js";

const FADE_MS = 900;
const FADE_STEP_MS = 50; // more often it takes the browser longer than what changes
const WIDTHS = [200, 120, 88, 56, 40, 28, 20, 14, 10, 8, 6, 5, 4, 3];
const OWNED = STATES.indexOf("owned"),
  UNKNOWN = STATES.indexOf("unknown");
const LABELLED = 28; // pixels wide; narrower cells have no text
const MARKED = 8; // narrower ones have a mark of one colour
// Of a state's outline: colour, width, dashes.
const FORMS = {
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
const STANDBYS_SHOWN = 3; // of one partition; the card and the table name all
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
    this.places = new Int32Array(size);
    for (let place = 0; place < size; place++) this.places[this.at[place]] = place;
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
    if (this.cells.size !== this.at?.length) {
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
      if (n >= this.places.length) continue;
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

  marks(context, n, x, y, w, h, scale, fill) {
    const state = STATES[this.cells.state[n]];
    context.globalAlpha = this.opacityOf(n);
    if (!scale) this.replicas(context, n, x, y, w, h);
    if (this.isLeaving(n))
      this.notch(context, x, y, this.width < MARKED ? w / 2 : Math.min(10, w / 3));
    this.outline(context, state, x, y, w, h);
    if (this.width >= LABELLED) this.label(context, n, state, x, y, w, h, fill, scale);
    if (n === this.focus) {
      context.globalAlpha = 1;
      context.setLineDash([]);
      context.lineWidth = 2;
      context.strokeStyle = css(this.colours.ink);
      context.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
    context.globalAlpha = 1;
  }

  isLeaving(n) {
    const owner = this.cells.owner[n];
    return owner >= 0 && this.leaving?.[owner] === 1;
  }

  notch(context, x, y, side) {
    context.fillStyle = css(this.colours.warn);
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
    if (this.width < MARKED) {
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
    const form = FORMS[state];
    if (!form) return;
    const [colour, width, dash] = form;
    if (this.width < MARKED) {
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
    const place = this.places[n];
    return {
      x: (place % this.columns) * this.width,
      y: Math.floor(place / this.columns) * this.height,
    };
  }

  step(key) {
    const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns}[key];
    if (!by) return false;
    const from = this.focus < 0 ? 0 : this.places[this.focus] + by;
    if (from >= 0 && from < this.at.length) this.focus = this.at[from];
    this.draw();
    return true;
  }
}
