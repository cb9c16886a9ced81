#pragma once

#include <cstdint>

namespace attune {

// A target that is not scored: a prompt token, padding. The value that PyTorch uses.
inline constexpr std::int32_t kIgnore = -100;

}  // namespace attune
