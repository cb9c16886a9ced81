// An operation of one's own: a value, a closure with its gradient, and a check. Here sparsemax
// (Martins & Astudillo 2016, section 2), an alternative to softmax that gives weights of exactly 0.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

#include <attune/autodiff/gradcheck.h>
#include <attune/autodiff/tape.h>

using attune::Array;
using attune::InputGradients;
using attune::Var;

namespace {

// p_j = max(x_j - t, 0) with the t for which p sums to 1.       x, p: [keys], float64
Array sparsemax_forward(const Array& x) {
  std::vector<double> sorted = x.to_vector();
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0;
  double threshold = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double candidate = (sum - 1) / static_cast<double>(k + 1);
    if (sorted[k] > candidate) threshold = candidate;
  }
  Array p = Array::uninitialized(x.shape(), x.dtype());
  std::transform(x.data<double>().begin(), x.data<double>().end(), p.mutable_data<double>().begin(),
                 [&](double score) { return std::max(score - threshold, 0.0); });
  return p;
}

// dx_j = dp_j - mean of dp over the support (p > 0), for j in the support; 0 elsewhere.
Array sparsemax_backward(const Array& p, const Array& dp) {
  const auto weight = p.data<double>();
  const auto upstream = dp.data<double>();
  double sum = 0;
  double support = 0;
  for (std::size_t j = 0; j < weight.size(); ++j) {
    if (weight[j] == 0) continue;
    sum += upstream[j];
    ++support;
  }
  Array dx = Array::zeros(p.shape(), p.dtype());
  for (std::size_t j = 0; j < weight.size(); ++j) {
    if (weight[j] > 0) dx.mutable_data<double>()[j] = upstream[j] - sum / support;
  }
  return dx;
}

// The capture list says what the tape keeps for the backward pass: the weights alone.
Var sparsemax(const Var& x) {
  const Array p = sparsemax_forward(x.value());
  return attune::record("sparsemax", {x}, p, [p](const Array& dp, InputGradients& dx) {
    dx.add(0, sparsemax_backward(p, dp));
  });
}

}  // namespace

int main() {
  const Array x = Array::from({5}, {1.2, 0.9, -0.3, 0.7, 0.1}, attune::DType::float64);
  double sum = 0;
  for (const double weight : sparsemax(x).value().to_vector()) {
    std::printf("%.4f  ", weight);
    sum += weight;
  }
  std::printf("sum %.4f\n", sum);
  // The support is 1.2, 0.9, 0.7, so t = (2.8 - 1) / 3 = 0.6.
  const Array expected = Array::from({5}, {0.6, 0.3, 0, 0.1, 0}, attune::DType::float64);
  for (std::int64_t j = 0; j < 5; ++j) {
    if (!(std::abs(sparsemax(x).value().at({j}) - expected.at({j})) <= 1e-15)) {
      std::puts("the weights are not those computed by hand");
      return 1;
    }
  }

  const attune::GradcheckResult check =
      attune::gradcheck([](std::span<const Var> inputs) { return sparsemax(inputs[0]); }, {x});
  std::printf("gradcheck: largest relative error %.1e\n", check.max_error);
  if (!check.passes()) std::printf("gradcheck fails: %s\n", check.worst.c_str());
  return check.passes() ? 0 : 1;
}
