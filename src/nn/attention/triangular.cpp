#include "attune/nn/attention/triangular.h"

#include <vector>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/attention/parts.h"

namespace attune {
namespace {

// The padding of nodes [batch, n] for the rows of a pair representation, [batch * n, n].
Mask padding_of_rows(const Mask& nodes, std::int64_t batch, std::int64_t n) {
  nodes.check(batch, 1, n, n);
  std::vector<std::uint8_t> keep;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t k = 0; k < n; ++k) keep.push_back(nodes.keeps(b, 0, n - 1, k, n, n));
  return Mask::key_padding(batch * n, std::move(keep));
}

}  // namespace

TriangularAttention::TriangularAttention(const Scope& scope,
                                         const TriangularAttentionConfig& config,
                                         const InitScheme& init, int layer)
    : config_(config),
      path_(scope.path()),
      layer_(layer),
      norm_(scope / "norm", NormKind::layernorm, config.pair, true),
      query_(scope / "query", config.pair, config.heads * config.head_dim, false, init),
      key_(scope / "key", config.pair, config.heads * config.head_dim, false, init),
      value_(scope / "value", config.pair, config.heads * config.head_dim, false, init),
      closing_(scope / "closing", config.pair, config.heads, false, init),
      gate_(scope / "gate", config.pair, config.heads * config.head_dim, true, init),
      output_(scope / "output", config.heads * config.head_dim, config.pair, true, init,
              Role::residual_projection) {}

// With z'_ji = z_ij the ending node becomes the starting one: k_kj, b_ki and v_kj are k'_jk, b'_ik
// and v'_jk.
Var TriangularAttention::operator()(const Var& z, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Shape& shape = z.shape();
  if (shape.rank() != 4 || shape[1] != shape[2] || shape[3] != config_.pair) {
    throw ShapeError("triangular attention: z " + to_string(shape) + ", expected [batch, n, n, " +
                     std::to_string(config_.pair) + "]");
  }
  if (config_.node == TriangleNode::starting) return around_starting_node(z, pass);
  return transpose(around_starting_node(transpose(z, {0, 2, 1, 3}), pass), {0, 2, 1, 3});
}

// Row i of z is an example of its own, in which edges ij attend to edges ik; all rows of an example
// share the bias [heads, j, k].
Var TriangularAttention::around_starting_node(const Var& z, const Pass& pass) const {
  const std::int64_t batch = z.shape()[0], n = z.shape()[1], heads = config_.heads;
  const Var edges = reshape(norm_(z, pass), {batch * n, n, config_.pair});
  const Var closing = transpose(reshape(closing_(edges, pass), {batch, n, n, heads}), {0, 3, 1, 2});
  const Var bias = broadcast_to(reshape(closing, {batch, 1, heads, n, n}), {batch, n, heads, n, n});

  AttentionOptions options = attention_parts::options_of(pass, heads, layer_);
  const Mask padding = pass.mask ? padding_of_rows(*pass.mask, batch, n) : Mask::none();
  options.mask = &padding;
  const Var mixed = attention(query_(edges, pass), key_(edges, pass), value_(edges, pass),
                              reshape(bias, {batch * n, heads, n, n}), options);
  return reshape(output_(sigmoid(gate_(edges, pass)) * mixed, pass), z.shape());
}

}  // namespace attune
