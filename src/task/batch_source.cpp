#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/permutation.h"

namespace attune {
namespace {

constexpr std::int64_t kMostExamples = 0xffffffff;  // an example is a 32-bit coordinate

Batch empty_batch(std::int64_t examples, std::int64_t time) {
  const auto size = static_cast<std::size_t>(examples * time);
  return {examples, time, std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
}

std::span<std::int32_t> row(std::vector<std::int32_t>& values, std::int64_t example,
                            std::int64_t time) {
  return std::span(values).subspan(static_cast<std::size_t>(example * time),
                                   static_cast<std::size_t>(time));
}

}  // namespace

BatchSource::BatchSource(const Task& task, std::uint64_t seed, std::int64_t train_size)
    : task_(task), seed_(seed), train_size_(train_size) {
  const std::int64_t listed = task.count(Split::train);
  const std::int64_t most = listed > 0 ? listed : kMostExamples;
  if (train_size < 0 || train_size > most)
    throw ConfigError(fmt::format("--train-size: {} is not between 0 and {}{}", train_size, most,
                                  listed > 0 ? ", all there are for training" : ""));
}

Batch BatchSource::train(std::int64_t step, std::int64_t first, std::int64_t examples,
                         std::int64_t whole) const {
  if (step < 0 || step > kMostExamples || first < 0 || examples < 0 || whole > kMostExamples ||
      first > whole - examples)
    throw ValueError(fmt::format("train: step {}, examples [{}, {}) of {}", step, first,
                                 first + examples, whole));
  Batch batch = empty_batch(examples, task_.time());
  if (train_size_ == 0) {
    const RandomStream stream =
        Randomness{seed_, static_cast<std::uint32_t>(step)}.stream("task.train");
    for (std::int64_t i = 0; i < examples; ++i) {
      RandomCursor cursor(stream, static_cast<std::uint32_t>(first + i));
      task_.draw(Split::train, cursor, row(batch.tokens, i, batch.time),
                 row(batch.targets, i, batch.time));
    }
    return batch;
  }
  const auto permutation_of = [this](std::int64_t epoch) {
    return Permutation(
        Randomness{seed_, static_cast<std::uint32_t>(epoch)}.stream("task.permutation"),
        static_cast<std::uint64_t>(train_size_));
  };
  std::int64_t epoch = (step * whole + first) / train_size_;
  Permutation permutation = permutation_of(epoch);
  for (std::int64_t i = 0; i < examples; ++i) {
    const std::int64_t position = step * whole + first + i;
    if (position / train_size_ != epoch) permutation = permutation_of(++epoch);
    training_example(permutation(static_cast<std::uint64_t>(position % train_size_)),
                     row(batch.tokens, i, batch.time), row(batch.targets, i, batch.time));
  }
  return batch;
}

Batch BatchSource::evaluation(Split split, std::int64_t index, std::int64_t examples) const {
  if (index < 0 || examples < 0 || (examples > 0 && index > kMostExamples / examples - 1))
    throw ValueError(fmt::format("evaluation: batch {} of {} examples", index, examples));
  const RandomStream stream = Randomness{seed_, 0}.stream(
      split == Split::train ? "task.evaluation.train" : "task.evaluation.val");
  Batch batch = empty_batch(examples, task_.time());
  for (std::int64_t i = 0; i < examples; ++i) {
    RandomCursor cursor(stream, static_cast<std::uint32_t>(index * examples + i));
    const auto tokens = row(batch.tokens, i, batch.time);
    const auto targets = row(batch.targets, i, batch.time);
    if (split == Split::train && train_size_ > 0)
      training_example(cursor.below(static_cast<std::uint32_t>(train_size_)), tokens, targets);
    else
      task_.draw(split, cursor, tokens, targets);
  }
  return batch;
}

void BatchSource::training_example(std::uint64_t number, std::span<std::int32_t> tokens,
                                   std::span<std::int32_t> targets) const {
  const RandomStream stream = Randomness{seed_, 0}.stream("task.train-set");
  const std::int64_t listed = task_.count(Split::train);
  if (listed > 0) {
    const Permutation order(stream, static_cast<std::uint64_t>(listed));
    task_.listed(Split::train, static_cast<std::int64_t>(order(number)), tokens, targets);
    return;
  }
  RandomCursor cursor(stream, static_cast<std::uint32_t>(number));
  task_.draw(Split::train, cursor, tokens, targets);
}

}  // namespace attune
