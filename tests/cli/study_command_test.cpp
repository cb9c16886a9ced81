#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run_binary.h"

namespace attune::cli_test::study_command_test {

const Words kTiny = {
    "study",        "gradients", "--n-layer",    "1,2,4", "--norm-pos", "pre,post",
    "--init",       "xavier",    "--n-embd",     "8",     "--n-head",   "2",
    "--seeds",      "3",         "--seed",       "5",     "--bias",     "true,false",
    "--block-size", "6",         "--batch-size", "2"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Means, half-widths (t = 4.3027 for three seeds) and exponents again, from the measurements.
TEST(StudyCommand, LinesHoldEveryMeasurementAndTheirIntervals) {
  const Workspace work;
  const Result result = work.run(with(kTiny, {"--out-dir", "s"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("12 grid points x 3 seeds"), std::string::npos) << result.out;
  const std::vector<nlohmann::json> lines = work.log("s/gradients.jsonl");
  std::vector<double> measured;
  std::vector<std::vector<double>> by_depth(3);
  std::size_t measurements = 0;
  nlohmann::json summary, exponent;
  for (const nlohmann::json& line : lines) {
    const bool is_ours = line.value("norm_pos", "") == "post" && line.value("bias", "") == "true";
    const bool is_measured = line.contains("norms") && line.contains("seed");
    measurements += is_measured ? 1 : 0;
    if (is_measured && is_ours) {
      const double norm = line["norms"]["last_ffn_down_weight"];
      EXPECT_EQ(line["layers"].size(), line["n_layer"].get<std::size_t>());
      by_depth[static_cast<std::size_t>(std::log2(line["n_layer"].get<double>()))].push_back(norm);
      if (line["n_layer"] == 4) measured.push_back(norm);
    }
    if (is_ours && line.value("summary", "") == "norms" && line["n_layer"] == 4) summary = line;
    if (is_ours && line.value("summary", "") == "exponents" && line["of"] == "last_ffn_down_weight")
      exponent = line;
  }
  EXPECT_EQ(measurements, 36u);
  ASSERT_EQ(measured.size(), 3u);
  const double mean = (measured[0] + measured[1] + measured[2]) / 3;
  double squares = 0, slope = 0;
  for (const double value : measured) squares += (value - mean) * (value - mean);
  // Depths 1, 2, 4 are -1, 0, 1 times ln 2 apart.
  for (std::size_t s = 0; s < 3; ++s)
    slope += std::log(by_depth[2][s] / by_depth[0][s]) / (2 * std::log(2)) / 3;
  EXPECT_NEAR(summary["last_ffn_down_weight"], mean, 1e-12);
  EXPECT_NEAR(summary["last_ffn_down_weight_ci95"], 4.3027 * std::sqrt(squares / 6), 1e-4 * mean);
  EXPECT_NEAR(exponent["exponent"], slope, 1e-9);
}

// Models with biases have columns that those without lack: a row of the table is found by names.
TEST(StudyCommand, TablesHoldWhatTheLinesHold) {
  const Workspace work;
  const Result result = work.run(with(kTiny, {"--out-dir", "s"}));
  ASSERT_EQ(result.code, 0) << result.err;
  int checked = 0;
  for (const nlohmann::json& line : work.log("s/gradients.jsonl")) {
    if (line.value("summary", "") != "layers" || line["n_layer"] != 4 || line["layer"] != 3)
      continue;
    std::string cells;
    for (const char* name : {"attention_query_weight", "attention_value_weight",
                             "attention_output_weight", "ffn_up_weight", "ffn_down_weight"})
      cells += fmt::format(" {:.4g}", line[name].get<double>());
    const std::string bias = line["bias"], place = line["norm_pos"];
    std::istringstream lines(result.out);
    for (std::string row; std::getline(lines, row);) {
      std::istringstream words(row);
      std::string shown;
      bool is_bias = false, is_place = false, is_layer = false;
      for (std::string word; words >> word;) {
        if (is_layer && !word.starts_with("±")) shown += " " + word;
        is_bias |= word == bias;
        is_place |= word == place;
        is_layer |= is_bias && is_place && word == "3";
      }
      if (!is_layer) continue;
      EXPECT_EQ(shown, cells) << row;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 4);
}

TEST(StudyCommand, DoesNotDependOnThreadsAndOverwritesNothing) {
  const Workspace work;
  ASSERT_EQ(work.run(with(kTiny, {"--threads", "1"})).code, 0);
  ASSERT_EQ(work.run(with(kTiny, {"--threads", "2"})).code, 0);
  std::vector<nlohmann::json> one = work.log("studies/gradients-1/gradients.jsonl");
  std::vector<nlohmann::json> two = work.log("studies/gradients-2/gradients.jsonl");
  one.erase(one.begin());  // the command lines
  two.erase(two.begin());
  EXPECT_EQ(one, two);
  const Result again = work.run(with(kTiny, {"--out-dir", "studies/gradients-1"}));
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("gradients.jsonl' is there already"), std::string::npos) << again.err;
}

TEST(StudyCommand, EveryStudyRunsAndItsHelpIsThere) {
  const Workspace work;
  const Words small = {"--n-layer", "2", "--n-embd",     "8", "--n-head", "2",
                       "--seeds",   "2", "--batch-size", "2"};
  const std::vector<Words> commands = {
      with({"study", "init", "--block-size", "6"}, small),
      with({"study", "rank", "--block-size", "6"}, small),
      with({"study", "distance", "--block-size", "6"}, small),
      {"study", "scale", "--block-size", "5", "--rows", "10", "--seeds", "2"},
      with({"study", "sharpness", "--at", "0,1", "--length", "2..3"}, small),
      with({"study", "noise", "--at", "0,2", "--parts", "3", "--length", "2..3"}, small),
      with({"study", "lr", "--steps", "12", "--length", "2..3"}, small)};
  const std::string list = work.run({"study", "--help"}).out;
  for (const Words& words : commands) {
    const Result result = work.run(words);
    EXPECT_EQ(result.code, 0) << words[1] << ": " << result.err;
    EXPECT_GT(work.log("studies/" + words[1] + "-1/" + words[1] + ".jsonl").size(), 2u);
    EXPECT_NE(list.find("\n  " + words[1] + " "), std::string::npos) << list;
    EXPECT_NE(work.run({"study", words[1], "--help"}).out.find("--seeds N"), std::string::npos);
  }
}

TEST(StudyCommand, RefusesInOneLineWhatMakesNoSense) {
  const Workspace work;
  const auto fails = [&](const Words& words, const std::string& message) {
    const Result result = work.run(with({"study"}, words));
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  };
  fails({"initt"}, "did you mean init?");
  fails({"init", "--n-layer", "2,,4"}, "--n-layer: '2,,4' has an empty value between commas");
  fails({"init", "--init", "xavier,gpt3"}, "gpt3");
  fails({"init", "--seed", "1,2"}, "--seeds N takes N of them");
  fails({"init", "--seeds", "0"}, "--seeds: '0' is not a whole number from 1");
  fails({"noise", "--at", "5,5"}, "--at: 5 is not a whole number above the one before it");
  fails({"lr", "--low", "1", "--high", "0.1"}, "--low: 1 is not below --high 0.1");
  fails({"scale", "--n-layer", "2"}, "unknown option --n-layer");
  EXPECT_TRUE(work.entries().empty());
}

}  // namespace attune::cli_test::study_command_test
