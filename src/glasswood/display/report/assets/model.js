// The embedded model: the same tests, sums and links as glasswood's predict.
const model = data.model && {
  ...data.model,
  threshold: data.model.threshold.map((x) => (data.model.isFloat32 ? Math.fround(num(x)) : num(x))),
  leafValue: data.model.isFloat32Leaf ? data.model.leafValue.map((leaf) => leaf.map((x) => Math.fround(num(x)))) : data.model.leafValue,
  base: data.model.base.map(num),
  marker: num(data.model.marker),
};

function seen(x, feature) {
  let value = model.isFloat32 ? Math.fround(x) : x;
  if (value === (model.isFloat32 ? Math.fround(model.marker) : model.marker)) return NaN;
  if (model.zeroThreshold > 0 && Math.abs(value) <= model.zeroThreshold) value = 0;
  return model.zeroMissing.length && model.zeroMissing[feature] && value === 0 ? NaN : value;
}

function goesLeft(node, x) {
  if (Number.isNaN(x)) return !!model.defaultLeft[node];
  const threshold = model.threshold[node];
  const which = model.set.length ? model.set[node] : -1;
  if (which < 0) return x < threshold || threshold === Infinity;
  const { words, others } = model.sets[which];
  const code = Math.trunc(x);
  if (!(x >= threshold) || code >= 32 * words.length) return others;
  return ((words[code >>> 5] >>> (code & 31)) & 1) === 1;
}

// Nodes that a row passes in a tree, the leaf last.
function path(tree, row) {
  const first = model.offsets[tree], nodes = [first];
  let node = first;
  while (model.feature[node] >= 0) {
    const feature = model.feature[node];
    node = first + model.left[node] + (goesLeft(node, seen(row[feature], feature)) ? 0 : 1);
    nodes.push(node);
  }
  return nodes;
}

// What each term of a leaf's equation adds to the leaf's value, before the leaf's range confines it.
function termsOf(leaf, row) {
  const linear = model.linear, found = [];
  if (!linear) return found;
  for (let t = linear.offsets[leaf]; t < linear.offsets[leaf + 1]; t++) {
    let x = row[linear.feature[t]];
    if (linear.category[t] === -2) x = Number.isNaN(x) ? 1 : 0;
    else if (linear.category[t] === -3) x = x > 0 ? Math.log(x) : NaN;
    else if (linear.category[t] >= 0) x = x === linear.category[t] ? 1 : 0;
    const deviation = Number.isNaN(x) ? 0 : x - linear.mean[t];
    found.push({ feature: linear.feature[t], value: deviation * linear.coefficient[t] });
  }
  return found;
}

// Where missing numbers do not count as means (LightGBM), a leaf has a value of its own for rows that lack one.
function lacksNumber(leaf, row) {
  const linear = model.linear;
  for (let t = linear.offsets[leaf]; t < linear.offsets[leaf + 1]; t++) {
    const x = row[linear.feature[t]];
    if (linear.category[t] === -1 && Number.isNaN(x) || linear.category[t] === -3 && !(x > 0)) return true;
  }
  return false;
}

function leafValue(leaf, row, column) {
  const constant = model.leafValue[leaf][column];
  if (!model.linear) return constant;
  if (model.linear.missing.length && lacksNumber(leaf, row)) return num(model.linear.missing[leaf]);
  const [low, high] = model.linear.range[leaf].map(num);
  const value = termsOf(leaf, row).reduce((sum, term) => sum + term.value, constant);
  return Math.min(Math.max(value, low), high);
}

function margins(row) {
  const sums = [...model.base];
  for (let tree = 0; tree + 1 < model.offsets.length; tree++) {
    const nodes = path(tree, row), leaf = model.leafOf[nodes[nodes.length - 1]], width = model.leafValue[leaf].length;
    for (let column = 0; column < width; column++) {
      sums[width > 1 ? column : model.treeOutput[tree]] += model.treeWeight[tree] * leafValue(leaf, row, column);
    }
  }
  return sums;
}

const expit = (x) => 1 / (1 + Math.exp(-x));
// Responses in the order of data.classes, or a single number; null where the page does not know the link.
function responses(margin) {
  const scaled = margin.map((m) => m * num(model.linkScale));
  const one = { identity: (m) => m, exp: (m) => Math.exp(m), exponential: (m) => expit(2 * m) };
  let found = null;
  if (model.link === "logistic" || model.link === "one_vs_all") found = scaled.map(expit);
  else if (model.link === "softmax") {
    const most = Math.max(...scaled), parts = scaled.map((m) => Math.exp(m - most)), sum = parts.reduce((a, b) => a + b, 0);
    found = parts.map((p) => p / sum);
  } else if (one[model.link]) found = margin.map(one[model.link]);
  if (found && found.length === 1 && data.isClassifier && data.classes.length === 2) return [1 - found[0], found[0]];
  return found;
}
