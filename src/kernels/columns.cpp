#include "kernels/columns.h"

namespace attune::kernels {
namespace {

// row(columns, r) for each row r = (b, h, i) of x, where `columns` begins with the row's first.
template <class Row>
void for_each_row(const Array& x, std::span<const std::int32_t> columns, const Shape& shape,
                  Row row) {
  const std::int64_t heads = x.shape()[1], queries = x.shape()[2];
  for (std::int64_t b = 0, r = 0; b < x.shape()[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t plane = (shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : h);
      for (std::int64_t i = 0; i < queries; ++i, ++r) {
        row(columns.data() + (plane * queries + i) * shape[3], r);
      }
    }
  }
}

}  // namespace

// y[b, h, i, j] = x[b, h, i, columns[b, h, i, j]]
Array take_columns(const Array& x, std::span<const std::int32_t> columns, const Shape& shape) {
  Array y = Array::uninitialized(x.shape().with(3, shape[3]), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    const std::int64_t n = x.shape()[3], keys = shape[3];
    for_each_row(x, columns, shape, [&](const std::int32_t* column, std::int64_t r) {
      for (std::int64_t j = 0; j < keys; ++j) to[r * keys + j] = from[r * n + column[j]];
    });
  });
  return y;
}

// y[b, h, i, c] = sum of x[b, h, i, j] over all j with columns[b, h, i, j] = c
Array sum_columns(const Array& x, std::span<const std::int32_t> columns, const Shape& shape,
                  std::int64_t n) {
  Array y = Array::zeros(x.shape().with(3, n), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    const std::int64_t keys = shape[3];
    for_each_row(x, columns, shape, [&](const std::int32_t* column, std::int64_t r) {
      for (std::int64_t j = 0; j < keys; ++j) to[r * n + column[j]] += from[r * keys + j];
    });
  });
  return y;
}

}  // namespace attune::kernels
