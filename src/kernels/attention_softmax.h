#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "attune/core/attention_statistics.h"

// The normalising stage of attention: one row of scores to weights, in place, and what the entropy
// log wants to know of it.
namespace attune::kernels {

// Sums over the kept keys j of one row, with t_j = s_j - m and e_j = e^(t_j).
template <std::floating_point T>
struct RowSums {
  T partition = 0;       // Z = sum e_j
  T keys = 0;            // n
  T weighted = 0;        // U = sum e_j t_j, so that the entropy is ln Z - U / Z
  T shifted = 0;         // sum t_j
  T shifted_square = 0;  // sum t_j^2
  T distance = 0;        // sum e_j |j - position|
  T largest = 0;         // m
  T lowest = 0;          // min t_j

  template <std::floating_point U>
  explicit operator RowSums<U>() const {
    const auto as = [](T x) { return static_cast<U>(x); };
    return {as(partition),      as(keys),     as(weighted), as(shifted),
            as(shifted_square), as(distance), as(largest),  as(lowest)};
  }
};

// The largest of n scores in whole panels; -inf for a row that keeps nothing.
template <std::floating_point T>
[[nodiscard]] T row_max(const T* row, std::int64_t n);

// row[j] = e^(row[j] - m) for n scores in whole panels; -inf becomes exactly 0. Returns their sum
// Z.
template <std::floating_point T>
T exponential_row(T* row, std::int64_t n, T m);
// row[j] = e^((row[j] - m) - log_partition): the weights again, from a row's maximum and ln Z.
// Apart, they keep their digits where scores are large.
template <std::floating_point T>
void weights_row(T* row, std::int64_t n, T m, T log_partition);
// The same, bit for bit, and all its sums; `position` is the query's place among the columns.
template <std::floating_point T>
[[nodiscard]] RowSums<T> exponential_row_sums(T* row, std::int64_t n, T m, std::int64_t position);

// row[j] = e^(row[j] - m) / Z, m = max row, for n scores in whole panels; -inf is not kept and
// becomes exactly 0. A row of -inf alone becomes 0.
template <std::floating_point T>
void softmax_row(T* row, std::int64_t n);
// The same, bit for bit, and its sums; `position` is the query's place among the columns.
template <std::floating_point T>
[[nodiscard]] RowSums<T> softmax_row_sums(T* row, std::int64_t n, std::int64_t position);

// How far outside [0, ln n] rounding alone may put an entropy.
template <std::floating_point T>
inline constexpr double kEntropyRounding = sizeof(T) == 4 ? 1e-5 : 1e-12;

// Adds rows to a head's statistics (spec: HeadStatistics), in the precision of their scores.
template <std::floating_point T>
void add_rows(std::span<const RowSums<T>> rows, HeadStatistics& statistics);

}  // namespace attune::kernels
