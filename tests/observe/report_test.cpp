#include "attune/observe/report.h"

#include <unistd.h>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "observe/report/by_layer.h"
#include "observe/report/html.h"
#include "observe/report/page_data.h"
#include "observe/report/thinning.h"

namespace attune::report_test {
namespace report_test {

using Json = nlohmann::json;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kHostile = "</script><script>window.hostile = 1</script><b a='\"'>&";

// A run directory of its own, gone with the test.
class Report : public testing::Test {
 protected:
  Report() { std::filesystem::create_directories(directory_); }
  ~Report() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void SetUp() override {
    if (!can_make_reports()) GTEST_SKIP() << "this build holds no charting library";
  }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(directory_ / file, std::ios::binary) << text;
  }
  [[nodiscard]] ReportRun run() const { return read_report_run(directory_); }

  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("attune-report-{}", getpid());
};

ReportRun::File file_of(const ReportRun& run, const std::string& name) {
  for (const ReportRun::File& file : run.files) {
    if (file.name == name) return file;
  }
  return {};
}

StepSeries series(const std::vector<double>& values, double stride = 1) {
  StepSeries made;
  for (std::size_t i = 0; i < values.size(); ++i) made.add(stride * double(i), values[i]);
  return made;
}

ReportRun run_with_losses(const std::vector<double>& losses) {
  ReportRun run;
  run.name = "runs/made";
  run.metrics["val_loss"] = series(losses, 100);
  return run;
}

ReportRun::Alarm alarm_of(double step, const std::string& kind) {
  ReportRun::Alarm alarm;
  alarm.step = step;
  alarm.kind = alarm.message = kind;
  return alarm;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Json chart_of(const ReportRun& run, const std::string& name) {
  const Json data = Json::parse(page_data(std::span(&run, 1)));
  return data["charts"].contains(name) ? data["charts"][name] : data["runs"][0]["charts"][name];
}

// One layer, one head, two tokens.
void add_maps(ReportRun& run, std::vector<std::string> tokens) {
  AttentionPatterns& patterns = run.patterns;
  patterns.layers = patterns.heads = 1;
  patterns.query = patterns.key = 2;
  patterns.weights = {1, 0, 0.25, 0.75};
  patterns.entropies = {0, 0.5623351};
  run.token_texts = std::move(tokens);
}

TEST_F(Report, ReadsEveryFileOfARun) {
  write("metrics.jsonl",
        "{\"step\":0,\"val_loss\":2.5,\"train_loss\":2.25,\"lr\":0.5}\n"
        "{\"step\":10,\"train_loss\":null,\"nonfinite\":[\"train_loss\"]}\n");
  write("attention.jsonl",
        "{\"step\":0,\"split\":\"val\",\"layer\":0,\"head\":0,\"entropy_norm\":0.125}\n"
        "{\"step\":0,\"split\":\"train\",\"layer\":1,\"head\":2,\"entropy_norm\":0.5}\n");
  write("summary.json", R"({"status":"done","steps":10,"best_val_loss":2.5,"parameters":7})");
  write("gradients.jsonl",
        "{\"step\":5,\"parameter\":\"a\",\"gradient_rms\":0.25,\"update_weight_ratio\":0.001}\n");
  write("activations.jsonl",
        "{\"step\":5,\"layer\":1,\"point\":\"residual_post\",\"rms\":1.5}\n"
        "{\"step\":5,\"layer\":1,\"point\":\"ffn_hidden\",\"rms\":1,\"dead_share\":0.25}\n");
  write("heads.jsonl",
        "{\"step\":5,\"layer\":0,\"head\":1,\"previous_token\":0.5,\"duplicate_token\":0.25,"
        "\"induction\":0.125}\n");
  write("alarms.jsonl", "{\"step\":5,\"kind\":\"entropy\",\"layer\":3,\"message\":\"look\"}\n");
  write("config.toml", "task = \"copy\"\n[model]\nn_layer = 3\n");
  const ReportRun read = run();
  EXPECT_EQ(read.metric("val_loss")->values, std::vector<double>{2.5});
  EXPECT_EQ(read.metric("train_loss")->steps, (std::vector<double>{0, 10}));
  EXPECT_TRUE(std::isnan(read.metric("train_loss")->values[1]));
  EXPECT_EQ(read.entropy.size(), 1u);
  EXPECT_EQ(read.entropy.at({1, 2}).values, std::vector<double>{0.5});
  EXPECT_EQ(read.summary.status, "done");
  EXPECT_EQ(read.summary.parameters, 7);
  EXPECT_EQ(read.gradient_rms.at("a").values, std::vector<double>{0.25});
  EXPECT_EQ(read.update_ratio.at("a").values, std::vector<double>{0.001});
  EXPECT_EQ(read.residual_rms.at(1).values, std::vector<double>{1.5});
  EXPECT_EQ(read.dead_share.at(1).values, std::vector<double>{0.25});
  EXPECT_EQ(read.induction.at({0, 1}).values, std::vector<double>{0.125});
  EXPECT_EQ(read.previous_token.at({0, 1}).values, std::vector<double>{0.5});
  ASSERT_EQ(read.alarms.size(), 1u);
  EXPECT_EQ(read.alarms[0].layer, 3);
  const auto layers = std::ranges::find(read.settings, "n-layer", &ReportRun::Setting::name);
  ASSERT_NE(layers, read.settings.end());
  EXPECT_EQ(layers->value, "3");
  for (const ReportRun::File& file : read.files) {
    EXPECT_TRUE(file.found) << file.name;
    EXPECT_EQ(file.skipped, 0) << file.name;
  }
}

TEST_F(Report, CountsLinesThatAreTornHostileOrOutOfOrder) {
  std::string nested(30000, '[');
  write("metrics.jsonl",
        "{\"step\":10,\"train_loss\":1}\n"
        "{\"step\":5,\"train_loss\":2}\n"           // before the last one
        "{\"step\":10,\"train_loss\":3}\n"          // again
        "{\"step\":-1,\"train_loss\":3}\n"          // no step
        "{\"train_loss\":3}\n"                      // none at all
        "{\"step\":1.5,\"train_loss\":3}\n"         // not whole
        "[1, 2]\n\n\xff\xfe\n"                      // no object, no UTF-8
        "{\"step\":11,\"train_loss\":\"low\"}\n" +  // no number
            nested +
            "\n" + "{\"step\":12,\"train_loss\":1" + std::string(100000, '0') +
            "}\n" +  // a line too long
            "{\"step\":13,\"train_loss\":0.5}\n{\"step\":14,\"train_lo");
  const ReportRun read = run();
  EXPECT_EQ(read.metric("train_loss")->values, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(file_of(read, "metrics.jsonl").lines, 14);
  EXPECT_EQ(file_of(read, "metrics.jsonl").skipped, 12);
  EXPECT_NE(report_page(std::span(&read, 1)).find("12 of 14 lines skipped"), std::string::npos);
}

TEST_F(Report, NumbersBeyondReasonAreGapsAndHugeIndicesAreRefused) {
  write("metrics.jsonl", "{\"step\":0,\"train_loss\":1e300}\n{\"step\":1,\"train_loss\":2}\n");
  write("attention.jsonl",
        "{\"step\":0,\"split\":\"val\",\"layer\":999999999999,\"head\":0,\"entropy_norm\":0.1}\n"
        "{\"step\":0,\"split\":\"val\",\"layer\":0,\"head\":0,\"entropy_norm\":7}\n");
  const ReportRun read = run();
  EXPECT_TRUE(std::isnan(read.metric("train_loss")->values[0]));
  EXPECT_TRUE(read.entropy.empty());
  EXPECT_EQ(file_of(read, "attention.jsonl").skipped, 2);
  EXPECT_TRUE(chart_of(read, "loss")["series"][0]["y"][0].is_null());
}

TEST_F(Report, WhatIsMissingIsShownAsMissing) {
  write("metrics.jsonl", "{\"step\":0,\"train_loss\":1}\n");
  write("summary.json", "{\"status\":");
  write("config.toml", "task = \"cpoy\"\n");
  const ReportRun read = run();
  EXPECT_EQ(chart_of(read, "accuracy")["missing"],
            "metrics.jsonl holds no val_exact, val_accuracy, train_accuracy");
  EXPECT_EQ(chart_of(read, "gradients")["missing"],
            "there is no gradients.jsonl; written with --log-grads");
  EXPECT_EQ(chart_of(read, "entropy_map")["missing"], "there is no attention.jsonl");
  EXPECT_EQ(file_of(read, "summary.json").problem, "holds no JSON object");
  EXPECT_NE(file_of(read, "config.toml").problem.find("cpoy"), std::string::npos);
  const std::string page = report_page(std::span(&read, 1));
  EXPECT_NE(page.find("Whether a head collapsed is not known"), std::string::npos);
  EXPECT_NE(page.find("<dt>parameters</dt><dd class=\"none\">missing</dd>"), std::string::npos);
}

TEST_F(Report, WhatIsNoRunIsRefused) {
  EXPECT_THROW(static_cast<void>(run()), IoError);
  EXPECT_THROW(static_cast<void>(read_report_run(directory_ / "nowhere")), IoError);
  write("notes", "");
  EXPECT_THROW(static_cast<void>(read_report_run(directory_ / "notes")), IoError);
}

TEST_F(Report, NoTextOfARunIsMarkupOrScript) {
  ReportRun run = run_with_losses({2, 1});
  run.name = "runs/" + std::string(kHostile);
  run.summary.status = run.summary.message = run.summary.command_line = kHostile;
  run.alarms = {alarm_of(1, std::string(kHostile))};
  run.settings.push_back({std::string(kHostile), std::string(kHostile), std::string(kHostile)});
  run.gradient_rms[std::string(kHostile)] = series({1, 2});
  add_maps(run, {std::string(kHostile), "{{script}}"});
  const std::vector<ReportRun> runs = {run, run};
  for (const std::span<const ReportRun> shown : {std::span(runs), std::span(runs).first(1)}) {
    const std::string page = report_page(shown);
    EXPECT_EQ(count_of(page, "</script"), 4u);  // the library, two blocks of data, the page's own
    EXPECT_EQ(count_of(page, "<script"), 4u);
    EXPECT_EQ(count_of(page, "<b a="), 0u);
    EXPECT_EQ(count_of(page, "\"use strict\";\n// Chooses"), 1u);  // {{script}} is not put in twice
    const std::string_view open = "<script type=\"application/json\" id=\"data\">";
    const std::size_t begin = page.find(open) + open.size();
    const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    EXPECT_EQ(data["runs"][0]["maps"]["tokens"][0], kHostile);
  }
}

TEST_F(Report, HoldsTheLicenceOfTheLibraryAndAllowsItsOwnScriptsAlone) {
  const ReportRun run = run_with_losses({2, 1});
  const std::string page = report_page(std::span(&run, 1));
  EXPECT_TRUE(page.starts_with(kReportMark));
  EXPECT_NE(page.find("Redistribution and use in source and binary forms"), std::string::npos);
  const std::size_t begin = page.rfind("<script>") + 8;
  const std::string script = page.substr(begin, page.rfind("</script>") - begin);
  EXPECT_NE(page.find("'" + script_hash(script) + "'"), std::string::npos);
  for (const char* other : {"<link", "<img", "<iframe", "@import"}) {
    EXPECT_EQ(count_of(page, other), 0u) << other;
  }
  // FIPS 180-4's "abc" and the empty text, by openssl dgst -sha256 -binary | base64.
  EXPECT_EQ(script_hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(script_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

TEST_F(Report, ALongRunOfManyHeadsStaysSmall) {
  ReportRun run = run_with_losses(std::vector<double>(100000, 1.23456789));
  for (const char* field : {"train_loss", "lr", "grad_norm"})
    run.metrics[field] = *run.metric("val_loss");
  for (std::int64_t layer = 0; layer < 24; ++layer) {
    for (std::int64_t head = 0; head < 16; ++head) {
      run.entropy[{layer, head}] = series(std::vector<double>(300, 0.123456), 1000);
    }
  }
  const ReportRun one = run_with_losses({1});
  const std::size_t base = page_data(std::span(&one, 1)).size();
  EXPECT_LT(page_data(std::span(&run, 1)).size(), base + 1500000);
}

TEST_F(Report, MapsAreInTenThousandthsAndTellAMaskedKey) {
  ReportRun run = run_with_losses({2, 1});
  add_maps(run, {"a", "b"});
  const Json data = Json::parse(page_data(std::span(&run, 1)));
  EXPECT_EQ(data["runs"][0]["maps"]["weights"][0], (Json{10000, -1, 2500, 7500}));
}

TEST(Verdict, SaysWhetherAndWhenItLearned) {
  const Verdict learned = verdict_of(run_with_losses({4, 1.25, 1.01, 1}));
  EXPECT_EQ(learned.learning,
            "It learned: validation loss 4.000 to 1.000 nats (\u221275 %) in 300 steps.");
  EXPECT_EQ(learned.remarks, std::vector<std::string>{"Nine tenths of the fall came by step 100."});
  EXPECT_EQ(learned.tone, Verdict::Tone::good);
  const Verdict hardly = verdict_of(run_with_losses({4, 3.9, 3.7}));
  EXPECT_EQ(hardly.tone, Verdict::Tone::warning);
  EXPECT_EQ(hardly.learned, false);
  const Verdict rising = verdict_of(run_with_losses({4, 1, 1.5}));
  EXPECT_EQ(rising.remarks.back(),
            "The validation loss was smallest at step 100 (1.000) and rose by 0.500 since.");
  EXPECT_EQ(verdict_of(run_with_losses({4})).learned, std::nullopt);
}

TEST(Verdict, AnswersAndStatusStandOverTheLoss) {
  ReportRun run = run_with_losses({4, 1});
  run.metrics["val_exact"] = series({0, 0.995, 1}, 50);
  EXPECT_EQ(verdict_of(run).learning,
            "It solved the task: 100.0 % of held-out answers right, above 99 % from step 50.");
  run.summary.status = "stalled";
  EXPECT_EQ(verdict_of(run).tone, Verdict::Tone::bad);
  run.summary.status = "diverged";
  run.summary.steps = 1234;
  run.summary.message = "the loss is nan";
  EXPECT_EQ(verdict_of(run).learning, "It diverged after 1,234 steps: the loss is nan.");
  EXPECT_EQ(verdict_of(run).learned, false);
}

TEST(Verdict, TellsACollapsedHeadFromASharpOneAndAUniformOne) {
  ReportRun run = run_with_losses({4, 1});
  const auto falls_at = [](std::size_t from) {
    std::vector<double> values(101, 0.5);
    for (std::size_t i = from; i < values.size(); ++i) values[i] = 0.01;
    return series(values, 10);
  };
  std::vector<double> dips(101, 0.5);
  dips[3] = dips[4] = 0.01;  // two in a row are none
  run.entropy[{0, 0}] = falls_at(5);
  run.entropy[{0, 1}] = falls_at(60);
  run.entropy[{1, 0}] = series(dips, 10);
  run.entropy[{1, 1}] = series(std::vector<double>(101, 0.99), 10);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.heads, "One head collapsed early: layer 0 head 0 at step 50.");
  EXPECT_EQ(verdict.collapsed, 1);
  EXPECT_EQ(verdict.remarks[1],
            "One head sharpened to about one token later: layer 0 head 1 at step 600.");
  EXPECT_EQ(verdict.remarks[2],
            "One head attends evenly over all tokens at the end: layer 1 head 1.");
  run.settings.push_back({"Training", "max-iters", "600"});  // the third record is at step 70
  EXPECT_EQ(verdict_of(run).heads, "No head collapsed.");
  run.alarms = {alarm_of(1200, "uniform")};
  EXPECT_EQ(verdict_of(run).remarks.back(), "One alarm; the first at step 1,200: uniform.");
  EXPECT_EQ(verdict_of(run).tone, Verdict::Tone::warning);
}

TEST(Thinning, KeepsExtremesEndsAndOrder) {
  StepSeries noisy;
  for (int i = 0; i < 10007; ++i) noisy.add(3 * i, std::sin(i * 12.9898) * (i % 7));
  noisy.values[5003] = 1000;
  noisy.values[5004] = -1000;
  noisy.values[17] = kNaN;
  const StepSeries kept = thinned(noisy, 600);
  EXPECT_LE(kept.steps.size(), 600u);
  EXPECT_EQ(kept.steps.front(), 0);
  EXPECT_EQ(kept.steps.back(), 3 * 10006);
  EXPECT_TRUE(std::ranges::is_sorted(kept.steps, std::less_equal<>()));
  std::set<std::pair<double, double>> all;
  for (std::size_t i = 0; i < noisy.steps.size(); ++i) all.emplace(noisy.steps[i], noisy.values[i]);
  for (std::size_t i = 0; i < kept.steps.size(); ++i) {
    EXPECT_TRUE(all.contains({kept.steps[i], kept.values[i]}));
  }
  EXPECT_EQ(std::ranges::max(kept.values), 1000);
  EXPECT_EQ(std::ranges::min(kept.values), -1000);
  EXPECT_EQ(thinned(kept, 600).values.size(), kept.values.size());
}

TEST(Thinning, SpansHoldTheExtremeOfEachRow) {
  const StepSeries full = series({5, 1, 4, 2, 3, kNaN});
  StepSeries part;
  part.add(3, 7);
  const SpanTable table = span_table({&full, &part}, 3, Extreme::smallest);
  EXPECT_EQ(table.begins, (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(table.end, 6);
  EXPECT_EQ(table.values[0], (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(std::isnan(table.values[1][0]));
  EXPECT_EQ(table.values[1][1], 7);
  EXPECT_EQ(span_table({&full}, 3, Extreme::largest).values[0], (std::vector<double>{5, 4, 3}));
  EXPECT_TRUE(span_table({}, 3, Extreme::largest).begins.empty());
}

TEST(ByLayer, NormsOfParametersMakeTheNormOfALayer) {
  ReportRun run;
  run.gradient_rms["block.1.ffn.up.weight"] = series({0.5});
  run.gradient_rms["block.1.norm_1.gain"] = series({2});
  run.gradient_rms["token_embedding.weight"] = series({1});
  run.gradient_rms["final_norm.gain"] = series({3});
  run.elements = {{"block.1.ffn.up.weight", 12},
                  {"block.1.norm_1.gain", 4},
                  {"token_embedding.weight", 9},
                  {"final_norm.gain", 1}};
  const NamedSeries layers = gradients_by_layer(run);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].first, "token_embedding");
  EXPECT_DOUBLE_EQ(layers[0].second.values[0], 3);  // sqrt(9 * 1)
  EXPECT_EQ(layers[1].first, "layer 1");
  EXPECT_DOUBLE_EQ(layers[1].second.values[0], std::sqrt(12 * 0.25 + 4 * 4));
  EXPECT_EQ(layers[2].first, "final_norm");
  run.elements.clear();
  EXPECT_DOUBLE_EQ(gradients_by_layer(run)[1].second.values[0], std::sqrt((0.25 + 4) / 2));
}

}  // namespace report_test
}  // namespace attune::report_test
