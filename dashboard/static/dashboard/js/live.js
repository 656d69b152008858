// A group as this page knows it: typed arrays, kept current by numbered frames. A lost frame costs
// nothing: a gap, a reconnect or a wrong check fetches a fresh snapshot.
import {moment} from "./show.js";

// of a partition, as cells number them
export const STATES = document.getElementById("group").dataset.states.split(" ");
const STALE_MS = 5000; // the hub says something every 2 s
const OFFLINE_MS = 60000;
const RETRY_MS = [250, 500, 1000, 2000, 3000];
const CHECK_MODULO = 1000003;
const LAG_AGAIN_MS = 30000; // two processes may have read it at different times

// Of each partition: the array's kind, and what it holds where nothing is known.
const COLUMNS = {
  owner: [Int32Array, -1],
  fence: [Float64Array, 0],
  state: [Uint8Array, STATES.indexOf("unknown")],
  since: [Float64Array, 0],
  lag: [Float64Array, NaN],
  before: [Int32Array, -1],
  movedAt: [Float64Array, -1e9],
  learner: [Int32Array, -1],
  percent: [Float32Array, NaN],
  eta: [Float64Array, NaN],
  ready: [Uint8Array, 0],
};

export class Cells {
  constructor() {
    this.size = 0;
    this.names = [];
    this.index = new Map();
    this.standbys = new Map();
    this.grow(16);
  }

  grow(capacity) {
    for (const [name, [Kind, fill]] of Object.entries(COLUMNS)) {
      const wider = new Kind(capacity).fill(fill);
      if (this[name]) wider.set(this[name]);
      this[name] = wider;
    }
  }

  room(n) {
    if (n < this.size) return;
    this.size = n + 1;
    if (this.size > this.owner.length) this.grow(Math.max(this.size, 2 * this.owner.length));
  }

  nameIndex(name) {
    if (!this.index.has(name)) {
      this.index.set(name, this.names.length);
      this.names.push(name);
    }
    return this.index.get(name);
  }

  // row: [number, index in names or -1, fence, state index, since_ms, lag]; true when it changed
  // hands
  put([n, at, fence, state, since, lag], names, now) {
    this.room(n);
    const next = at < 0 ? -1 : this.nameIndex(names[at]);
    const moved = next !== this.owner[n];
    if (moved && now) {
      this.before[n] = this.owner[n];
      this.movedAt[n] = now;
    }
    this.owner[n] = next;
    this.fence[n] = fence ?? 0;
    this.state[n] = state;
    this.since[n] = since ?? 0;
    this.lag[n] = lag ?? NaN;
    return moved;
  }

  // row: [number, index of the learner in names or -1, percent, eta_ms, ready, indexes of standbys
  // ...]
  replica([n, at, percent, eta, ready, ...standbys], names) {
    this.room(n);
    this.learner[n] = at < 0 ? -1 : this.nameIndex(names[at]);
    this.percent[n] = percent ?? NaN;
    this.eta[n] = eta ?? NaN;
    this.ready[n] = ready;
    if (standbys.length)
      this.standbys.set(
        n,
        standbys.map((i) => this.nameIndex(names[i])),
      );
    else this.standbys.delete(n);
  }

  // A whole has no row for a partition without replicas: all are forgotten before it is taken.
  forgetReplicas() {
    const had = [...this.standbys.keys()];
    for (let n = 0; n < this.size; n++)
      if (this.learner[n] >= 0) {
        had.push(n);
        this.learner[n] = -1;
      }
    this.standbys.clear();
    return had;
  }

  ownerOf(n) {
    return this.owner[n] < 0 ? null : this.names[this.owner[n]];
  }
  learnerOf(n) {
    return this.learner[n] < 0 ? null : this.names[this.learner[n]];
  }
  standbysOf(n) {
    return (this.standbys.get(n) ?? []).map((i) => this.names[i]);
  }

  check() {
    let sum = 0;
    for (let n = 0; n < this.size; n++)
      sum = (sum + (n + 1) * (this.state[n] + 1) + (this.fence[n] % CHECK_MODULO)) % CHECK_MODULO;
    return sum;
  }

  lagCheck() {
    let sum = 0;
    for (let n = 0; n < this.size; n++) {
      const known = Number.isNaN(this.lag[n]) ? 0 : (this.lag[n] % CHECK_MODULO) + 1;
      sum = (sum + (n + 1) * known) % CHECK_MODULO;
    }
    return sum;
  }
}

export class Live extends EventTarget {
  constructor({socket, snapshot}, first) {
    super();
    this.socketUrl = socket;
    this.snapshotUrl = snapshot;
    this.cells = new Cells();
    this.members = new Map();
    this.numbers = {};
    this.strip = {};
    this.seq = null;
    this.atMs = 0;
    this.lagDenied = -LAG_AGAIN_MS;
    this.epoch = 0;
    this.lastHeard = 0;
    this.openedAt = Date.now();
    this.state = "unknown";
    this.why = "";
    this.retries = 0;
    this.resyncs = 0;
    this.fetching = false;
    this.problem = "";
    this.light = "";
    this.whole = first.cells.length > 0;
    this.lagAge = first.lag_age_ms ?? 0;
    this.take(first, false);
  }

  start() {
    this.connect();
    this.watch = setInterval(() => this.showLight(), 500);
    this.showLight();
  }

  connect() {
    const url = new URL(this.socketUrl, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(url));
    socket.onmessage = (event) => {
      if (socket === this.socket) this.receive(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      this.seq = null;
      if (event.code === 4403 || event.code === 4404) {
        location.reload();
        return;
      } // the session or the group is gone: the page says so
      this.again = setTimeout(
        () => this.connect(),
        RETRY_MS[Math.min(this.retries++, RETRY_MS.length - 1)],
      );
      this.showLight();
    };
  }

  // A socket that went silent may never notice: it is given up and made anew.
  reconnect() {
    clearTimeout(this.again);
    const old = this.socket;
    this.socket = null;
    this.seq = null;
    old?.close();
    this.connect();
  }

  receive(frame) {
    this.lastHeard = Date.now();
    this.retries = 0;
    this.problem = frame.problem ?? "";
    const expected =
      frame.type === "hello" ||
      this.seq === null ||
      frame.seq === this.seq + (frame.type === "delta" ? 1 : 0);
    this.seq = frame.seq;
    if (frame.type === "hello" || frame.type === "resync" || !expected) this.resync();
    else if (frame.type === "delta" && frame.at_ms > this.atMs) this.take(frame, true);
    if (
      frame.check !== undefined &&
      this.whole &&
      !this.fetching &&
      frame.at_ms >= this.atMs &&
      frame.check !== this.cells.check()
    )
      this.resync();
    this.lagAge = frame.lag_age_ms ?? this.lagAge;
    if (this.isLagDenied(frame)) {
      this.lagDenied = performance.now();
      this.resync();
    }
    this.showLight();
    this.dispatchEvent(new Event("heard"));
  }

  isLagDenied(frame) {
    if (frame.lag_check === undefined || !this.whole || this.fetching || frame.at_ms < this.atMs)
      return false;
    return (
      performance.now() - this.lagDenied > LAG_AGAIN_MS && frame.lag_check !== this.cells.lagCheck()
    );
  }

  async resync() {
    if (this.fetching) {
      this.wanted = true;
      return;
    }
    this.fetching = true;
    this.wanted = false;
    this.resyncs++;
    this.showLight();
    try {
      const answer = await fetch(this.snapshotUrl, {
        headers: {Accept: "application/json"},
        signal: AbortSignal.timeout(10000),
      });
      if (answer.redirected) {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(`snapshot: ${answer.status}`);
      this.replace(await answer.json());
    } catch (error) {
      console.warn(error.message);
      this.wanted = true;
    } finally {
      this.fetching = false;
    }
    if (this.wanted) setTimeout(() => this.resync(), 1000);
    this.showLight();
  }

  replace(snapshot) {
    this.lagAge = snapshot.lag_age_ms;
    for (const id of [...this.members.keys()])
      if (!snapshot.members.some((m) => m.id === id)) this.members.delete(id);
    this.cells.size = Math.min(this.cells.size, this.whole ? snapshot.cells.length : 0);
    this.take(snapshot, true, this.cells.forgetReplicas());
  }

  // Who leaves, and whether anybody could.
  leavers() {
    return [
      this.members.size < 2,
      ...[...this.members.values()].filter((m) => m.leaving).map((m) => m.id),
    ].join(" ");
  }

  take(part, animate, forgotten = []) {
    const leavers = this.leavers();
    const moved = [],
      changed = [],
      replicated = new Set(forgotten);
    for (const row of part.cells ?? []) {
      changed.push(row[0]);
      if (this.cells.put(row, part.names, animate ? performance.now() : 0)) moved.push(row[0]);
    }
    for (const row of part.replicas ?? []) {
      replicated.add(row[0]);
      this.cells.replica(row, part.names);
    }
    for (const member of part.members ?? [])
      this.members.set(member.id, {colour: null, ...this.members.get(member.id), ...member});
    for (const id of part.gone ?? []) this.members.delete(id);
    Object.assign(this.strip, part.strip);
    Object.assign(this.numbers, part.numbers);
    const epoch = part.target_epoch ?? this.epoch;
    const rebalanced = animate && epoch !== this.epoch;
    this.state = part.state ?? this.state;
    this.why = part.why ?? this.why;
    this.epoch = epoch;
    this.atMs = Math.max(this.atMs, part.at_ms);
    const detail = {
      changed,
      moved,
      replicated: [...replicated],
      coordination: part.coordination,
      leaving: leavers !== this.leavers(),
      rebalanced,
      members: (part.members ?? []).length + (part.gone ?? []).length > 0,
      strip: part.strip ?? {},
      state: part.state ?? part.why,
    };
    this.dispatchEvent(new CustomEvent("change", {detail}));
    if (animate && [...this.members.values()].some((m) => m.colour === null)) this.askColours();
  }

  // Colours come with snapshots only: a member that has just joined is grey until then.
  askColours() {
    if (this.colourTimer) return;
    this.colourTimer = setTimeout(() => {
      this.colourTimer = 0;
      this.resync();
    }, 1500);
  }

  showLight() {
    const now = Date.now(),
      heard = this.lastHeard || this.openedAt,
      silent = now - heard;
    let light = "live";
    if (silent > OFFLINE_MS) light = "offline";
    else if (silent > STALE_MS || this.problem) light = "stale";
    else if (this.fetching || this.seq === null) light = "catching up";
    if (
      silent > STALE_MS &&
      this.socket?.readyState !== WebSocket.CONNECTING &&
      now - (this.lastTry ?? 0) > STALE_MS
    ) {
      this.lastTry = now;
      this.reconnect();
    }
    // the server speaks, but reads no more than that
    const known = this.problem ? this.atMs || heard : heard;
    const since = light === "stale" || light === "offline" ? moment(known).slice(11) : "";
    const text = since ? `${light} since ${since}` : light;
    if (text === this.light) return;
    this.light = text;
    this.dispatchEvent(new CustomEvent("light", {detail: {light, text, why: this.problem}}));
  }
}
