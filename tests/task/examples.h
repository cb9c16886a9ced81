#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "attune/task/task.h"

// What the tests of tasks share.
namespace attune::test {

struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

inline Example draw(const Task& task, Split split, RandomCursor& cursor) {
  const auto time = static_cast<std::size_t>(task.time());
  Example example{std::vector<std::int32_t>(time), std::vector<std::int32_t>(time)};
  task.draw(split, cursor, example.tokens, example.targets);
  return example;
}

inline std::vector<Example> draw_many(const Task& task, Split split, std::uint32_t count) {
  std::vector<Example> examples;
  for (std::uint32_t i = 0; i < count; ++i) {
    RandomCursor cursor(Randomness{11, 0}.stream("test"), i);
    examples.push_back(draw(task, split, cursor));
  }
  return examples;
}

// The examples of a batch as texts of tokens.
inline std::vector<std::string> rows(const Task& task, const Batch& batch) {
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < batch.examples; ++i)
    result.push_back(task.decode(batch.slice(i, i + 1).tokens));
  return result;
}

// A file that is there as long as the object.
class TemporaryFile final {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("attune-task-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string pangrams(int times) {
  std::string text;
  for (int i = 0; i < times; ++i)
    text +=
        "The quick brown fox jumps over the lazy dog, " + std::to_string(i * 7919) + " times.\n";
  return text;
}

// One option set for every task but text, large enough that both splits have thousands of examples.
inline std::vector<TaskOptions> typical_options() {
  std::vector<TaskOptions> all;
  for (const char* name : {"copy", "reverse", "sort"})
    all.push_back({.name = name, .min_length = 5, .max_length = 11, .symbols = 13});
  all.push_back({.name = "addition", .digits = 3});
  all.push_back({.name = "addition", .digits = 3, .reversed = true});
  for (const char* op : {"add", "sub", "mul", "div"})
    all.push_back({.name = "modular", .modulus = 97, .op = op});
  all.push_back({.name = "parity", .min_length = 11, .max_length = 17});
  all.push_back({.name = "recall", .min_length = 2, .max_length = 7, .symbols = 11});
  all.push_back({.name = "induction", .min_length = 5, .max_length = 9, .symbols = 32});
  all.push_back({.name = "brackets", .min_length = 9, .max_length = 17});
  return all;
}

template <typename ErrorType, typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace attune::test
