#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/examples.h"
#include "task/split.h"

namespace attune::prompt_tasks_test {

using test::draw_many;
using test::Example;

// Compares tokens and targets, as texts, with what an answer computed on the text of the prompt
// makes of them. For vocabularies of single characters.
void expect_answers(const TaskOptions& options,
                    const std::function<std::string(const std::string&)>& answer) {
  const std::unique_ptr<Task> task = make_task(options);
  for (const Split split : {Split::train, Split::validation})
    for (const Example& example : draw_many(*task, split, 400)) {
      const std::string text = task->decode(example.tokens);
      const std::string prompt = text.substr(0, text.find('='));
      const std::string said = answer(prompt) + ".";
      const std::size_t padding =
          static_cast<std::size_t>(task->time()) - prompt.size() - said.size();
      const std::string blank(padding, '_');
      ASSERT_EQ(text, prompt + "=" + said.substr(0, said.size() - 1) + blank);
      ASSERT_EQ(task->decode(example.targets), std::string(prompt.size(), '_') + said + blank);
      for (std::size_t i = 0; i < example.targets.size(); ++i)
        ASSERT_EQ(example.targets[i] == kIgnore, task->decode(example.targets)[i] == '_');
    }
}

TEST(Copy, AnswerIsThePrompt) {
  expect_answers({.name = "copy", .min_length = 1, .max_length = 12},
                 [](const std::string& prompt) { return prompt; });
}

TEST(Reverse, AnswerIsThePromptFromItsEnd) {
  expect_answers({.name = "reverse", .min_length = 2, .max_length = 7, .symbols = 17},
                 [](const std::string& p) { return std::string(p.rbegin(), p.rend()); });
}

TEST(Sort, AnswerIsSortedWithRepeats) {
  expect_answers({.name = "sort", .min_length = 2, .max_length = 9, .symbols = 5},
                 [](std::string prompt) {
                   std::sort(prompt.begin(), prompt.end());
                   return prompt;
                 });
}

// Sum by the machine's integers, written with leading zeros to one digit more than the summands.
std::string sum_text(const std::string& prompt, std::size_t digits) {
  const long sum = std::stol(prompt.substr(0, digits)) + std::stol(prompt.substr(digits + 1));
  const std::string text = std::to_string(sum);
  return std::string(digits + 1 - text.size(), '0') + text;
}

TEST(Addition, AnswerIsTheSum) {
  for (const std::int64_t digits : {1, 2, 5})
    expect_answers({.name = "addition", .digits = digits}, [&](const std::string& prompt) {
      EXPECT_EQ(prompt.size(), 2 * digits + 1);
      return sum_text(prompt, static_cast<std::size_t>(digits));
    });
}

TEST(Addition, ReversedAnswerStartsWithTheLastDigit) {
  expect_answers({.name = "addition", .digits = 3, .reversed = true},
                 [](const std::string& prompt) {
                   const std::string sum = sum_text(prompt, 3);
                   return std::string(sum.rbegin(), sum.rend());
                 });
}

TEST(Parity, AnswerIsOneForAnOddNumberOfOnes) {
  expect_answers({.name = "parity", .min_length = 3, .max_length = 12}, [](const std::string& p) {
    return std::to_string(std::count(p.begin(), p.end(), '1') % 2);
  });
}

TEST(Recall, AnswerIsThePairsInTheOrderOfTheirKeys) {
  expect_answers({.name = "recall", .min_length = 1, .max_length = 7, .symbols = 7},
                 [](const std::string& prompt) {
                   std::map<char, char> values;
                   for (std::size_t i = 0; i + 1 < prompt.size(); i += 2) {
                     EXPECT_TRUE(values.emplace(prompt[i], prompt[i + 1]).second) << prompt;
                     EXPECT_TRUE(prompt[i] >= 'a' && prompt[i] <= 'g') << prompt;
                   }
                   std::string answer;
                   for (const auto& [key, value] : values) answer += {key, value};
                   return answer;
                 });
}

// Rewriting: a well-formed sequence loses adjacent pairs until nothing is left.
bool well_formed(std::string text) {
  for (std::size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    for (const char* pair : {"()", "[]"})
      for (std::size_t at; (at = text.find(pair)) != std::string::npos;) text.erase(at, 2);
  }
  return text.empty();
}

TEST(Brackets, AnswerClosesThePromptAndNothingElse) {
  const std::unique_ptr<Task> task =
      make_task({.name = "brackets", .min_length = 3, .max_length = 14});
  std::set<std::size_t> answer_sizes;
  for (const Split split : {Split::train, Split::validation})
    for (const Example& example : draw_many(*task, split, 500)) {
      const std::string text = task->decode(example.tokens);
      const std::string targets = task->decode(example.targets);
      const std::size_t separator = text.find('=');
      const std::string prompt = text.substr(0, separator);
      const std::string answer = targets.substr(separator, targets.find('.') - separator);
      ASSERT_TRUE(well_formed(prompt + answer)) << prompt << " " << answer;
      ASSERT_EQ(answer.find_first_of("(["), std::string::npos);
      ASSERT_EQ(text.substr(separator + 1, answer.size()), answer);
      answer_sizes.insert(answer.size());
    }
  EXPECT_TRUE(answer_sizes.contains(0));
  EXPECT_GE(answer_sizes.size(), 8u);
}

TEST(PromptTask, EveryLengthIsEquallyFrequentInBothSplits) {
  const std::unique_ptr<Task> task = make_task({.name = "copy", .min_length = 3, .max_length = 12});
  for (const Split split : {Split::train, Split::validation}) {
    std::map<std::size_t, int> counts;
    for (const Example& example : draw_many(*task, split, 10000))
      ++counts[task->decode(example.tokens).find('=')];
    ASSERT_EQ(counts.size(), 10u);
    for (const auto& [length, count] : counts) EXPECT_NEAR(count, 1000, 150) << length;
  }
}

// Which splits a small space has is found by listing all of it.
TEST(PromptTask, SmallSpacesEitherHaveBothSplitsOrAreRefused) {  // B46
  int refused = 0;
  int made = 0;
  for (std::int32_t symbols = 1; symbols <= 4; ++symbols)
    for (std::int64_t length = 1; length <= 4; ++length) {
      std::set<Split> splits;
      std::vector<std::int32_t> prompt(static_cast<std::size_t>(length), 0);
      for (bool more = true; more;) {
        splits.insert(split_of(prompt));
        std::size_t place = 0;
        while (place < prompt.size() && ++prompt[place] == symbols) prompt[place++] = 0;
        more = place < prompt.size();
      }
      const TaskOptions options{
          .name = "copy", .min_length = length, .max_length = length, .symbols = symbols};
      if (splits.size() == 2) {
        const std::unique_ptr<Task> task = make_task(options);
        std::set<std::string> train;
        for (const Example& example : draw_many(*task, Split::train, 300))
          train.insert(task->decode(example.tokens));
        for (const Example& example : draw_many(*task, Split::validation, 50))
          EXPECT_FALSE(train.contains(task->decode(example.tokens)));
        ++made;
      } else {
        EXPECT_THROW(static_cast<void>(make_task(options)), ConfigError)
            << symbols << " " << length;
        ++refused;
      }
    }
  EXPECT_GE(made, 3);
  EXPECT_GE(refused, 3);
}

TEST(PromptTask, EmptySplitIsNamedWithTheOptions) {
  const std::string message = test::message_of<ConfigError>([] {
    static_cast<void>(
        make_task({.name = "reverse", .min_length = 1, .max_length = 1, .symbols = 1}));
  });
  EXPECT_EQ(message.find("reverse --length 1..1 --symbols 1: too few examples"), 0u) << message;
  EXPECT_NE(message.find("split"), std::string::npos) << message;
}

TEST(PromptTask, LengthWithoutValidationExamplesIsReplacedByTheNextLonger) {
  // One symbol: one example a length, so that validation has those lengths whose hash says so.
  const std::unique_ptr<Task> task =
      make_task({.name = "copy", .min_length = 1, .max_length = 40, .symbols = 1});
  std::set<std::size_t> lengths[2];
  for (const Split split : {Split::train, Split::validation})
    for (const Example& example : draw_many(*task, split, 1000))
      lengths[static_cast<std::size_t>(split)].insert(task->decode(example.tokens).find('='));
  for (std::size_t length = 1; length <= 40; ++length) {
    const bool held_out = split_of(std::vector<std::int32_t>(length, 0)) == Split::validation;
    EXPECT_EQ(lengths[0].contains(length), !held_out) << length;
    EXPECT_EQ(lengths[1].contains(length), held_out) << length;
  }
}

TEST(SplitOf, HoldsOutATenthWhateverTheParity) {
  constexpr std::uint32_t kAll = 1 << 16;
  int held_out = 0;
  int odd = 0;
  for (std::uint32_t bits = 0; bits < kAll; ++bits) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 16; ++i) tokens.push_back(static_cast<std::int32_t>(bits >> i & 1));
    if (split_of(tokens) != Split::validation) continue;
    ++held_out;
    odd += __builtin_parity(bits);
  }
  EXPECT_NEAR(held_out, 6553.6, 5 * 77);  // five binomial standard deviations
  EXPECT_NEAR(odd, held_out / 2.0, 5 * 40);
}

}  // namespace attune::prompt_tasks_test
