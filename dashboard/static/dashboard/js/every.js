// Pages about many groups: their fragment is fetched again every few seconds while somebody looks.
import {fragment} from "./fragment.js";

const EVERY_MS = 4000;
const typed = (place) =>
  [...place.querySelectorAll("input")].some((input) => input.value !== input.defaultValue);

for (const place of document.querySelectorAll("[data-every]")) {
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement) || typed(place)) return;
    const body = await fragment(place.id);
    place.classList.toggle("stale", body === null);
    if (body) place.replaceChildren(...body.childNodes);
  }, EVERY_MS);
}
