#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "attune/core/attention_statistics.h"

// The normalising stage of attention: one row of scores to weights, in place, and what the entropy
// log wants to know of it.
namespace attune::kernels {

// Sums over the kept keys j of one row, with t_j = s_j - m and e_j = e^(t_j).
struct RowSums {
  double keys = 0;            // n
  double largest = 0;         // m
  double partition = 0;       // Z = sum e_j
  double weighted = 0;        // U = sum e_j t_j, so that the entropy is ln Z - U / Z
  double shifted = 0;         // sum t_j
  double shifted_square = 0;  // sum t_j^2
  double lowest = 0;          // min t_j
  double distance = 0;        // sum e_j |j - position|
};

// The largest of n scores in whole panels; -inf for a row that keeps nothing.
template <std::floating_point T>
[[nodiscard]] T row_max(const T* row, std::int64_t n);

// row[j] = e^(row[j] - m) for n scores in whole panels; -inf becomes exactly 0. Returns their sum
// Z.
template <std::floating_point T>
T exponential_row(T* row, std::int64_t n, T m);
// The same, bit for bit, and all its sums; `position` is the query's place among the columns.
template <std::floating_point T>
[[nodiscard]] RowSums exponential_row_sums(T* row, std::int64_t n, T m, std::int64_t position);

// row[j] = e^(row[j] - m) / Z, m = max row, for n scores in whole panels; -inf is not kept and
// becomes exactly 0. A row of -inf alone becomes 0.
template <std::floating_point T>
void softmax_row(T* row, std::int64_t n);
// The same, bit for bit, and its sums; `position` is the query's place among the columns.
template <std::floating_point T>
[[nodiscard]] RowSums softmax_row_sums(T* row, std::int64_t n, std::int64_t position);

// How far outside [0, ln n] rounding alone may put an entropy.
template <std::floating_point T>
inline constexpr double kEntropyRounding = sizeof(T) == 4 ? 1e-5 : 1e-12;

// Adds rows, at most 16 at a time, to a head's statistics (spec: HeadStatistics). `rounding` is how
// far outside [0, ln n] an entropy may fall before it counts as a violation.
void add_rows(std::span<const RowSums> rows, double rounding, HeadStatistics& statistics);

}  // namespace attune::kernels
