// One stream of a GPU: what is launched, copied and waited for on it, and the packet of records that goes there first.
#pragma once
#include <cstring>
#include <stdexcept>
#include <vector>

#include "common/cuda/driver.h"

namespace glasswood {

template <class T>
T* address(uint64_t at) {
  return reinterpret_cast<T*>(at);
}

class CudaStream {
 public:
  CudaStream(const CudaDriver& driver, uint64_t stream, int gpu) : driver_(driver), stream_(stream), gpu_(gpu) {
    check(driver_.stream_context(handle(), &context_));
  }

  void enter() const { check(driver_.set_context(context_)); }

  template <class... Arguments>
  void launch(uint64_t kernel, unsigned blocks, unsigned threads, Arguments... arguments) const {
    check(driver_.launch_blocks(kernel, blocks, threads, handle(), arguments...));
  }

  void copy_in(uint64_t to, uint64_t from, size_t bytes) const {
    check(driver_.copy_in(to, address<const void>(from), bytes, handle()));
  }
  void copy_out(void* to, const void* from, size_t bytes) const {
    check(driver_.copy_out(to, reinterpret_cast<uint64_t>(from), bytes, handle()));
  }
  void synchronize() const { check(driver_.synchronize(handle())); }

  void record(uint64_t event) const { check(driver_.record_event(address<void>(event), handle())); }
  float milliseconds_between(uint64_t first, uint64_t last) const {
    float milliseconds = 0;
    check(driver_.elapsed_time(&milliseconds, address<void>(first), address<void>(last)));
    return milliseconds;
  }

  // Waits for whatever is under way, after an error.
  void abandon() const {
    driver_.set_context(context_);
    driver_.synchronize(handle());
  }

 private:
  void* handle() const { return address<void>(stream_); }
  void check(int code) const { driver_.check(code, gpu_); }

  CudaDriver driver_;
  uint64_t stream_;
  int gpu_;
  void* context_ = nullptr;
};

// Addresses of a buffer of the GPU and of pinned memory of the host that is copied there.
struct PacketHandles {
  uint64_t device, host;
  size_t n_bytes;
};

class Packet {
 public:
  explicit Packet(const PacketHandles& handles) : h_(handles) {}

  void clear() { used_ = 0; }
  // Where the records will stand on the GPU; null for none.
  template <class T>
  const T* add(const std::vector<T>& records) {
    if (records.empty()) return nullptr;
    const size_t to = (used_ + 15) / 16 * 16, bytes = records.size() * sizeof(T);
    if (to + bytes > h_.n_bytes) throw std::length_error("a tree has more leaves than the buffers on the GPU hold");
    std::memcpy(address<char>(h_.host) + to, records.data(), bytes);
    used_ = to + bytes;
    return address<const T>(h_.device + to);
  }
  void send(const CudaStream& stream) const {
    if (used_) stream.copy_in(h_.device, h_.host, used_);
  }

 private:
  PacketHandles h_;
  size_t used_ = 0;
};

}  // namespace glasswood
