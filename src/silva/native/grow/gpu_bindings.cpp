#include "grow/gpu_bindings.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include <stdexcept>

namespace silva {

#ifdef SILVA_GROW_GPU
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
  auto reader = std::make_unique<GpuRowSource>(data, limits, gpu.settings, std::move(queue), *scheduler,
                                               gpu.qr ? make_gpu_evaluation(data, *gpu.qr, driver) : nullptr);
  return {std::move(scheduler), std::move(reader)};
}

static void bind_streams(nb::module_& module) {
  using S = StreamHandles;
  nb::class_<S> stream(module, "GrowStream", "A stream of a GPU: its buffers and kernels.");
  stream.def(nb::init<>());
  field<&S::stream>(stream, "stream"), field<&S::gpu>(stream, "gpu");
  field<&S::n_processors>(stream, "n_processors"), field<&S::stride>(stream, "stride");
  field<&S::packet, &PacketHandles::device>(stream, "packet");
  field<&S::packet, &PacketHandles::host>(stream, "packet_host");
  field<&S::packet, &PacketHandles::n_bytes>(stream, "packet_bytes");
  field<&S::results>(stream, "results"), field<&S::results_host>(stream, "results_host");
  field<&S::results_bytes>(stream, "results_bytes");
  field<&S::partials>(stream, "partials"), field<&S::n_partials>(stream, "n_partials");
  field<&S::partial_counts>(stream, "partial_counts"), field<&S::n_counts>(stream, "n_counts");
  field<&S::grid_sums>(stream, "grid_sums"), field<&S::grid_sums_bytes>(stream, "grid_sums_bytes");
  field<&S::sum_rows>(stream, "sum_rows"), field<&S::add_partials>(stream, "add_partials");
  field<&S::count_rows>(stream, "count_rows"), field<&S::list_rows>(stream, "list_rows");
  field<&S::find_candidates>(stream, "find_candidates");
  field<&S::advance_sums>(stream, "advance_sums"), field<&S::solve_candidates>(stream, "solve_candidates");
}

static void bind_parts(nb::module_& module) {
  using P = GpuPart;
  nb::class_<P> part(module, "GrowPart", "Rows that one GPU reads.");
  part.def(nb::init<>());
  field<&P::first>(part, "first"), field<&P::n_rows>(part, "n_rows"), field<&P::stream>(part, "stream");
  field<&P::z>(part, "z"), field<&P::ranks>(part, "ranks"), field<&P::order>(part, "order");
  field<&P::zones>(part, "zones"), field<&P::z_bytes>(part, "z_bytes");
  field<&P::z_host>(part, "z_host"), field<&P::ranks_host>(part, "ranks_host");
  field<&P::order_host>(part, "order_host"), field<&P::ranks_host_step>(part, "ranks_host_step");
  field<&P::lists>(part, "lists"), field<&P::list_bytes>(part, "list_bytes");
  field<&P::list_sums>(part, "list_sums"), field<&P::list_sums_bytes>(part, "list_sums_bytes");
}

static void bind_qr(nb::module_& module) {
  using Q = QrHandles;
  nb::class_<Q> qr(module, "GrowQr", "Buffers and kernels of the paper's evaluation.");
  qr.def(nb::init<>());
  field<&Q::z>(qr, "z"), field<&Q::ranks>(qr, "ranks"), field<&Q::stream>(qr, "stream"), field<&Q::gpu>(qr, "gpu");
  field<&Q::stride>(qr, "stride"), field<&Q::events>(qr, "events");
  field<&Q::packet, &PacketHandles::device>(qr, "packet"), field<&Q::packet, &PacketHandles::host>(qr, "packet_host");
  field<&Q::packet, &PacketHandles::n_bytes>(qr, "packet_bytes");
  field<&Q::results>(qr, "results"), field<&Q::results_bytes>(qr, "results_bytes");
  field<&Q::leaves>(qr, "leaves"), field<&Q::sorted_leaves>(qr, "sorted_leaves");
  field<&Q::sorted_rows>(qr, "sorted_rows"), field<&Q::spare_rows>(qr, "spare_rows");
  field<&Q::tile_counts>(qr, "tile_counts"), field<&Q::matrices>(qr, "matrices");
  field<&Q::triangles>(qr, "triangles"), field<&Q::n_triangle_doubles>(qr, "n_triangle_doubles");
  field<&Q::means>(qr, "means"), field<&Q::chunks>(qr, "chunks");
  field<&Q::coefficients>(qr, "coefficients"), field<&Q::n_coefficients>(qr, "n_coefficients");
  field<&Q::redistribute>(qr, "redistribute"), field<&Q::count_keys>(qr, "count_keys");
  field<&Q::scan_keys>(qr, "scan_keys"), field<&Q::separate>(qr, "separate");
  field<&Q::average_columns>(qr, "average_columns"), field<&Q::reorganise>(qr, "reorganise");
  field<&Q::factorise>(qr, "factorise"), field<&Q::calc_models>(qr, "calc_models");
  field<&Q::estimate_errors>(qr, "estimate_errors"), field<&Q::reduction>(qr, "reduction");
}

void bind_grow_gpu(nb::module_& module) {
  bind_streams(module);
  bind_parts(module);
  bind_qr(module);
  using S = GpuSearch;
  nb::class_<S> search(module, "GrowGpu", "The GPUs of a search.");
  search.def(nb::init<>());
  search.def_rw("streams", &S::streams).def_rw("parts", &S::parts).def_rw("driver", &S::driver);
  search.def_rw("qr", &S::qr, nb::arg().none());
  field<&S::settings, &GpuSettings::cpu_work>(search, "cpu_work");
  field<&S::settings, &GpuSettings::solve_work>(search, "solve_work");
  field<&S::settings, &GpuSettings::n_lists>(search, "n_lists");
  field<&S::settings, &GpuSettings::sectors>(search, "sectors");
}
#else
SearchMachine make_machine(const GpuSearch&, const GrowData&, const GrowLimits&, std::function<void()>) {
  throw std::runtime_error("growing on GPUs needs Linux with glibc; use device='cpu'");
}

void bind_grow_gpu(nb::module_& module) {
  nb::class_<GpuSearch>(module, "GrowGpu", "The GPUs of a search.").def(nb::init<>());
}
#endif

}  // namespace silva
