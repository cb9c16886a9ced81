#include "attune/core/shape.h"

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

std::string bracketed(std::span<const std::int64_t> extents) {
  std::string text = "[";
  for (const std::int64_t extent : extents) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > kMaxRank) {
    throw ShapeError(fmt::format("shape: {} has rank {}, expected at most {}", bracketed(extents),
                                 extents.size(), kMaxRank));
  }
  // Extents of 0 are left out of the product that is bounded, so that rows() cannot overflow
  // either.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      throw ShapeError(fmt::format("shape: {} has the extent {}, expected 0 or more",
                                   bracketed(extents), extent));
    }
    if (extent == 0) {
      empty = true;
    } else if (extent > kMaxSize / product) {
      throw ShapeError(fmt::format("shape: {} has more than 2^62 elements", bracketed(extents)));
    } else {
      product *= extent;
    }
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
  size_ = empty ? 0 : product;
}

std::size_t Shape::normalized(int axis) const {
  if (axis < -rank_ || axis >= rank_) {
    throw ShapeError(
        fmt::format("shape: axis {} is outside {} of rank {}", axis, to_string(*this), rank_));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis);
}

std::int64_t Shape::rows() const {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < rank_; ++axis) rows *= extents_[static_cast<std::size_t>(axis)];
  return rows;
}

Shape Shape::with(int axis, std::int64_t extent) const {
  auto extents = extents_;
  extents[normalized(axis)] = extent;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank_)));
}

std::string to_string(const Shape& shape) { return bracketed(shape.extents()); }

Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (int from_end = 1; from_end <= rank; ++from_end) {
    const std::int64_t extent_a = from_end <= a.rank() ? a[-from_end] : 1;
    const std::int64_t extent_b = from_end <= b.rank() ? b[-from_end] : 1;
    if (extent_a != extent_b && extent_a != 1 && extent_b != 1) {
      throw ShapeError(
          fmt::format("{}: {} and {} do not broadcast", operation, to_string(a), to_string(b)));
    }
    extents[static_cast<std::size_t>(rank - from_end)] = extent_a == 1 ? extent_b : extent_a;
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank)));
}

}  // namespace attune
