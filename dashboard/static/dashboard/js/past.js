// The time machine's page: maps of moments that were, drawn as the live one. No socket.
import {STATES} from "./live.js";
import {OwnershipMap} from "./map.js";
import {zoomOf} from "./map_zoom.js";
import {PastGroup} from "./past_group.js";
import {Play} from "./play.js";
import {fence, moment, span} from "./show.js";

const values = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "[]");
const made = (tag, textContent) => Object.assign(document.createElement(tag), {textContent});
const card = document.getElementById("card");
const legend = document.getElementById("legend");
const moves = new Map([...values("moves"), ...values("moved-numbers").map((n) => [n, 1])]);

async function drawn(canvas) {
  const group = new PastGroup();
  await group.read(canvas.dataset.map);
  const map = new OwnershipMap(canvas, group);
  map.moves = moves;
  listen(map);
  return map;
}

function listen(map) {
  const {canvas} = map, {partition, at} = canvas.dataset;
  const open = (n) => { location.href = `${partition.replace("/0/", `/${n}/`)}?at=${at}`; };
  const under = (event) => map.partitionAt(event.clientX, event.clientY);
  canvas.addEventListener("click", (event) => { if (under(event) >= 0) open(under(event)); });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && map.focus >= 0) open(map.focus);
    if (map.step(event.key)) { event.preventDefault(); show(map, map.focus); }
  });
  canvas.addEventListener("pointermove", (event) => show(map, under(event)));
  for (const away of ["pointerleave", "blur"]) canvas.addEventListener(away, () => show(map, -1));
}

function show(map, n) {
  const {canvas, live: group} = map;
  map.focus = n; map.draw();
  canvas.classList.toggle("over", n >= 0);
  if (!card) return;
  card.hidden = n < 0;
  if (n < 0) return;
  const {cells} = group, place = map.placeOf(n), since = cells.since[n];
  const facts = {
    Partition: `${group.numbers.stream}:${n}`,
    State: STATES[cells.state[n]],
    Owner: cells.ownerOf(n) ?? "—",
    Fence: fence(cells.fence[n]),
    Since: moment(since),
    Held: since ? span(Math.max(0, group.atMs - since)) : "—",
  };
  const learner = cells.learnerOf(n), standbys = cells.standbysOf(n);
  if (learner !== null) facts.Learner = learner;
  if (standbys.length) facts.Standbys = standbys.join(", ");
  const rows = Object.entries(facts).map(([term, text]) => [made("dt", term), made("dd", text)]);
  card.replaceChildren(...rows.flat());
  const right = Math.max(0, canvas.clientWidth - card.offsetWidth);
  card.style.left = `${Math.min(place.x, right)}px`;
  card.style.top = `${place.y + map.height + 4}px`;
}

const maps = await Promise.all([...document.querySelectorAll("canvas[data-map]")].map(drawn));
const zoom = document.getElementById("map-zoom") ? zoomOf(maps[0]) : null;

for (const choice of document.querySelectorAll("[data-overlay], [data-arrange]")) {
  choice.addEventListener("change", () => {
    for (const map of maps) {
      if (choice.dataset.overlay !== undefined) map.overlay = choice.value;
      else { map.arrange = choice.value; map.order(); }
      map.draw();
    }
    zoom?.show();
  });
}

const light = (id) => { for (const map of maps) { map.lit = id; map.draw(); } };
const member = ({target}) => target.closest("li")?.dataset.member ?? null;
legend?.addEventListener("pointerover", (event) => light(member(event)));
legend?.addEventListener("pointerleave", () => light(null));

const play = document.getElementById("play");
if (play) new Play(play, maps[0].live, maps[0]);
