#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace attune {

// The element type of an array, chosen at run time. float64 is for gradient checks and for
// studies of curvature; training runs in float32.
enum class DType : std::uint8_t { float32, float64 };

template <std::floating_point T>
inline constexpr DType dtype_of = sizeof(T) == 4 ? DType::float32 : DType::float64;

[[nodiscard]] constexpr std::int64_t bytes_of(DType dtype) {
  return dtype == DType::float32 ? 4 : 8;
}
[[nodiscard]] constexpr std::string_view to_string(DType dtype) {
  return dtype == DType::float32 ? "float32" : "float64";
}

// Calls `f.operator()<float>()` or `<double>()`: the one place where a run-time dtype becomes a
// type.
//   dispatch(x.dtype(), [&]<class T>() { kernels::scale<T>(x.data<T>(), factor); });
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  return dtype == DType::float32 ? f.template operator()<float>() : f.template operator()<double>();
}

}  // namespace attune
