#include "attune/array/array.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "array/buffer.h"
#include "attune/core/error.h"

namespace attune {

Array Array::uninitialized(const Shape& shape, DType dtype) {
  if (shape.size() > std::numeric_limits<std::int64_t>::max() / bytes_of(dtype)) {
    throw Error("out of memory: an array " + to_string(shape) + " was asked for");
  }
  return Array(detail::acquire(shape.size() * bytes_of(dtype)), shape, dtype);
}

Array Array::zeros(const Shape& shape, DType dtype) {
  Array array = uninitialized(shape, dtype);
  std::memset(array.pointer<std::byte>(), 0, static_cast<std::size_t>(array.bytes()));
  return array;
}

Array Array::full(const Shape& shape, double value, DType dtype) {
  Array array = uninitialized(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    const std::span<T> elements = array.mutable_data<T>();
    std::fill(elements.begin(), elements.end(), static_cast<T>(value));
  });
  return array;
}

Array Array::from(const Shape& shape, std::span<const double> values, DType dtype) {
  if (static_cast<std::int64_t>(values.size()) != shape.size()) {
    throw ShapeError("array: " + std::to_string(values.size()) + " values do not fill " +
                     to_string(shape));
  }
  Array array = uninitialized(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    std::transform(values.begin(), values.end(), array.mutable_data<T>().begin(),
                   [](double value) { return static_cast<T>(value); });
  });
  return array;
}

Array Array::reshaped(const Shape& shape) const {
  if (is_null() || shape.size() != shape_.size()) {
    throw ShapeError("reshape: " + to_string(shape_) + " does not have the " +
                     std::to_string(shape.size()) + " elements of " + to_string(shape));
  }
  Array array = *this;
  array.shape_ = shape;
  return array;
}

Array Array::clone() const {
  if (is_null()) return {};
  Array array = uninitialized(shape_, dtype_);
  std::memcpy(array.pointer<std::byte>(), pointer<std::byte>(), static_cast<std::size_t>(bytes()));
  return array;
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_ || is_null()) return *this;
  Array array = uninitialized(shape_, dtype);
  dispatch(dtype_, [&]<class From>() {
    dispatch(dtype, [&]<class To>() {
      std::transform(data<From>().begin(), data<From>().end(), array.mutable_data<To>().begin(),
                     [](From value) { return static_cast<To>(value); });
    });
  });
  return array;
}

double Array::at(std::initializer_list<std::int64_t> index) const {
  if (static_cast<int>(index.size()) != shape_.rank() || is_null()) {
    throw ValueError("array: an index of " + std::to_string(index.size()) + " numbers into " +
                     to_string(shape_));
  }
  std::int64_t offset = 0;
  int axis = 0;
  for (const std::int64_t i : index) {
    if (i < 0 || i >= shape_[axis]) {
      throw ValueError("array: index " + std::to_string(i) + " of axis " + std::to_string(axis) +
                       " is outside " + to_string(shape_));
    }
    offset = offset * shape_[axis++] + i;
  }
  return dispatch(dtype_, [&]<class T>() { return static_cast<double>(pointer<T>()[offset]); });
}

double Array::item() const {
  if (size() != 1) throw ShapeError("array: item() of " + to_string(shape_) + ", not one element");
  return dispatch(dtype_, [&]<class T>() { return static_cast<double>(*pointer<T>()); });
}

std::vector<double> Array::to_vector() const {
  return dispatch(dtype_, [&]<class T>() {
    const std::span<const T> elements = data<T>();
    return std::vector<double>(elements.begin(), elements.end());
  });
}

void Array::require(DType dtype) const {
  if (dtype == dtype_) return;
  throw ShapeError("array: a " + std::string(attune::to_string(dtype_)) + " array was read as " +
                   std::string(attune::to_string(dtype)));
}

void Array::require_unshared() const {
  if (!is_shared()) return;
  throw UsageError("array: mutable_data() of " + attune::to_string(shape_) +
                   " while another Array shares its storage; clone() it first");
}

}  // namespace attune
