#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/task/task.h"
#include "cli/run_binary.h"
#include "task/examples.h"

// Kinds of fault that others reported, in data (B46, B47). Most are tests of the tasks.
namespace attune::data_cases_test {

using cli_test::Result;
using cli_test::Words;
using cli_test::operator+;
using cli_test::Workspace;

TEST(SplitCases, AThousandAndTwoHundredExamplesShareNoneForAnySeed) {  // B46
  for (const TaskOptions& options : test::typical_options()) {
    const std::unique_ptr<Task> task = make_task(options);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const BatchSource source(*task, seed, 0);
      const std::vector<std::string> train = test::rows(*task, source.train(0, 0, 1000, 1000));
      const std::vector<std::string> validation =
          test::rows(*task, source.evaluation(Split::validation, 0, 200));
      const std::set<std::string> seen(train.begin(), train.end());
      for (const std::string& row : validation)
        ASSERT_FALSE(seen.contains(row)) << options.name << " seed " << seed << ": " << row;
    }
  }
}

// 7 sequences in batches of 3: every one once in each 7 draws, none dropped at an epoch's end.
TEST(BatchCases, AnEpochThatBatchesDoNotDivideDropsNothing) {  // B46
  const std::unique_ptr<Task> task = make_task({.name = "copy", .min_length = 9, .max_length = 12});
  const BatchSource source(*task, 3, 7);
  std::vector<std::string> drawn;
  for (std::int64_t step = 0; step < 7; ++step)
    for (std::string& row : test::rows(*task, source.train(step, 0, 3, 3)))
      drawn.push_back(std::move(row));
  for (auto epoch = drawn.begin(); epoch != drawn.end(); epoch += 7)
    EXPECT_EQ(std::set<std::string>(epoch, epoch + 7).size(), 7u);
}

TEST(BatchCases, ABatchLargerThanTheDataWorks) {  // B46
  const Workspace space;
  const Result result = space.run(cli_test::tiny_run("run") + Words{"--train-size=2"});
  EXPECT_EQ(result.code, 0) << result.err;
}

Words text_run(const std::string& data, const std::string& directory) {
  return {"train",          "text",          "--data",        data,         "--out-dir",
          directory,        "--n-layer=1",   "--n-head=1",    "--n-embd=8", "--block-size=4",
          "--batch-size=2", "--max-iters=3", "--eval-iters=1"};
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The same text with a byte order mark and CRLF, and without; neither ends with a line end.
TEST(TextCases, AByteOrderMarkAndCrlfAreNoTokens) {  // B47
  const Workspace space;
  space.write("plain.txt", repeated("a\nb", 30));
  space.write("windows.txt", "\xEF\xBB\xBF" + repeated("a\r\nb", 30));
  ASSERT_EQ(space.run(text_run("plain.txt", "plain")).code, 0);
  ASSERT_EQ(space.run(text_run("windows.txt", "windows")).code, 0);
  EXPECT_EQ(space.hash("windows"), space.hash("plain"));
  EXPECT_EQ(space.log("windows/metrics.jsonl"), space.log("plain/metrics.jsonl"));
  // Prompts are read as files are.
  const Words sample{"sample", "windows", "--max-new-tokens=20", "--temperature=1"};
  const std::string unix_start = space.run(sample + Words{"--start=a\nb"}).out;
  const std::string windows_start = space
                                        .run(sample + Words{"--start=\xEF\xBB\xBF"
                                                            "a\r\nb"})
                                        .out;
  ASSERT_EQ(unix_start.find("a\nb"), 0u);
  EXPECT_EQ(windows_start.substr(windows_start.find('b')), unix_start.substr(2));
}

TEST(TextCases, AnEmptyPromptHasADefinedStartOrAnError) {  // B47
  const Workspace space;
  space.write("text.txt", repeated("ab\n", 30));
  ASSERT_EQ(space.run(text_run("text.txt", "text")).code, 0);
  const Result text = space.run({"sample", "text", "--start=", "--max-new-tokens=3"});
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out.size(), 5u) << text.out;  // a line break, three characters, the end
  EXPECT_EQ(text.out[0], '\n');
  ASSERT_EQ(space.run(cli_test::tiny_run("copy")).code, 0);
  const Result copy = space.run({"sample", "copy", "--start="});
  EXPECT_EQ(copy.code, 1);
  EXPECT_NE(copy.err.find("the prompt is empty"), std::string::npos) << copy.err;
}

TEST(TextCases, AnUnknownCharacterOfAPromptIsNeverATokenOfItsOwn) {  // B47
  const Workspace space;
  space.write("text.txt", repeated("abc", 30));
  ASSERT_EQ(space.run(text_run("text.txt", "text")).code, 0);
  const Result result = space.run({"sample", "text", "--start=abd"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("\"d\" at position 2"), std::string::npos) << result.err;
  EXPECT_EQ(space.run({"sample", "text", "--start=ab\xff"}).code, 1);
}

TEST(TextCases, OneLineOfTenMegabytesIsAText) {  // B47
  const Workspace space;
  space.write("long.txt", repeated("0123456789", 1 << 20));
  const Result result = space.run(text_run("long.txt", "run"));
  EXPECT_EQ(result.code, 0) << result.err;
}

// What a mark does to the first name of a table it does to the first key of a configuration.
TEST(ConfigCases, AByteOrderMarkBeforeAConfigurationIsNoKey) {  // B47
  const Workspace space;
  space.write("marked.toml", "\xEF\xBB\xBFtask = \"copy\"\r\nn_layer = 3\r\n");
  const Result result = space.run({"train", "--config=marked.toml", "--dump-config"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("task = \"copy\"\n"), std::string::npos);
  EXPECT_NE(result.out.find("n_layer = 3\n"), std::string::npos);
}

}  // namespace attune::data_cases_test
