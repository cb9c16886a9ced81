#include "attune/task/vocabulary.h"

#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/examples.h"

namespace attune::vocabulary_test {

using Tokens = std::vector<std::int32_t>;

TEST(Vocabulary, SingleCharacterSymbolsAreGluedOrSpaced) {
  const Vocabulary vocabulary({"0", "1", "2", "=", ".", "_"}, Vocabulary::Spelling::symbols);
  EXPECT_EQ(vocabulary.encode("12=2"), (Tokens{1, 2, 3, 2}));
  EXPECT_EQ(vocabulary.encode(" 1 2\t=\n2 "), (Tokens{1, 2, 3, 2}));
  EXPECT_EQ(vocabulary.decode(Tokens{1, 2, 3, 2}), "12=2");
}

TEST(Vocabulary, LongerSymbolsAreWords) {
  const Vocabulary vocabulary({"0", "1", "12", "+", "="}, Vocabulary::Spelling::symbols);
  EXPECT_EQ(vocabulary.encode("12+1 ="), (Tokens{2, 3, 1, 4}));
  EXPECT_EQ(vocabulary.encode("1 12"), (Tokens{1, 2}));
  EXPECT_EQ(vocabulary.decode(Tokens{2, 3, 1, 4}), "12 + 1 =");
  const std::string message =
      test::message_of<ValueError>([&] { static_cast<void>(vocabulary.encode("12 + 112 =")); });
  EXPECT_NE(message.find("unknown \"112\" at position 5"), std::string::npos) << message;
}

TEST(Vocabulary, ErrorsAreOneLine) {
  const Vocabulary vocabulary({"\n", "a"}, Vocabulary::Spelling::text);
  const std::string message =
      test::message_of<ValueError>([&] { static_cast<void>(vocabulary.encode("a\x01")); });
  EXPECT_NE(message.find("unknown \"\\x01\" at position 1"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(Vocabulary, AnEmptyOneKnowsNothing) {
  const Vocabulary vocabulary({}, Vocabulary::Spelling::text);
  EXPECT_EQ(vocabulary.encode(""), Tokens{});
  EXPECT_EQ(test::message_of<ValueError>([&] { static_cast<void>(vocabulary.encode("a")); }),
            "prompt: unknown \"a\" at position 0; expected nothing, the vocabulary is empty");
}

TEST(Vocabulary, TokensOutsideAreRefusedAndIgnoredTargetsShown) {
  const Vocabulary vocabulary({"a", "b"}, Vocabulary::Spelling::symbols);
  EXPECT_EQ(vocabulary.text(kIgnore), "_");
  EXPECT_THROW(static_cast<void>(vocabulary.text(2)), ValueError);
  EXPECT_THROW(static_cast<void>(vocabulary.text(-1)), ValueError);
}

TEST(Vocabulary, RepeatedEmptyAndMalformedTextsAreRefused) {
  const auto make = [](std::vector<std::string> texts) {
    const Vocabulary vocabulary(std::move(texts), Vocabulary::Spelling::text);
  };
  EXPECT_THROW(make({"a", "a"}), ValueError);
  EXPECT_THROW(make({"a", ""}), ValueError);
  EXPECT_THROW(make({"\xFF"}), ValueError);
}

TEST(Vocabulary, EveryTaskReadsWhatItWrites) {  // B47
  std::vector<TaskOptions> all = test::typical_options();
  all.push_back({.name = "copy", .min_length = 3, .max_length = 9, .symbols = 100});
  all.push_back({.name = "recall", .min_length = 3, .max_length = 9, .symbols = 30});
  const test::TemporaryFile file(test::pangrams(60));
  all.push_back({.name = "text", .block_size = 31, .data = file.path()});
  for (const TaskOptions& options : all) {
    const std::unique_ptr<Task> task = make_task(options);
    EXPECT_EQ(task->vocabulary_texts().size(), static_cast<std::size_t>(task->vocabulary()));
    for (const test::Example& example : test::draw_many(*task, Split::train, 50)) {
      ASSERT_EQ(task->encode(task->decode(example.tokens)), example.tokens) << options.name;
      ASSERT_EQ(task->Task::decode(example.tokens).size(), task->decode(example.tokens).size());
    }
  }
}

}  // namespace attune::vocabulary_test
