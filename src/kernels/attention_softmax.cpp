#include "kernels/attention_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "kernels/simd_batch.h"
#include "kernels/simd_math.h"
#include "kernels/small_gemm.h"

namespace attune::kernels {
namespace {

static_assert(kPanel<float> % kLanes<float> == 0 && kPanel<double> % kLanes<double> == 0);

template <class T>
void scale_row(T* row, std::int64_t n, T partition) {
  const Batch<T> factor(partition == 0 ? T(0) : T(1) / partition);
  for (std::int64_t j = 0; j < n; j += kLanes<T>)
    (Batch<T>::load_unaligned(row + j) * factor).store_unaligned(row + j);
}

// What a row's scores are shifted by: a row of -inf alone needs nothing, its e^(-inf) are 0.
template <class T>
T shift_of(T largest) {
  return largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
}

template <class T>
Batch<T> ascending_lanes() {
  alignas(64) T lanes[kLanes<T>];
  for (std::int64_t l = 0; l < kLanes<T>; ++l) lanes[l] = static_cast<T>(l);
  return Batch<T>::load_aligned(lanes);
}

// Six sums of a row, rounded up to what haddp adds up at once.
template <class T>
constexpr std::size_t kSums = std::max<std::size_t>(8, kLanes<T>);

constexpr std::size_t kMostRows = 16;

}  // namespace

template <std::floating_point T>
T row_max(const T* row, std::int64_t n) {
  Batch<T> m(-std::numeric_limits<T>::infinity());
  for (std::int64_t j = 0; j < n; j += kLanes<T>)
    m = xsimd::max(m, Batch<T>::load_unaligned(row + j));
  return lane_max(m);
}

template <std::floating_point T>
T exponential_row(T* row, std::int64_t n, T m) {
  const Batch<T> shift(m);
  Batch<T> z(T(0));
  for (std::int64_t j = 0; j < n; j += kLanes<T>) {
    const Batch<T> e = batch_exp(Batch<T>::load_unaligned(row + j) - shift);
    z += e;
    e.store_unaligned(row + j);
  }
  return lane_sum(z);
}

template <std::floating_point T>
RowSums exponential_row_sums(T* row, std::int64_t n, T m, std::int64_t position) {
  const Batch<T> shift(m);
  const Batch<T> nothing(T(0));
  const Batch<T> one(T(1));
  const Batch<T> dropped(-std::numeric_limits<T>::infinity());
  const Batch<T> step(static_cast<T>(kLanes<T>));
  Batch<T> offset = ascending_lanes<T>() - Batch<T>(static_cast<T>(position));
  Batch<T> sums[kSums<T>];
  std::fill(std::begin(sums), std::end(sums), nothing);
  Batch<T>&z = sums[0], &keys = sums[1], &u = sums[2], &t1 = sums[3], &t2 = sums[4],
  &distance = sums[5];
  Batch<T> low = nothing;
  for (std::int64_t j = 0; j < n; j += kLanes<T>, offset += step) {
    const Batch<T> s = Batch<T>::load_unaligned(row + j);
    const Batch<T> e = batch_exp(s - shift);
    z += e;
    e.store_unaligned(row + j);
    const auto kept = s != dropped;
    const Batch<T> t = xsimd::select(kept, s - shift, nothing);
    keys += xsimd::select(kept, one, nothing);
    u += e * t;
    t1 += t;
    t2 += t * t;
    low = xsimd::min(low, t);
    distance += e * xsimd::abs(offset);
  }
  // z on its own, so that it is bit for bit that of exponential_row.
  const T partition = lane_sum(z);
  alignas(64) T totals[kSums<T>];
  for (std::size_t first = 0; first < kSums<T>; first += kLanes<T>)
    xsimd::haddp(sums + first).store_aligned(totals + first);
  return {.keys = static_cast<double>(totals[1]),
          .largest = static_cast<double>(m),
          .partition = static_cast<double>(partition),
          .weighted = static_cast<double>(totals[2]),
          .shifted = static_cast<double>(totals[3]),
          .shifted_square = static_cast<double>(totals[4]),
          .lowest = -static_cast<double>(lane_max(Batch<T>(-low))),
          .distance = static_cast<double>(totals[5])};
}

template <std::floating_point T>
void softmax_row(T* row, std::int64_t n) {
  scale_row(row, n, exponential_row(row, n, shift_of(row_max(row, n))));
}

template <std::floating_point T>
RowSums softmax_row_sums(T* row, std::int64_t n, std::int64_t position) {
  const RowSums sums = exponential_row_sums(row, n, shift_of(row_max(row, n)), position);
  scale_row(row, n, static_cast<T>(sums.partition));
  return sums;
}

// H = ln Z - U / Z. With t = s - m the sums of s and s^2 are n m + sum t and
// n m^2 + 2 m sum t + sum t^2, and the variance within the row is that of t.
void add_rows(std::span<const RowSums> rows, double rounding, HeadStatistics& statistics) {
  double log_keys[kMostRows] = {}, log_partition[kMostRows] = {}, entropy[kMostRows] = {},
         effective_keys[kMostRows] = {};
  const auto count = static_cast<std::int64_t>(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    log_keys[r] = std::max(rows[r].keys, 1.0);
    log_partition[r] = rows[r].keys < 2 ? 1.0 : rows[r].partition;
  }
  log_into(log_keys, log_keys, count);
  log_into(log_partition, log_partition, count);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowSums& row = rows[r];
    if (row.keys < 2) {
      entropy[r] = 0;
      continue;
    }
    const double h = log_partition[r] - row.weighted / row.partition;
    if (!(h >= -rounding && h <= log_keys[r] + rounding)) ++statistics.violations;
    entropy[r] = std::clamp(h, 0.0, log_keys[r]);
  }
  exp_into(entropy, effective_keys, count);

  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowSums& row = rows[r];
    if (row.keys < 2) {
      ++(row.keys == 0 ? statistics.rows_empty : statistics.rows_single);
      continue;
    }
    ++statistics.rows_valid;
    const double n = row.keys;
    const double m = row.largest;
    const double mean = row.shifted / n;
    statistics.entropy_sum += entropy[r];
    statistics.log_keys_sum += log_keys[r];
    statistics.normalized_sum += entropy[r] / log_keys[r];
    statistics.effective_keys_sum += effective_keys[r];
    statistics.max_probability_sum += 1 / row.partition;
    statistics.score_sum += n * m + row.shifted;
    statistics.score_square_sum += n * m * m + 2 * m * row.shifted + row.shifted_square;
    statistics.score_row_variance_sum += std::max(0.0, row.shifted_square / n - mean * mean);
    statistics.score_count += n;
    statistics.score_max_abs =
        std::max({statistics.score_max_abs, std::abs(m), std::abs(m + row.lowest)});
    statistics.distance_sum += row.distance / row.partition;
  }
}

template float row_max<float>(const float*, std::int64_t);
template float exponential_row<float>(float*, std::int64_t, float);
template RowSums exponential_row_sums<float>(float*, std::int64_t, float, std::int64_t);
template void softmax_row<float>(float*, std::int64_t);
template double row_max<double>(const double*, std::int64_t);
template double exponential_row<double>(double*, std::int64_t, double);
template RowSums exponential_row_sums<double>(double*, std::int64_t, double, std::int64_t);
template void softmax_row<double>(double*, std::int64_t);
template RowSums softmax_row_sums<float>(float*, std::int64_t, std::int64_t);
template RowSums softmax_row_sums<double>(double*, std::int64_t, std::int64_t);

}  // namespace attune::kernels
