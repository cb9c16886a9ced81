#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attune/observe/gradcheck_suite.h"

// What the parts of the suite share.
namespace attune::gradcheck_suite {

using Values = std::span<const Var>;

// Uniform in [low, high), float64, the same for the same seed.
[[nodiscard]] Array uniform(const Shape& shape, std::uint64_t seed, double low = -1,
                            double high = 1);
// Of either sign and at least 0.1 away from 0, where relu and abs have their kink.
[[nodiscard]] Array away_from_zero(const Shape& shape, std::uint64_t seed);
// 0 or 1, at least one of each where there is room.
[[nodiscard]] Array flags(const Shape& shape, std::uint64_t seed);

// A case of one function of arrays uniform in [-1, 1), each from a seed of its own.
[[nodiscard]] GradcheckCase uniform_case(std::string name, std::vector<Shape> shapes,
                                         DifferentiableFunction function);

using Cases = std::vector<GradcheckCase>;
void add_unary(Cases& cases);
void add_arithmetic(Cases& cases);
void add_products(Cases& cases);
void add_reductions(Cases& cases);
void add_shaping(Cases& cases);
void add_normalisation(Cases& cases);
void add_attention(Cases& cases);
void add_layers(Cases& cases);
void add_mechanisms(Cases& cases);
void add_models(Cases& cases);

}  // namespace attune::gradcheck_suite
