#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "attune/core/shape.h"

namespace attune {

// Writes an array as NumPy's .npy, format version 1.0, row-major and little-endian (float64 "<f8",
// int32 "<i4"), atomically: numpy.load(path) reads it. Throws ShapeError where the shape does not
// have as many elements, IoError.
void write_npy(const std::filesystem::path& path, const Shape& shape,
               std::span<const double> values);
void write_npy(const std::filesystem::path& path, const Shape& shape,
               std::span<const std::int32_t> values);

}  // namespace attune
