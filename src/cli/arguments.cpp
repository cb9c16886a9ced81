#include "cli/arguments.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <cxxopts.hpp>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune::cli {
namespace {

using Takes = CommandOption::Takes;

// "true", or "true,false" for a command that takes lists; others refuse it as no such value.
bool is_list_of_bools(std::string_view word) {
  const std::string_view first = word.substr(0, word.find(','));
  return parse_bool(first) &&
         (first.size() == word.size() || is_list_of_bools(word.substr(first.size() + 1)));
}

bool is_option(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

// Rewrites words to what cxxopts reads: canonical names, and a value after each option in a word of
// its own.
class Rewriter final {
 public:
  Rewriter(std::span<const char* const> words, std::span<const CommandOption> known)
      : words_(words), known_(known) {}

  std::vector<std::string> rewritten() {
    while (next_ < words_.size()) {
      const std::string_view word = words_[next_++];
      if (word == "--") {
        output_.emplace_back(word);
        while (next_ < words_.size()) output_.emplace_back(words_[next_++]);
      } else if (word == "-h") {
        rewrite_option("--help");
      } else if (word == "-o" && find("out") != nullptr) {
        rewrite_option("--out");
      } else if (is_option(word)) {
        rewrite_option(word);
      } else if (word.size() > 1 && word.starts_with('-')) {
        throw ConfigError(fmt::format("unknown option {}; options start with --", word));
      } else {
        output_.emplace_back(word);
      }
    }
    return std::move(output_);
  }

 private:
  void rewrite_option(std::string_view word) {
    const std::size_t equals = word.find('=');
    const bool has_value = equals != std::string_view::npos;
    const std::string_view given = word.substr(0, equals);
    std::string name(given.substr(2));
    std::ranges::replace(name, '_', '-');

    const CommandOption* option = find(name);
    const bool is_negated = option == nullptr && name.starts_with("no-");
    if (is_negated) option = find(std::string_view(name).substr(3));
    if (option == nullptr || (is_negated && option->takes != Takes::boolean)) fail_unknown(given);
    remember(*option, given);

    std::string value;
    if (has_value) {
      if (is_negated || option->takes == Takes::nothing) {
        throw ConfigError(
            fmt::format("{} takes no value, but '{}' is given", given, word.substr(equals + 1)));
      }
      value = word.substr(equals + 1);
    } else {
      value = is_negated ? "false" : following_value(*option, given);
    }
    output_.push_back("--" + option->name);
    output_.push_back(std::move(value));
  }

  std::string following_value(const CommandOption& option, std::string_view given) {
    const bool at_end = next_ == words_.size();
    if (option.takes == Takes::nothing) return "true";
    if (!option.implied.empty()) return option.implied;
    if (option.takes == Takes::boolean) {
      return !at_end && is_list_of_bools(words_[next_]) ? words_[next_++] : "true";
    }
    if (at_end) throw ConfigError(fmt::format("{} needs a value ({})", given, option.value_name));
    if (is_option(words_[next_])) {
      throw ConfigError(
          fmt::format("{} needs a value ({}), but {} follows; write {}={} if it is meant", given,
                      option.value_name, words_[next_], given, words_[next_]));
    }
    return words_[next_++];
  }

  const CommandOption* find(std::string_view name) const {
    for (const CommandOption& option : known_) {
      if (option.name == name || std::ranges::count(option.aliases, name) > 0) return &option;
    }
    return nullptr;
  }

  [[noreturn]] void fail_unknown(std::string_view given) const {
    std::vector<std::string> names;
    for (const CommandOption& option : known_) {
      names.push_back("--" + option.name);
      for (const std::string& alias : option.aliases) names.push_back("--" + alias);
    }
    std::string spelled(given);
    std::ranges::replace(spelled, '_', '-');
    throw ConfigError(fmt::format("unknown option {}{}", given, did_you_mean(spelled, names)));
  }

  void remember(const CommandOption& option, std::string_view given) {
    const auto [earlier, is_first] = given_.emplace(option.name, given);
    if (is_first || option.repeatable) return;
    throw ConfigError(earlier->second == given
                          ? fmt::format("{} is given twice", given)
                          : fmt::format("{} is given twice, also as {}", given, earlier->second));
  }

  std::span<const char* const> words_;
  std::span<const CommandOption> known_;
  std::size_t next_ = 0;
  std::vector<std::string> output_;
  std::map<std::string, std::string> given_;  // canonical name -> as written
};

CommandOption help_option() {
  return {.name = "help",
          .aliases = {},
          .group = "Other",
          .help = "Show this text.",
          .takes = Takes::nothing,
          .value_name = "",
          .default_value = "",
          .repeatable = true};
}

Takes takes_of(Option::Kind kind) {
  return kind == Option::Kind::boolean ? Takes::boolean : Takes::value;
}

// Help text: option names from column 2, explanations from kTextColumn, nothing beyond kColumns
// unless one word is longer.
constexpr std::size_t kColumns = 100;
constexpr std::size_t kTextColumn = 32;

void append_wrapped(std::string& text, std::string_view words, std::size_t indent,
                    std::size_t column) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(word.size() + 1, words.size()));
    if (column > indent && column + 1 + word.size() > kColumns) {
      text += '\n';
      text.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
  text += '\n';
}

std::string explanation(const CommandOption& option) {
  std::vector<std::string> notes;
  if (!option.default_value.empty()) notes.push_back("default " + option.default_value);
  if (!option.aliases.empty()) {
    notes.push_back(fmt::format("also --{}", fmt::join(option.aliases, ", --")));
  }
  if (notes.empty()) return option.help;
  return fmt::format("{} ({})", option.help, fmt::join(notes, "; "));
}

void append_option(std::string& text, const CommandOption& option) {
  std::string left = "  --" + option.name;
  const bool is_optional = !option.implied.empty();
  if (option.takes == Takes::value) {
    left += is_optional ? "[=" + option.value_name + "]" : " " + option.value_name;
  }
  if (option.takes == Takes::boolean) left += " [true|false]";
  text += left;
  if (left.size() + 2 > kTextColumn) {
    text += '\n';
    text.append(kTextColumn, ' ');
  } else {
    text.append(kTextColumn - left.size(), ' ');
  }
  append_wrapped(text, explanation(option), kTextColumn, kTextColumn);
}

}  // namespace

std::vector<CommandOption> command_options(std::span<const Option> table,
                                           const RunConfig& defaults) {
  std::vector<CommandOption> options;
  for (const Option& option : table) {
    options.push_back({.name = option.name,
                       .aliases = option.aliases,
                       .group = option.group,
                       .help = option.help,
                       .takes = takes_of(option.kind),
                       .value_name = option.value_name,
                       .default_value = option.get(defaults),
                       .repeatable = false,
                       .implied = option.implied});
  }
  return options;
}

const std::string* Arguments::find(std::string_view name) const {
  for (const auto& [option, value] : options) {
    if (option == name) return &value;
  }
  return nullptr;
}

std::optional<std::int64_t> Arguments::integer(std::string_view name, std::int64_t least,
                                               std::int64_t most) const {
  const std::string* text = find(name);
  if (text == nullptr) return std::nullopt;
  const std::optional<std::int64_t> value = parse_integer(*text);
  if (value && *value >= least && *value <= most) return value;
  throw ConfigError(
      fmt::format("--{}: '{}' is not a whole number from {} to {}", name, *text, least, most));
}

Arguments parse_arguments(std::span<const char* const> words,
                          std::span<const CommandOption> known) {
  std::vector<CommandOption> all(known.begin(), known.end());
  all.push_back(help_option());
  const std::vector<std::string> rewritten = Rewriter(words, all).rewritten();

  cxxopts::Options parser("attune");
  for (const CommandOption& option : all) {
    // cxxopts reads each declaration with a regular expression: what was not given needs none.
    if (std::ranges::count(rewritten, "--" + option.name) == 0) continue;
    parser.add_options()(option.name, option.help, cxxopts::value<std::string>());
  }
  std::vector<const char*> argv{"attune"};
  for (const std::string& word : rewritten) argv.push_back(word.c_str());
  try {
    const cxxopts::ParseResult result = parser.parse(static_cast<int>(argv.size()), argv.data());
    Arguments arguments;
    for (const cxxopts::KeyValue& given : result.arguments()) {
      arguments.options.emplace_back(given.key(), given.value());
    }
    arguments.positionals = result.unmatched();
    return arguments;
  } catch (const cxxopts::exceptions::exception& error) {
    throw ConfigError(error.what());
  }
}

std::string render_help(std::string_view usage, std::string_view description,
                        std::span<const CommandOption> options) {
  std::string text = fmt::format("Usage: {}\n\n", usage);
  append_wrapped(text, description, 0, 0);
  std::vector<CommandOption> all(options.begin(), options.end());
  all.push_back(help_option());
  std::vector<std::string> groups;  // in the order of their first option
  for (const CommandOption& option : all) {
    if (std::ranges::count(groups, option.group) == 0) groups.push_back(option.group);
  }
  for (const std::string& group : groups) {
    text += fmt::format("\n{}\n", group);
    for (const CommandOption& option : all) {
      if (option.group == group) append_option(text, option);
    }
  }
  return text;
}

}  // namespace attune::cli
