// SHAP values and interactions of one row by one walk over a tree's tape (explain/cuda/tape_format.h): the maths of a
// CUDA thread.
//
// With Gauss-Legendre points t_k and weights w_k in [0, 1], S_k(leaf) = w_k v prod_j g_j(t_k) and
//   phi_i  = sum over the edges e of feature i and over k of r_e,k S_k(e)
//   Phi_ij = 1/2 sum over the edges e of feature i and over k of r_e,k S_k(e) D_j,k
// S_k(e) is the sum of S_k over the leaves below the edge, D_j,k the sum of r_e,k over the edges of feature j above,
// and r = (z_p - z_c) / ((z_c + (1 - z_c) t) H) if the row takes the edge, -1 / ((1 - t) H) if not, 0 if the row had
// left the feature's interval above. Carrying the product S = P T upwards makes the way up an addition: a level of the
// walk keeps K + 2 numbers alive where P and T apart take 2 K + 2.
//
// Needs Real, PAIRS (0 values, 1 interactions), HOT_WORDS and GLASSWOOD_DEVICE.
#pragma once
#include "explain/cuda/tape_format.h"

namespace glasswood {

struct alignas(16) Real4 {
  Real value[4];
};
constexpr int REAL_QUADS = sizeof(Real4) / sizeof(Quad);

// A host reads records as they lie; on CUDA explain/cuda/explain_rows.cu says how.
#ifndef GLASSWOOD_LOAD
template <class Record>
GLASSWOOD_DEVICE Record load(const Quad* at) {
  return *reinterpret_cast<const Record*>(at);
}
GLASSWOOD_DEVICE void fetch_ahead(const Quad*) {}
#endif

// Row: code(column) -> int; put(slot, value), add(slot, value); for interactions delta(level) -> Real*, K numbers a
// level.
template <int K, class Row>
struct Walk {
  static constexpr int SUMS = PAIRS ? K : 1, POINT_QUADS = (K + 3) / 4 * REAL_QUADS;
  // Where the fields of a record begin (explain/cuda/tape_format.h).
  static constexpr int DATA = 1, LINKS = DATA + REAL_QUADS, EDGE = LINKS + 1;
  static constexpr int REPEAT = EDGE + (PAIRS ? 2 * POINT_QUADS : 0), INVERSE = REPEAT + REAL_QUADS;
  static constexpr int LEAF_REPEAT = LINKS + 1, LEAF_INVERSE = LEAF_REPEAT + REAL_QUADS;
  static constexpr int HOT = 1, COLD = HOT + POINT_QUADS, NEXT = COLD + POINT_QUADS;
  static constexpr int NEXT_LINKS = NEXT + REAL_QUADS, NEXT_EDGE = NEXT_LINKS + 1;

  struct Frame {
    Real save[K];     // before the first child: P / H of the node; after it: S of the leaf or of the first child
    Real sums[SUMS];  // sum of r S so far; over k too where only values are wanted
    int state;        // bit 0: goes to the first child, bit 1: inside the feature's interval above
  };

  Row row;
  Real t[K];
  unsigned hot[HOT_WORDS];  // per tracked split above: does the row satisfy all tests of its feature so far
  const Quad* here;         // the record at work
  // Loaded ahead: the walk is a chain of loads that wait for each other otherwise.
  const Quad* next;
  Head next_head;
  int next_code;

  GLASSWOOD_DEVICE Head take_head() {
    const Head head = next_head;
    here = next;
    next = reinterpret_cast<const Quad*>(reinterpret_cast<const char*>(next) + head.n_bytes());
    if (PAIRS) next += (head.n_pairs() + 1) / 2;
    next_head = load<Head>(next);
    if (head.has(FETCH)) fetch_ahead(next);
    return head;
  }
  template <class Record>
  GLASSWOOD_DEVICE Record read(int offset) const {
    return load<Record>(here + offset);
  }
  GLASSWOOD_DEVICE void read_points(int offset, Real (&values)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k += 4) {
      const Real4 four = read<Real4>(offset + k / 4 * REAL_QUADS);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (k + j < K) values[k + j] = four.value[j];
    }
  }
  GLASSWOOD_DEVICE bool is_inside(const Links& links) const {
    return hot[HOT_WORDS == 1 ? 0 : links.previous_word] & links.previous_mask;
  }
  GLASSWOOD_DEVICE void set_hot(const Links& links, bool value) {
    unsigned& word = hot[HOT_WORDS == 1 ? 0 : links.word];
    word = (word & ~links.mask) | (value ? links.mask : 0u);
  }
  GLASSWOOD_DEVICE static void add(Real (&sums)[SUMS], int k, Real value) { sums[PAIRS ? k : 0] += value; }
  GLASSWOOD_DEVICE static void clear(Real (&sums)[SUMS]) {
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sums[k] = 0;
  }

  // Both children are leaves: x turns from P of the node into its S.
  GLASSWOOD_DEVICE void leaves(const Head& node, bool left, Real (&x)[K]) {
    const Real4 data = read<Real4>(DATA);
    Real mean = data.value[0], step = left ? data.value[1] : data.value[2], sums[SUMS];
    clear(sums);
    if (node.has(REPEATED)) {
      const bool inside = is_inside(read<Links>(LINKS));
      const Real4 jumps = read<Real4>(LEAF_REPEAT);
      const Real jump = inside ? (left ? jumps.value[0] : jumps.value[1]) : Real(0);
      Real inverse[K];
      read_points(LEAF_INVERSE, inverse);
      mean = inside ? mean : data.value[3];
      step = inside ? step : Real(0);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const Real h = inside ? inverse[k] : Real(1), q = x[k] * h;
        add(sums, k, jump * (q * h));
        x[k] = q * (mean + step * t[k]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        add(sums, k, step * x[k]);
        x[k] *= mean + step * t[k];
      }
    }
    emit(node, sums);
  }

  // x turns from P of the node into P of its first child. A second child that is a leaf is done here.
  GLASSWOOD_DEVICE void enter(const Head& node, bool left, Real (&x)[K], Frame& frame) {
    next_code = row.code(node.next_column);
    const bool first = left != node.has(SWAPPED);
    const Real4 data = read<Real4>(DATA);
    const Links links = PAIRS || node.has(REPEATED | TRACKED) ? read<Links>(LINKS) : Links{};
    Real z1 = data.value[0], z2 = data.value[1], above = 1, unit[K];
    bool inside = true;
#pragma unroll
    for (int k = 0; k < K; ++k) frame.save[k] = unit[k] = x[k];
    if (node.has(REPEATED)) {
      inside = is_inside(links);
      const Real4 more = read<Real4>(REPEAT);
      Real inverse[K];
      read_points(INVERSE, inverse);
      z1 = inside ? z1 : more.value[0];
      z2 = inside ? z2 : more.value[1];
      above = inside ? more.value[2] : Real(0);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const Real h = inside ? inverse[k] : Real(1);
        frame.save[k] *= h;
        unit[k] = frame.save[k] * h;
      }
    }
    if (node.has(TRACKED)) set_hot(links, first && inside);
    frame.state = (first ? 1 : 0) | (inside ? 2 : 0);
    const Real step = inside ? (first ? Real(1) : Real(0)) - z1 : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] = frame.save[k] * (z1 + step * t[k]);
    clear(frame.sums);
    if (node.has(ONE_LEAF)) leaf(inside, first, z2, above, data.value[2], unit, frame);
    if (PAIRS) descend(EDGE, node, links, first, inside);
  }
  // The edge to a leaf of value v, with unit = P / H^2.
  GLASSWOOD_DEVICE void leaf(bool inside, bool other, Real z, Real above, Real v, const Real (&unit)[K], Frame& frame) {
    const Real jump = inside ? ((other ? Real(0) : above) - z) * v : Real(0);
    const Real step = inside ? (other ? Real(0) : Real(1)) - z : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      add(frame.sums, k, jump * unit[k]);
      frame.save[k] *= (z + step * t[k]) * v;
    }
  }

  // x holds S of a child. True: x is P of the second child now; false: x is S of the node.
  GLASSWOOD_DEVICE bool after(Real (&x)[K], Frame& frame) {
    const Head node = take_head();
    Real hot_edge[K], cold_edge[K], sums[SUMS];
    read_points(HOT, hot_edge);
    read_points(COLD, cold_edge);
    const bool taken = (frame.state ^ node.packed >> SECOND_SHIFT) & 1;
    clear(sums);
#pragma unroll
    for (int k = 0; k < K; ++k) add(sums, k, (taken ? hot_edge[k] : cold_edge[k]) * x[k]);
    const bool inside = !node.has(REPEATED) || (frame.state & 2);
#pragma unroll
    for (int k = 0; k < SUMS; ++k) frame.sums[k] += inside ? sums[k] : Real(0);
    if (!node.has(SECOND_CHILD | ONE_LEAF)) {
      second_child(node, x, frame);
      return true;
    }
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] += frame.save[k];
    emit(node, frame.sums);
    return false;
  }
  GLASSWOOD_DEVICE void second_child(const Head& node, Real (&x)[K], Frame& frame) {
    next_code = row.code(node.next_column);
    const Real4 data = read<Real4>(NEXT);
    const bool inside = frame.state & 2, taken = !(frame.state & 1);
    const Real z = inside ? data.value[0] : data.value[1], step = inside ? (taken ? Real(1) : Real(0)) - z : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Real p = frame.save[k];
      frame.save[k] = x[k];
      x[k] = p * (z + step * t[k]);
    }
    const Links links = PAIRS || node.has(TRACKED) ? read<Links>(NEXT_LINKS) : Links{};
    if (node.has(TRACKED)) set_hot(links, taken && inside);
    if (PAIRS) descend(NEXT_EDGE, node, links, taken, inside);
  }

  // The edge that the walk goes down joins D of its feature.
  GLASSWOOD_DEVICE void descend(int edge, const Head& node, const Links& links, bool taken, bool inside) {
    Real hot_edge[K], cold_edge[K];
    read_points(edge, hot_edge);
    read_points(edge + POINT_QUADS, cold_edge);
    Real* delta = row.delta(links.level);
    const Real* before = row.delta(links.previous_level);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Real r = inside ? (taken ? hot_edge[k] : cold_edge[k]) : Real(0);
      delta[k] = node.has(REPEATED) ? before[k] + r : r;
    }
  }

  GLASSWOOD_DEVICE void emit(const Head& node, const Real (&sums)[SUMS]) {
    Real sum = sums[0];
#pragma unroll
    for (int k = 1; k < SUMS; ++k) sum += sums[k];
    if (!PAIRS && node.slot < 0)
      row.put(~node.slot, sum);
    else
      row.add(node.slot, sum);
    if (PAIRS) {
      // Four records at once: their loads wait together. What lies behind the last is loaded but not used.
      const Quad* pairs = reinterpret_cast<const Quad*>(reinterpret_cast<const char*>(here) + node.n_bytes());
#pragma unroll 1
      for (int done = 0; done < node.n_pairs(); done += 8, pairs += 4) {
        Pairs records[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) records[i] = load<Pairs>(pairs + i);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (done + i < node.n_pairs()) add_pair(records[i / 2].slot[i % 2], records[i / 2].level[i % 2], sums);
      }
    }
  }
  GLASSWOOD_DEVICE void add_pair(int slot, int level, const Real (&sums)[SUMS]) {
    const Real* delta = row.delta(level);
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sum += sums[k] * delta[k];
    row.add(slot, Real(0.5) * sum);
  }

  // A subtree of at most H levels of splits: its frames stay in registers.
  template <int H>
  GLASSWOOD_DEVICE void subtree(Real (&x)[K]) {
    const int code = next_code;
    const Head node = take_head();
    if (node.has(TWO_LEAVES)) {
      leaves(node, code < node.threshold, x);
    } else if constexpr (H > 1) {
      Frame frame;
      enter(node, code < node.threshold, x, frame);
#pragma unroll 1
      do {
        subtree<H - 1>(x);
      } while (after(x, frame));
    }
  }

  // A tree of any depth: all but the last H levels keep their frames in local memory.
  template <int H, int Outer>
  GLASSWOOD_DEVICE void tree(Real (&x)[K]) {
    next_code = row.code(take_head().next_column);
    if constexpr (Outer == 0) {
      subtree<H>(x);
    } else {
      static_assert(H < TALLEST);
      Frame frames[Outer];
      int level = 0;
#pragma unroll 1
      while (true) {
        if (next_head.height() > H) {
          const int code = next_code;
          const Head split = take_head();
          enter(split, code < split.threshold, x, frames[level++]);
          continue;
        }
        subtree<H>(x);
#pragma unroll 1
        while (level > 0 && !after(x, frames[level - 1])) --level;
        if (level == 0) return;
      }
    }
  }

  template <int H, int Outer>
  GLASSWOOD_DEVICE void chunk(const Quad* tape) {
    here = tape;
    const Chunk head = read<Chunk>(0);
    Real weights[K];
    read_points(1, t);
    read_points(1 + POINT_QUADS, weights);
    next = tape + 1 + 2 * POINT_QUADS;
    next_head = load<Head>(next);
#pragma unroll
    for (int word = 0; word < HOT_WORDS; ++word) hot[word] = 0;
    for (int index = 0; index < head.n_trees; ++index) {
      Real x[K];
#pragma unroll
      for (int k = 0; k < K; ++k) x[k] = weights[k];
      tree<H, Outer>(x);
    }
  }
};

}  // namespace glasswood
