#pragma once

// The bridge to xtensor: all of xtensor and xtensor-blas over any value or gradient.
// It must be the first xtensor include of a file: it carries what keeps xtensor 0.24's dynamic
// containers right in C++20.
#if defined(XTENSOR_CONFIG_HPP) && !defined(ATTUNE_XTENSOR_BRIDGE)
#error "include <attune/array/xtensor.h> before any other xtensor header"
#endif
#define ATTUNE_XTENSOR_BRIDGE

#include <cstddef>
#include <type_traits>
#include <vector>

#include <xtensor/xexpression_traits.hpp>
#include <xtensor/xstorage.hpp>

// g++ in C++20 matches svector<size_t, 4> with a fixed-size shape unless -fno-new-ttp-matching is
// given (the target attune::attune gives it): every dynamic temporary then becomes a
// four-dimensional one (xtensor-stack/xtensor#1970). The full specialisations decide it for files
// that are compiled without the flag.
#if defined(__GNUC__) && !defined(__clang__) && __cplusplus > 201703L
namespace xt::detail {
template <>
struct xtype_for_shape<svector<std::size_t, 4, std::allocator<std::size_t>, true>> {
  template <class T, layout_type L>
  using type = xarray<T, L>;
};
template <>
struct xtype_for_shape<svector<std::ptrdiff_t, 4, std::allocator<std::ptrdiff_t>, true>> {
  template <class T, layout_type L>
  using type = xarray<T, L>;
};
}  // namespace xt::detail
#endif

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnoalias.hpp>

#include "attune/array/array.h"

namespace attune {

// The array's elements as a constant xtensor adaptor of dynamic rank. It reads the array's storage,
// which must outlive it.
//   double largest = xt::amax(view<float>(gradient))();
template <std::floating_point T>
[[nodiscard]] auto view(const Array& array) {
  const std::vector<std::size_t> shape(array.shape().begin(), array.shape().end());
  return xt::adapt(array.data<T>().data(), array.data<T>().size(), xt::no_ownership(), shape);
}
template <std::floating_point T>
auto view(Array&& array) = delete;

// The same for writing. Throws UsageError while the array is shared.
template <std::floating_point T>
[[nodiscard]] auto mutable_view(Array& array) {
  const std::vector<std::size_t> shape(array.shape().begin(), array.shape().end());
  return xt::adapt(array.mutable_data<T>().data(), array.mutable_data<T>().size(),
                   xt::no_ownership(), shape);
}

// Evaluates any xtensor expression into a new Array of T.
//   Array doubled = array_from<float>(2.0f * view<float>(x));
template <std::floating_point T, class E>
[[nodiscard]] Array array_from(const xt::xexpression<E>& expression) {
  const E& e = expression.derived_cast();
  std::vector<std::int64_t> extents(e.shape().begin(), e.shape().end());
  Array result = Array::uninitialized(Shape(extents), dtype_of<T>);
  auto target = mutable_view<T>(result);
  xt::noalias(target) = e;
  return result;
}

}  // namespace attune
