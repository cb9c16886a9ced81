#include "kernels/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "attune/core/error.h"

namespace attune::kernels {
namespace {

// Enough partial sums to hide the latency of the addition.
constexpr std::int64_t kPartialSums = 16;

template <class T, class F>
double sum_mapped(const T* x, std::int64_t size, F f) {
  std::array<double, kPartialSums> lanes{};
  const std::int64_t whole = size / kPartialSums * kPartialSums;
  for (std::int64_t i = 0; i < whole; i += kPartialSums) {
#pragma GCC unroll 16
    for (std::int64_t lane = 0; lane < kPartialSums; ++lane) {
      lanes[static_cast<std::size_t>(lane)] += f(static_cast<double>(x[i + lane]));
    }
  }
  for (std::int64_t i = whole; i < size; ++i) {
    lanes[static_cast<std::size_t>(i - whole)] += f(static_cast<double>(x[i]));
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <class T>
double sum_row(const T* x, std::int64_t size) {
  return sum_mapped(x, size, [](double value) { return value; });
}

// x: [rows, columns] -> y: [columns], times the factor
template <class T>
void sum_columns(const T* x, std::int64_t rows, std::int64_t columns, double factor, T* y) {
  constexpr std::int64_t kBlock = 256;
  std::array<double, kBlock> sums;
  for (std::int64_t begin = 0; begin < columns; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, columns - begin);
    double* sum = sums.data();
    std::fill(sum, sum + width, 0.0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = x + row * columns + begin;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) sum[j] += static_cast<double>(from[j]);
    }
    for (std::int64_t j = 0; j < width; ++j) y[begin + j] = static_cast<T>(factor * sum[j]);
  }
}

// The shape with ones in front, so that it has this rank.
std::array<std::int64_t, Shape::kMaxRank> padded(const Shape& shape, int rank) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  const int missing = rank - shape.rank();
  for (int axis = 0; axis < rank; ++axis) {
    extents[static_cast<std::size_t>(axis)] = axis < missing ? 1 : shape[axis - missing];
  }
  return extents;
}

void require_broadcasts(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int axis = 1; fits && axis <= from.rank(); ++axis) {
    fits = from[-axis] == to[-axis] || from[-axis] == 1;
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("sum_to: {} is not broadcast from {}", to_string(to), to_string(from)));
  }
}

}  // namespace

template <std::floating_point T>
void add_run(const T* x, T* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}
template void add_run(const float*, float*, std::int64_t);
template void add_run(const double*, double*, std::int64_t);

void add_into(Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    throw ShapeError(fmt::format("add_into: {} {} += {} {}, expected equal shapes and dtypes",
                                 to_string(a.dtype()), to_string(a.shape()), to_string(b.dtype()),
                                 to_string(b.shape())));
  }
  dispatch(a.dtype(),
           [&]<class T>() { add_run(b.data<T>().data(), a.mutable_data<T>().data(), a.size()); });
}

template <std::floating_point T>
void sum_middle(const T* x, std::int64_t outer, std::int64_t extent, std::int64_t inner, T* y,
                double factor) {
  for (std::int64_t o = 0; o < outer; ++o) {
    const T* from = x + o * extent * inner;
    if (inner == 1) {
      y[o] = static_cast<T>(factor * sum_row(from, extent));
    } else {
      sum_columns(from, extent, inner, factor, y + o * inner);
    }
  }
}
template void sum_middle(const float*, std::int64_t, std::int64_t, std::int64_t, float*, double);
template void sum_middle(const double*, std::int64_t, std::int64_t, std::int64_t, double*, double);

Array sum_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require_broadcasts(shape, x.shape());
  const int rank = x.shape().rank();
  const auto kept = padded(shape, rank);
  std::array<std::int64_t, Shape::kMaxRank> extents = padded(x.shape(), rank);
  Array sum = x;
  // Runs of neighbouring summed axes go together, the innermost first: it leaves least to do.
  for (int axis = rank - 1; axis >= 0; --axis) {
    const auto last = static_cast<std::size_t>(axis);
    if (kept[last] == extents[last]) continue;
    std::int64_t extent = extents[last];
    extents[last] = 1;
    while (axis > 0 && kept[static_cast<std::size_t>(axis - 1)] == 1) {
      extent *= std::exchange(extents[static_cast<std::size_t>(--axis)], 1);
    }
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (int i = 0; i < axis; ++i) outer *= extents[static_cast<std::size_t>(i)];
    for (int i = axis; i < rank; ++i) inner *= extents[static_cast<std::size_t>(i)];
    Array next = Array::uninitialized(
        Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank))),
        x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      sum_middle<T>(sum.data<T>().data(), outer, extent, inner, next.mutable_data<T>().data());
    });
    sum = std::move(next);
  }
  return sum.reshaped(shape);
}

double sum_all(const Array& x) {
  return dispatch(x.dtype(), [&]<class T>() { return sum_row(x.data<T>().data(), x.size()); });
}

template <std::floating_point T>
double sum_of_squares_run(const T* x, std::int64_t count) {
  return sum_mapped(x, count, [](double value) { return value * value; });
}
template double sum_of_squares_run(const float*, std::int64_t);
template double sum_of_squares_run(const double*, std::int64_t);

template <std::floating_point T>
double sum_of_square_differences_run(const T* x, const T* y, std::int64_t count) {
  std::array<double, kPartialSums> lanes{};
  for (std::int64_t begin = 0; begin < count; begin += kPartialSums) {
    const std::int64_t width = std::min(kPartialSums, count - begin);
#pragma omp simd
    for (std::int64_t lane = 0; lane < width; ++lane) {
      const double difference =
          static_cast<double>(x[begin + lane]) - static_cast<double>(y[begin + lane]);
      lanes[static_cast<std::size_t>(lane)] += difference * difference;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}
template double sum_of_square_differences_run(const float*, const float*, std::int64_t);
template double sum_of_square_differences_run(const double*, const double*, std::int64_t);

template <std::floating_point T>
void largest_magnitude_run(const T* x, T* largest, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T magnitude = std::abs(x[i]);
    largest[i] = magnitude > largest[i] ? magnitude : largest[i];
  }
}
template void largest_magnitude_run(const float*, float*, std::int64_t);
template void largest_magnitude_run(const double*, double*, std::int64_t);

double sum_of_squares(const Array& x) {
  return dispatch(x.dtype(),
                  [&]<class T>() { return sum_of_squares_run(x.data<T>().data(), x.size()); });
}

// An exponent of all ones is an infinity or a NaN.
bool all_finite(const Array& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits kExponent = sizeof(T) == 4 ? Bits{0x7f800000} : Bits(0x7ff0000000000000);
    constexpr std::int64_t kBlock = 4096;
    const T* values = x.data<T>().data();
    for (std::int64_t begin = 0; begin < x.size(); begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, x.size());
      Bits found = 0;
#pragma omp simd reduction(| : found)
      for (std::int64_t i = begin; i < end; ++i) {
        const Bits exponent = std::bit_cast<Bits>(values[i]) & kExponent;
        found |= exponent == kExponent ? Bits{1} : Bits{0};
      }
      if (found != 0) return false;
    }
    return true;
  });
}

}  // namespace attune::kernels
