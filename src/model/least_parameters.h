#pragma once

#include "attune/model/transformer_config.h"

namespace attune {

// Numbers in the linear maps, the tables of tokens and learned positions, and the head: the bulk of
// a model, and never more than it has. In double, which does not overflow. Of a resolved
// configuration.
[[nodiscard]] double least_parameters(const TransformerConfig& config);

}  // namespace attune
