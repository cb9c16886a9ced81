// A tape records what is computed; backward() returns the gradients as a value. Finite differences
// tell whether they are right.
#include <cmath>
#include <cstdio>
#include <span>

#include <attune/autodiff/gradcheck.h>
#include <attune/autodiff/tape.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/reduce.h>
#include <attune/ops/unary.h>

using attune::Array;
using attune::Var;

int main() {
  const Array a = Array::from({3}, {0.5, 1.0, 2.0}, attune::DType::float64);
  const Array b = Array::from({2, 1}, {3.0, -1.0}, attune::DType::float64);

  // y = sum over i, j of a_i b_j + sin(a_i); a [3] and b [2, 1] broadcast to [2, 3].
  const auto f = [](const Var& x, const Var& y) { return sum(x * y + sin(x)); };

  attune::Tape tape;
  const Var x = tape.leaf(a);
  const Var y = tape.leaf(b);
  const Var loss = f(x, y);
  const attune::Gradients gradients = tape.backward(loss);

  std::printf("loss = %.6f, from %zu recorded operations\n", loss.value().item(), tape.size());
  // dloss/da_i = sum_j b_j + 2 cos a_i,   dloss/db_j = sum_i a_i
  double error = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const double expected = 2.0 + 2 * std::cos(a.at({i}));
    const double found = gradients[x].at({i});
    std::printf("dloss/da[%d] = %+.6f   by hand %+.6f\n", static_cast<int>(i), found, expected);
    error += std::abs(found - expected);
  }
  for (std::int64_t j = 0; j < 2; ++j) {
    const double found = gradients[y].at({j, 0});
    std::printf("dloss/db[%d] = %+.6f   by hand +3.500000\n", static_cast<int>(j), found);
    error += std::abs(found - 3.5);
  }
  if (!(error <= 1e-14)) {
    std::puts("a gradient differs from the one derived by hand");
    return 1;
  }

  // The same question without a derivation: central differences in float64.
  const attune::GradcheckResult check = attune::gradcheck(
      [&](std::span<const Var> inputs) { return f(inputs[0], inputs[1]); }, {a, b});
  std::printf("gradcheck: largest relative error %.1e\n", check.max_error);
  if (!check.passes()) {
    std::printf("gradcheck fails: %s\n", check.worst.c_str());
    return 1;
  }

  // Constants record nothing: without a leaf there is no tape and nothing is kept.
  if (f(Var(a), Var(b)).tape() != nullptr) {
    std::puts("constants were recorded");
    return 1;
  }
  return 0;
}
