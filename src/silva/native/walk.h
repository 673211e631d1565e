// SHAP values and interactions of one row by one walk over a tree's tape (tape_format.h): the maths of a CUDA thread.
//
// With Gauss-Legendre points t_k and weights w_k in [0, 1], S_k(leaf) = w_k v prod_j g_j(t_k) and
//   phi_i  = sum over the edges e of feature i and over k of r_e,k S_k(e)
//   Phi_ij = 1/2 sum over the edges e of feature i and over k of r_e,k S_k(e) D_j,k
// S_k(e) is the sum of S_k over the leaves below the edge, D_j,k the sum of r_e,k over the edges of feature j above, and
// r = (z_p - z_c) / ((z_c + (1 - z_c) t) H) if the row takes the edge, -1 / ((1 - t) H) if not, 0 if the row had left the
// feature's interval above. Carrying the product S = P T upwards makes the way up an addition: a level of the walk
// keeps K + 2 numbers alive where P and T apart take 2 K + 2.
//
// Needs Real, PAIRS (0 values, 1 interactions), HOT_WORDS and SILVA_DEVICE.
#pragma once
#include "tape_format.h"

namespace silva {

struct alignas(16) Real4 {
  Real part[4];
};
constexpr int REAL_QUADS = sizeof(Real4) / sizeof(Quad);

// A host reads records as they lie; on CUDA explain_rows.cu says how.
#ifndef SILVA_LOAD
template <class Record>
SILVA_DEVICE Record load(const Quad* at) {
  return *reinterpret_cast<const Record*>(at);
}
SILVA_DEVICE void fetch_ahead(const Quad*, const Quad*) {}
#endif

enum State { TAKES_FIRST = 1, INSIDE = 2 };

// Row: code(column) -> int; add(slot, value); for interactions delta(level) -> Real*, K numbers a level.
template <int K, class Row>
struct Walk {
  static constexpr int SUMS = PAIRS ? K : 1;
  struct Frame {
    Real save[K];     // before the first child: P / H of the node; after it: S of the leaf or of the first child
    Real sums[SUMS];  // sum of r S so far; over k too where only values are wanted
    int state;
  };

  const Quad* tape;
  Row row;
  Real t[K];
  unsigned hot[HOT_WORDS];  // per tracked split above: does the row satisfy all tests of its feature so far
  // Loaded ahead: the walk is a chain of loads that wait for each other otherwise.
  const Quad* next_tape;
  Head next_head;
  int next_code;

  template <class Record>
  SILVA_DEVICE Record read() {
    const Record record = load<Record>(tape);
    tape += sizeof(Record) / sizeof(Quad);
    return record;
  }
  // The record whose Head was loaded ahead, and the row's code in its column; starts loading the next two.
  SILVA_DEVICE Head take_head(int& code) {
    const Head head = next_head;
    code = next_code;
    tape = next_tape + 1;
    const Quad* here = next_tape;
    next_tape += head.size() + (PAIRS ? (head.n_pairs() + 1) / 2 : 0);
    fetch_ahead(here, next_tape);
    next_code = row.code(head.next_column);
    next_head = load<Head>(next_tape);
    return head;
  }
  SILVA_DEVICE void read_points(Real (&values)[K]) {
#pragma unroll
    for (int k = 0; k < K; k += 4) {
      const Real4 part = read<Real4>();
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (k + j < K) values[k + j] = part.part[j];
    }
  }
  SILVA_DEVICE Links read_links(const Head& node) {
    return PAIRS || node.has(REPEATED | TRACKED) ? read<Links>() : Links{};
  }
  SILVA_DEVICE bool is_hot(int track) const {
    return hot[HOT_WORDS == 1 ? 0 : track >> 5] >> (track & 31) & 1;
  }
  SILVA_DEVICE void set_hot(int track, bool value) {
    unsigned& word = hot[HOT_WORDS == 1 ? 0 : track >> 5];
    word = (word & ~(1u << (track & 31))) | (unsigned(value) << (track & 31));
  }
  SILVA_DEVICE static void add(Real (&sums)[SUMS], int k, Real value) { sums[PAIRS ? k : 0] += value; }
  SILVA_DEVICE static void clear(Real (&sums)[SUMS]) {
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sums[k] = 0;
  }

  // Both children are leaves: x turns from P of the node into its S.
  SILVA_DEVICE void leaves(const Head& node, bool left, Real (&x)[K]) {
    const Links links = read_links(node);
    const Real4 data = read<Real4>();
    Real mean = data.part[0], step = left ? data.part[1] : data.part[2], sums[SUMS];
    clear(sums);
    if (node.has(REPEATED)) {
      const bool inside = is_hot(links.previous);
      const Real4 jumps = read<Real4>();
      const Real jump = inside ? (left ? jumps.part[0] : jumps.part[1]) : Real(0);
      Real inverse[K];
      read_points(inverse);
      mean = inside ? mean : data.part[3];
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
  SILVA_DEVICE void enter(const Head& node, bool left, Real (&x)[K], Frame& frame) {
    const bool first = left != node.has(SWAPPED);
    const Links links = read_links(node);
    const Real4 data = read<Real4>();
    Real z1 = data.part[0], z2 = data.part[1], above = 1, unit[K];
    bool inside = true;
#pragma unroll
    for (int k = 0; k < K; ++k) frame.save[k] = unit[k] = x[k];
    if (node.has(REPEATED)) {
      inside = is_hot(links.previous);
      const Real4 more = read<Real4>();
      Real inverse[K];
      read_points(inverse);
      z1 = inside ? z1 : more.part[0];
      z2 = inside ? z2 : more.part[1];
      above = inside ? more.part[2] : Real(0);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const Real h = inside ? inverse[k] : Real(1);
        frame.save[k] *= h;
        unit[k] = frame.save[k] * h;
      }
    }
    if (node.has(TRACKED)) set_hot(links.track, first && inside);
    frame.state = (first ? TAKES_FIRST : 0) | (inside ? INSIDE : 0);
    const Real step = inside ? (first ? Real(1) : Real(0)) - z1 : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] = frame.save[k] * (z1 + step * t[k]);
    clear(frame.sums);
    if (node.has(ONE_LEAF)) leaf(inside, first, z2, above, data.part[2], unit, frame);
    if (PAIRS) descend(node, links, first, inside);
  }
  // The edge to a leaf of value v, with unit = P / H^2.
  SILVA_DEVICE void leaf(bool inside, bool other, Real z, Real above, Real v, const Real (&unit)[K], Frame& frame) {
    const Real jump = inside ? ((other ? Real(0) : above) - z) * v : Real(0);
    const Real step = inside ? (other ? Real(0) : Real(1)) - z : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      add(frame.sums, k, jump * unit[k]);
      frame.save[k] *= (z + step * t[k]) * v;
    }
  }

  // x holds S of a child. True: x is P of the second child now; false: x is S of the node.
  SILVA_DEVICE bool after(Real (&x)[K], Frame& frame) {
    int unused;
    const Head node = take_head(unused);
    const bool inside = frame.state & INSIDE, second = node.has(SECOND_CHILD);
    const bool taken = bool(frame.state & TAKES_FIRST) != second;
    Real hot_edge[K], cold_edge[K], sums[SUMS];
    read_points(hot_edge);
    read_points(cold_edge);
    clear(sums);
#pragma unroll
    for (int k = 0; k < K; ++k) add(sums, k, (taken ? hot_edge[k] : cold_edge[k]) * x[k]);
#pragma unroll
    for (int k = 0; k < SUMS; ++k) frame.sums[k] += inside ? sums[k] : Real(0);
    if (!second && !node.has(ONE_LEAF)) {
      second_child(node, x, frame);
      return true;
    }
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] += frame.save[k];
    emit(node, frame.sums);
    return false;
  }
  SILVA_DEVICE void second_child(const Head& node, Real (&x)[K], Frame& frame) {
    const Links links = read_links(node);
    const Real4 data = read<Real4>();
    const bool inside = frame.state & INSIDE, taken = !(frame.state & TAKES_FIRST);
    const Real z = inside ? data.part[0] : data.part[1], step = inside ? (taken ? Real(1) : Real(0)) - z : Real(0);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Real p = frame.save[k];
      frame.save[k] = x[k];
      x[k] = p * (z + step * t[k]);
    }
    if (node.has(TRACKED)) set_hot(links.track, taken && inside);
    if (PAIRS) descend(node, links, taken, inside);
  }

  // The edge that the walk goes down joins D of its feature.
  SILVA_DEVICE void descend(const Head& node, const Links& links, bool taken, bool inside) {
    Real hot_edge[K], cold_edge[K];
    read_points(hot_edge);
    read_points(cold_edge);
    Real* delta = row.delta(links.level);
    const Real* before = row.delta(links.previous_level);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Real r = inside ? (taken ? hot_edge[k] : cold_edge[k]) : Real(0);
      delta[k] = node.has(REPEATED) ? before[k] + r : r;
    }
  }

  SILVA_DEVICE void emit(const Head& node, const Real (&sums)[SUMS]) {
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sum += sums[k];
    row.add(node.slot, sum);
    if (PAIRS)
      for (int pair = 0; pair < node.n_pairs(); pair += 2) {
        const Pairs two = read<Pairs>();
        add_pair(two.slot[0], two.level[0], sums);
        if (pair + 1 < node.n_pairs()) add_pair(two.slot[1], two.level[1], sums);
      }
  }
  SILVA_DEVICE void add_pair(int slot, int level, const Real (&sums)[SUMS]) {
    const Real* delta = row.delta(level);
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < SUMS; ++k) sum += sums[k] * delta[k];
    row.add(slot, Real(0.5) * sum);
  }

  // A subtree of at most H levels of splits: its frames stay in registers.
  template <int H>
  SILVA_DEVICE void subtree(Real (&x)[K]) {
    int code;
    const Head node = take_head(code);
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
  SILVA_DEVICE void tree(Real (&x)[K]) {
    if constexpr (Outer == 0) {
      subtree<H>(x);
    } else {
      Frame frames[Outer];
      int level = 0;
#pragma unroll 1
      while (true) {
        if (next_head.height() > H) {
          int code;
          const Head split = take_head(code);
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
  SILVA_DEVICE void chunk() {
    const Chunk head = read<Chunk>();
    Real weights[K];
    read_points(t);
    read_points(weights);
    next_tape = tape;
    next_head = load<Head>(tape);
    next_code = row.code(head.first_column);
#pragma unroll
    for (int word = 0; word < HOT_WORDS; ++word) hot[word] = 0;
    for (int tree_index = 0; tree_index < head.n_trees; ++tree_index) {
      Real x[K];
#pragma unroll
      for (int k = 0; k < K; ++k) x[k] = weights[k];
      tree<H, Outer>(x);
    }
  }
};

}  // namespace silva
