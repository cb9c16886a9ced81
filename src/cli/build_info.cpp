#include "cli/build_info.h"

#include <fmt/format.h>

#include "attune/core/thread_pool.h"
#include "attune/core/version.h"
#include "kernels/gemm.h"

namespace attune::cli {

std::string build_info() {
#if defined(__AVX512F__)
  constexpr const char* kInstructions = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
  constexpr const char* kInstructions = "AVX2, FMA";
#else
  constexpr const char* kInstructions = "baseline";
#endif
  return fmt::format(
      "attune       {}\n"
      "compiler     {}\n"
      "build        {}, {}\n"
      "flags        {}\n"
      "BLAS         {}\n"
      "BLAS kernel  {}\n"
      "threads      {} (physical cores available)\n",
      kVersion, ATTUNE_COMPILER, ATTUNE_BUILD_TYPE, kInstructions, ATTUNE_FLAGS,
      kernels::blas_configuration(), kernels::blas_kernel(), ThreadPool::available_cores());
}

}  // namespace attune::cli
