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
  const theme = el("button", { class: "noprint", id: "theme", onclick: () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; } }, "Light or dark");
  const outputs = data.outputs.length > 1 && el("label", { class: "noprint" }, "Explain ", choose(data.outputs.map((name, k) => [k, name]), state.output, (k) => change("output", k)));
  const facts = data.card.Model;
  fill(document.getElementById("head"), {}, [el("h1", {}, data.title), outputs, theme,
    el("p", { class: "lead" }, `${counted(facts.trees, "tree")}, ${counted(facts.leaves, "leaf", "leaves")}, ${counted(data.features.length, "feature")}; ${data.nRows.toLocaleString("en")} rows`)]);
}

function summary() {
  const sets = Object.entries(data.figures), names = Object.keys(sets[sets.length - 1][1]);
  const facts = (name) => sets.map(([set, figures]) => el("dd", {}, figures[name], set && el("span", { class: "of" }, ` ${set}`))).reverse();
  const { drivers, quality, what } = data.sentences, arrow = { 1: "▲", "-1": "▼", 0: "" };
  section("summary", ["What drives predictions", "Drivers"],
    drivers.length ? el("ol", { class: "drivers" }, drivers.map((one) => el("li", { class: one.direction > 0 ? "up" : one.direction < 0 ? "down" : "" }, el("span", { class: "arrow", "aria-hidden": "true" }, arrow[one.direction]), el("span", {}, el("bdi", { class: "name" }, one.name), `: ${one.text}.`))))
      : note("No feature affects the predictions."),
    drivers.length > 0 && note("On average over the rows, all other values as they are; the most important feature first."),
    quality.length > 0 && el("p", { class: "said" }, quality.join(" ")), el("p", { class: "said" }, what.join(" ")),
    names.length > 0 && el("dl", { class: "cards" }, names.map((name) => el("div", {}, el("dt", {}, name), facts(name)))));
}

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
  const names = data.trees.map((tree, i) => [i, data.outputs.length === data.trees.length ? `tree of ${outputName(tree.output)}` : `tree ${i}`]);
  section("tree", data.trees.length > 1 ? "Trees" : "Tree",
    el("ul", { class: "legend" }, [[el("span", { class: "key bar" }), "share of the rows"],
      [el("span", { class: "key", style: `background:linear-gradient(90deg, ${mix(0)}, ${mix(1)})` }), `${data.trees[0].what === "mean" && data.target ? `mean ${data.target}` : data.trees[0].what}, low to high`],
      rows && [el("span", { class: "key lit" }), "path of the chosen row"],
      data.trees.some((tree) => tree.nodes.some((node) => (node.terms ?? []).some((term) => term.levels.length))) && [el("span", { class: "key", style: "background:var(--both)" }), "categories of a feature: a bar to both sides"]].filter(Boolean).map((parts) => el("li", {}, parts))),
    data.trees.length > 1 && el("div", { class: "controls" }, el("label", {}, "Show ", choose(names, 0, (i) => { shown = i; draw(); }))), box);
}

function whatIf() {
  if (!model) {
    section("what-if", "What if", note(data.notHeld));
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
      answer.textContent = order.slice(0, 4).map((k) => `${isTwo ? "probability of " : ""}${className(k)}: ${percent(found[k])}`).join(", ");
    } else answer.textContent = (found ?? margin).map((v) => fmt(v, 6)).join(", ");
    const leaves = data.trees ? data.trees.map((_, tree) => { const nodes = path(tree, row); return model.leafOf[nodes[nodes.length - 1]]; }) : [];
    more.textContent = ` ${found ? "" : "(margin) "}${leaves.length && leaves.length < 6 ? `leaf ${leaves.join(", ")}` : ""}`;
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
        Object.entries(entry.categories).map(([code, text]) => el("option", { value: code }, text)), el("option", { value: "" }, "missing"));
      box.append(select);
      fields.set(feature, (value) => { select.value = Number.isNaN(value) ? "" : String(value); });
      return box;
    }
    const low = num(entry.low), high = num(entry.high), decimals = entry.whole ? 0 : decimalsOf(feature);
    const slider = el("input", { type: "range", min: low, max: high, step: entry.whole ? 1 : "any", "aria-label": nameOf(feature), oninput: () => { write(Number(Number(slider.value).toFixed(decimals))); put(feature, read()); } });
    const number = el("input", { type: "number", step: "any", "aria-label": `${nameOf(feature)}, exact`, oninput: () => { widen(); if (number.value !== "") { slider.value = number.value; put(feature, read()); } } });
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
    box.append(slider, number, el("label", {}, missing, " missing"));
    return box;
  }
  const first = el("div", { class: "sliders" }, features.slice(0, 12).map(field)), rest = features.slice(12);
  function start(values) {
    values.forEach((value, feature) => { row[feature] = value; fields.get(feature)?.(value); });
    update();
  }
  const from = el("div", { class: "controls" }, el("button", { onclick: () => start(data.start.map(num)) }, "Start from a typical row"),
    rows && data.rows.allValues && el("button", { id: "from-row", onclick: () => start(rows.all(state.row)) }, "Start from the chosen row"));
  section("what-if", "What if", note("Change a value to see what the model predicts. The page computes it from the model itself."),
    el("div", { class: "answer", "aria-live": "polite" }, "Prediction: ", answer, more), from, first,
    rest.length > 0 && el("details", {}, el("summary", {}, `${rest.length} more features`), el("div", { class: "sliders" }, rest.map(field))));
  start(data.start.map(num));
  window.glasswood = { predict: (values) => responses(margins(values.map(num))) ?? margins(values.map(num)), row };
}

// Whose values stand for features that are not known.
const against = () => (data.nBackground ? `, compared with ${data.nBackground} background rows` : "");

function importanceSection() {
  const entries = () => byImportance().map((f) => ({ name: nameOf(f), value: num(data.importance[f][state.output]) }));
  const left = following("output", () => {
    const list = entries();
    return [bars(list, `How much features move predictions on average over ${data.nExplained.toLocaleString("en")} rows: ${list.slice(0, 5).map((e) => `${e.name} ${fmt(e.value, 3)}`).join(", ")}`, 20, effectTexts),
      asTable(["feature", "average size of φ"], () => list.map((e) => [e.name, fmt(e.value)]))];
  });
  const right = rows && following("output", () => {
    const features = byImportance().filter((f) => held.place.has(f)).slice(0, 12);
    return [beeswarm(features, rows, `SHAP values of ${rows.length} rows by feature; colour is the feature's value`), legend()];
  });
  section("features", "Features", note(`How much each feature moves a row's ${explainedName()}, up or down, on average over ${data.nExplained.toLocaleString("en")} rows (SHAP values φ${against()}). `, rows ? `Each dot is one of ${rows.length.toLocaleString("en")} rows.` : ""), el("div", { class: "two" }, el("div", {}, el("h3", {}, "Average size of the effect"), left), rows && el("div", {}, el("h3", {}, "Effects in single rows"), right)));
}

function scatterSection() {
  if (!rows) return;
  let feature = rows.features[0], colour = null;
  const box = el("div"), options = () => rows.features.map((f) => [f, nameOf(f)]);
  const partner = () => { const found = data.partners[feature]; return held.place.has(found) ? found : rows.features.find((f) => f !== feature) ?? -1; };
  const colours = el("span");
  function draw() {
    const by = colour ?? partner();
    colours.replaceChildren(el("label", {}, "coloured by ", choose(options(), by, (f) => { colour = f; draw(); })));
    box.replaceChildren(scatter(feature, by, rows, `SHAP value of ${nameOf(feature)} against its value, coloured by ${by < 0 ? "nothing" : nameOf(by)}`), by >= 0 ? legend(by) : "");
  }
  section("scatter", "One feature", note("The SHAP values of one feature against its values. The colour shows a second feature, at first the one with the strongest interaction."),
    el("div", { class: "controls" }, el("label", {}, "Feature ", choose(options(), feature, (f) => { feature = f; colour = null; draw(); })), colours), box);
  listen("output", draw);
}

function pairsSection() {
  if (!data.pairs.length) return;
  const named = (p, more) => ({ names: [nameOf(p.first), nameOf(p.second)], name: `${nameOf(p.first)} × ${nameOf(p.second)}`, ...more });
  const entries = data.pairs.map((p) => named(p, { value: num(p.strength) })), first = (list) => list.slice(0, 3).map((e) => `${e.name} ${fmt(e.value, 3)}`).join(", ");
  const joint = data.joint.length > 0 && following("output", () => {
    const list = data.joint.map((p) => { const h = num(p.h[Math.min(state.output, p.h.length - 1)]); return named(p, { value: num(p.size[Math.min(state.output, p.h.length - 1)]), h, more: `, H ${h.toFixed(2)}` }); });
    return [bars(list, `Largest joint effects: ${first(list)}`, 20, data.isClassifier && data.classes.length ? percents : undefined), asTable(["pair", "joint effect", "H"], () => list.map((e) => [e.name, fmt(e.value), fmt(e.h, 3)]))];
  });
  section("pairs", "Pairs", note(`SHAP interactions: what two features add together beyond what each adds alone, as the mean magnitude over ${data.pairRows.toLocaleString("en")} rows. `, joint && "Joint effects: the standard deviation of the partial dependence on both features minus that on each. Friedman's H compares it with the standard deviation of the whole: 0 where the two effects only add up; it can exceed 1 for correlated features."),
    el("div", { class: "two" }, el("div", {}, el("h3", {}, "SHAP interactions"), bars(entries, `Strongest interactions: ${first(entries)}`, 20, effectTexts), asTable(["pair", "mean magnitude"], () => entries.map((e) => [e.name, fmt(e.value)]))),
      joint && el("div", {}, el("h3", {}, "Joint effects, and Friedman's H"), joint)));
}

function dependenceSection() {
  if (!data.dependence.length) return;
  const count = data.dependence[0].average.length, second = count === 2 && !data.outputs.length;
  const column = () => (second ? 1 : Math.min(count - 1, state.output));
  section("dependence", "Partial dependence", el("ul", { class: "legend" }, [[el("span", { class: "key", style: "background:var(--accent)" }), `mean prediction of ${data.dependence[0].rows.toLocaleString("en")} rows if all had this value`],
      data.dependence.some((entry) => entry.local) && [el("span", { class: "key local" }), "accumulated local effects: rows move only near their own value. The lines differ where features are correlated"],
      data.dependence[0].band.length > 0 && [el("span", { class: "key", style: "background:var(--accent);opacity:.25" }), "middle 80 % of the rows"],
      rows && [el("span", { class: "key", style: "background:var(--gone);opacity:.4" }), "single rows"], [el("span", { class: "key rugs" }), "deciles of the values"]].filter(Boolean).map((parts) => el("li", {}, parts))),
    following("output", () => el("div", { class: "grid" }, data.dependence.map((entry) => dependencePlot(entry, column())))));
}

function changeSection() {
  const found = data.change;
  if (!found) return;
  const count = (n) => n.toLocaleString("en"), signed = (value) => `${value > 0 ? "+" : ""}${fmt(value, 3)}`;
  section("change", "What changed", following("output", () => {
    const k = Math.min(state.output, found.features.length - 1), [before, after] = [num(found.before[k]), num(found.after[k])];
    const list = found.features[k].map((e) => ({ name: e.feature, value: num(e.change), error: num(e.standard_error), shift: num(e.shift), moved: num(e.shift_error) }));
    const top = list.slice(0, 15), leading = top.slice(0, 3).map((e) => `${e.name} ${signed(e.value)}`).join(", ");
    return [note(`The mean ${found.explained} changed from ${fmt(before, 4)} over ${count(found.rows[0])} earlier rows to ${fmt(after, 4)} over ${count(found.rows[1])} rows. Bars: what each feature adds to this change of ${signed(after - before)}, with two standard errors. All features together add up to it. Shift: how far the feature's own distribution moved, from 0 to 1.`),
      el("div", { class: "two" }, el("div", {}, el("h3", {}, "Change by feature"), signedBars(top, `Change of the mean ${found.explained} by feature: ${leading}`, `change of the mean ${found.explained}`)),
        el("div", {}, el("h3", {}, "Shift of the feature"), bars(top.map((e) => ({ name: e.name, value: e.shift })), `Shift of each feature's distribution: ${top.slice(0, 3).map((e) => `${e.name} ${fmt(e.shift, 2)}`).join(", ")}`))),
      asTable(["feature", "change", "standard error", "shift", "standard error"], () => list.map((e) => [e.name, fmt(e.value), fmt(e.error, 2), fmt(e.shift, 3), fmt(e.moved, 2)])),
      found.left > 0 && note(`${count(found.left)} weaker features are left out.`)];
  }));
}

function rowsSection() {
  if (!rows) return;
  section("rows", "Rows", note("Choose a row to see how its prediction comes about: from the expected value at the top, feature by feature, to the prediction at the bottom."), el("div", { class: "two" }, rowTable(), following(["row", "output"], () => [waterfall(state.row), spans && spanNote(state.row)])), near && following(["row", "output"], () => similarRows(state.row)));
}

function historySection() {
  const found = data.history;
  if (!found) return;
  const colour = ["var(--accent)", "var(--high)", "var(--gone)"], parts = (name) => found[name].map(num);
  section("search", "Search", el("div", { class: "two" },
    found.sizes.length > 2 && el("div", {}, el("h3", {}, "Lowest training error by size"), lineChart([{ x: parts("sizes"), y: parts("least"), colour: colour[0] }], "Lowest training error by number of leaves", "leaves", "training error (RMSE)")),
    el("div", {}, el("h3", {}, "Training error of the best tree"), lineChart([{ x: parts("generation"), y: parts("rmse"), colour: colour[0] }], "Training error of the best tree by generation", "generation", "training error (RMSE)")),
    el("div", {}, el("h3", {}, "Leaves of the best tree, and mean of all trees (dotted)"), lineChart([{ x: parts("generation"), y: parts("n_leaves"), colour: colour[0] }, { x: parts("generation"), y: parts("mean_leaves"), colour: colour[2], dotted: true }], "Leaves by generation", "generation", "leaves"))));
}

function cardSection() {
  section("card", "Model card", Object.entries(data.card).filter(([, facts]) => Object.keys(facts).length).map(([name, facts]) => [el("h3", {}, name),
    el("table", { class: "card" }, el("tbody", {}, Object.entries(facts).map(([key, fact]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, fact)))))]));
}

header();
for (const part of [summary, performanceSection, treeSection, whatIf, importanceSection, scatterSection, pairsSection, dependenceSection, changeSection, rowsSection, historySection, cardSection]) part();
document.getElementById("nav").append(nav);
document.documentElement.dataset.ready = "true";
