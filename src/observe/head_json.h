#pragma once

#include <nlohmann/json_fwd.hpp>

#include "attune/core/attention_statistics.h"

namespace attune {

// Adds what the logs say of one head (data/README.md): entropy, largest weight, row counts. The
// weights of sigmoid and relu are no distribution; names beginning with share say so.
void add_head(nlohmann::ordered_json& line, const HeadStatistics& head);

}  // namespace attune
