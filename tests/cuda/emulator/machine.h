// An emulated GPU as its kernels see it (cuda.h) and as a driver starts it (driver.cpp): a thread of a block is a
// fiber, blocks run one after the other.
#pragma once
#include <cstdint>

namespace emulator {

constexpr unsigned kWarp = 32, kMostThreads = 1024, kSharedBytes = 227 << 10;

struct Index {
  unsigned x, y, z;
};

extern Index thread_index, block_index, grid_size, block_size;
// Dynamic shared memory; garbage when a block begins.
extern unsigned char shared[];

using Kernel = void (*)(void** arguments);

// One grid at a time, whichever thread it is that calls.
void run(Index grid, Index block, unsigned shared_bytes, Kernel kernel, void** arguments);

// Waits for the threads of the block or warp that still run; returns the sum of what they give.
unsigned meet_block(unsigned given = 0);
unsigned meet_warp(unsigned given = 0);

// Shows bits to the warp; returns those of its lanes.
const uint64_t* show(uint64_t bits);

// Number of the thread within its warp.
unsigned lane();

}  // namespace emulator
