#include "kernels/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace attune::kernels {
namespace {

std::int64_t row_size(const Shape& table) {
  std::int64_t size = 1;
  for (int axis = 1; axis < table.rank(); ++axis) size *= table[axis];
  return size;
}

}  // namespace

Shape gathered_shape(const Shape& table, const Shape& shape) {
  std::array<std::int64_t, 2 * Shape::kMaxRank> extents{};
  auto* end = std::copy(shape.begin(), shape.end(), extents.data());
  end = std::copy(table.begin() + 1, table.end(), end);
  return Shape(std::span<const std::int64_t>(extents.data(), end));
}

Array gather_rows(const Array& table, std::span<const std::int32_t> indices, const Shape& shape) {
  Array y = Array::uninitialized(gathered_shape(table.shape(), shape), table.dtype());
  if (y.size() == 0) return y;
  const std::int64_t size = row_size(table.shape());
  dispatch(table.dtype(), [&]<class T>() {
    const T* rows = table.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for (const std::int32_t index : indices) {
      std::memcpy(to, rows + index * size, static_cast<std::size_t>(size) * sizeof(T));
      to += size;
    }
  });
  return y;
}

Array embedding(const Array& table, std::span<const std::int32_t> indices, const Shape& shape,
                double scale, const Array& added) {
  if (added.is_null() && scale == 1) return gather_rows(table, indices, shape);
  Array y = Array::uninitialized(gathered_shape(table.shape(), shape), table.dtype());
  if (y.size() == 0) return y;
  const std::int64_t size = row_size(table.shape());
  dispatch(table.dtype(), [&]<class T>() {
    const T* rows = table.data<T>().data();
    const auto terms = added.is_null() ? std::span<const T>() : added.data<T>();
    const T factor = static_cast<T>(scale);
    T* to = y.mutable_data<T>().data();
    std::size_t at = 0;
    for (const std::int32_t index : indices) {
      const T* row = rows + index * size;
#pragma omp simd
      for (std::int64_t j = 0; j < size; ++j) to[j] = factor * row[j];
      if (!terms.empty()) {
        // A term of fewer numbers than a row repeats within it, a whole number of times.
        const auto count = std::min(size, static_cast<std::int64_t>(terms.size()));
        for (std::int64_t begin = 0; begin < size; begin += count) {
          const T* term = terms.data() + at;
          T* part = to + begin;
#pragma omp simd
          for (std::int64_t j = 0; j < count; ++j) part[j] += term[j];
        }
        at = (at + static_cast<std::size_t>(size)) % terms.size();
      }
      to += size;
    }
  });
  return y;
}

void gather_rows_backward(const Array& dy, std::span<const std::int32_t> indices, Array& dtable,
                          double scale) {
  if (dy.size() == 0) return;
  const std::int64_t size = row_size(dtable.shape());
  dispatch(dy.dtype(), [&]<class T>() {
    const T* from = dy.data<T>().data();
    T* rows = dtable.mutable_data<T>().data();
    const T factor = static_cast<T>(scale);
    for (const std::int32_t index : indices) {
      T* row = rows + index * size;
#pragma omp simd
      for (std::int64_t j = 0; j < size; ++j) row[j] += factor * from[j];
      from += size;
    }
  });
}

}  // namespace attune::kernels
