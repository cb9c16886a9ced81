// Arrays are values. Copies share their storage until somebody wants to write, elements are float32
// or float64 as chosen at run time, and all of xtensor works on them through a view.
#include <attune/array/xtensor.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <xtensor/xmath.hpp>
#include <xtensor/xnorm.hpp>

#include <attune/core/error.h>

using attune::Array;
using attune::DType;

namespace {

// Writing to a shared array is an error and never a hidden copy.
bool writing_is_refused(Array& array) {
  try {
    array.mutable_data<float>()[0] = 7;
  } catch (const attune::UsageError& error) {
    std::printf("  %s\n", error.what());
    return true;
  }
  return false;
}

}  // namespace

int main() {
  Array a = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  std::printf("a: shape %s, %s, %lld bytes\n", attune::to_string(a.shape()).c_str(),
              std::string(attune::to_string(a.dtype())).c_str(), static_cast<long long>(a.bytes()));

  std::puts("While a copy shares the storage, writing is refused:");
  {
    const Array copy = a;
    if (!a.is_shared() || !writing_is_refused(a)) {
      std::puts("a shared array could be written");
      return 1;
    }
  }
  a.mutable_data<float>()[0] = 10;  // the copy is gone
  std::printf("Now a[0, 0] = %g\n", a.at({0, 0}));

  // An element type is chosen at run time. 0.1 has no exact binary form; float32 is 2^-27 off.
  const Array single = Array::scalar(0.1, DType::float32);
  const Array wide = single.cast(DType::float64);
  std::printf("0.1 in float32 is %.12f\n", wide.item());
  if (wide.item() == 0.1 || !(std::abs(wide.item() - 0.1) <= 1e-8)) {
    std::puts("float32 did not round as expected");
    return 1;
  }

  // xtensor computes on the array's own storage; its results become arrays again.
  const auto view = attune::view<float>(a);
  const Array means = attune::array_from<float>(xt::mean(view, {1}));
  const double norm = static_cast<double>(xt::norm_l2(view)());
  std::printf("row means %g and %g, norm %.6f\n", means.at({0}), means.at({1}), norm);
  if (means.at({0}) != 5 || means.at({1}) != 5 || !(std::abs(norm * norm - 190) <= 1e-4)) {
    std::puts("xtensor sees other numbers than the array holds");
    return 1;
  }
  return 0;
}
