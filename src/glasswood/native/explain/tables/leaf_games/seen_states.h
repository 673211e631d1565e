// Which states of which subtrees background rows are in, and how many: what tables that are built anew keep.
#pragma once
#include <algorithm>
#include <vector>

#include "common/threads/team.h"
#include "common/unset_vector.h"
#include "explain/tables/kernels.h"
#include "explain/tables/plan.h"

namespace glasswood {

class SeenStates {
 public:
  bool is_empty() const { return first_.size() == 1; }
  int64_t n_bytes() const {
    return int64_t(states_.size() * sizeof(uint16_t) + few_.size() * sizeof(uint32_t) + many_.size() * sizeof(int64_t));
  }

  // is_few: counts have 32 bits.
  void clear(bool is_few) {
    is_few_ = is_few;
    first_.assign(1, 0);
    states_ = {}, few_ = {}, many_ = {};
  }

  // The next chunks; `count` has those of their states from `first_vector` on, which is that of the first of them.
  void add(const TablePlan& plan, int32_t first_chunk, int32_t n_chunks, const StateCounts& count, const Team& team) {
    if (count.few)
      add_as(few_, plan, first_chunk, n_chunks, count.few, team);
    else if (is_few_)
      add_as(few_, plan, first_chunk, n_chunks, count.many, team);
    else
      add_as(many_, plan, first_chunk, n_chunks, count.many, team);
  }

  void end() { shrink(states_), shrink(few_), shrink(many_); }

  // From a subtree on.
  SeenCounts from(int64_t subtree) const {
    const int64_t* first = first_.data() + subtree;
    return {first, states_.data() + *first, is_few_ ? few_.data() + *first : nullptr,
            is_few_ ? nullptr : many_.data() + *first};
  }

 private:
  std::vector<int64_t> first_{0};  // [subtree + 1]
  UnsetVector<uint16_t> states_;
  UnsetVector<uint32_t> few_;
  UnsetVector<int64_t> many_;  // counts beyond 32 bits
  bool is_few_ = true;

  // Of one chunk.
  template <class Count>
  struct Found {
    UnsetVector<uint16_t> states;
    UnsetVector<Count> counts;
  };

  // Threads find the states of chunks, and write them, whose pages are new, once it is known where to. Whoever ends the
  // call, all that is written is whole.
  template <class Count, class Counted>
  void add_as(UnsetVector<Count>& counts, const TablePlan& plan, int32_t first_chunk, int32_t n_chunks,
              const Counted* count, const Team& team) {
    const TableChunk* chunks = plan.chunks.data() + first_chunk;
    const Team unwatched{team.pool, team.run, nullptr, nullptr};
    std::vector<Found<Count>> found(n_chunks);
    first_.resize(chunks[n_chunks - 1].first_subtree + chunks[n_chunks - 1].n_subtrees + 1);
    share_out(unwatched, n_chunks, [&](int64_t c, int32_t) {
      find(plan, chunks[c], count + chunks[c].first_vector - chunks[0].first_vector, found[c]);
    });
    for (int64_t s = chunks[0].first_subtree + 1; s < int64_t(first_.size()); ++s) first_[s] += first_[s - 1];
    const int64_t n = first_.back(), done = chunks[n_chunks - 1].first_vector + chunks[n_chunks - 1].n_vectors;
    make_room(states_, n, done, plan.n_vectors), make_room(counts, n, done, plan.n_vectors);
    share_out(unwatched, n_chunks, [&](int64_t c, int32_t) {
      const int64_t to = first_[chunks[c].first_subtree];
      std::ranges::copy(found[c].states, states_.begin() + to);
      std::ranges::copy(found[c].counts, counts.begin() + to);
    });
  }

  // Leaves the numbers of states in first_. Nobody can foretell which of a subtree's counts is 0, hence no branch.
  template <class Count, class Counted>
  void find(const TablePlan& plan, const TableChunk& chunk, const Counted* count, Found<Count>& to) {
    to.states.resize(chunk.n_vectors + 1), to.counts.resize(chunk.n_vectors + 1);
    int64_t n = 0;
    for (int64_t s = chunk.first_subtree; s < chunk.first_subtree + chunk.n_subtrees; ++s) {
      const Subtree& subtree = plan.subtrees[s];
      const Counted* of_state = count + subtree.first_vector - chunk.first_vector;
      const int64_t before = n;
      for (int32_t state = 0; state < subtree.n_states; ++state) {
        to.states[n] = uint16_t(state), to.counts[n] = Count(of_state[state]);
        n += of_state[state] != 0;
      }
      first_[s + 1] = n - before;
    }
    to.states.resize(n), to.counts.resize(n);
  }

  // Room for what the rest will take if it is like what there is.
  template <class T>
  static void make_room(UnsetVector<T>& of, int64_t n, int64_t n_done, int64_t n_all) {
    if (n > int64_t(of.capacity())) of.reserve(size_t(double(n) * double(n_all) / double(n_done) * 1.05) + 1);
    of.resize(n);
  }

  template <class T>
  static void shrink(UnsetVector<T>& of) {
    if (of.capacity() > of.size() + of.size() / 8) of.shrink_to_fit();
  }
};

}  // namespace glasswood
