#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/model/transformer_config.h"
#include "attune/task/task.h"

namespace attune::benchmarks {

// A model and a batch that speed is measured on. No dropout, no biases, tied head, learned
// positions, 65 tokens; every position is scored.
struct Configuration {
  std::string name;
  TransformerConfig model;  // resolved; its block_size is the context
  std::int64_t batch = 0;   // examples a step

  [[nodiscard]] std::int64_t tokens() const { return batch * model.block_size; }
};

// layers/heads/width, context, batch: char 4/4/128, 64, 12; small 2/4/64, 32, 64;
// toy 2/2/32, 16, 32; wide 6/6/384, 256, 8.
[[nodiscard]] std::span<const Configuration> configurations();
// Throws ConfigError for an unknown name.
[[nodiscard]] const Configuration& configuration(std::string_view name);

// Random tokens and targets from a fixed seed.
[[nodiscard]] Batch random_examples(const Configuration& configuration, std::int64_t examples);

}  // namespace attune::benchmarks
