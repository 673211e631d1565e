// The threads of a call as the kernels see them. Plain data: kernel files share no inline code with the others
// (common/instruction_set.h says why).
#pragma once
#include <cstdint>

namespace glasswood {

struct Team {
  void* pool;  // null: the calling thread alone
  void (*run)(void* pool, int32_t n_tasks, void* context, void (*task)(void* context, int32_t index, int32_t thread));
  void* watch;  // null: nothing ends the tasks early
  bool (*ended)(void* watch, int32_t thread);
};

namespace {

// Whether the tasks are to end early; what they have written then does not count.
inline bool has_ended(const Team& team, int32_t thread) { return team.watch && team.ended(team.watch, thread); }

// Calls task(index, thread) for every index below n_tasks; thread 0 is the caller.
template <class Task>
void share_out(const Team& team, int64_t n_tasks, const Task& task) {
  const struct {
    const Team& team;
    const Task& task;
  } call{team, task};
  using Call = decltype(call);
  const auto run_one = [](void* context, int32_t index, int32_t thread) {
    Call& one = *static_cast<Call*>(context);
    if (!(index && has_ended(one.team, thread))) one.task(index, thread);
  };
  void* context = const_cast<void*>(static_cast<const void*>(&call));
  if (team.pool && n_tasks > 1) return team.run(team.pool, int32_t(n_tasks), context, run_one);
  for (int64_t index = 0; index < n_tasks; ++index) run_one(context, int32_t(index), 0);
}

}  // namespace
}  // namespace glasswood
