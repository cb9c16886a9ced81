#include "attune/nn/attention/axial.h"

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "nn/attention/parts.h"

namespace attune {
namespace {

AttentionConfig one_axis(const AxialAttentionConfig& config) {
  AttentionConfig axis;
  axis.model = config.model;
  axis.heads = config.heads;
  axis.head_dim = config.head_dim;
  axis.bias = config.bias;
  axis.mask = Mask::none();
  return axis;
}

}  // namespace

AxialAttention::AxialAttention(const Scope& scope, const AxialAttentionConfig& config,
                               const PositionalEncoding& encoding, const InitScheme& init,
                               int layer)
    : path_(scope.path()),
      encoding_(encoding),
      rows_(scope / "rows", one_axis(config), encoding, init, layer),
      columns_(scope / "columns", one_axis(config), encoding, init, layer + 1) {}

Var AxialAttention::operator()(const Var& x, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  attention_parts::expect_rank("axial attention", "x", x, 4);
  if (pass.mask || pass.cache) {
    throw UsageError("axial attention: the pass has a mask or a cache, expected neither");
  }
  const Var from_row = along_last(rows_, x, pass);
  const Var on_its_side = transpose(x + from_row, {0, 2, 1, 3});  // [batch, columns, rows, model]
  const Var from_column = along_last(columns_, on_its_side, pass);
  return from_row + transpose(from_column, {0, 2, 1, 3});
}

// x: [batch, lines, time, model]: every line is an example of its own.
Var AxialAttention::along_last(const MultiHeadAttention& attention, const Var& x,
                               const Pass& pass) const {
  const Shape shape = x.shape();
  PositionContext context = PositionContext::of(Positions::range(0, shape[2]));
  encoding_.prepare(context, pass);
  const Var lines = reshape(x, {shape[0] * shape[1], shape[2], shape[3]});
  return reshape(attention(lines, context, pass), shape);
}

}  // namespace attune
