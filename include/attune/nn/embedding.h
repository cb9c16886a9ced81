#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"

namespace attune {

// A table of vectors. Parameter: weight [rows, model], decays.
class Embedding final {
 public:
  Embedding(const Scope& scope, std::int64_t rows, std::int64_t model, const InitScheme& init);
  // indices of `shape` -> shape + [model]: rows of the table times `scale`, plus `added` where that
  // is not null (see embedding() in ops/select.h). Throws ValueError for an index outside the
  // table.
  [[nodiscard]] Var operator()(std::span<const std::int32_t> indices, const Shape& shape,
                               const Pass& pass, double scale = 1, const Var& added = {}) const;
  [[nodiscard]] const Parameter& weight() const { return weight_; }

 private:
  std::string path_;
  const Parameter& weight_;
};

}  // namespace attune
