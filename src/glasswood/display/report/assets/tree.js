// Trees of up to eight leaves show their formulas.
const FEW_NODES = 15;
const rowsText = (node) => counted(rowsOf(node), "n rows", fmt(rowsOf(node), 6));
const rowsOf = (node) => num(node.training ?? node.rows); // training rows, where the model counts them and they are others
// A tree as an outline that opens and closes, above it all its nodes as wide as their rows.
function drawTree(tree) {
  const first = model.offsets[tree], nodes = data.trees[tree].nodes, items = new Map();
  const total = Math.max(...nodes.map((node) => rowsOf(node)), 1e-300), means = nodes.map((node) => num(node.mean));
  const [low, high] = extent(means.filter((m) => !Number.isNaN(m))), tint = (mean) => mix((mean - low) / (high - low || 1));
  const meanText = (node) => (Number.isNaN(num(node.mean)) ? say("no rows here") : data.trees[tree].isShare ? percent(num(node.mean)) : say("mean of", { value: fmt(num(node.mean)) }));
  // Bars of all leaves have one scale.
  const bars = nodes.flatMap((node) => (node.terms ?? []).filter((term) => !term.curve)), most = 1.6 * Math.max(0, ...bars.map((term) => Math.abs(num(term.effect))));
  const reach = extent(bars.flatMap(reachOf).map((end) => Math.max(-most, Math.min(most, end))));
  const children = (at) => (model.feature[first + at] < 0 ? [] : [model.left[first + at], model.left[first + at] + 1]);
  const outline = el("ul", { class: "tree", role: "tree", "aria-label": say("tree") }, item(0, say("all rows"), 1, null));

  function item(at, test, level, feature) {
    const node = nodes[at], below = children(at), share = rowsOf(node) / total;
    const facts = listed([rowsText(node), meanText(node), ...(node.error === undefined ? [] : [say(node.isRmse ? "error RMSE" : "error log-loss", { value: fmt(num(node.error), 3) })])]);
    const head = el("div", { class: "node", style: `--share:${(100 * share).toFixed(1)}%` },
      el("span", { class: "sign", "aria-hidden": "true" }, below.length ? "▾" : ""),
      el("span", { class: "test" }, el("span", { class: "swatch", style: `background:${tint(means[at])}` }), isolated(test, feature), node.leaf === undefined ? "" : ` → ${say("leaf", { leaf: node.leaf })}`),
      el("span", { class: "facts" }, facts));
    const inside = el("div", { class: below.length ? "inside" : "inside leaf" }, below.length ? curve(node, first + at, data.trees[tree]) : leafView(node, reach));
    const line = el("li", { role: "treeitem", tabindex: level === 1 ? 0 : -1, "aria-level": level, "aria-expanded": (nodes.length > 1 && !below.length && !(nodes.length <= FEW_NODES && (node.terms ?? []).length)) || (level > 4 && nodes.length > 15) ? "false" : "true", "aria-label": `${test}: ${facts}` }, head, data.trees[tree].isShare && shareBar(num(node.mean)),
      inside, below.length > 0 && el("ul", { role: "group" }, below.map((child, side) => item(child, node.tests[side], level + 1, model.feature[first + at]))));
    head.addEventListener("click", () => { toggle(line); line.focus(); });
    items.set(first + at, line);
    sign(line);
    return line;
  }
  // The name of a feature may be written from right to left; what follows it is not.
  function isolated(test, feature) {
    const name = feature === null ? "" : nameOf(feature);
    return name && test.startsWith(name) ? [el("bdi", {}, name), test.slice(name.length)] : test;
  }
  function shareBar(share) {
    return el("div", { class: "share", "aria-hidden": "true" }, el("span", { style: `width:${(100 * (share || 0)).toFixed(1)}%` }));
  }
  function sign(line) {
    const open = line.getAttribute("aria-expanded") === "true", mark = line.querySelector(".sign");
    mark.textContent = open ? "▾" : "▸";
  }
  function toggle(line, open) {
    line.setAttribute("aria-expanded", String(open ?? line.getAttribute("aria-expanded") !== "true"));
    sign(line);
  }
  function reveal(line) {
    for (let up = line.parentElement.closest("li"); up; up = up.parentElement.closest("li")) toggle(up, true);
  }
  const lines = () => [...outline.querySelectorAll("li")].filter((line) => !line.parentElement.closest('[aria-expanded="false"]'));
  function go(to) {
    if (!to) return;
    outline.querySelectorAll("li").forEach((line) => { line.tabIndex = -1; });
    to.tabIndex = 0;
    to.focus();
  }
  outline.addEventListener("keydown", (event) => {
    const line = event.target.closest("li"), seenLines = lines(), at = seenLines.indexOf(line), open = line.getAttribute("aria-expanded") === "true";
    const acts = {
      ArrowDown: () => go(seenLines[at + 1]), ArrowUp: () => go(seenLines[at - 1]), Home: () => go(seenLines[0]), End: () => go(seenLines[seenLines.length - 1]),
      ArrowRight: () => (open ? go(line.querySelector("li")) : toggle(line, true)),
      ArrowLeft: () => (open ? toggle(line, false) : go(line.parentElement.closest("li"))),
      Enter: () => toggle(line), " ": () => toggle(line),
    };
    if (!acts[event.key] || event.target.tagName === "SUMMARY") return;
    event.preventDefault();
    acts[event.key]();
  });
  const light = (passed) => {
    for (const [node, line] of items) line.classList.toggle("lit", passed.includes(node));
    passed.length && reveal(items.get(passed[passed.length - 1]));
  };
  const all = (open) => { for (const line of items.values()) toggle(line, open || line.getAttribute("aria-level") === "1"); };
  const controls = el("div", { class: "controls" }, el("button", { onclick: () => all(true) }, say("open all")), el("button", { onclick: () => all(false) }, say("close all")), el("span", { class: "note" }, say("arrow keys")));
  const overview = icicle(tree, nodes, first, children, tint, meanText, (node) => { const line = items.get(node); reveal(line); go(line); line.scrollIntoView({ block: "center" }); });
  return { box: el("div", {}, overview, controls, outline, data.trees[tree].note && el("p", { class: "note" }, data.trees[tree].note)), light, range: [low, high] };
}

function icicle(tree, nodes, first, children, tint, meanText, choose) {
  const text = say("tree of", { leaves: counted((nodes.length + 1) / 2, "n leaves") });
  return chart(text, (root, width) => {
    const depths = [0], spans = [[0, width]];
    nodes.forEach((node, at) => {
      const below = children(at), sum = below.reduce((s, c) => s + rowsOf(nodes[c]), 0) || 1;
      let left = spans[at][0];
      for (const child of below) {
        const own = ((spans[at][1] - spans[at][0]) * rowsOf(nodes[child])) / sum;
        depths[child] = depths[at] + 1;
        spans[child] = [left, left += own];
      }
    });
    const deepest = Math.max(...depths), height = Math.max(18, Math.min(34, 240 / (deepest + 1)));
    nodes.forEach((node, at) => {
      const [from, to] = spans[at], y = depths[at] * height, isLeaf = !children(at).length;
      const text = isLeaf ? say("leaf", { leaf: node.leaf }) : nameOf(model.feature[first + at]);
      const box = svg("g", { style: "cursor:pointer", onclick: () => choose(first + at) },
        svg("title", {}, `${node.tests ? node.tests[0] : node.equation}: ${rowsText(node)}, ${meanText(node)}`),
        svg("rect", { x: from + 0.5, y: y + 0.5, width: Math.max(0.5, to - from - 1), height: height - 1, rx: 2, style: `fill:${tint(num(node.mean))};opacity:${isLeaf ? 0.95 : 0.4}` }));
      if (to - from > 44) {
        box.append(svg("text", { x: (from + to) / 2, y: y + height / 2 + 4, "text-anchor": "middle", style: isLeaf ? "fill:#fff" : null }, fitted(text, to - from - 8, TEXT)));
      }
      root.append(box);
    });
    return (deepest + 1) * height;
  });
}

// Mean target against the feature of a split, the threshold marked.
function curve(node, at, tree) {
  const feature = model.feature[at], found = node.curve;
  if (!found || !found.x.length) return null;
  const texts = data.features[feature].categories, threshold = model.threshold[at], isSet = model.set.length && model.set[at] >= 0;
  return chart(say("mean in node", { name: nameOf(feature), first: fmt(num(found.y[0])), last: fmt(num(found.y[found.y.length - 1])) }), (root, width) => {
    const wide = Math.min(width, 460), write = tree.isShare ? shareTexts : undefined, xs = found.x.map(num), ys = found.y.map(num), names = texts && xs.map((code) => valueText(feature, code));
    const turned = texts && wide / xs.length < widest(names) + 8, foot = texts ? (turned ? nameHeight(names) : 24) - 4 : 0, height = 112 + foot;
    const ends = texts ? [-0.5, xs.length - 0.5] : extent(isSet ? xs : [...xs, ...(Number.isFinite(threshold) ? [threshold] : [])]), [low, high] = extent(ys);
    const lack = found.missing ? 34 : 0, most = Math.max(...found.n), [bottom, top] = extent([low, high, ...(found.missing ? [num(found.missing[0])] : [])]);
    const left = sideRoom(bottom, top, write, 3), x = scale(...ends, left + 6 + lack, wide - 8), y = scale(bottom, top, height - 40 - foot, 7);
    for (const [tick, text] of sideTicks(bottom, top, write, 3)) root.append(svg("text", { class: "soft", x: left - 4, y: y(tick) + 4, "text-anchor": "end" }, text));
    if (found.missing) {
      root.append(svg("circle", { cx: left + 14, cy: y(num(found.missing[0])), r: 3.4, style: `fill:${model.defaultLeft[at] ? "var(--accent)" : "var(--gone)"}` }));
      root.append(svg("text", { class: "soft", x: left + 14, y: height - 22, "text-anchor": "middle" }, say("missing")));
    }
    xs.forEach((value, i) => root.append(svg("circle", { cx: x(texts ? i : value), cy: y(ys[i]), r: 1.8 + 2.6 * Math.sqrt(found.n[i] / most),
      style: `fill:${goesLeft(at, model.isFloat32 ? Math.fround(value) : value) ? "var(--accent)" : "var(--gone)"}` })));
    if (!texts && Number.isFinite(threshold)) {
      root.append(svg("line", { x1: x(threshold), x2: x(threshold), y1: 2, y2: height - 36, style: "stroke:var(--high);stroke-width:1.5px" }));
    }
    if (!texts) axis(root, x, ...ends, height - 38, wide - left, withUnit(feature));
    if (turned) slanted(root, x, [...xs.keys()], names, height - 36 - foot);
    else if (texts) names.forEach((name, i) => root.append(svg("text", { class: "soft", x: x(i), y: height - 22, "text-anchor": "middle" }, name)));
    const said = found.of > xs.length ? `: ${say("most frequent here", { n: xs.length, of: found.of })}` : "";
    if (texts) root.append(label(nameOf(feature) + said, wide, { class: "soft", x: wide / 2, y: height - 3, "text-anchor": "middle" }));
    return height;
  });
}

// Signs stay with their numbers.
const withMinus = (text) => text.replace(/([×÷]) (?=\d)/g, "$1\u00a0").replace(/([,:] |^)([-+]) (?=\d)/g, "$1$2\u00a0").replace(/(^|[\s(=])-(?=\d|\u00a0\d)/g, "$1−");
function reachOf(term) {
  const effect = num(term.effect), error = num(term.error);
  return [0, effect, ...(term.levels.length ? [-effect] : []), ...(Number.isNaN(error) ? [] : [effect - 2 * error, effect + 2 * error])];
}

// What a feature with a logarithm adds over the middle of the leaf's rows, in the place of its bar.
function smallCurve(term, left, right, top, bottom) {
  const xs = term.curve.x.map(num), ys = term.curve.y.map(num), x = scale(...extent(xs), left + 2, right - 2), y = scale(...extent(ys), bottom, top), colour = term.effect < 0 ? "var(--low)" : "var(--high)";
  const ends = [0, xs.length - 1].map((i) => svg("circle", { cx: x(xs[i]), cy: y(ys[i]), r: 2.2, fill: colour }));
  return svg("g", { class: "small-curve" }, svg("path", { d: xs.map((v, i) => `${i ? "L" : "M"}${x(v).toFixed(1)} ${y(ys[i]).toFixed(1)}`).join(""), style: `fill:none;stroke:${colour};stroke-width:1.8px` }), ends);
}

function leafView(node, reach) {
  const parts = [el("p", { class: "equation" }, withMinus(node.equation), node.clipped ? `   (${counted(node.clipped, "n rows clipped")})` : "")];
  const shown = (node.terms ?? []).map((term) => ({ ...term, effect: num(term.effect), error: num(term.error) }));
  if (!shown.length) return parts;
  const text = say("strongest terms", { list: listed(shown.slice(0, 3).map((t) => `${t.name} ${t.text}`)) });
  parts.push(chart(text, (root, width) => {
    const wide = Math.min(width, 560), left = Math.min(150, Math.floor(wide * 0.28)), right = Math.min(shown.some((term) => term.curve) ? 240 : 190, Math.floor(wide * (shown.some((term) => term.curve) ? 0.46 : 0.36))), row = 20, x = scale(...reach, left, wide - right);
    if (shown.some((term) => !term.curve)) root.append(svg("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: shown.length * row }));
    shown.forEach((term, i) => {
      const y = i * row, from = term.levels.length ? -Math.abs(term.effect) : 0;
      root.append(label(term.name, left - 8, { x: left - 6, y: y + 13, "text-anchor": "end" }));
      if (term.curve) root.append(smallCurve(term, left, wide - right, y + 3, y + 17));
      else root.append(svg("rect", { x: Math.min(x(from), x(term.effect)), y: y + 4, width: Math.max(0.8, Math.abs(x(term.effect) - x(from))), height: 11, fill: term.levels.length ? "var(--both)" : term.effect < 0 ? "var(--low)" : "var(--high)" }));
      if (!Number.isNaN(term.error)) root.append(svg("line", { x1: x(Math.max(reach[0], term.effect - 2 * term.error)), x2: x(Math.min(reach[1], term.effect + 2 * term.error)), y1: y + 9.5, y2: y + 9.5, style: "stroke:var(--ink)" }));
      root.append(label(withMinus(term.text), right - 8, { class: "soft", x: wide - right + 8, y: y + 13 }));
    });
    return shown.length * row + 4;
  }));
  if (node.smaller && node.smaller[0]) parts[1].append(note(say("and smaller", { n: node.smaller[0], size: node.smaller[1] })));
  const linear = model.linear, lines = [];
  for (let t = linear.offsets[node.leaf], i = 0; t < linear.offsets[node.leaf + 1]; t++, i++) {
    const error = node.standardErrors ? num(node.standardErrors[i]) : NaN;
    lines.push([linear.name[t], fmt(linear.coefficient[t]), Number.isNaN(error) ? say("not known") : fmt(error), fmt(linear.mean[t])]);
  }
  parts.push(asTable([say("term"), say(data.trees.some((tree) => tree.isRate) ? "coefficient of logarithm" : "coefficient"), say("standard error"), say("mean")], () => lines));
  return parts;
}
