// Pages about many groups: their fragment is fetched again every few seconds while somebody looks.
const EVERY_MS = 4000;

for (const place of document.querySelectorAll("[data-every]")) {
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement)) return;
    const url = new URL(location.href);
    url.searchParams.set("fragment", place.id);
    const answer = await fetch(url, {signal: AbortSignal.timeout(10000)}).catch(() => null);
    place.classList.toggle("stale", !answer?.ok);
    if (!answer?.ok || answer.redirected) return;
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...parsed.body.childNodes);
  }, EVERY_MS);
}
