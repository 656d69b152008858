// The scale-down wizard: what is typed or marked is read by the server, and its reading shown at
// once.
import {fragment} from "./fragment.js";

const form = document.getElementById("wizard");
const leavers = document.getElementById("leavers");
const WAIT_MS = 150; // between two keys
let asked = 0,
  timer = 0;

async function read(query, show) {
  const mine = ++asked;
  leavers.setAttribute("aria-busy", "true");
  const body = await fragment("leavers", query);
  if (mine !== asked) return; // a later question is on its way
  leavers.setAttribute("aria-busy", "false");
  leavers.classList.toggle("stale", body === null);
  if (body) show(body);
}

// The percentage chooses anew who leaves; its own field stays as it is, for somebody types in it.
function byPercent() {
  const typed = document.getElementById("percent");
  read(new URLSearchParams({percent: typed.value}), (body) => {
    const focused = document.activeElement === typed,
      at = typed.selectionStart;
    typed.toggleAttribute("aria-invalid", body.querySelector("#percent_errors") !== null);
    body.querySelector(".asked").replaceWith(leavers.querySelector(".asked"));
    leavers.replaceChildren(...body.childNodes);
    if (focused) {
      typed.focus();
      typed.setSelectionRange(at, at);
    }
  });
}

function byNames() {
  const sent = new FormData(form),
    query = new URLSearchParams();
  for (const name of ["percent", "shown", "member", "force_all"])
    for (const value of sent.getAll(name)) query.append(name, value);
  query.set("percent", sent.get("shown")); // the marks go before what is typed and not looked at
  read(query, (body) =>
    leavers.querySelector("#reading").replaceWith(body.querySelector("#reading")),
  );
}

leavers.addEventListener("input", ({target}) => {
  clearTimeout(timer);
  timer = setTimeout(target.id === "percent" ? byPercent : byNames, WAIT_MS);
});
