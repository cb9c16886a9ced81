#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace attune {

// The extents of an array, outermost first. A value of fixed size, so that shapes never allocate.
// Rank 0 is a scalar with one element; an extent may be 0.
class Shape final {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  // Throws ShapeError for more than kMaxRank extents, a negative one, or a product beyond 2^62.
  explicit Shape(std::span<const std::int64_t> extents);

  [[nodiscard]] int rank() const { return rank_; }
  // Number of elements.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // Extent of an axis; negative axes count from the end (-1 is the last). Throws ShapeError outside
  // the rank.
  [[nodiscard]] std::int64_t operator[](int axis) const { return extents_[normalized(axis)]; }
  // The axis as a number from 0. Throws ShapeError outside the rank.
  [[nodiscard]] std::size_t normalized(int axis) const;
  // The last extent; 1 for a scalar. Rows of an array: size() / last().
  [[nodiscard]] std::int64_t last() const { return rank_ == 0 ? 1 : extents_[rank_ - 1u]; }
  // Elements before the last axis; 1 for a scalar, also where the last extent is 0.
  [[nodiscard]] std::int64_t rows() const;

  // The same shape with one extent replaced.
  [[nodiscard]] Shape with(int axis, std::int64_t extent) const;

  [[nodiscard]] std::span<const std::int64_t> extents() const {
    return {extents_.data(), static_cast<std::size_t>(rank_)};
  }
  [[nodiscard]] const std::int64_t* begin() const { return extents_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return extents_.data() + rank_; }

  [[nodiscard]] friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::int64_t size_ = 1;
  int rank_ = 0;
};

// "[2, 8, 16]"; a scalar is "[]".
[[nodiscard]] std::string to_string(const Shape& shape);

// The NumPy broadcast of two shapes: aligned at the last axis, extents equal or one of them 1.
// Throws ShapeError "add: [2, 3] and [4] do not broadcast", with `operation` in front.
[[nodiscard]] Shape broadcast(const char* operation, const Shape& a, const Shape& b);

}  // namespace attune
