// How well the model predicts: of each set of rows a line, training dotted where there are test rows.
const SETS = Object.entries(data.performance);
const setName = (name) => say(`${name || "these"} rows`);
const setWord = (name) => (name ? `${say(name)} ` : "");
const line = (name, curve, of = SETS) => ({ x: curve.x.map(num), y: curve.y.map(num), colour: name === "training" ? "var(--gone)" : "var(--accent)", dotted: name === "training" && of.length > 1 });
const setLegend = () => SETS.length > 1 && el("p", { class: "note" }, SETS.map(([name]) => [el("span", { class: "swatch", style: `background:${line(name, { x: [], y: [] }).colour}` }), `${setName(name)} `]));
const UNIT = { ends: [0, 1], range: [0, 1], write: shareTexts };
// Classes beyond which a confusion matrix has the width of the page.
const MANY = 8;

function unseenNote() {
  if (SETS.length > 1) return setLegend();
  const more = data.hasExposure ? "exposure=exposure, test=(X_test, y_test, exposure_test)" : "test=(X_test, y_test)";
  return el("p", { class: "note" }, say("unseen"), " ", el("code", {}, `glasswood.report(model, X, y, ${more})`));
}

function classBalance() {
  const [, last] = SETS[SETS.length - 1], total = last.counts.reduce((a, b) => a + b, 0);
  return [el("h3", {}, say("classes")), bars(data.classes.map((_, k) => ({ name: className(k), value: last.counts[k] / total })).sort((a, b) => b.value - a.value),
    say("shares of classes", { list: listed(data.classes.map((name, k) => `${name} ${percent(last.counts[k] / total)}`)) }), 20, percents)];
}

// Two classes: what becomes of the rows at a threshold that the reader moves.
function threshold() {
  const [name, last] = SETS[SETS.length - 1], one = last.classes[0], positive = className(one.class), plain = [data.classes[one.class], data.classes[1 - one.class]];
  const cuts = one.cuts.map(num), all = one.positive + one.negative, costs = last.costs && Object.fromEntries(Object.entries(last.costs).map(([key, cost]) => [key, num(cost)]));
  const outcome = (at) => ({ hits: one.hits[at], alarms: one.alarms[at], missed: one.positive - one.hits[at], rest: one.negative - one.alarms[at] });
  const costOf = (at) => { const of = outcome(at); return costs.true_positive * of.hits + costs.false_positive * of.alarms + costs.true_negative * of.rest + costs.false_negative * of.missed; };
  // Begin where it costs least, or else at the share of the event among the rows.
  const nearest = cuts.reduce((best, cut, i) => (Math.abs(cut - one.share) < Math.abs(cuts[best] - one.share) ? i : best), 0);
  const start = costs ? cuts.reduce((best, _, i) => (costOf(i) < costOf(best) ? i : best), 0) : nearest;
  const box = el("div"), slider = el("input", { type: "range", id: "threshold", class: "noprint", min: 0, max: cuts.length - 1, value: start, "aria-label": say("threshold of", { name: positive }), oninput: draw });
  const said = el("output", { id: "threshold-value" });
  function draw() {
    const at = Number(slider.value), { hits, alarms, missed, rest } = outcome(at);
    said.textContent = percent(cuts[at]);
    slider.setAttribute("aria-valuetext", percent(cuts[at]));
    const cell = (n, good) => el("span", { class: good ? "good" : "bad" }, count(n));
    const share = (part, whole) => (whole ? percent(part / whole) : say("none")), precision = hits / (hits + alarms);
    const times = one.share && hits + alarms && one.share < 0.1 ? say("times base rate", { times: fmt(precision / one.share, 2) }) : "";
    box.replaceChildren(table(["", ...plain.map((name) => say("actual", { name }))], [[say("predicted", { name: plain[0] }), cell(hits, true), cell(alarms, false)], [say("predicted", { name: plain[1] }), cell(missed, false), cell(rest, true)]], { class: "confusion" }),
      el("dl", { class: "cards" }, [...(costs ? [[say("cost a row"), fmt(costOf(at) / all, 4)]] : []), [say("precision of", { name: positive }), share(hits, hits + alarms) + times], [say("recall of", { name: positive }), share(hits, one.positive)], [say("rows predicted", { name: positive }), share(hits + alarms, all)]]
        .map(([what, fact]) => el("div", {}, el("dt", {}, what), tile(fact, "")))));
  }
  draw();
  const why = costs ? say("begins at least cost") : say("begins at share", { name: positive });
  return [el("h3", {}, say("confusion matrix", { rows: setName(name) })), el("label", {}, sayAround("predict where", { name: positive, value: said }), " ", slider), note(why), box];
}

function confusion() {
  const [name, last] = SETS[SETS.length - 1];
  const rowsOf = last.matrix.map((counts, k) => [short(data.classes[k], 24), ...counts.map((n, j) => el("span", { class: n ? (j === k ? "good" : "bad") : "" }, count(n)))]);
  return [el("h3", {}, say("confusion matrix", { rows: setName(name) })), table([say("actual and predicted"), ...data.classes.map((text) => short(text, 14))], rowsOf, { class: data.classes.length > MANY ? "confusion many" : "confusion" })];
}

function curvesOf(k) {
  const found = SETS.map(([name, one]) => [name, one.classes.find((entry) => entry.class === k)]).filter(([, entry]) => entry && entry.roc);
  if (!found.length) return note(say("no curves"));
  const series = (what) => found.map(([name, entry]) => ({ ...line(name, entry[what], found), error: entry[what].error?.map(num) })), name = className(k);
  // Calibration where the rows are, precision without the first few rows, whose share jumps.
  const [, last] = found[found.length - 1], points = found.flatMap(([, entry]) => [...entry.calibration.x, ...entry.calibration.y].map(num)), top = Math.min(1, 1.05 * Math.max(...points));
  const zoomed = top < 0.5 ? [0, top] : [0, 1], share = num(last.share);
  const highest = Math.max(...last.pr.x.map(num).map((recall, i) => (recall >= 0.05 ? num(last.pr.y[i]) : 0))), precise = share < 0.1 ? [0, Math.min(1, Math.max(2 * share, 1.2 * highest))] : [0, 1];
  const best = (what) => found.map(([set, entry]) => `${setWord(set)}${local(num(entry[what]).toFixed(3))}`).join(say("list separator"));
  const bestShare = (what) => found.map(([set, entry]) => `${setWord(set)}${percent(num(entry[what]))}`).join(say("list separator"));
  const figure = (title, said, ...parts) => el("div", {}, el("h3", {}, title), note(said), lineChart(...parts));
  return el("div", { class: "four" },
    figure("ROC", `AUC ${best("auc")}`, series("roc"), say("ROC of", { name, auc: best("auc") }), say("false positive rate"), say("true positive rate"), { ...UNIT, diagonal: true, plain: true }),
    figure(say("precision and recall"), say("AP beside base rate", { value: bestShare("averagePrecision"), rate: percent(share) }), series("pr"), say("precision against recall", { name }), say("recall"), say("precision"), { ...UNIT, range: precise, plain: true, level: share }),
    figure(say("calibration"), say("on the line"), series("calibration"), say("share against probability", { name }), say("predicted probability of", { name }), say("share of", { name }), { ends: zoomed, range: zoomed, write: shareTexts, diagonal: true }),
    figure(say("gains"), say("highest first"), series("gains"), say("share found in highest", { name }), say("share of rows"), say("share found", { name }), { ...UNIT, diagonal: true, plain: true }));
}

function residuals() {
  const name = data.target || say("target"), [set, last] = SETS[SETS.length - 1];
  const groups = (one) => ({ x: one.groups.x, y: one.groups.y });
  const ys = SETS.flatMap(([, one]) => [...one.groups.x, ...one.groups.low, ...one.groups.high].map(num)), [low, high] = extent(ys);
  const dots = last.dots && last.dots.x.map((x, i) => [num(x), num(last.dots.y[i])]).filter(([x, y]) => x >= low && x <= high && y >= low && y <= high);
  const against = lineChart(SETS.map(([key, one]) => line(key, groups(one))), say("mean against prediction", { name }), say("predicted", { name }), name, { ends: [low, high], range: [low, high], diagonal: true, dots, height: 280 });
  const counts = last.residuals.counts, edges = last.residuals.edges.map(num), most = Math.max(...counts, 1);
  const histogram = chart(say("residuals from", { low: fmt(edges[0]), high: fmt(edges[edges.length - 1]) }), (root, width) => {
    const height = 280, left = sideRoom(0, most), x = scale(edges[0], edges[edges.length - 1], left + 4, width - 10), y = scale(0, most, height - AXIS, 8 + NAME);
    counts.forEach((n, i) => root.append(svg("rect", { x: x(edges[i]) + 0.5, width: Math.max(0.5, x(edges[i + 1]) - x(edges[i]) - 1), y: y(n), height: height - AXIS - y(n), fill: "var(--accent)", opacity: 0.8 })));
    root.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: NAME, y2: height - AXIS }));
    sideAxis(root, y, 0, most, left, say("rows"));
    axis(root, x, edges[0], edges[edges.length - 1], height - AXIS, width - left, say("minus prediction", { name }));
    return height;
  });
  return el("div", { class: "two" }, el("div", {}, el("h3", {}, say("predicted and actual")), against, note(say("line and dots"))), el("div", {}, el("h3", {}, say("residuals", { rows: setName(set) })), histogram));
}

function performanceSection() {
  if (!SETS.length) return;
  if (!data.performance[SETS[0][0]].matrix) { section("performance", [say("how well"), say("how well link")], unseenNote(), residuals()); return; }
  const one = data.classes.length === 2, known = SETS[0][1].classes.map((entry) => entry.class);
  const box = el("div"), draw = (k) => box.replaceChildren(curvesOf(k));
  draw(known[0]);
  section("performance", [say("how well"), say("how well link")], unseenNote(),
    el("div", { class: data.classes.length > MANY ? "" : "two" }, el("div", {}, one ? threshold() : confusion()), el("div", {}, classBalance())),
    !one && el("div", { class: "controls" }, el("label", {}, say("curves for"), " ", choose(known.map((k) => [k, data.classes[k]]), known[0], draw))), box);
}
