// How much needs attention, in the title and beside Overview; also in a tab that nobody looks at.
// When that changes, a page of a group asks what of it is its own.
import {fragment} from "./fragment.js";

const EVERY_MS = 10000;
const place = document.querySelector("[data-attention]");
const note = document.getElementById("attention_note");
const COUNTED = /^\(\d+\) /;

let shown = Number(place?.querySelector("b").textContent || 0);
let isNoteOld = false; // until the server has answered with the one of now

function show(count) {
  shown = count;
  place.hidden = count === 0;
  place.querySelector("b").textContent = count || "";
  document.title = (count ? `(${count}) ` : "") + document.title.replace(COUNTED, "");
}

async function ask() {
  const signal = AbortSignal.timeout(8000);
  const answer = await fetch(place.dataset.attention, {signal}).catch(() => null);
  if (!answer?.ok || answer.redirected) return;
  const {count} = await answer.json();
  if (count !== shown) {
    show(count);
    isNoteOld = note !== null;
  }
  const body = isNoteOld ? await fragment(note.id) : null;
  if (!body) return;
  note.replaceChildren(...body.childNodes);
  isNoteOld = false;
}

if (place) setInterval(ask, EVERY_MS);
