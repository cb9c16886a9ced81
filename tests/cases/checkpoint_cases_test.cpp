#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attune/observe/logs.h"
#include "attune/train/safetensors.h"
#include "cli/run_binary.h"
#include "observe/sample_run.h"

// Kinds of fault that others reported, in checkpoints and logs (B39 to B45), as the program meets
// them. Each damage of a file by itself is a test of tests/train.
namespace attune::checkpoint_cases_test {

using cli_test::Result;
using cli_test::tiny_run;
using cli_test::Words;
using cli_test::Workspace;
using cli_test::operator+;
using Json = nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes.append(header).append(data_bytes, '\0');
}

std::string one_tensor(std::string_view rest, std::size_t data_bytes) {
  return file_of(fmt::format(R"({{"w":{{{}}}}})", rest), data_bytes);
}

// A run's checkpoint with its tensors changed.
template <class Change>
std::string changed(const std::string& good, const Change& change) {
  TensorFile file = decode_safetensors(good, "good");
  change(file.tensors);
  return encode_safetensors(file);
}

// The inputs (a) to (m) of B39, by their letters.
std::vector<std::pair<std::string, std::string>> damaged_files(const std::string& good) {
  using Tensors = std::vector<std::pair<std::string, Array>>;
  const std::string w = R"("w":{"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  const std::string four = R"("dtype":"F32","shape":[1],"data_offsets":)";
  return {
      {"a", std::string(7, '\0')},
      {"b", std::string(8, '\xff') + "{}"},
      {"c", std::string("\xff\0\0\0\0\0\0\0{}", 10)},
      {"d1", file_of("no JSON", 0)},
      {"d2", file_of("[]", 0)},
      {"e1", one_tensor(four + "[8,4]", 8)},
      {"e2", one_tensor(four + "[-4,0]", 4)},
      {"e3", one_tensor(four + "[0,400]", 4)},
      {"e4", one_tensor(four + "[4,8]", 8)},
      {"f", one_tensor(R"("dtype":"F32","shape":[32,8],"data_offsets":[0,65536])", 65536)},
      {"g", one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0)},
      {"h1", one_tensor(R"("dtype":"F8","shape":[4],"data_offsets":[0,4])", 4)},
      {"h2", changed(good, [](Tensors& t) { t[0].second = t[0].second.cast(DType::float64); })},
      {"i", good.substr(0, good.size() - 1)},
      {"j", good + "x"},
      {"k", file_of("{" + w + "," + w + "}", 4)},
      {"l", changed(good,
                    [](Tensors& t) {
                      const Shape& shape = t[0].second.shape();
                      t[0].second = t[0].second.reshaped({shape[1], shape[0]});
                    })},
      {"m1", changed(good, [](Tensors& t) { t.erase(t.begin()); })},
      {"m2",
       changed(good, [](Tensors& t) { t.emplace_back("w", Array::zeros({1}, DType::float32)); })},
      {"empty", ""}};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr long kMostKilobytes = 64 * 1024;

// Of all processes that this one started and that ended.
long largest_process_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;
}

TEST(CheckpointCases, DamagedFilesAreOneLineAndLeaveTheRunAlone) {  // B39
  const long before = largest_process_kilobytes();
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const std::string log = space.read("run/metrics.jsonl");
  for (const auto& [name, bytes] : damaged_files(space.read("run/checkpoint.safetensors"))) {
    SCOPED_TRACE(name);
    space.write("run/checkpoint.safetensors", bytes);
    for (const Words& words : {Words{"eval", "run"}, Words{"sample", "run"},
                               Words{"train", "--out-dir=run", "--resume", "--max-iters=20"}}) {
      const Result result = space.run(words);
      EXPECT_EQ(result.code, 1) << words[0];
      EXPECT_TRUE(is_one_line(result.err)) << result.err;
      EXPECT_NE(result.err.find("run/checkpoint.safetensors"), std::string::npos) << result.err;
      EXPECT_EQ(result.out, "");
    }
    EXPECT_EQ(space.read("run/checkpoint.safetensors"), bytes);
    EXPECT_EQ(space.read("run/metrics.jsonl"), log);
  }
  // Memory: 64 MiB, unless a process that another test started had more.
  if (!kSanitized && before < kMostKilobytes) {
    EXPECT_LT(largest_process_kilobytes(), kMostKilobytes);
  }
}

// Each asks for gigabytes in a file of kilobytes.
TEST(CheckpointCases, AConfigurationBeyondTheFileTakesNoMemory) {
  const long before = largest_process_kilobytes();
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const TensorFile good = decode_safetensors(space.read("run/checkpoint.safetensors"), "good");
  std::filesystem::remove(space.path() / "run/config.toml");
  for (const char* change : {"n_embd = 8192", "n_layer = 1000", "d_ff = 1000000",
                             "value_dim = 65536", "tie_head = false\nhead_dim = 65536"}) {
    SCOPED_TRACE(change);
    TensorFile file = good;
    std::string& toml = file.metadata.at("config");
    toml = std::string("task = \"copy\"\nlength = \"1..3\"\n") + change;
    space.write("run/checkpoint.safetensors", encode_safetensors(file));
    for (const Words& words : {Words{"eval", "run"}, Words{"sample", "run"},
                               Words{"train", "--out-dir=run", "--resume"}}) {
      const Result result = space.run(words);
      EXPECT_EQ(result.code, 1) << words[0];
      EXPECT_TRUE(is_one_line(result.err)) << result.err;
      EXPECT_NE(result.err.find("run/checkpoint.safetensors: its configuration is damaged: "
                                "parameter "),
                std::string::npos)
          << result.err;
    }
  }
  if (!kSanitized && before < kMostKilobytes) {
    EXPECT_LT(largest_process_kilobytes(), kMostKilobytes);
  }
}

TEST(CheckpointCases, AConfigurationOutsideItsDomainIsAnErrorOfTheFile) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  TensorFile file = decode_safetensors(space.read("run/checkpoint.safetensors"), "good");
  for (const char* toml : {"task = \"copy\"\nn_embd = 65536", "task = \"copy\"\nn_head = 0",
                           "task = \"../x\"", "", "task ="}) {
    file.metadata.at("config") = toml;
    space.write("run/checkpoint.safetensors", encode_safetensors(file));
    for (const Words& words : {Words{"eval", "run"}, Words{"train", "--out-dir=run", "--resume"}}) {
      const Result result = space.run(words);
      EXPECT_EQ(result.code, 1) << toml;
      EXPECT_TRUE(is_one_line(result.err)) << result.err;
      EXPECT_NE(result.err.find("run/checkpoint.safetensors: its configuration is damaged: "),
                std::string::npos)
          << result.err;
    }
  }
}

TEST(CheckpointCases, AVocabularyThatIsNoneIsAnErrorOfTheFile) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  TensorFile file = decode_safetensors(space.read("run/checkpoint.safetensors"), "good");
  for (const char* vocabulary : {"[]", "[\"\"]", "[\"a\",\"a\"]"}) {
    file.metadata.at("vocabulary") = vocabulary;
    space.write("run/checkpoint.safetensors", encode_safetensors(file));
    const Result result = space.run({"sample", "run"});
    EXPECT_EQ(result.code, 1);
    EXPECT_TRUE(is_one_line(result.err)) << result.err;
    EXPECT_NE(result.err.find("run/checkpoint.safetensors: "), std::string::npos) << result.err;
  }
}

TEST(CheckpointCases, ASaveThatFailsKeepsTheOldFile) {  // B40
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run") + Words{"--lr-decay-iters=20"}).code, 0);
  const std::string before = space.read("run/checkpoint.safetensors");
  // Nobody, not even root, can write a file where a directory stands.
  space.write("run/checkpoint.safetensors.tmp/in-the-way", "");
  const Words resume{"train", "--out-dir=run", "--resume", "--max-iters=20"};
  const Result refused = space.run(resume);
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(is_one_line(refused.err)) << refused.err;
  EXPECT_NE(refused.err.find("checkpoint.safetensors"), std::string::npos) << refused.err;
  EXPECT_EQ(space.read("run/checkpoint.safetensors"), before);
  EXPECT_EQ(space.run({"eval", "run", "--eval-iters=1"}).code, 0);

  std::filesystem::remove_all(space.path() / "run/checkpoint.safetensors.tmp");
  ASSERT_EQ(space.run(resume).code, 0);
  Words whole = tiny_run("whole");
  whole[10] = "--max-iters=20";
  ASSERT_EQ(space.run(whole).code, 0);
  EXPECT_EQ(space.hash("run"), space.hash("whole"));
  EXPECT_EQ(space.log("run/metrics.jsonl"), space.log("whole/metrics.jsonl"));
}

// Everything in a checkpoint but its time and its configuration, which tells the intervals.
TensorFile saved(const Workspace& space, const std::string& run) {
  TensorFile file = decode_safetensors(space.read(run + "/checkpoint.safetensors"), run);
  file.metadata.erase("counter.elapsed_seconds");
  return file;
}

TEST(ResumeCases, EvaluatingAndSamplingInBetweenChangesNothing) {  // B42
  const Workspace space;
  const Words shuffled{"--train-size=25", "--lr-decay-iters=10"};
  ASSERT_EQ(space.run(tiny_run("whole") + shuffled).code, 0);
  Words half = tiny_run("halves") + shuffled;
  half[10] = "--max-iters=5";  // in the middle of an epoch of 25 examples, 6 a step
  ASSERT_EQ(space.run(half).code, 0);
  ASSERT_EQ(space.run({"eval", "halves", "--eval-iters=3"}).code, 0);
  ASSERT_EQ(space.run({"sample", "halves", "--num-samples=3", "--temperature=1"}).code, 0);
  ASSERT_EQ(space.run({"train", "--out-dir=halves", "--resume", "--max-iters=10"}).code, 0);
  EXPECT_EQ(space.log("halves/metrics.jsonl"), space.log("whole/metrics.jsonl"));
  EXPECT_EQ(space.log("halves/attention.jsonl"), space.log("whole/attention.jsonl"));
  EXPECT_EQ(encode_safetensors(saved(space, "halves")), encode_safetensors(saved(space, "whole")));
}

// Every null of a line is named by it.
void expect_nulls_named(const Json& line) {
  std::vector<std::string> nulls;
  for (const auto& [name, value] : line.items())
    if (value.is_null()) nulls.push_back(name);
  ASSERT_FALSE(nulls.empty()) << line;
  ASSERT_TRUE(line.contains("nonfinite")) << line;
  const auto named = line.at("nonfinite").get<std::vector<std::string>>();
  for (const std::string& name : nulls)
    EXPECT_NE(std::ranges::find(named, name), named.end()) << name << " in " << line;
}

TEST(JsonCases, WhatIsNullIsNamedInEveryLog) {  // B43
  const Workspace space;
  for (const double value : {kNan, -kNan, kInfinity, -kInfinity}) {
    StepRecord record = sample_step(3);
    record.validation->loss_sum = value;
    record.validation->attention.at(0, 1).entropy_sum = value;
    record.update->train_loss = value;
    RunSummary summary;
    summary.train_loss = value;
    summary.validation = record.validation;
    summary.best_val_loss = value;
    MetricsLog(space.path() / "metrics").on_step(record);
    AttentionLog(space.path() / "attention").on_step(record);
    SummaryFile(space.path() / "summary", "attune").on_end(summary);
    expect_nulls_named(space.log("metrics").back());
    expect_nulls_named(space.log("attention").back());
    expect_nulls_named(Json::parse(space.read("summary")));
  }
}

// A loss that is not finite beside gradients that are, in a step of which no line is due.
TEST(JsonCases, ALossThatIsNotFiniteIsToldBetweenLines) {  // B43
  const Workspace space;
  StepRecord record = sample_step(7);
  record.logged = false;
  record.update->train_loss = kNan;
  MetricsLog(space.path() / "metrics").on_step(record);
  ASSERT_EQ(space.log("metrics").size(), 1u);
  expect_nulls_named(space.log("metrics")[0]);
}

TEST(JsonCases, ADivergedRunIsStrictInEveryFile) {  // B43
  const Workspace space;
  const std::string run = "we\"ird\\ \n\x01\xff";
  const Result result =
      space.run(tiny_run(run) + Words{"--lr=1e38", "--grad-clip=0", "--warmup-iters=0"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(is_one_line(result.err)) << result.err;
  expect_nulls_named(space.log(run + "/metrics.jsonl").back());
  EXPECT_FALSE(space.log(run + "/attention.jsonl").empty());
  EXPECT_EQ(space.summary(run).at("status"), "diverged");
  const std::string command = space.summary(run).at("command_line");
  EXPECT_NE(command.find("we\"ird\\ \n\x01"), std::string::npos) << command;
}

TEST(JsonCases, AnEvaluationOfWeightsThatAreNoNumbersNamesItsNulls) {  // B43
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const std::string good = space.read("run/checkpoint.safetensors");
  space.write("run/checkpoint.safetensors", changed(good, [](auto& tensors) {
                tensors[0].second = Array::full(tensors[0].second.shape(), kNan, DType::float32);
              }));
  const Result result = space.run({"eval", "run", "--json", "--eval-iters=1", "--eval-lengths=2"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  expect_nulls_named(json);
  expect_nulls_named(json.at("lengths")[0]);
}

// The path of the data stands in config.toml and in the checkpoint.
TEST(ConfigCases, AnOddPathOfTheDataReadsBack) {  // B43
  const Workspace space;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcd\n";
  const std::string odd = "we\"ird\\ \n\t\x01\x7f \xc3\xa9.txt";
  space.write(odd, text);
  const auto words = [](const std::string& data) {
    return Words{"train",          "text",          "--data=" + data, "--out-dir=run",
                 "--n-layer=1",    "--n-head=1",    "--n-embd=8",     "--block-size=4",
                 "--batch-size=2", "--max-iters=2", "--eval-iters=1"};
  };
  ASSERT_EQ(space.run(words(odd)).code, 0);
  EXPECT_EQ(space.run({"eval", "run", "--eval-iters=1"}).code, 0);
  ASSERT_EQ(space.run({"train", "--config=run/config.toml", "--out-dir=again"}).code, 0);
  EXPECT_EQ(space.hash("again"), space.hash("run"));

  std::filesystem::remove_all(space.path() / "run");
  std::filesystem::remove_all(space.path() / "again");
  const std::string unwritable = "bad\xff.txt";
  space.write(unwritable, text);
  const Words before = space.entries();
  const Result refused = space.run(words(unwritable));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(is_one_line(refused.err)) << refused.err;
  EXPECT_NE(refused.err.find("--data"), std::string::npos) << refused.err;
  EXPECT_EQ(space.entries(), before);
}

TEST(NumberCases, WhatWasTypedStaysOneLineOfTheError) {  // B45
  const Workspace space;
  for (const Words& words :
       {Words{"tr\nain"}, Words{"train", "co\npy"}, Words{"train", "copy", "--lr=a\nb"},
        Words{"train", "copy", "--pos=ro\npe"}, Words{"train", "copy", "--n\nlayer=2"},
        Words{"train", "text", "--data=no\nwhere"}, Words{"eval", "no\nwhere"},
        Words{"train", "copy", "--steps=\x1b[31m1"}, Words{"list", "ta\nsk"}}) {
    const Result result = space.run(words);
    EXPECT_TRUE(result.code == 1 || result.code == 2) << result.code;
    EXPECT_TRUE(is_one_line(result.err)) << result.err;
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_TRUE(space.entries().empty());
}

}  // namespace attune::checkpoint_cases_test
