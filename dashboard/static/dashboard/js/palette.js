// Keys of every page: Ctrl-K opens the palette, / searches, ? tells the keys. What is found is the
// fragment of the page Search.
const palette = document.getElementById("palette");
const input = palette.querySelector("input");
const list = document.getElementById("palette-hits");
const said = palette.querySelector("[aria-live]");
const WAIT_MS = 120;
let chosen = -1, asked = 0, timer = 0;

const options = () => [...list.querySelectorAll("[role=option]")];

function choose(n) {
  const all = options();
  chosen = all.length ? (n + all.length) % all.length : -1;
  all.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
  if (chosen < 0) { input.removeAttribute("aria-activedescendant"); return; }
  input.setAttribute("aria-activedescendant", all[chosen].id);
  all[chosen].scrollIntoView({block: "nearest"});
}

async function find() {
  const mine = ++asked, url = new URL(palette.dataset.url, location.href);
  url.searchParams.set("q", input.value);
  url.searchParams.set("fragment", "hits");
  const answer = await fetch(url, {signal: AbortSignal.timeout(8000)}).catch(() => null);
  if (mine !== asked || !answer?.ok || answer.redirected) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== asked) return;
  show([...found.querySelectorAll("a")]);
}

function show(links) {
  list.replaceChildren(...links.map((link, i) => {
    link.id = `palette-hit-${i}`; link.tabIndex = -1;
    link.setAttribute("role", "option");
    return link;
  }));
  input.setAttribute("aria-expanded", String(links.length > 0));
  said.textContent = links.length === 1 ? "1 found" : `${links.length} found`;
  choose(0);
}

function open() {
  if (palette.open) return;
  document.querySelector("dialog[open]")?.close();
  palette.showModal();
  input.select();
  find();
}

input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, WAIT_MS); });
input.addEventListener("keydown", (event) => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step) { event.preventDefault(); choose(chosen + step); }
  if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); options()[chosen].click(); }
});

// A click beside it closes it.
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
document.querySelector("[data-palette]")?.addEventListener("click", (event) => {
  event.preventDefault(); open();
});

// A field of a dialog that has just closed may still have the focus.
const FIELDS = "input, select, textarea, [contenteditable]";
const types = (element) => element.closest(FIELDS) && !element.closest("dialog:not([open])");

document.addEventListener("keydown", (event) => {
  const {key, target, ctrlKey, metaKey, altKey, shiftKey} = event, held = ctrlKey || metaKey;
  if (key.toLowerCase() === "k" && held && !altKey && !shiftKey) {
    event.preventDefault(); open(); return;
  }
  if (held || altKey || types(target) || document.querySelector("dialog[open]")) return;
  if (key === "/") { event.preventDefault(); searchHere(); }
  if (key === "?") { event.preventDefault(); document.getElementById("keys").showModal(); }
});

function searchHere() {
  const field = document.querySelector("main input[name=q]");
  if (field) field.select(); else open();
}
