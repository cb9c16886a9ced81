#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/linear.h"
#include "attune/nn/norm.h"

namespace attune {

// Which edges an edge ij of a graph looks at, and which edge closes the triangle.
enum class TriangleNode : std::uint8_t {
  starting,  // the edges ik that start where it does; jk closes
  ending,    // the edges kj that end where it does; ki closes
};

struct TriangularAttentionConfig {
  std::int64_t pair = 128;  // width of an edge
  std::int64_t heads = 4;
  std::int64_t head_dim = 32;
  TriangleNode node = TriangleNode::starting;
};

// Triangular self-attention over a pair representation (AlphaFold 2, Jumper et al. 2021,
// supplementary algorithms 13 and 14). An edge looks at the edges of one of its nodes, and the
// third edge of each triangle enters as a bias. Around the starting node, with z normalised:
//   a_ijk = softmax_k(q_ij . k_ik / sqrt(head_dim) + b_jk)
//   y_ij  = output(sigmoid(gate(z_ij)) * sum_k a_ijk v_ik)
// Around the ending node k_kj, b_ki and v_kj take their places. For n nodes n^3 scores a head.
// Parameters: norm.gain, norm.shift [pair]; query, key, value .weight [heads * head_dim, pair];
// closing.weight [heads, pair], the bias b; gate.weight [heads * head_dim, pair] and gate.bias;
// output.weight [pair, heads * head_dim] and output.bias. A pass's mask is padding of the nodes,
// [batch, n].
class TriangularAttention final {
 public:
  TriangularAttention(const Scope& scope, const TriangularAttentionConfig& config,
                      const InitScheme& init, int layer);

  // z: [batch, n, n, pair] -> the same shape: what is to be added to z. Throws ShapeError for
  // others.
  [[nodiscard]] Var operator()(const Var& z, const Pass& pass) const;

 private:
  [[nodiscard]] Var around_starting_node(const Var& z, const Pass& pass) const;

  TriangularAttentionConfig config_;
  std::string path_;
  int layer_;
  Norm norm_;
  Linear query_;
  Linear key_;
  Linear value_;
  Linear closing_;
  Linear gate_;
  Linear output_;
};

}  // namespace attune
