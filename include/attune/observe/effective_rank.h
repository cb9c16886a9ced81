#pragma once

#include <cstdint>
#include <span>

namespace attune {

// exp of the entropy of the singular values, divided by their sum (Roy and Vetterli 2007): between
// 1, all rows one direction, and min(rows, columns), all directions alike; 0 for a matrix of zeros.
// matrix: [rows, columns], row-major. Throws ShapeError where its size is another, ValueError where
// it holds what is not finite.
[[nodiscard]] double effective_rank(std::span<const double> matrix, std::int64_t rows,
                                    std::int64_t columns);

}  // namespace attune
