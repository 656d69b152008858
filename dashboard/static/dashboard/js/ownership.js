// Ownership over time on its pages: fetches the picture of what is looked at, zooms by pointer and
// by keys (the zoom is in the address), says who had a partition when; the table is kept the same.
import {fragment} from "./fragment.js";
import {live} from "./group.js";
import {moment, number, span} from "./show.js";
import {TOP, Timeline} from "./timeline.js";
import {decode, isJoined} from "./timeline_picture.js";

const canvas = document.getElementById("timeline"), given = canvas.dataset;
const card = document.getElementById("card"), drawn = document.getElementById("drawn");
const LENGTH_MIN = 10; // ms
const REST_MS = 80, FOLLOW_MS = 1500, STILL_MS = 15000, DRAG_PX = 4, TALL_PX = 24;
const KEY_STEPS = 60; // of the cursor, across
const HOW = {rebalance: "rebalance", lost: "member lost", gap: "events of the locks lost"};

const narrows = given.narrow === "yes" && !given.member; // a selection chooses partitions too

let view = Object.fromEntries(["from", "to", "first", "last"].map((n) => [n, Number(given[n])]));
let follows = given.follows === "yes"; // to now
let asking = null, saying = null, timer = 0, resting = 0, tabled = 0, drag = null;
const timeline = new Timeline(canvas, view, given.at ? Number(given.at) : null);

const now = () => Number(given.now) || live.atMs || Date.now(); // of the past: its moment
const iso = (at) => new Date(at).toISOString();
const clock = (at) => at === null ? "—" : iso(at).slice(0, 23).replace("T", " ");
const element = (tag, text) => Object.assign(document.createElement(tag), {textContent: text});

// --- the picture ---

function address() {
  const {rows, width} = timeline.room, url = new URL(given.picture, location.href);
  const {first, last} = view;
  const asked = {from: iso(view.from), to: iso(view.to), first, last, width, rows};
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  if (given.member) url.searchParams.set("member", given.member);
  return url;
}

async function load() {
  asking?.abort();
  const mine = asking = new AbortController();
  timeline.view = view; timeline.draw();
  try {
    const answer = await fetch(address(), {signal: mine.signal});
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) throw new Error((await answer.json()).error);
    const picture = decode(await answer.arrayBuffer());
    if (mine.signal.aborted) return;
    timeline.show(picture);
    say(picture);
  } catch (error) {
    if (error.name === "AbortError") return;
    drawn.textContent = `The picture is not known now: ${error.message}`;
  }
}

function say(picture) {
  const lines = picture.lines.filter((line) => line >= 0), all = view.last - view.first + 1;
  const parts = [`${number(lines.length)} ${lines.length === 1 ? "partition" : "partitions"}.`];
  if (timeline.every > 1 && !given.member) {
    parts[0] = `${number(lines.length)} of ${number(all)} partitions are drawn, one of every ${
      number(timeline.every)}; narrow the partitions to see all.`;
  }
  const pixel = (picture.to - picture.from) / picture.owners.width;
  parts.push(`A pixel is ${span(pixel)}: it shows what lasted longest in it.`);
  if (picture.since > picture.from) {
    parts.push(`Before ${moment(picture.since)} there are too many changes to draw at once.`);
  }
  if (given.stateful === "yes" && !picture.learners && !given.member) {
    parts.push(`Learners and standbys are drawn of ${given.hatched} partitions at most.`);
  }
  drawn.textContent = parts.join(" ");
}

// --- zoom ---

function look(next) {
  const to = Math.round(Math.min(next.to, now()));
  const from = Math.round(Math.max(next.from, Math.min(Number(given.begun), view.from)));
  view = {...view, ...next, from: Math.min(from, to - LENGTH_MIN), to};
  follows = false;
  timeline.selection = null; card.hidden = true;
  history.pushState(null, "", inAddress());
  load();
  clearTimeout(tabled); tabled = setTimeout(showTable, 300);
}

function inAddress() {
  const url = new URL(location.href), query = url.searchParams;
  for (const name of ["span", "before", "from", "to", "first", "last"]) query.delete(name);
  query.set("from", iso(view.from)); query.set("to", iso(view.to));
  if (narrows && (view.first > 0 || view.last + 1 < Number(given.partitions))) {
    query.set("first", view.first); query.set("last", view.last);
  }
  return url;
}

// The table and the file have what is drawn.
async function showTable() {
  const file = document.getElementById("csv"), query = new URL(location.href).searchParams;
  const asked = {first: view.first, last: view.last, ...(given.member && {member: given.member})};
  for (const [name, value] of Object.entries(asked)) query.set(name, value);
  file.search = query;
  const body = await fragment("ownership_table");
  if (body) document.getElementById("ownership_table").replaceChildren(...body.childNodes);
}

const middle = () => timeline.cursor?.at ?? (view.from + view.to) / 2;

function zoom(factor) {
  const at = middle(), share = (at - view.from) / (view.to - view.from);
  const length = (view.to - view.from) * factor;
  look({from: at - share * length, to: at + (1 - share) * length});
}

function pan(share) {
  const by = (view.to - view.from) * share, most = now() - view.to;
  look({from: view.from + Math.min(by, most), to: view.to + Math.min(by, most)});
}

function zoomToSelection() {
  const {from, to, first, last} = timeline.selection, {lines, every} = timeline;
  if (last - first + 1 === lines.length) { look({from, to}); return; }
  look({from, to, first: lines[first], last: Math.min(view.last, lines[last] + every - 1)});
}

const ACTIONS = {
  in: () => zoom(0.5), out: () => zoom(2), earlier: () => pan(-0.5), later: () => pan(0.5),
};
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", ACTIONS[button.dataset.zoom]);
}
addEventListener("popstate", () => location.reload()); // the server reads the address

function select(anchor, here, some) {
  const [from, to] = [anchor.at, here.at].sort((a, b) => a - b);
  const [first, last] = [anchor.line, here.line].sort((a, b) => a - b);
  const every = {first: 0, last: timeline.lines.length - 1};
  timeline.selection = {anchor, from, to, ...(narrows && some ? {first, last} : every)};
}

// --- pointer ---

function spot({offsetX: x, offsetY: y}) {
  return {at: timeline.timeAt(x), line: timeline.lineAt(y), x, y};
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button || !timeline.lines.length) return;
  drag = {...spot(event), moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  const here = spot(event);
  if (drag && (drag.moved || Math.abs(here.x - drag.x) > DRAG_PX)) {
    drag.moved = true;
    select(drag, here, Math.abs(here.y - drag.y) > TALL_PX);
  }
  point(here);
});
canvas.addEventListener("pointerup", (event) => {
  const {moved = false} = drag ?? {};
  drag = null;
  if (moved && timeline.selection.to > timeline.selection.from) zoomToSelection();
  else if (!moved && event.pointerType === "mouse") open();
  else if (!moved) point(spot(event));
});
for (const end of ["pointercancel", "pointerleave"]) {
  canvas.addEventListener(end, () => { drag = null; timeline.selection = null; point(null); });
}
canvas.addEventListener("blur", () => { if (!drag) point(null); });

function open() {
  const mark = timeline.cursor && timeline.markAt(timeline.cursor.at);
  if (mark?.address && timeline.cursor.y < TOP) {
    location.assign(given.history + mark.address);
    return;
  }
  const line = timeline.lines[timeline.cursor?.line ?? -1];
  if (line === undefined || line < 0 || !given.partition) return;
  const url = new URL(given.partition.replace("/0/", `/${line}/`), location.href);
  const shown = follows ? {span: given.span} : {from: iso(view.from), to: iso(view.to)};
  for (const [name, value] of Object.entries({...shown, at: iso(timeline.cursor.at)})) {
    url.searchParams.set(name, value);
  }
  location.assign(url);
}

// --- keys ---

canvas.addEventListener("keydown", (event) => {
  const act = KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey || !timeline.lines.length) return;
  event.preventDefault();
  act(event);
});

const KEYS = {
  ArrowLeft: ({shiftKey}) => step(-1, 0, shiftKey),
  ArrowRight: ({shiftKey}) => step(1, 0, shiftKey),
  ArrowUp: ({shiftKey}) => step(0, -1, shiftKey),
  ArrowDown: ({shiftKey}) => step(0, 1, shiftKey),
  Enter: () => { if (timeline.selection) zoomToSelection(); else open(); },
  Escape: () => { timeline.selection = null; point(null); },
  "+": ACTIONS.in, "=": ACTIONS.in, "-": ACTIONS.out,
  PageUp: ACTIONS.earlier, PageDown: ACTIONS.later,
};

function step(across, down, selects) {
  const before = timeline.cursor ?? {at: (view.from + view.to) / 2, line: 0};
  const at = Math.round(before.at + across * (view.to - view.from) / KEY_STEPS);
  const here = {
    at: Math.max(view.from, Math.min(view.to - 1, at)),
    line: Math.max(0, Math.min(timeline.lines.length - 1, before.line + down)),
  };
  const anchor = timeline.selection?.anchor ?? before;
  if (selects) select(anchor, here, here.line !== anchor.line);
  else timeline.selection = null;
  point(here);
}

// --- who ---

function point(cursor) {
  timeline.cursor = cursor;
  timeline.draw();
  clearTimeout(resting); saying?.abort();
  if (!cursor || drag?.moved) { card.hidden = true; return; }
  const line = timeline.lines[cursor.line], mark = timeline.markAt(cursor.at);
  const facts = [["Time", clock(cursor.at)], ...(mark ? [marked(mark)] : [])];
  if (line === undefined) { card.hidden = true; return; }
  if (line < 0) {
    put([...facts, ["In the group", timeline.codeAt(cursor) ? "yes" : "no"]]);
    return;
  }
  put([["Partition", String(line)], ...facts]);
  resting = setTimeout(() => ask(cursor, line, facts), REST_MS);
}

function marked({kind, at, count, what}) {
  const more = count > 1 ? ` and ${count - 1} more` : "";
  return [HOW[kind], `${clock(at).slice(11)} ${what}${more}`];
}

async function ask(cursor, line, facts) {
  saying = new AbortController();
  const url = `${given.owner.replace("/0/", `/${line}/`)}?at=${iso(cursor.at)}`;
  const answer = await fetch(url, {signal: saying.signal}).catch(() => null);
  if (!answer?.ok || timeline.cursor !== cursor) return;
  const said = await answer.json();
  if (timeline.cursor !== cursor) return;
  const code = timeline.codeAt(cursor);
  const joined = isJoined(code) ? [["In this pixel", "more changes: zoom in"]] : [];
  put([["Partition", String(line)], ...facts, ...who(said), ...joined]);
}

function who({owners, last, next_ms: next, learning, standby}) {
  const facts = owners.flatMap((one) => [
    ["Owner", one.member], ["Fence", one.fence], ["Since", clock(one.since_ms)],
    ["Until", one.until_ms === null ? "still" : clock(one.until_ms)], ["How it ended", ended(one)],
  ]);
  if (owners.length > 1) facts.unshift(["Overlap", `${owners.length} owners at once`]);
  if (!owners.length) {
    facts.push(["Owner", "nobody"]);
    if (last) {
      facts.push(["Last owner", last.member], ["Until", clock(last.until_ms)]);
      facts.push(["How it ended", ended(last)]);
    }
    if (next !== null) facts.push(["Next owner at", clock(next)]);
  }
  if (learning.length) facts.push(["Learner", learning.join(", ")]);
  if (standby.length) facts.push(["Standbys", standby.join(", ")]);
  return facts;
}

const ended = ({until_ms: until, end}) => end ?? (until === null ? "not yet" : "its end was lost");

function put(facts) {
  const made = facts.flatMap(([term, text]) => [element("dt", term), element("dd", text)]);
  card.replaceChildren(...made);
  card.hidden = false;
  const {at, line} = timeline.cursor, right = canvas.clientWidth - card.offsetWidth;
  const x = timeline.x(at);
  card.style.left = `${Math.max(0, x + 12 > right ? x - card.offsetWidth - 12 : x + 12)}px`;
  card.style.top = `${timeline.y(line) + timeline.line + 6}px`;
}

// --- what comes ---

function follow() {
  if (!follows || document.hidden || drag || timer) return;
  timer = setTimeout(() => {
    timer = 0;
    if (!follows) return;
    const at = now();
    const from = given.span === "all" ? view.from : view.from + at - view.to;
    view = {...view, from, to: at};
    load();
  }, FOLLOW_MS);
}

live.addEventListener("change", ({detail}) => {
  if (detail.moved.length || detail.rebalanced) follow();
});
setInterval(follow, STILL_MS);
timeline.onresize = () => { if (timeline.picture) load(); };
load();
