// Threads that a call of the library borrows. They are kept from call to call, asleep: calls of several threads at a
// time have one pool each, and a forked process makes its own.
#pragma once
#include "common/threads/team.h"

namespace glasswood {

class ThreadPool;

// Threads for work that has enough for `most` of them: all `n_threads`, or a power of two, since pools are kept by
// size.
inline int useful_threads(double most, int n_threads) {
  if (most >= n_threads) return n_threads;
  int useful = 1;
  while (2 * useful <= most) useful *= 2;
  return useful;
}

class BorrowedTeam {
 public:
  // `n_threads` with the caller; fewer where the system refuses to start more.
  explicit BorrowedTeam(int n_threads);
  BorrowedTeam(const BorrowedTeam&) = delete;
  BorrowedTeam& operator=(const BorrowedTeam&) = delete;
  ~BorrowedTeam();

  Team team() const;

 private:
  ThreadPool* pool_ = nullptr;
};

}  // namespace glasswood
