// Elements and numbers as text. What comes from outside becomes text nodes, never markup.

/** Makes an element: el("td", {className: "n"}, "text", child). */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role" || name === "colspan") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Sets the text of a node that may have it already. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** True if the pointer or the keyboard's focus is in the node, as after a click it is not. */
export const inUse = (node) => node.matches(":hover, :has(:focus-visible)");

export const byId = (id) => document.getElementById(id);

const known = (value) => value != null && Number.isFinite(value);

const short = (value) => value.toFixed(value >= 100 ? 0 : 1);

export function count(value) {
  if (!known(value)) return "–";
  if (value >= 1e6) return short(value / 1e6) + "M";
  if (value >= 1e4) return short(value / 1e3) + "k";
  if (value > 0 && value < 1) return String(Number(value.toPrecision(2)));
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

export function percent(value) {
  return known(value) ? Math.round(value * 100) + " %" : "–";
}

export function seconds(value) {
  if (!known(value)) return "–";
  if (value < 0.001) return Math.round(value * 1e6) + " µs";
  if (value < 1) return (value < 0.1 ? (value * 1000).toFixed(1) : Math.round(value * 1000)) + " ms";
  return (value < 10 ? value.toFixed(2) : value.toFixed(1)) + " s";
}

export function bytes(value) {
  return known(value) ? (value / 2 ** 30).toFixed(1) + " GiB" : "–";
}

/** "2h 10m" */
export function span(total) {
  if (!known(total)) return "–";
  const s = Math.max(0, Math.round(total));
  if (s < 60) return s + "s";
  if (s < 3600) return Math.floor(s / 60) + "m " + (s % 60) + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h " + Math.floor((s % 3600) / 60) + "m";
  return Math.floor(s / 86400) + "d " + Math.floor((s % 86400) / 3600) + "h";
}

/** "2h": a time that does not run, without what is zero. */
export const period = (total) => span(total).replace(/ 0[smh]$/, "");

export function clock(second) {
  return new Date(second * 1000).toLocaleTimeString([], {hourCycle: "h23"});
}
