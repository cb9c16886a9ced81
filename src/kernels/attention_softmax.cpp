#include "kernels/attention_softmax.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/simd_batch.h"
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

// What rows add to a head's statistics, summed up with a row a lane.
template <class T>
struct RowTotals {
  const Batch<T> zero = Batch<T>(T(0));
  Batch<T> valid = zero, violations = zero;
  Batch<T> entropy = zero, log_keys = zero, normalized = zero, effective_keys = zero;
  Batch<T> max_probability = zero, distance = zero;
  Batch<T> score = zero, score_square = zero, score_variance = zero, score_count = zero;
  Batch<T> score_max_abs = zero;

  void add(const RowSums<T>* rows);
  void add_to(HeadStatistics& statistics) const;
};

// H = ln Z - U / Z. With t = s - m the sums of s and s^2 are n m + sum t and
// n m^2 + 2 m sum t + sum t^2, and the variance within the row is that of t. A row that is not
// valid goes along as one of two keys and weighs nothing. max() takes its second operand where one
// is NaN.
template <class T>
void RowTotals<T>::add(const RowSums<T>* rows) {
  const Batch<T> one(T(1)), two(T(2));
  Batch<T> column[8];
  load_columns(&rows->partition, column);
  const auto is_valid = column[1] >= two;
  const auto kept = [&](const Batch<T>& x) { return xsimd::select(is_valid, x, zero); };
  const Batch<T> z = xsimd::select(is_valid, column[0], one);
  const Batch<T> n = xsimd::select(is_valid, column[1], two);
  const Batch<T> u = kept(column[2]), t1 = kept(column[3]), t2 = kept(column[4]);
  const Batch<T> m = kept(column[6]), lowest = kept(column[7]);
  const Batch<T> weight = one / z;  // the largest of the row: e^0 / Z
  const Batch<T> per_key = one / n;

  const Batch<T> log_n = xsimd::log(n);
  const Batch<T> h = xsimd::log(z) - u * weight;
  const Batch<T> rounding(static_cast<T>(kEntropyRounding<T>));
  const auto is_sound = h >= -rounding && h <= log_n + rounding;
  const Batch<T> inside = xsimd::select(h < zero, zero, xsimd::select(h > log_n, log_n, h));
  valid += kept(one);
  violations += xsimd::select(is_sound, zero, one);
  entropy += kept(inside);
  log_keys += kept(log_n);
  normalized += kept(inside / log_n);
  effective_keys += kept(batch_exp(inside));
  max_probability += kept(weight);
  distance += kept(column[5]) * weight;

  const Batch<T> mean = t1 * per_key;
  const Batch<T> count = kept(n);
  score += count * m + t1;
  score_square += (count * m + two * t1) * m + t2;
  score_variance += xsimd::max(t2 * per_key - mean * mean, zero);
  score_count += count;
  score_max_abs = xsimd::max(xsimd::max(xsimd::abs(m), xsimd::abs(m + lowest)), score_max_abs);
}

template <class T>
void RowTotals<T>::add_to(HeadStatistics& statistics) const {
  const Batch<T> first[8] = {entropy,        log_keys, normalized, max_probability,
                             effective_keys, distance, valid,      violations};
  const Batch<T> second[8] = {score, score_square, score_variance, score_count,
                              zero,  zero,         zero,           zero};
  T sums[8], score_sums[8];
  lane_sums(first, sums);
  lane_sums(second, score_sums);
  const auto add = [](double& sum, T part) { sum += static_cast<double>(part); };
  add(statistics.entropy_sum, sums[0]);
  add(statistics.log_keys_sum, sums[1]);
  add(statistics.normalized_sum, sums[2]);
  add(statistics.max_probability_sum, sums[3]);
  add(statistics.effective_keys_sum, sums[4]);
  add(statistics.distance_sum, sums[5]);
  add(statistics.score_sum, score_sums[0]);
  add(statistics.score_square_sum, score_sums[1]);
  add(statistics.score_row_variance_sum, score_sums[2]);
  add(statistics.score_count, score_sums[3]);
  statistics.score_max_abs =
      std::max(statistics.score_max_abs, static_cast<double>(lane_max(score_max_abs)));
  statistics.rows_valid += static_cast<std::int64_t>(sums[6]);
  statistics.violations += static_cast<std::int64_t>(sums[7]);
}

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
void weights_row(T* row, std::int64_t n, T m, T log_partition) {
  const Batch<T> shift(m), log_z(log_partition);
  for (std::int64_t j = 0; j < n; j += kLanes<T>)
    batch_exp((Batch<T>::load_unaligned(row + j) - shift) - log_z).store_unaligned(row + j);
}

template <std::floating_point T>
RowSums<T> exponential_row_sums(T* row, std::int64_t n, T m, std::int64_t position) {
  const Batch<T> shift(m);
  const Batch<T> nothing(T(0));
  const Batch<T> one(T(1));
  const Batch<T> dropped(-std::numeric_limits<T>::infinity());
  const Batch<T> step(static_cast<T>(kLanes<T>));
  Batch<T> offset = ascending_lanes<T>() - Batch<T>(static_cast<T>(position));
  Batch<T> sums[8] = {nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing};
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
  T totals[8];
  lane_sums(sums, totals);
  return {.partition = totals[0],
          .keys = totals[1],
          .weighted = totals[2],
          .shifted = totals[3],
          .shifted_square = totals[4],
          .distance = totals[5],
          .largest = m,
          .lowest = -lane_max(Batch<T>(-low))};
}

template <std::floating_point T>
void softmax_row(T* row, std::int64_t n) {
  scale_row(row, n, exponential_row(row, n, shift_of(row_max(row, n))));
}

template <std::floating_point T>
RowSums<T> softmax_row_sums(T* row, std::int64_t n, std::int64_t position) {
  const RowSums<T> sums = exponential_row_sums(row, n, shift_of(row_max(row, n)), position);
  scale_row(row, n, sums.partition);
  return sums;
}

template <std::floating_point T>
void add_rows(std::span<const RowSums<T>> rows, HeadStatistics& statistics) {
  constexpr auto kTogether = static_cast<std::size_t>(kLanes<T>);
  const std::int64_t valid_before = statistics.rows_valid;
  RowTotals<T> totals;
  std::size_t r = 0;
  for (; r + kTogether <= rows.size(); r += kTogether) totals.add(&rows[r]);
  if (r < rows.size()) {
    RowSums<T> padded[kTogether];  // the others keep no key
    std::ranges::copy(rows.subspan(r), padded);
    totals.add(padded);
  }
  totals.add_to(statistics);
  const auto count = static_cast<std::int64_t>(rows.size());
  if (statistics.rows_valid - valid_before == count) return;
  for (const RowSums<T>& row : rows) {
    statistics.rows_empty += row.keys == 0;
    statistics.rows_single += row.keys == 1;
  }
}

template void add_rows<float>(std::span<const RowSums<float>>, HeadStatistics&);
template void add_rows<double>(std::span<const RowSums<double>>, HeadStatistics&);
template float row_max<float>(const float*, std::int64_t);
template float exponential_row<float>(float*, std::int64_t, float);
template void weights_row<float>(float*, std::int64_t, float, float);
template RowSums<float> exponential_row_sums<float>(float*, std::int64_t, float, std::int64_t);
template void softmax_row<float>(float*, std::int64_t);
template double row_max<double>(const double*, std::int64_t);
template double exponential_row<double>(double*, std::int64_t, double);
template void weights_row<double>(double*, std::int64_t, double, double);
template RowSums<double> exponential_row_sums<double>(double*, std::int64_t, double, std::int64_t);
template void softmax_row<double>(double*, std::int64_t);
template RowSums<float> softmax_row_sums<float>(float*, std::int64_t, std::int64_t);
template RowSums<double> softmax_row_sums<double>(double*, std::int64_t, std::int64_t);

}  // namespace attune::kernels
