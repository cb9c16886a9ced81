#include <cmath>
#include <set>

#include "attune/nn/masks.h"
#include "attune/nn/positional_encoding.h"
#include "attune/nn/self_attention.h"
#include "attune/train/options.h"
#include "train/tiny_run.h"
#include "train/train_test.h"

// Everything that can be chosen for attention trains: 50 steps without a NaN, with a falling loss.
// What there is comes from the registries and the option table, so that nothing can be added that
// does not train here.
namespace attune::mechanisms_test {

struct Choice {
  std::string option;
  std::string value;
};

RunConfig config_of(const std::vector<Choice>& choices) {
  RunConfig config = tiny();
  config.model.n_embd = 16;
  config.model.dropout = 0;
  config.batch_size = 8;
  config.max_iters = 50;
  config.schedule.lr = 1e-2;
  config.eval_interval = 50;
  config.eval_iters = 4;
  config.model.mask_sizes = {.window = 4, .random_blocks = 1, .block = 3, .prefix = 2};
  config.model.top_k = 3;
  config.model.experts = 2;
  config.model.features = 16;
  config.document_separator = "=";
  for (const Choice& choice : choices) {
    const Option* option = find_option(choice.option);
    if (option == nullptr) throw ConfigError("there is no option --" + choice.option);
    option->set(config, choice.value);
  }
  return config.resolved();
}

void expect_trains(const std::vector<Choice>& choices) {
  std::string what;
  for (const Choice& choice : choices) what += " --" + choice.option + " " + choice.value;
  SCOPED_TRACE(what);
  TinyRun run(config_of(choices));
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::done);
  const StepRecord &first = run.recorder.records.front(), &last = run.recorder.records.back();
  ASSERT_TRUE(first.validation && last.validation);
  EXPECT_LT(last.validation->loss_nats(), first.validation->loss_nats() - 0.02);
  for (const StepRecord& record : run.recorder.records) {
    if (record.update) {
      EXPECT_TRUE(std::isfinite(record.update->train_loss)) << "at step " << record.step;
    }
  }
}

TEST(Mechanisms, EveryEncodingTrainsWithEveryNormaliserUnderBothMasks) {
  for (const EncodingInfo& encoding : list_encodings())
    for (const char* mask : {"causal", "causal+window"})
      for (const char* normaliser : {"softmax", "sigmoid"})
        expect_trains({{"pos", encoding.name}, {"mask", mask}, {"normaliser", normaliser}});
}

TEST(Mechanisms, EveryMaskTrains) {
  for (const MaskInfo& mask : list_masks()) {
    expect_trains({{"mask", mask.name}});
    expect_trains({{"mask", "causal+" + mask.name}, {"pos", "rope"}});
  }
}

TEST(Mechanisms, EveryKindOfAttentionTrains) {
  for (const AttentionInfo& kind : list_attention()) expect_trains({{"attention", kind.name}});
}

TEST(Mechanisms, EveryChoiceOfTheDotProductLayerTrains) {
  for (const char* option : {"normaliser", "attn-sink", "talking-heads"})
    for (const std::string& value : find_option(option)->choices) expect_trains({{option, value}});
  expect_trains({{"qk-norm", "true"}});
  expect_trains({{"softcap", "3"}});
  for (const char* value : {"0.5", "learned"}) expect_trains({{"attn-temperature", value}});
  expect_trains({{"n-kv-head", "1"}});
  expect_trains({{"n-kv-head", "1"}, {"pos", "rope"}, {"qk-norm", "true"}, {"softcap", "5"}});
}

// Combinations that would be computed wrongly, or mean nothing, are refused by name.
TEST(Mechanisms, WhatDoesNotFitIsRefused) {
  const auto message = [](const std::vector<Choice>& choices) -> std::string {
    try {
      static_cast<void>(config_of(choices));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({{"attn-sink", "zero"}, {"normaliser", "relu"}}),
            "--attn-sink: only --normaliser softmax has a sum for a sink to join");
  EXPECT_EQ(message({{"n-kv-head", "3"}}), "--n-kv-head 3 does not divide --n-head 2");
  EXPECT_EQ(message({{"mask", "causal+windw"}}),
            "--mask: 'windw' is unknown; did you mean window? (known: causal, none, window, "
            "dilated, global, bigbird, prefix, documents)");
  EXPECT_EQ(message({{"mask", ""}}).substr(0, 22), "--mask: '' is unknown ");
  EXPECT_EQ(message({{"window", "0"}}), "--window: 0 is outside 1 to 1048576");
  for (const char* value : {"0", "-2", "-1", "nan", "warm"}) {
    EXPECT_NE(message({{"attn-temperature", value}}).find("--attn-temperature: '"),
              std::string::npos)
        << value;
  }
  EXPECT_EQ(message({{"softcap", "-1"}}), "--softcap: -1 is not a finite number of at least 0");
}

}  // namespace attune::mechanisms_test
