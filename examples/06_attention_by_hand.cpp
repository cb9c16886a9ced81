// Attention on three words, small enough for a pocket calculator: "sat" looks at cat, sat and mat.
// Once from primitive operations as the formula is written, once with the fused kernel.
#include <cmath>
#include <cstdio>
#include <span>

#include <attune/ops/arithmetic.h>
#include <attune/ops/attention.h>
#include <attune/ops/matmul.h>
#include <attune/ops/softmax.h>

using attune::Array;
using attune::Var;

namespace {

constexpr auto kFloat64 = attune::DType::float64;

// Computed separately, to about twelve digits.
constexpr double kWeights[] = {0.353521162836, 0.332933693031, 0.313545144131};
constexpr double kOutput[] = {1.770824124658, 1.035232224193, 0.229175875341, 0.964767775806};
constexpr double kEntropyNats = 1.09741336773;
// The same under a causal mask, where "sat" sees cat and sat alone; six digits.
constexpr double kCausalOutput[] = {1.757498, 1.097001, 0.242502, 0.902999};

// Prints one row; true where every number is within the tolerance of the expected one.
bool compare(const char* label, const Array& found, std::int64_t row,
             std::span<const double> expected, double tolerance) {
  std::printf("%-26s", label);
  bool equal = true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = found.at({0, row, static_cast<std::int64_t>(i)});
    std::printf(" %.12f", value);
    equal = equal && std::abs(value - expected[i]) <= tolerance;
  }
  std::puts("");
  return equal;
}

}  // namespace

int main() {
  // Rows: cat, sat, mat. [batch, word, width]
  const Var key = Array::from({1, 3, 4}, {1, .8, .1, 0, 1, .5, .2, .1, .9, .4, .3, .2}, kFloat64);
  const Var value =
      Array::from({1, 3, 4}, {2, 1, 0, 1, 1.5, 1.2, .5, .8, 1.8, .9, .2, 1.1}, kFloat64);
  const Var query = Array::from({1, 1, 4}, {1, .5, .2, .1}, kFloat64);  // sat

  // softmax(Q K^T / sqrt(d)) V
  const Var scores =
      matmul(query, key, attune::Transpose::no, attune::Transpose::yes) / std::sqrt(4.0);
  const Var weights = softmax(scores);
  const Var output = matmul(weights, value);
  double entropy = 0;
  for (const double p : weights.value().to_vector()) entropy -= p * std::log(p);

  bool holds = compare("weights on cat, sat, mat:", weights.value(), 0, kWeights, 1e-11);
  holds &= compare("output, composed:", output.value(), 0, kOutput, 1e-11);
  holds &= std::abs(entropy - kEntropyNats) <= 1e-11;
  std::printf("entropy %.12f nats, %.6f of the most it could be\n", entropy, entropy / std::log(3));

  // The fused kernel gives the same, and the entropy on the side.
  attune::HeadStatistics head;
  const Var fused = attention(query, key, value, {}, {.statistics = std::span(&head, 1)});
  holds &= compare("output, fused:", fused.value(), 0, kOutput, 1e-11);
  holds &= std::abs(head.entropy_nats() - kEntropyNats) <= 1e-11;

  // All three words ask, under a causal mask; row 1 is "sat".
  const attune::Mask causal = attune::Mask::causal();
  const Var masked = attention(key, key, value, {}, {.mask = &causal});
  holds &= compare("causal output of sat:", masked.value(), 1, kCausalOutput, 1e-6);

  if (!holds) std::puts("these are not the numbers of the example");
  return holds ? 0 : 1;
}
