// Moments: each <time> in UTC or in this browser's zone, as chosen, and beside it how long ago it
// was; where the text is how long ago (class "ago"), the text itself. Both go on without a request.
import {ago, isLocal, moment, span, zone} from "./show.js";

const EVERY_MS = 1000;
const TIMES = "time[datetime]";
// Of the server's clock, where the page says what that is; else this machine's is taken for right.
const {now} = document.documentElement.dataset;
const ahead = now ? Number(now) - Date.now() : 0;

function show(place) {
  const at = Date.parse(place.dateTime), late = Date.now() + ahead - at;
  if (place.classList.contains("ago")) place.textContent = span(Math.max(0, late));
  else {
    if (isLocal && place.textContent !== moment(at)) place.textContent = moment(at);
    if (place.dataset.ago !== ago(late)) place.dataset.ago = ago(late);
  }
}

function showAll() {
  if (!document.hidden) document.querySelectorAll(TIMES).forEach(show);
}

// What a fragment brings is shown before it is painted.
new MutationObserver((changes) => {
  for (const {addedNodes} of changes) {
    for (const node of addedNodes) {
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      if (node.matches(TIMES)) show(node);
      else node.querySelectorAll(TIMES).forEach(show);
    }
  }
}).observe(document.body, {childList: true, subtree: true});

if (isLocal) {
  const note = document.getElementById("clock-note");
  if (note) note.textContent = `Times are of ${zone}; what is typed, and what a file has, is UTC.`;
}
showAll();
setInterval(showAll, EVERY_MS);
document.addEventListener("visibilitychange", showAll);
