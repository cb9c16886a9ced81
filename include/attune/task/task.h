#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/core/random.h"
#include "attune/core/target.h"

namespace attune {

enum class Split : std::uint8_t { train, validation };
[[nodiscard]] constexpr std::string_view to_string(Split split) {
  return split == Split::train ? "train" : "val";
}

// Examples side by side. All arrays are [examples, time], row-major.
struct Batch {
  std::int64_t examples = 0;
  std::int64_t time = 0;
  std::vector<std::int32_t> tokens;   // what the model reads
  std::vector<std::int32_t> targets;  // what it should say; kIgnore where nothing is asked

  [[nodiscard]] std::int64_t scored() const;  // targets other than kIgnore
  // Examples [begin, end) as a batch of their own.
  [[nodiscard]] Batch slice(std::int64_t begin, std::int64_t end) const;
};

// What a model can be trained on: a source of examples with a vocabulary. Immutable and usable from
// several threads.
//
// Training and validation never share an example, by construction: an example belongs to validation
// if a hash of it modulo 10 is 0 (of a text: if it lies in the last tenth), and each split draws
// until it meets one of its own.
class Task {
 public:
  virtual ~Task() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  // One line: what is asked.
  [[nodiscard]] virtual std::string_view description() const = 0;
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  // Tokens in one example; every example is padded to it.
  [[nodiscard]] virtual std::int64_t time() const = 0;
  // Token accuracy at scored positions of a model that ignores its input and always says the best
  // single token: between 0 and 1. Where an answer is one token this is the end token, 1/2.
  [[nodiscard]] virtual double chance() const = 0;
  // Whether whole answers can be right or wrong (val_exact); a text has none.
  [[nodiscard]] virtual bool has_answers() const { return true; }

  // Fills one example, tokens and targets of time() each, from the numbers of `cursor`.
  // Throws ConfigError where the space of examples holds none of this split.
  virtual void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> targets) const = 0;

  // Examples of a split where a task can list them all (modular); 0: too many to list.
  [[nodiscard]] virtual std::int64_t count(Split split) const;
  // The listed example `index` in [0, count(split)). Throws UsageError where count is 0.
  virtual void listed(Split split, std::int64_t index, std::span<std::int32_t> tokens,
                      std::span<std::int32_t> targets) const;

  // One token as people read it; "_" stands for padding and for kIgnore.
  // Throws ValueError for a token outside the vocabulary.
  [[nodiscard]] virtual std::string token_text(std::int32_t token) const = 0;
  // A token sequence as people read it: token texts side by side, with spaces between them where
  // some text of the vocabulary is longer than one character.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const;
  // Text to tokens. Throws ValueError naming the unknown character or word and its place.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // All token texts in order, for the checkpoint.
  [[nodiscard]] std::vector<std::string> vocabulary_texts() const;
};

// Batches are a function of (seed, step, example), see core/random.h, so that any part of any batch
// can be drawn anywhere, in any order. Streams (path, step, example):
//   endless training    "task.train", step, index in the whole batch
//   training example n  "task.train-set", 0, n; where the task lists its examples, entry n of a
//                       permutation of the list
//   epoch e             the permutation "task.permutation", e, of the training examples
//   evaluation          "task.evaluation.train" or "task.evaluation.val", 0, batch * examples +
//                       index in the batch
class BatchSource final {
 public:
  // Keeps a reference to `task`.
  // train_size: number of training examples, visited in a new permutation each epoch; 0: endless.
  // They are distinct where the task lists its examples; elsewhere they are independent draws, so a
  // small space may repeat some. Throws ConfigError for a size that is negative, above 2^32 - 1, or
  // above what the task lists.
  BatchSource(const Task& task, std::uint64_t seed, std::int64_t train_size);

  // Examples [first, first + examples) of the training batch of a step; `whole` is the number of
  // examples of that step over all micro-batches. Throws ValueError where they do not lie in [0,
  // whole).
  [[nodiscard]] Batch train(std::int64_t step, std::int64_t first, std::int64_t examples,
                            std::int64_t whole) const;
  // Batch `index` of an evaluation; the same at every evaluation of a run. The training split of a
  // finite training set is a sample, with replacement, of that set.
  [[nodiscard]] Batch evaluation(Split split, std::int64_t index, std::int64_t examples) const;

 private:
  void training_example(std::uint64_t number, std::span<std::int32_t> tokens,
                        std::span<std::int32_t> targets) const;

  const Task& task_;
  std::uint64_t seed_;
  std::int64_t train_size_;
};

// Options of all tasks; each reads what concerns it.
struct TaskOptions {
  // copy, reverse, sort, addition, modular, parity, recall, induction, brackets or text
  std::string name{};
  // Drawn from [min_length, max_length]: symbols in a sequence; recall: pairs; induction: the
  // period; brackets: characters of the given part. A length without examples of a split (they are
  // few where it is short) is replaced in that split by the next longer one that has some.
  std::int64_t min_length = 1;
  std::int64_t max_length = 12;
  // Alphabet of copy, reverse, sort and induction; recall: keys, and as many values.
  std::int64_t symbols = 10;
  std::int64_t digits = 2;       // of each summand
  bool reversed = false;         // addition: answer with the last digit first
  std::int64_t modulus = 97;     // modular: a prime for div
  std::string op = "add";        // modular: add, sub, mul, div
  double val_fraction = 0.1;     // modular: share of all pairs held out
  std::int64_t block_size = 64;  // text: tokens in a window
  std::string data{};            // text: the file
};

// Throws ConfigError for an unknown name, options that make no sense together, or so few examples
// that one split is empty; IoError for a data file that is bad or too short.
[[nodiscard]] std::unique_ptr<Task> make_task(const TaskOptions& options);

struct TaskInfo {
  std::string name;
  std::string description;
};
// Every registered task with its one line, in the order of the documentation.
[[nodiscard]] std::vector<TaskInfo> list_tasks();

}  // namespace attune
