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
  if (Number.isInteger(value) && size < 1e15) text = size >= 1e4 ? value.toLocaleString("en") : String(value);
  else if (size !== 0 && (size < 1e-4 || size >= 1e9)) text = value.toExponential(digits - 1);
  else text = String(Number(value.toPrecision(size >= 10 ** digits ? String(Math.trunc(size)).length : digits)));
  return text.replace("-", "−");
}
const signed = (value, digits) => (value < 0 ? "" : "+") + fmt(value, digits);
const short = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text);

const nameOf = (feature) => data.features[feature].name;
const withUnit = (feature) => nameOf(feature) + (data.features[feature].unit ? ` (${data.features[feature].unit})` : "");
// What is explained: of classifiers a probability or log-odds, of regressions the target.
const classShown = () => (data.outputs.length ? data.outputs[state.output] : data.classes.length === 2 ? data.classes[1] : "");
const explainedName = () => (data.isClassifier ? `${data.isProbability ? "probability" : "log-odds"}${classShown() ? ` of ${classShown()}` : ""}` : data.target || "prediction");
const responseName = (column) => (data.isClassifier && data.classes.length ? `probability of ${data.classes[column]}` : data.target || "prediction");
const SHADES = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"];
function valueText(feature, value) {
  if (Number.isNaN(value)) return "missing";
  const texts = data.features[feature].categories;
  return texts ? (texts[String(value)] ?? `category ${value}`) : fmt(value, 6);
}
const outputName = (k) => (data.outputs.length ? data.outputs[k] : "");

// A label that the chart shortens keeps its whole text as a title; of a pair both names stay to be seen.
function label(text, most, attributes) {
  const names = [text].flat(), whole = names.join(" × "), left = most - 3 * (names.length - 1), half = Math.floor(left / names.length);
  const shown = names.map((name, i) => short(name, names.length > 1 ? Math.max(half, left - names[1 - i].length) : most)).join(" × ");
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
    const root = svg("svg", { role: "img", "aria-label": text });
    const height = draw(root, width);
    root.setAttribute("height", height);
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    box.replaceChildren(root);
  };
  new ResizeObserver(() => { if (Math.abs(box.clientWidth - last) >= 1) redraw(); }).observe(box);
  figure.redraw = redraw;
  return figure;
}

function table(headers, rows, attributes) {
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "table" }, el("table", attributes,
    el("thead", {}, el("tr", {}, headers.map((text) => el("th", { scope: "col", title: text }, text)))),
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
