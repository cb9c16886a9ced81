#include <sstream>

#include <gtest/gtest.h>

#include "cli/run_binary.h"

namespace attune::cli_test::eval_sample_list_test {

// Runs of two tasks and a text, trained once for all tests here.
class TrainedRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    space_ = std::make_unique<Workspace>();
    ASSERT_EQ(space_->run(tiny_run("copy")).code, 0);
    Words induction = tiny_run("induction");
    induction[1] = "induction";
    ASSERT_EQ(space_->run(induction).code, 0);
    std::string text;
    for (int i = 0; i < 100; ++i) text += "abcd\n";
    space_->write("text.txt", text);
    const Words words{"train",          "text",           "--data=text.txt", "--out-dir=text",
                      "--n-layer=1",    "--n-head=1",     "--n-embd=8",      "--block-size=8",
                      "--batch-size=4", "--eval-iters=1", "--max-iters=200", "--warmup-iters=0",
                      "--lr=0.02"};
    ASSERT_EQ(space_->run(words).code, 0);
  }
  static void TearDownTestSuite() { space_.reset(); }

  static std::string output_of(const Words& words) {
    const Result result = space_->run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }

  static std::unique_ptr<Workspace> space_;
};
std::unique_ptr<Workspace> TrainedRun::space_;

using Eval = TrainedRun;
using Sample = TrainedRun;

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

TEST_F(Eval, JsonHasTheFieldsOfTheLogs) {
  const auto json = nlohmann::json::parse(output_of({"eval", "copy", "--json", "--eval-iters=3"}));
  EXPECT_EQ(json.at("step"), 10);
  EXPECT_EQ(json.at("task"), "copy");
  EXPECT_EQ(json.at("examples"), 18);
  for (const char* field : {"val_loss", "val_accuracy", "val_exact", "chance"}) {
    EXPECT_TRUE(json.at(field).is_number()) << field;
  }
  ASSERT_EQ(json.at("attention").size(), 2u);  // a layer of two heads
  EXPECT_EQ(json.at("attention")[1].at("head"), 1);
}

TEST_F(Eval, IsThatOfTrainingOnAsManyBatches) {
  const auto json = nlohmann::json::parse(output_of({"eval", "copy", "--json", "--eval-iters=2"}));
  const nlohmann::json last = space_->log("copy/metrics.jsonl").back();
  EXPECT_EQ(json.at("val_loss"), last.at("val_loss"));
  EXPECT_EQ(json.at("val_accuracy"), last.at("val_accuracy"));
}

TEST_F(Eval, DoesNotDependOnThreads) {
  const Words words{"eval", "copy", "--json", "--eval-iters=5"};
  EXPECT_EQ(output_of(words + Words{"--threads=1"}), output_of(words + Words{"--threads=3"}));
}

TEST_F(Eval, AnotherSeedDrawsOtherExamples) {
  const Words words{"eval", "copy", "--json", "--eval-iters=5"};
  EXPECT_NE(output_of(words), output_of(words + Words{"--seed=99"}));
}

TEST_F(Eval, LengthsAreToldApart) {
  const auto json = nlohmann::json::parse(
      output_of({"eval", "copy", "--json", "--eval-iters=2", "--eval-lengths=2,20"}));
  ASSERT_EQ(json.at("lengths").size(), 2u);
  EXPECT_EQ(json.at("lengths")[1].at("length"), 20);
  // 12 examples with 20 symbols and an end each.
  EXPECT_EQ(json.at("lengths")[1].at("tokens"), 12 * 21);
}

TEST_F(Eval, LengthsBeyondLearnedPositionsAreSaidToBe) {
  const std::string table = output_of({"eval", "text", "--eval-iters=1", "--eval-lengths=4,9"});
  EXPECT_NE(table.find("length 4     loss"), std::string::npos) << table;
  EXPECT_NE(table.find("length 9     beyond the positions"), std::string::npos) << table;
}

// A path in a checkpoint is no reason to read whatever lies there by now.
TEST_F(Eval, ATextThatChangedSinceTrainingIsRefusedUnlessItIsAskedFor) {
  const std::string text = space_->read("text.txt");
  space_->write("text.txt", text + "abcd\n");
  const Result changed = space_->run({"eval", "text", "--eval-iters=1"});
  EXPECT_EQ(changed.code, 1);
  EXPECT_NE(
      changed.err.find("text.txt: is not the file this run was trained on (500 bytes, SHA-256"),
      std::string::npos)
      << changed.err;
  EXPECT_EQ(std::ranges::count(changed.err, '\n'), 1) << changed.err;
  EXPECT_EQ(space_->run({"eval", "text", "--eval-iters=1", "--data=text.txt"}).code, 0);
  space_->write("text.txt", text);
  EXPECT_EQ(space_->run({"eval", "text", "--eval-iters=1"}).code, 0);
}

TEST_F(Eval, TableHasALineForEachLayer) {
  const std::string table = output_of({"eval", "copy", "--eval-iters=1"});
  for (const char* part : {"loss ", "accuracy ", "exact ", "head 1", "layer 0"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part;
  }
}

TEST_F(Sample, QuestionsAreHeldOutExamplesWithTheirAnswers) {
  std::istringstream lines(output_of({"sample", "copy", "--num-samples=6"}));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::size_t arrow = line.find("= -> ");
    ASSERT_NE(arrow, std::string::npos) << line;
    const std::string right = line.substr(0, arrow) + ".";  // to copy what was asked
    const std::size_t wrong = line.find("   wrong: ");
    if (wrong == std::string::npos) {
      EXPECT_EQ(line, line.substr(0, arrow) + "= -> " + right + "   right");
    } else {
      EXPECT_EQ(line.substr(wrong + 10), right);
    }
  }
  EXPECT_EQ(count, 6);
}

TEST_F(Sample, AnAnswerEndsAtItsEndToken) {
  for (int seed = 0; seed < 8; ++seed) {
    const std::string line = output_of(
        {"sample", "copy", "--start=12=", "--temperature=2", "--seed=" + std::to_string(seed)});
    ASSERT_TRUE(line.starts_with("12= -> ")) << line;
    const std::size_t end = line.find('.');
    EXPECT_TRUE(end == std::string::npos || end == line.size() - 2) << line;
  }
}

TEST_F(Sample, AnAnswerWithoutAnEndTokenIsAsLongAsTheRightOne) {
  std::istringstream lines(output_of({"sample", "induction", "--num-samples=8"}));
  int wrong_ones = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find(" -> ");
    const std::size_t wrong = line.find("   wrong: ");
    if (wrong == std::string::npos) continue;
    ++wrong_ones;
    EXPECT_EQ(wrong - arrow - 4, line.size() - wrong - 10) << line;
  }
  EXPECT_GT(wrong_ones, 0);
}

TEST_F(Sample, ATextGoesOnFromItsStart) {
  const Words words{"sample", "text", "--start=ab", "--temperature=0", "--max-new-tokens=8"};
  EXPECT_EQ(output_of(words), "abcd\nabcd\n\n");  // what the text says, over and over
}

TEST_F(Sample, TheSameSeedWritesTheSame) {
  const Words words{"sample", "text", "--temperature=1.5", "--max-new-tokens=60"};
  const std::string text = output_of(words + Words{"--seed=3"});
  EXPECT_EQ(text, output_of(words + Words{"--seed=3"}));
  EXPECT_NE(text, output_of(words + Words{"--seed=4"}));
}

TEST_F(Sample, GoesOnPastLearnedPositionsAndSaysSoOnce) {  // B16
  const Result fits = space_->run({"sample", "text", "--start=ab", "--max-new-tokens=7"});
  EXPECT_EQ(fits.err, "");  // 8 positions were read
  const Result beyond = space_->run({"sample", "text", "--start=ab", "--max-new-tokens=40"});
  EXPECT_EQ(beyond.code, 0);
  EXPECT_EQ(lines_of(beyond.err), 1u) << beyond.err;
  EXPECT_NE(beyond.err.find("past the context"), std::string::npos);
  EXPECT_EQ(beyond.out.size(), 2 + 40 + 1u);
}

// A million tokens would take minutes.
TEST_F(Sample, EndsWhenItsReaderWentAway) {
  const Result result = space_->run({"sample", "text", "--max-new-tokens=1000000"}, Output::closed);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(Sample, EndsWhereThereIsNoOutput) {
  const Result result = space_->run({"sample", "text", "--max-new-tokens=1000000"}, Output::none);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(List, HasANameFirstOnALine) {
  const Workspace space;
  for (const auto& [what, name] :
       {std::pair{"tasks", "induction"}, {"encodings", "rope"}, {"inits", "xavier"}}) {
    const Result result = space.run({"list", what});
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(("\n" + result.out).find("\n" + std::string(name) + " "), std::string::npos) << what;
  }
  EXPECT_TRUE(space.entries().empty());
}

TEST(List, EveryEncodingAndInitialisationCanBeTrained) {
  const Workspace space;
  for (const auto& [what, option] : {std::pair{"encodings", "--pos="}, {"inits", "--init="}}) {
    std::istringstream lines(space.run({"list", what}).out);
    for (std::string line; std::getline(lines, line);) {
      const std::string name = line.substr(0, line.find(' '));
      Words words = tiny_run(name) + Words{option + name};
      words[10] = "--max-iters=1";
      const Result result = space.run(words);
      EXPECT_EQ(result.code, 0) << result.err;
    }
  }
}

TEST(Help, EveryCommandHasOne) {
  const Workspace space;
  for (const char* command : {"train", "eval", "sample", "list"}) {
    const Result result = space.run({command, "--help"});
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.out.find(std::string("attune ") + command), std::string::npos) << result.out;
    EXPECT_EQ(result.err, "");
  }
  EXPECT_TRUE(space.entries().empty());
}

TEST(Help, VersionAndBuildAreTold) {
  const Workspace space;
  EXPECT_TRUE(space.run({"--version"}).out.starts_with("attune "));
  EXPECT_NE(space.run({"--build-info"}).out.find("BLAS"), std::string::npos);
}

TEST(Output, AFullDiskIsAnError) {
  const Workspace space;
  const Result result = space.run({"list", "tasks"}, Output::full);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "attune: standard output: No space left on device\n");
}

TEST(Output, AReaderThatWentAwayIsNoError) {
  const Workspace space;
  EXPECT_EQ(space.run({"list", "tasks"}, Output::closed).code, 0);
  EXPECT_EQ(space.run({"train", "--help"}, Output::closed).code, 0);
}

}  // namespace attune::cli_test::eval_sample_list_test
