#include "attune/model/transformer_config.h"

#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "model/option_domain.h"

namespace attune {
namespace {

// Bounds that keep a slip of the keyboard a usage error instead of an allocation that fails: far
// above what one machine trains.
constexpr std::int64_t kMostLayers = 1000;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kMostWidth = 65536;
constexpr std::int64_t kMostHidden = std::int64_t{1} << 20;
constexpr std::int64_t kMostContext = std::int64_t{1} << 20;
constexpr double kMostExtension = 1000;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr double kMostParameters = 4294967296.0;  // 64 GiB with gradients and moments in float32

void check_sizes(const TransformerConfig& config) {
  require_between("vocabulary", config.vocabulary, 1, kMostTokens);
  require_between("--block-size", config.block_size, 0, kMostContext);
  require_between("--n-layer", config.n_layer, 1, kMostLayers);
  require_between("--n-head", config.n_head, 1, kMostHeads);
  require_between("--n-embd", config.n_embd, 1, kMostWidth);
  require_between("--n-kv-head", config.n_kv_head, 0, kMostHeads);
  require_between("--head-dim", config.head_dim, 0, kMostWidth);
  require_between("--value-dim", config.value_dim, 0, kMostWidth);
  require_between("--d-ff", config.d_ff, 0, kMostHidden);
}

void check_numbers(const TransformerConfig& config) {
  require_between("--dropout", config.dropout, 0, 1);
  if (config.attention_dropout != kFollows) {
    require_between("--attn-dropout", config.attention_dropout, 0, 1);
  }
  require_not_negative("--attn-scale", config.attention_scale);
  require_between("--pos-scale", config.position_scale, 1, kMostExtension);
  require_between("--random-positions", config.random_positions, 0, kMostContext);
  if (config.random_positions > 0 && config.random_positions < config.block_size) {
    throw ConfigError(
        fmt::format("--random-positions {} is below --block-size {}: a position is drawn once only",
                    config.random_positions, config.block_size));
  }
  require_not_negative("--init-std", config.init_std);
  require_not_negative("--softcap", config.softcap);
  if (config.temperature != kLearned && !(config.temperature > 0 && config.temperature < 1e6)) {
    throw ConfigError(fmt::format("--attn-temperature: {} is not learned or a number above 0",
                                  format_float(config.temperature)));
  }
}

void check_attention(const TransformerConfig& config) {
  const MaskSizes& sizes = config.mask_sizes;
  require_between("--window", sizes.window, 1, kMostContext);
  require_between("--dilation", sizes.dilation, 1, kMostContext);
  require_between("--global-tokens", sizes.global_tokens, 0, kMostContext);
  require_between("--random-blocks", sizes.random_blocks, 0, kMostContext);
  require_between("--mask-block", sizes.block, 1, kMostContext);
  require_between("--prefix", sizes.prefix, 0, kMostContext);
  static_cast<void>(make_mask(config.mask, sizes));
  require_between("--attn-top-k", config.top_k, 1, kMostContext);
  require_between("--attn-experts", config.experts, 1, kMostHeads);
  require_between("--attn-features", config.features, 1, kMostWidth);
  if (config.n_kv_head > 0 && config.n_head % config.n_kv_head != 0) {
    throw ConfigError(
        fmt::format("--n-kv-head {} does not divide --n-head {}", config.n_kv_head, config.n_head));
  }
  if (config.sink != Sink::none && config.normaliser != Normaliser::softmax)
    throw ConfigError("--attn-sink: only --normaliser softmax has a sum for a sink to join");
}

// Weights of the linear maps and the token embedding, the bulk of a model; in double, which does
// not overflow.
double estimated_parameters(const TransformerConfig& config) {
  const auto width = static_cast<double>(config.n_embd);
  const auto heads = static_cast<double>(config.n_head);
  const auto per_head = 2 * static_cast<double>(config.head_dim + config.value_dim);
  const double hidden_maps = config.activation == Activation::swiglu ? 3 : 2;
  const double attention = width * heads * per_head;
  const double ffn = config.ffn ? hidden_maps * width * static_cast<double>(config.d_ff) : 0;
  const double tables = config.tie_head ? 1 : 2;
  return static_cast<double>(config.n_layer) * (attention + ffn) +
         tables * width * static_cast<double>(config.vocabulary);
}

}  // namespace

TransformerConfig TransformerConfig::resolved() const {
  check_sizes(*this);
  check_numbers(*this);
  check_attention(*this);
  TransformerConfig config = *this;
  if (config.head_dim == 0) {
    if (n_embd % n_head != 0) {
      throw ConfigError(fmt::format("--n-head {} does not divide --n-embd {}", n_head, n_embd));
    }
    config.head_dim = n_embd / n_head;
  }
  if (config.n_kv_head == 0) config.n_kv_head = n_head;
  if (config.value_dim == 0) config.value_dim = config.head_dim;
  if (config.d_ff == 0) config.d_ff = 4 * n_embd;
  if (config.attention_dropout == kFollows) config.attention_dropout = dropout;

  const double parameters = estimated_parameters(config);
  if (parameters > kMostParameters) {
    throw ConfigError(
        fmt::format("--n-layer {} with --n-embd {} makes {} parameters; at most {} are supported",
                    n_layer, n_embd, format_count(static_cast<std::int64_t>(parameters)),
                    format_count(static_cast<std::int64_t>(kMostParameters))));
  }
  return config;
}

}  // namespace attune
