#include <set>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/core/random.h"
#include "attune/core/text.h"
#include "attune/task/task.h"
#include "task/examples.h"
#include "task/text_window.h"

namespace attune::text_test {

using test::TemporaryFile;

std::unique_ptr<Task> text_task(std::string_view bytes, std::int64_t block) {
  const TemporaryFile file(bytes);
  return make_task({.name = "text", .block_size = block, .data = file.path()});
}

std::string refusal(std::string_view bytes, std::int64_t block) {
  return test::message_of<IoError>([&] { static_cast<void>(text_task(bytes, block)); });
}

// A text of n different characters: its tokens are places in it.
std::string places(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += encode_utf8(static_cast<char32_t>(0x4e00 + i));
  return text;
}

TEST(TextWindow, FiveCharactersHaveOneWindowOfFour) {  // B46
  EXPECT_EQ(window_count(5, 4), 1);
  for (std::uint32_t example = 0; example < 20; ++example) {
    RandomCursor cursor(Randomness{3, 0}.stream("test"), example);
    EXPECT_EQ(draw_window(5, 4, cursor), 0);
  }
}

TEST(TextWindow, SixCharactersHaveBothWindowsDrawn) {  // B46
  std::set<std::int64_t> starts;
  for (std::uint32_t example = 0; example < 50; ++example) {
    RandomCursor cursor(Randomness{3, 0}.stream("test"), example);
    starts.insert(draw_window(6, 4, cursor));
  }
  EXPECT_EQ(starts, (std::set<std::int64_t>{0, 1}));
}

TEST(TextWindow, TooFewCharactersHaveNone) {  // B46
  for (const std::int64_t characters : {0, 1, 4}) EXPECT_EQ(window_count(characters, 4), 0);
}

TEST(Text, TargetsAreTheNextCharactersAndSplitsShareNone) {
  // 97 characters: 87 to train, as int(97 * 0.9) in Python, and 10 to validate.
  const std::unique_ptr<Task> task = text_task(places(97), 4);
  EXPECT_EQ(task->vocabulary(), 97);
  std::set<std::int32_t> starts[2];
  for (const Split split : {Split::train, Split::validation})
    for (const test::Example& example : test::draw_many(*task, split, 2000)) {
      starts[static_cast<std::size_t>(split)].insert(example.tokens[0]);
      for (std::int32_t i = 0; i < 4; ++i) {
        ASSERT_EQ(example.tokens[static_cast<std::size_t>(i)], example.tokens[0] + i);
        ASSERT_EQ(example.targets[static_cast<std::size_t>(i)], example.tokens[0] + i + 1);
      }
    }
  // Every start from the first to the last whose successor still lies in the split.
  EXPECT_EQ(*starts[0].begin(), 0);
  EXPECT_EQ(*starts[0].rbegin(), 82);
  EXPECT_EQ(starts[0].size(), 83u);
  EXPECT_EQ(*starts[1].begin(), 87);
  EXPECT_EQ(*starts[1].rbegin(), 92);
  EXPECT_EQ(starts[1].size(), 6u);
}

TEST(Text, TrainingPartIsNinetyPercentRoundedDown) {
  // int(n * 0.9) by Python 3: 50 -> 45, 59 -> 53, 69 -> 62.
  for (const auto& [n, train] : {std::pair{50, 45}, std::pair{59, 53}, std::pair{69, 62}}) {
    const std::unique_ptr<Task> task = text_task(places(n), 1);
    std::int32_t smallest = n;
    for (const test::Example& example : test::draw_many(*task, Split::validation, 300))
      smallest = std::min(smallest, example.tokens[0]);
    EXPECT_EQ(smallest, train) << n;
  }
}

TEST(Text, DataShorterThanAWindowNamesBothNumbers) {  // B46
  const std::string train = refusal("abcde", 4);
  EXPECT_NE(train.find("4 characters for the train split"), std::string::npos) << train;
  EXPECT_NE(train.find("needs 5"), std::string::npos) << train;
  const std::string validation = refusal(places(20), 4);
  EXPECT_NE(validation.find("2 characters for the val split"), std::string::npos) << validation;
  EXPECT_NE(validation.find("needs 5"), std::string::npos) << validation;
  for (const char* bytes : {"", "a"})
    EXPECT_NE(refusal(bytes, 1).find("0 characters for the train split"), std::string::npos);
}

TEST(Text, SmallestTextThatFitsIsTaken) {
  EXPECT_NO_THROW(static_cast<void>(text_task(places(41), 4)));  // 36 and 5
  EXPECT_EQ(refusal(places(40), 4).find("--data"), 0u);          // 36 and 4
}

TEST(Text, ByteOrderMarkIsDroppedAndLineEndsAreOne) {  // B47
  std::string bytes = "\xEF\xBB\xBF";
  for (int i = 0; i < 20; ++i) bytes += "a\r\nb";
  const std::unique_ptr<Task> task = text_task(bytes, 2);
  EXPECT_EQ(task->vocabulary_texts(), (std::vector<std::string>{"\n", "a", "b"}));
  EXPECT_EQ(task->encode("\xEF\xBB\xBF"
                         "a\r\nb"),
            (std::vector<std::int32_t>{1, 0, 2}));
  EXPECT_EQ(task->encode("a\nb"), (std::vector<std::int32_t>{1, 0, 2}));
}

TEST(Text, LoneCarriageReturnAndNulAreCharacters) {  // B47
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += std::string("a\rb\0", 4);
  const std::unique_ptr<Task> task = text_task(bytes, 2);
  EXPECT_EQ(task->vocabulary_texts(),
            (std::vector<std::string>{std::string(1, '\0'), "\r", "a", "b"}));
}

TEST(Text, BytesThatAreNotUtf8AreRefusedWithTheirOffset) {  // B47
  std::string bytes =
      "\xEF\xBB\xBF"
      "ab\r\nc";
  bytes += "\xFF";
  bytes += std::string(100, 'x');
  EXPECT_NE(refusal(bytes, 2).find("not UTF-8 at byte 8"), std::string::npos) << refusal(bytes, 2);
}

TEST(Text, VocabularyIsSortedByCodePoint) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += "z\xC3\xA9 A\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::unique_ptr<Task> task = text_task(bytes, 2);
  EXPECT_EQ(
      task->vocabulary_texts(),
      (std::vector<std::string>{" ", "A", "z", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}));
  const std::string sample = "A\xF0\x9F\x98\x80 z\xE2\x82\xAC";
  EXPECT_EQ(task->decode(task->encode(sample)), sample);
}

TEST(Text, UnknownCharacterIsNamedWithItsPlace) {  // B47
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += "abc";
  const std::unique_ptr<Task> task = text_task(bytes, 2);
  const auto message = [&](const char* prompt) {
    return test::message_of<ValueError>([&] { static_cast<void>(task->encode(prompt)); });
  };
  EXPECT_NE(message("abd").find("unknown \"d\" at position 2"), std::string::npos);
  EXPECT_NE(message("a b").find("unknown \" \" at position 1"), std::string::npos);
  EXPECT_NE(message("\xC3\xA9").find("unknown \"\xC3\xA9\" at position 0"), std::string::npos);
  EXPECT_NE(message("a\xFF").find("not UTF-8 at byte 1"), std::string::npos);
  EXPECT_TRUE(task->encode("").empty());
}

TEST(Text, MissingFileAndDirectoryAreRefused) {
  EXPECT_THROW(static_cast<void>(make_task({.name = "text", .data = "/nowhere/at/all"})), IoError);
  EXPECT_THROW(static_cast<void>(make_task({.name = "text", .data = "/"})), IoError);
  EXPECT_THROW(static_cast<void>(make_task({.name = "text"})), ConfigError);
}

TEST(Text, ChanceIsTheShareOfTheMostFrequentCharacter) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "abacad";
  const std::unique_ptr<Task> task = text_task(bytes, 8);
  EXPECT_DOUBLE_EQ(task->chance(), 0.5);
  EXPECT_FALSE(task->has_answers());
}

}  // namespace attune::text_test
