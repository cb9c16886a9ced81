#include "attune/nn/attention/mixture.h"

#include <algorithm>
#include <memory>

#include "attune/core/random.h"
#include "attune/nn/embedding.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_mixture_test {

AttentionConfig small(std::int64_t experts = 3) {
  return {.model = 5, .heads = 2, .head_dim = 3, .bias = true, .experts = experts};
}

struct Layer {
  explicit Layer(const AttentionConfig& config = small())
      : none(make_positional_encoding("none", bench.root, {}, bench.init)),
        attention(bench.root / "a", config, *none, bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> none;
  MixtureAttention attention;
};

Row probabilities(Layer& layer, const Row& x) {
  return softmax_of(mapped(layer.bench, "a.router", x));
}

TEST(MixtureAttention, EqualsTheFormulaTokenByToken) {
  Layer layer;
  const Array x = random_array({2, 6, 5}, 1);
  Row expected;
  std::vector<std::int64_t> tokens(3, 0);
  double balance = 0;
  Row means(3, 0.0);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 6; ++i) {
      const Row p = probabilities(layer, row_of(x, b, i));
      const auto expert = std::max_element(p.begin(), p.end()) - p.begin();
      const std::string own = "a.expert." + std::to_string(expert);
      ++tokens[static_cast<std::size_t>(expert)];
      add_to(means, 1.0 / 12, p);
      const Row query = mapped(layer.bench, own + ".query", row_of(x, b, i));
      Row heads;
      for (std::int64_t h = 0; h < 2; ++h) {
        Row scores, mixed(3, 0.0);
        for (std::int64_t j = 0; j <= i; ++j) {
          const Row key = mapped(layer.bench, "a.key", row_of(x, b, j));
          scores.push_back(dot(part(query, 3 * h, 3), part(key, 3 * h, 3)) / std::sqrt(3.0));
        }
        const Row weights = softmax_of(scores);
        for (std::int64_t j = 0; j <= i; ++j) {
          add_to(mixed, weights[static_cast<std::size_t>(j)],
                 part(mapped(layer.bench, "a.value", row_of(x, b, j)), 3 * h, 3));
        }
        append(heads, mixed);
      }
      Row y(5, 0.0);
      add_to(y, p[static_cast<std::size_t>(expert)], mapped(layer.bench, own + ".output", heads));
      append(expected, y);
    }
  }
  for (std::size_t e = 0; e < 3; ++e) balance += 3 * means[e] * static_cast<double>(tokens[e]) / 12;
  const MixtureAttention::Routed routed = layer.attention.route(x, {}, {});
  expect_near(routed.y.value(), expected, 1e-12);
  EXPECT_EQ(routed.tokens, tokens);
  EXPECT_NEAR(routed.balance.value().item(), balance, 1e-13);
  EXPECT_GT(*std::ranges::min_element(tokens), 0) << "the case is to use all experts";
}

// Multiply-adds of all maps, from the shapes of what the tape recorded.
class CountProducts final : public ValueObserver {
 public:
  void on_record(const Tape& tape, const RecordView& record,
                 std::span<const Array> outputs) override {
    if (std::string_view(record.op.text) != "linear") return;
    products += outputs[0].size() * tape.shape_of(record.inputs[0]).last();
  }
  std::int64_t products = 0;
};

std::int64_t products_of(std::int64_t experts) {
  const Layer layer(small(experts));
  CountProducts count;
  Tape tape;
  tape.set_value_observer(&count);
  Pass pass;
  pass.tape = &tape;
  (void)layer.attention(tape.leaf(random_array({2, 16, 5}, 1)), {}, pass);
  return count.products;
}

TEST(MixtureAttention, ManyExpertsCostWhatOneCosts) {
  constexpr std::int64_t kTokens = 2 * 16;
  for (const std::int64_t experts : {1, 2, 8}) {
    // Queries, keys, values and outputs once, 5 x 6 each, whatever the number of experts.
    EXPECT_EQ(products_of(experts) - kTokens * 5 * experts, kTokens * 4 * 5 * 6) << experts;
  }
}

TEST(MixtureAttention, ExpertsThatWereNotChosenAreLeftOut) {
  Layer layer;
  // The router likes the first expert for any token with a positive first feature.
  layer.bench.store.find("a.router.weight")
      ->set_value(
          Array::from({3, 5}, {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, -9, 0, 0, 0, 0}, DType::float64));
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Array x = random_array({1, 4, 5}, 1, DType::float64, 0.1, 1);
  const MixtureAttention::Routed routed = layer.attention.route(x, {}, pass);
  EXPECT_EQ(routed.tokens, (std::vector<std::int64_t>{4, 0, 0}));
  const Gradients gradients = tape.backward(routed.y, Array::full({1, 4, 5}, 1, DType::float64));
  EXPECT_NE(gradients.find(*layer.bench.store.find("a.expert.0.query.weight")), nullptr);
  for (const char* name : {"a.expert.1.query.weight", "a.expert.2.output.bias"}) {
    EXPECT_EQ(gradients.find(*layer.bench.store.find(name)), nullptr) << name;
    EXPECT_TRUE(layer.bench.store.find(name)->options().optional) << name;
  }
}

TEST(MixtureAttention, RefusesNoExperts) {
  expect_throws<ConfigError>([] { Layer layer(small(0)); },
                             "--attn-experts: 0, expected 1 or more");
}

// Standard deviation over mean of the experts' tokens, after training a layer to repeat the token
// before, from a router that begins with a liking for one expert.
double variation_after_training(double balancing) {
  constexpr std::int64_t kBatch = 16, kTime = 12, kSymbols = 32, kModel = 16, kExperts = 4;
  Bench bench(DType::float32);
  const InitScheme init("xavier", 0.5, 1);
  const auto position = make_positional_encoding(
      "rope", bench.root, {.model = kModel, .heads = 2, .head_dim = 8, .block_size = kTime}, init);
  const Embedding embedding(bench.root / "embedding", kSymbols, kModel, init);
  const MixtureAttention attention(
      bench.root / "a", {.model = kModel, .heads = 2, .head_dim = 8, .experts = kExperts},
      *position, init, 0);
  const Linear readout(bench.root / "readout", kModel, kSymbols, true, init);
  Parameter* table = bench.store.find("embedding.weight");
  table->set_value((Var(table->value()) + 0.3).value());
  Parameter* router = bench.store.find("a.router.weight");
  const Array liking = Array::from({kExperts, 1}, {0.3, 0, 0, 0}, DType::float32);
  router->set_value((Var(router->value()) + Var(liking)).value());

  const auto tokens_of = [&](std::uint32_t seed) {
    std::vector<std::int32_t> tokens;
    RandomCursor cursor(Randomness{.seed = seed}.stream("tokens"), 0);
    for (std::int64_t t = 0; t < kBatch * kTime; ++t)
      tokens.push_back(static_cast<std::int32_t>(cursor.below(kSymbols)));
    return tokens;
  };
  const auto route = [&](const std::vector<std::int32_t>& tokens, const Pass& pass) {
    PositionContext context = PositionContext::of(Positions::range(0, kTime));
    position->prepare(context, pass);
    return attention.route(embedding(tokens, {kBatch, kTime}, pass), context, pass);
  };
  descend(bench.store, 300, 0.01, [&](const Pass& pass) {
    const std::vector<std::int32_t> tokens = tokens_of(pass.random.step);
    const MixtureAttention::Routed routed = route(tokens, pass);
    std::vector<std::int32_t> before(tokens.size(), kIgnore);
    for (std::size_t t = 0; t < tokens.size(); ++t)
      if (t % kTime != 0) before[t] = tokens[t - 1];
    const CrossEntropy loss = cross_entropy(readout(routed.y, pass), before);
    return loss.loss_sum / static_cast<double>(loss.scored) + routed.balance * balancing;
  });
  const std::vector<std::int64_t> tokens = route(tokens_of(1'000'000), {}).tokens;
  double mean = 0, squares = 0;
  for (const std::int64_t count : tokens) mean += static_cast<double>(count) / kExperts;
  for (const std::int64_t count : tokens)
    squares += std::pow(static_cast<double>(count) - mean, 2) / kExperts;
  return std::sqrt(squares) / mean;
}

TEST(MixtureAttention, TheBalancingLossSpreadsTokensOverExperts) {
  EXPECT_LT(variation_after_training(0.3), 0.3);
  EXPECT_GT(variation_after_training(0), 0.3);
}

}  // namespace attune::attention_mixture_test
