// The window of a map of many partitions: buttons, keys, a pinch. What is shown is in the address.
import {number} from "./show.js";

const MANY = 500; // partitions; of fewer the cells have room for their numbers
const KEYS = {"+": "in", "=": "in", "-": "out", 0: "all", PageUp: "earlier", PageDown: "later"};

export function zoomOf(map) {
  const bar = document.getElementById("map-zoom"),
    {canvas} = map;
  const actions = {
    in: () => map.zoom(1 / 2),
    out: () => map.zoom(2),
    all: () => map.window(0, Infinity),
    earlier: () => map.pan(-1 / 2),
    later: () => map.pan(1 / 2),
  };
  const buttons = new Map(
    [...bar.querySelectorAll("[data-zoom]")].map((button) => [button.dataset.zoom, button]),
  );

  function show() {
    bar.hidden = map.cells.size <= MANY;
    if (bar.hidden || !map.at) return;
    const {first} = map,
      last = first + map.at.length - 1,
      all = map.at.length === map.cells.size;
    const what = map.arrange === "member" ? "by owner, places" : "partitions";
    const range = `${what} ${number(first)} to ${number(last)} of ${number(map.cells.size)}`;
    bar.querySelector("output").textContent = all ? "" : range;
    for (const [name, button] of buttons) button.disabled = all && name !== "in";
    const {pathname, search} = location;
    history.replaceState(null, "", `${pathname}${search}${all ? "" : `#${first}-${last}`}`);
  }

  function act(action) {
    if (bar.hidden) return;
    actions[action]();
    show();
  }

  for (const [name, button] of buttons) button.addEventListener("click", () => act(name));
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || bar.hidden) return;
    event.preventDefault();
    act(KEYS[event.key]);
  });
  const pinched = (event) => {
    if (!event.ctrlKey || bar.hidden) return; // it scrolls
    event.preventDefault();
    map.zoom(event.deltaY < 0 ? 0.8 : 1.25, map.partitionAt(event.clientX, event.clientY));
    show();
  };
  canvas.addEventListener("wheel", pinched, {passive: false});
  const asked = /^#(\d+)-(\d+)$/.exec(location.hash);
  if (asked) map.window(Number(asked[1]), Number(asked[2]) - Number(asked[1]) + 1);
  show();
  return {show};
}
