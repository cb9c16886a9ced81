#include <cmath>

#include "attune/ops/attention.h"
#include "observe/gradcheck_suite_cases.h"

// Attention, fused and composed, in every form its options can take, and rotations.
namespace attune::gradcheck_suite {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kAttentionHeads = 2;
constexpr std::int64_t kKeyWidth = 3;
constexpr std::int64_t kValueWidth = 2;

struct Form {
  const char* name;
  AttentionOptions options{};
  Mask mask{};
  std::int64_t query = 4;
  std::int64_t key = 4;
  std::int64_t bias_batch = 0;  // 0: no bias
};

AttentionOptions with_heads(std::int64_t kv_heads = 0) {
  AttentionOptions options;
  options.heads = kAttentionHeads;
  options.kv_heads = kv_heads;
  return options;
}

AttentionOptions with_scale(double scale, double softcap) {
  AttentionOptions options = with_heads();
  options.scale = scale;
  options.softcap = softcap;
  return options;
}

AttentionOptions with_dropout(double softcap = 0) {
  AttentionOptions options = with_scale(0, softcap);
  options.dropout = {0.3, Randomness{.seed = 3}.stream("gradcheck.pattern"), 5};
  return options;
}

AttentionOptions tiled(AttentionOptions options) {
  options.form = AttentionForm::tiled;
  return options;
}

AttentionOptions sparse(AttentionOptions options) {
  options.form = AttentionForm::sparse;
  return options;
}

AttentionOptions with_normaliser(Normaliser normaliser) {
  AttentionOptions options = with_heads();
  options.normaliser = normaliser;
  return options;
}

std::vector<Form> forms() {
  const AttentionOptions plain = with_heads();
  const std::int64_t lengths[] = {4, 2};
  return {
      {"", plain},
      {" causal", plain, Mask::causal()},
      {" causal, more keys", plain, Mask::causal(), 3, 5},
      {" causal, rows without a key", plain, Mask::causal(), 5, 3},
      {" window", plain, Mask::causal() & Mask::window(2)},
      {" padding", plain, Mask::key_lengths(lengths, 4)},
      {" custom mask", plain, Mask::custom(1, 2, 2, 3, {1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0}), 2, 3},
      {" bias", plain, Mask::causal(), 4, 4, 1},
      {" bias a batch", plain, Mask::none(), 4, 4, kBatch},
      {" scale", with_scale(1.5, 0), Mask::causal()},
      {" softcap", with_scale(2, 1.5), Mask::causal(), 4, 4, 1},
      {" grouped heads", with_heads(1), Mask::causal()},
      {" dropout", with_dropout(), Mask::causal()},
      {" one key", plain, Mask::none(), 3, 1},
      {" tiled", tiled(plain), Mask::causal(), 3, 5, kBatch},
      {" tiled, padding", tiled(with_dropout()), Mask::key_lengths(lengths, 4)},
      {" tiled, softcap", tiled(with_scale(2, 1.5)), Mask::causal() & Mask::window(2)},
      {" tiled, grouped heads", tiled(with_heads(1)), Mask::causal()},
      {" sparse", sparse(plain), Mask::causal() & Mask::sparse({.window = 2, .dilation = 2}), 4, 4,
       1},
      {" sparse, softcap, dropout", sparse(with_dropout(1.5)), Mask::key_lengths(lengths, 4)},
      {" sparse, grouped heads", sparse(with_heads(1)), Mask::prefix(2)},
      {" sigmoid", with_normaliser(Normaliser::sigmoid), Mask::causal(), 4, 4, 1},
      {" relu", with_normaliser(Normaliser::relu), Mask::causal()},
  };
}

void add_form(Cases& cases, const Form& form, bool fused) {
  const std::int64_t kv_heads = form.options.kv_heads ? form.options.kv_heads : kAttentionHeads;
  std::vector<Shape> shapes = {{kBatch, form.query, kAttentionHeads * kKeyWidth},
                               {kBatch, form.key, kv_heads * kKeyWidth},
                               {kBatch, form.key, kv_heads * kValueWidth}};
  if (form.bias_batch > 0)
    shapes.push_back({form.bias_batch, kAttentionHeads, form.query, form.key});
  const auto run = [options = form.options, mask = form.mask, fused](Values x) {
    AttentionOptions masked = options;
    masked.mask = &mask;
    const Var bias = x.size() > 3 ? x[3] : Var();
    return fused ? attention(x[0], x[1], x[2], bias, masked)
                 : attention_textbook(x[0], x[1], x[2], bias, masked);
  };
  cases.push_back(uniform_case(std::string(fused ? "attention" : "attention_textbook") + form.name,
                               shapes, run));
}

// Positions with a gap, of the second example others.
void add_distance_bias(Cases& cases) {
  static constexpr std::int32_t kQueries[] = {0, 1, 4, 3, 4, 5};
  static constexpr std::int32_t kKeys[] = {0, 1, 2, 5};
  constexpr std::int64_t kFirst = -5;
  const auto bias_of = [](const Var& table) {
    return DistanceBias{table, kFirst, kQueries, kKeys};
  };
  cases.push_back(uniform_case("expand", {{kAttentionHeads, 11}},
                               [=](Values x) { return expand(bias_of(x[0]), 3, 4); }));
  for (const AttentionForm form : {AttentionForm::stored, AttentionForm::tiled}) {
    const std::string name = form == AttentionForm::tiled ? ", tiled" : "";
    cases.push_back(uniform_case("attention distance bias" + name,
                                 {{kBatch, 3, kAttentionHeads * kKeyWidth},
                                  {kBatch, 4, kAttentionHeads * kKeyWidth},
                                  {kBatch, 4, kAttentionHeads * kValueWidth},
                                  {kAttentionHeads, 11}},
                                 [=](Values x) {
                                   AttentionOptions options = with_heads();
                                   options.form = form;
                                   options.distance_bias = bias_of(x[3]);
                                   return attention(x[0], x[1], x[2], {}, options);
                                 }));
  }
}

// Query, key, value, then the sink, the mix of scores and that of weights.
void add_sink_and_talking_heads(Cases& cases) {
  static const Mask kCausal = Mask::causal();
  cases.push_back(uniform_case("attention sink, talking heads",
                               {{kBatch, 3, kAttentionHeads * kKeyWidth},
                                {kBatch, 4, kAttentionHeads * kKeyWidth},
                                {kBatch, 4, kAttentionHeads * kValueWidth},
                                {kAttentionHeads},
                                {kAttentionHeads, kAttentionHeads},
                                {kAttentionHeads, kAttentionHeads}},
                               [](Values x) {
                                 AttentionOptions options = with_heads();
                                 options.mask = &kCausal;
                                 options.sink = x[3];
                                 options.mix_scores = x[4];
                                 options.mix_weights = x[5];
                                 return attention(x[0], x[1], x[2], {}, options);
                               }));
}

void add_rotation(Cases& cases, const std::string& form, std::int64_t rotated, bool interleaved,
                  std::int64_t batch) {
  constexpr std::int64_t kTime = 3;
  const Array angles = uniform({batch, kTime, rotated / 2}, 9, -3, 3);
  Array cosines = angles.clone();
  Array sines = angles.clone();
  for (double& angle : cosines.mutable_data<double>()) angle = std::cos(angle);
  for (double& angle : sines.mutable_data<double>()) angle = std::sin(angle);
  cases.push_back(uniform_case(
      "rotate_pairs" + form, {{kBatch, kTime, kAttentionHeads * 6}},
      [=](Values x) { return rotate_pairs(x[0], kAttentionHeads, cosines, sines, interleaved); }));
}

}  // namespace

void add_attention(Cases& cases) {
  for (const bool fused : {true, false}) {
    for (const Form& form : forms()) add_form(cases, form, fused);
  }
  // Longer than one tile of the fused kernel.
  cases.push_back(uniform_case("attention long", {{1, 150, 6}, {1, 150, 6}, {1, 150, 4}},
                               [mask = Mask::causal()](Values x) {
                                 AttentionOptions options = with_heads();
                                 options.mask = &mask;
                                 return attention(x[0], x[1], x[2], {}, options);
                               }));
  cases.back().directions = 5;

  add_distance_bias(cases);
  add_sink_and_talking_heads(cases);
  add_rotation(cases, " half-split", 6, false, 1);
  add_rotation(cases, " half-split, a batch", 6, false, kBatch);
  add_rotation(cases, " half-split, partial", 4, false, 1);
  add_rotation(cases, " interleaved", 6, true, 1);
  add_rotation(cases, " interleaved, partial", 2, true, kBatch);
}

}  // namespace attune::gradcheck_suite
