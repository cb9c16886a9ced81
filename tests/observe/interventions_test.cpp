#include "attune/observe/interventions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/observe/attention_maps.h"
#include "attune/observe/gradcheck_suite.h"
#include "attune/observe/head_detectors.h"
#include "attune/observe/logit_lens.h"

// Looking into a forward pass and changing it: taps, maps, ablation, patching, the logit lens.
namespace attune::interventions_test {

constexpr std::int64_t kHeads = 3;

TransformerConfig config_of(const std::string& attention = "dot-product") {
  TransformerConfig config;
  config.vocabulary = 11;
  config.block_size = 7;
  config.n_layer = 2;
  config.n_head = kHeads;
  config.n_embd = 12;
  config.attention = attention;
  return config;
}

// A model far from its initialisation, where every part matters.
struct Subject {
  explicit Subject(const TransformerConfig& config = config_of())
      : model(config, 5, DType::float64) {
    spread_parameters(model.parameters(), 3);
  }
  [[nodiscard]] TokenBatch batch(const std::vector<std::int32_t>& tokens) const {
    return {tokens, 2, 5};
  }
  [[nodiscard]] Array logits(const std::vector<std::int32_t>& tokens,
                             Hooks* hooks = nullptr) const {
    Pass pass;
    pass.hooks = hooks;
    return model.logits(batch(tokens), pass).value();
  }

  Transformer model;
  std::vector<std::int32_t> clean = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<std::int32_t> corrupted = {1, 9, 3, 4, 5, 6, 0, 8, 9, 10};
  std::vector<std::int32_t> targets = {2, 3, 4, 5, kIgnore, kIgnore, 8, 9, 10, 1};
};

double difference(const Array& a, const Array& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

TEST(Taps, KeepWhatIsAskedForAndChangeNothing) {
  const Subject subject;
  Taps taps({HookPoint::pattern, HookPoint::ffn_hidden, HookPoint::embedding}, {-1, 1});
  EXPECT_LT(difference(subject.logits(subject.clean, &taps), subject.logits(subject.clean)), 1e-12);
  ASSERT_EQ(taps.values().size(), 3u);
  EXPECT_EQ(taps.at(HookPoint::pattern, 1).shape(), Shape({2, kHeads, 5, 5}));
  EXPECT_EQ(taps.at(HookPoint::ffn_hidden, 1).shape(), Shape({2, 5, 48}));
  EXPECT_EQ(taps.at(HookPoint::embedding, -1).shape(), Shape({2, 5, 12}));
  EXPECT_TRUE(taps.find(HookPoint::pattern, 0).is_null());
  EXPECT_FALSE(taps.wants_inside_of_attention(0));
  try {
    (void)taps.at(HookPoint::pattern, 0);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "taps: nothing came by at pattern of layer 0");
  }
}

// The entropies of the maps, summed over rows with two keys or more, are those that the fused
// kernel counts.
TEST(AttentionPatternsOfAnInput, AgreeWithTheStatisticsOfThePass) {
  TransformerConfig with_sink = config_of();
  with_sink.sink = Sink::learned;
  TransformerConfig differential = config_of("differential");
  differential.n_head = 2;
  for (const TransformerConfig& config : {config_of(), with_sink, differential}) {
    const Subject subject(config);
    const AttentionPatterns maps =
        attention_patterns(subject.model, std::span(subject.clean).first(5));
    EXPECT_TRUE(maps.missing.empty());
    EXPECT_EQ(maps.heads, subject.model.make_statistics().heads());
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < maps.heads; ++head) {
        double sum = 0;
        for (std::int64_t i = 0; i < 5; ++i)
          sum += maps.entropies[static_cast<std::size_t>((layer * maps.heads + head) * 5 + i)];
        EXPECT_NEAR(sum, maps.statistics.at(layer, head).entropy_sum, 1e-9);
        EXPECT_EQ(maps.weight(layer, head, 1, 2), 0);  // the mask
      }
    }
  }
}

TEST(AttentionPatternsOfAnInput, KindsWithoutWeightsSaySo) {
  const Subject subject(config_of("linear"));
  const AttentionPatterns maps =
      attention_patterns(subject.model, std::span(subject.clean).first(7));
  EXPECT_TRUE(maps.missing.starts_with("--attention linear: there are no maps"));
  EXPECT_TRUE(maps.weights.empty());
  EXPECT_EQ(detect_heads(subject.model, subject.batch(subject.clean)).heads, 0);
  EXPECT_THROW((void)attention_patterns(subject.model, {}), ValueError);
  EXPECT_THROW((void)attention_patterns(subject.model, std::vector<std::int32_t>{11}), ValueError);
  EXPECT_THROW((void)attention_patterns(Subject().model, subject.clean), ValueError);  // 10 > 7
}

// Head h reads rows h * 4 to h * 4 + 3 of the value map and writes through as many columns of the
// output map.
TEST(HeadAblation, ZeroIsAModelWithoutTheHeadsValueWeights) {
  const Subject subject;
  const HeadRef heads[] = {{1, 0}, {1, 2}};
  HeadAblation ablation(subject.model, heads);
  Subject without;
  Parameter* value = without.model.parameters().find("block.1.attention.value.weight");
  ASSERT_NE(value, nullptr);
  std::vector<double> weights = value->value().to_vector();  // [12, 12]
  std::fill_n(weights.begin(), 4 * 12, 0.0);
  std::fill_n(weights.begin() + 8 * 12, 4 * 12, 0.0);
  value->set_value(Array::from({12, 12}, weights, DType::float64));
  const Array ablated = subject.logits(subject.clean, &ablation);
  EXPECT_LT(difference(ablated, without.logits(subject.clean)), 1e-12);
  EXPECT_GT(difference(ablated, subject.logits(subject.clean)), 1e-3);
}

// The mean over all examples and positions, by a loop of its own.
TEST(HeadAblation, MeanPutsTheHeadsMeanInItsPlaceAndLeavesTheOthers) {
  const Subject subject;
  Taps plain({HookPoint::head_output}), changed({HookPoint::head_output});
  (void)subject.logits(subject.clean, &plain);
  const HeadRef head{0, 1};
  HeadAblation ablation(subject.model, std::span(&head, 1),
                        mean_head_outputs(subject.model, subject.batch(subject.clean)));
  HookChain chain({&ablation, &changed});
  (void)subject.logits(subject.clean, &chain);
  const Array before = plain.at(HookPoint::head_output, 0);
  const Array after = changed.at(HookPoint::head_output, 0);
  for (std::int64_t i = 0; i < 12; ++i) {
    double mean = 0;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < 5; ++t) mean += before.at({b, t, i}) / 10;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < 5; ++t)
        EXPECT_NEAR(after.at({b, t, i}), i / 4 == 1 ? mean : before.at({b, t, i}), 1e-12);
  }
  const HeadRef missing{2, 0};
  EXPECT_THROW(HeadAblation(subject.model, std::span(&missing, 1)), ValueError);
}

TEST(ActivationPatch, EverythingIsTheCleanRunAndNothingTheCorruptedOne) {
  const Subject subject;
  const Array clean = subject.logits(subject.clean), corrupted = subject.logits(subject.corrupted);
  ASSERT_GT(difference(clean, corrupted), 1e-3);
  const auto patched = [&](const std::vector<PatchSite>& sites) {
    std::vector<HookPoint> points;
    for (const PatchSite& site : sites) points.push_back(site.point);
    Taps source(points);
    (void)subject.logits(subject.clean, &source);
    ActivationPatch patch(subject.model, source, sites);
    return subject.logits(subject.corrupted, &patch);
  };
  EXPECT_EQ(difference(patched({}), corrupted), 0);
  EXPECT_LT(difference(patched({{HookPoint::residual_post, 1}}), clean), 1e-12);
  EXPECT_LT(difference(patched({{HookPoint::residual_pre, 0}}), clean), 1e-12);
  std::vector<PatchSite> positions;
  for (std::int64_t i = 0; i < 5; ++i) positions.push_back({HookPoint::residual_mid, 1, i});
  EXPECT_LT(difference(patched(positions), clean), 1e-12);
  // Only positions 1 of the inputs differ, so that of the embedding is all there is to give back.
  EXPECT_LT(difference(patched({{HookPoint::embedding, -1, 1}}), clean), 1e-12);
  EXPECT_GT(difference(patched({{HookPoint::embedding, -1, 2}}), clean), 1e-3);
}

TEST(ActivationPatch, AllHeadsOneByOneAreThePointAsAWhole) {
  const Subject subject;
  for (const HookPoint point : {HookPoint::query, HookPoint::value, HookPoint::pattern,
                                HookPoint::head_output, HookPoint::scores}) {
    Taps source({point});
    (void)subject.logits(subject.clean, &source);
    std::vector<PatchSite> heads;
    for (int head = 0; head < kHeads; ++head) heads.push_back({point, 1, -1, head});
    std::vector<PatchSite> rows;
    for (std::int64_t i = 0; i < 5; ++i) rows.push_back({point, 1, i});
    ActivationPatch whole(subject.model, source, {{point, 1}});
    ActivationPatch by_head(subject.model, source, heads);
    ActivationPatch by_row(subject.model, source, rows);
    ActivationPatch one(subject.model, source, {heads.front()});
    const Array expected = subject.logits(subject.corrupted, &whole);
    EXPECT_EQ(difference(subject.logits(subject.corrupted, &by_head), expected), 0);
    EXPECT_EQ(difference(subject.logits(subject.corrupted, &by_row), expected), 0);
    EXPECT_GT(difference(subject.logits(subject.corrupted, &one), expected), 1e-9);
  }
}

TEST(ActivationPatch, RefusesSitesThatAreNone) {
  const Subject subject;
  const Taps source({HookPoint::ffn_out});
  for (const PatchSite& site :
       {PatchSite{HookPoint::ffn_out, 2}, PatchSite{HookPoint::ffn_out, 0, -1, 1},
        PatchSite{HookPoint::query, 0, -1, 3}}) {
    EXPECT_THROW(ActivationPatch(subject.model, source, {site}), ValueError);
  }
}

TEST(PatchSweep, TellsTheShareThatComesBack) {
  const Subject subject;
  const std::vector<PatchSite> sites = {{HookPoint::residual_post, 1},
                                        {HookPoint::embedding, -1, 4}};
  for (const LogitMetric& metric :
       {loss_metric(subject.targets), logit_difference_metric(3, 5, 7)}) {
    const PatchSweep sweep = patch_sweep(subject.model, subject.batch(subject.clean),
                                         subject.batch(subject.corrupted), metric, sites);
    EXPECT_NEAR(sweep.recovered(0), 1, 1e-9);
    EXPECT_NEAR(sweep.recovered(1), 0, 1e-9);  // the inputs do not differ there
    EXPECT_EQ(sweep.clean, metric(Var(subject.logits(subject.clean))));
  }
  const Array logits = subject.logits(subject.clean);
  EXPECT_DOUBLE_EQ(logit_difference_metric(3, 5, 7)(Var(logits)),
                   logits.at({0, 3, 5}) - logits.at({0, 3, 7}));
}

TEST(LogitLens, EndsWithTheLossOfTheModelAndBeginsWithItsEmbedding) {
  for (const NormPosition position : {NormPosition::pre, NormPosition::post}) {
    TransformerConfig config = config_of();
    config.norm_position = position;
    const Subject subject(config);
    const auto rows = logit_lens(subject.model, subject.batch(subject.clean), subject.targets);
    ASSERT_EQ(rows.size(), 3u);
    const CrossEntropy loss =
        subject.model.loss(subject.batch(subject.clean), subject.targets, Pass{});
    EXPECT_EQ(rows[2].layer, 1);
    EXPECT_NEAR(rows[2].loss_sum, loss.nats, 1e-10);
    EXPECT_EQ(rows[2].scored, 8);
    EXPECT_EQ(rows[2].correct, loss.correct);
    EXPECT_EQ(rows[0].layer, -1);
    EXPECT_NE(rows[0].loss_sum, rows[1].loss_sum);
    EXPECT_NE(rows[1].loss_sum, rows[2].loss_sum);
  }
}

// A model whose blocks add nothing says after the embedding what it says at its end.
TEST(LogitLens, IsTheSameEverywhereWhereBlocksAddNothing) {
  Subject subject;
  for (Parameter& parameter : subject.model.parameters()) {
    if (parameter.name().ends_with("output.weight") || parameter.name().ends_with("down.weight"))
      parameter.set_value(Array::zeros(parameter.shape(), DType::float64));
  }
  const auto rows = logit_lens(subject.model, subject.batch(subject.clean), subject.targets);
  EXPECT_NEAR(rows[0].loss_sum, rows[2].loss_sum, 1e-10);
  EXPECT_NEAR(rows[1].loss_sum, rows[2].loss_sum, 1e-10);
}

}  // namespace attune::interventions_test
