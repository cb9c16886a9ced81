#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "attune/array/array.h"

// Walks several arrays that broadcast to one shape. Axes along which all operands step alike are
// merged, so that equal shapes, a bias over the last axes and a scalar all become one or two plain
// loops that the compiler vectorises.
namespace attune::kernels {

template <std::size_t N>
struct BroadcastPlan {
  // Extents, outermost first; none is 1. Of rank 0 where every operand has one element.
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  // Elements from one index of an axis to the next; 0 where the operand repeats. On the last axis 0
  // or 1.
  std::array<std::array<std::int64_t, N>, Shape::kMaxRank> steps{};
};

// `operands` must broadcast to `shape`.
template <std::size_t N>
[[nodiscard]] BroadcastPlan<N> plan_broadcast(const Shape& shape,
                                              const std::array<const Shape*, N>& operands) {
  // Axes from the last to the first, merged as they come; reversed at the end.
  BroadcastPlan<N> plan;
  std::array<std::int64_t, N> below;  // elements of each operand below the axis
  below.fill(1);
  for (int from_end = 1; from_end <= shape.rank(); ++from_end) {
    const std::int64_t extent = shape[-from_end];
    std::array<std::int64_t, N> step{};
    for (std::size_t i = 0; i < N; ++i) {
      const Shape& operand = *operands[i];
      const std::int64_t own = from_end <= operand.rank() ? operand[-from_end] : 1;
      if (own != 1) step[i] = below[i];
      below[i] *= own;
    }
    if (extent == 1) continue;
    const auto last = static_cast<std::size_t>(plan.rank - 1);
    bool merges = plan.rank > 0;
    for (std::size_t i = 0; merges && i < N; ++i) {
      merges = step[i] == plan.steps[last][i] * plan.extents[last];
    }
    if (merges) {
      plan.extents[last] *= extent;
    } else {
      const auto next = static_cast<std::size_t>(plan.rank++);
      plan.extents[next] = extent;
      plan.steps[next] = step;
    }
  }
  for (int low = 0, high = plan.rank - 1; low < high; ++low, --high) {
    std::swap(plan.extents[static_cast<std::size_t>(low)],
              plan.extents[static_cast<std::size_t>(high)]);
    std::swap(plan.steps[static_cast<std::size_t>(low)],
              plan.steps[static_cast<std::size_t>(high)]);
  }
  return plan;
}

// Calls visit(offsets) for every index of the first `axes` axes in row-major order; offsets has one
// entry an operand.
template <std::size_t N, class F>
void walk(const BroadcastPlan<N>& plan, int axes, F visit) {
  std::array<std::int64_t, N> offsets{};
  std::array<std::int64_t, Shape::kMaxRank> index{};
  for (;;) {
    visit(std::as_const(offsets));
    int axis = axes - 1;
    for (; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      for (std::size_t i = 0; i < N; ++i) offsets[i] += plan.steps[at][i];
      if (++index[at] < plan.extents[at]) break;
      for (std::size_t i = 0; i < N; ++i) offsets[i] -= plan.steps[at][i] * plan.extents[at];
      index[at] = 0;
    }
    if (axis < 0) return;
  }
}

namespace detail {

// One run along the last axis: bit i of Pattern says that operand i steps by 1, otherwise it stands
// still. The function is passed by address, so that only these loops are compiled for every
// function.
template <std::size_t Pattern, class T, std::size_t N, class F, std::size_t... I>
void map_run(const std::array<const T*, N>& x, T* y, std::int64_t size, const void* function) {
  const F f = *static_cast<const F*>(function);
#pragma omp simd
  for (std::int64_t j = 0; j < size; ++j) y[j] = f(x[I][(Pattern >> I & 1) != 0 ? j : 0]...);
}

template <class T, std::size_t N>
using Run = void (*)(const std::array<const T*, N>& x, T* y, std::int64_t size, const void* f);
template <class T, std::size_t N>
using Runs = std::array<Run<T, N>, (std::size_t{1} << N)>;  // by pattern

template <class T, std::size_t N, class F, std::size_t... Pattern, std::size_t... I>
constexpr Runs<T, N> runs_of(std::index_sequence<Pattern...>, std::index_sequence<I...>) {
  return {map_run<Pattern, T, N, F, I...>...};
}

template <class T, std::size_t N>
[[nodiscard]] Array map_runs(const Shape& shape, const std::array<const Array*, N>& x,
                             const Runs<T, N>& runs, const void* f) {
  Array result = Array::uninitialized(shape, dtype_of<T>);
  if (shape.size() == 0) return result;
  std::array<const Shape*, N> shapes;
  std::array<const T*, N> data;
  for (std::size_t i = 0; i < N; ++i) {
    shapes[i] = &x[i]->shape();
    data[i] = x[i]->template data<T>().data();
  }
  const BroadcastPlan<N> plan = plan_broadcast(shape, shapes);
  const int outer_axes = plan.rank > 0 ? plan.rank - 1 : 0;
  const std::int64_t size = plan.rank > 0 ? plan.extents[static_cast<std::size_t>(outer_axes)] : 1;
  std::size_t pattern = 0;
  for (std::size_t i = 0; plan.rank > 0 && i < N; ++i) {
    if (plan.steps[static_cast<std::size_t>(outer_axes)][i] != 0) pattern |= std::size_t{1} << i;
  }
  T* y = result.mutable_data<T>().data();
  walk(plan, outer_axes, [&](const std::array<std::int64_t, N>& offsets) {
    std::array<const T*, N> from = data;
    for (std::size_t i = 0; i < N; ++i) from[i] += offsets[i];
    runs[pattern](from, y, size, f);
    y += size;
  });
  return result;
}

}  // namespace detail

// y = f(x_0, .., x_N-1) element by element, a new array of `shape`, to which all x broadcast. T is
// the dtype of all.
template <class T, std::size_t N, class F>
[[nodiscard]] Array map_broadcast(const Shape& shape, const std::array<const Array*, N>& x, F f) {
  static constexpr detail::Runs<T, N> kRuns = detail::runs_of<T, N, F>(
      std::make_index_sequence<(std::size_t{1} << N)>(), std::make_index_sequence<N>());
  return detail::map_runs<T, N>(shape, x, kRuns, &f);
}

}  // namespace attune::kernels
