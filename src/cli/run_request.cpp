#include "cli/run_request.h"

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/train/options.h"

namespace attune::cli {

CommandOption config_option() {
  return {"config",
          {},
          "Configuration",
          "a TOML file of options; repeatable, later ones win, the command line wins over all",
          CommandOption::Takes::value,
          "FILE",
          "",
          true};
}

RunRequest read_run_request(std::string_view command, Words words,
                            std::span<const CommandOption> known) {
  RunRequest request;
  request.arguments = parse_arguments(words, known);
  if (request.arguments.positionals.size() > 1) {
    throw ConfigError(fmt::format("{}: one task was expected, not also '{}'", command,
                                  request.arguments.positionals[1]));
  }
  for (const auto& [name, value] : request.arguments.options) {
    if (name != "config") continue;
    request.config_files.emplace_back(value, read_file(value));
    const std::string task = task_in_toml(request.config_files.back().second, value);
    if (!task.empty()) request.task = task;
  }
  if (!request.arguments.positionals.empty()) request.task = request.arguments.positionals.front();
  return request;
}

void apply(const RunRequest& request, RunConfig& config) {
  for (const auto& [path, toml] : request.config_files) apply_toml(config, toml, path);
  if (!request.task.empty()) config.task.name = request.task;
  for (const auto& [name, value] : request.arguments.options) {
    if (const Option* option = find_option(name)) option->set(config, value);
  }
}

}  // namespace attune::cli
