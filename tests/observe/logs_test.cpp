#include "attune/observe/logs.h"

#include <unistd.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <locale>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/core/version.h"
#include "attune/observe/entropy_range.h"
#include "observe/sample_run.h"

namespace attune::logs_test {

using Json = nlohmann::json;
using Strings = std::set<std::string>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Logs : public testing::Test {
 protected:
  Logs() { std::filesystem::create_directories(directory_); }
  ~Logs() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  [[nodiscard]] std::filesystem::path file() const { return directory_ / "log"; }
  [[nodiscard]] std::vector<Json> lines() const {
    std::vector<Json> result;
    std::istringstream stream(read_file(file()));
    for (std::string line; std::getline(stream, line);) result.push_back(Json::parse(line));
    return result;
  }
  [[nodiscard]] Json metrics_of(const StepRecord& record) const {
    MetricsLog(file()).on_step(record);
    return lines().back();
  }
  [[nodiscard]] Json summary_of(const RunSummary& summary, const std::string& command = "attune") {
    SummaryFile(file(), command).on_end(summary);
    return Json::parse(read_file(file()));
  }

  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("attune-logs-{}", getpid());
};

Strings keys_of(const Json& json) {
  Strings keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  return keys;
}

// Field by field as data/README.md tells them.
TEST_F(Logs, MetricsHaveTheDocumentedFields) {
  const AttentionStatistics attention = two_heads();
  StepRecord record = sample_step(250);
  record.attention = &attention;
  EXPECT_EQ(metrics_of(record), (Json{{"step", 250},
                                      {"train_loss", 2.125},
                                      {"train_eval_loss", 2.5},
                                      {"val_loss", 2.5},
                                      {"train_accuracy", 0.5},
                                      {"val_accuracy", 0.4},
                                      {"val_exact", 0.2},
                                      {"lr", 0.001},
                                      {"grad_norm", 1.75},
                                      {"clipped", true},
                                      {"tokens_per_second", 4096.0},
                                      {"step_ms", 12.5},
                                      {"elapsed_seconds", 1.5},
                                      {"entropy_mean", 0.5},
                                      {"entropy_min", 0.25},
                                      {"entropy_max", 0.75}}));
}

TEST_F(Logs, FieldsThatAreNotKnownAreLeftOut) {
  StepRecord record = sample_step(10);
  record.train_evaluation.reset();
  record.validation.reset();
  EXPECT_EQ(keys_of(metrics_of(record)),
            (Strings{"step", "train_loss", "train_accuracy", "lr", "grad_norm", "clipped",
                     "tokens_per_second", "step_ms", "elapsed_seconds"}));
  StepRecord last = sample_step(11);
  last.update.reset();
  EXPECT_EQ(keys_of(metrics_of(last)),
            (Strings{"step", "train_eval_loss", "val_loss", "val_accuracy", "val_exact",
                     "elapsed_seconds", "entropy_mean", "entropy_min", "entropy_max"}));
}

TEST_F(Logs, ATextHasNoWholeAnswers) {
  const RunConfig config = RunConfig::defaults_for("text");
  MetricsLog log(file());
  log.on_start(
      {.config = config, .directory = "", .example = "", .has_answers = false, .blas_kernel = ""});
  log.on_step(sample_step(0));
  EXPECT_FALSE(lines().back().contains("val_exact"));
  EXPECT_TRUE(lines().back().contains("val_accuracy"));
}

TEST_F(Logs, StepsBetweenLinesAreNotWritten) {
  MetricsLog log(file());
  StepRecord record = sample_step(7);
  record.logged = false;
  log.on_step(record);
  EXPECT_TRUE(lines().empty());
  record.update->nonfinite = {"head.weight"};  // but this is always told
  log.on_step(record);
  EXPECT_EQ(lines().size(), 1u);
}

// B43
TEST_F(Logs, NumbersThatAreNotFiniteAreNullAndNamed) {
  for (const double value : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    StepRecord record = sample_step(3);
    record.update->train_loss = value;
    record.update->grad_norm = value;
    record.update->skipped = true;
    record.update->nonfinite = {"a.weight", "b.weight"};
    record.validation->loss_sum = value;
    const Json line = metrics_of(record);
    for (const char* field : {"train_loss", "grad_norm", "val_loss"}) {
      EXPECT_TRUE(line.at(field).is_null()) << field;
    }
    EXPECT_EQ(line.at("skipped"), true);
    EXPECT_EQ(line.at("nonfinite"),
              (Json{"val_loss", "train_loss", "grad_norm", "a.weight", "b.weight"}));
  }
}

TEST_F(Logs, NumbersReadBackAsTheSameDoubles) {  // B43
  for (const double value : {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, -2.5e-8}) {
    StepRecord record = sample_step(3);
    record.update->train_loss = value;
    EXPECT_EQ(metrics_of(record).at("train_loss").get<double>(), value);
  }
}

class CommaDecimals final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// B45
TEST_F(Logs, DoNotDependOnTheLocale) {
  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaDecimals));
  StepRecord record = sample_step(1000);
  record.update->train_loss = 0.5;
  MetricsLog(file()).on_step(record);
  std::locale::global(before);
  const std::string line = read_file(file());
  EXPECT_NE(line.find("\"step\":1000,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"train_loss\":0.5,"), std::string::npos) << line;
}

TEST_F(Logs, AttentionHasALineForEachHead) {
  const AttentionStatistics attention = two_heads();
  StepRecord record = sample_step(50);
  record.validation.reset();
  record.attention = &attention;
  record.attention_logged = true;
  AttentionLog(file()).on_step(record);
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines()[1], (Json{{"step", 50},
                              {"split", "train"},
                              {"layer", 0},
                              {"head", 1},
                              {"entropy_nats", 1.5},   // 6 over 4 rows
                              {"entropy_norm", 0.75},  // 6 of 8
                              {"max_prob", 0.75},
                              {"score_std", 2.0},
                              {"score_max_abs", 5.0},
                              {"rows_valid", 4},
                              {"rows_single", 2},
                              {"rows_empty", 1}}));
}

TEST_F(Logs, AttentionOfAnEvaluationIsToldApart) {
  const AttentionStatistics attention = two_heads();
  StepRecord record = sample_step(50);
  record.attention = &attention;
  AttentionLog(file()).on_step(record);  // measured, but no record of it is due
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines()[0].at("split"), "val");
  record.attention_logged = true;
  AttentionLog(file()).on_step(record);
  ASSERT_EQ(lines().size(), 6u);
  EXPECT_EQ(lines()[5].at("split"), "train");
}

TEST_F(Logs, AHeadWithoutValidRowsHasZerosAndNoPlaceInTheRange) {
  AttentionStatistics attention = two_heads();
  attention.at(0, 1) = HeadStatistics{};
  StepRecord record = sample_step(0);
  record.attention = &attention;
  record.attention_logged = true;
  record.validation.reset();
  AttentionLog(file()).on_step(record);
  EXPECT_EQ(lines().back().at("entropy_norm"), 0);
  EXPECT_EQ(lines().back().at("rows_valid"), 0);
  const auto range = entropy_range(record);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->mean, 0.25);
  EXPECT_EQ(range->max, 0.25);
}

TEST(EntropyRange, OfTheUpdateGoesBeforeThatOfTheEvaluation) {
  StepRecord record = sample_step(0);
  ASSERT_TRUE(entropy_range(record));
  AttentionStatistics attention = two_heads();
  attention.at(0, 0).entropy_sum = 8;
  record.attention = &attention;
  EXPECT_EQ(entropy_range(record)->max, 1);
  EXPECT_FALSE(entropy_range(AttentionStatistics(2, 3)));
  EXPECT_FALSE(entropy_range(StepRecord{}));
}

RunSummary sample_summary() {
  RunSummary summary;
  summary.status = RunStatus::target;
  summary.steps = 40;
  summary.train_loss = 0.5;
  summary.validation = sample_evaluation();
  summary.best_val_loss = 2.25;
  summary.elapsed_seconds = 3.5;
  summary.parameters = 1234;
  summary.parameter_hash = "0123456789abcdef";
  summary.threads = 2;
  summary.blas = "OpenBLAS 0.3.21 Zen";
  return summary;
}

TEST_F(Logs, SummaryHasTheDocumentedFields) {
  EXPECT_EQ(summary_of(sample_summary(), "attune train copy"),
            (Json{{"status", "target"},
                  {"steps", 40},
                  {"train_loss", 0.5},
                  {"val_loss", 2.5},
                  {"best_val_loss", 2.25},
                  {"val_accuracy", 0.4},
                  {"val_exact", 0.2},
                  {"elapsed_seconds", 3.5},
                  {"parameters", 1234},
                  {"parameter_hash", "0123456789abcdef"},
                  {"threads", 2},
                  {"blas", "OpenBLAS 0.3.21 Zen"},
                  {"command_line", "attune train copy"},
                  {"version", std::string(kVersion)}}));
}

TEST_F(Logs, SummaryOfAFailureTellsWhy) {
  RunSummary summary = sample_summary();
  summary.status = RunStatus::diverged;
  summary.message = "diverged at step 3";
  summary.train_loss = kNaN;
  const Json json = summary_of(summary);
  EXPECT_EQ(json.at("message"), "diverged at step 3");
  EXPECT_TRUE(json.at("train_loss").is_null());
}

// B43: quotes, a control character and bytes that are not UTF-8 in what the user typed.
TEST_F(Logs, SummaryIsStrictWhateverWasTyped) {
  const std::string odd = "attune \"a\\b\"\n\x01 \xff\xfe end";
  const Json json = summary_of(sample_summary(), odd);
  EXPECT_TRUE(json.at("command_line").get<std::string>().starts_with("attune \"a\\b\"\n\x01 "));
  EXPECT_TRUE(json.at("command_line").get<std::string>().ends_with(" end"));
}

TEST(RunStatus, HasTheDocumentedNames) {
  const std::pair<RunStatus, const char*> names[] = {
      {RunStatus::done, "done"},         {RunStatus::target, "target"},
      {RunStatus::budget, "budget"},     {RunStatus::interrupted, "interrupted"},
      {RunStatus::diverged, "diverged"}, {RunStatus::stalled, "stalled"}};
  for (const auto& [status, name] : names) EXPECT_EQ(to_string(status), name);
}

}  // namespace attune::logs_test
