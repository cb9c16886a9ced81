#include <cmath>
#include <sstream>

#include "cli/run_binary.h"

// attune attention, and what of it is logged while training.
namespace attune::cli_test::attention_command_test {

class AttentionCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    space_ = new Workspace;
    ASSERT_EQ(space_->run(tiny_run("run") + Words{"--log-heads", "--checkpoint-at=0,4"}).code, 0);
    Words linear = tiny_run("linear") + Words{"--attention=linear"};
    linear.erase(linear.begin() + 14, linear.begin() + 15);  // its attention has no dropout
    ASSERT_EQ(space_->run(linear).code, 0);
  }
  static void TearDownTestSuite() {
    delete space_;
    space_ = nullptr;
  }
  static nlohmann::json json_of(Words words) {
    words.emplace_back("--json");
    const Result result = space_->run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  static Workspace* space_;
};
Workspace* AttentionCommand::space_ = nullptr;

TEST_F(AttentionCommand, DrawsMapsWithin80ColumnsAndWithoutColoursInAFile) {
  const Words questions[] = {{"attention", "run"},
                             {"attention", "run", "--layer=0", "--head=1"},
                             {"attention", "run", "--input", "2 1 2 = 2", "--shades=ascii"}};
  for (const Words& words : questions) {
    const Result result = space_->run(words);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find('\033'), std::string::npos);
    EXPECT_NE(result.out.find("copy after 10 steps"), std::string::npos);
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto width = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_LE(width, 80 + 20 * line.starts_with("LAYER")) << line;
    }
  }
}

// Lines of the log of step 4 are the scores of the checkpoint that was kept of it.
TEST_F(AttentionCommand, HeadsAreScoredWhileTrainingAsAfterwards) {
  const std::vector<nlohmann::json> log = space_->log("run/heads.jsonl");
  ASSERT_EQ(log.size(), 8u);  // steps 0, 4, 8, 10 of two heads
  for (const std::int64_t step : {0, 4}) {
    const auto kept = "run/checkpoint-" + std::to_string(step) + ".safetensors";
    const nlohmann::json heads = json_of({"attention", kept, "--heads"}).at("heads");
    for (std::size_t head = 0; head < 2; ++head) {
      const nlohmann::json& line = log[static_cast<std::size_t>(step) / 2 + head];
      EXPECT_EQ(line.at("step"), step);
      EXPECT_EQ(line.at("head"), head);
      for (const char* score : {"previous_token", "duplicate_token", "induction"})
        EXPECT_DOUBLE_EQ(line.at(score).get<double>(), heads[head].at(score).get<double>());
    }
  }
}

TEST_F(AttentionCommand, LogsOfHeadsAreTheSameAfterAResume) {
  Words half = tiny_run("half") + Words{"--lr-decay-iters=10", "--log-heads"};
  half[10] = "--max-iters=5";
  ASSERT_EQ(space_->run(half).code, 0);
  ASSERT_EQ(space_->run({"train", "--out-dir=half", "--resume", "--max-iters=10"}).code, 0);
  EXPECT_EQ(space_->log("half/heads.jsonl").size(), space_->log("run/heads.jsonl").size());
  EXPECT_EQ(space_->log("half/heads.jsonl").back(), space_->log("run/heads.jsonl").back());
  EXPECT_EQ(space_->hash("half"), space_->hash("run"));  // watching changes nothing
}

// Row "nothing" and the last of the lens are the model's own loss on the same examples.
TEST_F(AttentionCommand, TablesBeginAndEndWithTheModelItself) {
  const nlohmann::json json = json_of(
      {"attention", "run", "--ablate=mean", "--together=0.0,0.1", "--lens", "--eval-iters=3"});
  const double loss =
      nlohmann::json::parse(space_->run({"eval", "run", "--eval-iters=3", "--json"}).out)
          .at("val_loss");
  EXPECT_NEAR(json.at("ablation")[0].at("loss").get<double>(), loss, 1e-6);
  EXPECT_NEAR(json.at("lens").back().at("loss").get<double>(), loss, 1e-6);
  ASSERT_EQ(json.at("ablation").size(), 5u);
  EXPECT_EQ(json.at("ablation")[4].at("without"), "0.0,0.1");
  EXPECT_EQ(json.at("ablation")[4].at("loss"), json.at("ablation")[3].at("loss"));  // all of two
}

TEST_F(AttentionCommand, ExpertsOfAMixtureAreCounted) {
  ASSERT_EQ(
      space_->run(tiny_run("experts") + Words{"--attention=mixture", "--attn-experts=2"}).code, 0);
  const nlohmann::json rows = json_of({"attention", "experts", "--experts"}).at("experts");
  ASSERT_EQ(rows.size(), 2u);
  double shares = 0, probabilities = 0;
  for (const nlohmann::json& row : rows) {
    shares += row.at("share_of_tokens").get<double>();
    probabilities += row.at("mean_probability").get<double>();
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(probabilities, 1, 1e-5);
}

TEST_F(AttentionCommand, PatchingTheStreamBeforeTheFirstLayerGivesAllBack) {
  const Words clean = {"attention", "run", "--input", "2 1 2 = 2 1", "--patch", "2 9 2 = 2 1"};
  for (const char* metric : {"loss", "logits"}) {
    const Result result = space_->run(clean + Words{"--json", "--patch-metric", metric});
    if (result.code == 2) {  // a model that hardly learned may give both the same answer
      EXPECT_NE(result.err.find("both inputs get the same answer"), std::string::npos);
      continue;
    }
    const nlohmann::json rows = nlohmann::json::parse(result.out).at("patches");
    EXPECT_NEAR(rows[0].at("residual_pre").get<double>(), 1, 1e-3);
  }
  const nlohmann::json rows = json_of(clean + Words{"--patch-by=position"}).at("patches");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_NEAR(rows[1].at("layer_0").get<double>(), 1, 1e-3);
  EXPECT_NEAR(rows[0].at("layer_0").get<double>(), 0, 1e-3);
  EXPECT_EQ(json_of(clean + Words{"--patch-by=head"}).at("patches")[0].size(), 3u);
}

TEST_F(AttentionCommand, FilesAreReadByNumPy) {
  const Words words = {"attention", "run", "--input", "2 1 2 = 2", "--out-dir", "files", "--heads"};
  const Result result = space_->run(words);
  if (result.err.find("gnuplot") != std::string::npos) GTEST_SKIP() << "no gnuplot here";
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(space_->holds("files/attention.png"));
  const std::string program =
      "import numpy as np\\n"
      "a, e, t = (np.load(f'files/{n}.npy') for n in ('attention', 'entropy', 'tokens'))\\n"
      "assert a.shape == (1, 2, 5, 5) and e.shape == (1, 2, 5) and t.shape == (5,)\\n"
      "assert a.dtype == np.float64 and t.dtype == np.int32 and t[0] == t[2] != t[1]\\n"
      "assert np.abs(a.sum(-1) - 1).max() < 1e-6 and np.triu(a[0, 1], 1).max() == 0\\n"
      "a /= a.sum(-1, keepdims=True)\\n"
      "h = -np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0).sum(-1)\\n"
      "assert np.abs(h - e).max() < 1e-9\\n";
  const std::string run = "cd '" + space_->path().string() + "' && ";
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((run + "printf \"" + program + "\" | " + python + " -").c_str()), 0);
    return;
  }
  GTEST_SKIP() << "no Python with NumPy here";
}

TEST_F(AttentionCommand, WrongWordsAreUsageErrorsThatSayWhatFits) {
  const std::pair<Words, std::string> cases[] = {
      {{"attention"}, "attention: one run directory is expected"},
      {{"attention", "run", "--layer=1"}, "--layer: '1' is not a whole number from 0 to 0"},
      {{"attention", "run", "--shades=blcks"}, "--shades: 'blcks' is none of auto, ascii"},
      {{"attention", "run", "--ablate", "--together=0.2"}, "--together: '0.2' is no head"},
      {{"attention", "run", "--experts"}, "--experts: --attention dot-product has none"},
      {{"attention", "run", "--patch=1"}, "--patch: 1 tokens, the clean input has"},
      {{"attention", "run", "--patch=1", "--patch-at=residul_pre", "--input=2"},
       "did you mean residual_pre"},
      {{"attention", "linear"}, "--attention linear: there are no maps"},
      {{"attention", "run", "--input="}, "--input: there is no token in it"}};
  for (const auto& [words, message] : cases) {
    const Result result = space_->run(words);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
  }
  EXPECT_EQ(json_of({"attention", "linear", "--ablate", "--eval-iters=1"}).at("ablation").size(),
            4u);
}

}  // namespace attune::cli_test::attention_command_test
