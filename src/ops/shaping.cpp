#include "attune/ops/shaping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "attune/autodiff/tape.h"
#include "kernels/shaping.h"
#include "ops/check.h"

namespace attune {
namespace {

using Order = std::array<int, Shape::kMaxRank>;

// The extents with their -1, if any, replaced by what x leaves for it.
Shape resolved(const Shape& x, std::span<const std::int64_t> extents) {
  const auto fail = [&] {
    return ShapeError(fmt::format("reshape: {} has {} elements and does not fit [{}]", to_string(x),
                                  x.size(), fmt::join(extents, ", ")));
  };
  std::array<std::int64_t, Shape::kMaxRank> result{};
  if (extents.size() > result.size()) throw fail();
  std::int64_t known = 1;
  std::size_t open = extents.size();
  for (std::size_t i = 0; i < extents.size(); ++i) {
    result[i] = extents[i];
    if (extents[i] == -1 && open == extents.size()) {
      open = i;
    } else if (extents[i] < 0) {
      throw fail();
    } else {
      known *= extents[i];
    }
  }
  if (open < extents.size()) {
    if (known == 0 || x.size() % known != 0) throw fail();
    result[open] = x.size() / known;
  }
  const Shape shape(std::span<const std::int64_t>(result.data(), extents.size()));
  if (shape.size() != x.size()) throw fail();
  return shape;
}

Var reshape_to(const Var& x, const Shape& shape) {
  const Shape from = x.shape();
  return record("reshape", {x}, x.value().reshaped(shape),
                [from](const Array& dy, InputGradients& dx) { dx.add(0, dy.reshaped(from)); });
}

Var transpose_by(const Var& x, const Order& order) {
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  Order inverse{};
  for (std::size_t i = 0; i < rank; ++i) {
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  return record("transpose", {x}, kernels::transpose(x.value(), std::span(order).first(rank)),
                [inverse, rank](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::transpose(dy, std::span(inverse).first(rank)));
                });
}

}  // namespace

Var reshape(const Var& x, const Shape& shape) {
  return reshape_to(x, resolved(x.shape(), shape.extents()));
}

Var reshape(const Var& x, std::initializer_list<std::int64_t> extents) {
  return reshape_to(x, resolved(x.shape(), std::span(extents.begin(), extents.size())));
}

Var transpose(const Var& x, std::initializer_list<int> order) {
  const auto fail = [&] {
    return ShapeError(fmt::format("transpose: [{}] is not an order of the axes of {}",
                                  fmt::join(order, ", "), to_string(x.shape())));
  };
  const int rank = x.shape().rank();
  if (static_cast<int>(order.size()) != rank) throw fail();
  Order axes{};
  std::array<bool, Shape::kMaxRank> seen{};
  std::size_t place = 0;
  for (const int axis : order) {
    if (axis < -rank || axis >= rank) throw fail();
    const int from_front = axis < 0 ? axis + rank : axis;
    if (std::exchange(seen[static_cast<std::size_t>(from_front)], true)) throw fail();
    axes[place++] = from_front;
  }
  return transpose_by(x, axes);
}

Var transpose(const Var& x) {
  const int rank = x.shape().rank();
  if (rank < 2) {
    throw ShapeError(
        fmt::format("transpose: {} has rank {}, expected 2 or more", to_string(x.shape()), rank));
  }
  Order axes{};
  for (int i = 0; i < rank; ++i) axes[static_cast<std::size_t>(i)] = i;
  std::swap(axes[static_cast<std::size_t>(rank - 1)], axes[static_cast<std::size_t>(rank - 2)]);
  return transpose_by(x, axes);
}

Var split_heads(const Var& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0) {
    throw ShapeError(
        fmt::format("split_heads: {} into {} heads, expected [batch, time, a multiple "
                    "of heads]",
                    to_string(shape), heads));
  }
  return transpose(reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Var merge_heads(const Var& x) {
  const Shape& shape = x.shape();
  if (shape.rank() != 4) {
    throw ShapeError(
        fmt::format("merge_heads: {}, expected [batch, heads, time, head_dim]", to_string(shape)));
  }
  return reshape(transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end) {
  const std::size_t at = require_axis("slice", x.shape(), axis);
  const std::int64_t extent = x.shape().extents()[at];
  if (begin < 0 || begin > end || end > extent) {
    throw ShapeError(fmt::format("slice: [{}, {}) of axis {} of {}, expected a range in [0, {})",
                                 begin, end, axis, to_string(x.shape()), extent));
  }
  return record("slice", {x}, kernels::slice(x.value(), at, begin, end),
                [at, begin](const Array& dy, InputGradients& dx) {
                  const auto [place, holds_sum] = dx.accumulate(0);
                  if (!holds_sum) kernels::fill_zero(place);
                  kernels::slice_backward(dy, at, begin, place);
                });
}

namespace {

// The extent of the axis in all parts together.
std::int64_t joined_extent(std::span<const Var> parts, std::size_t axis) {
  const Shape& first = parts.front().shape();
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape();
    const int at = static_cast<int>(axis);
    if (shape.rank() != first.rank() || shape.with(at, 0) != first.with(at, 0)) {
      throw ShapeError(
          fmt::format("concat: part {} is {} and part 0 is {}, expected to differ in "
                      "axis {} alone",
                      i, to_string(shape), to_string(first), axis));
    }
    require_same_dtype("concat", parts.front().value(), parts[i].value());
    extent += shape[at];
  }
  return extent;
}

}  // namespace

Var concat(std::span<const Var> parts, int axis) {
  if (parts.empty()) throw ShapeError("concat: no parts, expected at least one");
  const Shape& first = parts.front().shape();
  const std::size_t at = require_axis("concat", first, axis);
  Array y = Array::uninitialized(first.with(axis, joined_extent(parts, at)), parts.front().dtype());
  std::vector<const Var*> inputs;
  std::vector<std::int64_t> ends;
  std::int64_t end = 0;
  for (const Var& part : parts) {
    kernels::paste(part.value(), at, end, y);
    inputs.push_back(&part);
    ends.push_back(end += part.shape().extents()[at]);
  }
  return record("concat", inputs, y,
                [at, ends = std::move(ends)](const Array& dy, InputGradients& dx) {
                  std::int64_t begin = 0;
                  for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
                    const int input = static_cast<int>(i);
                    if (dx.needs(input)) dx.add(input, kernels::slice(dy, at, begin, ends[i]));
                  }
                });
}

Var concat(std::initializer_list<Var> parts, int axis) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

// dx = the sum over what was repeated, which InputGradients makes.
Var broadcast_to(const Var& x, const Shape& shape) {
  return record("broadcast_to", {x}, kernels::broadcast_to(x.value(), shape),
                [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
}

}  // namespace attune
