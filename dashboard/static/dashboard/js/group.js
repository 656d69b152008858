// On every page of a group: the light, the six numbers, the state. Other modules take `live` from
// here; as of a moment that was, nothing is ever heard of it.
import {Live} from "./live.js";

const root = document.getElementById("group");
const first = document.getElementById("first");
export const live = first
  ? new Live(
      {socket: root.dataset.socket, snapshot: root.dataset.snapshot},
      JSON.parse(first.textContent),
    )
  : new EventTarget();

const light = document.getElementById("light");
live.addEventListener("light", ({detail}) => {
  light.dataset.light = detail.light;
  light.title = detail.why;
  light.querySelector("span").textContent = detail.text;
  showGroupState();
  // it was written before
  document.getElementById("problem")?.toggleAttribute("hidden", detail.light === "live");
});

live.addEventListener("change", ({detail}) => {
  for (const [key, value] of Object.entries(detail.strip)) showNumber(key, value);
  if (detail.state) showGroupState();
  if (detail.coordination) showCoordination(detail.coordination);
});

function showCoordination({text, small}) {
  const place = document.getElementById("coordination");
  place.firstChild.textContent = `${text} `;
  place.querySelector("small").textContent = small;
}

// What was, is not what is.
function showGroupState() {
  const old = light.dataset.light === "stale" || light.dataset.light === "offline";
  const place = document.getElementById("group-state");
  showState(place, old ? "unknown" : live.state);
  place.firstElementChild.title = old ? live.problem : live.why;
}

function showNumber(key, {text, small, tone, title}) {
  const place = root.querySelector(`[data-number="${key}"]`);
  if (!place) return;
  place.className = tone;
  place.title = title;
  place.querySelector("b").textContent = text;
  place.querySelector("small").textContent = small;
}

export function showState(place, word) {
  const made = document.getElementById(`state-${word}`) ?? document.getElementById("state-unknown");
  if (place) place.replaceChildren(made.content.cloneNode(true));
}

if (first) live.start();
