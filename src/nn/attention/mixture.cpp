#include "attune/nn/attention/mixture.h"

#include <algorithm>
#include <numeric>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "attune/ops/softmax.h"
#include "core/index.h"
#include "nn/attention/dot_product.h"
#include "nn/attention/kinds.h"

namespace attune {

using namespace attention_parts;

namespace {

AttentionConfig mixture_config(const AttentionConfig& config) {
  if (config.experts < 1) {
    throw ConfigError("--attn-experts: " + std::to_string(config.experts) + ", expected 1 or more");
  }
  return checked(
      "mixture", config,
      {.kv_heads = true, .value_dim = true, .scale = true, .softcap = true, .dropout = true});
}

}  // namespace

// Which expert each token of a pass was sent to, the first of the most probable ones, and the order
// of tokens in which those of an expert stand together.
class MixtureAttention::Assignment {
 public:
  // probabilities: [tokens, experts]
  explicit Assignment(const Array& probabilities)
      : count(index(probabilities.shape()[1]), 0), order(index(probabilities.shape()[0])) {
    const std::vector<double> p = probabilities.to_vector();
    for (std::size_t t = 0; t < order.size(); ++t) {
      const auto row = p.begin() + static_cast<std::ptrdiff_t>(t * count.size());
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(count.size()));
      expert.push_back(static_cast<std::int32_t>(best - row));
      ++count[static_cast<std::size_t>(expert.back())];
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return expert[static_cast<std::size_t>(a)] < expert[static_cast<std::size_t>(b)];
    });
    place.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  }

  std::vector<std::int32_t> expert;  // of each token
  std::vector<std::int64_t> count;   // of each expert's tokens
  std::vector<std::int32_t> order;   // tokens, expert by expert
  std::vector<std::int32_t> place;   // of each token in that order
};

std::vector<MixtureAttention::Map> MixtureAttention::make_maps(const Scope& scope, const char* name,
                                                               const AttentionConfig& config,
                                                               const Shape& shape,
                                                               const InitScheme& init, Role role) {
  std::vector<Map> maps;
  for (std::int64_t e = 0; e < config.experts; ++e) {
    const Scope own = scope / "expert" / e / name;
    const Parameter* bias = nullptr;
    const Parameter& weight = own.parameter("weight", shape, init(role, shape), {.optional = true});
    if (config.bias) {
      bias = &own.parameter("bias", {shape[0]}, Initializer::constant(0),
                            {.decays = false, .optional = true});
    }
    maps.push_back({weight, bias});
  }
  return maps;
}

MixtureAttention::MixtureAttention(const Scope& scope, const AttentionConfig& config,
                                   const PositionalEncoding& encoding, const InitScheme& init,
                                   int layer)
    : config_(mixture_config(config)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      router_(scope / "router", config_.model, config_.experts, false, init),
      key_(scope / "key", config_.model, config_.kv_heads * config_.head_dim, config_.bias, init),
      value_(scope / "value", config_.model, config_.kv_heads * config_.value_dim, config_.bias,
             init),
      query_(make_maps(scope, "query", config_, {config_.heads * config_.head_dim, config_.model},
                       init, Role::weight)),
      output_(make_maps(scope, "output", config_,
                        {config_.model, config_.heads * config_.value_dim}, init,
                        Role::residual_projection)) {}

// Each token through the map of its expert: [tokens, in] -> [tokens, out].
Var MixtureAttention::of_experts(const std::vector<Map>& maps, const Var& x,
                                 const Assignment& assignment, const Pass& pass) const {
  if (x.shape()[0] == 0) return Array::zeros({0, maps[0].weight.shape()[0]}, x.dtype());
  const Var sorted = gather_rows(x, assignment.order, {x.shape()[0]});
  std::vector<Var> parts;
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < maps.size(); ++e) {
    const std::int64_t end = begin + assignment.count[e];
    if (end > begin) {
      parts.push_back(linear(slice(sorted, 0, begin, end), pass(maps[e].weight),
                             maps[e].bias ? pass(*maps[e].bias) : Var()));
    }
    begin = end;
  }
  return gather_rows(concat(parts, 0), assignment.place, {x.shape()[0]});
}

MixtureAttention::Routed MixtureAttention::route(const Var& x, const PositionContext& context,
                                                 const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Shape shape = x.shape();
  const std::int64_t tokens = shape[0] * shape[1], experts = config_.experts;
  const Var flat = reshape(x, {tokens, shape[2]});
  const Var p =
      reshape(pass.hook(HookPoint::router, layer_,
                        reshape(softmax(router_(flat, pass)), {shape[0], shape[1], experts})),
              {tokens, experts});
  const Assignment assignment(p.value());

  const Var query = reshape(of_experts(query_, flat, assignment, pass),
                            {shape[0], shape[1], config_.heads * config_.head_dim});
  const Operands operands = with_positions_and_cache({query, key_(x, pass), value_(x, pass)},
                                                     config_, encoding_, layer_, context, pass);
  const Var mixed = pass.hook(HookPoint::head_output, layer_,
                              attend(operands, config_, path_, encoding_, layer_, context, pass));
  const Var answers = of_experts(
      output_, reshape(mixed, {tokens, config_.heads * config_.value_dim}), assignment, pass);

  std::vector<std::int32_t> chosen;
  for (std::int64_t t = 0; t < tokens; ++t)
    chosen.push_back(static_cast<std::int32_t>(t * experts) + assignment.expert[index(t)]);
  const Var gate = gather_rows(reshape(p, {tokens * experts, 1}), chosen, {tokens});

  std::vector<double> shares;
  for (const std::int64_t count : assignment.count)
    shares.push_back(static_cast<double>(experts * count) / static_cast<double>(tokens));
  const Var balance = sum(mean(p, 0) * Var(Array::from({experts}, shares, x.dtype())));
  return {reshape(answers * gate, shape), assignment.count, balance};
}

Var MixtureAttention::operator()(const Var& x, const PositionContext& context,
                                 const Pass& pass) const {
  const Routed routed = route(x, context, pass);
  if (pass.layer_loss_weight == 0) return routed.y;
  const PathGuard guard(pass.tape, path_);
  return attach_loss(routed.y, routed.balance, pass.layer_loss_weight);
}

std::unique_ptr<SelfAttention> attention_kind::make_mixture(const Scope& scope,
                                                            const AttentionConfig& config,
                                                            const PositionalEncoding& encoding,
                                                            const InitScheme& init, int layer) {
  return std::make_unique<MixtureAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
