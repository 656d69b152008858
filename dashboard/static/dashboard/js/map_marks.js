// What one cell of the ownership map shows beside its owner's colour: outline, replicas, a notch, a
// few words.
import {STATES} from "./live.js";
import {css, pattern} from "./paint.js";
import {short} from "./show.js";

export const LABELLED = 28; // pixels wide; narrower cells have no text
export const MARKED = 8; // narrower ones have a mark of one colour
// Of a state's outline: colour, width, dashes.
export const FORMS = {
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

const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
// Whichever of the two inks stands out more (WCAG's relative luminance).
const ink = (c) =>
  0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]) > 0.18
    ? "#0b0f13"
    : "#ffffff";

export class Marks {
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
    const isWhole = cells.ready[n] || this.live.hasProgress === false; // who it is, at least
    const done = isWhole ? 1 : (cells.percent[n] || 0) / 100;
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
}
