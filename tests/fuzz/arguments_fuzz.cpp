#include <cmath>
#include <vector>

#include "attune/core/text.h"
#include "attune/train/options.h"
#include "cli/arguments.h"
#include "fuzz.h"

namespace attune::fuzz {
namespace {

using cli::Arguments;
using cli::CommandOption;
using Words = std::vector<std::string>;

// One word a line.
Words words_of(std::string_view bytes) {
  Words words;
  while (!bytes.empty()) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(line.size() + 1, bytes.size()));
    words.emplace_back(line.substr(0, line.find('\0')));
  }
  return words;
}

Arguments parse(const Words& words, const std::vector<CommandOption>& known) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return cli::parse_arguments(pointers, known);
}

// The same in the plainest spelling.
Words spelled(const Arguments& arguments) {
  Words words;
  for (const auto& [name, value] : arguments.options) {
    words.push_back(name == "help" ? "--help" : "--" + name + "=" + value);
  }
  words.push_back("--");
  words.insert(words.end(), arguments.positionals.begin(), arguments.positionals.end());
  return words;
}

void apply(const Arguments& arguments) {
  RunConfig config = RunConfig::defaults_for("copy");
  for (const auto& [name, value] : arguments.options) {
    const Option* option = find_option(name);
    require((option == nullptr) == (name == "help"), "only known options are read");
    if (option == nullptr) continue;
    option->set(config, value);
    const std::string text = option->get(config);
    option->set(config, text);
    require(option->get(config) == text, "the text of an option's value reads back");
  }
  static_cast<void>(config.resolved());
}

void read_numbers(const std::string& word) {
  if (const auto value = parse_integer(word)) {
    require(parse_integer(std::to_string(*value)) == value, "a whole number reads back");
  }
  if (const auto value = parse_float(word)) {
    require(std::isfinite(*value) && parse_float(format_float(*value)) == value,
            "a number reads back");
  }
  if (const auto value = parse_duration(word)) {
    require(*value >= 0 && parse_duration(format_float(*value) + "s") == value,
            "a time reads back");
    require(!format_duration(*value).empty(), "a time can be shown");
  }
}

}  // namespace
}  // namespace attune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  static const std::vector<cli::CommandOption> known =
      cli::command_options(option_table(), RunConfig::defaults_for("text"));
  static const std::vector<std::string> names = option_names();
  const fuzz::Words words = fuzz::words_of(fuzz::text_of(data, size));
  for (const std::string& word : words) {
    fuzz::read_numbers(word);
    fuzz::require(nearest(word, names).size() <= 3, "suggestions are few");
  }
  try {
    const cli::Arguments arguments = fuzz::parse(words, known);
    const cli::Arguments again = fuzz::parse(fuzz::spelled(arguments), known);
    fuzz::require(again.options == arguments.options && again.positionals == arguments.positionals,
                  "words mean what they mean in their plainest spelling");
    fuzz::apply(arguments);
  } catch (const ConfigError&) {
  }
  return 0;
}
