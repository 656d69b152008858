// Keys of the time machine: [ and ] go to the epoch before and after, l back to live. Each is a
// link of the page.
const TYPED = "input, select, textarea, [contenteditable]";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(TYPED)) return;
  const links = [...document.querySelectorAll("a[data-key]")];
  const link = links.find((one) => one.dataset.key === event.key);
  if (!link) return;
  event.preventDefault();
  location.href = link.href;
});
