#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "task/option_checks.h"
#include "task/prompt_format.h"
#include "task/split.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "arithmetic modulo a number, one token a number: 12 - 60 = 49 . (modulo 97)";

struct Operation {
  std::string_view name;
  std::string_view text;
  bool commutative;
};
constexpr std::array<Operation, 4> kOperations{
    {{"add", "+", true}, {"sub", "-", false}, {"mul", "*", true}, {"div", "/", false}}};

const Operation& find_operation(const std::string& name) {
  std::vector<std::string> names;
  for (const Operation& operation : kOperations) {
    if (operation.name == name) return operation;
    names.emplace_back(operation.name);
  }
  throw ConfigError(fmt::format("--op: \"{}\", expected {}{}", name, fmt::join(names, ", "),
                                did_you_mean(name, names)));
}

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n >= 2;
}

using Pair = std::array<std::int32_t, 2>;

// Every pair of operands is listed and belongs to validation if its hash, as a fraction of all
// hashes, is below --val-fraction: the same pairs for every seed.
class ModularTask final : public Task {
 public:
  ModularTask(const TaskOptions& options, const Operation& operation)
      : modulus_(static_cast<std::int32_t>(options.modulus)),
        operation_(operation),
        format_(texts(modulus_, operation), 3, 1) {
    // c / b = c * inverse(b): found once for every b by filling the table of products.
    const bool division = operation.name == "div";
    if (division) fill_quotients();
    for (std::int32_t a = 0; a < modulus_; ++a)
      for (std::int32_t b = division ? 1 : 0; b < modulus_; ++b)
        pairs_[held_out({a, b}, options.val_fraction) ? 1 : 0].push_back({a, b});
    for (const Split split : {Split::train, Split::validation})
      if (pairs(split).empty())
        throw ConfigError(fmt::format(
            "modular --op {} --modulus {} --val-fraction {}: none of the pairs is left "
            "for the {} split",
            operation.name, modulus_, format_float(options.val_fraction), to_string(split)));
  }

  [[nodiscard]] std::string_view name() const override { return "modular"; }
  [[nodiscard]] std::string_view description() const override { return kDescription; }
  [[nodiscard]] std::int64_t vocabulary() const override { return format_.vocabulary().size(); }
  [[nodiscard]] std::int64_t time() const override {
    return static_cast<std::int64_t>(format_.time());
  }
  [[nodiscard]] double chance() const override { return 0.5; }  // the end token

  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    listed(split, cursor.below(static_cast<std::uint32_t>(pairs(split).size())), tokens, targets);
  }

  [[nodiscard]] std::int64_t count(Split split) const override {
    return static_cast<std::int64_t>(pairs(split).size());
  }

  void listed(Split split, std::int64_t index, std::span<std::int32_t> tokens,
              std::span<std::int32_t> targets) const override {
    format_.check("modular", tokens, targets);
    if (index < 0 || index >= count(split))
      throw ValueError(fmt::format("modular: example {} of {}", index, count(split)));
    const auto [a, b] = pairs(split)[static_cast<std::size_t>(index)];
    const auto prompt = format_.prompt(tokens);
    prompt[0] = a;
    prompt[1] = modulus_;  // the token after the numbers is the operation
    prompt[2] = b;
    format_.answer(tokens, prompt.size())[0] = result(a, b);
    format_.finish(prompt.size(), 1, tokens, targets);
  }

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return format_.vocabulary().text(token);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    return format_.vocabulary().decode(tokens);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    return format_.vocabulary().encode(text);
  }

 private:
  static std::vector<std::string> texts(std::int32_t modulus, const Operation& operation) {
    std::vector<std::string> result;
    for (std::int32_t i = 0; i < modulus; ++i) result.push_back(std::to_string(i));
    result.emplace_back(operation.text);
    return result;
  }

  [[nodiscard]] const std::vector<Pair>& pairs(Split split) const {
    return pairs_[static_cast<std::size_t>(split)];
  }

  [[nodiscard]] bool held_out(Pair pair, double fraction) const {
    if (operation_.commutative) std::ranges::sort(pair);
    return static_cast<double>(example_hash(pair) >> 11) * 0x1p-53 < fraction;
  }

  void fill_quotients() {
    inverses_.assign(static_cast<std::size_t>(modulus_), 0);
    for (std::int32_t b = 1; b < modulus_; ++b)
      for (std::int32_t c = 1; c < modulus_; ++c)
        if (b * c % modulus_ == 1) inverses_[static_cast<std::size_t>(b)] = c;
  }

  [[nodiscard]] std::int32_t result(std::int32_t a, std::int32_t b) const {
    if (operation_.name == "add") return (a + b) % modulus_;
    if (operation_.name == "sub") return (a - b + modulus_) % modulus_;
    if (operation_.name == "mul") return a * b % modulus_;
    return a * inverses_[static_cast<std::size_t>(b)] % modulus_;
  }

  std::int32_t modulus_;
  Operation operation_;
  PromptFormat format_;
  std::vector<std::int32_t> inverses_;      // of b, for div
  std::array<std::vector<Pair>, 2> pairs_;  // by split
};

std::unique_ptr<Task> make(const TaskOptions& options) {
  const Operation& operation = find_operation(options.op);
  check_range("--modulus", options.modulus, 2, 1024);
  if (operation.name == "div" && !is_prime(options.modulus))
    throw ConfigError(
        fmt::format("--modulus: {} is not prime, which --op div needs", options.modulus));
  if (!(options.val_fraction > 0 && options.val_fraction < 1))
    throw ConfigError(fmt::format("--val-fraction: {} is not between 0 and 1",
                                  format_float(options.val_fraction)));
  return std::make_unique<ModularTask>(options, operation);
}

}  // namespace

TaskEntry modular_task() { return {"modular", kDescription, make}; }

}  // namespace attune
