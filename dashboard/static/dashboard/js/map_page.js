// The Map tab: canvas, legend, hover card, and the accessible table of the same rows.
import {live, showState} from "./group.js";
import {STATES} from "./live.js";
import {OwnershipMap} from "./map.js";
import {zoomOf} from "./map_zoom.js";
import {eta, fence, moment, number, short, span} from "./show.js";

const canvas = document.getElementById("map");
const card = document.getElementById("card");
const legend = document.getElementById("legend");
const table = document.getElementById("ownership");
const map = new OwnershipMap(canvas, live);
const rows = new Map([...table.tBodies[0].rows].map((row) => [Number(row.dataset.number), row]));
const partitionUrl = (n) => canvas.dataset.partition.replace("/0/", `/${n}/`);
for (const [n, moves] of JSON.parse(document.getElementById("moves").textContent))
  map.moves.set(n, moves);

const zoom = zoomOf(map);
let looks = map.looks;
let legendLook = null;
let counted = new Map(); // of each member in the legend, where its number stands

live.addEventListener("change", ({detail}) => {
  map.change(detail);
  for (const n of detail.moved) map.moves.set(n, (map.moves.get(n) ?? 0) + 1);
  const all = looks !== map.looks; // a member's colour or leaving may be in any row
  looks = map.looks;
  for (const n of all ? rows.keys() : new Set([...detail.changed, ...detail.replicated]))
    showRow(n, all);
  if (detail.members || detail.moved.length) showLegend();
});

// How old lag may be: of a large group it is read a part after the other.
const lagAge = () =>
  live.lagAge < 1000 ? "" : `up to ${span(Math.ceil(live.lagAge / 1000) * 1000)} old`;
live.addEventListener("heard", () => {
  document.getElementById("lag-age").textContent = lagAge();
});

function showRow(n, anew) {
  const row = rows.get(n);
  if (!row) return;
  const {cells} = live,
    owner = cells.ownerOf(n),
    learner = cells.learnerOf(n),
    standbys = cells.standbysOf(n);
  const cell = (name) => row.querySelector(`.is-${name}`);
  cell("since").textContent = moment(cells.since[n]);
  cell("lag").textContent = number(cells.lag[n]);
  const data = {
    owner: owner ?? "",
    fence: cells.fence[n] ? String(cells.fence[n]) : "",
    state: STATES[cells.state[n]],
    leaving: live.members.get(owner)?.leaving ?? "",
    learner: learner ?? "",
    percent: learner === null || Number.isNaN(cells.percent[n]) ? "" : String(cells.percent[n]),
    ready: learner !== null && cells.ready[n] === 1 ? "yes" : "",
    standbys: standbys.join(" "),
  };
  const known = Object.entries(data).every(([name, value]) => row.dataset[name] === value);
  if (cell("learner"))
    cell("learner").replaceChildren(
      ...(learner === null ? [] : [named(learner), data.ready ? stateOf("ready") : progress(n)]),
    );
  if (known && !anew) return;
  Object.assign(row.dataset, data);
  showState(cell("state"), data.state);
  showMember(cell("owner"), owner);
  cell("leaving").replaceChildren(...(data.leaving ? [stateOf("leaving")] : []));
  cell("fence").replaceChildren(
    element("span", fence(cells.fence[n]), {
      title: data.fence ? `fence ${data.fence}` : "nobody holds the lock",
    }),
  );
  cell("standbys")?.replaceChildren(...standbys.map(named));
}

const element = (tag, text, more = {}) =>
  Object.assign(document.createElement(tag), {textContent: text}, more);

function swatchOf(id) {
  const colour = live.members.get(id)?.colour ?? null;
  return colour === null ? "swatch" : `swatch o${colour}`;
}

// As the template tag `named` writes a member: its colour, then its short id or a dash.
function showMember(place, id) {
  const [swatch, name] = place.children;
  swatch.className = swatchOf(id);
  name.textContent = id ? short(id) : "—";
  name.title = id ?? "nobody holds the lock";
  name.className = id ? "" : "unknown";
}

function copyOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

function named(id) {
  const made = copyOf("replica");
  showMember(made, id);
  return made;
}

function stateOf(word) {
  const made = element("span", "");
  showState(made, word);
  return made;
}

function progress(n) {
  const {percent, eta: left} = live.cells;
  const text = Number.isNaN(percent[n])
    ? "not reported yet"
    : `${percent[n]}\u202f%${Number.isNaN(left[n]) ? "" : `, ${eta(left[n])} left`}`;
  return element("span", text, {className: "muted"});
}

// Made anew where it looks different: of hundreds of members that takes as long as some pictures.
function showLegend() {
  const shown = [...live.members.values()].slice(0, Number(legend.dataset.most));
  const look = shown.map(({id, state, leaving, colour}) => [id, state, leaving, colour]).join();
  if (look !== legendLook) {
    legendLook = look;
    legend.replaceChildren(...shown.map(itemOf));
    const numberOf = (item) => [item.dataset.member, item.querySelector("b")];
    counted = new Map([...legend.children].map(numberOf));
  }
  showCounts();
}

function itemOf(member) {
  const item = copyOf("member-of-legend");
  item.dataset.member = item.title = member.id;
  showMember(item, member.id);
  if (member.leaving && member.state !== "leaving") item.append(stateOf("leaving"));
  if (member.state !== "alive") item.append(stateOf(member.state));
  return item;
}

// How many partitions each has.
function showCounts() {
  const {cells} = live,
    counts = new Int32Array(cells.names.length);
  for (let n = 0; n < cells.size; n++) if (cells.owner[n] >= 0) counts[cells.owner[n]]++;
  for (const [id, place] of counted) {
    const text = String(counts[cells.index.get(id)] ?? 0);
    if (place.textContent !== text) place.textContent = text;
  }
}

legend.addEventListener("pointerover", (event) => {
  map.lit = event.target.closest("li")?.dataset.member ?? null;
  map.draw();
});
legend.addEventListener("pointerleave", () => {
  map.lit = null;
  map.draw();
});

function showCard(n) {
  map.focus = n;
  map.draw();
  canvas.classList.toggle("over", n >= 0);
  if (n < 0) {
    card.hidden = true;
    return;
  }
  const {cells} = live,
    owner = cells.ownerOf(n),
    at = map.placeOf(n);
  const facts = {
    Partition: `${live.numbers.stream}:${n}`,
    State: STATES[cells.state[n]],
    Owner: (owner ?? "—") + (map.isLeaving(n) ? " (leaving)" : ""),
    Fence: fence(cells.fence[n]),
    Held: cells.since[n] ? span(Math.max(0, live.atMs - cells.since[n])) : "—",
    Lag: [`${number(cells.lag[n])} records`, lagAge()].filter(Boolean).join(", "),
    "Changes 24 h": number(map.moves.get(n) ?? 0),
  };
  const learner = cells.learnerOf(n),
    standbys = cells.standbysOf(n);
  if (learner !== null)
    facts.Learner = `${learner}: ${cells.ready[n] ? "ready" : progress(n).textContent}`;
  if (standbys.length) facts.Standbys = standbys.join(", ");
  card.replaceChildren(
    ...Object.entries(facts).flatMap(([term, text]) => [element("dt", term), element("dd", text)]),
  );
  card.hidden = false;
  const right = Math.max(0, canvas.clientWidth - card.offsetWidth);
  card.style.left = `${Math.min(at.x, right)}px`;
  card.style.top = `${at.y + map.height + 4}px`;
}

canvas.addEventListener("pointermove", (event) =>
  showCard(map.partitionAt(event.clientX, event.clientY)),
);
canvas.addEventListener("pointerleave", () => showCard(-1));
canvas.addEventListener("blur", () => showCard(-1));
canvas.addEventListener("click", (event) => {
  const n = map.partitionAt(event.clientX, event.clientY);
  if (n >= 0) location.href = partitionUrl(n);
});
canvas.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && map.focus >= 0) location.href = partitionUrl(map.focus);
  if (map.step(event.key)) {
    event.preventDefault();
    showCard(map.focus);
  }
});
for (const choice of document.querySelectorAll("[data-overlay], [data-arrange]")) {
  choice.addEventListener("change", () => {
    if (choice.dataset.overlay !== undefined) map.overlay = choice.value;
    else {
      map.arrange = choice.value;
      map.order();
      zoom.show();
    }
    map.draw();
  });
}
showLegend();
