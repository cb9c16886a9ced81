#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attune/train/run_config.h"
#include "cli/arguments.h"
#include "cli/command.h"

namespace attune::cli {

// What the words of a command ask of a run, before defaults: a task, options, files of options.
struct RunRequest {
  Arguments arguments;
  std::vector<std::pair<std::string, std::string>> config_files;  // path, contents
  std::string task;  // the last one that is named; empty: none is
};

// --config FILE, repeatable.
[[nodiscard]] CommandOption config_option();
// Reads the words after `command` and the files they name. Throws ConfigError as parse_arguments()
// does, and for more than one task; IoError for a file that cannot be read.
[[nodiscard]] RunRequest read_run_request(std::string_view command, Words words,
                                          std::span<const CommandOption> known);
// Files in their order, then the command line, which wins over all.
void apply(const RunRequest& request, RunConfig& config);

}  // namespace attune::cli
