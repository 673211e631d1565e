// Large buffers that tasks hold for a while. The system would take them back and clear their pages again each time.
#pragma once
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace glasswood {

class Buffers {
  struct Block {
    void* data = nullptr;
    size_t n_bytes = 0;
  };

 public:
  // Memory for numbers that are not set, aligned to a line of the cache.
  template <class T>
  class Array {
   public:
    Array(Buffers& from, size_t n) : from_(from), block_(from.take(n * sizeof(T))) {}
    Array(const Array&) = delete;
    ~Array() { from_.give_back(block_); }
    T* data() { return static_cast<T*>(block_.data); }
    const T* data() const { return static_cast<const T*>(block_.data); }
    // What stood in it is lost.
    void resize(size_t n) {
      if (n * sizeof(T) <= block_.n_bytes) return;
      from_.give_back(std::exchange(block_, {}));
      block_ = from_.take(n * sizeof(T));
    }

   private:
    Buffers& from_;
    Block block_;
  };

  // The same of numbers that fit the stack where they are few.
  class SmallArray {
   public:
    SmallArray(Buffers& from, size_t n) : array_(from, n > kFew ? n : 0), data_(n > kFew ? array_.data() : few_) {}
    double* data() { return data_; }

   private:
    static constexpr size_t kFew = 1024;
    alignas(64) double few_[kFew];
    Array<double> array_;
    double* data_;
  };

  Buffers() = default;
  Buffers(const Buffers&) = delete;
  ~Buffers() {
    for (const Pool& pool : pools_)
      for (const Block& block : pool.spare) release(block);
  }

 private:
  static constexpr std::align_val_t kLine{64};
  static constexpr size_t kLeast = size_t(1) << 12;
  static constexpr unsigned kPools = 16;

  // What a thread gives back it takes again, without waiting for others and while its cache may still hold it.
  struct alignas(64) Pool {
    std::mutex mutex;
    std::vector<Block> spare;

    // The last one that is large enough; if there is none and `any`, the smallest.
    Block take(size_t n_bytes, bool any) {
      const std::lock_guard lock(mutex);
      size_t best = spare.size();
      for (size_t i = spare.size(); i-- > 0;) {
        if (spare[i].n_bytes >= n_bytes) {
          best = i;
          break;
        }
        if (any && (best == spare.size() || spare[i].n_bytes < spare[best].n_bytes)) best = i;
      }
      if (best == spare.size()) return {};
      const Block found = spare[best];
      spare.erase(spare.begin() + std::ptrdiff_t(best));
      return found;
    }
  };

  // A fiber may go on on another thread: the compiler must not keep the number.
  [[gnu::noinline]] static unsigned own_pool() {
    static std::atomic<unsigned> n_threads = 0;
    static thread_local const unsigned number = n_threads++ % kPools;
    asm volatile("");
    return number;
  }

  static void release(const Block& block) { operator delete(block.data, kLine); }

  Block take(size_t n_bytes) {
    if (n_bytes == 0) return {};
    const unsigned own = own_pool();
    for (unsigned i = 0; i < kPools; ++i)
      if (const Block block = pools_[(own + i) % kPools].take(n_bytes, false); block.data) return block;
    release(pools_[own].take(n_bytes, true));
    size_t room = kLeast;
    while (room < n_bytes) room *= 2;
    return {operator new(room, kLine), room};
  }
  void give_back(const Block& block) {
    if (!block.data) return;
    Pool& pool = pools_[own_pool()];
    const std::lock_guard lock(pool.mutex);
    pool.spare.push_back(block);
  }

  Pool pools_[kPools];
};

}  // namespace glasswood
