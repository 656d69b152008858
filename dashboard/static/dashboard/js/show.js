// How values look; the same forms as templatetags/show.py.
export const number = (value) =>
  Number.isNaN(value) ? "—" : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
export const fence = (value) => (value ? `${Math.floor(value / 2 ** 32)}.${value % 2 ** 32}` : "—");
// What is chosen by the switch of the header: UTC, or this browser's zone.
export const isLocal = document.documentElement.dataset.clock === "local";
export const zone = isLocal ? Intl.DateTimeFormat().resolvedOptions().timeZone : "UTC";
const shift = (ms) => (isLocal ? new Date(ms).getTimezoneOffset() * 60000 : 0);
// A moment as ISO writes it, in the zone chosen; without the letter of UTC.
export const written = (ms) => new Date(ms - shift(ms)).toISOString().slice(0, 23);
export const moment = (ms) => (ms ? written(ms).slice(0, 19).replace("T", " ") : "—");
export function short(id) {
  const dash = id.lastIndexOf("-"),
    random = id.slice(dash + 1);
  return dash > 0 && random.length > 8 ? `${id.slice(0, dash)}-${random.slice(0, 6)}` : id;
}
const two = (count, unit, rest, smaller) =>
  `${Math.floor(count)} ${unit}${rest >= 1 ? ` ${Math.floor(rest)} ${smaller}` : ""}`;
export function span(ms) {
  // as amounts.span
  const s = ms / 1000,
    m = s / 60,
    h = m / 60;
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 60) return `${Math.floor(s * 10) / 10} s`;
  if (m < 60) return two(m, "min", s % 60, "s");
  if (h < 48) return two(h, "h", m % 60, "min");
  return two(h / 24, "d", h % 24, "h");
}
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
// Beside a moment: in its greatest unit, "3 min ago" or "in 2 h".
export function ago(ms) {
  const seconds = Math.abs(ms) / 1000;
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS.at(-1);
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return ms < -1000 ? `in ${text}` : `${text} ago`;
}
export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); // of "#rrggbb"
export const variable = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// A guess of how long it takes yet: in whole seconds, at least one.
export const eta = (ms) => (ms <= 59000 ? `${Math.max(1, Math.ceil(ms / 1000))} s` : span(ms));
