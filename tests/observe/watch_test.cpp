#include <unistd.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/observe/alarm_log.h"
#include "attune/observe/diagnosis.h"
#include "attune/observe/inside_logs.h"
#include "attune/observe/logs.h"
#include "observe/sample_run.h"
#include "observe/tfrecord.h"

namespace attune::watch_test {

using Json = nlohmann::json;

RunConfig config_of(std::int64_t max_iters) {
  RunConfig config = RunConfig::defaults_for("copy");
  config.max_iters = max_iters;
  return config;
}

std::vector<HeadReading> readings(const std::vector<std::vector<double>>& entropies,
                                  double score = 1) {
  std::vector<HeadReading> heads;
  for (std::size_t layer = 0; layer < entropies.size(); ++layer) {
    for (std::size_t head = 0; head < entropies[layer].size(); ++head) {
      heads.push_back(
          {static_cast<int>(layer), static_cast<int>(head), score, entropies[layer][head]});
    }
  }
  return heads;
}

// "kind layer.head" of each alarm; a layer as a whole has no head.
std::vector<std::string> see(EntropyWatch& watch, std::int64_t step,
                             const std::vector<HeadReading>& heads) {
  std::vector<std::string> names;
  for (const Alarm& alarm : watch.see(step, heads)) {
    EXPECT_EQ(alarm.step, step);
    names.push_back(fmt::format("{} {}.{}", alarm.kind, alarm.layer,
                                alarm.head ? std::to_string(*alarm.head) : "all"));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(EntropyWatch, CollapseIsThreeLowRecordsInARowInTheFirstTenth) {
  EntropyWatch watch(config_of(1000));
  const auto low = readings({{0.5, 0.049}, {0.5, 0.5}});
  const auto high = readings({{0.5, 0.051}, {0.5, 0.5}});
  EXPECT_EQ(see(watch, 0, low), Names{});
  EXPECT_EQ(see(watch, 10, low), Names{});
  EXPECT_EQ(see(watch, 20, high), Names{});
  EXPECT_EQ(see(watch, 30, low), Names{});
  EXPECT_EQ(see(watch, 40, low), Names{});
  EXPECT_EQ(see(watch, 50, low), Names{"collapse 0.1"});
  EXPECT_EQ(see(watch, 60, low), Names{}) << "said once";

  EntropyWatch late(config_of(1000));
  EXPECT_EQ(see(late, 90, low), Names{});
  EXPECT_EQ(see(late, 100, low), Names{});
  EXPECT_EQ(see(late, 110, low), Names{}) << "beyond the first tenth";
  EXPECT_EQ(see(late, 120, low), Names{});
}

TEST(EntropyWatch, UniformIsEveryHeadOfALayerAfterAFifth) {
  EntropyWatch watch(config_of(1000));
  const auto heads = readings({{0.99, 0.97}, {0.981, 0.999}, {1, 1}});
  EXPECT_EQ(see(watch, 199, heads), Names{});
  EXPECT_EQ(see(watch, 200, heads), (Names{"uniform 1.all", "uniform 2.all"}));
  EXPECT_EQ(see(watch, 300, heads), Names{});
  EXPECT_EQ(see(watch, 400, readings({{0.99, 0.99}, {1, 1}, {1, 1}})), Names{"uniform 0.all"});
}

TEST(EntropyWatch, AScoreBeyondFiftyIsNamed) {
  EntropyWatch watch(config_of(1000));
  EXPECT_EQ(see(watch, 0, readings({{0.5, 0.5}}, 50)), Names{});
  EXPECT_EQ(see(watch, 1, readings({{0.5, 0.5}}, 50.1)), (Names{"logits 0.0", "logits 0.1"}));
}

TEST(EntropyWatch, WhatHasNoEntropyRaisesNone) {
  EntropyWatch watch(config_of(10));
  const std::vector<HeadReading> heads{{0, 0, 1, std::nullopt}, {0, 1, 1, std::nan("")}};
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_EQ(see(watch, step, heads), Names{});
  AttentionStatistics shares(1, 1);
  shares.at(0, 0).shares = true;
  shares.at(0, 0).rows_valid = 3;
  EXPECT_FALSE(readings_of(shares).front().entropy_norm);
  EXPECT_FALSE(readings_of(AttentionStatistics(1, 1)).front().entropy_norm);
  EXPECT_EQ(readings_of(two_heads())[1].entropy_norm, 0.75);
}

class Files : public testing::Test {
 protected:
  Files() { std::filesystem::create_directories(directory_); }
  ~Files() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  [[nodiscard]] std::vector<Json> lines(const char* name) const {
    std::vector<Json> result;
    if (!std::filesystem::exists(directory_ / name)) return result;
    std::istringstream stream(read_file(directory_ / name));
    for (std::string line; std::getline(stream, line);) result.push_back(Json::parse(line));
    return result;
  }
  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("attune-watch-{}", getpid());
};

class Told final : public TrainObserver {
 public:
  void on_note(std::string_view line) override { notes.emplace_back(line); }
  std::vector<std::string> notes;
};

// A run of 100 steps that records attention at every second one, all heads low from step 2 on, and
// uniform from 20 on; its parts as an unbroken run and a resumed one would see them.
void run_part(const std::filesystem::path& directory, std::int64_t begin, std::int64_t end,
              Told& told) {
  const RunConfig config = config_of(100);
  AttentionLog attention(directory / "attention.jsonl");
  AlarmLog alarms(directory / "alarms.jsonl", directory / "attention.jsonl", told);
  const RunStart start{config, "", "", 0, begin, 1, 0, true, ""};
  attention.on_start(start);
  alarms.on_start(start);
  for (std::int64_t step = begin; step < end; ++step) {
    AttentionStatistics statistics = two_heads();
    for (int head = 0; head < 2; ++head) {
      HeadStatistics& one = statistics.at(0, head);
      one.entropy_sum = step < 2 ? 4 : step < 20 ? 0.1 : 7.99;
    }
    StepRecord record;
    record.step = step;
    record.attention_logged = step % 2 == 0;
    record.attention = &statistics;
    attention.on_step(record);
    alarms.on_step(record);
  }
}

TEST_F(Files, AlarmsAreWrittenAndToldOnce) {
  Told told;
  run_part(directory_, 0, 100, told);
  const std::vector<Json> found = lines("alarms.jsonl");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].at("kind"), "collapse");
  EXPECT_EQ(found[0].at("step"), 6);
  EXPECT_EQ(found[1].at("head"), 1);
  EXPECT_EQ(found[2].at("kind"), "uniform");
  EXPECT_EQ(found[2].at("step"), 20);
  EXPECT_EQ(found[2].at("value"), 7.99 / 8);
  EXPECT_FALSE(found[2].contains("head"));
  EXPECT_EQ(
      found[2].at("message"),
      "layer 0 looks at all keys alike: the entropy of all 2 heads is 0.999 of the largest or "
      "more; suspects: --lr 0.002 with --warmup-iters 100, --attn-scale sqrt, --init xavier");
  ASSERT_EQ(told.notes.size(), 5U);
  EXPECT_EQ(told.notes[0],
            "alarm at step 6: layer 0 head 0 looks at one key: entropy 0.013 of the largest, for 3 "
            "records in a row");
  EXPECT_EQ(told.notes[4],
            "suspects of these alarms: --lr 0.002 with --warmup-iters 100, --attn-scale sqrt, "
            "--init xavier");
}

TEST_F(Files, AResumedRunRaisesTheAlarmsThatAreLeft) {
  for (const std::int64_t broken_at : {1, 3, 5, 6, 7, 21, 50}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ / "whole");
    Told told;
    run_part(directory_ / "whole", 0, 100, told);
    run_part(directory_, 0, broken_at, told);
    run_part(directory_, broken_at, 100, told);
    EXPECT_EQ(lines("alarms.jsonl"), lines("whole/alarms.jsonl")) << broken_at;
  }
}

TEST_F(Files, ARunWithoutAlarmsHasNoFile) {
  Told told;
  run_part(directory_, 0, 2, told);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "alarms.jsonl"));
  EXPECT_TRUE(told.notes.empty());
}

TEST_F(Files, GradientLinesHaveRatiosWhereThereAreWeights) {
  StepRecord record = sample_step(20);
  record.update->clipped_share = 0.25;
  record.update->parameters = {{"a.weight", 0.5, 2, 0.125}, {"a.bias", 0.5, 0, 0.25}};
  {
    GradientLog log(directory_ / "log");
    log.on_step(record);
    log.on_step(sample_step(30));
  }
  const Json expected[] = {{{"step", 20},
                            {"parameter", "a.weight"},
                            {"gradient_rms", 0.5},
                            {"weight_rms", 2},
                            {"update_rms", 0.125},
                            {"gradient_weight_ratio", 0.25},
                            {"update_weight_ratio", 0.0625},
                            {"clipped_share", 0.25}},
                           {{"step", 20},
                            {"parameter", "a.bias"},
                            {"gradient_rms", 0.5},
                            {"weight_rms", 0},
                            {"update_rms", 0.25},
                            {"clipped_share", 0.25}}};
  EXPECT_EQ(lines("log"), std::vector<Json>(std::begin(expected), std::end(expected)));
}

TEST_F(Files, ActivationLinesNameLayerAndPlace) {
  ActivationStatistics statistics;
  statistics.add(HookPoint::residual_pre, 0, Array::from({2, 2}, {1, 1, 1, 5}));
  statistics.add(HookPoint::ffn_hidden, 0, Array::from({2, 2}, {0, 2, 0, -2}));
  StepRecord record = sample_step(20);
  record.activations = &statistics;
  {
    ActivationLog log(directory_ / "log");
    log.on_step(record);
    log.on_step(sample_step(30));
  }
  const std::vector<Json> found = lines("log");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0],
            (Json{{"step", 20}, {"layer", 0}, {"point", "residual_pre"}, {"rms", std::sqrt(7.0)}}));
  EXPECT_EQ(found[1], (Json{{"step", 20},
                            {"layer", 0},
                            {"point", "ffn_hidden"},
                            {"rms", std::sqrt(2.0)},
                            {"dead_share", 0.5}}));
}

// The check value that catalogues of CRCs give, and the test vectors of RFC 3720, B.4.
TEST(TfRecord, HasTheCrcOfCastagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TfRecord, FramesLengthAndBytes) {
  const std::string record = tfrecord("abc");
  ASSERT_EQ(record.size(), 8U + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

Diagnosis stuck() {
  Diagnosis diagnosis;
  diagnosis.loss_nats = 3.32;
  diagnosis.unigram_entropy = 3.313;
  diagnosis.fresh_gradients = {0.5, 0.4, 0.6, 0.7};
  diagnosis.gradients = {7e-6, 1e-5, 2e-3, 9e-2};
  diagnosis.entropies = {{0.9, 0.99}, {0.99, 1}, {0.985, 1}, {0.97, 1}};
  return diagnosis;
}

TEST(Diagnosis, NamesTheLayerWhereTheGradientDies) {
  const Diagnosis diagnosis = stuck();
  EXPECT_TRUE(diagnosis.is_stalled());
  EXPECT_EQ(Diagnosis::dies_at(diagnosis.gradients), 1);
  EXPECT_EQ(Diagnosis::dies_at(diagnosis.fresh_gradients), std::nullopt);
  EXPECT_EQ(Diagnosis::dies_at({}), std::nullopt);
  const std::vector<std::string> lines = findings(diagnosis);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[0].starts_with("the loss stands at 3.320 nats")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("the gradient dies at layer 1:")) << lines[1];
  EXPECT_NE(lines[1].find("7.0e-06 in the first layer against 9.0e-02 in the last"),
            std::string::npos);
  EXPECT_NE(lines[1].find("its first steps were too large"), std::string::npos);
  EXPECT_TRUE(lines[2].starts_with("in layers 1 to 2 every head looks at all keys alike"));
}

TEST(Diagnosis, AModelWhoseGradientArrivesHasNoFinding) {
  Diagnosis diagnosis = stuck();
  diagnosis.loss_nats = 2.1;
  diagnosis.gradients = diagnosis.fresh_gradients;
  diagnosis.entropies = {{0.3, 0.9}, {0.2, 0.99}};
  EXPECT_TRUE(findings(diagnosis).empty());
}

TEST(Diagnosis, TriesWhatTheRunHasNotYet) {
  RunConfig config = RunConfig::defaults_for("copy").resolved();
  const auto names = [](const RunConfig& of) {
    std::string text;
    for (const Trial& trial : trials(of, 100)) text += trial.name + "|" + trial.options + "\n";
    return text;
  };
  EXPECT_EQ(names(config), "as it was|\nwarm-up|--warmup-iters 400\nsmaller rate|--lr 2e-04\n");
  config.model.norm_position = NormPosition::post;
  config.schedule.warmup_iters = 400;
  EXPECT_EQ(names(config), "as it was|\npre-norm|--norm-pos pre\nsmaller rate|--lr 2e-04\n");
  for (const Trial& trial : trials(config, 100)) {
    EXPECT_EQ(trial.config.max_iters, 100);
    EXPECT_EQ(trial.config.schedule.decay_iters, config.schedule.decay_iters);
  }
}

TEST(Diagnosis, TheVerdictNamesWhatGotClear) {
  const std::vector<Trial> all = trials(RunConfig::defaults_for("copy").resolved(), 100);
  std::vector<TrialResult> results{{{4, 3.4, 3.3, 3.3}, 3.32, 1e-4, false},
                                   {{4, 3.3, 3.2, 3.1}, 3.05, 1, false},
                                   {{4, 3.3, 3.2, 2.9}, 2.75, 1, false}};
  EXPECT_EQ(verdict(stuck(), all, results),
            "what helps most within 100 steps: smaller rate (--lr 2e-04), loss 2.750; as it was "
            "3.320, single tokens 3.313");
  results[1].loss_nats = results[2].loss_nats = 3.319;
  EXPECT_TRUE(verdict(stuck(), all, results).starts_with("none of them does better"));
  results[0].diverged = true;
  EXPECT_TRUE(verdict(stuck(), all, results).starts_with("what helps most"));
  const std::string table = trial_table(all, results);
  EXPECT_NE(table.find("diverged"), std::string::npos);
  EXPECT_NE(table.find("loss at 75"), std::string::npos);
}

}  // namespace attune::watch_test
