#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/train/options.h"

// Makes options from a field of RunConfig. `field` is a generic lambda, [](auto& config) -> auto& {
// return config.x; }, so that one expression serves for reading and for writing.
namespace attune::option {

struct Words {
  std::string name;
  std::vector<std::string> aliases;
  std::string group;
  std::string help;
  std::string value_name = {};  // empty: the usual one of the kind
};

// The text of a value, or ConfigError "--<name>: ...".
[[nodiscard]] std::int64_t integer_of(std::string_view name, std::string_view text);
[[nodiscard]] double number_of(std::string_view name, std::string_view text);
[[nodiscard]] bool boolean_of(std::string_view name, std::string_view text);
[[nodiscard]] double seconds_of(std::string_view name, std::string_view text);
[[nodiscard]] std::size_t choice_of(std::string_view name, std::string_view text,
                                    std::span<const std::string> choices);
[[nodiscard]] std::string text_of(double number);
[[nodiscard]] std::string text_of(bool boolean);

// How a field that follows another one is written until it is resolved.
inline constexpr std::string_view kAuto = "auto";

[[nodiscard]] Option described(Words words, Option::Kind kind);
void set_choices(Option& option, std::vector<std::string> choices);

template <class Field>
[[nodiscard]] Option integer(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::integer);
  option.set = [field, name = option.name](RunConfig& config, std::string_view text) {
    field(config) = integer_of(name, text);
  };
  option.get = [field](const RunConfig& config) { return std::to_string(field(config)); };
  return option;
}

template <class Field>
[[nodiscard]] Option number(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::number);
  option.set = [field, name = option.name](RunConfig& config, std::string_view text) {
    field(config) = number_of(name, text);
  };
  option.get = [field](const RunConfig& config) { return text_of(field(config)); };
  return option;
}

// An integer or a number of at least 0 that may be "auto", kFollows in the field. A negative value
// is refused here, because the field could not tell it from "auto" any more.
[[nodiscard]] Option with_auto(Option option);

template <class Field>
[[nodiscard]] Option boolean(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::boolean);
  option.set = [field, name = option.name](RunConfig& config, std::string_view text) {
    field(config) = boolean_of(name, text);
  };
  option.get = [field](const RunConfig& config) { return text_of(bool{field(config)}); };
  return option;
}

template <class Field>
[[nodiscard]] Option text(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::text);
  option.set = [field](RunConfig& config, std::string_view text) { field(config) = text; };
  option.get = [field](const RunConfig& config) { return field(config); };
  return option;
}

// A string field with a closed set of values.
template <class Field>
[[nodiscard]] Option choice(Words words, std::vector<std::string> choices, Field field) {
  Option option = described(std::move(words), Option::Kind::choice);
  set_choices(option, std::move(choices));
  option.set = [field, name = option.name, choices = option.choices](RunConfig& config,
                                                                     std::string_view text) {
    field(config) = choices[choice_of(name, text, choices)];
  };
  option.get = [field](const RunConfig& config) { return field(config); };
  return option;
}

// An enumeration whose values are 0, 1, ... in the order of `choices`.
template <class Enumeration, class Field>
[[nodiscard]] Option enumeration(Words words, std::vector<std::string> choices, Field field) {
  Option option = described(std::move(words), Option::Kind::choice);
  set_choices(option, std::move(choices));
  option.set = [field, name = option.name, choices = option.choices](RunConfig& config,
                                                                     std::string_view text) {
    field(config) = static_cast<Enumeration>(choice_of(name, text, choices));
  };
  option.get = [field, choices = option.choices](const RunConfig& config) {
    return choices[static_cast<std::size_t>(field(config))];
  };
  return option;
}

// A part of the model that can be taken out: "on" or "none", also true or false.
template <class Field>
[[nodiscard]] Option ablation(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::choice);
  set_choices(option, {"on", "none"});
  option.set = [field, name = option.name](RunConfig& config, std::string_view text) {
    field(config) = text != "none" && boolean_of(name, text);
  };
  option.get = [field](const RunConfig& config) {
    return std::string(field(config) ? "on" : "none");
  };
  return option;
}

template <class Field>
[[nodiscard]] Option duration(Words words, Field field) {
  Option option = described(std::move(words), Option::Kind::duration);
  option.set = [field, name = option.name](RunConfig& config, std::string_view text) {
    field(config) = seconds_of(name, text);
  };
  option.get = [field](const RunConfig& config) { return text_of(field(config)) + "s"; };
  return option;
}

// Where and how a run happens, not what it computes: not written to config.toml.
[[nodiscard]] Option not_stored(Option option);
[[nodiscard]] Option changeable_on_resume(Option option);
// Without a value the option stands for this one.
[[nodiscard]] Option implying(std::string value, Option option);

// The parts of the table, one for each file that holds one.
[[nodiscard]] std::vector<Option> model_options();
[[nodiscard]] std::vector<Option> attention_options();
[[nodiscard]] std::vector<Option> run_options();

}  // namespace attune::option
