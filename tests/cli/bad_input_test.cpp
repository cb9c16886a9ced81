#include <ostream>

#include <gtest/gtest.h>

#include "cli/run_binary.h"

namespace attune::cli_test::bad_input_test {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Words that are wrong, and how the program says so.
struct Mistake {
  const char* name;
  Words words;
  int code;
  Words says;  // each stands in the one line on standard error
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

const Mistake kMistakes[] = {
    {"UnknownCommand", {"trian", "copy"}, kUsage, {"trian", "did you mean train?"}},
    {"UnknownOption", {"train", "copy", "--n-leyer", "2"}, kUsage, {"--n-leyer", "--n-layer?"}},
    {"UnknownUnderscoredOption", {"train", "copy", "--n_hed=2"}, kUsage, {"--n_hed", "--n-head"}},
    {"OptionGivenTwice", {"train", "copy", "--lr", "1", "--lr", "2"}, kUsage, {"--lr", "twice"}},
    {"OptionWithoutValue", {"train", "copy", "--lr"}, kUsage, {"--lr needs a value"}},
    {"WordForANumber", {"train", "copy", "--lr", "abc"}, kUsage, {"--lr", "'abc'"}},
    {"HalfANumber", {"train", "copy", "--lr", "1e"}, kUsage, {"--lr", "'1e'"}},
    {"NotANumber", {"train", "copy", "--lr", "nan"}, kUsage, {"--lr", "'nan'"}},
    {"NoNumber", {"train", "copy", "--seed", ""}, kUsage, {"--seed", "''"}},
    {"FractionOfALayer", {"train", "copy", "--layers", "2.5"}, kUsage, {"--n-layer", "'2.5'"}},
    {"NegativeSteps", {"train", "copy", "--steps", "-5"}, kUsage, {"--max-iters", "-5"}},
    {"MoreStepsThanANumberHolds",
     {"train", "copy", "--steps", "28446744073709551616"},
     kUsage,
     {"--max-iters", "28446744073709551616", "too large"}},
    {"HeadsThatDoNotDivideTheWidth",
     {"train", "copy", "--n-head=3", "--n-embd=8"},
     kUsage,
     {"--n-head 3", "--n-embd 8"}},
    {"UnknownTask", {"train", "cpoy"}, kUsage, {"cpoy", "did you mean copy?"}},
    {"NoTask", {"train"}, kUsage, {"a task is missing"}},
    {"TwoTasks", {"train", "copy", "sort"}, kUsage, {"'sort'"}},
    {"UnknownEncoding",
     {"train", "copy", "--pos", "ropee"},
     kUsage,
     {"--pos", "'ropee'", "mean rope"}},
    {"UnknownEncodingInADump",
     {"train", "copy", "--pos", "ropee", "--dump-config"},
     kUsage,
     {"--pos", "'ropee'"}},
    {"UnknownInitialisation", {"train", "copy", "--init=gpt9"}, kUsage, {"--init", "'gpt9'"}},
    {"UnknownPrecision", {"train", "copy", "--dtype=float16"}, kUsage, {"--dtype", "float32"}},
    {"AnotherDevice", {"train", "copy", "--device", "cuda"}, kUsage, {"--device", "'cuda'", "cpu"}},
    {"RotaryOverAnOddWidth",
     {"train", "copy", "--pos=rope", "--n-head=1", "--n-embd=7"},
     kUsage,
     {"rope", "7"}},
    {"ContextShorterThanTheExamples",
     {"train", "copy", "--block-size", "3"},
     kUsage,
     {"--block-size", "3", "25"}},
    {"EmptyRangeOfLengths", {"train", "copy", "--length=5..2"}, kUsage, {"--length", "5..2"}},
    {"ResumeOfNothing", {"train", "copy", "--resume"}, kUsage, {"--resume", "--out-dir"}},
    {"TooManyThreads", {"train", "copy", "--threads=5000"}, kUsage, {"--threads", "5000"}},
    {"NoTimeBudget", {"train", "copy", "--time-budget=soon"}, kUsage, {"--time-budget", "'soon'"}},
    {"TextWithoutData", {"train", "text"}, kUsage, {"--data"}},
    {"MissingData", {"train", "text", "--data=nowhere.txt"}, kFailed, {"nowhere.txt"}},
    {"EmptyData", {"train", "text", "--data=empty.txt"}, kFailed, {"--data", "empty.txt"}},
    {"DataThatIsADirectory", {"train", "text", "--data=directory"}, kFailed, {"directory"}},
    {"DataThatIsNoText",
     {"train", "text", "--data=binary"},
     kFailed,
     {"binary", "UTF-8", "byte 2"}},
    {"BlockLongerThanTheData",
     {"train", "text", "--data=short.txt", "--block-size=8"},
     kFailed,
     {"short.txt", "--block-size 8", "9"}},
    {"MissingConfiguration", {"train", "--config=none.toml"}, kFailed, {"none.toml"}},
    {"ConfigurationThatIsNoToml", {"train", "--config=short.txt"}, kUsage, {"short.txt", "line 1"}},
    {"ConfigurationWithAnUnknownKey",
     {"train", "copy", "--config=unknown.toml"},
     kUsage,
     {"unknown.toml", "n_leyer"}},
    {"DirectoryBelowAFile",
     {"train", "copy", "--out-dir=short.txt/run"},
     kFailed,
     {"short.txt/run"}},
    {"DirectoryThatIsAFile", {"train", "copy", "--out-dir=short.txt"}, kFailed, {"short.txt"}},
    {"EvalOfNoRun", {"eval", "nowhere"}, kFailed, {"nowhere"}},
    {"EvalOfAnEmptyDirectory", {"eval", "directory"}, kFailed, {"directory", "checkpoint"}},
    {"EvalOfNothing", {"eval"}, kUsage, {"run directory"}},
    {"EvalOfNoBatch", {"eval", "directory", "--eval-iters=0"}, kUsage, {"--eval-iters", "'0'"}},
    {"EvalOfMoreBatchesThanMemoryHolds",
     {"eval", "directory", "--eval-iters=9999999999"},
     kUsage,
     {"--eval-iters", "'9999999999'"}},
    {"EvalOfNoLength",
     {"eval", "directory", "--eval-lengths=3,,4"},
     kUsage,
     {"--eval-lengths", "''"}},
    {"NegativeTemperature",
     {"sample", "directory", "--temperature=-1"},
     kUsage,
     {"--temperature", "-1"}},
    {"NegativeTopK", {"sample", "directory", "--top-k=-1"}, kUsage, {"--top-k", "-1"}},
    {"TopPAboveOne", {"sample", "directory", "--top-p=1.5"}, kUsage, {"--top-p", "1.5"}},
    {"NoSamples", {"sample", "directory", "--num-samples=0"}, kUsage, {"--num-samples", "0"}},
    {"UnknownList", {"list", "taks"}, kUsage, {"'taks'", "did you mean tasks or masks?"}},
    {"TwoLists", {"list", "tasks", "inits"}, kUsage, {"'inits'"}},
};

class BadInput : public testing::TestWithParam<Mistake> {};

TEST_P(BadInput, IsOneLineAnExitCodeAndNothingOnTheDisk) {  // B45, B46, B47
  const Workspace space;
  space.write("empty.txt", "");
  space.write("short.txt", "too short\n");
  space.write("binary", std::string("ab\xff\0cd", 6));
  space.write("unknown.toml", "n_leyer = 3\n");
  std::filesystem::create_directory(space.path() / "directory");
  const Words before = space.entries();

  const Result result = space.run(GetParam().words);
  EXPECT_EQ(result.code, GetParam().code);
  EXPECT_TRUE(result.err.starts_with("attune: ")) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  for (const std::string& part : GetParam().says) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " in " << result.err;
  }
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(space.entries(), before);
}

INSTANTIATE_TEST_SUITE_P(Each, BadInput, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

// What is wrong only because of a run that is there.
class ExistingRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    space_ = std::make_unique<Workspace>();
    ASSERT_EQ(space_->run(tiny_run("run")).code, 0);
  }
  static void TearDownTestSuite() { space_.reset(); }

  static void expect_refused(const Words& words, int code, const Words& says) {
    const Words before = space_->entries();
    const std::string log = space_->read("run/metrics.jsonl");
    const std::string checkpoint = space_->read("run/checkpoint.safetensors");
    const Result result = space_->run(words);
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    for (const std::string& part : says) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << " in " << result.err;
    }
    EXPECT_EQ(space_->entries(), before);
    EXPECT_EQ(space_->read("run/metrics.jsonl"), log);
    EXPECT_EQ(space_->read("run/checkpoint.safetensors"), checkpoint);
  }

  static std::unique_ptr<Workspace> space_;
};
std::unique_ptr<Workspace> ExistingRun::space_;

TEST_F(ExistingRun, IsNotWrittenOver) {
  expect_refused(tiny_run("run"), kUsage, {"run", "already holds a run", "--resume"});
}

TEST_F(ExistingRun, ContradictionsAreRefused) {
  const Words resume{"train", "--out-dir=run", "--resume"};
  expect_refused(resume + Words{"--n-layer=2"}, kUsage, {"--n-layer", "resumed"});
  expect_refused(resume + Words{"--lr=0.5"}, kUsage, {"--lr", "resumed"});
  expect_refused(resume + Words{"--shards=3"}, kUsage, {"--shards", "resumed"});
  expect_refused({"train", "sort", "--out-dir=run", "--resume"}, kUsage, {"task", "resumed"});
}

TEST_F(ExistingRun, AnOptionThatSaysTheSameIsNoContradiction) {
  const Result result =
      space_->run({"train", "copy", "--out-dir=run", "--resume", "--n-layer=1", "--dump-config"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(ExistingRun, UnknownCharactersOfAPromptAreNamedWithTheirPlace) {  // B47
  expect_refused({"sample", "run", "--start=12x="}, kFailed, {"\"x\"", "position 2"});
}

TEST_F(ExistingRun, ADamagedCheckpointIsNamed) {
  space_->write("torn/checkpoint.safetensors",
                space_->read("run/checkpoint.safetensors").substr(0, 500));
  space_->write("torn/.lock", "");
  expect_refused({"eval", "torn"}, kFailed, {"torn/checkpoint.safetensors"});
  expect_refused({"train", "--out-dir=torn", "--resume"}, kFailed, {"torn/checkpoint.safetensors"});
}

}  // namespace attune::cli_test::bad_input_test
