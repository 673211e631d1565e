// The paper's evaluation on a GPU, one tree after the other.
#pragma once
#include <memory>

#include "common/cuda/driver.h"
#include "grow/cuda/host/batch.h"
#include "reference/grow/cuda/records.h"
#include "reference/grow/evaluation.h"

namespace glasswood {

// Addresses of buffers and kernels on the GPU; `results` is pinned memory of the host.
struct QrHandles {
  uint64_t leaves, sorted_leaves, sorted_rows, spare_rows, tile_counts, matrices, triangles, means;
  uint64_t coefficients, chunks, results;
  uint64_t redistribute, count_keys, scan_keys, separate, average_columns, reorganise, factorise, calc_models,
      estimate_errors, reduction;
  PacketHandles packet;
  size_t results_bytes, n_triangle_doubles, n_coefficients;
  std::array<uint64_t, kQrEvents> events;
};

// `part` holds all rows.
std::unique_ptr<PaperEvaluation> make_gpu_evaluation(const GrowData& data, const GpuPart& part,
                                                     const StreamHandles& stream, const QrHandles& handles,
                                                     const CudaDriver& driver);

}  // namespace glasswood
