// What curves and surfaces add, as pictures.
const FIRST_PARTS = 12, RUGS = 20;
const ofOutput = (part) => part.output === (data.curves.nOutputs === 1 ? 0 : state.output);
const addsTo = () => {
  if (data.isClassifier && data.classes.length) return ofClass("log-odds", data.curves.nOutputs === 1 ? className(1) : className(state.output));
  return data.curves.link === "exp" ? say("logarithm of", { what: predictedName() }) : predictedName();
};
const partName = (part) => part.features.map(nameOf).join(" × ");
// Texts of a side's values: intervals by where they begin, categories by their names.
function sideTexts(feature, side) {
  const edges = side.edges.map(num), written = tickTexts(edges);
  const own = side.codes ? side.codes.map((codes) => listed(codes.map((code) => valueText(feature, code))))
    : edges.length ? [`< ${written[0]}`, ...written.map((text, i) => (i + 1 < written.length ? `${text} – ${written[i + 1]}` : `≥ ${text}`))] : [say("all numbers")];
  return [...own, ...(side.missing ? [say("missing")] : [])];
}

function curvePlot(part, low, high) {
  const [feature] = part.features, [side] = part.sides, adds = part.adds.map(num), errors = part.errors.map((e) => num(e) || 0), texts = sideTexts(feature, side);
  const named = nameOf(feature), text = say("curve adds", { name: named, low: fmt(Math.min(...adds), 3), high: fmt(Math.max(...adds), 3) });
  const figure = chart(text, (root, width) => (side.codes ? categoryCurve : numberCurve)(root, width, { feature, side, adds, errors, texts, rows: part.rows?.map(num), low, high }), named);
  const hasErrors = part.errors.some((e) => !Number.isNaN(num(e)));
  figure.append(asTable([named, say("adds"), ...(hasErrors ? [say("standard error")] : []), ...(part.rows ? [say("training rows n")] : [])],
    () => adds.map((value, i) => [texts[i], fmt(value), ...(hasErrors ? [fmt(errors[i], 2)] : []), ...(part.rows ? [count(num(part.rows[i]))] : [])])));
  return figure;
}

const base = (root, { y, left, width, low, high }) => {
  sideAxis(root, y, low, high, left, addsTo());
  if (low < 0 && high > 0) root.append(svg("line", { class: "zero", x1: left, x2: width, y1: y(0), y2: y(0) }));
};

// Steps with a band of one standard error, and below them how densely the training rows lie.
function numberCurve(root, width, { feature, side, adds, errors, rows, low, high }) {
  const edges = side.edges.map(num), n = edges.length + 1, entry = data.features[feature], span = edges.length > 1 ? edges[n - 2] - edges[0] : Math.abs(edges[0] ?? 1) || 1;
  const inside = (value, other) => (Number.isFinite(value) ? Math.min(Math.max(value, edges[0] - 0.25 * span), edges[n - 2] + 0.25 * span) : other);
  const ends = edges.length ? [Math.min(edges[0] - 0.04 * span, inside(num(entry.low), edges[0])), Math.max(edges[n - 2] + 0.04 * span, inside(num(entry.high), edges[n - 2]))] : [0, 1];
  const height = 190 + AXIS, left = sideRoom(low, high), room = side.missing ? Math.max(46, widthOf(say("missing")) + 12) : 0, x = scale(...ends, left + room + 4, width - 8), floor = height - AXIS, y = scale(low, high, floor - RUGS - 6, 8 + NAME);
  base(root, { y, left, width, low, high });
  const at = [ends[0], ...edges, ends[1]], steps = (values) => values.slice(0, n).map((v, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(v).toFixed(1)}H${x(at[i + 1]).toFixed(1)}`).join("");
  const back = adds.slice(0, n).map((v, i) => `L${x(at[i + 1]).toFixed(1)} ${y(v - errors[i]).toFixed(1)}H${x(at[i]).toFixed(1)}`).reverse().join("");
  root.append(svg("path", { d: `${steps(adds.map((v, i) => v + errors[i]))}${back}Z`, style: "fill:var(--accent);opacity:.22" }));
  root.append(svg("path", { class: "curve", d: steps(adds), style: "fill:none;stroke:var(--accent);stroke-width:2px" }));
  if (rows) {
    // The outer steps are as wide as their rows, which may lie beyond what is drawn.
    const lowest = num(entry.low), highest = num(entry.high), wide = [lowest < at[0] ? lowest : at[0], ...edges, highest > at[n] ? highest : at[n]];
    const density = rows.slice(0, n).map((count, i) => count / Math.max(wide[i + 1] - wide[i], 1e-300)), most = Math.max(...density, 1e-300);
    density.forEach((d, i) => d > 0 && root.append(svg("rect", { class: "density", x: x(at[i]), width: Math.max(0.5, x(at[i + 1]) - x(at[i])), y: floor - Math.max(1, (RUGS * d) / most), height: Math.max(1, (RUGS * d) / most) })));
  }
  if (side.missing) {
    const place = left + room / 2, value = adds[n];
    root.append(svg("line", { x1: place, x2: place, y1: y(value - errors[n]), y2: y(value + errors[n]), style: "stroke:var(--accent);opacity:.35;stroke-width:6px" }));
    root.append(svg("circle", { cx: place, cy: y(value), r: 4, fill: "var(--accent)" }));
    root.append(label(say("missing"), room + 8, { class: "soft", x: place, y: floor + 17, "text-anchor": "middle" }));
  }
  if (edges.length) axis(root, x, ...ends, floor, width - left - room, withUnit(feature));
  return height;
}

// Categories by what they add: all whose names have room, or the lowest and the highest ones.
function categoryCurve(root, width, { feature, adds, errors, rows, texts, low, high }) {
  const sorted = [...adds.keys()].sort((a, b) => adds[a] - adds[b]), room = Math.max(4, Math.floor((width - 70) / 21)), end = Math.floor(room / 2), fits = sorted.length <= room;
  const order = fits ? sorted : [...sorted.slice(0, room - end), ...sorted.slice(-end)], names = order.map((i) => texts[i]), bottom = nameHeight(names), height = 190 + bottom, floor = height - bottom;
  const left = sideRoom(low, high), x = scale(-0.5, order.length - 0.5, left + 4, width - 8), y = scale(low, high, floor - RUGS - 6, 8 + NAME), most = rows ? Math.max(...rows, 1) : 1;
  base(root, { y, left, width, low, high });
  order.forEach((i, at) => {
    if (rows) root.append(svg("rect", { class: "density", x: x(at - 0.3), width: x(at + 0.3) - x(at - 0.3), y: floor - (RUGS * rows[i]) / most, height: (RUGS * rows[i]) / most }));
    root.append(svg("line", { x1: x(at), x2: x(at), y1: y(adds[i] - errors[i]), y2: y(adds[i] + errors[i]), style: "stroke:var(--accent);opacity:.35;stroke-width:6px" }));
    root.append(svg("circle", { cx: x(at), cy: y(adds[i]), r: 4, fill: "var(--accent)" }, svg("title", {}, `${texts[i]}: ${fmt(adds[i], 3)}`)));
  });
  if (!fits) {
    root.append(svg("line", { class: "zero", x1: x(room - end - 0.5), x2: x(room - end - 0.5), y1: NAME, y2: floor }));
    root.append(svg("text", { class: "soft", x: (left + width) / 2, y: height + 8, "text-anchor": "middle" }, say("lowest and highest", { low: room - end, high: end, n: sorted.length })));
  }
  slanted(root, x, [...order.keys()], names, floor);
  return height + (fits ? 0 : 14);
}

// Places along the side of a surface and their texts: edges between intervals, middles of categories.
function sideMarks(feature, side, room) {
  const n = (side.codes ? side.codes.length : side.edges.length + 1) + side.missing, texts = sideTexts(feature, side), written = tickTexts(side.edges.map(num));
  const all = side.codes ? texts.map((text, i) => [i + 0.5, text]) : written.map((text, i) => [i + 1, text]);
  if (side.missing && !side.codes) all.push([n - 0.5, say("missing")]);
  const step = Math.max(1, Math.ceil(all.length / Math.max(2, room)));
  const kept = all.filter((_, i) => i % step === 0), last = all[all.length - 1];
  if (side.missing && !kept.includes(last)) kept.splice(kept.length - 1, 1, last);
  return kept;
}

// Cells of equal size: their edges are quantiles more or less. Colours begin at the paper's, where nothing is added.
const toned = (share) => `color-mix(in oklab, var(--${share < 0 ? "low" : "high"}) ${Math.round(100 * Math.min(1, Math.abs(share)))}%, var(--panel))`;
function surfacePlot(part) {
  const [first, second] = part.features, adds = part.adds.map((line) => line.map(num)), [across, up] = part.features.map((feature, i) => sideTexts(feature, part.sides[i]));
  const all = adds.flat(), most = all.reduce((size, v) => Math.max(size, Math.abs(v)), 1e-300), span = { name: partName(part), low: fmt(Math.min(...all), 3), high: fmt(Math.max(...all), 3) };
  const figure = chart(say("curve adds", span), (root, width) => {
    const n = across.length, m = up.length, marks = sideMarks(second, part.sides[1], 9), names = told(marks.map(([, text]) => text), Math.min(110, width * 0.3)), left = widest(names) + 10, below = sideMarks(first, part.sides[0], Math.floor((width - left) / 24));
    const bottom = nameHeight(below.map(([, text]) => text)), height = NAME + 170 + bottom, x = scale(0, n, left, width - 6), y = scale(0, m, height - bottom, NAME + 6);
    root.append(label(withUnit(second), width, { class: "soft", x: 0, y: 10 }));
    for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) root.append(svg("rect", { class: "cell", x: x(i), y: y(j + 1), width: x(1) - x(0), height: y(0) - y(1), style: `fill:${toned(adds[i][j] / most)}` }, svg("title", {}, `${nameOf(first)} ${across[i]}, ${nameOf(second)} ${up[j]}: ${fmt(adds[i][j], 3)}`)));
    marks.forEach(([at, text], i) => root.append(svg("text", { class: "soft", x: left - 5, y: y(at) + 4, "text-anchor": "end" }, names[i], names[i] !== text && svg("title", {}, text))));
    slanted(root, x, below.map(([at]) => at), below.map(([, text]) => text), height - bottom);
    root.append(label(withUnit(first), width - left, { class: "soft", x: (left + width) / 2, y: height + 8, "text-anchor": "middle" }));
    return height + 14;
  }, partName(part));
  figure.append(el("p", { class: "note" }, el("span", { class: "key", style: `background:linear-gradient(90deg, ${toned(-1)}, ${toned(0)}, ${toned(1)})` }), `${fmt(-most, 3)} … ${signed(most, 3)}`));
  figure.append(asTable([nameOf(first), nameOf(second), say("adds")], () => across.flatMap((a, i) => up.map((b, j) => [a, b, fmt(adds[i][j])]))));
  return figure;
}

function curvesSection() {
  const found = data.curves;
  section("curves", say("curves"), following("output", () => {
    const own = found.parts.filter(ofOutput), curves = own.filter((part) => part.features.length === 1), ends = curves.flatMap((part) => part.adds.flatMap((v, i) => [num(v) - (num(part.errors[i]) || 0), num(v) + (num(part.errors[i]) || 0)]));
    const [low, high] = extent([...ends, 0]), plots = own.map((part) => () => (part.features.length === 1 ? curvePlot(part, low, high) : surfacePlot(part))), rest = plots.slice(FIRST_PARTS);
    const more = rest.length > 0 && el("details", { ontoggle: (event) => { const box = event.target.querySelector(".grid"); if (event.target.open && !box.children.length) box.append(...rest.map((make) => make())); } }, el("summary", {}, counted(rest.length, "n more parts")), el("div", { class: "grid" }));
    return [note(say("curves note", { what: addsTo() }), " ", curves.some((part) => part.rows) && say("curves with errors"), " ", own.length > curves.length && say("surfaces note")),
      own.length ? el("div", { class: "grid" }, plots.slice(0, FIRST_PARTS).map((make) => make())) : note(say("no parts")), more, found.left > 0 && note(counted(found.left, "n parts left out"))];
  }));
}
