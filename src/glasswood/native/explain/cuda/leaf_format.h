// What explain/cuda/explain_leaves.cu reads of leaves with linear models; glasswood/explain/cuda/leaf_tapes.py writes
// it, by the layouts that explain/cuda/tape_bindings.cpp exports.
#pragma once

namespace glasswood {

struct PartRecord {
  int first_leaf, end_leaf, pass, unused;
};

struct LeafRecord {
  double centred, value, at_means, weight, low, high;  // centred: weighted, about the middle of the tree
  double missing;                                      // of rows that lack a number; else not a number
  long long first_pair;
  int first_entry, n_tested, n_entries;  // those with tests first
  int first_term, end_term, unused;
};

// A row satisfies a test if lower <= code(column) < lower + width.
struct PathTest {
  int column, lower;
  unsigned width;
};

struct EntryRecord {
  PathTest test;
  int slot;
  int first_extra, end_extra;  // tests on further columns of the feature
  int first_term, end_term;
};

struct TermRecord {
  int feature, category;
  double coefficient, mean;
};

}  // namespace glasswood
