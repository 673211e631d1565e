// The threads of a call as the kernels see them. Plain data: kernel files share no inline code with the others
// (common/instruction_set.h says why).
#pragma once
#include <cstdint>

namespace silva {

struct Team {
  void* pool;  // null: the calling thread alone
  void (*run)(void* pool, int32_t n_tasks, void* context, void (*task)(void* context, int32_t index, int32_t thread));
};

namespace {

// Calls task(index, thread) for every index below n_tasks; thread 0 is the caller.
template <class Task>
void share_out(const Team& team, int64_t n_tasks, const Task& task) {
  if (!team.pool || n_tasks <= 1) {
    for (int64_t index = 0; index < n_tasks; ++index) task(index, 0);
    return;
  }
  team.run(team.pool, int32_t(n_tasks), const_cast<Task*>(&task),
           [](void* context, int32_t index, int32_t thread) { (*static_cast<const Task*>(context))(index, thread); });
}

}  // namespace
}  // namespace silva
