#pragma once

namespace attune {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace attune
