// Panels that are asked for again when the group changes: the fragment of the first paint, fetched anew.
import {fragment} from "./fragment.js";
import {live} from "./group.js";

const EVERY_MS = 1500;
const SETTLE_MS = 4000; // a rebalance's figures are complete some time after its last partition

class Panel {
  constructor(place) {
    this.place = place; this.kinds = place.dataset.refresh.split(" "); this.last = 0;
    live.addEventListener("change", ({detail}) => this.heard(detail));
    if (place.dataset.poll) setInterval(() => { if (place.querySelector("[data-running]")) this.ask(EVERY_MS); }, Number(place.dataset.poll));
  }

  heard(detail) {
    const asked = {rebalance: detail.rebalanced, moved: detail.moved.length > 0, cells: detail.changed.length > 0, members: detail.members, leaving: detail.leaving, state: Boolean(detail.state), replicas: detail.replicated.length > 0};
    if (!this.kinds.some((kind) => asked[kind])) return;
    this.ask(EVERY_MS);
    if (asked.rebalance || asked.moved || asked.leaving) { clearTimeout(this.settle); this.settle = setTimeout(() => this.fetch(), SETTLE_MS); }
  }

  ask(every) {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; this.fetch(); }, Math.max(100, this.last + every - Date.now()));
  }

  async fetch() {
    if (document.hidden || this.place.contains(document.activeElement)) { this.ask(EVERY_MS); return; }
    this.last = Date.now();
    const body = await fragment(this.place.id);
    if (body === null) { this.ask(EVERY_MS * 2); return; }
    const known = new Set([...this.place.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key));
    const scrolled = [...this.place.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    this.place.replaceChildren(...body.childNodes);
    this.place.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = scrolled[n] ?? 0; });
    if (known.size) for (const row of this.place.querySelectorAll("tr[data-key]")) row.classList.toggle("fresh", !known.has(row.dataset.key));
  }
}

for (const place of document.querySelectorAll("[data-refresh]")) new Panel(place);
