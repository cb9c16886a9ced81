#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/train/run_config.h"

namespace attune {

// One option of `attune train`: the command line, the help text, config.toml and --dump-config are
// all made from this table.
struct Option {
  enum class Kind { integer, number, boolean, choice, text, duration };
  std::string name;                  // "n-layer"
  std::vector<std::string> aliases;  // "layers"
  std::string group;                 // heading in the help text
  std::string help;                  // meaning, unit, what each direction costs: one or two lines
  Kind kind;
  std::string value_name;            // what stands for the value in the help text: "N", "FILE"
  std::vector<std::string> choices;  // of a choice
  std::string implied;               // its value where none is given; empty: one must be
  bool in_config = true;             // false: not written to config.toml (threads, out-dir, resume)
  bool may_change_on_resume = false;
  // Reads a value as it is written on the command line. Throws ConfigError "--n-layer: 'two' is not
  // a whole number". Whether it lies in its domain is checked by RunConfig::resolved().
  std::function<void(RunConfig&, std::string_view)> set;
  std::function<std::string(const RunConfig&)> get;
};
[[nodiscard]] std::span<const Option> option_table();

// By canonical name or alias, with - or _. Null: unknown.
[[nodiscard]] const Option* find_option(std::string_view name);
// All names and aliases with leading dashes, for suggestions.
[[nodiscard]] std::vector<std::string> option_names();

// What a resumed run may not change but `now` does: "task" or options such as "--n-layer".
[[nodiscard]] std::vector<std::string> changed_options(const RunConfig& saved,
                                                       const RunConfig& now);

// What identifies the data file of a run; in config.toml the path is the option `data`, bytes and
// sha256 stand beside it.
struct DataFile {
  std::string path;
  std::int64_t bytes = 0;
  std::string sha256;
};
// config.toml: `task`, then every option with in_config under its name with underscores, in one
// table a group. `data` (null: none) replaces the path in `config`.
[[nodiscard]] std::string to_toml(const RunConfig& config, const DataFile* data);
// Applies a TOML document over `config`, the task's name too; `source` names it in errors. Keys are
// names or aliases of options, with
// - or _, in the table of any group or in none. Only types and words are checked here, domains in
// RunConfig::resolved(). Throws ConfigError naming file, key and what was expected, with line and
// column where TOML itself is malformed.
void apply_toml(RunConfig& config, std::string_view toml, std::string_view source,
                DataFile* data = nullptr);
// The task a TOML document names; empty where it names none.
[[nodiscard]] std::string task_in_toml(std::string_view toml, std::string_view source);

}  // namespace attune
