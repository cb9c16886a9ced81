#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/model/transformer.h"
#include "attune/observe/distinct_tokens.h"
#include "attune/train/trainer.h"
#include "cli/study.h"

namespace attune::cli {
namespace {

constexpr std::size_t kMostPoints = 4096;
// The size of Shakespeare's alphabet, for models without a text.
constexpr std::int64_t kVocabulary = 65;

bool is_measured(const Option& option, const Study& study) {
  if (!study.only.empty()) return std::ranges::count(study.only, option.name) > 0;
  for (const char* group : {"Data", "Model", "Attention", "Mask"}) {
    if (option.group == group) return true;
  }
  for (const char* name : {"batch-size", "dtype", "seed"}) {
    if (option.name == name) return true;
  }
  if (!study.trains) return false;
  return option.group == "Optimizer" || option.name == "lr" || option.name == "grad-clip" ||
         option.name == "grad-accum" || option.name == "label-smoothing" ||
         option.name == "expert-balance";
}

// The value a study starts from: given, its own default, or none (that of the task).
const std::string* value_of(const std::string& option, const Study& study,
                            const Arguments& arguments) {
  if (const std::string* given = arguments.find(option)) return given;
  for (const auto& [name, value] : study.defaults) {
    if (name == option) return &value;
  }
  return nullptr;
}

std::vector<std::string> values_of(const Option& option, const std::string& text) {
  if (option.name == "data" || option.name == "document-separator") return {text};
  std::vector<std::string> values = split_list(option.name, text);
  if (option.name == "seed" && values.size() > 1)
    throw ConfigError(fmt::format("--seed: '{}' is a list; --seeds N takes N of them", text));
  return values;
}

// What is looked at and not trained needs no text.
bool takes_random_tokens(const Study& study, const RunConfig& config) {
  return !study.trains && config.task.name == "text" && config.task.data.empty();
}

// What decides a task's examples and vocabulary.
std::string task_key(const RunConfig& config) {
  std::string key = config.task.name;
  for (const Option& option : option_table()) {
    if (option.group == "Data" || option.name == "block-size") key += '\n' + option.get(config);
  }
  return key;
}

// Encodings, kinds of attention and initialisations are looked up where a model is made: before
// anything is measured, not after half of it was.
void check_names(TransformerConfig config) {
  config.n_layer = 1;
  (void)Transformer(config, 0);
}

void add_point(Grid& grid, std::map<std::string, const Task*>& tasks, const Study& study,
               RunConfig config, std::vector<std::string> values) {
  config = config.resolved();
  const auto [place, is_new] = tasks.emplace(task_key(config), nullptr);
  if (is_new) {
    grid.tasks.push_back(takes_random_tokens(study, config)
                             ? distinct_tokens(kVocabulary, config.model.block_size)
                             : make_task(config.task));
    place->second = grid.tasks.back().get();
  }
  config.model = model_config(config, *place->second);
  if (study.only.empty()) check_names(config.model);
  grid.points.push_back({std::move(values), std::move(config), place->second});
}

}  // namespace

std::vector<std::string> split_list(std::string_view option, std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, ',')) {
    if (part.empty())
      throw ConfigError(fmt::format("--{}: '{}' has an empty value between commas", option, text));
    parts.emplace_back(part);
  }
  return parts;
}

std::vector<Option> grid_options(const Study& study) {
  std::vector<Option> options;
  for (const Option& option : option_table()) {
    if (!is_measured(option, study)) continue;
    const bool is_own = std::ranges::any_of(
        study.options, [&](const CommandOption& own) { return own.name == option.name; });
    if (!is_own) options.push_back(option);
  }
  return options;
}

Grid make_grid(const Study& study, const std::string& task, const Arguments& arguments) {
  RunConfig base = RunConfig::defaults_for(task);
  Grid grid;
  std::vector<const Option*> options;
  const std::vector<Option> table = grid_options(study);
  std::size_t points = 1;
  for (const Option& option : table) {
    const std::string* text = value_of(option.name, study, arguments);
    if (text == nullptr) continue;
    std::vector<std::string> values = values_of(option, *text);
    if (values.size() == 1) {
      option.set(base, values.front());
      continue;
    }
    points *= values.size();
    if (points > kMostPoints)
      throw ConfigError(
          fmt::format("--{}: the grid has more than {} points", option.name, kMostPoints));
    grid.axes.push_back({option.name, std::move(values)});
    options.push_back(&option);
  }
  std::map<std::string, const Task*> tasks;
  for (std::size_t point = 0; point < points; ++point) {
    RunConfig config = base;
    std::vector<std::string> values;
    std::size_t rest = point, block = points;
    for (std::size_t a = 0; a < grid.axes.size(); ++a) {
      block /= grid.axes[a].values.size();
      values.push_back(grid.axes[a].values[rest / block]);
      rest %= block;
      options[a]->set(config, values.back());
    }
    add_point(grid, tasks, study, std::move(config), std::move(values));
  }
  return grid;
}

namespace {

std::string own_value(const Arguments& arguments, const Study& study, std::string_view name) {
  if (const std::string* given = arguments.find(name)) return *given;
  for (const CommandOption& option : study.options) {
    if (option.name == name) return option.default_value;
  }
  throw InternalError(fmt::format("study {} has no option --{}", study.name, name));
}

double number_in(std::string_view name, const std::string& text, double low, double high) {
  const auto value = parse_float(text);
  if (!value || !(*value >= low && *value <= high))
    throw ConfigError(fmt::format("--{}: '{}' is not a number from {} to {}", name, text,
                                  format_float(low), format_float(high)));
  return *value;
}

}  // namespace

double study_number(const Arguments& arguments, const Study& study, std::string_view name,
                    double low, double high) {
  return number_in(name, own_value(arguments, study, name), low, high);
}

std::int64_t study_count(const Arguments& arguments, const Study& study, std::string_view name,
                         std::int64_t low, std::int64_t high) {
  const std::string text = own_value(arguments, study, name);
  const auto value = parse_integer(text);
  if (!value || *value < low || *value > high)
    throw ConfigError(
        fmt::format("--{}: '{}' is not a whole number from {} to {}", name, text, low, high));
  return *value;
}

std::vector<double> study_numbers(const Arguments& arguments, const Study& study,
                                  std::string_view name, double low, double high) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(name, own_value(arguments, study, name)))
    numbers.push_back(number_in(name, part, low, high));
  return numbers;
}

}  // namespace attune::cli
