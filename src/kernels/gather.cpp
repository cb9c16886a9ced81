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

Shape gathered(const Shape& table, const Shape& shape) {
  std::array<std::int64_t, 2 * Shape::kMaxRank> extents{};
  auto* end = std::copy(shape.begin(), shape.end(), extents.data());
  end = std::copy(table.begin() + 1, table.end(), end);
  return Shape(std::span<const std::int64_t>(extents.data(), end));
}

}  // namespace

Array gather_rows(const Array& table, std::span<const std::int32_t> indices, const Shape& shape) {
  Array y = Array::uninitialized(gathered(table.shape(), shape), table.dtype());
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

void gather_rows_backward(const Array& dy, std::span<const std::int32_t> indices, Array& dtable) {
  if (dy.size() == 0) return;
  const std::int64_t size = row_size(dtable.shape());
  dispatch(dy.dtype(), [&]<class T>() {
    const T* from = dy.data<T>().data();
    T* rows = dtable.mutable_data<T>().data();
    for (const std::int32_t index : indices) {
      T* row = rows + index * size;
#pragma omp simd
      for (std::int64_t j = 0; j < size; ++j) row[j] += from[j];
      from += size;
    }
  });
}

}  // namespace attune::kernels
