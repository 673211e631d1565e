// Target statistics of rows (glasswood/inputs/statistics.py): what a row's categories combine to is looked up in hash
// tables, a block of rows at a time. Where rows are many more than what their codes may combine to, that is looked up
// once, and the rows find their statistics by place.
#include <nanobind/stl/pair.h>

#include <bit>

#include "common/bindings.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"

namespace glasswood {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMostCombined = 4096, kRowsEach = 4;  // combinations that are looked up once, and rows for each
constexpr double kWorthwhile = 5e4, kLookUp = 5;        // nanoseconds: of a thread that pays, of a row in a table
constexpr uint64_t kMix = 0x4906ba494954cb65, kGolden = 0x9e3779b97f4a7c15;

template <class T, int Dimensions>
using Values = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

// Open addressing, at most half full.
class KeyTable {
 public:
  explicit KeyTable(const Values<uint64_t, 1>& keys) : n_keys_(int32_t(keys.shape(0))) {
    const uint64_t n_slots = std::bit_ceil(uint64_t(keys.shape(0)) * 2 + 2);
    shift_ = 64 - std::countr_zero(n_slots);
    slots_.assign(n_slots, {0, -1});
    for (int32_t i = 0; i < n_keys_; ++i) {
      uint64_t at = start(keys.data()[i]);
      while (slots_[at].place >= 0) at = (at + 1) & (n_slots - 1);
      slots_[at] = {keys.data()[i], i};
    }
  }
  // Its place among the keys, or their number.
  int32_t find(uint64_t key) const {
    for (uint64_t at = start(key);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.place < 0) return n_keys_;
      if (slot.key == key) return slot.place;
    }
  }

 private:
  struct Slot {
    uint64_t key;
    int32_t place;
  };
  std::vector<Slot> slots_;
  int32_t n_keys_;
  int shift_;
  uint64_t start(uint64_t key) const { return (key * kGolden) >> shift_; }
};

struct Projection {
  std::vector<int32_t> parts;
};

template <class T>
struct Lookup {
  int32_t projection;
  KeyTable table;
  std::vector<std::pair<int32_t, std::vector<T>>> columns;  // of the result, and their values by place
};

template <class T>
class StatisticRows;

// T: statistics, or their ranks among a forest's thresholds.
template <class T>
class StatisticTables {
 public:
  // projections: [parts ...]; tables: (projection, keys); columns: (table, values, one more than keys).
  StatisticTables(const std::vector<std::vector<int32_t>>& projections,
                  const std::vector<std::pair<int32_t, Values<uint64_t, 1>>>& tables,
                  const std::vector<std::pair<int32_t, Values<T, 1>>>& columns)
      : n_columns_(int64_t(columns.size())) {
    for (const auto& parts : projections) {
      projections_.push_back({parts});
      for (const int32_t part : parts) n_parts_ = std::max(n_parts_, int64_t(part) + 1);
    }
    for (const auto& [projection, keys] : tables) {
      if (projection < 0 || projection >= int32_t(projections_.size())) throw nb::value_error("no such projection");
      tables_.push_back({projection, KeyTable(keys), {}});
      n_keys_.push_back(keys.shape(0));
    }
    for (int64_t i = 0; i < n_columns_; ++i) {
      const auto& [table, values] = columns[i];
      if (table < 0 || table >= int32_t(tables_.size()) || values.shape(0) != n_keys_[table] + 1)
        throw nb::value_error("a column has the wrong table");
      tables_[table].columns.emplace_back(int32_t(i), std::vector<T>(values.data(), values.data() + values.shape(0)));
    }
  }

 private:
  friend class StatisticRows<T>;

  struct Rows {
    const int32_t* codes;  // [part][stride]
    const std::vector<Values<int32_t, 1>>& values;
    int64_t stride;
    T* out;  // [column][n_rows]
    int64_t n_rows;
  };
  // Statistics [column][combination] of the projections whose combinations are few; the last part changes fastest.
  struct Combined {
    std::vector<char> has;  // [projection]
    std::vector<std::vector<T>> statistics;
  };

  static uint64_t mix(uint64_t key, int32_t value) { return kMix * (key + kMix * uint64_t(int64_t(value))); }

  std::vector<Projection> projections_;
  std::vector<Lookup<T>> tables_;
  std::vector<size_t> n_keys_;
  int64_t n_columns_, n_parts_ = 0;

  // Keys of all combinations of a projection's values; none if they are too many for the rows.
  std::vector<uint64_t> keys_of(const Projection& projection, const std::vector<Values<int32_t, 1>>& values,
                                int64_t n_rows) const {
    const int64_t most = std::min(kMostCombined, n_rows / kRowsEach);
    std::vector<uint64_t> keys{0}, longer;
    for (const int32_t part : projection.parts) {
      const int64_t n_values = int64_t(values[part].shape(0));
      if (n_values * int64_t(keys.size()) > most) return {};
      longer.clear();
      for (const uint64_t key : keys)
        for (int64_t code = 0; code < n_values; ++code) longer.push_back(mix(key, values[part].data()[code]));
      keys.swap(longer);
    }
    return keys;
  }

  Combined combine(const std::vector<Values<int32_t, 1>>& values, int64_t n_rows) const {
    Combined result{std::vector<char>(projections_.size()), std::vector<std::vector<T>>(n_columns_)};
    std::vector<uint64_t> keys;
    int32_t combined = -1;
    for (const Lookup<T>& one : tables_) {
      if (one.projection != combined) {
        combined = one.projection;
        keys = keys_of(projections_[combined], values, n_rows);
        result.has[combined] = !keys.empty();
      }
      for (const auto& [column, known] : one.columns) result.statistics[column].reserve(keys.size());
      for (const uint64_t key : keys) {
        const int32_t place = one.table.find(key);
        for (const auto& [column, known] : one.columns) result.statistics[column].push_back(known[place]);
      }
    }
    return result;
  }

  void fill(const Rows& rows, const Combined& by_place, int64_t first, int64_t n) const {
    uint64_t key[kBlock];
    int32_t at[kBlock], combined = -1;
    uint16_t place[kBlock];
    for (const Lookup<T>& one : tables_) {
      const bool has_places = by_place.has[one.projection];
      if (one.projection != combined) {
        combined = one.projection;
        if (has_places)
          find_places(rows, projections_[combined], first, n, place);
        else
          find_keys(rows, projections_[combined], first, n, key);
      }
      if (!has_places)
        for (int64_t row = 0; row < n; ++row) at[row] = one.table.find(key[row]);
      for (const auto& [column, known] : one.columns) {
        T* target = rows.out + column * rows.n_rows + first;
        if (has_places)
          look_up(by_place.statistics[column].data(), place, n, target);
        else
          look_up(known.data(), at, n, target);
      }
    }
  }

  template <class Place>
  static void look_up(const T* statistics, const Place* place, int64_t n, T* target) {
#pragma GCC unroll 8
    for (int64_t row = 0; row < n; ++row) target[row] = statistics[place[row]];
  }

  static void find_places(const Rows& rows, const Projection& projection, int64_t first, int64_t n, uint16_t* place) {
    static_assert(kMostCombined <= 1 << 16);
    std::fill(place, place + n, 0);
    for (const int32_t part : projection.parts) {
      const int32_t* codes = rows.codes + part * rows.stride + first;
      const uint16_t n_values = uint16_t(rows.values[part].shape(0));
      for (int64_t row = 0; row < n; ++row) place[row] = uint16_t(place[row] * n_values + uint16_t(codes[row]));
    }
  }

  static void find_keys(const Rows& rows, const Projection& projection, int64_t first, int64_t n, uint64_t* key) {
    std::fill(key, key + n, 0);
    for (const int32_t part : projection.parts) {
      const int32_t* codes = rows.codes + part * rows.stride + first;
      const int32_t* values = rows.values[part].data();
      for (int64_t row = 0; row < n; ++row) key[row] = mix(key[row], values[codes[row]]);
    }
  }
};

// Rows of codes, of which some are looked up at a time.
template <class T>
class StatisticRows {
 public:
  // codes: [part][row], places among the part's values, which are sign-extended before they are combined.
  StatisticRows(const StatisticTables<T>& tables, Values<int32_t, 2> codes, std::vector<Values<int32_t, 1>> values)
      : tables_(tables), codes_(std::move(codes)), values_(std::move(values)) {
    if (int64_t(codes_.shape(0)) < tables.n_parts_) throw nb::value_error("codes has the wrong shape");
    if (values_.size() != codes_.shape(0)) throw nb::value_error("values has the wrong length");
    for (size_t part = 0; part < values_.size(); ++part) check_codes(part);
    run_interruptibly([&] { combined_ = tables.combine(values_, n_rows()); });
  }

  // Those from `first` on, as many as `out` has: [column][row].
  void look_up(int64_t first, const nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>& out,
               int n_threads) const {
    const int64_t n = int64_t(out.shape(1));
    if (int64_t(out.shape(0)) != tables_.n_columns_) throw nb::value_error("the result has the wrong shape");
    if (first < 0 || n > n_rows() - first) throw nb::value_error("no such rows");
    const typename StatisticTables<T>::Rows rows{codes_.data() + first, values_, n_rows(), out.data(), n};
    const double work = double(n) * double(tables_.tables_.size()) * kLookUp;
    run_interruptibly([&] {
      const BorrowedTeam threads(useful_threads(work / kWorthwhile, n_threads));
      share_out(threads.team(), (n + kBlock - 1) / kBlock, [&](int64_t block, int32_t) {
        tables_.fill(rows, combined_, block * kBlock, std::min(kBlock, n - block * kBlock));
      });
    });
  }

 private:
  const StatisticTables<T>& tables_;
  Values<int32_t, 2> codes_;
  std::vector<Values<int32_t, 1>> values_;
  typename StatisticTables<T>::Combined combined_;

  int64_t n_rows() const { return int64_t(codes_.shape(1)); }
  void check_codes(size_t part) const {
    const int32_t* codes = codes_.data() + int64_t(part) * n_rows();
    uint32_t largest = 0;
    for (int64_t row = 0; row < n_rows(); ++row) largest = std::max(largest, uint32_t(codes[row]));
    if (n_rows() > 0 && largest >= values_[part].shape(0)) throw nb::value_error("a code has no value");
  }
};

template <class T>
void bind_tables(nb::module_& module, const char* tables, const char* rows) {
  nb::class_<StatisticTables<T>>(module, tables, "Tables of target statistics, to look rows up in.")
      .def(nb::init<const std::vector<std::vector<int32_t>>&,
                    const std::vector<std::pair<int32_t, Values<uint64_t, 1>>>&,
                    const std::vector<std::pair<int32_t, Values<T, 1>>>&>(),
           nb::arg("projections"), nb::arg("tables"), nb::arg("columns"));
  nb::class_<StatisticRows<T>>(module, rows, "Rows of codes, (n_parts, n), of each part's values.")
      .def(nb::init<const StatisticTables<T>&, Values<int32_t, 2>, std::vector<Values<int32_t, 1>>>(),
           nb::arg("tables"), nb::arg("codes"), nb::arg("values"), nb::keep_alive<1, 2>())
      .def("look_up", &StatisticRows<T>::look_up, nb::arg("first"), nb::arg("out"), nb::arg("n_threads"),
           "What the tables hold, (n_columns, m), of m rows from `first` on.");
}

}  // namespace

void bind_statistics(nb::module_& module) {
  bind_tables<float>(module, "StatisticTables", "StatisticRows");
  bind_tables<uint8_t>(module, "RankTables", "RankRows");
}

}  // namespace glasswood
