#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/task/vocabulary.h"
#include "task/option_checks.h"
#include "task/split.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "induction: random symbols of a random period, repeated; say the next one in the repetition";
constexpr int kTries = 2000;  // as in prompt_task.cpp

// Next-token prediction after Olsson et al. 2022. The period is drawn from --length, anew for every
// example: one fixed period could be learned as a fixed distance. An example has 2 (longest period
// + 1) tokens, so that also the longest is met again (--length 12..23: 48 tokens).
//
// Asked are all tokens of the repetition but its first, of which nothing tells that it starts.
// There is no whole answer: where a symbol occurs twice in a period its successor is a guess until
// the context of two tokens decides.
class InductionTask final : public Task {
 public:
  explicit InductionTask(const TaskOptions& options)
      : min_period_(options.min_length),
        max_period_(options.max_length),
        symbols_(static_cast<std::uint32_t>(options.symbols)),
        vocabulary_(symbol_texts(options.symbols), Vocabulary::Spelling::symbols) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(time()));
    std::vector<std::int32_t> targets(tokens.size());
    for (const Split split : {Split::train, Split::validation}) {
      RandomCursor cursor(Randomness{}.stream("task.split"), 0);
      draw(split, cursor, tokens, targets);  // throws where the split is empty
    }
  }

  [[nodiscard]] std::string_view name() const override { return "induction"; }
  [[nodiscard]] std::string_view description() const override { return kDescription; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_.size(); }
  [[nodiscard]] std::int64_t time() const override { return 2 * (max_period_ + 1); }
  [[nodiscard]] double chance() const override { return 1.0 / symbols_; }
  [[nodiscard]] bool has_answers() const override { return false; }

  // Redraws the symbols, not the period; after too many redraws the period, too.
  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const auto length = static_cast<std::size_t>(time());
    if (tokens.size() != length || targets.size() != length)
      throw ShapeError(
          fmt::format("induction: room for {} tokens and {} targets but an example "
                      "has {}",
                      tokens.size(), targets.size(), length));
    const std::int64_t periods = max_period_ - min_period_ + 1;
    std::int64_t offset = cursor.between(0, periods - 1);
    for (std::int64_t tried = 0; tried < periods; ++tried, offset = (offset + 1) % periods) {
      const auto period = static_cast<std::size_t>(min_period_ + offset);
      for (int tries = 0; tries < kTries; ++tries) {
        for (std::size_t i = 0; i < length; ++i)
          tokens[i] =
              i < period ? static_cast<std::int32_t>(cursor.below(symbols_)) : tokens[i - period];
        if (split_of(tokens) != split) continue;
        for (std::size_t i = 0; i < length; ++i)
          targets[i] = i < period ? kIgnore : tokens[i + 1 - period];
        return;
      }
    }
    throw ConfigError(fmt::format(
        "induction --length {}..{} --symbols {}: too few examples, none is left for the "
        "{} split",
        min_period_, max_period_, symbols_, to_string(split)));
  }

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return vocabulary_.text(token);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    return vocabulary_.decode(tokens);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    return vocabulary_.encode(text);
  }

 private:
  std::int64_t min_period_;
  std::int64_t max_period_;
  std::uint32_t symbols_;
  Vocabulary vocabulary_;
};

std::unique_ptr<Task> make(const TaskOptions& options) {
  check_length(options);
  check_range("--symbols", options.symbols, 2, kMostSymbols);
  return std::make_unique<InductionTask>(options);
}

}  // namespace

TaskEntry induction_task() { return {"induction", kDescription, make}; }

}  // namespace attune
