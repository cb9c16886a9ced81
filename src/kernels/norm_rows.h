#pragma once

#include <concepts>
#include <cstdint>

#include "attune/array/array.h"
#include "kernels/simd_batch.h"

// What the normalisations share: where their rows come from, and sums over rows.
namespace attune::kernels {

// sum = a + b over a row; sum may be a.
template <std::floating_point T>
inline void add_rows(const T* a, const T* b, std::int64_t n, T* sum) {
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    access.store(sum + i, access.load(a + i, T(0)) + access.load(b + i, T(0)));
  });
}

// The rows of x, one below the other.
template <std::floating_point T>
class Rows final {
 public:
  explicit Rows(const Array& x) : data_(x.data<T>().data()), width_(x.shape().last()) {}
  const T* operator[](std::int64_t row) const { return data_ + row * width_; }

 private:
  const T* data_;
  std::int64_t width_;
};

// The rows of x + branch, each written into `sum` when it is asked for, which is once.
template <std::floating_point T>
class SumRows final {
 public:
  SumRows(const Array& x, const Array& branch, Array& sum)
      : x_(x), branch_(branch), sum_(sum.mutable_data<T>().data()), width_(x.shape().last()) {}
  const T* operator[](std::int64_t row) const {
    T* sum = sum_ + row * width_;
    add_rows(x_[row], branch_[row], width_, sum);
    return sum;
  }

 private:
  Rows<T> x_;
  Rows<T> branch_;
  T* sum_;
  std::int64_t width_;
};

// The parameter, or what a null one stands for.
[[nodiscard]] inline Array or_full(const Array& parameter, std::int64_t n, double value,
                                   DType dtype) {
  return parameter.is_null() ? Array::full({n}, value, dtype) : parameter;
}

// Column sums over rows, in row order: up to kBlock rows in T, the blocks in double.
template <std::floating_point T>
class ColumnSums final {
 public:
  static constexpr std::int64_t kBlock = 32;

  explicit ColumnSums(std::int64_t columns)
      : block_(Array::zeros({columns}, dtype_of<T>)),
        total_(Array::zeros({columns}, DType::float64)) {}
  // Where the caller adds one row; then it calls next_row().
  [[nodiscard]] T* row() { return block_.mutable_data<T>().data(); }
  void next_row() {
    if (++rows_ % kBlock == 0) flush();
  }
  [[nodiscard]] Array finish() {
    flush();
    return total_.cast(dtype_of<T>);
  }

 private:
  void flush() {
    T* block = row();
    double* total = total_.mutable_data<double>().data();
    const std::int64_t n = total_.size();
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      total[i] += static_cast<double>(block[i]);
      block[i] = T(0);
    }
  }

  Array block_;
  Array total_;
  std::int64_t rows_ = 0;
};

}  // namespace attune::kernels
