#pragma once

#include <string>

#include "attune/train/run_config.h"
#include "attune/train/run_profile.h"

namespace attune {

// Where the time of a run went, for people to read: one line an operation, or one a module, and one
// a phase that is no operation, in parentheses, if it took time; the longest first, their sum last.
// Times are in milliseconds, bytes are those of the outputs, all over the whole run. Empty for
// ProfileTable::off. Where the profile measured values (--profile-values): how large the outputs of
// each were, and the gradient that came back to them, as RunProfile::Row has it.
[[nodiscard]] std::string profile_table(const RunProfile& profile, ProfileTable by);

}  // namespace attune
