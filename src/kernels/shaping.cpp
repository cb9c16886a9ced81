#include "kernels/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "attune/core/error.h"
#include "kernels/broadcast.h"

namespace attune::kernels {
namespace {

using Numbers = std::array<std::int64_t, Shape::kMaxRank>;

std::size_t bytes_of_elements(std::int64_t count, std::size_t size) {
  return static_cast<std::size_t>(count) * size;
}

// The axes of y from outermost: extent, and elements of x from one index to the next. Axes that x
// holds side by side are merged, extents of 1 dropped.
struct Permutation {
  int rank = 0;
  Numbers extents{};
  Numbers steps{};
};

Permutation permutation(const Shape& x, std::span<const int> order) {
  Numbers x_steps{};
  std::int64_t below = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    x_steps[static_cast<std::size_t>(axis)] = below;
    below *= x[axis];
  }
  Permutation result;
  for (const int from : order) {
    if (x[from] == 1) continue;
    const std::int64_t step = x_steps[static_cast<std::size_t>(from)];
    const auto last = static_cast<std::size_t>(result.rank - 1);
    if (result.rank > 0 && result.steps[last] == step * x[from]) {
      result.extents[last] *= x[from];
      result.steps[last] = step;
    } else {
      const auto next = static_cast<std::size_t>(result.rank++);
      result.extents[next] = x[from];
      result.steps[next] = step;
    }
  }
  return result;
}

// One matrix of the permutation: y[i * y_step + j] = x[i + j * x_step], in tiles that stay in the
// cache.
template <class T>
void transpose_matrix(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t columns,
                      T* y, std::int64_t y_step) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t row = 0; row < rows; row += kTile) {
    const std::int64_t row_end = std::min(row + kTile, rows);
    for (std::int64_t column = 0; column < columns; column += kTile) {
      const std::int64_t column_end = std::min(column + kTile, columns);
      for (std::int64_t i = row; i < row_end; ++i) {
        for (std::int64_t j = column; j < column_end; ++j) y[i * y_step + j] = x[i + j * x_step];
      }
    }
  }
}

// Moves the axis on which x steps by 1 beside the last one of y, so that both run through
// transpose_matrix(), or copies runs where it is the last. y_steps are those of y's own axes.
template <class T>
void permute(const T* x, T* y, const Permutation& axes) {
  const int rank = axes.rank;
  const auto last = static_cast<std::size_t>(rank - 1);
  Numbers y_steps{};
  std::int64_t below = 1;
  std::size_t unit = last;  // the axis on which x steps by 1
  for (std::size_t axis = last + 1; axis-- > 0;) {
    y_steps[axis] = below;
    below *= axes.extents[axis];
    if (axes.steps[axis] == 1) unit = axis;
  }
  BroadcastPlan<2> outer;
  for (std::size_t axis = 0; axis < last; ++axis) {
    if (axis == unit) continue;
    const auto next = static_cast<std::size_t>(outer.rank++);
    outer.extents[next] = axes.extents[axis];
    outer.steps[next] = {axes.steps[axis], y_steps[axis]};
  }
  walk(outer, outer.rank, [&](const std::array<std::int64_t, 2>& offsets) {
    const T* from = x + offsets[0];
    T* to = y + offsets[1];
    if (unit == last) {
      std::memcpy(to, from, bytes_of_elements(axes.extents[last], sizeof(T)));
    } else {
      transpose_matrix(from, axes.steps[last], axes.extents[unit], axes.extents[last], to,
                       y_steps[unit]);
    }
  });
}

// A part [.., extent, ..] and the whole [.., whole, ..] around an axis, as runs of elements.
struct Runs {
  std::int64_t count = 1;  // runs in each
  std::int64_t part = 1;   // elements of a run of the part
  std::int64_t whole = 1;
  std::int64_t offset = 0;  // of the part's run in the whole's
};

Runs runs(const Shape& part, const Shape& whole, std::size_t axis, std::int64_t begin) {
  Runs result;
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < part.extents().size(); ++i) {
    if (i < axis) result.count *= part.extents()[i];
    if (i > axis) inner *= part.extents()[i];
  }
  result.part = part.extents()[axis] * inner;
  result.whole = whole.extents()[axis] * inner;
  result.offset = begin * inner;
  return result;
}

}  // namespace

Array transpose(const Array& x, std::span<const int> order) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (std::size_t i = 0; i < order.size(); ++i) extents[i] = x.shape()[order[i]];
  const Shape shape(std::span<const std::int64_t>(extents.data(), order.size()));
  const Permutation axes = permutation(x.shape(), order);
  if (axes.rank <= 1) return x.reshaped(shape);
  Array y = Array::uninitialized(shape, x.dtype());
  if (x.size() == 0) return y;
  dispatch(x.dtype(),
           [&]<class T>() { permute(x.data<T>().data(), y.mutable_data<T>().data(), axes); });
  return y;
}

Array slice(const Array& x, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Array y = Array::uninitialized(x.shape().with(static_cast<int>(axis), end - begin), x.dtype());
  const Runs run = runs(y.shape(), x.shape(), axis, begin);
  if (y.size() == 0) return y;
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data() + run.offset;
    T* to = y.mutable_data<T>().data();
    for (std::int64_t i = 0; i < run.count; ++i, from += run.whole, to += run.part) {
      std::memcpy(to, from, bytes_of_elements(run.part, sizeof(T)));
    }
  });
  return y;
}
void slice_backward(const Array& dy, std::size_t axis, std::int64_t begin, Array& dx) {
  const Runs run = runs(dy.shape(), dx.shape(), axis, begin);
  if (dy.size() == 0) return;
  dispatch(dy.dtype(), [&]<class T>() {
    const T* from = dy.data<T>().data();
    T* to = dx.mutable_data<T>().data() + run.offset;
    for (std::int64_t i = 0; i < run.count; ++i, from += run.part, to += run.whole) {
#pragma omp simd
      for (std::int64_t j = 0; j < run.part; ++j) to[j] += from[j];
    }
  });
}

void paste(const Array& part, std::size_t axis, std::int64_t begin, Array& y) {
  const Runs run = runs(part.shape(), y.shape(), axis, begin);
  if (part.size() == 0) return;
  dispatch(part.dtype(), [&]<class T>() {
    const T* from = part.data<T>().data();
    T* to = y.mutable_data<T>().data() + run.offset;
    for (std::int64_t i = 0; i < run.count; ++i, from += run.part, to += run.whole) {
      std::memcpy(to, from, bytes_of_elements(run.part, sizeof(T)));
    }
  });
}

Array broadcast_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  bool fits = x.shape().rank() <= shape.rank();
  for (int axis = 1; fits && axis <= x.shape().rank(); ++axis) {
    fits = x.shape()[-axis] == shape[-axis] || x.shape()[-axis] == 1;
  }
  if (!fits) {
    throw ShapeError(fmt::format("broadcast_to: {} does not broadcast to {}", to_string(x.shape()),
                                 to_string(shape)));
  }
  return dispatch(x.dtype(), [&]<class T>() {
    return map_broadcast<T, 1>(shape, {&x}, [](T value) { return value; });
  });
}

void fill_zero(Array& x) {
  dispatch(x.dtype(), [&]<class T>() {
    for (T& value : x.mutable_data<T>()) value = 0;
  });
}

}  // namespace attune::kernels
