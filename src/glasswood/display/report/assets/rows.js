// Single rows: a table to look them up, and what made their prediction.
const held = data.rows && {
  index: data.rows.index,
  values: unpack(data.rows.values),
  phis: unpack(data.rows.phi),
  errors: data.rows.errors && unpack(data.rows.errors),
  ends: unpack(data.rows.ends),
  responses: unpack(data.rows.responses),
  y: unpack(data.rows.y),
  place: new Map(data.rows.features.map((feature, i) => [feature, i])),
};
const rows = held && {
  length: held.index.length,
  features: data.rows.features,
  value: (i, feature) => held.values.at(i, data.rows.allValues ? feature : held.place.get(feature)),
  phi: (i, feature) => held.phis.at(i, held.place.get(feature), state.output),
  error: (i, feature) => (held.errors ? held.errors.at(i, held.place.get(feature), state.output) * data.rows.errorUnit : NaN),
  end: (i) => held.ends.at(i, state.output),
  all: (i) => data.features.map((_, feature) => held.values.at(i, feature)),
};

// Of two classes the second one is the event: rows show its probability.
const isTwo = data.isClassifier && data.classes.length === 2;
const predictionHead = () => (isTwo ? say("probability of", { name: className(1) }) : say("prediction"));
const nResponses = () => data.rows.responses.shape[1];
function best(i) {
  let most = 0;
  for (let k = 1; k < nResponses(); k++) if (held.responses.at(i, k) > held.responses.at(i, most)) most = k;
  return most;
}
function predictionParts(i) {
  if (isTwo) return [percent(held.responses.at(i, 1)), ""];
  if (data.isClassifier && data.classes.length) return [data.classes[best(i)], ` (${fmt(held.responses.at(i, best(i)), 3)})`];
  return [fmt(held.responses.at(i, nResponses() > 1 ? state.output : 0), 5)];
}
const predictionText = (i) => predictionParts(i).join("");
// Long names of classes are cut, so that the probability is seen.
function predictionCell(i) {
  const [name, share] = predictionParts(i);
  return share ? [el("span", { class: "cut", title: name }, name), share] : name;
}
// Names of categories are cut where they still differ; the whole name is the title.
const CELL = 100, LETTERS = 14, shortNames = new Map();
function valueCell(feature, value) {
  const texts = data.features[feature].categories, text = valueText(feature, value);
  if (!texts || Number.isNaN(value) || widthOf(text, LETTERS) <= CELL) return text;
  if (!shortNames.has(feature)) {
    const names = Object.values(texts);
    shortNames.set(feature, new Map(told(names, CELL, LETTERS).map((one, i) => [names[i], one])));
  }
  return el("span", { title: text }, shortNames.get(feature).get(text) ?? fitted(text, CELL, LETTERS));
}
// Intervals that hold the targets of nine in ten rows: of new rows, or of rows in the same leaves.
const spans = data.intervals && unpack(data.intervals.ends);
const spanText = (i) => say("from to", { low: fmt(spans.at(i, 0), 4), high: fmt(spans.at(i, 1), 4) });
const targetText = (i) => (data.isClassifier && data.classes.length ? data.classes[held.y.at(i)] : fmt(held.y.at(i), 5));
function miss(i) {
  if (!held.y) return 0;
  return data.isClassifier && data.classes.length ? 1 - held.responses.at(i, held.y.at(i)) : Math.abs(held.responses.at(i, 0) - held.y.at(i));
}

const ORDERS = {
  "by row number": () => 0,
  "largest prediction": (a, b) => rows.end(b) - rows.end(a),
  "smallest prediction": (a, b) => rows.end(a) - rows.end(b),
  "largest error": (a, b) => miss(b) - miss(a),
};
const PAGE = 12;

// The rows in the report that reach the same leaves in most trees.
const near = data.similar && { places: unpack(data.similar.places), shares: unpack(data.similar.similarity) };
function similarRows(i) {
  const found = [];
  for (let k = 0; k < data.similar.places.shape[1]; k++) if (near.places.at(i, k) >= 0) found.push([near.places.at(i, k), near.shares.at(i, k)]);
  const top = rows.features.slice(0, 3), said = [predictionCell(i), ...(held.y ? [targetText(i)] : []), ...top.map((f) => valueCell(f, rows.value(i, f)))];
  const cells = ([row, share]) => [el("button", { "aria-label": say("explain row", { row: held.index[row] }), onclick: () => change("row", row) }, String(held.index[row])),
    `${Math.round(100 * share)} %`, predictionCell(row), ...(held.y ? [targetText(row)] : []), ...top.map((f) => valueCell(f, rows.value(row, f)))];
  const body = table([say("row"), say("same leaves"), predictionHead(), ...(held.y ? [say("target")] : []), ...top.map(nameOf)], [[String(held.index[i]), say("itself"), ...said], ...found.map(cells)]);
  body.querySelector("tbody tr").classList.add("chosen");
  return el("div", { id: "similar" }, el("h3", {}, say("rows like this")), note(say("rows like this note")), body);
}
function spanNote(i) {
  const what = say(data.intervals.kind === "conformal" ? "conformal note" : "middle note");
  return el("p", { class: "note", id: "span" }, el("strong", {}, say("interval", { ends: spanText(i) })), " ", what);
}

function rowTable() {
  const shown = { order: "by row number", text: "", page: 0 }, box = el("div"), top = rows.features.slice(0, 3);
  const hidden = rows.features.filter((f) => !top.includes(f)), searched = hidden.length + top.length, said = el("p", { class: "note", id: "searched" });
  const cells = (i, prediction, more) => [prediction, ...(held.y ? [targetText(i)] : []), ...[...top, ...more].map((f) => valueText(f, rows.value(i, f)))];
  // Rows that hold the text in any column of the file; a column that is not shown and holds it most often is shown too.
  function found() {
    const wanted = shown.text.trim().toLowerCase(), all = [...held.index.keys()], exact = held.index.findIndex((row) => String(row) === wanted), counts = new Map();
    if (!wanted) return [all.sort(ORDERS[shown.order]), []];
    const has = (cell) => cell.toLowerCase().includes(wanted), isNumber = Number.isFinite(Number(plainNumber(wanted)));
    const holds = (i, f) => { const text = valueText(f, rows.value(i, f)); return isNumber && !data.features[f].categories ? plainNumber(text) === plainNumber(wanted) : has(text); };
    const kept = all.filter((i) => {
      const elsewhere = hidden.filter((f) => holds(i, f));
      for (const f of elsewhere) counts.set(f, (counts.get(f) ?? 0) + 1);
      return i === exact || elsewhere.length > 0 || cells(i, predictionText(i), []).some(has);
    }).sort(ORDERS[shown.order]);
    const more = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 1).map(([f]) => f);
    return [exact >= 0 ? [exact, ...kept.filter((i) => i !== exact)] : kept, exact >= 0 ? [] : more];
  }
  function draw() {
    const [those, more] = found(), pages = Math.max(1, Math.ceil(those.length / PAGE));
    shown.page = Math.min(shown.page, pages - 1);
    const part = those.slice(shown.page * PAGE, (shown.page + 1) * PAGE);
    const body = table([say("row"), predictionHead(), ...(held.y ? [say("target")] : []), ...[...top, ...more].map(nameOf)],
      part.map((i) => [el("button", { "aria-label": say("explain row", { row: held.index[i] }), "data-row": i, onclick: () => change("row", i) }, String(held.index[i])), predictionCell(i), ...(held.y ? [targetText(i)] : []), ...[...top, ...more].map((f) => valueCell(f, rows.value(i, f)))]));
    said.textContent = shown.text.trim() ? say(searched === data.features.length ? "searched all" : "searched some", { n: searched, of: data.features.length }) : "";
    body.querySelectorAll("tbody tr").forEach((line, at) => {
      line.classList.toggle("chosen", part[at] === state.row);
      line.addEventListener("click", (event) => { if (event.target.tagName !== "BUTTON") change("row", part[at]); });
    });
    const turn = (step, text) => el("button", { disabled: shown.page + step < 0 || shown.page + step >= pages, onclick: () => { shown.page += step; draw(); } }, text);
    box.replaceChildren(body, el("div", { class: "controls" }, turn(-1, say("previous")), say("page of", { page: shown.page + 1, pages, rows: counted(those.length, "n rows") }), turn(1, say("next"))));
  }
  const search = el("input", { type: "search", placeholder: say("row or value"), oninput: (event) => { shown.text = event.target.value; shown.page = 0; draw(); } });
  const orders = Object.keys(ORDERS).filter((name) => held.y || name !== "largest error");
  const sort = el("select", { onchange: (event) => { shown.order = event.target.value; shown.page = 0; draw(); } }, orders.map((name) => el("option", { value: name }, say(name))));
  for (const what of ["row", "output"]) listen(what, draw);
  return el("div", {}, el("div", { class: "controls" }, el("label", {}, say("find"), " ", search), el("label", {}, say("order by"), " ", sort)), said, box);
}

// What a row's features add; in a model tree, the leaf's equation and the path to the leaf apart.
function contributions(i) {
  const found = rows.features.map((feature) => ({ feature, phi: rows.phi(i, feature), error: rows.error(i, feature), leaf: 0, names: [nameOf(feature), valueText(feature, rows.value(i, feature))] }));
  for (const entry of found) entry.name = entry.names.join(" = ");
  if (hasLeafTerms()) {
    const row = rows.all(i), tree = treeOf(state.output), nodes = path(tree, row), leaf = model.leafOf[nodes[nodes.length - 1]];
    const terms = termsOf(leaf, row), sum = terms.reduce((total, term) => total + term.value, 0), constant = model.leafValue[leaf][0];
    const share = sum ? (leafValue(leaf, row, 0) - constant) / sum : 0;
    for (const term of terms) {
      const entry = found.find((candidate) => candidate.feature === term.feature);
      if (entry) entry.leaf += term.value * share * model.treeWeight[tree];
    }
  }
  const rest = rows.end(i) - num(data.expected[state.output]) - found.reduce((sum, entry) => sum + entry.phi, 0);
  found.sort((a, b) => Math.abs(b.phi) - Math.abs(a.phi));
  const top = found.slice(0, 12), others = found.slice(12), more = others.reduce((sum, entry) => sum + entry.phi, rest);
  const n = others.length + data.features.length - rows.features.length;
  if (n > 0) top.push({ name: counted(n, "n other features"), phi: more, leaf: others.reduce((sum, entry) => sum + entry.leaf, 0) });
  return top;
}
const hasLeafTerms = () => !!(!data.nBackground && model && !data.notHeld && model.linear && rows && data.rows.allValues && model.offsets.length - 1 === model.base.length);
const treeOf = (output) => Math.max(0, model.treeOutput.indexOf(output));

// Log-odds as a probability, where one number decides between two classes.
function asShare(margin) {
  const found = data.isClassifier && !data.isProbability && data.classes.length === 2 && model && !data.outputs.length ? responses([margin]) : null;
  return found && found.length === 2 ? ` (${className(1)}: ${percent(found[1])})` : "";
}

// Where a bar ends: of two classes with the probabilities of both, because the prediction names the likelier one.
function endText(end) {
  const [first, second] = data.classes.map((_, k) => className(k)), one = classShown(), other = one === first ? second : first;
  if (!data.isProbability || data.classes.length !== 2 || ![first, second].includes(one) || end < 0 || end > 1) return `${effectText(end, 5)}${asShare(end)}`;
  return `${short(one, 20)}: ${percent(end)}, ${short(other, 20)}: ${percent(1 - end)}`;
}

// What raised and what lowered the output of a row, in words: explain/results/sentences.py writes the same.
const TOLD = 5, kind = data.scale.kind;
const decimalsFor3 = (largest) => (largest > 0 && largest < Infinity ? Math.max(0, 2 - exponentOf(largest)) : 0);
const sizeOf = (phi) => (kind === "share" ? 100 * phi : kind === "odds" ? data.scale.slope * phi : kind === "percent" ? 100 * Math.expm1(Math.min(phi, 700)) : phi);
function sentencesOf(i) {
  const start = num(data.expected[state.output]), end = rows.end(i), total = sizeOf(end - start);
  const found = rows.features.map((feature) => ({ feature, phi: rows.phi(i, feature) })).sort((a, b) => Math.abs(b.phi) - Math.abs(a.phi));
  const n = data.features.length, most = n === TOLD + 1 && found.length === n ? n : TOLD, decimals = decimalsFor3(Math.max(Math.abs(total), ...found.map((one) => Math.abs(sizeOf(one.phi)))));
  const seen = (size) => Math.abs(size) >= (kind === "odds" ? Math.log(1.005) : 0.5 * 10 ** -decimals), factor = (size) => { const f = Math.exp(Math.min(Math.abs(size), 700)); return f < 10 ? local(f.toFixed(2)) : fmt(f, 3); };
  const amount = (size) => { const number = local(fixed(Math.abs(size), decimals)); return kind === "odds" ? factor(size) : kind === "share" ? say("points", { number }) : kind === "percent" ? say("percent", { number }) : withOwnUnit(number); };
  const share = (value) => { const percents = 100 * value; return local(`${fixed(percents, kind === "odds" ? decimalsFor3(Math.min(percents, 100 - percents)) : decimals)} %`); };
  const value = (x) => (kind === "odds" ? share(expit(data.scale.slope * x)) : kind === "share" ? share(x) : withOwnUnit(kind === "percent" ? fmt(Math.exp(Math.min(x, 700)), 4) : local(fixed(x, decimals))));
  const base = data.nBackground ? say("background", { n: count(data.nBackground), value: value(start) }) : say({ odds: "average log-odds", percent: "average logarithm" }[kind] ?? "average", { value: value(start) });
  const parts = { what: upper(rowOutput()), value: value(end), size: amount(total), factor: local(Math.exp(total) < 1 || Math.exp(total) >= 10 ? plainNumber(fmt(Math.exp(total), 3)) : Math.exp(total).toFixed(2)), base };
  const told = found.slice(0, most).filter((one) => seen(sizeOf(one.phi))), rest = end - start - told.reduce((sum, one) => sum + one.phi, 0), left = n - told.length, others = sizeOf(rest);
  const way = (size, what) => `${what}${what.startsWith("other") ? (size > 0 ? " raise" : " lower") : size > 0 ? "raises" : "lowers"}${kind === "odds" ? " odds" : ""}`;
  const said = [say(kind === "odds" ? "odds" : seen(total) ? (total > 0 ? "above" : "below") : "equal", parts)];
  for (const { feature, phi } of told) said.push(say(way(phi, ""), { feature: `${nameOf(feature)} = ${valueText(feature, rows.value(i, feature))}${data.features[feature].unit && !Number.isNaN(rows.value(i, feature)) ? ` ${data.features[feature].unit}` : ""}`, size: amount(sizeOf(phi)) }));
  if (left && seen(others)) said.push(left === 1 ? upper(say(way(rest, ""), { feature: say("other"), size: amount(others) })) : say(way(rest, "others"), { n: left, size: amount(others) }));
  return said;
}
const withOwnUnit = (text) => (data.unit ? `${text} ${data.unit}` : text);
const upper = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const rowOutput = () => (data.isClassifier && (kind === "share" || kind === "odds") ? ofClass("probability", classShown()) : data.isClassifier ? explainedName() : data.outputs.length ? say("prediction of", { name: outputName(state.output) }) : data.target ? say("prediction of", { name: data.target }) : say("prediction"));

function waterfall(i) {
  const entries = contributions(i), start = num(data.expected[state.output]), end = rows.end(i);
  const text = say("row from to", { row: held.index[i], start: effectText(start), end: effectText(end), list: listed(entries.slice(0, 4).map((e) => `${e.name}: ${signedEffect(e.phi)}`)) });
  const parts = hasLeafTerms();
  const figure = chart(text, (root, width) => {
    const changes = entries.map((entry) => signedEffect(entry.phi, 3)), left = Math.max(labelWidth(width) + 30, Math.floor(0.45 * width)), row = 27;
    const texts = namedValues(entries.filter((entry) => entry.names).map((entry) => entry.names), left - 8), names = entries.map((entry) => (entry.names ? texts.shift() : fitted(entry.name, left - 8, TEXT)));
    let at = start;
    const stops = [start, end];
    for (const entry of entries) stops.push(at + entry.phi - (parts ? entry.leaf : 0), at += entry.phi, at - 2 * (entry.error || 0), at + 2 * (entry.error || 0));
    const [low, high] = extent(stops), x = scale(low, high, left + 6, width - widest(changes) - 8), within = (at, text, size) => Math.max(Math.min(at, width - widthOf(text, size) / 2), widthOf(text, size) / 2);
    const first = `${say("expected", { value: effectText(start) })}${asShare(start)}`, last = endText(end);
    root.append(svg("text", { class: "soft", x: within(x(start), first, SOFT), y: 11, "text-anchor": "middle" }, first));
    at = start;
    entries.forEach((entry, place) => {
      const y = 20 + place * row, way = parts ? entry.phi - entry.leaf : entry.phi, middle = at + way, stop = at + entry.phi;
      root.append(svg("text", { x: left - 6, y: y + 14, "text-anchor": "end" }, names[place], names[place] !== entry.name && svg("title", {}, entry.name)));
      const bar = (from, to, top, height, opacity) => root.append(svg("rect", { x: Math.min(x(from), x(to)), y: y + top, width: Math.max(0.8, Math.abs(x(to) - x(from))), height,
        fill: to < from ? "var(--low)" : "var(--high)", opacity }));
      bar(at, middle, 3, parts ? 8 : 15, 1);
      if (parts) bar(middle, stop, 11, 8, 0.55);
      root.append(svg("line", { class: "zero", x1: x(stop), x2: x(stop), y1: y + 18, y2: y + row + 3 }));
      const most = stop + 2 * (entry.error || 0);
      if (entry.error > 0) root.append(svg("line", { style: "stroke:var(--ink)", x1: x(2 * stop - most), x2: x(most), y1: y + 10.5, y2: y + 10.5 }));
      root.append(svg("text", { class: "soft", x: Math.max(x(at), x(most), x(middle)) + 5, y: y + 15 }, changes[place]));
      at = stop;
    });
    const bottom = 20 + entries.length * row;
    root.append(svg("text", { x: within(x(end), last, 1.1 * TEXT), y: bottom + 14, "text-anchor": "middle", style: "font-weight:700" }, last));
    return bottom + 22;
  }, `${say("row number", { row: held.index[i] })}${data.outputs.length ? `, ${outputName(state.output)}` : ""}: ${predictionHead()} ${predictionText(i)}${held.y ? `, ${say("target")} ${targetText(i)}` : ""}`);
  figure.append(el("ul", { class: "sentences" }, sentencesOf(i).map((text) => el("li", {}, text))));
  if (data.isClassifier) figure.append(el("p", { class: "note" }, say("in unit", { what: explainedName() })));
  if (parts) figure.append(el("p", { class: "note" }, say("two bars")));
  if (held.errors) figure.append(el("p", { class: "note" }, say("background lines", { n: count(data.nBackground) })));
  figure.append(asTable([say("feature"), say("contribution"), ...(parts ? [say("by splits"), say("by equation")] : []), ...(held.errors ? [say("standard error")] : [])],
    () => entries.map((e) => [e.name, signed(e.phi), ...(parts ? [signed(e.phi - e.leaf), signed(e.leaf)] : []), ...(held.errors ? [e.error >= 0 ? fmt(e.error, 2) : ""] : [])])));
  return figure;
}
