// Data, elements, numbers and scales.
const data = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const num = (x) => (typeof x === "string" ? Number(x) : x === null ? NaN : x);

const TYPES = { f8: Float64Array, f4: Float32Array, i2: Int16Array, i1: Int8Array };
function unpack(packed) {
  if (!packed) return null;
  if (packed.columns) {
    const columns = packed.columns.map((column) => unpack(column).values);
    return { at: (i, j = 0) => columns[j][i], length: packed.shape[0] };
  }
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0)), values = new TYPES[packed.type](bytes.buffer);
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

// Texts of the page's language, with their parts filled in; a text for one and one for several stand beside a bar.
const filled = (text, parts) => text.replace(/\{(\w+)\}/g, (_, name) => parts[name]);
const say = (key, parts = {}) => filled(data.texts[key], parts);
const sayAround = (key, parts) => data.texts[key].split(/(\{\w+\})/).map((part) => (part.startsWith("{") ? parts[part.slice(1, -1)] : part));
const POINT = data.texts["decimal point"], SEPARATOR = data.texts["thousands separator"];
const local = (text) => text.replace(/[.,](?=\d)/g, (mark) => (mark === "." ? POINT : SEPARATOR));
const plainNumber = (text) => text.replaceAll(SEPARATOR, "").replace(POINT, ".").replace("−", "-");
const count = (n) => local(n.toLocaleString("en"));
const counted = (n, key, text = count(n)) => filled(data.texts[key].split("|")[n === 1 ? 0 : 1], { n: text });
// Numbers and their percent signs stay on one line.
const tied = (text) => text.replace(/(\d) (?=[%‰])/g, "$1\u00a0");
const listed = (texts) => texts.join(say("list separator"));

function fmt(value, digits = 4) {
  if (Number.isNaN(value)) return say("missing");
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value) && size < 1e15) text = grouped(value);
  else if (size < 1e-4 || size >= 1e9) text = Number(value.toPrecision(digits)).toExponential();
  else text = grouped(Number(value.toPrecision(size >= 10 ** digits ? String(Math.trunc(size)).length : digits)));
  return local(text.replaceAll("-", "−"));
}
const grouped = (value) => (Math.abs(value) >= 1e4 ? value.toLocaleString("en", { maximumFractionDigits: 20 }) : String(value));
// Texts of numbers that are read beside each other: base/wording.py has the same functions, in its words.
const UNITS = { M: "million", B: "billion", T: "trillion" };
const FEW = 1e-4, LEAST = 1e-290, UNIT_DECIMALS = 3;
const exponentOf = (size) => Number(size.toExponential().split("e")[1]), power = (exponent) => Number(`1e${exponent}`);
const read = (text) => Number(text.replaceAll(",", "").replace("−", "-"));
function fixed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals), [whole, part] = text.split(".");
  return (value < 0 && Number(text) ? "−" : "") + (Number(text) >= 1e4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole) + (part ? `.${part}` : "");
}
function leastGap(values, largest) {
  const sorted = [...new Set(values)].sort((a, b) => a - b), gaps = sorted.slice(1).map((value, i) => value - sorted[i]).filter((gap) => gap > 1e-13 * largest);
  return gaps.length ? gaps.reduce((a, b) => Math.min(a, b)) : largest ? power(exponentOf(largest) - 3) : 1;
}
function unitOf(largest, step, isShare) {
  const [scale, sign] = !isShare ? [1, ""] : largest > 0 && largest < 0.01 ? [1000, " ‰"] : [100, " %"], size = largest * scale;
  if (size && !(size >= FEW && size < 1e15)) return [scale * power(-exponentOf(size)), `e${exponentOf(size)}${sign}`.replace("-", "−")];
  for (const [letter, digits] of [["T", 12], ["B", 9], ["M", 6]]) {
    if (!isShare && size >= power(digits) && step >= power(digits - UNIT_DECIMALS) * (1 - 1e-9)) return [power(-digits), letter];
  }
  return [scale, sign];
}
const decimalsFor = (step) => Math.max(0, -exponentOf(step * (1 + 1e-9)));
function tickTexts(values, step = 0, isShare = false) {
  const known = values.filter((v) => Number.isFinite(v) && Math.abs(v) >= LEAST), largest = known.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  step ||= leastGap(values.includes(0) ? [...known, 0] : known, largest);
  const [scale, unit] = unitOf(largest, step, isShare), necessary = decimalsFor(step * scale);
  let decimals = new Set(values).size === 1 ? 0 : necessary;
  while (decimals < necessary + 3 && known.some((v) => Math.abs(read(fixed(v * scale, decimals)) - v * scale) > 1e-3 * step * scale)) decimals++;
  if (decimals === necessary + 3) decimals = necessary + 1;
  return values.map((v) => (!Number.isFinite(v) ? (Number.isNaN(v) ? say("unknown") : v > 0 ? "∞" : "−∞")
    : Math.abs(v) >= LEAST ? local(fixed(v * scale, decimals)) + (unit in UNITS ? say(UNITS[unit]) : unit) : isShare ? `0${unit.slice(-2)}` : "0"));
}
const shareTexts = (values, step = 0) => tickTexts(values, step, true);
const percent = (share) => local(plainPercent(share));
function plainPercent(share) {
  if (!(share >= 0 && share <= 1)) return say("unknown");
  const distance = Math.min(share, 1 - share);
  if (distance > 0 && distance < 1e-6) return share < 0.5 ? "< 0.0001 %" : "> 99.9999 %";
  const text = fixed(100 * share, distance === 0 || distance >= 0.0995 ? 0 : -exponentOf(distance) - 1);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} %`;
}
function percents(shares, most = 2) {
  const texts = shares.map(plainPercent);
  if (new Set(texts).size === new Set(shares).size) return texts.map(local);
  const inside = shares.filter((share) => share > 0 && share < 1), decimals = decimalsFor(100 * Math.max(leastGap(inside, 1), power(-2 - most)));
  return shares.map((share, i) => { const longer = share > 0 && share < 1 ? `${fixed(100 * share, decimals)} %` : ""; return local(longer.length > texts[i].length ? longer : texts[i]); });
}
const signed = (value, digits) => (value < 0 ? "" : "+") + fmt(value, digits);
const short = (text, longest) => (text.length > longest ? cut([...text], Math.max(1, longest - 1)) : text);

// Widths of texts in pixels, as the page draws them.
const TEXT = 12.5, SOFT = 11.5, pen = document.createElement("canvas").getContext("2d"), FONT = getComputedStyle(document.body).fontFamily;
function widthOf(text, size = SOFT) {
  pen.font = `${size}px ${FONT}`;
  return pen.measureText(text).width;
}
const widest = (texts, size = SOFT) => Math.ceil(Math.max(0, ...texts.map((text) => widthOf(text, size))));
// What does not fit is cut in the middle: names often differ at their ends.
const cut = (letters, kept) => letters.slice(0, Math.ceil(kept / 2)).join("").trimEnd() + "…" + letters.slice(letters.length - Math.floor(kept / 2)).join("").trimStart();
function most(n, fits) {
  let low = 1, high = n;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(middle)) low = middle; else high = middle - 1;
  }
  return low;
}
function fitted(text, room, size = SOFT) {
  if (widthOf(text, size) <= room) return text;
  const letters = [...text];
  return cut(letters, most(letters.length - 1, (kept) => widthOf(cut(letters, kept), size) <= room));
}
// Names for a width in which they still differ: those that are cut alike show the letters in which they differ.
function told(names, room, size = SOFT) {
  const texts = names.map((name) => fitted(name, room, size)), alike = new Map();
  names.forEach((name, i) => alike.set(texts[i], (alike.get(texts[i]) ?? new Set()).add(name)));
  const used = new Set([...alike].filter(([, group]) => group.size === 1).map(([text]) => text)), shown = new Map();
  for (const group of alike.values()) {
    if (group.size === 1) continue;
    const lists = [...group].map((name) => [...name]);
    let same = 0;
    while (lists.every((letters) => letters.length > same && letters[same] === lists[0][same])) same++;
    for (const letters of lists) {
      const rest = letters.slice(same), whole = `…${rest.join("")}`, end = (n) => `…${rest.slice(0, n).join("")}${n < rest.length ? "…" : ""}`;
      let text = widthOf(whole, size) <= room ? whole : end(most(rest.length, (n) => widthOf(end(n), size) <= room));
      for (let n = 2; used.has(text); n++) text = `${fitted(letters.join(""), room - widthOf(` ${n}`, size), size)} ${n}`;
      used.add(text);
      shown.set(letters.join(""), text);
    }
  }
  return names.map((name, i) => shown.get(name) ?? texts[i]);
}

const nameOf = (feature) => data.features[feature].name;
const withUnit = (feature) => nameOf(feature) + (data.features[feature].unit ? ` (${data.features[feature].unit})` : "");
// What is explained: of classifiers a probability or log-odds, of regressions the target.
const classShown = () => (data.outputs.length ? data.outputs[state.output] : data.classes.length === 2 ? className(1) : "");
const explainedName = () => (data.isClassifier ? ofClass(data.isProbability ? "probability" : "log-odds", classShown()) : predictedName());
const ofClass = (key, name) => (name ? say(`${key} of`, { name }) : say(key));
const predictedName = () => (data.target ? say("predicted", { name: data.target }) : say("prediction")) + (data.unit ? ` (${data.unit})` : "");
const responseName = (column) => (data.isClassifier && data.classes.length ? say("probability of", { name: className(column) }) : predictedName());
// Classes that are numbers need the name of the target: "default = 1".
const className = (k) => (data.target && /^(-?\d+(\.\d+)?|True|False)$/.test(data.classes[k]) ? `${data.target} = ${data.classes[k]}` : data.classes[k]);
const SHADES = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"];
// Decimals that tell a thousand values of the feature's range apart.
function decimalsOf(feature) {
  const span = num(data.features[feature].high) - num(data.features[feature].low);
  return span > 0 && span < Infinity ? Math.min(100, Math.max(0, 3 - Math.floor(Math.log10(span)))) : 0;
}
function valueText(feature, value) {
  if (Number.isNaN(value)) return say("missing");
  const texts = data.features[feature].categories, digits = Math.floor(Math.log10(Math.abs(value))) + 1 + decimalsOf(feature);
  return texts ? (texts[String(value)] ?? say("category", { value })) : fmt(value, Math.min(15, Math.max(6, digits)));
}
const outputName = (k) => (data.outputs.length ? data.outputs[k] : "");

// A label that is shortened to its room in pixels has its whole text as a title; both parts of a pair stay visible.
function pairText(parts, room, between = " × ", size = TEXT) {
  const left = room - widthOf(between, size) * (parts.length - 1), widths = parts.map((part) => widthOf(part, size)), least = between === " = " ? [0.3 * left, 0.7 * left] : [left / 2, left / 2];
  return parts.map((part, i) => fitted(part, parts.length > 1 ? Math.max(least[i], left - widths[1 - i]) : left, size)).join(between);
}
// Names and values in a width: values have up to half of it, and names show what tells them apart in the rest.
function namedValues(pairs, room, size = TEXT) {
  const between = " = ", most = Math.min(Math.floor(room / 2), widest(pairs.map(([, value]) => value), size)), values = pairs.map(([, value]) => fitted(value, most, size));
  const names = told(pairs.map(([name]) => name), room - most - widthOf(between, size), size);
  return pairs.map((_, i) => names[i] + between + values[i]);
}
function label(text, room, attributes, between = " × ", whole = [text].flat().join(between)) {
  const shown = pairText([text].flat(), room, between, attributes.class === "soft" ? SOFT : TEXT);
  return svg("text", attributes, shown, shown !== whole && svg("title", {}, whole));
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (x) => from + ((x - low) / span) * (to - from);
}
// About `count` round numbers between the ends: four to six unless there is little room.
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
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": say("table") }, el("table", attributes,
    el("thead", {}, el("tr", {}, headers.map((text) => el("th", { scope: "col", title: text }, heading(text))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", { title: typeof cell === "string" ? cell : null }, cell)))))));
}
const asTable = (headers, rows) => el("details", { class: "noprint" }, el("summary", {}, say("as table")), table(headers, rows()));

// Sizes of effects: parts of a probability in percent.
const effectTexts = (values) => (data.isProbability ? percents(values) : values.map((value) => fmt(value, 3)));
const effectText = (value, digits = 4) => (data.isProbability ? `${value < 0 ? "−" : ""}${percent(Math.abs(value))}` : fmt(value, digits));
const signedEffect = (value, digits) => (value < 0 ? "" : "+") + effectText(value, digits);
const effectAxis = () => (data.isProbability ? shareTexts : tickTexts);
const state = { output: data.outputs.length === 2 && data.classes.length === 2 ? 1 : 0, row: 0, listeners: {} };
function listen(what, act) {
  (state.listeners[what] ??= []).push(act);
  act();
}
function change(what, value) {
  state[what] = value;
  for (const act of state.listeners[what] ?? []) act();
}
