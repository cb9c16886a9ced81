#include "attune/nn/hooks.h"

#include <array>

namespace attune {

std::string_view to_string(HookPoint point) {
  constexpr std::array<std::string_view, 14> kNames = {
      "embedding",  "residual_pre", "query",         "key",           "value",
      "scores",     "pattern",      "head_output",   "attention_out", "residual_mid",
      "ffn_hidden", "ffn_out",      "residual_post", "final"};
  return kNames[static_cast<std::size_t>(point)];
}

}  // namespace attune
