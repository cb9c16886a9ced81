#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attune/observe/report_run.h"

namespace attune {

using NamedSeries = std::vector<std::pair<std::string, StepSeries>>;

// The norm of the gradient of each layer, sqrt(sum over its parameters of elements * rms^2), where
// the elements are known; else the root of the mean of rms^2 over its parameters. Embeddings first,
// then "layer 0" and on, then the rest under the first part of their names.
[[nodiscard]] NamedSeries gradients_by_layer(const ReportRun& run);

// The median over a layer's parameters of a number of each.
[[nodiscard]] NamedSeries medians_by_layer(const std::map<std::string, StepSeries>& by_parameter);

}  // namespace attune
