#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_test.h"

// Properties of operations over random shapes: what a draw is made of, and what holds in each.
namespace attune {

// Coordinates of an element, one an axis.
using Coordinates = std::vector<std::int64_t>;

// f at every element of `shape`, row-major.
template <class F>
[[nodiscard]] std::vector<double> tabulate(const Shape& shape, F&& f) {
  std::vector<double> values;
  Coordinates at(static_cast<std::size_t>(shape.rank()));
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    std::int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      at[static_cast<std::size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    values.push_back(f(at));
  }
  return values;
}

// The element of x (float64) that broadcasting puts at these coordinates.
[[nodiscard]] inline double read(const Array& x, const Coordinates& at) {
  const Shape& shape = x.shape();
  const std::size_t missing = at.size() - static_cast<std::size_t>(shape.rank());
  std::int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t coordinate = at[missing + static_cast<std::size_t>(axis)];
    place = place * shape[axis] + (shape[axis] == 1 ? 0 : coordinate);
  }
  return x.data<double>()[static_cast<std::size_t>(place)];
}

[[nodiscard]] inline Coordinates with(Coordinates at, std::size_t axis, std::int64_t coordinate) {
  at[axis] = coordinate;
  return at;
}

// One draw: random choices that are the same for the same name and number.
class Draw final {
 public:
  Draw(std::string_view name, std::uint32_t number)
      : cursor_(Randomness{.seed = 3}.stream(name), number) {}

  // Both ends included.
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) {
    return cursor_.between(low, high);
  }
  [[nodiscard]] bool coin() { return cursor_.below(2) == 0; }
  // Mostly 2 to 5, sometimes 1, and 0 where `least` is 0.
  [[nodiscard]] std::int64_t extent(std::int64_t least = 0) {
    const std::int64_t number = between(0, 15);
    return std::max(least, number == 0 ? 0 : number < 4 ? 1 : 2 + number % 4);
  }
  [[nodiscard]] Shape shape(int least_rank = 0, std::int64_t least_extent = 0) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(between(least_rank, 4)));
    for (std::int64_t& extent : extents) extent = this->extent(least_extent);
    return Shape(std::span<const std::int64_t>(extents));
  }
  // A shape that broadcasts to `whole`: without some leading axes, some others of extent 1.
  [[nodiscard]] Shape part_of(const Shape& whole) {
    const auto skipped = static_cast<std::size_t>(between(0, whole.rank()) * between(0, 1));
    std::vector<std::int64_t> extents;
    for (const std::int64_t extent : whole.extents().subspan(skipped)) {
      extents.push_back(between(0, 3) == 0 ? 1 : extent);
    }
    return Shape(std::span<const std::int64_t>(extents));
  }
  [[nodiscard]] int axis_of(const Shape& shape) {
    return static_cast<int>(between(0, shape.rank() - 1));
  }
  // float64, uniform.
  [[nodiscard]] Array array(const Shape& shape, double low = -1, double high = 1) {
    return random_array(shape, cursor_.bits(), DType::float64, low, high);
  }
  // float64, multiples of 1/100 in [-2, 2] plus `offset`, different along every axis: no two are so
  // close that a finite difference would jump from one to the other.
  [[nodiscard]] Array distinct(const Shape& shape, double offset = 0.005) {
    const std::int64_t factor = between(1, 400), start = between(0, 400);
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      values.push_back(static_cast<double>((factor * i + start) % 401 - 200) / 100 + offset);
    }
    return Array::from(shape, values, DType::float64);
  }
  // 0 and 1.
  [[nodiscard]] Array flags(const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    for (double& value : values) value = coin() ? 1 : 0;
    return Array::from(shape, values, DType::float64);
  }

 private:
  RandomCursor cursor_;
};

// Calls f with one draw after another, until one fails.
template <class F>
void for_draws(const std::string& name, F&& f) {
  constexpr std::uint32_t kDraws = 100;
  for (std::uint32_t number = 0; number < kDraws && !::testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(name + ", draw " + std::to_string(number));
    Draw draw(name, number);
    f(draw);
  }
}

[[nodiscard]] inline std::vector<Array> as_float32(const std::vector<Array>& inputs) {
  std::vector<Array> result;
  for (const Array& input : inputs) result.push_back(input.cast(DType::float32));
  return result;
}

[[nodiscard]] inline Array value_of(const DifferentiableFunction& f,
                                    const std::vector<Array>& inputs) {
  const std::vector<Var> constants(inputs.begin(), inputs.end());
  return f(constants).value();
}

// What every operation owes, for inputs in float64: the value is `expected`, float32 agrees within
// its precision, in values and gradients, and gradients agree with finite differences: element by
// element where there are few, else along random directions.
inline void expect_properties(const DifferentiableFunction& f, const std::vector<Array>& inputs,
                              const Array& expected) {
  std::string shapes = "inputs";
  std::int64_t elements = 0;
  for (const Array& input : inputs) {
    shapes += " " + to_string(input.shape());
    elements += input.size();
  }
  SCOPED_TRACE(shapes);
  const std::int64_t live_bytes = buffer_pool::statistics().live_bytes;
  expect_near(value_of(f, inputs), expected, 1e-12);
  {
    const std::vector<Array> rounded = as_float32(inputs);
    const Array value = value_of(f, rounded);
    EXPECT_EQ(value.dtype(), DType::float32);
    expect_near(value, expected, 1e-5);
    const std::vector<Array> gradients = gradients_of(f, inputs);
    const std::vector<Array> in_float32 = gradients_of(f, rounded);
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_near(in_float32[i], gradients[i], 1e-4);
  }
  constexpr std::int64_t kFew = 24;
  const GradcheckResult result =
      elements <= kFew ? gradcheck(f, inputs) : gradcheck_directions(f, inputs, 3);
  // A direction may be nearly flat, and its slope a small difference of large sums.
  EXPECT_LE(result.max_error, elements <= kFew ? 1e-6 : 1e-5) << result.worst;
  EXPECT_EQ(buffer_pool::statistics().live_bytes, live_bytes);
}

inline void expect_properties(const DifferentiableFunction& f, const std::vector<Array>& inputs,
                              const Shape& shape, const std::vector<double>& expected) {
  ASSERT_EQ(static_cast<std::size_t>(shape.size()), expected.size());
  expect_properties(f, inputs, Array::from(shape, expected, DType::float64));
}

}  // namespace attune
