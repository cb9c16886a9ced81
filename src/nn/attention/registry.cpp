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
    {"linear", "phi(q) . phi(k) with phi = elu + 1; linear in time (Katharopoulos 2020)",
     attention_kind::make_linear},
    {"random-feature", "softmax approximated by random features, linear in time (Choromanski 2021)",
     attention_kind::make_random_feature},
    {"differential", "the difference of two softmax maps a head (Ye 2024)",
     attention_kind::make_differential},
    {"mixture", "each token asks through one of several experts (Zhang 2022)",
     attention_kind::make_mixture},
    {"top-k", "softmax over the k largest scores of a query (Zhao 2019)",
     attention_kind::make_top_k},
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
