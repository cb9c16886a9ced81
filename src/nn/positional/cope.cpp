#include <algorithm>
#include <cmath>

#include "attune/ops/arithmetic.h"
#include "attune/ops/columns.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr std::int64_t kMostPositions = 64;

// The whole part of each element, as columns.
Columns whole_part(const Array& x) {
  Columns columns{x.shape(), {}};
  columns.values.reserve(static_cast<std::size_t>(x.size()));
  dispatch(x.dtype(), [&]<class T>() {
    for (const T value : x.data<T>())
      columns.values.push_back(static_cast<std::int32_t>(std::floor(value)));
  });
  return columns;
}

Array as_array(const Columns& columns, DType dtype) {
  const std::vector<double> values(columns.values.begin(), columns.values.end());
  return Array::from(columns.shape, values, dtype);
}

// Contextual position encoding (CoPE; Golovneva et al. 2024, section 4). A query counts the keys
// back to j through gates on their scores, and adds what it makes of that position, between two
// rows of a table:
//   gate_ik = sigmoid(score_ik)    p_ij = min(sum_(k = j .. i) gate_ik, P - 1)
//   score_ij + (1 - f) q_i . e_n + f q_i . e_(n + 1),    n + f = p_ij
// The gates of masked keys are 0. Order comes from the causal mask, integer positions are not read.
// Parameter of each layer, for all heads: <layer>.table e [P, head_dim], P = min(trained length,
// 64); it starts at 0, as no encoding.
class Cope final : public PositionalEncoding {
 public:
  Cope(const Scope& scope, const PositionalConfig& config)
      : heads_(config.heads), last_(std::min(config.block_size, kMostPositions) - 1) {
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      tables_.push_back(
          &(scope / layer)
               .parameter("table", {last_ + 1, config.head_dim}, Initializer::constant(0)));
    }
  }

  [[nodiscard]] std::string_view name() const override { return "cope"; }

  [[nodiscard]] bool depends_on_content() const override { return true; }
  [[nodiscard]] Var content_bias(const Var& query, const Var&, const Var& scores, const Array& keep,
                                 int layer, const PositionContext&,
                                 const Pass& pass) const override {
    const DType dtype = scores.dtype();
    const Var gates = where(keep, sigmoid(scores), Array::scalar(0, dtype));
    const Var position =
        minimum(cumsum(gates, -1, true), Array::scalar(static_cast<double>(last_), dtype));
    const Columns lower = whole_part(position.value());
    Columns upper = lower;
    for (std::int32_t& column : upper.values)
      column = std::min(column + 1, static_cast<std::int32_t>(last_));

    const Var table = pass(*tables_[static_cast<std::size_t>(layer)]);
    const Var by_position = linear(split_heads(query, heads_), table);  // [.., query, P]
    const Var below = take_columns(by_position, lower);
    const Var above = take_columns(by_position, upper);
    return below + (above - below) * (position - as_array(lower, dtype));
  }

  [[nodiscard]] bool reads_positions() const override { return false; }
  [[nodiscard]] bool depends_on_trained_length() const override { return true; }

 private:
  std::int64_t heads_;
  std::int64_t last_;                     // P - 1
  std::vector<const Parameter*> tables_;  // [layers]
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_cope(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme&) {
  return std::make_unique<Cope>(scope, config);
}

}  // namespace attune::positional
