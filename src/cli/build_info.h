#pragma once

#include <string>

namespace attune::cli {

// What decides speed and rounding: compiler, flags, instruction set, BLAS and its kernel, threads;
// one line each.
[[nodiscard]] std::string build_info();

}  // namespace attune::cli
