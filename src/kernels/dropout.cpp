#include "kernels/dropout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace attune::kernels {
namespace {

// y = x factor, 0 where factor is 0, whatever x holds. y may be x.
template <std::floating_point T>
void apply_factor(const T* x, const T* factor, T* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = factor[i] == T(0) ? T(0) : x[i] * factor[i];
}

template <std::floating_point T>
void drop_run(const T* x, const std::uint32_t* words, std::uint32_t limit, T kept, T* y, T* factor,
              std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T product = x[i] * kept;
    factor[i] = words[i] < limit ? T(0) : kept;
    y[i] = words[i] < limit ? T(0) : product;
  }
}

// Words of a matrix whose rows are padded to a multiple of 4, a piece at a time that stays in the
// first-level cache; `use(position, words, count)` is called with runs of elements at consecutive
// positions of the unpadded matrix.
template <class Use>
void for_each_run_of_words(const RandomStream& stream, std::int64_t first_row, std::int64_t rows,
                           std::int64_t columns, Use use) {
  constexpr std::int64_t kPiece = 2048;
  std::array<std::uint32_t, kPiece> words;
  const std::int64_t padded = (columns + 3) / 4 * 4;
  const auto first_index =
      static_cast<std::uint64_t>(first_row) * static_cast<std::uint64_t>(padded / 4);
  for (std::int64_t begin = 0; begin < rows * padded; begin += kPiece) {
    const std::int64_t end = std::min(begin + kPiece, rows * padded);
    stream.fill(first_index + static_cast<std::uint64_t>(begin / 4),
                std::span(words.data(), static_cast<std::size_t>(end - begin)));
    if (padded == columns) {
      use(begin, words.data(), end - begin);
      continue;
    }
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t row = at / padded;
      const std::int64_t column = at % padded;
      const std::int64_t row_end = std::min(end, (row + 1) * padded);
      const std::int64_t valid = std::min(row_end - at, columns - column);
      if (valid > 0) use(row * columns + column, words.data() + (at - begin), valid);
      at = row_end;
    }
  }
}

}  // namespace

Dropout dropout(const Array& x, double rate, const RandomStream& stream, std::int64_t first_row) {
  Dropout result{Array::uninitialized(x.shape(), x.dtype()),
                 Array::uninitialized(x.shape(), x.dtype())};
  const auto threshold = static_cast<std::uint64_t>(std::llround(std::ldexp(rate, 32)));
  const bool drops_all = threshold > 0xFFFFFFFFu;
  dispatch(x.dtype(), [&]<class T>() {
    T* y = result.y.mutable_data<T>().data();
    T* factor = result.factor.mutable_data<T>().data();
    const T* in = x.data<T>().data();
    if (drops_all) {
      std::fill_n(factor, x.size(), T(0));
      std::fill_n(y, x.size(), T(0));
      return;
    }
    const auto limit = static_cast<std::uint32_t>(threshold);
    const T kept = static_cast<T>(1 / (1 - rate));
    const auto use = [=](std::int64_t position, const std::uint32_t* words, std::int64_t count) {
      drop_run(in + position, words, limit, kept, y + position, factor + position, count);
    };
    for_each_run_of_words(stream, first_row, x.shape().rows(), x.shape().last(), use);
  });
  return result;
}

Array dropout_backward(const Array& factor, const Array& dy) {
  Array dx = Array::uninitialized(dy.shape(), dy.dtype());
  dispatch(dy.dtype(), [&]<class T>() {
    apply_factor(dy.data<T>().data(), factor.data<T>().data(), dx.mutable_data<T>().data(),
                 dy.size());
  });
  return dx;
}

}  // namespace attune::kernels
