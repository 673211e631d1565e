// Bars, beeswarm, scatter, lines.
const DOT = 3.4;

function axis(root, x, low, high, y, width, count) {
  for (const tick of ticks(low, high, count ?? Math.max(2, Math.floor(width / 110)))) {
    root.append(svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: y, y2: y + 4 }));
    root.append(svg("text", { class: "soft", x: x(tick), y: y + 17, "text-anchor": "middle" }, fmt(tick)));
  }
}
const labelWidth = (width) => Math.min(190, Math.max(90, Math.floor(width * 0.3)));

function bars(entries, text, most = 20) {
  const shown = entries.slice(0, most), largest = Math.max(...shown.map((e) => e.value), 1e-300);
  return chart(text, (root, width) => {
    const left = shown[0]?.names ? Math.min(230, Math.floor(width * 0.48)) : labelWidth(width), x = scale(0, largest, left, width - 62), row = 23;
    shown.forEach((entry, i) => {
      const y = i * row;
      root.append(label(entry.names ?? entry.name, Math.floor(left / 7.2), { x: left - 7, y: y + 15, "text-anchor": "end" }));
      root.append(svg("rect", { x: left, y: y + 4, width: Math.max(1, x(entry.value) - left), height: 15, rx: 2, fill: "var(--accent)" }));
      root.append(svg("text", { class: "soft", x: x(entry.value) + 6, y: y + 16 }, fmt(entry.value, 3)));
    });
    return shown.length * row + 4;
  });
}

// Dots of one colour are one path: thousands of rows stay quick.
function dots(root, points, shades = 24) {
  const buckets = new Map();
  for (const { x, y, share } of points) {
    const key = Number.isNaN(share) ? "none" : Math.round(share * (shades - 1));
    if (!buckets.has(key)) buckets.set(key, []);
    buckets.get(key).push(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
  }
  for (const [key, parts] of [...buckets].sort((a, b) => (a[0] === "none" ? -1 : b[0] === "none" ? 1 : a[0] - b[0]))) {
    const colour = key === "none" ? "var(--gone)" : mix(key / (shades - 1));
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
    features.forEach((feature, place) => {
      const y = place * band + band / 2;
      root.append(label(nameOf(feature), Math.floor(left / 7.2), { x: left - 4, y: y + 4, "text-anchor": "end" }));
      const values = Array.from({ length: n }, (_, i) => rows.value(i, feature)), rank = ranker(values);
      const points = values.map((value, i) => ({ x: x(rows.phi(i, feature)), y, share: rank(value) }));
      dots(root, swarm(points, band / 2 - 3));
    });
    axis(root, x, low, high, features.length * band, width - left);
    return features.length * band + 24;
  });
}

function legend(feature) {
  const texts = feature !== undefined && data.features[feature].categories;
  const ends = texts ? ["first category", "last"] : ["low", "high"];
  return el("p", { class: "note" }, el("span", { class: "swatch", style: `background:${mix(0)}` }), `${ends[0]} `,
    el("span", { class: "swatch", style: `background:${mix(1)};margin-left:.7em` }), `${ends[1]} value of `, el("bdi", {}, feature === undefined ? "the feature" : nameOf(feature)),
    (feature === undefined ? data.features.some((entry) => entry.missing) : data.features[feature].missing)
      && [el("span", { class: "swatch", style: "background:var(--gone);margin-left:.7em" }), "missing"]);
}

// Places of a feature's values along an axis: numbers as they are, categories side by side, missing values first.
function places(feature, values) {
  const entry = data.features[feature], present = values.filter((v) => !Number.isNaN(v));
  if (entry.categories) {
    const codes = [...new Set(present)].sort((a, b) => a - b), at = new Map(codes.map((code, i) => [code, i]));
    return { of: (v, i) => (Number.isNaN(v) ? -1 : at.get(v)) + (((i * 7919) % 61) / 61 - 0.5) * 0.5, low: values.length > present.length ? -1.5 : -0.5,
      high: codes.length - 0.5, marks: [...codes.map((code, i) => [i, valueText(feature, code)]), ...(values.length > present.length ? [[-1, "missing"]] : [])] };
  }
  const [low, high] = extent(present), gap = (high - low) * 0.08, hasMissing = values.length > present.length;
  return { of: (v) => (Number.isNaN(v) ? low - gap : v), low: hasMissing ? low - gap * 1.5 : low, high, marks: null, missing: hasMissing ? low - gap : null };
}

function scatter(feature, colour, rows, text) {
  return chart(text, (root, width) => {
    const height = 300, left = 46, bottom = data.features[feature].categories ? 62 : 26;
    const values = Array.from({ length: rows.length }, (_, i) => rows.value(i, feature)), place = places(feature, values);
    const phi = values.map((_, i) => rows.phi(i, feature)), [low, high] = extent([...phi, 0]);
    const x = scale(place.low, place.high, left + 6, width - 10), y = scale(low, high, height - bottom - 6, 8);
    root.append(svg("line", { class: "zero", x1: left, x2: width, y1: y(0), y2: y(0) }));
    for (const tick of ticks(low, high, 6)) root.append(svg("text", { class: "soft", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, fmt(tick)));
    if (place.marks) {
      const each = (width - left) / (place.marks.length || 1);
      for (const [at, name] of place.marks) root.append(label(name, 12, { class: "soft", transform: `translate(${x(at)} ${height - bottom + 14}) ${each < 70 ? "rotate(-40)" : ""}`, "text-anchor": each < 70 ? "end" : "middle" }));
    } else {
      axis(root, x, extent(values.filter((v) => !Number.isNaN(v)))[0], place.high, height - bottom, width - left);
      if (place.missing !== null) root.append(svg("text", { class: "soft", x: x(place.missing), y: 12, "text-anchor": "middle" }, "missing"));
    }
    const others = values.map((_, i) => (colour < 0 ? NaN : rows.value(i, colour))), rank = ranker(others);
    dots(root, values.map((value, i) => ({ x: x(place.of(value, i)), y: y(phi[i]), share: rank(others[i]) })));
    return height;
  });
}

function dependencePlot(entry, column) {
  const average = entry.average[column].map(num), lines = (entry.lines[column] ?? []).map((line) => line.map(num));
  const grid = entry.isText ? entry.grid.map((_, i) => i) : entry.grid.map(num);
  const text = `Mean prediction by ${nameOf(entry.feature)}: from ${fmt(Math.min(...average))} to ${fmt(Math.max(...average))}`;
  const figure = chart(text, (root, width) => {
    const height = 190, left = 46, bottom = entry.isText ? 58 : 24;
    const [low, high] = extent([...average, ...lines.flat()]), ends = entry.isText ? [-0.5, grid.length - 0.5] : extent(grid);
    const x = scale(...ends, left + 4, width - 8), y = scale(low, high, height - bottom - 4, 6);
    for (const tick of ticks(low, high, 4)) root.append(svg("text", { class: "soft", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, fmt(tick, 3)));
    const line = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(grid[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    for (const values of lines) root.append(svg("path", { d: line(values), style: "fill:none;stroke:var(--gone);opacity:.3" }));
    if (entry.isText) average.forEach((v, i) => root.append(svg("circle", { cx: x(i), cy: y(v), r: 4.5, fill: "var(--accent)" })));
    else root.append(svg("path", { d: line(average), style: "fill:none;stroke:var(--accent);stroke-width:3px" }));
    for (const decile of entry.deciles) root.append(svg("line", { class: "axis", x1: x(num(decile)), x2: x(num(decile)), y1: height - bottom - 6, y2: height - bottom }));
    if (entry.isText) entry.grid.forEach((name, i) => root.append(label(name, 12, { class: "soft", transform: `translate(${x(i)} ${height - bottom + 14}) rotate(-35)`, "text-anchor": "end" })));
    else axis(root, x, ...ends, height - bottom, width - left);
    return height;
  }, nameOf(entry.feature));
  figure.append(asTable([nameOf(entry.feature), "mean prediction"], () => average.map((v, i) => [entry.isText ? entry.grid[i] : fmt(grid[i]), fmt(v)])));
  return figure;
}

function lineChart(series, text, xName) {
  return chart(text, (root, width) => {
    const height = 210, left = 52, xs = series.flatMap((s) => s.x), ys = series.flatMap((s) => s.y);
    const ends = extent(xs), [low, high] = extent(ys);
    const x = scale(...ends, left + 4, width - 10), y = scale(low, high, height - 44, 8);
    for (const tick of ticks(low, high, 5)) root.append(svg("text", { class: "soft", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, fmt(tick, 3)));
    for (const { x: at, y: values, colour, dotted } of series) {
      const d = values.map((v, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      root.append(svg("path", { d, style: `fill:none;stroke:${colour};stroke-width:2px${dotted ? ";stroke-dasharray:2 4" : ""}` }));
      if (at.length < 40) at.forEach((v, i) => root.append(svg("circle", { cx: x(v), cy: y(values[i]), r: 2.6, fill: colour })));
    }
    axis(root, x, ...ends, height - 40, width - left);
    root.append(svg("text", { class: "soft", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, xName));
    return height;
  });
}
