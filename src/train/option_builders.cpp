#include "train/option_builders.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune::option {
namespace {

bool is_digits(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string usual_value_name(Option::Kind kind) {
  switch (kind) {
    case Option::Kind::integer:
      return "N";
    case Option::Kind::number:
      return "X";
    case Option::Kind::boolean:
      return "true|false";
    case Option::Kind::duration:
      return "TIME";
    case Option::Kind::choice:
    case Option::Kind::text:
      break;
  }
  return "NAME";
}

}  // namespace

std::int64_t integer_of(std::string_view name, std::string_view text) {
  if (const auto value = parse_integer(text)) return *value;
  throw ConfigError(fmt::format("--{}: '{}' is {}", name, text,
                                is_digits(text) ? "too large" : "not a whole number"));
}

double number_of(std::string_view name, std::string_view text) {
  const auto value = parse_float(text);
  if (value && std::isfinite(*value)) return *value;
  throw ConfigError(fmt::format("--{}: '{}' is not a finite number", name, text));
}

bool boolean_of(std::string_view name, std::string_view text) {
  if (const auto value = parse_bool(text)) return *value;
  throw ConfigError(fmt::format("--{}: '{}' is neither true nor false", name, text));
}

double seconds_of(std::string_view name, std::string_view text) {
  if (const auto value = parse_duration(text)) return *value;
  throw ConfigError(fmt::format("--{}: '{}' is not a time such as 90s, 3m or 1.5h", name, text));
}

std::size_t choice_of(std::string_view name, std::string_view text,
                      std::span<const std::string> choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  throw ConfigError(fmt::format("--{}: '{}' is not one of {}{}", name, text,
                                fmt::join(choices, ", "), did_you_mean(text, choices)));
}

std::string text_of(double number) { return format_float(number); }
std::string text_of(bool boolean) { return boolean ? "true" : "false"; }

Option described(Words words, Option::Kind kind) {
  Option option;
  option.name = std::move(words.name);
  option.aliases = std::move(words.aliases);
  option.group = std::move(words.group);
  option.help = std::move(words.help);
  option.kind = kind;
  option.value_name =
      words.value_name.empty() ? usual_value_name(kind) : std::move(words.value_name);
  return option;
}

void set_choices(Option& option, std::vector<std::string> choices) {
  option.value_name = fmt::format("{}", fmt::join(choices, "|"));
  option.choices = std::move(choices);
}

Option with_auto(Option option) {
  option.set = [set = option.set, name = option.name](RunConfig& config, std::string_view text) {
    if (text == kAuto) {
      set(config, "-1");
      return;
    }
    if (const auto value = parse_float(text); value && *value < 0) {
      throw ConfigError(fmt::format("--{}: {} is below 0", name, text));
    }
    set(config, text);
  };
  option.get = [get = option.get](const RunConfig& config) {
    std::string text = get(config);
    return text == "-1" ? std::string(kAuto) : text;
  };
  return option;
}

Option not_stored(Option option) {
  option.in_config = false;
  return option;
}

Option changeable_on_resume(Option option) {
  option.may_change_on_resume = true;
  return option;
}

Option implying(std::string value, Option option) {
  option.implied = std::move(value);
  return option;
}

}  // namespace attune::option
