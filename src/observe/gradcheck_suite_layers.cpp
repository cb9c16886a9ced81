#include <array>

#include "attune/model/transformer.h"
#include "attune/nn/dropout.h"
#include "attune/nn/embedding.h"
#include "attune/nn/feed_forward.h"
#include "attune/nn/linear.h"
#include "attune/nn/multi_head_attention.h"
#include "attune/nn/norm.h"
#include "attune/nn/recurrent.h"
#include "attune/ops/arithmetic.h"
#include "observe/gradcheck_suite_cases.h"
#include "observe/gradcheck_suite_layer_case.h"

// Layers and whole models, by their inputs and all their parameters.
namespace attune::gradcheck_suite {
namespace {

constexpr std::int64_t kModel = 6;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kHeadDim = 4;
constexpr std::int64_t kTime = 3;

const Shape kInput{2, kTime, kModel};

void add_tables(Cases& cases) {
  for (const bool bias : {false, true}) {
    add_layer(
        cases, bias ? "linear bias" : "linear", {kInput},
        [=](const Scope& root) { return Linear(root, kModel, 5, bias, init()); }, kCall);
  }
  add_layer(
      cases, "embedding", {}, [](const Scope& root) { return Embedding(root, 7, 4, init()); },
      [](const Embedding& layer, Values, const Pass& pass) {
        constexpr std::array<std::int32_t, 6> indices = {6, 0, 2, 2, 6, 2};
        return layer(indices, {2, 3}, pass);
      });
}

void add_norms(Cases& cases) {
  using enum NormKind;
  const auto add = [&](const char* name, NormKind kind, bool shift) {
    add_layer(
        cases, name, {kInput}, [=](const Scope& root) { return Norm(root, kind, kModel, shift); },
        [](const Norm& layer, Values inputs, const Pass& pass) {
          return multiply(layer(inputs[0], pass), inputs[0]);  // none alone records nothing
        });
  };
  add("norm layernorm", layernorm, false);
  add("norm layernorm shift", layernorm, true);
  add("norm rmsnorm", rmsnorm, false);
  add("norm none", none, false);
}

void add_feed_forwards(Cases& cases) {
  const auto add = [&](const char* name, Activation activation, bool bias) {
    add_layer(
        cases, name, {kInput},
        [=](const Scope& root) {
          return FeedForward(root, {kModel, 7, activation, bias}, init(), 0);
        },
        kCall);
  };
  add("feed_forward gelu", Activation::gelu, true);
  add("feed_forward gelu_tanh", Activation::gelu_tanh, true);
  add("feed_forward relu", Activation::relu, true);
  add("feed_forward swiglu", Activation::swiglu, true);
  add("feed_forward no bias", Activation::swiglu, false);
}

template <class Cell>
void add_recurrent(Cases& cases, const char* name) {
  add_layer(
      cases, name, {kInput},
      [](const Scope& root) { return Cell(root, {.in = kModel, .hidden = 5}, init()); }, kCall);
}

void add_recurrent_cells(Cases& cases) {
  add_recurrent<Rnn>(cases, "rnn");
  add_recurrent<Lstm>(cases, "lstm");
  add_recurrent<Gru>(cases, "gru");
}

// A layer that reads positions, and what it reads them through.
template <class Layer>
struct Positioned {
  std::unique_ptr<PositionalEncoding> encoding;
  Layer layer;
};

// What the model does once a pass: the encoding sees its positions.
PositionContext context_of(const PositionalEncoding& encoding, const Pass& pass, std::int64_t query,
                           std::int64_t key) {
  PositionContext context;
  context.query = Positions::range(0, query);
  context.new_key = Positions::range(0, key);
  encoding.prepare(context, pass);
  return context;
}

std::unique_ptr<PositionalEncoding> encoding_of(const std::string& name, const Scope& root,
                                                bool causal, std::int64_t value_dim = 0) {
  return make_positional_encoding(name, root / "position",
                                  {.model = kModel,
                                   .heads = kHeads,
                                   .head_dim = kHeadDim,
                                   .block_size = 8,
                                   .causal = causal,
                                   .layers = 1,
                                   .value_dim = value_dim},
                                  init());
}

// Self-attention behind the encoding's embedding, or cross-attention to a memory.
void add_multi_head_attention(Cases& cases, const std::string& name, const std::string& encoding,
                              const AttentionConfig& config, bool cross) {
  const std::int64_t key = cross ? kTime + 2 : kTime;
  std::vector<Shape> shapes = {{2, kTime, kModel}};
  if (cross) shapes.push_back({2, key, config.memory});
  add_layer(
      cases, "multi_head_attention " + name, shapes,
      [&](const Scope& root) {
        auto made = encoding_of(encoding, root, !cross, config.value_dim);
        MultiHeadAttention layer(root / "attention", config, *made, init(), 0);
        return Positioned<MultiHeadAttention>{std::move(made), std::move(layer)};
      },
      [=](const Positioned<MultiHeadAttention>& one, Values x, const Pass& pass) {
        const PositionContext context = context_of(*one.encoding, pass, kTime, key);
        const Var embedded = one.encoding->embed(x[0], context.query, pass);
        return cross ? one.layer(embedded, x[1], context, pass)
                     : one.layer(embedded, context, pass);
      });
}

AttentionConfig attention_config() {
  return {.model = kModel, .heads = kHeads, .head_dim = kHeadDim, .bias = true};
}

void add_attention_layers(Cases& cases) {
  for (const EncodingInfo& encoding : list_encodings()) {
    AttentionConfig config = attention_config();
    add_multi_head_attention(cases, encoding.name, encoding.name, config, false);
    if (encoding.causal_only) continue;
    config.memory = 5;
    config.mask = Mask::none();
    add_multi_head_attention(cases, "cross " + encoding.name, encoding.name, config, true);
  }
  AttentionConfig config = attention_config();
  config.kv_heads = 1;
  config.value_dim = 3;
  config.bias = false;
  for (const char* encoding : {"rope", "shaw", "transformer-xl", "cope"})
    add_multi_head_attention(cases, std::string("grouped heads ") + encoding, encoding, config,
                             false);
  config = attention_config();
  config.softcap = 2;
  config.dropout = 0.3;
  add_multi_head_attention(cases, "softcap, dropout", "t5", config, false);
}

TransformerConfig small_model() {
  TransformerConfig config;
  config.vocabulary = 7;
  config.block_size = 5;
  config.n_layer = 2;
  config.n_head = kHeads;
  config.n_embd = 2 * kHeadDim;
  config.d_ff = 7;
  config.bias = true;
  config.init = "normal";
  config.init_std = 0.5;
  return config;
}

void add_block(Cases& cases, const std::string& name, TransformerConfig config) {
  config.positions = "none";
  config = config.resolved();
  add_layer(
      cases, "block " + name, {{2, kTime, config.n_embd}},
      [&](const Scope& root) {
        auto encoding = encoding_of("none", root, true);
        Block block(root / "block", config, *encoding, init(), 0);
        return Positioned<Block>{std::move(encoding), std::move(block)};
      },
      [](const Positioned<Block>& one, Values x, const Pass& pass) {
        return one.layer(x[0], context_of(*one.encoding, pass, kTime, kTime), pass);
      });
}

void add_blocks(Cases& cases) {
  TransformerConfig config = small_model();
  add_block(cases, "pre", config);
  config.dropout = 0.3;
  add_block(cases, "pre dropout", config);
  config = small_model();
  config.norm_position = NormPosition::post;
  add_block(cases, "post", config);
  config.norm = NormKind::rmsnorm;
  config.activation = Activation::swiglu;
  add_block(cases, "post rmsnorm swiglu", config);
  config = small_model();
  config.residual = false;
  add_block(cases, "no residual", config);
  config = small_model();
  config.ffn = false;
  add_block(cases, "no ffn", config);
}

void add_model(Cases& cases, const std::string& name, const TransformerConfig& config) {
  struct ModelSubject final : GradcheckSubject {
    explicit ModelSubject(const TransformerConfig& of) : model(of, 3, kDouble) {}
    Transformer model;
  };
  auto subject = std::make_unique<ModelSubject>(config);
  ParameterStore& store = subject->model.parameters();
  spread_parameters(store, 5);
  GradcheckCase one{"model " + name, {}, {}};
  for (const Parameter& parameter : store) one.inputs.push_back(parameter.value());
  one.function = with_parameters(
      store, 0,
      [&model = subject->model](Values, const Pass& pass) {
        constexpr std::array<std::int32_t, 10> tokens = {1, 6, 0, 3, 3, 2, 2, 5, 4, 0};
        constexpr std::array<std::int32_t, 10> targets = {6, 0, 3, 3, kIgnore, 2, kIgnore, 4, 0, 1};
        const CrossEntropy loss = model.loss({tokens, 2, 5}, targets, pass, 0.1);
        return multiply(loss.loss_sum, 1 / static_cast<double>(loss.scored));
      },
      training_pass());
  one.subject = std::move(subject);
  cases.push_back(std::move(one));
}

}  // namespace

void add_layers(Cases& cases) {
  add_tables(cases);
  add_norms(cases);
  add_layer(
      cases, "dropout", {kInput}, [](const Scope& root) { return Dropout(root / "dropout", 0.4); },
      kCall);
  add_feed_forwards(cases);
  add_recurrent_cells(cases);
  add_attention_layers(cases);
  add_blocks(cases);
}

void add_models(Cases& cases) {
  for (const EncodingInfo& encoding : list_encodings()) {
    TransformerConfig config = small_model();
    config.positions = encoding.name;
    add_model(cases, "transformer " + encoding.name, config);
  }
  TransformerConfig config = small_model();
  config.norm_position = NormPosition::post;
  config.norm = NormKind::rmsnorm;
  config.activation = Activation::swiglu;
  config.tie_head = false;
  config.bias = false;
  add_model(cases, "transformer post rmsnorm swiglu, head apart", config);
  config = small_model();
  config.dropout = 0.2;
  config.mask = "none";
  add_model(cases, "transformer dropout, no mask", config);
}

}  // namespace attune::gradcheck_suite
