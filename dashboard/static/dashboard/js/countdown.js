// Countdowns: [data-until] says when, [data-now] the server's clock when the page or its fragment
// was made.
import {span} from "./show.js";

const EVERY_MS = 500;
let ahead = -Infinity; // of the server's clock before this one; the quickest answer comes closest

function show() {
  for (const place of document.querySelectorAll("[data-until]")) {
    ahead = Math.max(ahead, Number(place.dataset.now) - Date.now());
    const seconds = Math.floor(
      Math.max(0, Number(place.dataset.until) - Date.now() - ahead) / 1000,
    );
    place.textContent = seconds < 60 ? `${seconds} s` : span(seconds * 1000);
  }
}

setInterval(show, EVERY_MS);
