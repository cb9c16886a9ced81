#include "attune/model/transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "attune/autodiff/checkpoint.h"
#include "attune/core/error.h"
#include "attune/ops/matmul.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"

namespace attune {

namespace {

// A block of which the tape keeps the input alone. What the block reads beside it is copied, for
// the backward pass comes when the caller's pass is gone; statistics are taken the first time only.
Var checkpointed(const Block& block, const Var& x, const PositionContext& context,
                 const Pass& pass) {
  Pass again = pass;
  again.positions = nullptr;
  PositionContext kept = context;
  kept.score_bias = context.score_bias.detached();
  kept.distance_table = context.distance_table.detached();
  const Var* inputs[] = {&x, &context.score_bias, &context.distance_table};
  auto run = [&block, again, kept = std::move(kept), mask = pass.mask ? *pass.mask : Mask()](
                 Tape& tape, std::span<const Var> leaves) mutable {
    again.tape = &tape;
    again.mask = &mask;
    PositionContext positions = kept;
    positions.score_bias = leaves[1];
    positions.distance_table = leaves[2];
    Var y = block(leaves[0], positions, again);
    again.statistics = nullptr;
    return y;
  };
  return checkpoint(*pass.tape, inputs, std::move(run));
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, std::uint64_t seed, DType dtype,
                         std::int64_t most_parameters)
    : config_(config.resolved()), dtype_(dtype), store_(most_parameters) {
  if (has_mask_part(config_.mask, "documents") && config_.document_separator == kNoToken)
    throw ConfigError("--mask documents: no token is known that ends a document");
  const Scope root(store_, seed, dtype);
  const InitScheme init(config_.init, config_.init_std, config_.n_layer);
  token_embedding_.emplace(root / "token_embedding", config_.vocabulary, config_.n_embd, init);
  const PositionalConfig positional{
      .model = config_.n_embd,
      .heads = config_.n_head,
      .head_dim = config_.head_dim,
      .block_size = config_.random_positions > 0 ? config_.random_positions : config_.block_size,
      .causal = make_mask(config_.mask, config_.mask_sizes).is_causal(),
      .layers = config_.n_layer,
      .kv_heads = config_.n_kv_head,
      .value_dim = config_.value_dim,
      .score_scale = config_.attention_scale,
      .extension = config_.position_scale};
  encoding_ = make_positional_encoding(config_.positions, root / "position", positional, init);
  embedding_dropout_.emplace(root / "embedding_dropout", config_.dropout);
  blocks_.reserve(static_cast<std::size_t>(config_.n_layer));
  for (std::int64_t layer = 0; layer < config_.n_layer; ++layer) {
    blocks_.emplace_back(root / "block" / layer, config_, *encoding_, init,
                         static_cast<int>(layer));
  }
  if (config_.norm_position == NormPosition::pre) {
    final_norm_.emplace(root / "final_norm", config_.norm, config_.n_embd, config_.bias);
  }
  if (!config_.tie_head) {
    head_.emplace(root / "head", config_.n_embd, config_.vocabulary, false, init, Role::head);
  }
}

std::int64_t Transformer::length_limit() const {
  const std::int64_t limit = encoding_->position_limit();
  if (config_.random_positions == 0) return limit;
  return limit == 0 ? config_.random_positions : std::min(limit, config_.random_positions);
}

// Random positions are one draw for all examples of a step. Those of a text that comes piece by
// piece through a cache are drawn for the capacity of the cache, once and for all.
Positions Transformer::default_positions(std::int64_t time, const Pass& pass) const {
  const std::int64_t first = pass.cache ? pass.cache->read() : 0;
  if (config_.random_positions == 0) return Positions::range(first, time);
  const std::int64_t all = pass.cache ? std::max(pass.cache->capacity(), first + time) : time;
  Positions drawn =
      Positions::sample(all, config_.random_positions, pass.random.stream("positions"));
  drawn.values = {drawn.values.begin() + first, drawn.values.begin() + first + time};
  drawn.time = time;
  return drawn;
}

PositionContext Transformer::positions_of(const TokenBatch& batch, const Pass& pass) const {
  PositionContext context;
  context.query = pass.positions ? *pass.positions : default_positions(batch.time, pass);
  if (context.query.time != batch.time ||
      (context.query.batch != 1 && context.query.batch != batch.batch)) {
    throw ShapeError("transformer: positions for [" + std::to_string(context.query.batch) + ", " +
                     std::to_string(context.query.time) + "] tokens, not [" +
                     std::to_string(batch.batch) + ", " + std::to_string(batch.time) + "]");
  }
  context.new_key = context.query;
  context.cache = pass.cache;
  encoding_->prepare(context, pass);
  return context;
}

Var Transformer::hidden(const TokenBatch& batch, const Pass& pass) const {
  const PositionContext context = positions_of(batch, pass);
  const EmbeddingTerm term = encoding_->embedding_term(context.query, pass);
  Var x =
      (*token_embedding_)(batch.tokens, {batch.batch, batch.time}, pass, term.scale, term.added);
  x = (*embedding_dropout_)(x, pass);
  x = pass.hook(HookPoint::embedding, -1, x);
  if (config_.document_separator == kNoToken) {
    x = run_blocks(x, context, pass);
  } else {
    const Mask mask = pass.mask ? documents_of(batch) & *pass.mask : documents_of(batch);
    Pass inside = pass;
    inside.mask = &mask;
    x = run_blocks(x, context, inside);
  }
  if (pass.cache) pass.cache->advance(context.query);
  if (final_norm_) x = (*final_norm_)(x, pass);
  return pass.hook(HookPoint::final, static_cast<int>(blocks_.size()), x);
}

Var Transformer::run_blocks(Var x, const PositionContext& context, const Pass& pass) const {
  const bool checkpoints = pass.checkpoint_activations && pass.tape && !pass.hooks;
  for (const Block& block : blocks_)
    x = checkpoints ? checkpointed(block, x, context, pass) : block(x, context, pass);
  return x;
}

Mask Transformer::documents_of(const TokenBatch& batch) const {
  std::vector<std::int32_t> document;
  document.reserve(batch.tokens.size());
  for (std::int64_t b = 0; b < batch.batch; ++b) {
    std::int32_t number = 0;
    for (const std::int32_t token : batch.tokens.subspan(static_cast<std::size_t>(b * batch.time),
                                                         static_cast<std::size_t>(batch.time))) {
      document.push_back(number);
      if (token == config_.document_separator) ++number;
    }
  }
  return Mask::documents(batch.batch, std::move(document));
}

AttentionStatistics Transformer::make_statistics() const {
  return {static_cast<int>(config_.n_layer),
          static_cast<int>(blocks_.front().attention().logged_heads())};
}

bool Transformer::can_use_cache() const {
  return make_mask(config_.mask, config_.mask_sizes).is_causal() &&
         config_.document_separator == kNoToken;
}

std::int64_t Transformer::sight() const {
  const Mask mask = make_mask(config_.mask, config_.mask_sizes);
  const bool by_place = !mask.is_band() || config_.random_positions > 0;
  return can_use_cache() && !by_place && encoding_->cache_limit() == 0 ? mask.window_width() : 0;
}

Var Transformer::head(const Var& hidden, const Pass& pass) const {
  const PathGuard guard(pass.tape, "head");
  return head_ ? (*head_)(hidden, pass) : linear(hidden, pass(token_embedding_->weight()));
}

Var Transformer::logits(const TokenBatch& batch, const Pass& pass) const {
  return head(hidden(batch, pass), pass);
}

CrossEntropy Transformer::loss(const TokenBatch& batch, std::span<const std::int32_t> targets,
                               const Pass& pass, double label_smoothing,
                               std::span<std::uint8_t> row_correct) const {
  if (targets.size() != batch.tokens.size()) {
    throw ShapeError("transformer: " + std::to_string(targets.size()) + " targets for " +
                     std::to_string(batch.tokens.size()) + " tokens");
  }
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> scored;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kIgnore) continue;
    rows.push_back(static_cast<std::int32_t>(i));
    scored.push_back(targets[i]);
  }
  Var x = reshape(hidden(batch, pass), {batch.batch * batch.time, config_.n_embd});
  const auto count = static_cast<std::int64_t>(rows.size());
  if (rows.size() != targets.size()) x = gather_rows(x, rows, {count});
  const Var logits = head(x, pass);
  const PathGuard guard(pass.tape, "loss");
  return cross_entropy(logits, scored, label_smoothing, row_correct);
}

KvCache Transformer::make_cache(std::int64_t batch, std::int64_t capacity) const {
  const auto [key, value] = blocks_.front().attention().cache_widths();
  return {static_cast<int>(config_.n_layer), batch, capacity, key, value, dtype_};
}

}  // namespace attune
