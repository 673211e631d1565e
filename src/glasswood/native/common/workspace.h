// Aligned memory for the threads of one call, taken before any of them starts.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>

namespace glasswood {

class Workspace {
 public:
  explicit Workspace(int64_t size) : memory_(static_cast<char*>(::operator new(size, std::align_val_t(64)))) {}
  ~Workspace() { ::operator delete(memory_, std::align_val_t(64)); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  char* data() const { return memory_; }

 private:
  char* memory_;
};

}  // namespace glasswood
