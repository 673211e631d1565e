// Single rows: a table to look them up, and what made their prediction.
const held = data.rows && {
  index: data.rows.index,
  values: unpack(data.rows.values),
  phis: unpack(data.rows.phi),
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
  end: (i) => held.ends.at(i, state.output),
  all: (i) => data.features.map((_, feature) => held.values.at(i, feature)),
};

// Of two classes the second one is the event: rows show its probability.
const isTwo = data.isClassifier && data.classes.length === 2;
const predictionHead = () => (isTwo ? `probability of ${className(1)}` : "prediction");
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
const CELL = 112, LETTERS = 15, shortNames = new Map();
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
const spanText = (i) => `${fmt(spans.at(i, 0), 4)} to ${fmt(spans.at(i, 1), 4)}`;
const targetText = (i) => (data.isClassifier && data.classes.length ? data.classes[held.y.at(i)] : fmt(held.y.at(i), 5));
function miss(i) {
  if (!held.y) return 0;
  return data.isClassifier && data.classes.length ? 1 - held.responses.at(i, held.y.at(i)) : Math.abs(held.responses.at(i, 0) - held.y.at(i));
}

const ORDERS = {
  "row number": () => 0,
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
  const cells = ([row, share]) => [el("button", { "aria-label": `Explain row ${held.index[row]}`, onclick: () => change("row", row) }, String(held.index[row])),
    `${Math.round(100 * share)} %`, predictionCell(row), ...(held.y ? [targetText(row)] : []), ...top.map((f) => valueCell(f, rows.value(row, f)))];
  const body = table(["row", "same leaves", predictionHead(), ...(held.y ? ["target"] : []), ...top.map(nameOf)], [[String(held.index[i]), "itself", ...said], ...found.map(cells)]);
  body.querySelector("tbody tr").classList.add("chosen");
  return el("div", { id: "similar" }, el("h3", {}, "Rows like this one"), note("The rows of this report that reach the same leaves as the chosen row in most trees. A tree counts by how much it contributes."), body);
}
function spanNote(i) {
  const what = data.intervals.kind === "conformal" ? "nine in ten new rows are expected within such intervals, which follow from the errors of the test rows." : "the middle 90 % of the targets of rows in the same leaves.";
  return el("p", { class: "note", id: "span" }, el("strong", {}, `90 % interval ${spanText(i)}: `), what);
}

function rowTable() {
  const shown = { order: "row number", text: "", page: 0 }, box = el("div"), top = rows.features.slice(0, 3);
  const hidden = rows.features.filter((f) => !top.includes(f)), searched = hidden.length + top.length, said = el("p", { class: "note", id: "searched" });
  const cells = (i, prediction, more) => [prediction, ...(held.y ? [targetText(i)] : []), ...[...top, ...more].map((f) => valueText(f, rows.value(i, f)))];
  // Rows that hold the text in any column of the file; a column that is not shown and holds it most often is shown too.
  function found() {
    const wanted = shown.text.trim().toLowerCase(), list = [...held.index.keys()], exact = held.index.findIndex((row) => String(row) === wanted), counts = new Map();
    if (!wanted) return [list.sort(ORDERS[shown.order]), []];
    const has = (cell) => cell.toLowerCase().includes(wanted), isNumber = wanted !== "" && Number.isFinite(Number(wanted.replaceAll(",", "")));
    const holds = (i, f) => { const text = valueText(f, rows.value(i, f)); return isNumber && !data.features[f].categories ? text.replaceAll(",", "") === wanted.replaceAll(",", "").replace("-", "−") : has(text); };
    const kept = list.filter((i) => {
      const elsewhere = hidden.filter((f) => holds(i, f));
      for (const f of elsewhere) counts.set(f, (counts.get(f) ?? 0) + 1);
      return i === exact || elsewhere.length > 0 || cells(i, predictionText(i), []).some(has);
    }).sort(ORDERS[shown.order]);
    const more = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 1).map(([f]) => f);
    return [exact >= 0 ? [exact, ...kept.filter((i) => i !== exact)] : kept, exact >= 0 ? [] : more];
  }
  function draw() {
    const [list, more] = found(), pages = Math.max(1, Math.ceil(list.length / PAGE));
    shown.page = Math.min(shown.page, pages - 1);
    const part = list.slice(shown.page * PAGE, (shown.page + 1) * PAGE);
    const body = table(["row", predictionHead(), ...(held.y ? ["target"] : []), ...[...top, ...more].map(nameOf)],
      part.map((i) => [el("button", { "aria-label": `Explain row ${held.index[i]}`, "data-row": i, onclick: () => change("row", i) }, String(held.index[i])), predictionCell(i), ...(held.y ? [targetText(i)] : []), ...[...top, ...more].map((f) => valueCell(f, rows.value(i, f)))]));
    said.textContent = shown.text.trim() ? `Searched: row numbers, predictions and ${searched === data.features.length ? `all ${counted(searched, "feature")}` : `the ${searched} most important of ${data.features.length} features`}.` : "";
    body.querySelectorAll("tbody tr").forEach((line, at) => {
      line.classList.toggle("chosen", part[at] === state.row);
      line.addEventListener("click", (event) => { if (event.target.tagName !== "BUTTON") change("row", part[at]); });
    });
    const turn = (step, text) => el("button", { disabled: shown.page + step < 0 || shown.page + step >= pages, onclick: () => { shown.page += step; draw(); } }, text);
    box.replaceChildren(body, el("div", { class: "controls" }, turn(-1, "Previous"), `page ${shown.page + 1} of ${pages}, ${list.length} rows`, turn(1, "Next")));
  }
  const search = el("input", { type: "search", placeholder: "row number or value", oninput: (event) => { shown.text = event.target.value; shown.page = 0; draw(); } });
  const orders = Object.keys(ORDERS).filter((name) => held.y || name !== "largest error");
  const sort = el("select", { onchange: (event) => { shown.order = event.target.value; shown.page = 0; draw(); } }, orders.map((name) => el("option", {}, name)));
  for (const what of ["row", "output"]) listen(what, draw);
  return el("div", {}, el("div", { class: "controls" }, el("label", {}, "Find ", search), el("label", {}, "Order by ", sort)), said, box);
}

// What a row's features add; in a model tree, the leaf's equation and the path to the leaf apart.
function contributions(i) {
  const found = rows.features.map((feature) => ({ feature, phi: rows.phi(i, feature), leaf: 0, names: [nameOf(feature), valueText(feature, rows.value(i, feature))] }));
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
  if (n > 0) top.push({ name: `${n} other features`, phi: more, leaf: others.reduce((sum, entry) => sum + entry.leaf, 0) });
  return top;
}
const hasLeafTerms = () => !!(!data.nBackground && model && model.linear && rows && data.rows.allValues && model.offsets.length - 1 === model.base.length);
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

function waterfall(i) {
  const entries = contributions(i), start = num(data.expected[state.output]), end = rows.end(i);
  const text = `Row ${held.index[i]}: from the expected value ${effectText(start)} to ${effectText(end)}. ` + entries.slice(0, 4).map((e) => `${e.name}: ${signedEffect(e.phi)}`).join(", ");
  const parts = hasLeafTerms();
  const figure = chart(text, (root, width) => {
    const changes = entries.map((entry) => signedEffect(entry.phi, 3)), left = labelWidth(width) + 30, row = 27;
    let at = start;
    const stops = [start, end];
    for (const entry of entries) stops.push(at + entry.phi - (parts ? entry.leaf : 0), at += entry.phi);
    const [low, high] = extent(stops), x = scale(low, high, left + 6, width - widest(changes) - 8), within = (at, text, size) => Math.max(Math.min(at, width - widthOf(text, size) / 2), widthOf(text, size) / 2);
    const first = `expected ${effectText(start)}${asShare(start)}`, last = endText(end);
    root.append(svg("text", { class: "soft", x: within(x(start), first, SOFT), y: 11, "text-anchor": "middle" }, first));
    at = start;
    entries.forEach((entry, place) => {
      const y = 20 + place * row, way = parts ? entry.phi - entry.leaf : entry.phi, middle = at + way, stop = at + entry.phi;
      root.append(label(entry.names ?? entry.name, left - 8, { x: left - 6, y: y + 14, "text-anchor": "end" }, " = "));
      const bar = (from, to, top, height, opacity) => root.append(svg("rect", { x: Math.min(x(from), x(to)), y: y + top, width: Math.max(0.8, Math.abs(x(to) - x(from))), height,
        fill: to < from ? "var(--low)" : "var(--high)", opacity }));
      bar(at, middle, 3, parts ? 8 : 15, 1);
      if (parts) bar(middle, stop, 11, 8, 0.55);
      root.append(svg("line", { class: "zero", x1: x(stop), x2: x(stop), y1: y + 18, y2: y + row + 3 }));
      root.append(svg("text", { class: "soft", x: Math.max(x(at), x(stop), x(middle)) + 5, y: y + 15 }, changes[place]));
      at = stop;
    });
    const bottom = 20 + entries.length * row;
    root.append(svg("text", { x: within(x(end), last, 1.1 * TEXT), y: bottom + 14, "text-anchor": "middle", style: "font-weight:700" }, last));
    return bottom + 22;
  }, `Row ${held.index[i]}${data.outputs.length ? `, ${outputName(state.output)}` : ""}: ${predictionHead()} ${predictionText(i)}${held.y ? `, target ${targetText(i)}` : ""}`);
  if (data.isClassifier) figure.append(el("p", { class: "note" }, `In ${explainedName()}.`));
  if (parts) figure.append(el("p", { class: "note" }, "Each feature has two bars: the upper one is what the splits on the path to the leaf add, the paler one below is what the leaf's equation adds."));
  figure.append(asTable(["feature", "contribution", ...(parts ? ["by splits", "by the equation"] : [])],
    () => entries.map((e) => [e.name, signed(e.phi), ...(parts ? [signed(e.phi - e.leaf), signed(e.leaf)] : [])])));
  return figure;
}
