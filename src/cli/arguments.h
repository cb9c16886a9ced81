#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/train/options.h"

namespace attune::cli {

// An option of one command, as it is read and as the help text shows it.
struct CommandOption {
  enum class Takes { value, boolean, nothing };
  std::string name;                  // "n-layer"
  std::vector<std::string> aliases;  // "layers"
  std::string group;                 // heading in the help text
  std::string help;
  Takes takes = Takes::value;
  std::string value_name{};     // "N"
  std::string default_value{};  // as it would be given; empty: none is shown
  bool repeatable = false;
  std::string implied{};  // the value where none is given with =; empty: one must be
};

// The options of the training table with the defaults of a task.
[[nodiscard]] std::vector<CommandOption> command_options(std::span<const Option> table,
                                                         const RunConfig& defaults);

struct Arguments {
  std::vector<std::pair<std::string, std::string>>
      options;  // canonical name, value; in the order given
  std::vector<std::string> positionals;

  // The value given; null where the option was not given.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  // The same as a whole number; nothing where the option was not given. Throws ConfigError for
  // anything else than one from `least` to `most`.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                                    std::int64_t most) const;
};

// Reads the words after a command's name.
//   --n-layer 4, --n-layer=4, --n_layer=4   the value may start with '-': --lr -1
//   --bias, --bias true, --bias=True, --no-bias, --bias False
//   --profile, --profile=module             where a value is implied, only = gives another one
//   --help, -h                              always known, value "true"
//   --                                      what follows is positional
// Values stay text. Throws ConfigError for an unknown option (with the nearest known ones), a
// missing or superfluous value, and an option given twice that is not repeatable.
[[nodiscard]] Arguments parse_arguments(std::span<const char* const> words,
                                        std::span<const CommandOption> known);

// Usage, description, then the options by group in two columns of 100 characters at most.
[[nodiscard]] std::string render_help(std::string_view usage, std::string_view description,
                                      std::span<const CommandOption> options);

}  // namespace attune::cli
