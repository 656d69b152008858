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
    this.hasProgress = false; // of its learners
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
    this.setReplicas(found.replicas);
  }

  name({names, hues, others = {}}) {
    const named = [...names.map((id, at) => [id, hues[at]]), ...Object.entries(others)];
    for (const [id, colour] of named) {
      this.members.set(id, {id, colour, leaving: "", state: "alive"});
    }
  }

  // As the target of then named them; how far a learner was is not on record.
  setReplicas(replicas) {
    const {learning = {}, standby = {}} = replicas, {cells} = this;
    const rows = new Map(), names = [...Object.keys(learning), ...Object.keys(standby)];
    const row = (n) => {
      if (!rows.has(n)) rows.set(n, [n, -1, null, null, 0]);
      return rows.get(n);
    };
    const learners = Object.values(learning);
    learners.forEach((numbers, at) => { for (const n of numbers) row(n)[1] = at; });
    Object.values(standby).forEach((numbers, at) => {
      for (const n of numbers) row(n).push(learners.length + at);
    });
    this.replicas = replicas;
    cells.forgetReplicas();
    for (const found of rows.values()) if (found[0] < cells.size) cells.replica(found, names);
  }

  // One change of a lock, as changes.json has it; whether it went to another owner.
  change([at, n, owner, fence], names, now) {
    if (owner < 0 && this.cells.fence[n] !== fence) return false; // somebody else has it by now
    this.atMs = at;
    const cell = owner < 0 ? [n, -1, 0, UNOWNED, 0, null] : [n, owner, fence, OWNED, at, null];
    return this.cells.put(cell, names, now);
  }
}
