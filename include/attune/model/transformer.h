#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attune/autodiff/parameter.h"
#include "attune/model/block.h"
#include "attune/model/transformer_config.h"
#include "attune/nn/embedding.h"
#include "attune/nn/kv_cache.h"
#include "attune/ops/loss.h"

namespace attune {

// Token ids side by side, row-major.
struct TokenBatch {
  std::span<const std::int32_t> tokens;  // [batch, time]
  std::int64_t batch = 0;
  std::int64_t time = 0;
};

// A decoder-only transformer (Radford et al. 2019): token embedding, positions, blocks, final norm
// (pre-norm models), head. Owns its parameters. Usable from several threads at once, each with a
// Pass of its own.
class Transformer final {
 public:
  // Throws ConfigError where the configuration does not fit together or makes more parameters than
  // `most_parameters`, before their memory is taken.
  Transformer(const TransformerConfig& config, std::uint64_t seed, DType dtype = DType::float32,
              std::int64_t most_parameters = std::numeric_limits<std::int64_t>::max());

  [[nodiscard]] const TransformerConfig& config() const { return config_; }
  [[nodiscard]] ParameterStore& parameters() { return store_; }
  [[nodiscard]] const ParameterStore& parameters() const { return store_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const PositionalEncoding& encoding() const { return *encoding_; }
  // The longest text that has positions, in tokens; 0: any length has.
  [[nodiscard]] std::int64_t length_limit() const;

  // What the head reads: [batch, time, model].
  [[nodiscard]] Var hidden(const TokenBatch& batch, const Pass& pass) const;
  // hidden [..., model] -> logits [..., vocabulary]
  [[nodiscard]] Var head(const Var& hidden, const Pass& pass) const;
  // [batch, time, vocabulary]
  [[nodiscard]] Var logits(const TokenBatch& batch, const Pass& pass) const;
  // Cross entropy at scored targets, [batch, time]; logits are computed nowhere else. Where given,
  // row_correct has one flag for each scored target, in order: whether its largest logit is the
  // target.
  [[nodiscard]] CrossEntropy loss(const TokenBatch& batch, std::span<const std::int32_t> targets,
                                  const Pass& pass, double label_smoothing = 0,
                                  std::span<std::uint8_t> row_correct = {}) const;

  // Statistics of all layers and logged heads, empty.
  [[nodiscard]] AttentionStatistics make_statistics() const;
  // Whether tokens see none behind them, and nothing but tokens says what they see: then what a
  // KV-cache holds stays right when more tokens come.
  [[nodiscard]] bool can_use_cache() const;
  // How many tokens a layer looks back, the query's own included, where the mask is a causal window
  // and nothing else: a cache may then forget what lies behind. 0: all.
  [[nodiscard]] std::int64_t sight() const;
  // An empty cache for this model.
  [[nodiscard]] KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;

 private:
  // The mask that follows from the tokens; keeps everything where the configuration has none.
  [[nodiscard]] Mask documents_of(const TokenBatch& batch) const;
  [[nodiscard]] Var run_blocks(Var x, const PositionContext& context, const Pass& pass) const;
  [[nodiscard]] Positions default_positions(std::int64_t time, const Pass& pass) const;
  [[nodiscard]] PositionContext positions_of(const TokenBatch& batch, const Pass& pass) const;

  TransformerConfig config_;
  DType dtype_;
  ParameterStore store_;
  std::optional<Embedding> token_embedding_;
  std::unique_ptr<PositionalEncoding> encoding_;
  std::optional<Dropout> embedding_dropout_;
  std::vector<Block> blocks_;
  std::optional<Norm> final_norm_;
  std::optional<Linear> head_;  // none: tied to the token embedding
};

}  // namespace attune
