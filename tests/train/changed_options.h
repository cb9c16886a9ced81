#pragma once

#include <map>
#include <string>

#include "attune/train/options.h"

// A configuration that differs from the defaults in every option, for the tests of options.
namespace attune {

// A value other than the default of every option, as it is written.
[[nodiscard]] inline std::string other_value(const Option& option, const RunConfig& defaults) {
  static const std::map<std::string, std::string> kSpecial{
      {"length", "3..17"},       {"attn-scale", "0.37"}, {"attn-temperature", "1.7"},
      {"attn-dropout", "0.4"},   {"min-lr", "0.00012"},  {"device", "cpu"},
      {"compile", "false"},      {"decay-lr", "false"},  {"dropout", "0.1"},
      {"checkpoint-at", "0,1,8"}};
  if (const auto found = kSpecial.find(option.name); found != kSpecial.end()) return found->second;
  const std::string value = option.get(defaults);
  switch (option.kind) {
    case Option::Kind::integer:
      return value == "auto" ? "77" : std::to_string(std::stoll(value) + 3);
    case Option::Kind::number:
      return "0.30000000000000004";
    case Option::Kind::boolean:
      return value == "true" ? "false" : "true";
    case Option::Kind::choice:
      return option.choices.back() == value ? option.choices.front() : option.choices.back();
    case Option::Kind::text:
      return "a \"quoted\" \\ word\twith a tab";
    case Option::Kind::duration:
      return "90.5s";
  }
  return "";
}

[[nodiscard]] inline RunConfig everything_changed() {
  RunConfig config = RunConfig::defaults_for("text");
  for (const Option& option : option_table()) {
    // --decay-lr writes what --lr-schedule holds.
    if (option.name != "decay-lr") option.set(config, other_value(option, config));
  }
  return config;
}

}  // namespace attune
