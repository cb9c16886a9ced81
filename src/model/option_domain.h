#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// The checks of option values that configurations of all layers share. Each throws ConfigError with
// one line that names the option, the value found and what was expected.
namespace attune {

// "--n-layer: 0 is outside 1 to 1000"
void require_between(std::string_view option, std::int64_t value, std::int64_t low,
                     std::int64_t high);
// "--dropout: 1.5 is outside 0 to 1"; NaN is outside everything.
void require_between(std::string_view option, double value, double low, double high);
// [0, 1): "--beta1: 1 is not in [0, 1)"
void require_below_one(std::string_view option, double value);
// "--lr: -1 is not a finite number of at least 0"
void require_not_negative(std::string_view option, double value);
// "--activation: 'rellu' is unknown; did you mean relu? (gelu, gelu_tanh, relu, swiglu)"
void require_one_of(std::string_view option, std::string_view value,
                    std::span<const std::string> known);

}  // namespace attune
