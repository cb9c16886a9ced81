#include "attune/core/error.h"
#include "attune/core/text.h"
#include "nn/attention/kinds.h"

namespace attune {
namespace {

struct Kind {
  const char* name;
  const char* description;
  attention_kind::Maker make;
};

constexpr Kind kKinds[] = {
    {"dot-product", "scaled dot products in several heads (Vaswani 2017)",
     attention_kind::make_dot_product},
};

}  // namespace

std::unique_ptr<SelfAttention> make_self_attention(std::string_view kind, const Scope& scope,
                                                   const AttentionConfig& config,
                                                   const PositionalEncoding& encoding,
                                                   const InitScheme& init, int layer) {
  std::vector<std::string> names;
  for (const Kind& known : kKinds) {
    if (kind == known.name) return known.make(scope, config, encoding, init, layer);
    names.emplace_back(known.name);
  }
  throw ConfigError("--attention: '" + std::string(kind) + "' is unknown" +
                    did_you_mean(kind, names));
}

std::vector<AttentionInfo> list_attention() {
  std::vector<AttentionInfo> list;
  for (const Kind& kind : kKinds) list.push_back({kind.name, kind.description});
  return list;
}

}  // namespace attune
