#include "attune/train/options.h"

#include <algorithm>

#include "train/option_builders.h"

namespace attune {

std::span<const Option> option_table() {
  static const std::vector<Option> kTable = [] {
    std::vector<Option> table = option::model_options();
    std::ranges::move(option::attention_options(), std::back_inserter(table));
    std::ranges::move(option::run_options(), std::back_inserter(table));
    return table;
  }();
  return kTable;
}

const Option* find_option(std::string_view name) {
  std::string canonical(name);
  std::ranges::replace(canonical, '_', '-');
  for (const Option& option : option_table()) {
    if (option.name == canonical || std::ranges::count(option.aliases, canonical) > 0) {
      return &option;
    }
  }
  return nullptr;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    names.push_back("--" + option.name);
    for (const std::string& alias : option.aliases) names.push_back("--" + alias);
  }
  return names;
}

std::vector<std::string> changed_options(const RunConfig& saved, const RunConfig& now) {
  std::vector<std::string> names;
  if (saved.task.name != now.task.name) names.emplace_back("task");
  for (const Option& option : option_table()) {
    if (!option.in_config || option.may_change_on_resume) continue;
    if (option.get(saved) != option.get(now)) names.push_back("--" + option.name);
  }
  return names;
}

}  // namespace attune
