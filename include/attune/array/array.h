#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "attune/core/dtype.h"
#include "attune/core/shape.h"

namespace attune {

namespace detail {
struct Buffer;  // a reference-counted block of the buffer pool
void retain(Buffer* buffer) noexcept;
void release(Buffer* buffer) noexcept;
[[nodiscard]] bool is_shared(const Buffer* buffer) noexcept;
[[nodiscard]] std::byte* payload(Buffer* buffer) noexcept;
}  // namespace detail

// A contiguous row-major array of float32 or float64, 64-byte aligned, from the buffer pool.
// Copies share the storage; a shared array is immutable, so a copy is a value that nobody can
// change behind one's back. A default-constructed Array is null: it has no elements and no storage.
class Array final {
 public:
  Array() = default;
  Array(const Array& other) noexcept
      : buffer_(other.buffer_), shape_(other.shape_), dtype_(other.dtype_) {
    if (buffer_) detail::retain(buffer_);
  }
  Array(Array&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)),
        shape_(other.shape_),
        dtype_(other.dtype_) {}
  Array& operator=(Array other) noexcept {
    std::swap(buffer_, other.buffer_);
    shape_ = other.shape_;
    dtype_ = other.dtype_;
    return *this;
  }
  ~Array() {
    if (buffer_) detail::release(buffer_);
  }

  // Contents are whatever the pool held (NaN in Debug builds): for kernels that write every
  // element.
  // Throws Error where the system has no memory for it.
  [[nodiscard]] static Array uninitialized(const Shape& shape, DType dtype);
  [[nodiscard]] static Array zeros(const Shape& shape, DType dtype);
  [[nodiscard]] static Array full(const Shape& shape, double value, DType dtype);
  [[nodiscard]] static Array scalar(double value, DType dtype) { return full({}, value, dtype); }
  // Values in row-major order. Throws ShapeError where their number is not shape.size().
  [[nodiscard]] static Array from(const Shape& shape, std::span<const double> values, DType dtype);
  [[nodiscard]] static Array from(const Shape& shape, std::initializer_list<double> values,
                                  DType dtype = DType::float32) {
    return from(shape, std::span(values.begin(), values.size()), dtype);
  }

  [[nodiscard]] bool is_null() const { return buffer_ == nullptr; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t size() const { return is_null() ? 0 : shape_.size(); }
  [[nodiscard]] std::int64_t bytes() const { return size() * bytes_of(dtype_); }
  // Another Array holds the same storage.
  [[nodiscard]] bool is_shared() const { return buffer_ && detail::is_shared(buffer_); }

  // Throws ShapeError where T is not the dtype.
  template <std::floating_point T>
  [[nodiscard]] std::span<const T> data() const& {
    require(dtype_of<T>);
    return {pointer<T>(), static_cast<std::size_t>(size())};
  }
  template <std::floating_point T>
  std::span<const T> data() const&& = delete;  // the storage would be gone

  // Throws UsageError while the storage is shared: there is never a hidden copy.
  template <std::floating_point T>
  [[nodiscard]] std::span<T> mutable_data() & {
    require(dtype_of<T>);
    require_unshared();
    return {pointer<T>(), static_cast<std::size_t>(size())};
  }

  // The same elements under another shape of equal size; shares the storage.
  [[nodiscard]] Array reshaped(const Shape& shape) const;
  // A copy with storage of its own.
  [[nodiscard]] Array clone() const;
  // A copy of another dtype; float64 to float32 rounds to nearest. The same dtype shares the
  // storage.
  [[nodiscard]] Array cast(DType dtype) const;

  // One element as a double; the index has one entry an axis. Throws ValueError outside the
  // extents.
  [[nodiscard]] double at(std::initializer_list<std::int64_t> index) const;
  // The element of an array of size 1. Throws ShapeError otherwise.
  [[nodiscard]] double item() const;
  // All elements, row-major.
  [[nodiscard]] std::vector<double> to_vector() const;

 private:
  Array(detail::Buffer* buffer, const Shape& shape, DType dtype)
      : buffer_(buffer), shape_(shape), dtype_(dtype) {}
  template <class T>
  T* pointer() const {
    return buffer_ ? reinterpret_cast<T*>(detail::payload(buffer_)) : nullptr;
  }
  void require(DType dtype) const;
  void require_unshared() const;

  detail::Buffer* buffer_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::float32;
};

}  // namespace attune
