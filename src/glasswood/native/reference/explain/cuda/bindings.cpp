// Bindings of reference/explain/cuda/paths.h.
#include "reference/explain/cuda/paths.h"

namespace glasswood {
namespace {

std::vector<int32_t> flatten(const std::vector<PathTest>& tests) {
  std::vector<int32_t> words;
  words.reserve(tests.size() * 3);
  for (const PathTest& test : tests) words.insert(words.end(), {test.column, test.lower, int32_t(test.width)});
  return words;
}

nb::dict extract_paths(nb::handle forest, nb::handle codes) {
  Paths paths;
  const TapeForest trees = tape_forest(forest, codes);
  {
    const Released release;
    paths = PathExtractor(trees).extract();
  }
  nb::dict result;
  result["offsets"] = to_numpy(std::move(paths.offsets));
  result["leaf"] = to_numpy(std::move(paths.leaf));
  result["z"] = to_numpy(std::move(paths.z));
  result["value"] = to_numpy(std::move(paths.value));
  result["feature"] = to_numpy(std::move(paths.feature));
  result["output"] = to_numpy(std::move(paths.output));
  result["test"] = to_numpy(flatten(paths.test));
  result["extra_begin"] = to_numpy(std::move(paths.extra_begin));
  result["extra_count"] = to_numpy(std::move(paths.extra_count));
  result["extra"] = to_numpy(flatten(paths.extra));
  return result;
}

}  // namespace

void bind_paths(nb::module_& module) {
  module.def("extract_paths", &extract_paths, nb::arg("forest"), nb::arg("codes"),
             "Paths of a forest with duplicate features merged, element after element.");
  module.def(
      "pack_paths",
      [](Vector<int32_t> sizes, int heuristic) {
        std::vector<int32_t> bins;
        {
          const Released release;
          bins = pack(view(sizes), Heuristic(heuristic));
        }
        return to_numpy(std::move(bins));
      },
      nb::arg("sizes"), nb::arg("heuristic"),
      "Bin of each item: 0 none, 1 next fit, 2 first and 3 best fit decreasing.");
}

}  // namespace glasswood
