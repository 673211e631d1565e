#include "grow/cuda/bindings.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include <stdexcept>

#include "grow/cuda/shared/records.h"
#include "reference/grow/cuda/records.h"

namespace glasswood {

// What Python needs to size arrays and buffers by.
static void bind_sizes(nb::module_& module) {
  for (const auto& [name, size] : {std::pair{"GROW_LANES", kLanes},
                                   {"GROW_ZONE", kZone},
                                   {"GROW_LIST_TILE", kListTile},
                                   {"GROW_BLOCK_ROWS", kMostRows},
                                   {"GROW_SLOTS", kMostSlots},
                                   {"GROW_GRID", kGrid},
                                   {"GROW_SUMMED_BINS", kSummedBins},
                                   {"QR_CHUNK_ROWS", kChunkRows},
                                   {"QR_KEY_TILE", kKeyTile},
                                   {"QR_KEYS", kKeys},
                                   {"QR_EVENTS", kQrEvents}})
    module.attr(name) = size;
  module.def("qr_block_rows", &block_rows, nb::arg("side"),
             "Rows that a block factorises, of a matrix of `side` columns.");
}

#ifdef GLASSWOOD_GROW_GPU
SearchMachine make_machine(const GpuSearch& gpu, const GrowData& data, const GrowLimits& limits,
                           std::function<void()> between_rounds) {
  const CudaDriver driver = CudaDriver::at(gpu.driver);
  auto queue = std::make_unique<GpuQueue>(gpu.streams, driver, data, gpu.parts);
  const auto answer = [queue = queue.get()](const std::vector<const GpuRequests*>& requests, ThreadPool* pool) {
    GpuRequests all;
    for (const GpuRequests* some : requests) all.add(*some);
    queue->answer(all, pool);
  };
  auto scheduler = std::make_unique<FiberScheduler>(gpu.settings.n_lists, answer, std::move(between_rounds));
  auto reader = std::make_unique<GpuRowSource>(
      data, limits, gpu.settings, std::move(queue), *scheduler,
      gpu.qr ? make_gpu_evaluation(data, gpu.parts[0], gpu.streams[0], *gpu.qr, driver) : nullptr);
  return {std::move(scheduler), std::move(reader)};
}

static void bind_streams(nb::module_& module) {
  using S = StreamHandles;
  nb::class_<S> stream(module, "GrowStream", "A stream of a GPU: its buffers and kernels.");
  stream.def(nb::init<>());
  bind_field<&S::stream>(stream, "stream"), bind_field<&S::gpu>(stream, "gpu");
  bind_field<&S::n_processors>(stream, "n_processors"), bind_field<&S::stride>(stream, "stride");
  bind_field<&S::packet, &PacketHandles::device>(stream, "packet");
  bind_field<&S::packet, &PacketHandles::host>(stream, "packet_host");
  bind_field<&S::packet, &PacketHandles::n_bytes>(stream, "packet_bytes");
  bind_field<&S::results>(stream, "results"), bind_field<&S::results_host>(stream, "results_host");
  bind_field<&S::results_bytes>(stream, "results_bytes");
  bind_field<&S::partials>(stream, "partials"), bind_field<&S::n_partials>(stream, "n_partials");
  bind_field<&S::partial_counts>(stream, "partial_counts"), bind_field<&S::n_counts>(stream, "n_counts");
  bind_field<&S::grid_sums>(stream, "grid_sums"), bind_field<&S::grid_sums_bytes>(stream, "grid_sums_bytes");
  bind_field<&S::sum_rows>(stream, "sum_rows"), bind_field<&S::add_partials>(stream, "add_partials");
  bind_field<&S::count_rows>(stream, "count_rows"), bind_field<&S::list_rows>(stream, "list_rows");
  bind_field<&S::count_ranks>(stream, "count_ranks"), bind_field<&S::find_candidates>(stream, "find_candidates");
  bind_field<&S::advance_sums>(stream, "advance_sums"), bind_field<&S::solve_candidates>(stream, "solve_candidates");
}

static void bind_parts(nb::module_& module) {
  using P = GpuPart;
  nb::class_<P> part(module, "GrowPart", "Rows that one GPU reads.");
  part.def(nb::init<>());
  bind_field<&P::first>(part, "first"), bind_field<&P::n_rows>(part, "n_rows"), bind_field<&P::stream>(part, "stream");
  bind_field<&P::z>(part, "z"), bind_field<&P::ranks>(part, "ranks"), bind_field<&P::order>(part, "order");
  bind_field<&P::zones>(part, "zones"), bind_field<&P::z_bytes>(part, "z_bytes");
  bind_field<&P::z_host>(part, "z_host"), bind_field<&P::ranks_host>(part, "ranks_host");
  bind_field<&P::order_host>(part, "order_host"), bind_field<&P::ranks_host_step>(part, "ranks_host_step");
  bind_field<&P::lists>(part, "lists"), bind_field<&P::list_bytes>(part, "list_bytes");
  bind_field<&P::list_sums>(part, "list_sums"), bind_field<&P::list_sums_bytes>(part, "list_sums_bytes");
}

static void bind_qr(nb::module_& module) {
  using Q = QrHandles;
  nb::class_<Q> qr(module, "GrowQr", "Buffers and kernels of the paper's evaluation.");
  qr.def(nb::init<>());
  bind_field<&Q::events>(qr, "events");
  bind_field<&Q::packet, &PacketHandles::device>(qr, "packet"),
      bind_field<&Q::packet, &PacketHandles::host>(qr, "packet_host");
  bind_field<&Q::packet, &PacketHandles::n_bytes>(qr, "packet_bytes");
  bind_field<&Q::results>(qr, "results"), bind_field<&Q::results_bytes>(qr, "results_bytes");
  bind_field<&Q::leaves>(qr, "leaves"), bind_field<&Q::sorted_leaves>(qr, "sorted_leaves");
  bind_field<&Q::sorted_rows>(qr, "sorted_rows"), bind_field<&Q::spare_rows>(qr, "spare_rows");
  bind_field<&Q::tile_counts>(qr, "tile_counts"), bind_field<&Q::matrices>(qr, "matrices");
  bind_field<&Q::triangles>(qr, "triangles"), bind_field<&Q::n_triangle_doubles>(qr, "n_triangle_doubles");
  bind_field<&Q::means>(qr, "means"), bind_field<&Q::chunks>(qr, "chunks");
  bind_field<&Q::coefficients>(qr, "coefficients"), bind_field<&Q::n_coefficients>(qr, "n_coefficients");
  bind_field<&Q::redistribute>(qr, "redistribute"), bind_field<&Q::count_keys>(qr, "count_keys");
  bind_field<&Q::scan_keys>(qr, "scan_keys"), bind_field<&Q::separate>(qr, "separate");
  bind_field<&Q::average_columns>(qr, "average_columns"), bind_field<&Q::reorganise>(qr, "reorganise");
  bind_field<&Q::factorise>(qr, "factorise"), bind_field<&Q::calc_models>(qr, "calc_models");
  bind_field<&Q::estimate_errors>(qr, "estimate_errors"), bind_field<&Q::reduction>(qr, "reduction");
}

void bind_grow_gpu(nb::module_& module) {
  bind_sizes(module);
  bind_streams(module);
  bind_parts(module);
  bind_qr(module);
  using S = GpuSearch;
  nb::class_<S> search(module, "GrowGpu", "The GPUs of a search.");
  search.def(nb::init<>());
  search.def_rw("streams", &S::streams).def_rw("parts", &S::parts).def_rw("driver", &S::driver);
  search.def_rw("qr", &S::qr, nb::arg().none());
  bind_field<&S::settings, &GpuSettings::cpu_work>(search, "cpu_work");
  bind_field<&S::settings, &GpuSettings::solve_work>(search, "solve_work");
  bind_field<&S::settings, &GpuSettings::n_lists>(search, "n_lists");
  bind_field<&S::settings, &GpuSettings::n_cells>(search, "n_cells");
  bind_field<&S::settings, &GpuSettings::sectors>(search, "sectors");
}
#else
SearchMachine make_machine(const GpuSearch&, const GrowData&, const GrowLimits&, std::function<void()>) {
  throw std::runtime_error("growing on GPUs needs Linux with glibc; use device='cpu'");
}

void bind_grow_gpu(nb::module_& module) {
  bind_sizes(module);
  nb::class_<GpuSearch>(module, "GrowGpu", "The GPUs of a search.").def(nb::init<>());
}
#endif

}  // namespace glasswood
