// Data, elements, numbers and scales.
const data = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const num = (x) => (typeof x === "string" ? Number(x) : x === null ? NaN : x);

function unpack(packed) {
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const values = packed.type === "f8" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
  const [, a = 1, b = 1] = packed.shape;
  return { at: (i, j = 0, k = 0) => values[(i * a + j) * b + k], length: packed.shape[0], values };
}

// Text goes in as text nodes only: no name or value can become markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(NS, tag), attributes, children);

function fmt(value, digits = 4) {
  if (Number.isNaN(value)) return "missing";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value) && size < 1e15) text = grouped(value);
  else if (size < 1e-4 || size >= 1e9) text = Number(value.toPrecision(digits)).toExponential();
  else text = grouped(Number(value.toPrecision(size >= 10 ** digits ? String(Math.trunc(size)).length : digits)));
  return text.replaceAll("-", "−");
}
const grouped = (value) => (Math.abs(value) >= 1e4 ? value.toLocaleString("en", { maximumFractionDigits: 20 }) : String(value));
// Numbers at axes, where there is little room: 25M, 1.702B.
function tickText(value, digits = 4) {
  const size = Math.abs(value);
  if (size < 1e6 || size >= 1e15) return fmt(value, digits);
  return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: digits }).replaceAll("-", "−");
}
const signed = (value, digits) => (value < 0 ? "" : "+") + fmt(value, digits);
const short = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text);

// Widths of texts in pixels, as the page draws them.
const TEXT = 12.5, SOFT = 11.5, pen = document.createElement("canvas").getContext("2d"), FONT = getComputedStyle(document.body).fontFamily;
function widthOf(text, size = SOFT) {
  pen.font = `${size}px ${FONT}`;
  return pen.measureText(text).width;
}
const widest = (texts, size = SOFT) => Math.ceil(Math.max(0, ...texts.map((text) => widthOf(text, size))));
function fitted(text, room, size = SOFT) {
  if (widthOf(text, size) <= room) return text;
  const letters = [...text];
  let fits = 1, fails = letters.length;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (widthOf(letters.slice(0, middle).join("") + "…", size) <= room) fits = middle; else fails = middle;
  }
  return letters.slice(0, fits).join("") + "…";
}
// Names for a width in which they still differ: where their beginnings are the same, without these.
function told(names, room) {
  const texts = names.map((name) => fitted(name, room)), letters = names.map((name) => [...name]);
  if (new Set(texts).size === new Set(names).size) return texts;
  let same = 0;
  while (letters.every((name) => name.length > same + 1 && name[same] === letters[0][same])) same++;
  return letters.map((name) => fitted((same ? "…" : "") + name.slice(same).join(""), room));
}

const counted = (n, one, many = `${one}s`) => `${n} ${String(n) === "1" ? one : many}`;
const nameOf = (feature) => data.features[feature].name;
const withUnit = (feature) => nameOf(feature) + (data.features[feature].unit ? ` (${data.features[feature].unit})` : "");
// What is explained: of classifiers a probability or log-odds, of regressions the target.
const classShown = () => (data.outputs.length ? data.outputs[state.output] : data.classes.length === 2 ? data.classes[1] : "");
const explainedName = () => (data.isClassifier ? `${data.isProbability ? "probability" : "log-odds"}${classShown() ? ` of ${classShown()}` : ""}` : predictedName());
const predictedName = () => (data.target ? `predicted ${data.target}` : "prediction");
const responseName = (column) => (data.isClassifier && data.classes.length ? `probability of ${data.classes[column]}` : predictedName());
const SHADES = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"];
// Decimals that tell a thousand values of the feature's range apart.
function decimalsOf(feature) {
  const span = num(data.features[feature].high) - num(data.features[feature].low);
  return span > 0 && span < Infinity ? Math.min(100, Math.max(0, 3 - Math.floor(Math.log10(span)))) : 0;
}
function valueText(feature, value) {
  if (Number.isNaN(value)) return "missing";
  const texts = data.features[feature].categories, digits = Math.floor(Math.log10(Math.abs(value))) + 1 + decimalsOf(feature);
  return texts ? (texts[String(value)] ?? `category ${value}`) : fmt(value, Math.min(15, Math.max(6, digits)));
}
const outputName = (k) => (data.outputs.length ? data.outputs[k] : "");

// A label that is shortened to its room in pixels has its whole text as a title; both parts of a pair stay visible.
function label(text, room, attributes, between = " × ", whole = [text].flat().join(between)) {
  const parts = [text].flat(), size = attributes.class === "soft" ? SOFT : TEXT, left = room - widthOf(between, size) * (parts.length - 1);
  const widths = parts.map((part) => widthOf(part, size)), least = between === " = " ? [0.3 * left, 0.7 * left] : [left / 2, left / 2];
  const shown = parts.map((part, i) => fitted(part, parts.length > 1 ? Math.max(least[i], left - widths[1 - i]) : left, size)).join(between);
  return svg("text", attributes, shown, shown !== whole && svg("title", {}, whole));
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (x) => from + ((x - low) / span) * (to - from);
}
// About so many round numbers between the ends: four to six unless there is little room.
function ticks(low, high, count = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const unit = 10 ** Math.floor(Math.log10(span / count));
  const of = (step) => {
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
    return found;
  };
  const all = [0.5, 1, 2, 2.5, 5, 10, 20].map((m) => of(m * unit));
  return all.reduce((best, one) => (Math.abs(one.length - count) < Math.abs(best.length - count) ? one : best));
}
const percent = (share) => {
  const value = 100 * share, near = Math.min(value, 100 - value);
  if (Number.isNaN(share)) return "unknown";
  return near === 0 || near >= 9.5 ? `${Math.round(value)} %` : near < 0.05 ? (value < 50 ? "< 0.1 %" : "> 99.9 %") : near < 0.95 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
};
function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? [0, 1] : low === high ? [low - 0.5, high + 0.5] : [low, high];
}
const mix = (share) =>
  Number.isNaN(share) ? "var(--gone)" : `color-mix(in oklab, var(--high) ${Math.round(100 * Math.min(1, Math.max(0, share)))}%, var(--low))`;

// Where a value lies among a feature's values, by quantiles, so that outliers do not take all colours.
function ranker(values) {
  const sorted = Float64Array.from(values.filter((v) => !Number.isNaN(v))).sort();
  return (value) => {
    if (Number.isNaN(value)) return NaN;
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    let end = low;
    while (end < sorted.length && sorted[end] === value) end++;
    return sorted.length > 1 ? (low + Math.max(low, end - 1)) / 2 / (sorted.length - 1) : 0.5;
  };
}

// A chart is drawn for the width that it has, and again when that changes.
function chart(text, draw, caption) {
  const box = el("div"), figure = el("figure", {}, caption && el("figcaption", {}, caption), box);
  let last = 0;
  const redraw = () => {
    const width = Math.floor(box.clientWidth);
    if (!width) return;
    last = width;
    const root = Object.assign(svg("svg", { role: "img", "aria-label": text }), { room: width });
    const height = draw(root, width);
    root.setAttribute("height", height);
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    box.replaceChildren(root);
  };
  new ResizeObserver(() => { if (Math.abs(box.clientWidth - last) >= 1) redraw(); }).observe(box);
  figure.redraw = redraw;
  return figure;
}

// Names in headers break between their words first; those that are still too long have titles.
const words = (name) => name.split(/(?<=[_\-./:])(?=[^\s_])|(?<=\p{Ll})(?=\p{Lu})/u).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
const heading = (name) => el("div", { class: "heading", style: name.length > 12 ? "min-width:10ch" : "white-space:nowrap" }, words(short(name, 36)));
function table(headers, rows, attributes) {
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "table" }, el("table", attributes,
    el("thead", {}, el("tr", {}, headers.map((text) => el("th", { scope: "col", title: text }, heading(text))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", { title: typeof cell === "string" ? cell : null }, cell)))))));
}
const asTable = (headers, rows) => el("details", { class: "noprint" }, el("summary", {}, "As a table"), table(headers, rows()));

const state = { output: 0, row: 0, listeners: {} };
function listen(what, act) {
  (state.listeners[what] ??= []).push(act);
  act();
}
function change(what, value) {
  state[what] = value;
  for (const act of state.listeners[what] ?? []) act();
}
