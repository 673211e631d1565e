// The sections of the page.
const main = document.getElementById("main"), nav = el("ul");
const sections = [];
function section(id, titles, ...content) {
  const [title, link = title] = [titles].flat();
  sections.push(id);
  nav.append(el("li", {}, el("a", { href: `#${id}` }, link)));
  main.append(el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), content));
}
const note = (...text) => el("p", { class: "note" }, ...text);
const byImportance = () => data.order.slice().sort((a, b) => num(data.importance[b][state.output]) - num(data.importance[a][state.output]));
const choose = (options, value, act) => el("select", { onchange: (event) => act(Number(event.target.value)) },
  options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
// What depends on the chosen output or row is drawn anew.
function following(what, make) {
  const box = el("div");
  for (const name of [what].flat()) listen(name, () => box.replaceChildren(...[make()].flat().filter(Boolean)));
  return box;
}

function header() {
  const dark = () => document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = el("button", { class: "noprint", id: "theme", onclick: () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; } }, say("light or dark"));
  const outputs = data.outputs.length > 1 && el("label", { class: "noprint" }, say("explain"), " ", choose(data.outputs.map((name, k) => [k, name]), state.output, (k) => change("output", k)));
  fill(document.getElementById("head"), {}, [el("h1", {}, data.title), outputs, theme,
    el("p", { class: "lead" }, `${[counted(data.size.trees, "n trees"), counted(data.size.leaves, "n leaves"), counted(data.features.length, "n features")].join(", ")}; ${counted(data.nRows, "n rows")}`)]);
}

// A figure, and smaller what it is of and what to compare it with.
function tile(text, set) {
  const [first, ...rest] = text.split(", ");
  return el("dd", {}, tied(first), el("span", { class: "of" }, tied([set, ...rest].filter(Boolean).map((part) => ` ${part}`).join(","))));
}

function summary() {
  const sets = Object.entries(data.figures), names = Object.keys(sets[sets.length - 1][1]);
  const facts = (name) => sets.map(([set, figures]) => tile(figures[name], set && say(set))).reverse();
  const { drivers, quality, what } = data.sentences, arrow = { 1: "▲", "-1": "▼", 0: "" };
  section("summary", [say("what drives"), say("drivers")],
    drivers.length ? el("ol", { class: "drivers" }, drivers.map((one) => el("li", { class: one.direction > 0 ? "up" : one.direction < 0 ? "down" : "" }, el("span", { class: "arrow", "aria-hidden": "true" }, arrow[one.direction]), el("span", {}, el("bdi", { class: "name" }, one.name), `: ${tied(one.text)}.`))))
      : note(say("no drivers")),
    drivers.length > 0 && note(say("drivers note")),
    quality.length > 0 && el("p", { class: "said" }, tied(quality.join(" "))), el("p", { class: "said" }, tied(what.join(" "))),
    names.length > 0 && el("dl", { class: "cards" }, names.map((name) => el("div", {}, el("dt", {}, name), facts(name)))));
}

const hasTerm = (test) => data.trees.some((tree) => tree.nodes.some((node) => (node.terms ?? []).some(test)));
const isOdds = () => data.trees.some((tree) => tree.isOdds);
function treeSection() {
  if (!data.trees) return;
  const views = data.trees.map(() => null), box = el("div");
  let shown = 0;
  function draw() {
    const view = (views[shown] ??= drawTree(shown));
    box.replaceChildren(view.box);
    if (rows && data.rows.allValues) view.light(path(shown, rows.all(state.row)));
  }
  listen("row", draw);
  listen("output", () => { if (data.outputs.length === data.trees.length) { shown = state.output; draw(); } });
  const names = data.trees.map((tree, i) => [i, data.outputs.length === data.trees.length ? say("tree for", { name: outputName(tree.output) }) : say("tree number", { i })]);
  section("tree", say(data.trees.length > 1 ? "trees" : "tree"),
    el("ul", { class: "legend" }, [[el("span", { class: "key bar" }), say("share of rows")],
      [el("span", { class: "key", style: `background:linear-gradient(90deg, ${mix(0)}, ${mix(1)})` }), say("low to high", { what: data.trees[0].what || (data.target ? say("mean target", { name: data.target }) : say("mean")) })],
      rows && [el("span", { class: "key lit" }), say("path of row")],
      hasTerm(() => true) && [el("span", { class: "key", style: "background:linear-gradient(90deg, var(--low) 50%, var(--high) 50%)" }), say(isOdds() ? "bar of odds" : data.trees.some((tree) => tree.isRate) ? "bar of rate" : "bar of leaf")],
      hasTerm((term) => term.curve) && [el("span", { class: "key curve" }), say("curve of leaf")],
      hasTerm((term) => term.levels.length) && [el("span", { class: "key", style: "background:var(--both)" }), say("bar to both sides")]].filter(Boolean).map((parts) => el("li", {}, parts))),
    data.trees.length > 1 && el("div", { class: "controls" }, el("label", {}, say("show"), " ", choose(names, 0, (i) => { shown = i; draw(); }))), box);
}

function whatIf() {
  if (data.notHeld) {
    section("what-if", say("what if"), note(data.notHeld));
    return;
  }
  const used = new Set(model.feature.filter((f) => f >= 0));
  for (const feature of model.linear ? model.linear.feature : []) used.add(feature);
  const features = data.order.filter((feature) => used.has(feature)), row = data.start.map(num), fields = new Map();
  const answer = el("output", { id: "answer" }), more = el("span", { class: "note", id: "answer-more" });
  function update() {
    const margin = margins(row), found = responses(margin);
    answer.dataset.margins = JSON.stringify(margin);
    answer.dataset.responses = JSON.stringify(found);
    if (found && data.classes.length) {
      const order = isTwo ? [1] : [...found.keys()].sort((a, b) => found[b] - found[a]);
      answer.textContent = order.slice(0, 4).map((k) => `${isTwo ? say("probability of", { name: className(k) }) : className(k)}: ${percent(found[k])}`).join(say("list separator"));
    } else answer.textContent = (found ?? margin).map((v) => fmt(v, 6)).join(say("list separator"));
    const leaves = data.trees ? data.trees.map((_, tree) => { const nodes = path(tree, row); return model.leafOf[nodes[nodes.length - 1]]; }) : [];
    more.textContent = ` ${found ? "" : `(${say("margin")}) `}${leaves.length && leaves.length < 6 ? say("leaf", { leaf: leaves.join(", ") }) : ""}`;
  }
  function put(feature, value) {
    row[feature] = value;
    update();
  }
  function field(feature) {
    const entry = data.features[feature], id = `what-${feature}`;
    const missing = el("input", { type: "checkbox", onchange: () => { put(feature, missing.checked ? NaN : read()); disable(); } });
    let read, set, disable = () => {};
    const box = el("fieldset", { class: "slider", id }, el("legend", {}, nameOf(feature)));
    if (entry.categories) {
      const select = el("select", { "aria-label": nameOf(feature), onchange: () => put(feature, select.value === "" ? NaN : Number(select.value)) },
        Object.entries(entry.categories).map(([code, text]) => el("option", { value: code }, text)), el("option", { value: "" }, say("missing")));
      box.append(select);
      fields.set(feature, (value) => { select.value = Number.isNaN(value) ? "" : String(value); });
      return box;
    }
    const low = num(entry.low), high = num(entry.high), decimals = entry.whole ? 0 : decimalsOf(feature);
    const slider = el("input", { type: "range", min: low, max: high, step: entry.whole ? 1 : "any", "aria-label": nameOf(feature), oninput: () => { write(Number(Number(slider.value).toFixed(decimals))); put(feature, read()); } });
    const number = el("input", { type: "number", step: "any", "aria-label": say("exact", { name: nameOf(feature) }), oninput: () => { widen(); if (number.value !== "") { slider.value = number.value; put(feature, read()); } } });
    read = () => Number(number.value);
    // As wide as its longest value so far: a field that shrank would move the slider under the pointer.
    let letters = Math.max(low.toFixed(decimals).length, high.toFixed(decimals).length);
    const widen = () => { letters = Math.max(letters, number.value.length); number.style.width = `max(8.5rem, ${letters}ch + 2.9rem)`; };
    const write = (value) => { number.value = value; widen(); };
    disable = () => { slider.disabled = number.disabled = missing.checked; };
    set = (value) => {
      missing.checked = Number.isNaN(value);
      if (!missing.checked) { slider.value = value; write(value); }
      else if (number.value === "") write(low);
      disable();
    };
    fields.set(feature, set);
    box.append(slider, number, el("label", {}, missing, " ", say("missing")));
    return box;
  }
  const first = el("div", { class: "sliders" }, features.slice(0, 12).map(field)), rest = features.slice(12);
  function start(values) {
    values.forEach((value, feature) => { row[feature] = value; fields.get(feature)?.(value); });
    update();
  }
  const from = el("div", { class: "controls" }, el("button", { onclick: () => start(data.start.map(num)) }, say("from typical")),
    rows && data.rows.allValues && el("button", { id: "from-row", onclick: () => start(rows.all(state.row)) }, say("from chosen")));
  section("what-if", say("what if"), note(say("what if note")),
    el("div", { class: "answer", "aria-live": "polite" }, say("what if prediction"), " ", answer, more), from, first,
    rest.length > 0 && el("details", {}, el("summary", {}, counted(rest.length, "n more features")), el("div", { class: "sliders" }, rest.map(field))));
  start(data.start.map(num));
  window.glasswood = { predict: (values) => responses(margins(values.map(num))) ?? margins(values.map(num)), row };
}

// Whose values stand for features that are not known.
const against = () => (data.nBackground ? say("compared with", { n: data.nBackground }) : "");

function importanceSection() {
  const entries = () => byImportance().map((f) => ({ name: nameOf(f), value: num(data.importance[f][state.output]) }));
  const left = following("output", () => {
    const list = entries();
    return [bars(list, say("features move", { n: count(data.nExplained), list: listed(list.slice(0, 5).map((e) => `${e.name} ${fmt(e.value, 3)}`)) }), 20, effectTexts),
      asTable([say("feature"), say("average size of φ")], () => list.map((e) => [e.name, fmt(e.value)]))];
  });
  const right = rows && following("output", () => {
    const features = byImportance().filter((f) => held.place.has(f)).slice(0, 12);
    return [beeswarm(features, rows, say("beeswarm", { n: rows.length })), legend()];
  });
  section("features", say("features"), note(say("features note", { what: explainedName(), n: count(data.nExplained), against: against() }), " ", rows ? say("each dot", { n: count(rows.length) }) : ""), el("div", { class: "two" }, el("div", {}, el("h3", {}, say("average size")), left), rows && el("div", {}, el("h3", {}, say("effects in rows")), right)));
}

function scatterSection() {
  if (!rows) return;
  let feature = rows.features[0], colour = null;
  const box = el("div"), options = () => rows.features.map((f) => [f, nameOf(f)]);
  const partner = () => { const found = data.partners[feature]; return held.place.has(found) ? found : rows.features.find((f) => f !== feature) ?? -1; };
  const colours = el("span");
  function draw() {
    const by = colour ?? partner();
    colours.replaceChildren(el("label", {}, say("coloured by"), " ", choose(options(), by, (f) => { colour = f; draw(); })));
    box.replaceChildren(scatter(feature, by, rows, say("scatter of", { name: nameOf(feature), other: by < 0 ? say("none") : nameOf(by) })), by >= 0 ? legend(by) : "");
  }
  section("scatter", say("one feature"), note(say("scatter note")),
    el("div", { class: "controls" }, el("label", {}, say("feature label"), " ", choose(options(), feature, (f) => { feature = f; colour = null; draw(); })), colours), box);
  listen("output", draw);
}

function pairsSection() {
  if (!data.pairs.length) return;
  const named = (p, more) => ({ names: [nameOf(p.first), nameOf(p.second)], name: `${nameOf(p.first)} × ${nameOf(p.second)}`, ...more });
  const entries = data.pairs.map((p) => named(p, { value: num(p.strength) })), first = (list) => listed(list.slice(0, 3).map((e) => `${e.name} ${fmt(e.value, 3)}`));
  const joint = data.joint.length > 0 && following("output", () => {
    const list = data.joint.map((p) => { const h = num(p.h[Math.min(state.output, p.h.length - 1)]); return named(p, { value: num(p.size[Math.min(state.output, p.h.length - 1)]), h, more: `${say("list separator")}H ${local(h.toFixed(2))}` }); });
    return [bars(list, say("largest joint", { list: first(list) }), 20, data.isClassifier && data.classes.length ? percents : undefined), asTable([say("pair"), say("joint effect"), "H"], () => list.map((e) => [e.name, fmt(e.value), fmt(e.h, 3)]))];
  });
  section("pairs", say("pairs"), note(say("pairs note", { n: count(data.pairRows) }), " ", joint && say("joint note")),
    el("div", { class: "two" }, el("div", {}, el("h3", {}, say("interactions")), bars(entries, say("strongest", { list: first(entries) }), 20, effectTexts), asTable([say("pair"), say("mean magnitude")], () => entries.map((e) => [e.name, fmt(e.value)]))),
      joint && el("div", {}, el("h3", {}, say("joint effects")), joint)));
}

function dependenceSection() {
  if (!data.dependence.length) return;
  const n = data.dependence[0].average.length, second = n === 2 && !data.outputs.length;
  const column = () => (second ? 1 : Math.min(n - 1, state.output));
  section("dependence", say("partial dependence"), el("ul", { class: "legend" }, [[el("span", { class: "key", style: "background:var(--accent)" }), say("mean if all", { n: count(data.dependence[0].rows) })],
      data.dependence.some((entry) => entry.local) && [el("span", { class: "key local" }), say("local effects")],
      data.dependence[0].band.length > 0 && [el("span", { class: "key", style: "background:var(--accent);opacity:.25" }), say("middle of rows")],
      rows && [el("span", { class: "key", style: "background:var(--gone);opacity:.4" }), say("single rows")], [el("span", { class: "key rugs" }), say("deciles")]].filter(Boolean).map((parts) => el("li", {}, parts))),
    following("output", () => el("div", { class: "grid" }, data.dependence.map((entry) => dependencePlot(entry, column())))));
}

function changeSection() {
  const found = data.change;
  if (!found) return;
  const explained = say(`changed ${found.explained}`), signed = (value) => `${value > 0 ? "+" : ""}${fmt(value, 3)}`;
  section("change", say("what changed"), following("output", () => {
    const k = Math.min(state.output, found.features.length - 1), [before, after] = [num(found.before[k]), num(found.after[k])];
    const list = found.features[k].map((e) => ({ name: e.feature, value: num(e.change), error: num(e.standard_error), shift: num(e.shift), moved: num(e.shift_error) }));
    const top = list.slice(0, 15), leading = listed(top.slice(0, 3).map((e) => `${e.name} ${signed(e.value)}`));
    return [note(say("change note", { what: explained, before: fmt(before, 4), earlier: count(found.rows[0]), after: fmt(after, 4), n: count(found.rows[1]), change: signed(after - before) })),
      el("div", { class: "two" }, el("div", {}, el("h3", {}, say("change by feature")), signedBars(top, say("changes", { what: explained, list: leading }), say("change of mean", { what: explained }))),
        el("div", {}, el("h3", {}, say("shift of feature")), bars(top.map((e) => ({ name: e.name, value: e.shift })), say("shifts", { list: listed(top.slice(0, 3).map((e) => `${e.name} ${fmt(e.shift, 2)}`)) })))),
      asTable([say("feature"), say("change"), say("standard error"), say("shift"), say("standard error")], () => list.map((e) => [e.name, fmt(e.value), fmt(e.error, 2), fmt(e.shift, 3), fmt(e.moved, 2)])),
      found.left > 0 && note(counted(found.left, "n left out"))];
  }));
}

// Shapley values of the loss: what each feature is worth to the score.
function scoreSection() {
  const found = data.score;
  if (!found) return;
  const percent = (x) => local(`${(100 * x).toFixed(1)} %`), list = found.features.map((e) => ({ name: e.name, value: num(e.value), error: num(e.error), share: num(e.share) }));
  const losses = { squared: say("loss squared"), log_loss: say("loss log_loss"), poisson: say("loss poisson") };
  section("score", [say("score rests on"), say("score link")], note(say("score note", { n: count(found.rows), m: count(found.background), loss: losses[found.loss], baseline: fmt(num(found.baseline), 3), share: percent(num(found.share)) })),
    el("div", { class: "two" }, el("div", {}, signedBars(list.slice(0, 20), say("score bars", { list: listed(list.slice(0, 3).map((e) => `${e.name} ${percent(e.share)}`)) }), say("score axis")),
      asTable([say("feature"), say("score axis"), say("standard error"), say("score share")], () => list.map((e) => [e.name, fmt(e.value), fmt(e.error, 2), percent(e.share)])))));
}

function rowsSection() {
  if (!rows) return;
  section("rows", say("rows title"), note(say("rows note")), el("div", { class: "two" }, rowTable(), following(["row", "output"], () => [waterfall(state.row), spans && spanNote(state.row)])), near && following(["row", "output"], () => similarRows(state.row)));
}

// Other trees that fit as well: how often each split occurs among all, and some of the trees.
function alternativesSection() {
  if (!data.alternatives) return;
  section("alternatives", [say("other trees"), say("other trees link")], note(say("other trees note")), data.curves && note(say("other trees without curves")), data.alternatives.map((one) => {
    const keys = { RMSE: "error RMSE", "log-loss": "error log-loss", deviance: "error deviance" }, write = (error) => say(keys[one.kind], { value: fmt(num(error), 4) }), splits = one.splits.map((split) => ({ ...split, value: num(split.value), more: split.chosen ? ` · ${say("in this tree")}` : "" }));
    return el("div", {}, one.name && el("h3", {}, say("tree for", { name: one.name })),
      note(say(one.trees.length ? "n other trees" : "no other tree", { met: count(one.met), error: write(one.error) })),
      splits.length > 0 && el("div", {}, el("h3", {}, say("share of trees with split")), bars(splits, say("share of trees with split"), splits.length, (values) => values.map(percent)), one.left > 0 && note(counted(one.left, "n splits left out"))),
      one.trees.map((tree) => el("details", { class: "other" }, el("summary", {}, listed([write(tree.error), counted(tree.leaves.length, "n leaves"), ...(tree.features.length ? [say("splits by", { list: listed(tree.features) })] : [])])),
        el("ul", {}, tree.leaves.map(([tests, value]) => el("li", {}, el("span", {}, tests || say("all rows")), ` → ${withMinus(value)}`))))));
  }));
}

function historySection() {
  const found = data.history;
  if (!found) return;
  const colour = ["var(--accent)", "var(--high)", "var(--gone)"], parts = (name) => found[name].map(num);
  section("search", say("search"), el("div", { class: "two" },
    found.sizes.length > 2 && el("div", {}, el("h3", {}, say("error by size")), lineChart([{ x: parts("sizes"), y: parts("least"), colour: colour[0] }], say("error by leaves"), say("leaves"), say("training error"))),
    el("div", {}, el("h3", {}, say("error of best")), lineChart([{ x: parts("generation"), y: parts("rmse"), colour: colour[0] }], say("error by generation"), say("generation"), say("training error"))),
    el("div", {}, el("h3", {}, say("leaves of best")), lineChart([{ x: parts("generation"), y: parts("n_leaves"), colour: colour[0] }, { x: parts("generation"), y: parts("mean_leaves"), colour: colour[2], dotted: true }], say("leaves by generation"), say("generation"), say("leaves")))));
}

function cardSection() {
  section("card", say("card"), Object.entries(data.card).filter(([, facts]) => Object.keys(facts).length).map(([name, facts]) => [el("h3", {}, name),
    el("table", { class: "card" }, el("tbody", {}, Object.entries(facts).map(([key, fact]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, fact)))))]));
}

header();
for (const part of [summary, performanceSection, treeSection, ...(data.curves ? [curvesSection] : []), whatIf, importanceSection, scoreSection, scatterSection, pairsSection, dependenceSection, changeSection, rowsSection, alternativesSection, historySection, cardSection]) part();
document.getElementById("nav").append(nav);
document.documentElement.dataset.ready = "true";
