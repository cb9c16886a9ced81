#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "attune/model/transformer.h"
#include "attune/observe/attention_maps.h"
#include "attune/observe/interventions.h"
#include "attune/train/evaluation.h"

// What `attune attention` tells in tables: each one question to a model.
namespace attune::cli {

struct Table {
  using Cell = std::variant<std::int64_t, double, std::string>;
  std::string name;  // of its JSON field
  std::string title;
  std::vector<std::string> columns;  // words of a field's name
  std::vector<std::vector<Cell>> rows;
};
[[nodiscard]] std::string to_text(const Table& table);
// One object a row, fields named as the columns with underscores.
[[nodiscard]] nlohmann::ordered_json to_json(const Table& table);

// Held-out examples and what they are evaluated with.
struct Heldout {
  const BatchSource& source;
  EvaluationOptions options;
  ThreadPool& pool;
};

// One head a row.
[[nodiscard]] Table entropy_rows(const AttentionPatterns& patterns);
[[nodiscard]] Table rank_table(const AttentionPatterns& patterns);
[[nodiscard]] Table heads_table(const Transformer& model);
// One expert of a mixture a row. Throws ConfigError where there are none.
[[nodiscard]] Table experts_table(const Transformer& model, const Heldout& heldout);
// The loss without each head, without all, and without those of `together`, where there are some.
[[nodiscard]] Table ablation_table(const Transformer& model, const Heldout& heldout, bool by_mean,
                                   std::span<const HeadRef> together);
// One layer a row.
[[nodiscard]] Table lens_table(const Transformer& model, const Heldout& heldout);

// A clean input, a corrupted one of its length, and what is asked of both.
struct PatchRequest {
  std::span<const std::int32_t> clean;
  std::span<const std::int32_t> corrupted;
  LogitMetric metric;
  HookPoint point = HookPoint::residual_pre;  // of patches by position
};
// What a patch of each layer gives back: at the points where blocks add to the stream, by head, or
// position by position (one a row, labelled with its token).
[[nodiscard]] Table patch_by_layer(const Transformer& model, const PatchRequest& request);
[[nodiscard]] Table patch_by_head(const Transformer& model, const PatchRequest& request);
[[nodiscard]] Table patch_by_position(const Transformer& model, const PatchRequest& request,
                                      std::span<const std::string> labels);

}  // namespace attune::cli
