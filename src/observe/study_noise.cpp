#include "attune/observe/study_noise.h"

#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/observe/batch_gradient.h"

namespace attune {
namespace {

// sum += other, in double.
void add_to(std::vector<double>& sum, const std::vector<Array>& gradients) {
  std::size_t next = 0;
  for (const Array& gradient : gradients) {
    dispatch(gradient.dtype(), [&]<class T>() {
      for (const T value : gradient.data<T>()) sum[next++] += static_cast<double>(value);
    });
  }
}

}  // namespace

double NoiseScale::examples() const {
  return gradient_square > 0 ? noise / gradient_square : std::numeric_limits<double>::infinity();
}

NoiseScale noise_scale(double small_batch, double small_square, double large_batch,
                       double large_square) {
  return {(large_batch * large_square - small_batch * small_square) / (large_batch - small_batch),
          (small_square - large_square) / (1 / small_batch - 1 / large_batch)};
}

NoiseScale measure_noise_scale(const Transformer& model, const BatchSource& batches,
                               std::int64_t part, std::int64_t parts) {
  if (part < 1 || parts < 2)
    throw ConfigError(fmt::format("noise scale: {} batches of {} examples, expected 2 of 1 or more",
                                  parts, part));
  std::vector<double> sum(static_cast<std::size_t>(model.parameters().elements()), 0.0);
  double small_square = 0;
  std::int64_t scored = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    const BatchGradient gradient = batch_gradient(model, batches.evaluation(Split::train, i, part));
    for (const Array& array : gradient.of_sum) small_square += sum_of_squares(array);
    add_to(sum, gradient.of_sum);
    scored += gradient.scored;
  }
  double large_square = 0;
  for (const double value : sum) large_square += value * value;
  // From sums over examples to means, from the loss of an example to that of a token.
  const auto b = static_cast<double>(part), count = static_cast<double>(parts);
  const double tokens = static_cast<double>(scored) / (b * count);
  const double square_of_unit = tokens * tokens * b * b;
  return noise_scale(b, small_square / count / square_of_unit, b * count,
                     large_square / (count * count) / square_of_unit);
}

}  // namespace attune
