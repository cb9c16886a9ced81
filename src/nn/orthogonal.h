#pragma once

#include "attune/array/array.h"
#include "attune/core/random.h"

namespace attune {

// gain times a float64 matrix with orthonormal rows or columns, see Initializer::orthogonal.
[[nodiscard]] Array orthogonal_matrix(const Shape& shape, double gain, const RandomStream& stream);

}  // namespace attune
