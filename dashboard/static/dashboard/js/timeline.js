// Partitions down, time across, on a canvas. Colour = owner, red = nobody, red stripes = overlap,
// striped band = learner, hatched band = standby, vertical lines = what happened. Until the server
// has sent the picture of a view, the one before is stretched into it.
import {css, pattern, readColours, readHues} from "./paint.js";
import {written} from "./show.js";
import {codeAt, eachRun, hueOf, image} from "./timeline_picture.js";

export const TOP = 14; // above the lines: what happened
const GUTTER = 48, RIGHT = 8, AXIS = 20; // around them
const LINE_MAX = 28, ONE_LINE = 56, HATCHED_FROM = 7;
const LABEL_PX = 100, SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY,
];
const MARKS = {rebalance: ["muted", []], lost: ["alarm", [4, 3]], gap: ["warn", [2, 3]]};
const NEAR_PX = 4; // of a mark

export class Timeline {
  // `at`: the moment that the page was asked for, null for none.
  constructor(canvas, view, at = null) {
    this.at = at;
    this.canvas = canvas; this.view = view; this.picture = null; this.image = null;
    this.cursor = null; this.selection = null; // {at, line}; {from, to, first, last}
    this.readColours();
    new ResizeObserver(() => this.resized()).observe(canvas.parentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => { this.readColours(); this.show(this.picture); });
    this.layout();
  }

  readColours() {
    this.hues = readHues();
    this.colours = readColours(
      ["ink", "muted", "accent", "alarm", "warn", "surface", "line", "line-strong", "sunk"],
    );
  }

  // How many lines and pixels a picture may have.
  get room() {
    const tall = Math.max(280, Math.round(innerHeight * 0.55)), wide = Math.round(this.across);
    return {rows: Math.min(1000, tall), width: Math.max(16, Math.min(4000, wide))};
  }

  get lines() { return this.picture?.lines ?? []; }

  // Every how many partitions there is a line.
  get every() { return this.lines.length > 1 ? this.lines[1] - this.lines[0] : 1; }

  resized() {
    const before = this.across;
    this.layout();
    if (this.across !== before) this.onresize?.();
  }

  layout() {
    const wide = this.canvas.parentElement.clientWidth, most = this.room.rows;
    if (!wide) return;
    const count = Math.max(1, this.lines.length);
    this.line = count === 1 ? ONE_LINE : Math.max(1, Math.min(LINE_MAX, Math.floor(most / count)));
    this.across = wide - GUTTER - RIGHT; this.down = count * this.line;
    const high = this.down + TOP + AXIS;
    this.ratio = devicePixelRatio || 1;
    this.canvas.style.width = `${wide}px`; this.canvas.style.height = `${high}px`;
    this.canvas.width = Math.round(wide * this.ratio);
    this.canvas.height = Math.round(high * this.ratio);
    this.draw();
  }

  show(picture) {
    this.picture = picture;
    this.image = picture && image(picture, this.hues, this.colours);
    this.layout();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.paint(); });
  }

  x(at) { return GUTTER + (at - this.view.from) / (this.view.to - this.view.from) * this.across; }
  y(line) { return TOP + line * this.line; }

  timeAt(x) {
    const share = Math.max(0, Math.min(1, (x - GUTTER) / this.across));
    return Math.round(this.view.from + share * (this.view.to - this.view.from));
  }

  lineAt(y) {
    const last = this.lines.length - 1;
    return Math.max(0, Math.min(last, Math.floor((y - TOP) / this.line)));
  }

  // Of the picture, which may be another view's for a moment.
  codeAt({at, line}) {
    const {picture} = this;
    if (!picture || at < picture.from || at >= picture.to) return 0;
    return codeAt(picture.owners, line, (at - picture.from) / (picture.to - picture.from));
  }

  markAt(at) {
    const far = (mark) => Math.abs(this.x(mark.at) - this.x(at));
    const near = (this.picture?.marks ?? []).filter((mark) => far(mark) <= NEAR_PX);
    return near.sort((a, b) => far(a) - far(b))[0] ?? null;
  }

  // Below 0: the line of a member's stays in the group.
  label(line) { return this.lines[line] < 0 ? "stays" : String(this.lines[line]); }

  get isCurrent() {
    const {picture, view} = this;
    return picture && picture.from === view.from && picture.to === view.to;
  }

  paint() {
    const context = this.canvas.getContext("2d"), {colours} = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.fillStyle = css(colours.sunk);
    context.fillRect(GUTTER, TOP, this.across, this.down);
    context.save();
    context.beginPath(); context.rect(GUTTER, 0, this.across, TOP + this.down); context.clip();
    this.owners(context);
    this.replicas(context);
    this.rules(context);
    this.marks(context);
    this.chosen(context);
    context.restore();
    this.axes(context);
  }

  owners(context) {
    if (!this.image) return;
    const {from, to} = this.picture, left = this.x(from);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, left, TOP, this.x(to) - left, this.down);
  }

  replicas(context) {
    if (!this.isCurrent || this.line < HATCHED_FROM) return;
    const band = Math.max(2, Math.round(this.line / 5));
    const layers = [["learners", "stripe", 1], ["standbys", "hatch", 2]];
    for (const [name, kind, above] of layers) {
      const layer = this.picture[name];
      if (!layer) continue;
      const scale = this.across / layer.width;
      eachRun(layer, (line, x, end, code) => {
        if (!code) return;
        const colour = this.hues[hueOf(code)] ?? this.colours["line-strong"];
        const top = this.y(line + 1) - above * (band + 1), left = GUTTER + x * scale;
        context.fillStyle = css(this.colours.surface);
        context.fillRect(left, top - 1, (end - x) * scale, band + 2);
        context.fillStyle = pattern(context, colour, kind, this.colours.surface);
        context.fillRect(left, top, (end - x) * scale, band);
      });
    }
  }

  rules(context) {
    if (this.line < 6) return;
    context.fillStyle = css(this.colours.surface);
    for (let line = 1; line < this.lines.length; line++) {
      context.fillRect(GUTTER, this.y(line) - 0.5, this.across, 1);
    }
  }

  marks(context) {
    for (const {kind, at} of this.picture?.marks ?? []) {
      const x = Math.round(this.x(at)) + 0.5, [colour, dash] = MARKS[kind];
      context.strokeStyle = context.fillStyle = css(this.colours[colour]);
      context.globalAlpha = kind === "rebalance" ? 0.55 : 1;
      context.setLineDash(dash); context.lineWidth = 1;
      this.upright(context, x);
      context.globalAlpha = 1;
      context.beginPath(); context.moveTo(x - 4, TOP - 9); context.lineTo(x + 4, TOP - 9);
      context.lineTo(x, TOP - 2); context.fill();
    }
    context.setLineDash([]);
  }

  upright(context, x) {
    context.beginPath(); context.moveTo(x, TOP); context.lineTo(x, TOP + this.down);
    context.stroke();
  }

  chosen(context) {
    const {selection, cursor, colours} = this;
    if (this.at !== null) {
      context.strokeStyle = css(colours.ink); context.lineWidth = 2; context.setLineDash([3, 2]);
      this.upright(context, Math.round(this.x(this.at)));
      context.setLineDash([]);
    }
    if (selection) {
      const left = this.x(selection.from), wide = this.x(selection.to) - left;
      const top = this.y(selection.first), high = this.y(selection.last + 1) - top;
      context.fillStyle = css(colours.accent); context.globalAlpha = 0.25;
      context.fillRect(left, top, wide, high);
      context.globalAlpha = 1; context.strokeStyle = css(colours.accent); context.lineWidth = 1;
      context.strokeRect(left + 0.5, top + 0.5, Math.max(0, wide - 1), high - 1);
    }
    if (!cursor) return;
    context.strokeStyle = css(colours.ink); context.lineWidth = 1;
    this.upright(context, Math.round(this.x(cursor.at)) + 0.5);
    const high = Math.max(3, this.line);
    context.strokeRect(GUTTER + 0.5, this.y(cursor.line) + 0.5, this.across - 1, high - 1);
  }

  axes(context) {
    const {colours, view} = this;
    context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle";
    context.fillStyle = css(colours.muted); context.textAlign = "right";
    const every = Math.max(1, Math.ceil(14 / this.line));
    for (let line = 0; line < this.lines.length; line += every) {
      const middle = this.y(line) + Math.min(this.line, 14) / 2;
      context.fillText(this.label(line), GUTTER - 6, this.line > 14 ? this.y(line + 0.5) : middle);
    }
    const wanted = (view.to - view.from) / (this.across / LABEL_PX);
    const step = STEPS.find((one) => one >= wanted) ?? STEPS.at(-1);
    const bottom = TOP + this.down;
    context.strokeStyle = css(colours["line-strong"]); context.lineWidth = 1;
    context.textAlign = "center";
    let day = "";
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5, text = written(at);
      context.beginPath(); context.moveTo(x, bottom); context.lineTo(x, bottom + 4);
      context.stroke();
      const shown = clock(text, step, text.slice(0, 10) !== day);
      day = text.slice(0, 10);
      const half = context.measureText(shown).width / 2;
      const inside = Math.max(GUTTER + half, Math.min(GUTTER + this.across - half, x));
      context.fillText(shown, inside, bottom + 12);
    }
  }
}

// The date where it changes, else as much of the time as the step needs.
function clock(text, step, isNewDay) {
  if (step >= DAY) return text.slice(0, 10);
  if (isNewDay) return `${text.slice(5, 10)} ${text.slice(11, step < MINUTE ? 19 : 16)}`;
  if (step >= MINUTE) return text.slice(11, 16);
  return step >= SECOND ? text.slice(11, 19) : text.slice(17, 23);
}
