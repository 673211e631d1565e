// Bars, beeswarm, scatter, lines.
const DOT = 3.4;

// Ticks and their texts.
const written = (all, write) => { const texts = write(all); return all.map((tick, i) => [tick, texts[i]]); };
function axis(root, x, low, high, y, width, name, write = tickTexts, own = []) {
  const fit = (shown) => shown.every(([tick, text], i) => !i || x(tick) - x(shown[i - 1][0]) > (widthOf(text) + widthOf(shown[i - 1][1])) / 2 + 8);
  let count = Math.max(2, Math.min(5, Math.floor(width / 60))), shown = written(ticks(low, high, count), write);
  while (count > 1 && !fit(shown)) shown = written(ticks(low, high, --count), write);
  if (own.length > 1 && fit(written(own, write))) shown = written(own, write); // a few values are their own ticks
  for (const [tick, text] of shown) {
    root.append(svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: y, y2: y + 4 }));
    root.append(svg("text", { class: "soft", x: Math.min(x(tick), x(high) + 12 - widthOf(text) / 2), y: y + 17, "text-anchor": "middle" }, text));
  }
  if (name) root.append(label(name, width, { class: "soft", x: (x(low) + x(high)) / 2, y: y + 33, "text-anchor": "middle" }));
}
const AXIS = 38, NAME = 14;
// Ticks at the left and the room that they need, the name of the axis above them.
const sideTicks = (low, high, write = tickTexts, count = 5) => written(ticks(low, high, count), write);
const sideRoom = (...of) => Math.max(40, 12 + widest(sideTicks(...of).map(([, text]) => text)));
function sideAxis(root, y, low, high, left, name, write) {
  for (const [tick, text] of sideTicks(low, high, write)) {
    root.append(svg("line", { class: "axis", x1: left - 4, x2: left, y1: y(tick), y2: y(tick) }));
    root.append(svg("text", { class: "soft", x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, text));
  }
  if (name) root.append(label(name, root.room, { class: "soft", x: 0, y: 10 }));
}
// Names of categories below a chart, slanted; their height, and their drawing, of which no two touch.
const SLANT = 35, SIN = Math.sin((SLANT * Math.PI) / 180), COS = Math.cos((SLANT * Math.PI) / 180), MOST_NAME = 92;
const nameHeight = (names) => Math.ceil(24 + SIN * widest(told(names, MOST_NAME)));
function slanted(root, x, places, names, y) {
  const texts = told(names, MOST_NAME), n = places.length, most = n > 1 ? Math.max(2, Math.floor((n * Math.abs(x(places[1]) - x(places[0]))) / 20)) : 1;
  // Evenly spaced names where there is no room for all, those of both ends among them.
  const step = n > most ? Math.ceil((n - 1) / (most - 1)) : 1, named = new Set([...places.keys()].filter((i) => i % step === 0 && (i === 0 || n - 1 - i >= step || i === n - 1)));
  if (n) named.add(n - 1);
  places.forEach((place, i) => named.has(i) && root.append(label(texts[i], Math.min(MOST_NAME, (x(place) + 14) / COS), { class: "soft", transform: `translate(${x(place)} ${y + 14}) rotate(-${SLANT})`, "text-anchor": "end" }, "", names[i])));
}
const labelWidth = (width) => Math.min(190, Math.max(90, Math.floor(width * 0.3)));

// Labels of bars in the room that they have: those of different bars differ.
function labelsOf(entries, room) {
  if (!entries.length || !entries[0].names) return told(entries.map((entry) => entry.name), room, TEXT);
  const texts = entries.map((entry) => pairText(entry.names, room));
  if (new Set(texts).size === new Set(entries.map((entry) => entry.name)).size) return texts;
  const names = [...new Set(entries.flatMap((entry) => entry.names))], parts = told(names, (room - widthOf(" × ", TEXT)) / 2, TEXT);
  return entries.map((entry) => entry.names.map((name) => parts[names.indexOf(name)]).join(" × "));
}
const barLabel = (text, entry, left, y) => svg("text", { x: left - 7, y, "text-anchor": "end" }, text, text !== entry.name && svg("title", {}, entry.name));

function bars(entries, text, most = 20, write = (values) => values.map((value) => fmt(value, 3))) {
  const shown = entries.slice(0, most), largest = Math.max(...shown.map((e) => e.value), 1e-300);
  return chart(text, (root, width) => {
    const texts = write(shown.map((entry) => entry.value)).map((said, i) => said + (shown[i].more ?? "")), row = 23, height = shown.length * row + 4;
    const left = shown[0]?.names ? Math.min(230, Math.floor(width * 0.48)) : labelWidth(width), names = labelsOf(shown, left - 9), x = scale(0, largest, left, width - widest(texts) - 8);
    shown.forEach((entry, i) => {
      const y = i * row;
      root.append(barLabel(names[i], entry, left, y + 15));
      root.append(svg("rect", { x: left, y: y + 4, width: Math.max(1, x(entry.value) - left), height: 15, rx: 2, fill: "var(--accent)" }));
      root.append(svg("text", { class: "soft", x: x(entry.value) + 6, y: y + 16 }, texts[i]));
    });
    if (entries.length > most) root.append(svg("text", { class: "soft", x: left, y: height + 11 }, say("and n smaller", { n: entries.length - most })));
    return height + (entries.length > most ? 16 : 0);
  });
}

// Bars to both sides of 0, with whiskers of two standard errors.
function signedBars(entries, text, name) {
  const ends = entries.flatMap((e) => (Number.isNaN(e.error) ? [e.value] : [e.value - 2 * e.error, e.value + 2 * e.error])), [low, high] = extent([...ends, 0]);
  return chart(text, (root, width) => {
    const left = labelWidth(width), x = scale(low, high, left + 4, width - 8), row = 23, height = entries.length * row, names = labelsOf(entries, left - 9);
    entries.forEach((entry, i) => {
      const y = i * row, from = Math.min(x(0), x(entry.value));
      root.append(barLabel(names[i], entry, left, y + 15));
      root.append(svg("rect", { x: from, y: y + 4, width: Math.max(1, Math.abs(x(entry.value) - x(0))), height: 15, rx: 2, fill: entry.value < 0 ? "var(--low)" : "var(--high)" }));
      if (!Number.isNaN(entry.error)) root.append(svg("line", { style: "stroke:var(--ink)", x1: x(entry.value - 2 * entry.error), x2: x(entry.value + 2 * entry.error), y1: y + 11.5, y2: y + 11.5 }));
    });
    root.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height }));
    axis(root, x, low, high, height, width - left, name);
    return height + AXIS;
  });
}

// Dots of one colour are one path: thousands of rows stay quick.
function dots(root, points, shades = 24, own = null) {
  const buckets = new Map();
  for (const { x, y, share } of points) {
    const key = Number.isNaN(share) ? "none" : Math.round(share * (shades - 1));
    if (!buckets.has(key)) buckets.set(key, []);
    buckets.get(key).push(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
  }
  for (const [key, parts] of [...buckets].sort((a, b) => (a[0] === "none" ? -1 : b[0] === "none" ? 1 : a[0] - b[0]))) {
    const colour = own ? own : key === "none" ? "var(--gone)" : mix(key / (shades - 1));
    root.append(svg("path", { class: "dots", d: parts.join(""), style: `stroke:${colour};stroke-width:${DOT}px;opacity:.8` }));
  }
}

// Dots beside each other where they would overlap.
function swarm(points, half) {
  const columns = new Map();
  for (const point of points) {
    const key = Math.round(point.x / (DOT * 0.8));
    if (!columns.has(key)) columns.set(key, []);
    columns.get(key).push(point);
  }
  for (const column of columns.values()) {
    const step = Math.min(DOT * 0.8, (2 * half) / column.length);
    column.forEach((point, i) => { point.y += (i % 2 ? -1 : 1) * Math.ceil(i / 2) * step; });
  }
  return points;
}

function beeswarm(features, rows, text) {
  return chart(text, (root, width) => {
    const left = labelWidth(width), band = 36, n = rows.length;
    const all = features.flatMap((f) => Array.from({ length: n }, (_, i) => rows.phi(i, f)));
    const [low, high] = extent([...all, 0]), x = scale(low, high, left + 8, width - 12);
    root.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: features.length * band }));
    const names = told(features.map(nameOf), left - 6, TEXT);
    features.forEach((feature, place) => {
      const y = place * band + band / 2;
      root.append(barLabel(names[place], { name: nameOf(feature) }, left + 3, y + 4));
      const values = Array.from({ length: n }, (_, i) => rows.value(i, feature)), rank = data.features[feature].categories ? () => NaN : ranker(values);
      const points = values.map((value, i) => ({ x: x(rows.phi(i, feature)), y, share: rank(value) }));
      dots(root, swarm(points, band / 2 - 3));
    });
    axis(root, x, low, high, features.length * band, width - left, say("effect on", { what: explainedName() }), effectAxis());
    return features.length * band + AXIS;
  });
}

// Categories have no order: each of the most frequent ones has a colour of its own.
function shadesOf(feature, values) {
  const counts = new Map();
  for (const value of values) if (!Number.isNaN(value)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, SHADES.length).map(([value]) => value);
  return new Map(most.map((value, i) => [value, SHADES[i]]));
}

function legend(feature) {
  const swatch = (colour, text) => [" ", el("span", { class: "entry" }, el("span", { class: "swatch", style: `background:${colour}` }), el("bdi", {}, text))];
  if (feature !== undefined && data.features[feature].categories) {
    const shades = shadesOf(feature, Array.from({ length: rows.length }, (_, i) => rows.value(i, feature)));
    const more = Object.keys(data.features[feature].categories).length > shades.size;
    return el("p", { class: "note" }, el("bdi", {}, nameOf(feature)), ":", [...shades].map(([value, colour]) => swatch(colour, valueText(feature, value))), more && swatch("var(--gone)", say("others")));
  }
  const shown = feature === undefined ? data.features : [data.features[feature]];
  const kinds = [shown.some((entry) => entry.missing) && "missing", shown.some((entry) => entry.categories) && "a category"].filter(Boolean), grey = kinds.length > 1 ? say("missing or category") : kinds.length ? say(kinds[0]) : "";
  return el("p", { class: "note" }, swatch(mix(0), say("low")), swatch(mix(1), sayAround(feature === undefined ? "high value" : "high value of", { name: el("bdi", {}, feature === undefined ? "" : nameOf(feature)) })), grey && swatch("var(--gone)", grey));
}

// Places of a feature's values along an axis: numbers as they are, categories by their mean effect, missing values first.
function places(feature, values, effects) {
  const entry = data.features[feature], present = values.filter((v) => !Number.isNaN(v));
  if (entry.categories) {
    const sums = new Map();
    values.forEach((v, i) => { const [sum, n] = sums.get(v) ?? [0, 0]; sums.set(v, [sum + effects[i], n + 1]); });
    const mean = (code) => sums.get(code)[0] / sums.get(code)[1], codes = [...new Set(present)].sort((a, b) => mean(a) - mean(b) || a - b), at = new Map(codes.map((code, i) => [code, i]));
    return { of: (v, i) => (Number.isNaN(v) ? -1 : at.get(v)) + (((i * 7919) % 61) / 61 - 0.5) * 0.5, low: values.length > present.length ? -1.5 : -0.5,
      high: codes.length - 0.5, marks: [...codes.map((code, i) => [i, valueText(feature, code)]), ...(values.length > present.length ? [[-1, say("missing")]] : [])] };
  }
  const [low, high] = extent(present), gap = (high - low) * 0.08, hasMissing = values.length > present.length;
  return { of: (v) => (Number.isNaN(v) ? low - gap : v), low: hasMissing ? low - gap * 1.5 : low, high, marks: null, missing: hasMissing ? low - gap : null };
}

function scatter(feature, colour, rows, text) {
  return chart(text, (root, width) => {
    const values = Array.from({ length: rows.length }, (_, i) => rows.value(i, feature)), phi = values.map((_, i) => rows.phi(i, feature)), place = places(feature, values, phi);
    const [low, high] = extent([...phi, 0]), left = sideRoom(low, high, effectAxis()), names = place.marks?.map(([, name]) => name);
    const isWide = names && (width - left) / (names.length || 1) > widest(names) + 8, bottom = names ? (isWide ? 24 : nameHeight(names)) : AXIS, height = 282 + bottom;
    const x = scale(place.low, place.high, left + 6, width - 10), y = scale(low, high, height - bottom - 6, 8 + NAME);
    root.append(svg("line", { class: "zero", x1: left, x2: width, y1: y(0), y2: y(0) }));
    sideAxis(root, y, low, high, left, say("effect on", { what: explainedName() }), effectAxis());
    if (place.marks) {
      const at = place.marks.map(([mark]) => mark);
      if (isWide) at.forEach((mark, i) => root.append(svg("text", { class: "soft", x: x(mark), y: height - bottom + 16, "text-anchor": "middle" }, names[i])));
      else slanted(root, x, at, names, height - bottom);
    } else {
      axis(root, x, extent(values.filter((v) => !Number.isNaN(v)))[0], place.high, height - bottom, width - left, withUnit(feature));
      if (place.missing !== null) root.append(svg("text", { class: "soft", x: x(place.missing), y: height - bottom + 17, "text-anchor": "middle" }, say("missing")));
    }
    const others = values.map((_, i) => (colour < 0 ? NaN : rows.value(i, colour))), rank = ranker(others);
    const shades = colour >= 0 && data.features[colour].categories ? shadesOf(colour, others) : null;
    const points = values.map((value, i) => ({ x: x(place.of(value, i)), y: y(phi[i]), share: shades ? NaN : rank(others[i]), colour: shades?.get(others[i]) }));
    dots(root, points.filter((point) => !point.colour));
    for (const shade of new Set(points.map((point) => point.colour).filter(Boolean))) dots(root, points.filter((point) => point.colour === shade), 1, shade);
    return height;
  });
}

function dependencePlot(entry, column) {
  // Categories by their means: all whose names have room, or the lowest and the highest ones.
  const means = entry.average[column].map(num), sorted = [...means.keys()].sort((a, b) => (entry.isText ? means[a] - means[b] : a - b));
  const lines = (entry.lines[column] ?? []).map((line) => line.map(num));
  const local = entry.local && { x: entry.local.grid.map(num), y: (entry.local.average[column] ?? entry.local.average[0]).map(num) };
  const text = say("mean prediction by", { name: nameOf(entry.feature), low: fmt(Math.min(...means)), high: fmt(Math.max(...means)) });
  const figure = chart(text, (root, width) => {
    const room = Math.max(4, Math.floor((width - 70) / 21)), end = Math.floor(room / 2), fits = !entry.isText || sorted.length <= room;
    const order = fits ? sorted : [...sorted.slice(0, room - end), ...sorted.slice(-end)], names = entry.isText ? order.map((i) => entry.grid[i]) : null;
    const average = order.map((i) => means[i]), grid = entry.isText ? order.map((_, i) => i) : entry.grid.map(num);
    const bottom = entry.isText ? nameHeight(names) : AXIS, height = 178 + bottom, write = data.isClassifier && data.classes.length ? shareTexts : undefined, band = (entry.band ?? [])[column]?.map((line) => order.map((i) => num(line[i])));
    const [low, high] = extent([...average, ...(local?.y ?? []), ...(band ?? []).flat(), ...(band ? [] : lines.flat())]), span = (grid[grid.length - 1] - grid[0]) / 20, ends = entry.isText ? [-0.5, grid.length - 0.5] : entry.few && span > 0 ? [grid[0] - span, grid[grid.length - 1] + span] : extent(grid), left = sideRoom(low, high, write);
    const x = scale(...ends, left + 4, width - 8), y = scale(low, high, height - bottom - 4, 8 + NAME);
    sideAxis(root, y, low, high, left, responseName(data.classes.length === 2 && entry.average.length === 1 ? 1 : column), write);
    const line = (values, at = grid) => values.map((v, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const clip = `clip-${entry.feature}-${column}`;
    root.append(svg("clipPath", { id: clip }, svg("rect", { x: left, y: NAME + 3, width: width - left, height: height - bottom - NAME - 3 })));
    const isPoints = entry.isText || entry.few;
    if (band && !isPoints) root.append(svg("path", { d: `${line(band[1])}L${line(band[0]).slice(1).split("L").reverse().join("L")}Z`, style: "fill:var(--accent);opacity:.16" }));
    if (band && isPoints) grid.forEach((g, i) => root.append(svg("line", { x1: x(g), x2: x(g), y1: y(band[0][i]), y2: y(band[1][i]), style: "stroke:var(--accent);opacity:.35;stroke-width:6px" })));
    if (!isPoints) for (const values of lines) root.append(svg("path", { d: line(values), "clip-path": `url(#${clip})`, style: "fill:none;stroke:var(--gone);opacity:.22" }));
    if (isPoints) average.forEach((v, i) => root.append(svg("circle", { cx: x(grid[i]), cy: y(v), r: 4.5, fill: "var(--accent)" })));
    else root.append(svg("path", { d: line(average), style: "fill:none;stroke:var(--accent);stroke-width:3px" }));
    if (local && !isPoints) root.append(svg("path", { class: "local", d: line(local.y, local.x) }));
    for (const decile of entry.deciles) if (num(decile) >= ends[0] && num(decile) <= ends[1]) root.append(svg("line", { class: "rug", x1: x(num(decile)), x2: x(num(decile)), y1: height - bottom - 7, y2: height - bottom }));
    if (!fits) {
      root.append(svg("line", { class: "zero", x1: x(room - end - 0.5), x2: x(room - end - 0.5), y1: NAME, y2: height - bottom }));
      root.append(svg("text", { class: "soft", x: (left + width) / 2, y: height + 8, "text-anchor": "middle" }, say("lowest and highest", { low: room - end, high: end, n: sorted.length })));
    }
    if (entry.isText) slanted(root, x, grid, names, height - bottom);
    else axis(root, x, ...ends, height - bottom, width - left, withUnit(entry.feature), tickTexts, entry.few ? grid : []);
    return height + (fits ? 0 : 14);
  }, nameOf(entry.feature) + (entry.of > entry.grid.length ? `: ${say("most frequent", { n: entry.grid.length, of: count(entry.of) })}` : ""));
  figure.append(asTable([nameOf(entry.feature), say("mean prediction")], () => {
    const written = data.isClassifier && data.classes.length ? shareTexts(means) : tickTexts(means), at = entry.isText ? entry.grid : tickTexts(entry.grid.map(num));
    return sorted.map((i) => [at[i], written[i]]);
  }));
  return figure;
}

function lineChart(series, text, xName, yName, options = {}) {
  return chart(text, (root, width) => {
    const height = options.height ?? 220, xs = series.flatMap((s) => s.x), ys = series.flatMap((s) => s.y), clip = `clip-${(state.clips = (state.clips ?? 0) + 1)}`;
    const ends = options.ends ?? extent(xs), [low, high] = options.range ?? extent(ys), left = sideRoom(low, high, options.write);
    const x = scale(...ends, left + 4, width - 10), y = scale(low, high, height - AXIS - 4, 8 + (yName ? NAME : 0));
    sideAxis(root, y, low, high, left, yName, options.write);
    if (options.diagonal) root.append(svg("line", { class: "zero", x1: x(Math.max(low, ends[0])), y1: y(Math.max(low, ends[0])), x2: x(Math.min(high, ends[1])), y2: y(Math.min(high, ends[1])) }));
    if (options.dots) root.append(svg("path", { class: "dots", d: options.dots.map(([a, b]) => `M${x(a).toFixed(1)} ${y(b).toFixed(1)}h0`).join(""), style: "stroke:var(--gone);stroke-width:3px;opacity:.45" }));
    if (options.level !== undefined) root.append(svg("line", { class: "zero", x1: left, x2: width - 10, y1: y(options.level), y2: y(options.level) }));
    root.append(svg("clipPath", { id: clip }, svg("rect", { x: left, y: 8 + (yName ? NAME : 0) - 4, width: width - left, height: height - AXIS - 4 })));
    for (const { x: at, y: values, colour, dotted, error } of series) {
      if (error) at.forEach((v, i) => root.append(svg("line", { "clip-path": `url(#${clip})`, x1: x(v), x2: x(v), y1: y(values[i] - error[i]), y2: y(values[i] + error[i]), style: `stroke:${colour};opacity:.5` })));
      const d = values.map((v, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      root.append(svg("path", { d, "clip-path": `url(#${clip})`, style: `fill:none;stroke:${colour};stroke-width:2px${dotted ? ";stroke-dasharray:2 4" : ""}` }));
      if (at.length < 40 && !options.plain) at.forEach((v, i) => root.append(svg("circle", { cx: x(v), cy: y(values[i]), r: 2.6, fill: colour })));
    }
    axis(root, x, ...ends, height - AXIS, width - left, xName, options.write);
    return height;
  });
}
