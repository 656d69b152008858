// A group as it was at a moment, in the form in which live.js keeps one that changes.
import {Cells, STATES} from "./live.js";

const WORDS = ["owned", "unowned", "conflict"];
const [OWNED, UNOWNED, CONFLICT] = WORDS.map((word) => STATES.indexOf(word));

// The form is that of assignment/ownership.py.
function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true), start = 4 + length;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const {size} = head;
  return {
    ...head,
    fence: new Float64Array(buffer, start, size),
    since: new Float64Array(buffer, start + 8 * size, size),
    owner: new Int32Array(buffer, start + 16 * size, size),
  };
}

export class PastGroup {
  constructor() {
    this.cells = new Cells();
    this.members = new Map();
    this.numbers = {};
    this.atMs = 0;
  }

  async read(url) {
    const answer = await fetch(url);
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) throw new Error(`map: ${answer.status}`);
    this.take(decode(await answer.arrayBuffer()));
  }

  take(found) {
    const several = new Set(found.several);
    this.atMs = found.at_ms;
    this.numbers = {stream: found.stream, partitions: found.size};
    this.name(found);
    for (let n = 0; n < found.size; n++) {
      const owner = found.owner[n];
      const state = owner < 0 ? UNOWNED : several.has(n) ? CONFLICT : OWNED;
      this.cells.put([n, owner, found.fence[n], state, found.since[n], null], found.names, 0);
    }
  }

  name({names, hues}) {
    names.forEach((id, at) => {
      this.members.set(id, {id, colour: hues[at], leaving: "", state: "alive"});
    });
  }

  // One change of a lock, as changes.json has it; whether it went to another owner.
  change([at, n, owner, fence], names, now) {
    if (owner < 0 && this.cells.fence[n] !== fence) return false; // somebody else has it by now
    this.atMs = at;
    const cell = owner < 0 ? [n, -1, 0, UNOWNED, 0, null] : [n, owner, fence, OWNED, at, null];
    return this.cells.put(cell, names, now);
  }
}
