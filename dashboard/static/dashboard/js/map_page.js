// The Map tab: canvas, legend, hover card, and the accessible table of the same rows.
import {live, showState} from "./group.js";
import {STATES} from "./live.js";
import {OwnershipMap} from "./map.js";
import {eta, fence, number, short, span, utc} from "./show.js";

const canvas = document.getElementById("map");
const card = document.getElementById("card");
const legend = document.getElementById("legend");
const table = document.getElementById("ownership");
const map = new OwnershipMap(canvas, live);
const rows = new Map([...table.tBodies[0].rows].map((row) => [Number(row.dataset.number), row]));
const partitionUrl = (n) => canvas.dataset.partition.replace("/0/", `/${n}/`);
for (const [n, moves] of JSON.parse(document.getElementById("moves").textContent)) map.moves.set(n, moves);

live.addEventListener("change", ({detail}) => {
  map.change(detail);
  for (const n of detail.changed) showRow(n);
  for (const n of detail.replicated) showReplicas(n);
  for (const n of detail.moved) map.moves.set(n, (map.moves.get(n) ?? 0) + 1);
  if (detail.members || detail.moved.length) { showLegend(); for (const n of rows.keys()) { showSwatch(n); showLeaving(n); showReplicas(n); } }
});

function showRow(n) {
  const row = rows.get(n);
  if (!row) return;
  const {cells} = live, owner = cells.ownerOf(n) ?? "", state = STATES[cells.state[n]];
  const fenceText = cells.fence[n] ? String(cells.fence[n]) : "";
  if (row.dataset.state !== state) { row.dataset.state = state; showState(row.querySelector(".is-state"), state); }
  if (row.dataset.owner !== owner || row.dataset.fence !== fenceText) {
    row.dataset.owner = owner; row.dataset.fence = fenceText;
    const name = row.querySelector(".is-owner b");
    name.textContent = owner ? short(owner) : "—"; name.title = owner || "nobody holds the lock";
    const place = row.querySelector(".is-fence");
    place.textContent = fence(cells.fence[n]); place.title = fenceText ? `fence ${fenceText}` : "nobody holds the lock";
    showSwatch(n);
  }
  row.querySelector(".is-since").textContent = utc(cells.since[n]);
  row.querySelector(".is-lag").textContent = number(cells.lag[n]);
}

function showSwatch(n) {
  const owner = live.cells.ownerOf(n), colour = live.members.get(owner)?.colour;
  rows.get(n).querySelector(".swatch").className = `swatch ${colour === null || colour === undefined ? "" : `o${colour}`}`;
}

function showLeaving(n) {
  const row = rows.get(n), leaving = live.members.get(live.cells.ownerOf(n))?.leaving ?? "", place = row.querySelector(".is-leaving");
  if ((row.dataset.leaving ?? "") === leaving) return;
  row.dataset.leaving = leaving;
  if (leaving) showState(place, "leaving"); else place.replaceChildren();
}

function showReplicas(n) {
  const row = rows.get(n), place = row?.querySelector(".is-learner");
  if (!place) return;
  const {cells} = live, learner = cells.learnerOf(n), ready = learner !== null && cells.ready[n] === 1;
  row.dataset.learner = learner ?? "";
  row.dataset.percent = learner === null || Number.isNaN(cells.percent[n]) ? "" : String(cells.percent[n]);
  row.dataset.ready = ready ? "yes" : "";
  row.dataset.standbys = cells.standbysOf(n).join(" ");
  place.replaceChildren(...(learner === null ? [] : [named(learner), ready ? stateOf("ready") : progress(n)]));
  row.querySelector(".is-standbys").replaceChildren(...cells.standbysOf(n).map(named));
}

function named(id) {
  const made = document.createElement("span"), swatch = document.createElement("i"), colour = live.members.get(id)?.colour;
  swatch.className = `swatch ${colour === null || colour === undefined ? "" : `o${colour}`}`;
  made.className = "replica"; made.title = id; made.append(swatch, short(id));
  return made;
}

function stateOf(word) { const made = document.createElement("span"); showState(made, word); return made; }

function progress(n) {
  const {cells} = live, made = document.createElement("span");
  made.className = "muted";
  made.textContent = Number.isNaN(cells.percent[n]) ? "not reported yet" : `${cells.percent[n]}\u202f%${Number.isNaN(cells.eta[n]) ? "" : `, ${eta(cells.eta[n])} left`}`;
  return made;
}

function showLegend() {
  const held = new Map();
  for (let n = 0; n < live.cells.size; n++) { const owner = live.cells.ownerOf(n); held.set(owner, (held.get(owner) ?? 0) + 1); }
  legend.replaceChildren(...[...live.members.values()].slice(0, Number(legend.dataset.most)).map((member) => {
    const item = document.createElement("li"), swatch = document.createElement("i"), name = document.createElement("b"), count = document.createElement("span");
    item.dataset.member = member.id; item.title = member.id;
    swatch.className = `swatch ${member.colour === null ? "" : `o${member.colour}`}`;
    name.textContent = short(member.id); count.textContent = String(held.get(member.id) ?? 0);
    item.append(swatch, name, count);
    if (member.leaving && member.state !== "leaving") item.append(stateOf("leaving"));
    if (member.state !== "alive") item.append(stateOf(member.state));
    return item;
  }));
}

legend.addEventListener("pointerover", (event) => { map.lit = event.target.closest("li")?.dataset.member ?? null; map.draw(); });
legend.addEventListener("pointerleave", () => { map.lit = null; map.draw(); });

function showCard(n) {
  map.focus = n; map.draw();
  canvas.classList.toggle("over", n >= 0);
  if (n < 0) { card.hidden = true; return; }
  const {cells} = live, owner = cells.ownerOf(n), at = map.placeOf(n);
  const facts = {
    Partition: `${live.numbers.stream}:${n}`, State: STATES[cells.state[n]], Owner: (owner ?? "—") + (map.isLeaving(n) ? " (leaving)" : ""), Fence: fence(cells.fence[n]),
    Held: cells.since[n] ? span(Math.max(0, live.atMs - cells.since[n])) : "—", Lag: `${number(cells.lag[n])} records`, "Changes 24 h": number(map.moves.get(n) ?? 0),
  };
  const learner = cells.learnerOf(n), standbys = cells.standbysOf(n);
  if (learner !== null) facts.Learner = `${learner}: ${cells.ready[n] ? "ready" : progress(n).textContent}`;
  if (standbys.length) facts.Standbys = standbys.join(", ");
  card.replaceChildren(...Object.entries(facts).flatMap(([term, text]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term; dd.textContent = text;
    return [dt, dd];
  }));
  card.hidden = false;
  const right = Math.max(0, canvas.clientWidth - card.offsetWidth);
  card.style.left = `${Math.min(at.x, right)}px`; card.style.top = `${at.y + map.height + 4}px`;
}

canvas.addEventListener("pointermove", (event) => showCard(map.partitionAt(event.clientX, event.clientY)));
canvas.addEventListener("pointerleave", () => showCard(-1));
canvas.addEventListener("blur", () => showCard(-1));
canvas.addEventListener("click", (event) => { const n = map.partitionAt(event.clientX, event.clientY); if (n >= 0) location.href = partitionUrl(n); });
canvas.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && map.focus >= 0) location.href = partitionUrl(map.focus);
  if (map.step(event.key)) { event.preventDefault(); showCard(map.focus); }
});
for (const choice of document.querySelectorAll("[data-overlay], [data-arrange]")) {
  choice.addEventListener("change", () => {
    if (choice.dataset.overlay !== undefined) map.overlay = choice.value; else { map.arrange = choice.value; map.order(); }
    map.draw();
  });
}
showLegend();
