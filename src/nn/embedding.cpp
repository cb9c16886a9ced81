#include "attune/nn/embedding.h"

#include "attune/ops/select.h"

namespace attune {

Embedding::Embedding(const Scope& scope, std::int64_t rows, std::int64_t model,
                     const InitScheme& init)
    : path_(scope.path()),
      weight_(scope.parameter("weight", {rows, model}, init(Role::embedding, {rows, model}))) {}

Var Embedding::operator()(std::span<const std::int32_t> indices, const Shape& shape,
                          const Pass& pass, double scale, const Var& added) const {
  const PathGuard guard(pass.tape, path_);
  return embedding(pass(weight_), indices, shape, scale, added);
}

}  // namespace attune
