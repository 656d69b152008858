// An epoch from its target to its end, its changes in their times but slower. Where motion is
// reduced each press is one moment, and nothing fades.
import {span} from "./show.js";

const PLAY_MS = 8000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Play {
  constructor(place, group, map) {
    this.place = place; this.group = group; this.map = map;
    this.button = place.querySelector("button"); this.said = place.querySelector("output");
    this.label = this.button.textContent;
    this.button.addEventListener("click", () => { this.press(); });
    place.hidden = false;
  }

  async press() {
    if (this.frame) { this.pause(); return; }
    if (!this.epoch || this.next >= this.epoch.changes.length) await this.begin();
    if (still.matches) { this.step(); return; }
    this.button.textContent = "Pause";
    this.started = performance.now() - this.played;
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  async begin() {
    this.epoch ??= await (await fetch(this.place.dataset.changes)).json();
    const {replicas} = this.group; // its target's, which are so from its first moment on
    this.group.name(this.epoch);
    await this.group.read(this.place.dataset.before);
    this.group.setReplicas(replicas);
    this.next = 0; this.played = 0;
    this.map.layout();
    this.tell();
  }

  until(ms) {
    const {changes, names} = this.epoch, moved = [], changed = [];
    while (this.next < changes.length && changes[this.next][0] <= ms) {
      const change = changes[this.next++], now = still.matches ? 0 : performance.now();
      changed.push(change[1]);
      if (this.group.change(change, names, now)) moved.push(change[1]);
    }
    this.map.change({moved, changed});
    this.tell();
  }

  step() {
    if (this.next < this.epoch.changes.length) this.until(this.epoch.changes[this.next][0]);
  }

  tick(now) {
    const {from_ms: from, changes} = this.epoch, last = changes.at(-1)?.[0] ?? from;
    this.played = Math.min(PLAY_MS, now - this.started);
    this.until(from + (last - from) * this.played / PLAY_MS);
    if (this.played >= PLAY_MS) { this.until(last); this.pause(); return; }
    this.frame = requestAnimationFrame((then) => this.tick(then));
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.button.textContent = this.label;
  }

  tell() {
    const {changes, from_ms: from, goes_on: more} = this.epoch;
    const after = (changes[this.next - 1]?.[0] ?? from) - from;
    const rest = more ? "; what follows is not played" : "";
    const count = `${this.next} of ${changes.length} changes of locks`;
    this.said.textContent = `${count}, ${span(after)} after its target${rest}`;
  }
}
