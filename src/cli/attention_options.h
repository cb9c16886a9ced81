#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attune/nn/hooks.h"
#include "attune/observe/heat_text.h"
#include "attune/observe/interventions.h"
#include "cli/arguments.h"

// The words of `attune attention`. Readers throw ConfigError naming the option.
namespace attune::cli {

[[nodiscard]] const std::vector<CommandOption>& attention_options();

// The first of the choices where the option was not given.
[[nodiscard]] std::string choice_option(const Arguments& arguments, const char* name,
                                        const std::vector<std::string>& choices);
// --together; none where it was not given.
[[nodiscard]] std::vector<HeadRef> heads_option(const Arguments& arguments,
                                                const Transformer& model);
// --shades; auto looks at standard output.
[[nodiscard]] Shades shades_option(const Arguments& arguments);
// --patch-at
[[nodiscard]] HookPoint point_option(const Arguments& arguments);

}  // namespace attune::cli
