// The preview: a strategy that would move nothing is not run; the server refuses it too.
const previews = document.getElementById("previews");

function show() {
  const chosen = previews.querySelector("input[name=strategy]:checked");
  if (!chosen) return;
  const run = document.getElementById("run");
  const idle = chosen.closest("tr").querySelector("[data-idle]") !== null;
  const inThought = document.getElementById("in-thought") !== null;
  run.disabled = idle || inThought || run.hasAttribute("data-refused");
  document.getElementById("propose").disabled = idle || inThought;
  document.getElementById("idle").hidden = !idle && !inThought;
}

if (previews) { previews.addEventListener("change", show); show(); }
