#include <attune/array/array.h>
#include <attune/array/xtensor.h>
#include <attune/autodiff/gradcheck.h>
#include <attune/autodiff/tape.h>

#include <cmath>
#include <cstdio>
#include <span>
#include <xtensor/xmath.hpp>

// An operation of one's own with its gradient, checked against finite differences: the installed
// headers and library are all it needs.
namespace {

using attune::Array;
using attune::InputGradients;
using attune::Var;

// y = x / (1 + |x|).        dx = dy / (1 + |x|)^2
Var softsign(const Var& x) {
  const Array x_value = x.value();
  const auto in = attune::view<double>(x_value);
  const Array y = attune::array_from<double>(in / (1.0 + xt::abs(in)));
  return attune::record("softsign", {x}, y, [x_value](const Array& dy, InputGradients& dx) {
    const auto in = attune::view<double>(x_value);
    dx.add(0, attune::array_from<double>(attune::view<double>(dy) /
                                         ((1.0 + xt::abs(in)) * (1.0 + xt::abs(in)))));
  });
}

}  // namespace

int main() {
  const Array x = Array::from({2, 3}, {-2, -1, -0.5, 0.5, 1, 3}, attune::DType::float64);
  attune::Tape tape;
  const Var leaf = tape.leaf(x);
  const attune::Gradients gradients =
      tape.backward(softsign(leaf), Array::full({2, 3}, 1, attune::DType::float64));
  if (std::abs(gradients[leaf].at({1, 2}) - 1.0 / 16) > 1e-15) {
    std::puts("softsign: the gradient at 3 is not 1/16");
    return 1;
  }
  const attune::GradcheckResult check =
      attune::gradcheck([](std::span<const Var> inputs) { return softsign(inputs[0]); }, {x});
  std::printf("softsign: largest gradient error %.1e\n", check.max_error);
  return check.passes() ? 0 : 1;
}
